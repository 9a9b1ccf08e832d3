package indextables;

import java.util.Arrays;
import java.util.List;

/** Whether a statement is ours, by its first words alone. The grammar is in Python (indextables.commands). */
public class Statements {
  private static final List LEADS =
      Arrays.asList(
          new Object[] {
            "MERGE SPLITS", "PURGE INDEXTABLE", "DROP INDEXTABLE", "CHECKPOINT INDEXTABLE", "COMPACT INDEXTABLE",
            "TRUNCATE INDEXTABLE", "REPAIR INDEXFILES", "RESTORE INDEXTABLE", "VERIFY INDEXTABLE", "DESCRIBE INDEXTABLE",
            "FLUSH INDEXTABLE", "PREWARM INDEXTABLE", "INVALIDATE INDEXTABLE"
          });
  private static final List DESCRIBED =
      Arrays.asList(
          new Object[] {
            "STATE", "TRANSACTION", "HISTORY", "SKIPPED", "COMPONENT", "MERGE", "ENVIRONMENT", "DISK"
          });

  /** `DESCRIBE INDEXTABLES x` may be about a table of that name: the third word must be ours, or a path must follow. */
  public static boolean areOurs(String sql) {
    List pieces = new SqlText(sql).pieces(4);
    if (pieces.size() < 2) return false;
    String second = upper(pieces, 1);
    if (second.equals("INDEXTABLES")) second = "INDEXTABLE";
    if (!LEADS.contains(upper(pieces, 0) + " " + second)) return false;
    if (!upper(pieces, 0).equals("DESCRIBE")) return true;
    boolean described = pieces.size() > 2 && DESCRIBED.contains(upper(pieces, 2));
    for (int i = 2; i < pieces.size(); i++) described = described || ((SqlText.Piece) pieces.get(i)).kind == 't';
    return described;
  }

  /** One letter for each of many, for comparing with the Python side. */
  public static String which(String statements) {
    String[] each = statements.split("\u0001", -1);
    StringBuilder out = new StringBuilder();
    for (int i = 0; i < each.length; i++) out.append(areOurs(each[i]) ? 'y' : 'n');
    return out.toString();
  }

  private static String upper(List pieces, int index) {
    return ((SqlText.Piece) pieces.get(index)).upper();
  }
}
