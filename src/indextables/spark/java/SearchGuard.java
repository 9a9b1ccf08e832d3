package indextables;

import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.execution.SparkStrategy;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/** Looks at every plan after optimization: a search that is still in it has found no table, so the query is refused. */
public class SearchGuard extends SparkStrategy {
  public Seq apply(LogicalPlan plan) {
    if (plan.containsPattern(TreePattern.SCALA_UDF())) plan.foreach(new EachNode());
    return (Seq) scala.collection.immutable.Seq$.MODULE$.empty();
  }

  /** Whether a search is in a plan. */
  static boolean searches(LogicalPlan plan) {
    if (!plan.containsPattern(TreePattern.SCALA_UDF())) return false;
    try {
      plan.foreach(new EachNode());
      return false;
    } catch (IllegalArgumentException refused) {
      return true;
    }
  }

  static class EachNode extends AbstractFunction1 {
    public Object apply(Object node) {
      ((LogicalPlan) node).expressions().foreach(new EachExpression());
      return BoxedUnit.UNIT;
    }
  }

  static class EachExpression extends AbstractFunction1 {
    public Object apply(Object given) {
      Expression e = (Expression) given;
      if (SearchFunction.nameOf(e) != null) throw SearchFunction.refusal(e.toString());
      e.children().foreach(this);
      return BoxedUnit.UNIT;
    }
  }
}
