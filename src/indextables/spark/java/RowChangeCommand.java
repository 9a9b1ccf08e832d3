package indextables;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction0;

/** DELETE, UPDATE or MERGE INTO on one of our tables, as Spark has parsed it. Python carries it out, in one commit. */
public class RowChangeCommand extends StatementCommand {
  private static final StructType COLUMNS =
      new StructType()
          .add("num_affected_rows", DataTypes.LongType)
          .add("num_updated_rows", DataTypes.LongType)
          .add("num_deleted_rows", DataTypes.LongType)
          .add("num_inserted_rows", DataTypes.LongType);
  private final LogicalPlan plan;
  private final String path;
  private final String written;

  public RowChangeCommand(String sql, Seq columns, Seq name, LogicalPlan plan, String path, String written) {
    super(sql, columns, name);
    this.plan = plan;
    this.path = path;
    this.written = written;
  }

  /** The command in place of an unresolved row change; null if the table is not ours. */
  static LogicalPlan of(SparkSession session, LogicalPlan parsed) {
    LogicalPlan target = null;
    if (parsed instanceof DeleteFromTable) target = ((DeleteFromTable) parsed).table();
    if (parsed instanceof UpdateTable) target = ((UpdateTable) parsed).table();
    if (parsed instanceof MergeIntoTable) target = ((MergeIntoTable) parsed).targetTable();
    if (target == null) return null;
    LogicalPlan named = target instanceof SubqueryAlias ? ((SubqueryAlias) target).child() : target;
    if (!(named instanceof UnresolvedRelation)) return null;
    String written = ((UnresolvedRelation) named).multipartIdentifier().mkString(".");
    DataSourceV2Relation relation = relation(session, ((UnresolvedRelation) named).multipartIdentifier());
    if (relation == null) return null;
    String sql = (String) parsed.origin().sqlText().getOrElse(new NodeName(parsed));
    return new RowChangeCommand(sql, attributes(), nameOf(relation), parsed, pathOf(relation), written);
  }

  /** What a plan is called that no SQL text belongs to. */
  static class NodeName extends AbstractFunction0 {
    private final LogicalPlan plan;

    NodeName(LogicalPlan plan) {
      this.plan = plan;
    }

    public Object apply() {
      return plan.nodeName();
    }
  }

  /** The columns of the row that a row change returns. */
  static Seq attributes() {
    return DataTypeUtils.toAttributes(COLUMNS);
  }

  static String pathOf(DataSourceV2Relation relation) {
    return ((NamedTable) relation.table()).path;
  }

  /** The whole name of a table: catalog, namespace, name. */
  static Seq nameOf(DataSourceV2Relation relation) {
    Identifier id = (Identifier) relation.identifier().get();
    List parts = new ArrayList();
    parts.add(((CatalogPlugin) relation.catalog().get()).name());
    parts.addAll(Arrays.asList((Object[]) id.namespace()));
    parts.add(id.name());
    return CollectionConverters.asScala(parts).toSeq();
  }

  /** The table of a name; null for a view, for tables of others, and for a name that is none: Spark's to tell. */
  static DataSourceV2Relation relation(SparkSession session, Seq name) {
    LogicalPlan found;
    try {
      LogicalPlan plain =
          new UnresolvedRelation(name, org.apache.spark.sql.util.CaseInsensitiveStringMap.empty(), false);
      found = org.apache.spark.sql.classic.Dataset.ofRows(session, plain).queryExecution().analyzed();
    } catch (Exception unknown) {
      return null;
    }
    while (found instanceof SubqueryAlias) found = ((SubqueryAlias) found).child();
    if (found instanceof DataSourceV2Relation) {
      boolean ours = ((DataSourceV2Relation) found).table() instanceof NamedTable;
      return ours ? (DataSourceV2Relation) found : null;
    }
    refuseView(name, found);
    return null;
  }

  /** What Spark says of a table that there is not; null if there is one. */
  static Throwable missing(SparkSession session, java.util.List parts) {
    try {
      Seq name = scala.jdk.javaapi.CollectionConverters.asScala(parts).toSeq();
      LogicalPlan plain =
          new UnresolvedRelation(name, org.apache.spark.sql.util.CaseInsensitiveStringMap.empty(), false);
      org.apache.spark.sql.classic.Dataset.ofRows(session, plain).queryExecution().analyzed();
      return null;
    } catch (Exception unknown) {
      String condition =
          unknown instanceof org.apache.spark.SparkThrowable ? ((org.apache.spark.SparkThrowable) unknown).getCondition() : null;
      return condition != null && condition.contains("NOT_FOUND") ? unknown : null;
    }
  }

  /** A view on one of our tables is named with what to write instead: Spark would fail without a reason. */
  private static void refuseView(Seq name, LogicalPlan found) {
    scala.collection.Iterator leaves = found.collectLeaves().iterator();
    while (leaves.hasNext()) {
      Object leaf = leaves.next();
      boolean ours = leaf instanceof DataSourceV2Relation && TableRelation.isOurs((DataSourceV2Relation) leaf);
      if (!ours) continue;
      throw new StatementError(
          "UNSUPPORTED", name.mkString(".") + " is a view. Rows are changed in the table that it reads: indextables.`"
              + TableRelation.pathOf((DataSourceV2Relation) leaf) + "`.");
    }
  }

  Seq rows(SparkSession session) {
    Map told = CatalogRequest.checked(StatementRunner.change(session, path, written, plan));
    Long updated = Long.valueOf(((Number) told.get("updated")).longValue());
    Long deleted = Long.valueOf(((Number) told.get("deleted")).longValue());
    Long inserted = Long.valueOf(((Number) told.get("inserted")).longValue());
    Long all = Long.valueOf(updated.longValue() + deleted.longValue() + inserted.longValue());
    Object row = RowFactory.create(new Object[] {all, updated, deleted, inserted});
    return CollectionConverters.asScala(Collections.singletonList(row)).toSeq();
  }

  public int productArity() {
    return 6;
  }

  public Object productElement(int place) {
    if (place < 3) return super.productElement(place);
    return place == 3 ? (Object) plan : place == 4 ? (Object) path : (Object) written;
  }

  public boolean equals(Object other) {
    return other instanceof RowChangeCommand && ((RowChangeCommand) other).plan.equals(plan);
  }

  public int hashCode() {
    return plan.hashCode();
  }
}
