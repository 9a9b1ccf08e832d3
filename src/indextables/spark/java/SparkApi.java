package indextables;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Locale;
import java.util.Set;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.analysis.AssignmentUtils;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.UpdateAction;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.execution.CacheManager;
import org.apache.spark.sql.execution.datasources.DataSourceManager;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.internal.SQLConf;
import scala.collection.immutable.Seq;

/**
 * What differs between the versions of Spark that these classes are compiled against; no other class asks for it. Where a
 * version has a method that its callers must implement, the folder `since_...` of that version has the class: see
 * `CatalogApi`. `indextables/spark/compat.py` does the same for Python.
 */
class SparkApi {
  /**
   * A Scala object by its longest constructor. Newer versions append parameters with a default: those that are not given
   * have it, and so have those that are given as DEFAULT.
   */
  static Object construct(Class type, Object[] given) {
    Constructor longest = type.getConstructors()[0];
    for (int i = 1; i < type.getConstructors().length; i++) {
      Constructor other = type.getConstructors()[i];
      if (other.getParameterTypes().length > longest.getParameterTypes().length) longest = other;
    }
    Object[] all = new Object[longest.getParameterTypes().length];
    try {
      for (int i = 0; i < all.length; i++) {
        boolean left = i >= given.length || given[i] == DEFAULT;
        all[i] = left ? type.getMethod("apply$default$" + (i + 1), new Class[0]).invoke(null, new Object[0]) : given[i];
      }
      return longest.newInstance(all);
    } catch (ReflectiveOperationException e) {
      throw unknownForm(type, e);
    }
  }

  static final Object DEFAULT = new Object();

  /** What only some versions know that a table can do. */
  static void addCapabilities(Set all) {
    TableCapability[] known = TableCapability.values();
    for (int i = 0; i < known.length; i++) if (known[i].name().equals("AUTOMATIC_SCHEMA_EVOLUTION")) all.add(known[i]); // 4.1
  }

  /** Whether a plan adds a constraint to a table (4.1). */
  static boolean addsConstraint(LogicalPlan plan) {
    return plan.nodeName().equals("AddCheckConstraint");
  }

  /** Whether an INSERT must name every column: Spark fills the others with NULL from 4.1. */
  static boolean refusesMissingColumns(SparkSession session) {
    return session.version().startsWith("4.0.");
  }

  /** The columns of the outer query that a subquery uses: a method of its own from 4.1. */
  static Seq outerColumns(SubqueryExpression subquery) {
    scala.Product parts = (scala.Product) subquery;
    for (int i = 0; i < parts.productArity(); i++)
      if (parts.productElementName(i).equals("outerAttrs")) return (Seq) parts.productElement(i);
    throw unknownForm(subquery.getClass(), null);
  }

  /** Make a Python data source known by a name. Spark 4.0 refuses a name that an installed package has: ours. */
  static void register(SparkSession session, String name, UserDefinedPythonDataSource source) {
    DataSourceManager sources = session.sessionState().dataSourceManager();
    try {
      sources.registerDataSource(name, source);
    } catch (Exception e) {
      boolean taken = e instanceof AnalysisException && "DATA_SOURCE_ALREADY_EXISTS".equals(((AnalysisException) e).getCondition());
      if (!taken) CatalogRequest.raise(e);
      replaceInstalled(sources, name.toLowerCase(Locale.ROOT), source);
    }
  }

  private static void replaceInstalled(DataSourceManager sources, String name, UserDefinedPythonDataSource source) {
    try {
      Field field = DataSourceManager.class.getDeclaredField("staticDataSourceBuilders");
      field.setAccessible(true);
      scala.collection.immutable.Map installed = (scala.collection.immutable.Map) field.get(sources);
      field.set(sources, installed.updated(name, source));
    } catch (ReflectiveOperationException e) {
      throw unknownForm(DataSourceManager.class, e);
    }
  }

  /** An UPDATE action of a MERGE; from 4.1 it has a third part, whether it was a star. */
  static UpdateAction updateAction(scala.Option condition, Seq assignments, boolean star) {
    return (UpdateAction) construct(UpdateAction.class, new Object[] {condition, assignments, Boolean.valueOf(star)});
  }

  /** Whether the session casts fields of structs in a MERGE that changes the schema (4.1). */
  static boolean coercesNestedTypes(SQLConf settings) {
    return hasMethod(SQLConf.class, "coerceMergeNestedTypes")
        && ((Boolean) call(SQLConf.class, settings, "coerceMergeNestedTypes", new Object[0])).booleanValue();
  }

  /** A value for every column of an UPDATE; Spark 4.0 knows neither of the last two. */
  static Seq alignUpdate(Seq columns, Seq given, boolean star, boolean coerces) {
    Object[] arguments = {columns, given, Boolean.valueOf(star), Boolean.valueOf(coerces)};
    return (Seq) call(AssignmentUtils.class, null, "alignUpdateAssignments", arguments);
  }

  /** A value for every column of an INSERT; Spark 4.0 does not know the last. */
  static Seq alignInsert(Seq columns, Seq given, boolean coerces) {
    return (Seq) call(AssignmentUtils.class, null, "alignInsertAssignments", new Object[] {columns, given, Boolean.valueOf(coerces)});
  }

  /** Read again what Spark has cached of a table, given its whole name; Spark 4.0, which cannot, forgets it. */
  static void recache(SparkSession session, Seq name) {
    CacheManager cache = session.sharedState().cacheManager();
    if (hasMethod(CacheManager.class, "recacheTableOrView"))
      call(CacheManager.class, cache, "recacheTableOrView", new Object[] {session, name, Boolean.FALSE});
    else call(CacheManager.class, cache, "uncacheTableOrView", new Object[] {session, name, Boolean.TRUE});
  }

  private static boolean hasMethod(Class type, String name) {
    Method[] all = type.getMethods();
    for (int i = 0; i < all.length; i++) if (all[i].getName().equals(name)) return true;
    return false;
  }

  /** Call a method to which newer versions appended parameters: an older one does not get the last arguments. */
  private static Object call(Class type, Object target, String name, Object[] arguments) {
    Method[] all = type.getMethods();
    Method method = null;
    for (int i = 0; i < all.length; i++) {
      boolean fits = all[i].getName().equals(name) && all[i].getParameterTypes().length <= arguments.length;
      boolean longer = method == null || all[i].getParameterTypes().length > method.getParameterTypes().length;
      if (fits && longer) method = all[i];
    }
    try {
      return method.invoke(target, Arrays.copyOf(arguments, method.getParameterTypes().length));
    } catch (InvocationTargetException e) {
      CatalogRequest.raise(e.getCause());
      return null;
    } catch (ReflectiveOperationException e) {
      throw unknownForm(type, e);
    }
  }

  private static RuntimeException unknownForm(Class type, Exception cause) {
    return new IllegalStateException("Spark's " + type.getName() + " has another form than this release knows", cause);
  }
}
