package indextables;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases$;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Rows that Spark keeps in memory, in a query that searches: they have no index, so that the table itself is read, at the
 * version that was kept. It has the same rows.
 */
class CachedTable extends AbstractPartialFunction {
  static LogicalPlan read(LogicalPlan plan) {
    return (LogicalPlan) plan.transformUp(new CachedTable());
  }

  public boolean isDefinedAt(Object node) {
    return node instanceof InMemoryRelation && isTable(((InMemoryRelation) node).cacheBuilder().logicalPlan());
  }

  public Object applyOrElse(Object node, scala.Function1 otherwise) {
    if (!isDefinedAt(node)) return otherwise.apply(node);
    InMemoryRelation kept = (InMemoryRelation) node;
    LogicalPlan table = plain(kept.cacheBuilder().logicalPlan());
    List columns = new ArrayList();
    scala.collection.Iterator below = table.output().iterator();
    scala.collection.Iterator above = kept.output().iterator();
    Seq none = (Seq) scala.collection.immutable.Seq$.MODULE$.empty();
    while (below.hasNext()) {
      Attribute one = (Attribute) below.next();
      Attribute name = (Attribute) above.next();
      if (one.exprId().equals(name.exprId())) columns.add(one);
      else
        columns.add(
            new Alias((Expression) one, name.name(), name.exprId(), none, scala.Option.apply(name.metadata()), none));
    }
    return new Project(CollectionConverters.asScala(columns).toSeq(), table);
  }

  /** Whether a plan is rows of one table of ours: what else there may be (a join, a random number) is not done twice. */
  private static boolean isTable(LogicalPlan plan) {
    if (TableRule.table(plan) != null) return true;
    boolean passes = plan instanceof SubqueryAlias || plan instanceof View || plan instanceof Project || plan instanceof Filter;
    return passes && plan.deterministic() && isTable((LogicalPlan) plan.children().head());
  }

  /** The plan without names of its parts, which mean nothing to the optimizer. */
  private static LogicalPlan plain(LogicalPlan plan) {
    LogicalPlan named = EliminateSubqueryAliases$.MODULE$.apply(plan);
    return (LogicalPlan) named.transformUp(
        new AbstractPartialFunction() {
          public boolean isDefinedAt(Object node) {
            return node instanceof View;
          }

          public Object applyOrElse(Object node, scala.Function1 otherwise) {
            return isDefinedAt(node) ? ((View) node).child() : otherwise.apply(node);
          }
        });
  }
}
