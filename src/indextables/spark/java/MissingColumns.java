package indextables;

import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedStar;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** Fills the columns that an INSERT leaves out with NULL. Spark does it from 4.1; Spark 4.0 refuses the statement. */
class MissingColumns {
  /** The INSERT with NULL for every column that it leaves out; the same statement if it is not on one of our tables. */
  static LogicalPlan fill(SparkSession session, InsertIntoStatement insert) {
    boolean listed = !insert.userSpecifiedCols().isEmpty();
    if (!(insert.table() instanceof UnresolvedRelation) || !(listed || insert.byName())) return insert;
    DataSourceV2Relation table = table(session, (UnresolvedRelation) insert.table());
    if (table == null) return insert;
    Seq given;
    try {
      given = session.sessionState().analyzer().execute(insert.query()).output();
    } catch (Exception wrong) {
      return insert; // Spark reports it
    }
    if (listed && given.size() != insert.userSpecifiedCols().size()) return insert;
    Seq names = insert.userSpecifiedCols();
    Seq values = (Seq) Nil$.MODULE$.appended(new UnresolvedStar(scala.Option.empty()));
    scala.collection.Iterator columns = table.output().iterator();
    while (columns.hasNext()) {
      Attribute column = (Attribute) columns.next();
      boolean isThere = listed ? holds(session, insert.userSpecifiedCols(), column) : holds(session, given, column);
      if (isThere || !column.nullable() || holds(session, insert.partitionSpec().keys().toSeq(), column)) continue;
      if (listed) names = (Seq) names.appended(column.name());
      values = (Seq) values.appended(nullAs(column));
    }
    if (values.size() == 1) return insert;
    return (LogicalPlan)
        SparkApi.construct(
            InsertIntoStatement.class,
            new Object[] {
              insert.table(),
              insert.partitionSpec(),
              names,
              new Project(values, insert.query()),
              Boolean.valueOf(insert.overwrite()),
              Boolean.valueOf(insert.ifPartitionNotExists()),
              Boolean.valueOf(insert.byName())
            });
  }

  private static Alias nullAs(Attribute column) {
    Expression nothing = new Literal(null, column.dataType());
    scala.Option none = scala.Option.empty();
    return new Alias(nothing, column.name(), NamedExpression$.MODULE$.newExprId(), (Seq) Nil$.MODULE$, none, (Seq) Nil$.MODULE$);
  }

  /** Whether names or attributes hold a column, by the case sensitivity of the session. */
  private static boolean holds(SparkSession session, Seq all, Attribute column) {
    boolean exact = session.sessionState().conf().caseSensitiveAnalysis();
    scala.collection.Iterator each = all.iterator();
    while (each.hasNext()) {
      Object one = each.next();
      String name = one instanceof Attribute ? ((Attribute) one).name() : (String) one;
      if (exact ? name.equals(column.name()) : name.equalsIgnoreCase(column.name())) return true;
    }
    return false;
  }

  /** Our table that a name leads to, through a temporary view on it or directly; null if it is another. */
  private static DataSourceV2Relation table(SparkSession session, UnresolvedRelation name) {
    LogicalPlan found;
    try {
      found = org.apache.spark.sql.classic.Dataset.ofRows(session, name).queryExecution().analyzed();
    } catch (Exception unknown) {
      return null; // Spark reports it
    }
    while (found instanceof SubqueryAlias || found instanceof View) found = (LogicalPlan) found.children().head();
    if (!(found instanceof DataSourceV2Relation)) return null;
    DataSourceV2Relation relation = (DataSourceV2Relation) found;
    return relation.table() instanceof NamedTable || TableRelation.isOurs(relation) ? relation : null;
  }
}
