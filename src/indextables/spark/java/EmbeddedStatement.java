package indextables;

import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/** A statement inside a script or EXPLAIN that Spark's grammar does not have. It is parsed when it is about to run. */
public class EmbeddedStatement extends LogicalPlan {
  private final String sql;

  public EmbeddedStatement(String sql) {
    this.sql = sql;
  }

  LogicalPlan parse(SparkSession session) {
    try {
      return session.sessionState().sqlParser().parsePlan(sql);
    } catch (ParseException e) { // a rule does not declare it
      CatalogRequest.raise(e);
      return null;
    }
  }

  public boolean resolved() {
    return false;
  }

  public Seq output() {
    return (Seq) scala.collection.immutable.Seq$.MODULE$.empty();
  }

  public Seq children() {
    return (Seq) scala.collection.immutable.Seq$.MODULE$.empty();
  }

  public LogicalPlan withNewChildrenInternal(IndexedSeq children) {
    return this;
  }

  public int productArity() {
    return 1;
  }

  public Object productElement(int index) {
    return sql;
  }

  public boolean canEqual(Object other) {
    return other instanceof EmbeddedStatement;
  }

  public boolean equals(Object other) {
    return other instanceof EmbeddedStatement && ((EmbeddedStatement) other).sql.equals(sql);
  }

  public int hashCode() {
    return sql.hashCode();
  }
}
