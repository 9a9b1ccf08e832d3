package indextables;

import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.command.CreateTableLikeCommand;

/**
 * Puts our commands in place of DELETE, UPDATE and MERGE INTO on our tables, and of our statements inside scripts and EXPLAIN.
 * It runs before Spark resolves names, after WITH and parameters are substituted, and each time a statement of a script runs:
 * a table may be created by the statement before. `DataFrame.mergeInto` comes the same way.
 */
public class StatementRule extends Rule {
  private final SparkSession session;

  StatementRule(SparkSession session) {
    this.session = session;
  }

  public TreeNode apply(TreeNode given) {
    LogicalPlan plan = (LogicalPlan) given;
    if (plan instanceof EmbeddedStatement) plan = ((EmbeddedStatement) plan).parse(session);
    if (plan instanceof CreateTableLikeCommand && !CatalogApi.HAS_LIKE) refuseLike((CreateTableLikeCommand) plan);
    if (plan instanceof InsertIntoStatement && SparkApi.refusesMissingColumns(session))
      return MissingColumns.fill(session, (InsertIntoStatement) plan);
    if (!isRowChange(plan)) return plan;
    LogicalPlan command = RowChangeCommand.of(session, plan);
    return command == null ? plan : command;
  }

  /** Before Spark 4.2 a table made like another is an entry of Spark's own catalog: without a log it is not one of ours. */
  private void refuseLike(CreateTableLikeCommand command) {
    boolean named = command.provider().isDefined() && TableRelation.isFormat((String) command.provider().get());
    if (!named && command.provider().isDefined()) return;
    if (!named && RowChangeCommand.relation(session, command.sourceTable().nameParts()) == null) return;
    throw new StatementError(
        "UNSUPPORTED",
        "CREATE TABLE " + command.targetTable() + " LIKE " + command.sourceTable() + " needs Spark 4.2 or newer: this is "
            + session.version() + ". List the columns instead: CREATE TABLE ... (...) USING indextables.");
  }

  static boolean isRowChange(Object plan) {
    return plan instanceof DeleteFromTable || plan instanceof UpdateTable || plan instanceof MergeIntoTable;
  }
}
