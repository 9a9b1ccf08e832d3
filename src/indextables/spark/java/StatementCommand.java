package indextables;

import java.util.Collections;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.execution.command.LeafRunnableCommand;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** One of our statements in a plan. Spark runs it once, at once, on the driver, like every command of its own. */
public class StatementCommand extends LogicalPlan implements LeafRunnableCommand {
  private final String sql;
  private final Seq columns;
  private final Seq name;

  /** Public, with what `productElement` returns: Spark copies nodes this way. */
  public StatementCommand(String sql, Seq columns, Seq name) {
    this.sql = sql;
    this.columns = columns;
    this.name = name;
  }

  /** Python reads the statement here, so that a mistake in it is told before anything runs. */
  static StatementCommand parsed(SparkSession session, String sql) {
    return about((Seq) scala.collection.immutable.Seq$.MODULE$.empty(), session, sql);
  }

  /** The same about a table by its whole name: what Spark has cached of its rows is read anew afterwards. */
  static StatementCommand about(Seq name, SparkSession session, String sql) {
    return new StatementCommand(sql, DataTypeUtils.toAttributes(StatementRunner.columns(session, sql)), name);
  }

  public Seq output() {
    return columns;
  }

  public Seq run(org.apache.spark.sql.SparkSession session) {
    SparkSession spark = (SparkSession) session;
    Seq rows = rows(spark);
    if (!name.isEmpty()) SparkApi.recache(spark, name);
    return rows;
  }

  Seq rows(SparkSession session) {
    return CollectionConverters.asScala(StatementRunner.rows(session, sql).collectAsList()).toSeq();
  }

  public Seq nodePatterns() {
    return CollectionConverters.asScala(Collections.singletonList(TreePattern.COMMAND())).toSeq();
  }

  public void org$apache$spark$sql$catalyst$plans$logical$Command$_setter_$nodePatterns_$eq(Seq value) {}

  public Seq children() {
    return (Seq) scala.collection.immutable.Seq$.MODULE$.empty();
  }

  public LogicalPlan mapChildren(scala.Function1 f) {
    return this;
  }

  public LogicalPlan withNewChildrenInternal(IndexedSeq children) {
    return this;
  }

  public AttributeSet producedAttributes() {
    return outputSet();
  }

  public scala.collection.immutable.Map metrics() {
    return (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty();
  }

  public String nodeName() {
    return "IndexTables";
  }

  public int productArity() {
    return 3;
  }

  public Object productElement(int place) {
    return place == 0 ? (Object) sql : place == 1 ? (Object) columns : (Object) name;
  }

  public boolean canEqual(Object other) {
    return other instanceof StatementCommand;
  }

  public boolean equals(Object other) {
    return other instanceof StatementCommand && ((StatementCommand) other).sql.equals(sql)
        && ((StatementCommand) other).columns.equals(columns);
  }

  public int hashCode() {
    return sql.hashCode();
  }
}
