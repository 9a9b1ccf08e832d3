package indextables;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SingleStatement;
import org.apache.spark.sql.execution.command.ExplainCommand;
import scala.runtime.AbstractPartialFunction;

/**
 * Our statements under EXPLAIN and in BEGIN ... END scripts. Spark's parser reads `TABLE placeholder` in their place, and the
 * placeholders of its plan are replaced by the statements.
 */
class EmbeddedStatements {
  private static final String PLACEHOLDER = "__indextables_statement_";
  private static final List MODES = Arrays.asList(new Object[] {"LOGICAL", "FORMATTED", "EXTENDED", "CODEGEN", "COST"});
  /** Words after which a statement of a script begins. */
  private static final List BEFORE_A_STATEMENT =
      Arrays.asList(new Object[] {"BEGIN", "ATOMIC", "THEN", "ELSE", "DO", "LOOP", "REPEAT"});

  private final List statements = new ArrayList();
  /** The SQL with placeholders; the very same text if there is none of our statements. */
  final String sql;

  EmbeddedStatements(String sql) {
    this.sql = replace(sql);
  }

  private String replace(String given) {
    List first = new SqlText(given).pieces(3);
    boolean explains = isWord(first, 0, "EXPLAIN");
    if (!explains && !isWord(first, 0, "BEGIN") && !isWord(first, 2, "BEGIN")) return given;
    SqlText text = new SqlText(given);
    List pieces = text.pieces(Integer.MAX_VALUE);
    if (!text.closed) return given;
    StringBuilder out = new StringBuilder();
    int copied = 0;
    for (int i = 1; i < pieces.size(); i++) {
      boolean begins = explains ? beginsExplained(pieces, i) : beginsInScript(pieces, i);
      if (!begins) continue;
      int last = lastPiece(pieces, i);
      String statement = given.substring(piece(pieces, i).start, piece(pieces, last).end);
      if (!Statements.areOurs(statement) && !NamedStatement.mayBeOurs(statement)) continue;
      out.append(given, copied, piece(pieces, i).start).append("TABLE " + PLACEHOLDER + statements.size());
      statements.add(statement);
      copied = piece(pieces, last).end;
      i = last;
    }
    return out.append(given, copied, given.length()).toString();
  }

  private static boolean beginsExplained(List pieces, int index) {
    return index == 1 || (index == 2 && MODES.contains(piece(pieces, 1).upper()));
  }

  private static boolean beginsInScript(List pieces, int index) {
    SqlText.Piece before = piece(pieces, index - 1);
    return before.isSign(";:") || BEFORE_A_STATEMENT.contains(before.upper());
  }

  /** The last piece of the statement that begins at a piece: the one before the next semicolon. */
  private static int lastPiece(List pieces, int first) {
    int last = first;
    while (last + 1 < pieces.size() && !piece(pieces, last + 1).isSign(";")) last++;
    return last;
  }

  private static SqlText.Piece piece(List pieces, int index) {
    return (SqlText.Piece) pieces.get(index);
  }

  private static boolean isWord(List pieces, int index, String word) {
    return pieces.size() > index && piece(pieces, index).upper().equals(word);
  }

  /** The parsed plan with the statements in place of the placeholders. */
  Object restore(Object parsed) {
    if (statements.isEmpty()) return parsed;
    if (parsed instanceof ExplainCommand) {
      ExplainCommand explain = (ExplainCommand) parsed;
      return new ExplainCommand((LogicalPlan) restore(explain.logicalPlan()), explain.mode());
    }
    return ((LogicalPlan) parsed).transformDown(new Restored(statements));
  }

  static class Restored extends AbstractPartialFunction {
    private final List statements;

    Restored(List statements) {
      this.statements = statements;
    }

    public boolean isDefinedAt(Object node) {
      return name(node).startsWith(PLACEHOLDER);
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      int number = Integer.parseInt(name(node).substring(PLACEHOLDER.length()));
      EmbeddedStatement statement = new EmbeddedStatement((String) statements.get(number));
      return node instanceof SingleStatement ? (Object) new SingleStatement(statement) : (Object) statement;
    }

    /** The first part of the name of a relation, or of a statement of a script that is one: that is not its child. */
    private static String name(Object node) {
      Object plan = node instanceof SingleStatement ? ((SingleStatement) node).parsedPlan() : node;
      return plan instanceof UnresolvedRelation ? (String) ((UnresolvedRelation) plan).multipartIdentifier().head() : "";
    }
  }
}
