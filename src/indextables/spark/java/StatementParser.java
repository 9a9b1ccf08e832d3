package indextables;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import org.apache.spark.QueryContext;
import org.apache.spark.SparkRuntimeException;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Stands before Spark's parser: takes our statements, rewrites our operators, and passes on everything else. A proxy of the
 * JDK, so that methods which another version of Spark adds to the interface pass straight through.
 */
public class StatementParser implements InvocationHandler {
  private final SparkSession session;
  private final ParserInterface sparks;
  private boolean catalogsAdded;

  StatementParser(SparkSession session, ParserInterface sparks) {
    this.session = session;
    this.sparks = sparks;
  }

  static ParserInterface before(SparkSession session, ParserInterface sparks) {
    Class[] kinds = new Class[] {ParserInterface.class};
    StatementParser ours = new StatementParser(session, sparks);
    return (ParserInterface) Proxy.newProxyInstance(ParserInterface.class.getClassLoader(), kinds, ours);
  }

  static boolean standsBefore(ParserInterface parser) {
    return Proxy.isProxyClass(parser.getClass())
        && Proxy.getInvocationHandler(parser).getClass().getName().equals(StatementParser.class.getName());
  }

  public Object invoke(Object proxy, Method method, Object[] given) throws Throwable {
    boolean plans = method.getName().startsWith("parsePlan");
    boolean expressions = method.getName().equals("parseQuery") || method.getName().equals("parseExpression");
    Object[] arguments = given;
    String sql = given != null && given.length > 0 && given[0] instanceof String ? (String) given[0] : null;
    addCatalogs();
    if (sql != null && plans && namesFormat(sql)) StatementRunner.prepare(session);
    StatementCommand named = sql != null && plans ? NamedStatement.of(session, sql) : null;
    if (named != null) return named;
    if (sql != null && plans && Statements.areOurs(sql)) return StatementCommand.parsed(session, sql);
    EmbeddedStatements embedded = sql != null && plans ? new EmbeddedStatements(sql) : null;
    if (sql != null && (plans || expressions)) {
      arguments = (Object[]) given.clone();
      arguments[0] = SearchOperators.rewrite(embedded == null ? sql : embedded.sql);
    }
    try {
      Object plan = method.invoke(sparks, arguments);
      if (embedded == null) return plan;
      refuseMisspelt(sql);
      return embedded.restore(plan);
    } catch (InvocationTargetException e) {
      Throwable cause = e.getCause();
      boolean ours = sql != null && (plans || expressions) && cause instanceof ParseException;
      String said = ours ? StatementRunner.nearMiss(session, sql, cause.getMessage()) : null;
      throw said == null ? throwable(cause, method) : new StatementError("QUERY_SYNTAX", said);
    }
  }

  /** An error as a proxy may throw it: a checked one that the method does not declare would lose its class and message. */
  private static Throwable throwable(Throwable error, Method method) {
    boolean free = error instanceof RuntimeException || error instanceof Error;
    Class[] declared = method.getExceptionTypes();
    for (int i = 0; i < declared.length; i++) free = free || declared[i].isInstance(error);
    if (free || !(error instanceof SparkThrowable) || ((SparkThrowable) error).getCondition() == null) return error;
    scala.collection.immutable.Map parameters =
        scala.collection.immutable.Map$.MODULE$.from(
            CollectionConverters.asScala(((SparkThrowable) error).getMessageParameters()));
    return new SparkRuntimeException(
        ((SparkThrowable) error).getCondition(), parameters, error, new QueryContext[0], "");
  }

  /** DESCRIBE INDEXTABLES ENVIROMENT: for Spark a column of a table; where there is no such table it is a slip of the pen. */
  private void refuseMisspelt(String sql) {
    String name = Statements.describedName(sql);
    if (name == null || RowChangeCommand.missing(session, java.util.Arrays.asList(new Object[] {name})) == null) return;
    String said = StatementRunner.nearMiss(session, sql, "");
    if (said != null) throw new StatementError("QUERY_SYNTAX", said);
  }

  /** Names of tables and paths in SQL, unless the session has other catalogs there; where Spark finds our classes. */
  private synchronized void addCatalogs() {
    if (catalogsAdded) return;
    try {
      ClassLoader sparks = org.apache.spark.util.Utils.getContextOrSparkClassLoader();
      if (sparks.loadClass(SessionCatalog.class.getName()) != SessionCatalog.class) return;
    } catch (ClassNotFoundException elsewhere) {
      return; // compiled in the driver, or a thread of a server that opens a session: others will find it
    }
    catalogsAdded = true;
    addCatalog("spark_catalog", SessionCatalog.class);
    addCatalog(TableRelation.FORMAT, WarehouseCatalog.class);
  }

  private void addCatalog(String name, Class implementation) {
    String key = "spark.sql.catalog." + name;
    if (!session.sessionState().conf().contains(key)) session.sessionState().conf().setConfString(key, implementation.getName());
  }

  private static boolean namesFormat(String sql) {
    String lower = sql.toLowerCase(java.util.Locale.ROOT);
    return lower.contains(TableRelation.FORMAT) || lower.contains(TableRelation.OTHER_NAMES[0]);
  }
}
