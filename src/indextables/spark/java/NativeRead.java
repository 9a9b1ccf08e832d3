package indextables;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/** A table that was named in SQL and is not searched, as `its.table` reads it: by Spark's own Parquet scan where it can. */
class NativeRead extends AbstractPartialFunction {
  private final Set used; // the columns that are wanted of any relation

  private NativeRead(Set used) {
    this.used = used;
  }

  static LogicalPlan in(LogicalPlan plan) {
    return (LogicalPlan) plan.transformDown(new NativeRead(RowMetadata.used(plan)));
  }

  public boolean isDefinedAt(Object node) {
    return plan(node) != null;
  }

  public Object applyOrElse(Object node, scala.Function1 otherwise) {
    LogicalPlan made = plan(node);
    return made == null ? otherwise.apply(node) : made;
  }

  private LogicalPlan plan(Object node) {
    if (!(node instanceof DataSourceV2Relation)) return null;
    DataSourceV2Relation relation = (DataSourceV2Relation) node;
    // Options say something of the read that only the data source understands.
    if (!(relation.table() instanceof NamedTable) || !relation.options().isEmpty()) return null;
    LogicalPlan read = ((NamedTable) relation.table()).plan(SparkSession.active());
    return read == null ? null : renamed(read, relation.output(), ((NamedTable) relation.table()).schema());
  }

  /** The plan's columns as those that the query around the relation knows. */
  private LogicalPlan renamed(LogicalPlan read, Seq output, StructType stored) {
    List columns = new ArrayList();
    scala.collection.Iterator each = output.iterator();
    while (each.hasNext()) {
      AttributeReference column = (AttributeReference) each.next();
      Attribute same = null;
      Seq none = (Seq) scala.collection.immutable.Seq$.MODULE$.empty();
      boolean besides = RowMetadata.isOne(column) && stored.getFieldIndex(column.name()).isEmpty();
      if (besides && used.contains(column.exprId())) return null; // the data source knows it, or says why not
      if (besides) {
        columns.add(
            new Alias(
                (Expression) new Literal(null, column.dataType()), column.name(), column.exprId(), column.qualifier(),
                scala.Option.apply(column.metadata()), none));
        continue;
      }
      scala.collection.Iterator all = read.output().iterator();
      while (all.hasNext()) {
        Attribute one = (Attribute) all.next();
        if (one.name().equals(column.name())) same = one;
      }
      if (same == null) return null;
      columns.add(
          new Alias(
              (Expression) same, column.name(), column.exprId(), column.qualifier(),
              scala.Option.apply(column.metadata()), none));
    }
    return new Project(CollectionConverters.asScala(columns).toSeq(), read);
  }
}
