package indextables;

import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;

/**
 * Search operators in anybody's SQL, rewritten as function calls, which Spark's parser understands. What is an operator,
 * and what is left alone, is told in indextables.spark.extension; this is the same for the driver, word for word.
 */
public class SearchOperators {
  private static final List OPERATORS = Arrays.asList(new Object[] {"TEXTSEARCH", "FIELDMATCH", "INDEXQUERY"});
  private static final Set BEFORE_AN_EXPRESSION =
      new HashSet(
          Arrays.asList(
              (Object[])
                  ("ALL AND ANY AS BETWEEN BY CASE DISTINCT ELSE EXISTS FILTER FROM HAVING IN IS JOIN LIKE NOT ON OR"
                          + " QUALIFY SELECT SET SOME THEN UNION USING VALUES WHEN WHERE WITH")
                      .split(" ")));

  /** The same SQL with search operators as calls; the very same text if there is none, or if its quotes do not close. */
  public static String rewrite(String sql) {
    String upper = sql.toUpperCase(Locale.ROOT);
    boolean any = false;
    for (int i = 0; i < OPERATORS.size(); i++) any = any || upper.indexOf((String) OPERATORS.get(i)) >= 0;
    if (!any) return sql;
    SqlText text = new SqlText(sql);
    List pieces = text.pieces(Integer.MAX_VALUE);
    if (!text.closed) return sql;
    StringBuilder out = new StringBuilder();
    int at = 0;
    for (int i = 1; i < pieces.size(); i++) {
      SqlText.Piece operator = piece(pieces, i);
      int end = OPERATORS.contains(operator.upper()) ? textEnd(pieces, i + 1) : SqlText.NEVER;
      if (end == SqlText.NEVER) continue;
      SqlText.Piece last = piece(pieces, i - 1);
      int first = columnStart(pieces, i - 1);
      if (isEveryColumn(pieces, i - 1)) {
        String everywhere = operator.upper().equals("FIELDMATCH") ? "fieldmatchall(" : "indexqueryall(";
        out.append(sql, at, last.start).append(everywhere).append(sql, last.end, operator.start);
      } else if (first != SqlText.NEVER) {
        int start = piece(pieces, first).start;
        out.append(sql, at, start).append(operator.upper().toLowerCase(Locale.ROOT)).append('(');
        out.append(sql, start, operator.start).append(',');
      } else {
        continue;
      }
      out.append(sql, operator.end, end).append(')');
      at = end;
    }
    return out.append(sql, at, sql.length()).toString();
  }

  /** Many at once, for comparing with the Python side. */
  public static String rewriteAll(String statements) {
    String[] each = statements.split("\u0001", -1);
    StringBuilder out = new StringBuilder();
    for (int i = 0; i < each.length; i++) out.append(i == 0 ? "" : "\u0001").append(rewrite(each[i]));
    return out.toString();
  }

  private static SqlText.Piece piece(List pieces, int index) {
    return (SqlText.Piece) pieces.get(index);
  }

  /** Where the text after an operator ends: strings side by side, or a parameter. */
  private static int textEnd(List pieces, int index) {
    int last = index;
    while (last < pieces.size() && piece(pieces, last).kind == 't') last++;
    if (last > index) return piece(pieces, last - 1).end;
    if (index < pieces.size() && piece(pieces, index).isSign("?")) return piece(pieces, index).end;
    boolean named = index + 1 < pieces.size() && piece(pieces, index).isSign(":") && piece(pieces, index + 1).kind == 'w';
    return named ? piece(pieces, index + 1).end : SqlText.NEVER;
  }

  /** The first piece of the column whose last piece is given; a column is a name in parts, and no keyword. */
  private static int columnStart(List pieces, int last) {
    int first = last;
    if (!isName(piece(pieces, first))) return SqlText.NEVER;
    while (first >= 2 && piece(pieces, first - 1).isSign(".") && isName(piece(pieces, first - 2))) first -= 2;
    if (first > 0 && piece(pieces, first - 1).isSign(".:@$")) return SqlText.NEVER;
    boolean keyword = first == last && BEFORE_AN_EXPRESSION.contains(piece(pieces, first).upper());
    return keyword ? SqlText.NEVER : first;
  }

  private static boolean isName(SqlText.Piece piece) {
    if (piece.kind == 'q') return true;
    if (piece.kind != 'w') return false;
    int type = Character.getType(piece.text.codePointAt(0));
    return type != Character.DECIMAL_DIGIT_NUMBER && !isOtherDigit(piece.text.codePointAt(0));
  }

  /** Digits that are no decimal ones: superscripts and the like. */
  private static boolean isOtherDigit(int letter) {
    return Character.getType(letter) == Character.OTHER_NUMBER && Character.getNumericValue(letter) >= 0
        && Character.getNumericValue(letter) <= 9;
  }

  private static boolean isEveryColumn(List pieces, int index) {
    SqlText.Piece found = piece(pieces, index);
    boolean begins = true;
    if (index > 0) {
      SqlText.Piece before = piece(pieces, index - 1);
      begins = before.isSign("(,") || BEFORE_AN_EXPRESSION.contains(before.upper());
    }
    return begins && (found.isSign("*") || found.upper().equals("_INDEXALL"));
  }
}
