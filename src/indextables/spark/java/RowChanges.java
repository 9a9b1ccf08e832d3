package indextables;

import java.util.Collections;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.SingleStatement;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias$;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.command.CreateTableLikeCommand;
import org.apache.spark.sql.execution.command.ExplainCommand;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * DELETE, UPDATE and MERGE INTO on our tables wherever they stand in what Spark's parser has read: alone, after WITH, under
 * EXPLAIN, in a BEGIN ... END script.
 */
class RowChanges {
  /** The plan with our commands in place of row changes on our tables. */
  static Object in(SparkSession session, String sql, Object parsed) {
    if (parsed instanceof ExplainCommand) {
      ExplainCommand explain = (ExplainCommand) parsed;
      Object explained = in(session, sql, explain.logicalPlan());
      return explained == explain.logicalPlan() ? parsed : new ExplainCommand((LogicalPlan) explained, explain.mode());
    }
    if (!(parsed instanceof LogicalPlan)) return parsed;
    return ((LogicalPlan) parsed).transformDown(new Change(session, sql));
  }

  static boolean isOne(Object plan) {
    return plan instanceof DeleteFromTable || plan instanceof UpdateTable || plan instanceof MergeIntoTable;
  }

  static class Change extends AbstractPartialFunction {
    private final SparkSession session;
    private final String sql;
    private Object last; // a node is asked for twice, and its table is looked up
    private LogicalPlan lastMade;

    Change(SparkSession session, String sql) {
      this.session = session;
      this.sql = sql;
    }

    public boolean isDefinedAt(Object node) {
      return changed(node) != null;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      LogicalPlan made = changed(node);
      return made == null ? otherwise.apply(node) : made;
    }

    private LogicalPlan changed(Object node) {
      if (node != last) lastMade = made(node);
      last = node;
      return lastMade;
    }

    private LogicalPlan made(Object node) {
      if (node instanceof SingleStatement) return inScript((SingleStatement) node);
      if (node instanceof CreateTableLikeCommand && !CatalogApi.HAS_LIKE) refuse((CreateTableLikeCommand) node);
      LogicalPlan change = alone(node);
      return change == null ? null : RowChangeCommand.of(session, sql, change);
    }

    /** Before Spark 4.2 a table made like another is an entry of Spark's own catalog: without a log it is not one of ours. */
    private void refuse(CreateTableLikeCommand command) {
      boolean named = command.provider().isDefined() && TableRelation.isFormat((String) command.provider().get());
      if (!named && (command.provider().isDefined() || RowChangeCommand.relation(session, command.sourceTable().nameParts()) == null)) return;
      throw new StatementError(
          "UNSUPPORTED",
          "CREATE TABLE " + command.targetTable() + " LIKE " + command.sourceTable() + " needs Spark 4.2 or newer: this is "
              + session.version() + ". List the columns instead: CREATE TABLE ... (...) USING indextables.");
    }

    /** A statement of a script runs after those before it, which may make its table: that is looked up when it runs. */
    private LogicalPlan inScript(SingleStatement statement) {
      LogicalPlan change = alone(statement.parsedPlan());
      if (change == null) return null;
      return new SingleStatement(new LateRowChange(sql, RowChangeCommand.attributes(), none(), change));
    }
  }

  /** A row change that needs nothing around it; null for any other plan. */
  private static LogicalPlan alone(Object node) {
    if (isOne(node)) return (LogicalPlan) node;
    if (!(node instanceof UnresolvedWith) || !isOne(((UnresolvedWith) node).child())) return null;
    UnresolvedWith with = (UnresolvedWith) node;
    LogicalPlan change = (LogicalPlan) with.child().transformExpressions(new Subqueries(with));
    if (!(change instanceof MergeIntoTable)) return change;
    LogicalPlan target = ((MergeIntoTable) change).targetTable();
    return (LogicalPlan) change.withNewChildren(two(target, source(((MergeIntoTable) change).sourceTable(), with)));
  }

  /** The source of a MERGE with the queries of WITH, under the name that it has. */
  private static LogicalPlan source(LogicalPlan source, UnresolvedWith with) {
    if (source instanceof SubqueryAlias)
      return (LogicalPlan) source.withNewChildren(one(scoped(((SubqueryAlias) source).child(), with)));
    if (!(source instanceof UnresolvedRelation)) return scoped(source, with);
    String name = (String) ((UnresolvedRelation) source).multipartIdentifier().last();
    return SubqueryAlias$.MODULE$.apply(name, scoped(source, with));
  }

  private static LogicalPlan scoped(LogicalPlan query, UnresolvedWith with) {
    return (LogicalPlan) with.withNewChildren(one(query));
  }

  private static Seq none() {
    return (Seq) scala.collection.immutable.Seq$.MODULE$.empty();
  }

  private static Seq one(Object plan) {
    return CollectionConverters.asScala(Collections.singletonList(plan)).toSeq();
  }

  private static Seq two(Object first, Object second) {
    return CollectionConverters.asScala(java.util.Arrays.asList(new Object[] {first, second})).toSeq();
  }

  /** Gives the subqueries of conditions the queries of WITH. */
  static class Subqueries extends AbstractPartialFunction {
    private final UnresolvedWith with;

    Subqueries(UnresolvedWith with) {
      this.with = with;
    }

    public boolean isDefinedAt(Object e) {
      return e instanceof PlanExpression && ((PlanExpression) e).plan() instanceof LogicalPlan;
    }

    public Object applyOrElse(Object e, scala.Function1 otherwise) {
      if (!isDefinedAt(e)) return otherwise.apply(e);
      return ((PlanExpression) e).withNewPlan(scoped((LogicalPlan) ((PlanExpression) e).plan(), with));
    }
  }
}
