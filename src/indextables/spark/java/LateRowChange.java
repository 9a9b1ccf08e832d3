package indextables;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import scala.collection.immutable.Seq;

/** A row change in a script: whether its table is ours is known when it runs. One on another table is Spark's. */
public class LateRowChange extends StatementCommand {
  private final LogicalPlan plan;

  public LateRowChange(String sql, Seq columns, Seq name, LogicalPlan plan) {
    super(sql, columns, name);
    this.plan = plan;
  }

  public Seq run(org.apache.spark.sql.SparkSession session) {
    SparkSession spark = (SparkSession) session;
    StatementCommand change = RowChangeCommand.of(spark, (String) productElement(0), plan);
    if (change != null) return change.run(session);
    org.apache.spark.sql.classic.Dataset.ofRows(spark, plan);
    return (Seq) scala.collection.immutable.Seq$.MODULE$.empty();
  }

  public int productArity() {
    return 4;
  }

  public Object productElement(int place) {
    return place < 3 ? super.productElement(place) : plan;
  }

  public boolean equals(Object other) {
    return other instanceof LateRowChange && ((LateRowChange) other).plan.equals(plan);
  }

  public int hashCode() {
    return plan.hashCode();
  }
}
