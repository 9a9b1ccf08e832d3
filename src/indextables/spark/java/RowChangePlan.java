package indextables;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.AliasIdentifier;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.DeleteAction;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.InsertAction;
import org.apache.spark.sql.catalyst.plans.logical.InsertStarAction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeAction;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UpdateAction;
import org.apache.spark.sql.catalyst.plans.logical.UpdateStarAction;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.trees.CurrentOrigin;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.classic.ColumnNodeToExpressionConverter$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.errors.QueryCompilationErrors;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * DELETE, UPDATE and MERGE INTO analysed by Spark against the columns of one version of a table. Spark resolves names,
 * DEFAULT and stars, and reports what is wrong in the user's words; `AssignmentUtils` then gives every column its value, by
 * the names of struct fields and under `spark.sql.storeAssignmentPolicy`, as for Spark's own row-level operations.
 *
 * During the analysis assigned values are wrapped in `Assigned`, so that Spark does not cast them to the column's type by
 * position, and stars are left open: a MERGE WITH SCHEMA EVOLUTION must not alter the table before its one commit.
 */
public class RowChangePlan {
  private static final Seq NONE = (Seq) scala.collection.immutable.Seq$.MODULE$.empty();

  /** The table of a row change: columns and a name, nothing to read. */
  static class Target implements Table, SupportsMetadataColumns {
    private final String name;
    private final StructType schema;

    Target(String name, StructType schema) {
      this.name = name;
      this.schema = schema;
    }

    public String name() {
      return name;
    }

    public StructType schema() {
      return schema;
    }

    public Set capabilities() {
      Set all = new HashSet();
      all.add(TableCapability.BATCH_READ);
      return all;
    }

    public MetadataColumn[] metadataColumns() {
      StructField[] fields = RowMetadata.FIELDS.fields();
      MetadataColumn[] all = new MetadataColumn[fields.length];
      for (int i = 0; i < all.length; i++) all[i] = new RowMetadata(fields[i]);
      return all;
    }
  }

  // Plans of calls that do not come from Spark's parser.

  /** The target of a call, under the name that conditions use for it. */
  private static LogicalPlan named(String name) {
    return new UnresolvedRelation(
        texts(name), org.apache.spark.sql.util.CaseInsensitiveStringMap.empty(), false);
  }

  public static Object update(String name, List keys, List values, Object condition) {
    return new UpdateTable(named(name), (Seq) assignments(keys, values), option(condition));
  }

  public static Object merge(
      String name, Object source, String alias, Object on, List matched, List notMatched, List notMatchedBySource) {
    LogicalPlan rows = ((org.apache.spark.sql.classic.Dataset) source).queryExecution().analyzed();
    return new MergeIntoTable(
        named(name), new SubqueryAlias(new AliasIdentifier(alias, NONE), rows), expression(on), seq(matched),
        seq(notMatched), seq(notMatchedBySource), false);
  }

  public static Object deleteAction(Object condition) {
    return new DeleteAction(option(condition));
  }

  public static Object updateAction(Object condition, List keys, List values) {
    return SparkApi.updateAction(option(condition), assignments(keys, values), false);
  }

  public static Object updateStarAction(Object condition) {
    return new UpdateStarAction(option(condition));
  }

  public static Object insertAction(Object condition, List keys, List values) {
    return new InsertAction(option(condition), assignments(keys, values));
  }

  public static Object insertStarAction(Object condition) {
    return new InsertStarAction(option(condition));
  }

  private static Seq assignments(List keys, List values) {
    List all = new ArrayList();
    for (int i = 0; i < keys.size(); i++)
      all.add(new Assignment((Expression) new UnresolvedAttribute(texts((String) keys.get(i))), expression(values.get(i))));
    return seq(all);
  }

  private static Expression expression(Object column) {
    org.apache.spark.sql.Column given = (org.apache.spark.sql.Column) column;
    return (Expression) ColumnNodeToExpressionConverter$.MODULE$.apply(given.node());
  }

  private static scala.Option option(Object condition) {
    return condition == null ? scala.Option.empty() : scala.Option.apply(expression(condition));
  }

  private static Seq texts(String one) {
    List all = new ArrayList();
    all.add(one);
    return seq(all);
  }

  private static Seq seq(List all) {
    return CollectionConverters.asScala(new ArrayList(all)).toSeq();
  }

  // Analysis.

  /** The plan with its names resolved as far as they can be, against a table of some columns. Nothing is checked yet. */
  public static Object resolved(Object session, Object plan, String name, String schema) {
    SparkSession spark = (SparkSession) session;
    Target table = new Target(name, (StructType) DataType.fromJson(schema));
    LogicalPlan relation =
        (LogicalPlan) DataSourceV2Relation.create(table, scala.Option.empty(), scala.Option.empty());
    SparkSession before = active(spark);
    try {
      LogicalPlan given = onTarget((LogicalPlan) plan, relation);
      LogicalPlan analysed = command(spark.sessionState().analyzer().execute(given));
      return analysed.transformExpressions(new Unwrapped());
    } finally {
      restore(before);
    }
  }

  /** The columns of the source of a MERGE, as JSON; null for other plans, and for a source that cannot be resolved. */
  public static String sourceSchema(Object session, Object plan, String name, String schema) {
    LogicalPlan alone = sourceAlone((LogicalPlan) plan);
    if (alone == null) return null;
    MergeIntoTable merge = (MergeIntoTable) resolved(session, alone, name, schema);
    return merge.sourceTable().resolved() ? merge.sourceTable().schema().json() : null;
  }

  /** A MERGE without clauses and condition. */
  private static LogicalPlan sourceAlone(LogicalPlan plan) {
    if (plan instanceof MergeIntoTable) {
      MergeIntoTable merge = (MergeIntoTable) plan;
      Expression all = (Expression) Literal$.MODULE$.TrueLiteral();
      return merge.copy(merge.targetTable(), merge.sourceTable(), all, NONE, NONE, NONE, false);
    }
    if (isChange(plan) || plan.children().isEmpty()) return null;
    List children = new ArrayList();
    scala.collection.Iterator each = plan.children().iterator();
    while (each.hasNext()) {
      LogicalPlan child = (LogicalPlan) each.next();
      LogicalPlan made = sourceAlone(child);
      if (made == null) return null;
      children.add(made);
    }
    return (LogicalPlan) plan.withNewChildren(seq(children));
  }

  /** Raises what Spark has to say against a resolved plan, else returns it with a value for every column. */
  public static Object aligned(Object session, Object plan, boolean evolves) {
    SparkSession spark = (SparkSession) session;
    LogicalPlan change = (LogicalPlan) plan;
    SparkSession before = active(spark);
    try {
      // uuid() and rand() may be assigned, though Spark wants commands to be deterministic. Conditions must be.
      checkConditions(conditions(change), change.origin());
      spark.sessionState().analyzer().checkAnalysis((LogicalPlan) change.transformExpressions(new Deterministic()));
      refuseScores(change);
      SQLConf conf = spark.sessionState().conf();
      if (conf.storeAssignmentPolicy().toString().equals("LEGACY") && !(change instanceof DeleteFromTable))
        CatalogRequest.raise(QueryCompilationErrors.legacyStoreAssignmentPolicyError());
      if (change instanceof UpdateTable) {
        UpdateTable update = (UpdateTable) change;
        UpdateAction action = SparkApi.updateAction(update.condition(), update.assignments(), false);
        Object made = aligned(action, update.table(), NONE, false, change.origin());
        return update.copy(update.table(), ((UpdateAction) made).assignments(), update.condition());
      }
      if (!(change instanceof MergeIntoTable)) return change;
      MergeIntoTable merge = (MergeIntoTable) change;
      boolean coerces = evolves && SparkApi.coercesNestedTypes(conf);
      return merge.copy(
          merge.targetTable(), merge.sourceTable(), merge.mergeCondition(),
          aligned(merge.matchedActions(), merge, coerces), aligned(merge.notMatchedActions(), merge, coerces),
          aligned(merge.notMatchedBySourceActions(), merge, coerces), false);
    } finally {
      restore(before);
    }
  }

  private static Seq aligned(Seq actions, MergeIntoTable merge, boolean coerces) {
    Seq source = merge.sourceTable().output();
    List all = new ArrayList();
    scala.collection.Iterator each = actions.iterator();
    while (each.hasNext()) {
      MergeAction one = (MergeAction) each.next();
      all.add(aligned(one, merge.targetTable(), source, coerces, merge.origin()));
    }
    return seq(all);
  }

  /** The action with a value for every column. What is wrong with one names the table and the clause. */
  private static Object aligned(MergeAction action, LogicalPlan table, Seq source, boolean coerces, Origin clause) {
    Seq columns = columns(table);
    try {
      if (action instanceof UpdateAction) {
        UpdateAction update = (UpdateAction) action;
        boolean star = update.assignments().isEmpty();
        Seq given = star ? byName(columns, source) : update.assignments();
        Seq values = SparkApi.alignUpdate(columns, given, star, coerces);
        return SparkApi.updateAction(update.condition(), values, star);
      }
      if (!(action instanceof InsertAction)) return action;
      InsertAction insert = (InsertAction) action;
      Seq given = insert.assignments().isEmpty() ? byName(columns, source) : insert.assignments();
      return insert.copy(insert.condition(), SparkApi.alignInsert(columns, given, coerces));
    } catch (Exception e) {
      if (!(e instanceof AnalysisException)) CatalogRequest.raise(e);
      AnalysisException wrong = (AnalysisException) e;
      scala.collection.immutable.Map said = wrong.messageParameters();
      if (said.contains("tableName")) // Spark leaves it empty
        said = (scala.collection.immutable.Map) said.$plus(new Tuple2("tableName", "`" + relation(table).table().name() + "`"));
      CatalogRequest.raise(new AnalysisException(wrong.getCondition(), said, origin(action, String.valueOf(said.get("colName")), clause)));
      return null;
    }
  }

  /** The position of the value of a column in the statement; else where the first one of the clause does. */
  private static Origin origin(MergeAction action, String column, Origin clause) {
    Origin first = null;
    scala.collection.Iterator each = action.children().iterator();
    while (each.hasNext()) {
      Object one = each.next();
      if (!(one instanceof Assignment) || ((Assignment) one).value().origin().startPosition().isEmpty()) continue;
      Origin own = ((Assignment) one).value().origin();
      if (first == null) first = own;
      if (column.contains("`" + ((Assignment) one).key().sql().replace("`", "") + "`")) return own;
    }
    return first == null ? clause : first;
  }

  private static void checkConditions(List conditions, Origin statement) {
    for (int i = 0; i < conditions.size(); i++) {
      Expression one = (Expression) conditions.get(i);
      if (!one.resolved()) continue;
      Origin own = one.origin().startPosition().isDefined() ? one.origin() : statement;
      String text = "\"" + one.sql() + "\"";
      if (!one.deterministic()) fail("INVALID_NON_DETERMINISTIC_EXPRESSIONS", new String[] {"sqlExprs", text}, own);
      String type = "\"" + one.dataType().sql() + "\"";
      if (!(one.dataType() instanceof BooleanType))
        fail("DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN", new String[] {"sqlExpr", text, "filter", text, "type", type}, own);
    }
  }

  private static void fail(String condition, String[] parameters, Origin origin) {
    scala.collection.immutable.Map all =
        (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty();
    for (int i = 0; i < parameters.length; i += 2)
      all = (scala.collection.immutable.Map) all.$plus(new Tuple2(parameters[i], parameters[i + 1]));
    CatalogRequest.raise(new AnalysisException(condition, all, origin));
  }

  private static List conditions(LogicalPlan change) {
    List all = new ArrayList();
    if (change instanceof DeleteFromTable) all.add(((DeleteFromTable) change).condition());
    if (change instanceof UpdateTable) add(((UpdateTable) change).condition(), all);
    if (!(change instanceof MergeIntoTable)) return all;
    MergeIntoTable merge = (MergeIntoTable) change;
    all.add(merge.mergeCondition());
    Seq[] actions = new Seq[] {merge.matchedActions(), merge.notMatchedActions(), merge.notMatchedBySourceActions()};
    for (int i = 0; i < actions.length; i++) {
      scala.collection.Iterator each = actions[i].iterator();
      while (each.hasNext()) add(((MergeAction) each.next()).condition(), all);
    }
    return all;
  }

  private static void add(scala.Option condition, List all) {
    if (condition.isDefined()) all.add(condition.get());
  }

  /** What a search says of its rows cannot be a condition of a statement without one. */
  private static void refuseScores(LogicalPlan change) {
    Set besides = new HashSet();
    scala.collection.Iterator others = ((Seq) target(change).output().drop(columns(target(change)).size())).iterator();
    while (others.hasNext()) besides.add(((Attribute) others.next()).exprId());
    scala.collection.Iterator each = change.references().iterator();
    while (each.hasNext()) {
      Attribute one = (Attribute) each.next();
      if (!besides.contains(one.exprId()) || one.name().equals(RowMetadata.PLACE)) continue;
      throw new StatementError(
          "INVALID_INPUT",
          one.name() + " is known only of rows that a search has found. Search in a subquery: WHERE id IN (SELECT id FROM t"
              + " WHERE text TEXTSEARCH 'x' AND " + one.name() + " > 1).");
    }
  }

  /** What a star assigns: each column that the source has. */
  private static Seq byName(Seq columns, Seq source) {
    List all = new ArrayList();
    scala.collection.Iterator each = columns.iterator();
    while (each.hasNext()) {
      Attribute column = (Attribute) each.next();
      scala.collection.Iterator others = source.iterator();
      while (others.hasNext()) {
        Attribute one = (Attribute) others.next();
        if (one.name().equalsIgnoreCase(column.name())) all.add(new Assignment((Expression) column, (Expression) one));
      }
    }
    return seq(all);
  }

  /** An assigned value during the analysis. It never counts as resolved: Spark casts what is assigned when all is. */
  public static class Assigned extends Expression {
    private final Expression value;

    public Assigned(Expression value) {
      this.value = value;
    }

    public boolean resolved() {
      return false;
    }

    public boolean nullable() {
      return value.nullable();
    }

    public DataType dataType() {
      return value.dataType();
    }

    public Seq children() {
      List all = new ArrayList();
      all.add(value);
      return seq(all);
    }

    public Expression withNewChildrenInternal(IndexedSeq children) {
      return new Assigned((Expression) children.apply(0));
    }

    public Object eval(InternalRow row) {
      return value.eval(row);
    }

    public ExprCode doGenCode(CodegenContext context, ExprCode code) {
      return value.genCode(context);
    }

    public int productArity() {
      return 1;
    }

    public Object productElement(int place) {
      return value;
    }

    public boolean canEqual(Object other) {
      return other instanceof Assigned;
    }

    public boolean equals(Object other) {
      return other instanceof Assigned && ((Assigned) other).value.equals(value);
    }

    public int hashCode() {
      return value.hashCode();
    }

    public String toString() {
      return value.toString();
    }
  }

  static class Wrapped extends AbstractPartialFunction {
    public boolean isDefinedAt(Object e) {
      return e instanceof Assignment && !(((Assignment) e).value() instanceof Assigned) && !isDefault(((Assignment) e).value());
    }

    public Object applyOrElse(Object e, scala.Function1 otherwise) {
      if (!isDefinedAt(e)) return otherwise.apply(e);
      Assignment given = (Assignment) e;
      return given.copy(given.key(), new Assigned(given.value()));
    }

    private static boolean isDefault(Expression value) {
      if (!(value instanceof UnresolvedAttribute)) return false;
      Seq parts = ((UnresolvedAttribute) value).nameParts();
      return parts.size() == 1 && "DEFAULT".equalsIgnoreCase((String) parts.head());
    }
  }

  static class Unwrapped extends AbstractPartialFunction {
    public boolean isDefinedAt(Object e) {
      return e instanceof Assigned;
    }

    public Object applyOrElse(Object e, scala.Function1 otherwise) {
      return isDefinedAt(e) ? ((Assigned) e).value : otherwise.apply(e);
    }
  }

  /** Assigned values that differ from one evaluation to the next, as constants: for the check of the plan alone. */
  static class Deterministic extends AbstractPartialFunction {
    public boolean isDefinedAt(Object e) {
      return e instanceof Assignment && ((Assignment) e).value().resolved() && !((Assignment) e).value().deterministic();
    }

    public Object applyOrElse(Object e, scala.Function1 otherwise) {
      if (!isDefinedAt(e)) return otherwise.apply(e);
      Assignment given = (Assignment) e;
      return given.copy(given.key(), (Expression) Literal$.MODULE$.create(null, given.value().dataType()));
    }
  }

  /** The plan with a relation as its target, whatever it is wrapped in, ready for the analysis. */
  private static LogicalPlan onTarget(LogicalPlan plan, LogicalPlan relation) {
    CurrentOrigin.set(plan.origin());
    try {
      return madeOnTarget(plan, relation);
    } finally {
      CurrentOrigin.reset();
    }
  }

  private static LogicalPlan madeOnTarget(LogicalPlan plan, LogicalPlan relation) {
    if (plan instanceof DeleteFromTable) {
      DeleteFromTable delete = (DeleteFromTable) plan;
      return delete.copy(named(delete.table(), relation), delete.condition());
    }
    if (plan instanceof UpdateTable) {
      UpdateTable update = (UpdateTable) plan;
      UpdateTable made = update.copy(named(update.table(), relation), update.assignments(), update.condition());
      return (LogicalPlan) made.transformExpressions(new Wrapped());
    }
    if (plan instanceof MergeIntoTable) {
      MergeIntoTable merge = (MergeIntoTable) plan;
      MergeIntoTable made =
          merge.copy(
              named(merge.targetTable(), relation), merge.sourceTable(), merge.mergeCondition(),
              opened(merge.matchedActions()), opened(merge.notMatchedActions()),
              opened(merge.notMatchedBySourceActions()), false);
      return (LogicalPlan) made.transformExpressions(new Wrapped());
    }
    List children = new ArrayList();
    scala.collection.Iterator each = plan.children().iterator();
    while (each.hasNext()) children.add(onTarget((LogicalPlan) each.next(), relation));
    return (LogicalPlan) plan.withNewChildren(seq(children));
  }

  /** Actions in which a star is an action without assignments. */
  private static Seq opened(Seq actions) {
    List all = new ArrayList();
    scala.collection.Iterator each = actions.iterator();
    while (each.hasNext()) {
      Object one = each.next();
      if (one instanceof UpdateStarAction) one = SparkApi.updateAction(((UpdateStarAction) one).condition(), NONE, true);
      if (one instanceof InsertStarAction) one = new InsertAction(((InsertStarAction) one).condition(), NONE);
      all.add(one);
    }
    return seq(all);
  }

  private static LogicalPlan named(LogicalPlan target, LogicalPlan relation) {
    if (target instanceof SubqueryAlias) {
      SubqueryAlias alias = (SubqueryAlias) target;
      return alias.copy(alias.identifier(), named((LogicalPlan) alias.child(), relation));
    }
    Seq parts = ((UnresolvedRelation) target).multipartIdentifier();
    Seq qualifier = (Seq) parts.dropRight(1);
    return new SubqueryAlias(new AliasIdentifier((String) parts.last(), qualifier), relation);
  }

  /** The command within what an analysed plan wraps it in. */
  static LogicalPlan command(LogicalPlan plan) {
    LogicalPlan found = plan;
    while (!isChange(found) && found.children().size() > 0) found = (LogicalPlan) found.children().head();
    return isChange(found) ? found : plan;
  }

  static boolean isChange(Object plan) {
    return plan instanceof DeleteFromTable || plan instanceof UpdateTable || plan instanceof MergeIntoTable;
  }

  // What Python reads of an analysed plan.

  private static DataSourceV2Relation target(LogicalPlan change) {
    return relation((LogicalPlan) change.children().head());
  }

  private static DataSourceV2Relation relation(LogicalPlan table) {
    LogicalPlan found = table;
    while (found instanceof SubqueryAlias) found = (LogicalPlan) ((SubqueryAlias) found).child();
    return (DataSourceV2Relation) found;
  }

  /** The target's own columns, without those of metadata. */
  private static Seq columns(LogicalPlan table) {
    return (Seq) relation(table).output().take(relation(table).table().schema().length());
  }

  /** The names of the columns that the plan reads of the target; those of metadata come last. */
  public static String[] targetColumns(Object plan) {
    Seq output = target((LogicalPlan) plan).output();
    String[] all = new String[output.size()];
    for (int i = 0; i < all.length; i++) all[i] = ((Attribute) output.apply(i)).name();
    return all;
  }

  /** Rows whose first columns are the target's become those of the plan's target; further columns stay as they are. */
  public static Object asTarget(Object session, Object plan, Object rows) {
    LogicalPlan read = ((org.apache.spark.sql.classic.Dataset) rows).queryExecution().analyzed();
    Seq output = target((LogicalPlan) plan).output();
    List columns = new ArrayList();
    for (int i = 0; i < read.output().size(); i++) {
      Attribute given = (Attribute) read.output().apply(i);
      if (i >= output.size()) {
        columns.add(given);
        continue;
      }
      Attribute wanted = (Attribute) output.apply(i);
      columns.add(
          new Alias(
              (Expression) given, wanted.name(), wanted.exprId(), wanted.qualifier(),
              scala.Option.apply(wanted.metadata()), NONE));
    }
    LogicalPlan made = new Project(seq(columns), read);
    return org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows((SparkSession) session, made);
  }

  /** The rows of a plan of Spark. */
  public static Object frame(Object session, Object plan) {
    return org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows((SparkSession) session, (LogicalPlan) plan);
  }

  private static SparkSession active(SparkSession session) {
    scala.Option before = SparkSession.getActiveSession();
    SparkSession.setActiveSession(session);
    return before.isDefined() ? (SparkSession) before.get() : session;
  }

  private static void restore(SparkSession before) {
    SparkSession.setActiveSession(before);
  }
}
