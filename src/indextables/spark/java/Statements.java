package indextables;

import java.util.Arrays;
import java.util.List;

/** Whether a statement is ours, by its first words alone. The grammar is in Python (indextables.commands). */
public class Statements {
  private static final List LEADS =
      Arrays.asList(
          new Object[] {
            "MERGE SPLITS", "PURGE INDEXTABLE", "DROP INDEXTABLE", "CHECKPOINT INDEXTABLE", "COMPACT INDEXTABLE",
            "TRUNCATE INDEXTABLE", "REPAIR INDEXFILES", "RESTORE INDEXTABLE", "VERIFY INDEXTABLE", "EXPIRE INDEXTABLE",
            "TAG INDEXTABLE", "UNTAG INDEXTABLE", "ERASE FROM", "DESCRIBE INDEXTABLE",
            "FLUSH INDEXTABLE", "PREWARM INDEXTABLE", "INVALIDATE INDEXTABLE", "INVALIDATE TRANSACTION", "REPAIR INDEX",
            "WAIT FOR", "BUILD INDEXTABLE", "SET INDEXTABLE", "UNSET INDEXTABLE", "ENABLE INDEXTABLE", "DISABLE INDEXTABLE",
            "RESET INDEXTABLE"
          });
  /** Ours only with a path in quotes: Spark and others have statements with these words about tables by name. */
  private static final List WITH_A_PATH =
      Arrays.asList(new Object[] {"VACUUM", "OPTIMIZE", "RESTORE TABLE", "DESCRIBE HISTORY", "DESCRIBE DETAIL"});
  /** First words that Spark has statements with too, about anything whose name may begin as ours do. */
  private static final List SHARED = Arrays.asList(new Object[] {"DESCRIBE", "SET", "UNSET", "RESET"});
  private static final List DESCRIBED =
      Arrays.asList(
          new Object[] {
            "STATE", "TRANSACTION", "HISTORY", "SKIPPED", "COMPONENT", "MERGE", "STORAGE", "ENVIRONMENT", "DISK", "PREWARM",
            "TABLE", "DATA", "PROFILER", "LOG"
          });

  /** `DESCRIBE INDEXTABLES x` may be about a table of that name: the third word must be ours, or a path must follow. */
  public static boolean areOurs(String sql) {
    List pieces = new SqlText(sql).pieces(4);
    if (pieces.size() < 2) return false;
    if (leadsToAPath(pieces)) return true;
    String first = first(pieces);
    if (!LEADS.contains(first + " " + second(pieces))) return false;
    if (!SHARED.contains(first)) return true;
    String third = pieces.size() > 2 ? upper(pieces, 2) : "";
    if (first.equals("RESET")) return third.equals("PROFILER");
    if (!first.equals("DESCRIBE")) return third.equals("TABLE");
    boolean described = DESCRIBED.contains(third);
    for (int i = 2; i < pieces.size(); i++) described = described || isPath(pieces, i);
    return described;
  }

  /** The second word of `DESCRIBE INDEXTABLES word`, which Spark takes for a table's column if it is misspelt; else null. */
  static String describedName(String sql) {
    List pieces = new SqlText(sql).pieces(4);
    boolean one = pieces.size() == 3 || (pieces.size() == 4 && ((SqlText.Piece) pieces.get(3)).isSign(";"));
    if (!one || upper(pieces, 2).isEmpty() || !first(pieces).equals("DESCRIBE")) return null;
    return second(pieces).equals("INDEXTABLE") ? ((SqlText.Piece) pieces.get(1)).text : null;
  }

  /** The first word, in one spelling. */
  private static String first(List pieces) {
    String word = upper(pieces, 0);
    return word.equals("DESC") ? "DESCRIBE" : word;
  }

  private static String second(List pieces) {
    String word = upper(pieces, 1);
    return word.equals("INDEXTABLES") || word.equals("TANTIVY4SPARK") ? "INDEXTABLE" : word;
  }

  private static boolean leadsToAPath(List pieces) {
    String lead = "";
    for (int i = 0; i < pieces.size(); i++) {
      if (isPath(pieces, i)) return WITH_A_PATH.contains(lead);
      lead = i == 0 ? first(pieces) : lead + " " + upper(pieces, i);
    }
    return false;
  }

  /** One letter for each of many, for comparing with the Python side. */
  public static String which(String statements) {
    String[] each = statements.split("\u0001", -1);
    StringBuilder out = new StringBuilder();
    for (int i = 0; i < each.length; i++) out.append(areOurs(each[i]) ? 'y' : 'n');
    return out.toString();
  }

  /** A text in quotes; one between dollars is none of ours. */
  private static boolean isPath(List pieces, int index) {
    SqlText.Piece piece = (SqlText.Piece) pieces.get(index);
    return piece.kind == 't' && piece.text.charAt(0) != '$';
  }

  private static String upper(List pieces, int index) {
    return ((SqlText.Piece) pieces.get(index)).upper();
  }
}
