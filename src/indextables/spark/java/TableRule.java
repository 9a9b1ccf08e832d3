package indextables;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

/**
 * What the optimizer does with our tables, while it pushes filters towards them: every scan gets an object of its own, and
 * a search right above a table becomes part of its scan. A table that Spark would read itself is then read by us.
 */
public class TableRule extends Rule {
  public TreeNode apply(TreeNode plan) {
    LogicalPlan given = (LogicalPlan) plan;
    if (SparkApi.addsConstraint(given)) return given; // Spark wants the table as it was named; the catalog refuses it
    if (SearchGuard.searches(given)) given = CachedTable.read(given);
    LogicalPlan changed = (LogicalPlan) given.transformDown(new Change());
    // Only then: a search that still waits for its table would have to look through Spark's own scan for it.
    return SearchGuard.searches(changed) ? changed : NativeRead.in(changed);
  }

  static class Change extends AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return changed(node) != null;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      LogicalPlan made = changed(node);
      return made == null ? otherwise.apply(node) : made;
    }
  }

  /** What stands in a node's place; null if the node stays. */
  private static LogicalPlan changed(Object node) {
    if (node instanceof DataSourceV2Relation) {
      DataSourceV2Relation relation = (DataSourceV2Relation) node;
      boolean shared = TableRelation.isOurs(relation) && !(relation.table() instanceof TableRelation);
      return shared ? TableRelation.unshared(relation) : null;
    }
    if (node instanceof LogicalRelation) return withWholeFiles((LogicalRelation) node);
    if (!(node instanceof Filter)) return null;
    Filter filter = (Filter) node;
    List searches = new ArrayList();
    Expression rest = without(filter.condition(), searches);
    if (searches.isEmpty()) return null;
    DataSourceV2Relation table = table((LogicalPlan) filter.child());
    if (table == null || table.options().containsKey("limit")) return null;
    String told = told(searches, table);
    if (told == null) return null;
    Map options = new HashMap(table.options().asCaseSensitiveMap());
    String before = (String) options.get("searches");
    String all = before == null ? told : before.substring(1, before.length() - 1) + "," + told;
    options.put("searches", "[" + all + "]");
    LogicalPlan searched = TableRelation.withOptions(table, options);
    return rest == null ? searched : (LogicalPlan) new Filter(rest, searched);
  }

  /** Files with their whole sizes for a query that asks for their metadata; others need to know only where rows end. */
  private static LogicalPlan withWholeFiles(LogicalRelation relation) {
    if (!(relation.relation() instanceof HadoopFsRelation)) return null;
    HadoopFsRelation files = (HadoopFsRelation) relation.relation();
    boolean described = relation.output().size() > files.schema().length();
    if (!described || !(files.location() instanceof SnapshotFileIndex)) return null;
    SnapshotFileIndex whole = ((SnapshotFileIndex) files.location()).whole();
    if (whole == null) return null;
    HadoopFsRelation made =
        new HadoopFsRelation(
            whole,
            files.partitionSchema(),
            files.dataSchema(),
            files.bucketSpec(),
            files.fileFormat(),
            files.options(),
            files.sparkSession());
    return relation.copy(made, relation.output(), relation.catalogTable(), relation.isStreaming(), relation.stream());
  }

  /** A condition without its searches, which are added to a list; null if nothing is left. */
  private static Expression without(Expression condition, List searches) {
    if (SearchFunction.nameOf(condition) != null) {
      searches.add(condition);
      return null;
    }
    if (!(condition instanceof And)) return condition;
    Expression left = without((Expression) ((And) condition).left(), searches);
    Expression right = without((Expression) ((And) condition).right(), searches);
    if (left == null || right == null) return left == null ? right : left;
    boolean same = left == ((And) condition).left() && right == ((And) condition).right();
    return same ? condition : (Expression) new And(left, right);
  }

  /** The searches of a filter as JSON, [function, column or null, query] each; null if one is on no column of the table. */
  private static String told(List searches, DataSourceV2Relation table) {
    StringBuilder all = new StringBuilder();
    for (int i = 0; i < searches.size(); i++) {
      Expression search = (Expression) searches.get(i);
      List one = new ArrayList();
      one.add(SearchFunction.nameOf(search));
      Object first = search.children().head();
      boolean everywhere = search.children().size() == 1;
      if (!everywhere && !(first instanceof AttributeReference && table.outputSet().contains((AttributeReference) first)))
        return null;
      one.add(everywhere ? null : ((AttributeReference) first).name());
      Object query = ((Expression) search.children().last()).eval(null);
      if (query == null) return null;
      one.add(query.toString());
      all.append(i == 0 ? "" : ",").append(FilterJson.written(one));
    }
    return all.toString();
  }

  /** The table that a node reads, as the data source reads it; null if it reads none of ours. */
  static DataSourceV2Relation table(LogicalPlan node) {
    if (node instanceof DataSourceV2Relation) {
      DataSourceV2Relation relation = (DataSourceV2Relation) node;
      if (!TableRelation.isOurs(relation) || TableRelation.isDerived(relation.options())) return null;
      return relation.table() instanceof TableRelation ? relation : TableRelation.unshared(relation);
    }
    if (!(node instanceof LogicalRelation)) return null;
    LogicalRelation relation = (LogicalRelation) node;
    if (!(relation.relation() instanceof HadoopFsRelation)) return null;
    FileIndex files = ((HadoopFsRelation) relation.relation()).location();
    // A masked scan has a filter above it that needs its hidden column, which the data source does not have.
    if (!(files instanceof SnapshotFileIndex) || ((SnapshotFileIndex) files).isMasked()) return null;
    scala.collection.Iterator output = relation.output().iterator();
    while (output.hasNext()) {
      String name = ((AttributeReference) output.next()).name();
      if (relation.relation().schema().getFieldIndex(name).isEmpty() && !name.equals(RowMetadata.PLACE)) return null;
    }
    return throughSource(relation.output(), relation.relation().schema(), (SnapshotFileIndex) files);
  }

  /** Whether a leaf of a plan reads one of our tables, deleted rows left out or not. */
  static boolean isTable(LogicalPlan leaf) {
    if (table(leaf) != null) return true;
    if (!(leaf instanceof LogicalRelation) || !(((LogicalRelation) leaf).relation() instanceof HadoopFsRelation)) return false;
    return ((HadoopFsRelation) ((LogicalRelation) leaf).relation()).location() instanceof SnapshotFileIndex;
  }

  /** A read of some columns of a version of a table through the data source, with Spark's metadata of files among them. */
  static DataSourceV2Relation throughSource(Seq columns, StructType known, SnapshotFileIndex files) {
    List fields = new ArrayList();
    scala.collection.Iterator each = columns.iterator();
    while (each.hasNext()) {
      AttributeReference column = (AttributeReference) each.next();
      if (known.getFieldIndex(column.name()).isDefined())
        fields.add(new StructField(column.name(), column.dataType(), true, column.metadata()));
    }
    StructType stored = new StructType((StructField[]) fields.toArray(new StructField[0]));
    return TableRelation.of(RowMetadata.withMetadata(stored, columns), stored, columns, files.source());
  }
}
