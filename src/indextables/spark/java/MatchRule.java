package indextables;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Offset;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionOperation;
import org.apache.spark.sql.catalyst.plans.logical.Sample;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Searches that are no condition of their own (under OR and NOT, in CASE, FILTER, a select list, above a limit or an outer
 * join): the scan of their table returns a column that says of every row whether it matches, and stands in their place. This
 * runs when Spark has brought conditions as near to their tables as it can. A match is never null: no text, no match.
 */
public class MatchRule extends Rule {
  public TreeNode apply(TreeNode plan) {
    LogicalPlan before = (LogicalPlan) plan;
    if (!SearchGuard.searches(before)) return before;
    LogicalPlan changed = (LogicalPlan) before.transformUp(new Change(tables(before) == 1));
    return SearchGuard.searches(changed) ? changed : NativeRead.in(changed);
  }

  static class Change extends AbstractPartialFunction {
    private final boolean alone; // there is one table of ours: a search of all columns can only mean it

    Change(boolean alone) {
      this.alone = alone;
    }

    public boolean isDefinedAt(Object node) {
      return firstSearch((LogicalPlan) node) != null;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      LogicalPlan now = (LogicalPlan) node;
      Seq columns = now.output();
      boolean changed = false;
      for (Expression search = firstSearch(now); search != null; search = firstSearch(now)) {
        LogicalPlan next = search.children().size() == 1 && !alone ? null : without(now, search);
        if (next == null) break;
        now = next;
        changed = true;
      }
      if (!changed) return otherwise.apply(node);
      return now.output().size() == columns.size() ? now : (LogicalPlan) new Project(columns, now);
    }
  }

  /** A search in a node's own expressions; null if there is none. */
  private static Expression firstSearch(LogicalPlan node) {
    if (!node.containsPattern(TreePattern.SCALA_UDF())) return null;
    scala.collection.Iterator each = node.expressions().iterator();
    while (each.hasNext()) {
      Expression found = firstSearch((Expression) each.next());
      if (found != null) return found;
    }
    return null;
  }

  private static Expression firstSearch(Expression e) {
    if (SearchFunction.nameOf(e) != null) return e;
    scala.collection.Iterator each = e.children().iterator();
    while (each.hasNext()) {
      Expression found = firstSearch((Expression) each.next());
      if (found != null) return found;
    }
    return null;
  }

  /** A node with the match column of a search instead of it; null if there is no table to ask. */
  private static LogicalPlan without(LogicalPlan node, Expression search) {
    boolean everywhere = search.children().size() == 1;
    Object first = search.children().head();
    if (!everywhere && !(first instanceof AttributeReference)) return null;
    ExprId id = NamedExpression$.MODULE$.newExprId();
    LogicalPlan fed = fed(node, everywhere ? null : ((AttributeReference) first).exprId(), search, id);
    if (fed == null) return null;
    Attribute match = null;
    scala.collection.Iterator children = fed.children().iterator();
    while (children.hasNext()) {
      Attribute one = column(((LogicalPlan) children.next()).output(), id);
      if (one != null) match = one;
    }
    Expression value = (Expression) match;
    if (match.nullable()) { // the row of an outer join that found no partner
      List both = new ArrayList();
      both.add(match);
      both.add(Literal$.MODULE$.FalseLiteral());
      value = (Expression) new Coalesce(CollectionConverters.asScala(both).toSeq());
    }
    return (LogicalPlan) fed.transformExpressions(new Instead(search, value));
  }

  private static int tables(LogicalPlan node) {
    int count = 0;
    scala.collection.Iterator leaves = node.collectLeaves().iterator();
    while (leaves.hasNext()) if (TableRule.isTable((LogicalPlan) leaves.next())) count++;
    return count;
  }

  static class Instead extends AbstractPartialFunction {
    private final Expression search;
    private final Expression value;

    Instead(Expression search, Expression value) {
      this.search = search;
      this.value = value;
    }

    public boolean isDefinedAt(Object e) {
      return search.semanticEquals((Expression) e) || isAround(e);
    }

    public Object applyOrElse(Object e, scala.Function1 otherwise) {
      if (search.semanticEquals((Expression) e)) return value;
      if (!isAround(e)) return otherwise.apply(e);
      // A subquery whose condition is a search of the outer row needs the match column of that row: by these columns Spark
      // decides what the outer table returns.
      SubqueryExpression subquery = (SubqueryExpression) e;
      List outer = new ArrayList();
      scala.collection.Iterator each = SparkApi.outerColumns(subquery).iterator();
      while (each.hasNext()) outer.add(each.next());
      scala.collection.Iterator matches = value.references().iterator();
      while (matches.hasNext()) outer.add(matches.next());
      return subquery.withNewOuterAttrs(CollectionConverters.asScala(outer).toSeq());
    }

    /** Whether an expression is a subquery with this search among its own conditions, and without its match column. */
    private boolean isAround(Object e) {
      if (!(e instanceof SubqueryExpression) || firstSearch((Expression) e) == null) return false;
      scala.collection.Iterator outer = SparkApi.outerColumns((SubqueryExpression) e).iterator();
      while (outer.hasNext()) {
        Expression one = (Expression) outer.next();
        if (value.references().subsetOf(one.references())) return false;
      }
      return holds((Expression) e);
    }

    private boolean holds(Expression e) {
      if (search.semanticEquals(e)) return true;
      scala.collection.Iterator each = e.children().iterator();
      while (each.hasNext()) if (holds((Expression) each.next())) return true;
      return false;
    }
  }

  private static Attribute column(Seq columns, ExprId id) {
    scala.collection.Iterator each = columns.iterator();
    while (each.hasNext()) {
      Attribute one = (Attribute) each.next();
      if (one.exprId().equals(id)) return one;
    }
    return null;
  }

  /** A node one of whose children returns the match column as well; `wanted` is the searched column, null for all. */
  private static LogicalPlan fed(LogicalPlan node, ExprId wanted, Expression search, ExprId match) {
    List children = new ArrayList();
    boolean found = false;
    scala.collection.Iterator each = node.children().iterator();
    while (each.hasNext()) {
      LogicalPlan child = (LogicalPlan) each.next();
      boolean has = !found && (wanted == null || column(child.output(), wanted) != null);
      LogicalPlan made = has ? matching(child, wanted, search, match) : null;
      found = found || made != null;
      children.add(made == null ? child : made);
    }
    return found ? (LogicalPlan) node.withNewChildren(CollectionConverters.asScala(children).toSeq()) : null;
  }

  /** A plan that returns the match column beside its own; null if it cannot. */
  private static LogicalPlan matching(LogicalPlan node, ExprId wanted, Expression search, ExprId match) {
    DataSourceV2Relation table = TableRule.table(node);
    if (table != null) return asked(table, wanted, search, match);
    LogicalPlan unmasked = DeletedRows.throughSource(node);
    if (unmasked != null) return matching(unmasked, wanted, search, match);
    if (node instanceof Project) return matchingProject((Project) node, wanted, search, match);
    boolean passes = node instanceof Filter || node instanceof Sort || node instanceof GlobalLimit || node instanceof LocalLimit
        || node instanceof Offset || node instanceof Sample || node instanceof Join || node instanceof Window
        || node instanceof RepartitionOperation || node instanceof Generate;
    LogicalPlan made = passes ? fed(node, wanted, search, match) : null;
    return made == null || column(made.output(), match) == null ? null : made;
  }

  private static LogicalPlan matchingProject(Project node, ExprId wanted, Expression search, ExprId match) {
    ExprId below = wanted;
    List list = new ArrayList();
    scala.collection.Iterator each = node.projectList().iterator();
    while (each.hasNext()) {
      Object one = each.next();
      list.add(one);
      boolean renamed = one instanceof Alias && ((Alias) one).exprId().equals(wanted);
      if (renamed && !(((Alias) one).child() instanceof AttributeReference)) return null;
      if (renamed) below = ((AttributeReference) ((Alias) one).child()).exprId();
    }
    LogicalPlan made = fed(node, below, search, match);
    Attribute column = made == null ? null : column(((LogicalPlan) made.children().head()).output(), match);
    if (column == null) return null;
    list.add(column);
    return new Project(CollectionConverters.asScala(list).toSeq(), (LogicalPlan) made.children().head());
  }

  /** How many of a table's columns are no match columns. */
  private static int own(DataSourceV2Relation table) {
    int count = 0;
    scala.collection.Iterator each = table.output().iterator();
    while (each.hasNext()) if (!((Attribute) each.next()).name().startsWith("_match_")) count++;
    return count;
  }

  /** A table whose scan is asked for the match column. */
  private static LogicalPlan asked(DataSourceV2Relation table, ExprId wanted, Expression search, ExprId match) {
    Map options = new HashMap(table.options().asCaseSensitiveMap());
    if (table.table() instanceof NamedTable) options = ((NamedTable) table.table()).located(table.options());
    if (table.options().containsKey("limit") || table.options().containsKey("score")) return null;
    if (table.options().containsKey("snippet")) return null;
    Attribute column = wanted == null ? null : column(table.output(), wanted);
    Object query = ((Expression) search.children().last()).eval(null);
    if (query == null || (wanted != null && column == null)) return null;
    String before = (String) options.get("matches");
    String name = "_match_" + (table.output().size() - own(table));
    List one = new ArrayList();
    one.add(name);
    one.add(SearchFunction.nameOf(search));
    one.add(column == null ? null : column.name());
    one.add(query.toString());
    String told = FilterJson.written(one);
    options.put("matches", before == null ? "[" + told + "]" : before.substring(0, before.length() - 1) + "," + told + "]");
    List fields = new ArrayList();
    StructType stored = table.table().schema();
    StructField[] known = RowMetadata.withMetadata(stored, table.output()).fields();
    for (int i = 0; i < known.length; i++) fields.add(known[i]);
    fields.add(new StructField(name, DataTypes.BooleanType, false, Metadata.empty()));
    StructType schema = new StructType((StructField[]) fields.toArray(new StructField[0]));
    Seq none = (Seq) scala.collection.immutable.Seq$.MODULE$.empty();
    Object added = new AttributeReference(name, DataTypes.BooleanType, false, Metadata.empty(), match, none);
    return TableRelation.of(schema, stored, (Seq) table.output().appended(added), options);
  }
}
