package indextables;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Statements that Spark does not know, or not for tables like ours, with the name of a table where the grammar in Python has
 * its path: OPTIMIZE t, VACUUM t, RESTORE TABLE t, DESCRIBE HISTORY t, DESCRIBE DETAIL t, ANALYZE TABLE t. They are ours
 * only if the name is one of our tables; everybody else's pass.
 */
class NamedStatement {
  private static final List LEADS =
      Arrays.asList(
          new Object[] {
            "DESCRIBE HISTORY", "DESC HISTORY", "DESCRIBE DETAIL", "DESC DETAIL", "RESTORE TABLE", "ANALYZE TABLE",
            "OPTIMIZE", "VACUUM", "RESTORE"
          });

  private static final List FORMATS = Arrays.asList(new Object[] {"INDEXTABLES", "INDEXTABLE", "TANTIVY4SPARK"});

  /** The statement, with the table's path in quotes; null if it is none of these, or about another's table. */
  static StatementCommand of(SparkSession session, String sql) {
    List pieces = new SqlText(sql).pieces(16);
    String lead = lead(pieces);
    if (lead == null) return null;
    int first = lead.split(" ").length;
    List parts = new ArrayList();
    int at = first;
    while (at < pieces.size() && isName(piece(pieces, at))) {
      parts.add(name(piece(pieces, at)));
      boolean goesOn = at + 1 < pieces.size() && piece(pieces, at + 1).isSign(".");
      at += goesOn ? 2 : 1;
      if (!goesOn) break;
    }
    if (parts.isEmpty()) return null;
    DataSourceV2Relation table = RowChangeCommand.relation(session, CollectionConverters.asScala(parts).toSeq());
    if (table == null) {
      refuseUnknown(session, lead, parts);
      return null;
    }
    String path = RowChangeCommand.pathOf(table);
    String quoted = "'" + path.replace("\\", "\\\\").replace("'", "\\'") + "'";
    String rest = sql.substring(piece(pieces, at - 1).end);
    return StatementCommand.about(RowChangeCommand.nameOf(table), session, statement(lead, quoted, rest));
  }

  /** A table that nobody knows is named as such: Spark would complain about the words before it. */
  private static void refuseUnknown(SparkSession session, String lead, List parts) {
    if (RowChangeCommand.missing(session, parts) == null || lead.equals("ANALYZE TABLE")) return;
    // DESCRIBE history id: a column of a table that has this name.
    boolean described = lead.startsWith("DESC");
    List word = Arrays.asList(new Object[] {lead.substring(lead.indexOf(' ') + 1)});
    if (described && RowChangeCommand.missing(session, word) == null) return;
    throw new StatementError("TABLE_NOT_FOUND", "There is no table or view " + parts.toString().replace(", ", ".").replaceAll("[\\[\\]]", "") + ".");
  }

  private static String statement(String lead, String path, String rest) {
    if (lead.equals("ANALYZE TABLE")) return "DESCRIBE DETAIL " + path;
    String words = lead.equals("RESTORE") ? "RESTORE TABLE" : lead.replace("DESC ", "DESCRIBE ");
    return words + " " + path + rest;
  }

  /** Whether a statement inside another one may be one of these: whose table it names is decided when it runs. */
  static boolean mayBeOurs(String sql) {
    return lead(new SqlText(sql).pieces(16)) != null;
  }

  private static String lead(List pieces) {
    String one = pieces.size() > 1 ? piece(pieces, 0).upper() : "";
    String two = pieces.size() > 2 ? one + " " + piece(pieces, 1).upper() : "";
    if (LEADS.contains(two)) return two;
    return LEADS.contains(one) && !isAboutTheFormat(pieces) ? one : null;
  }

  /** RESTORE INDEXTABLES 'path' or t, which is ours as it stands; RESTORE indextables TO ... is about a table of that name. */
  private static boolean isAboutTheFormat(List pieces) {
    if (!FORMATS.contains(piece(pieces, 1).upper())) return false;
    if (pieces.size() == 2) return true;
    SqlText.Piece third = piece(pieces, 2);
    return (isName(third) || third.kind == 't') && !third.upper().equals("TO");
  }

  private static SqlText.Piece piece(List pieces, int index) {
    return (SqlText.Piece) pieces.get(index);
  }

  private static boolean isName(SqlText.Piece piece) {
    return piece.kind == 'w' || piece.kind == 'q';
  }

  private static String name(SqlText.Piece piece) {
    if (piece.kind == 'w') return piece.text;
    return piece.text.substring(1, piece.text.length() - 1).replace("``", "`");
  }
}
