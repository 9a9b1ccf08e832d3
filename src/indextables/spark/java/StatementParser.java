package indextables;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;

/**
 * Stands before Spark's parser: takes our statements, rewrites our operators, and passes on everything else. A proxy of the
 * JDK, so that methods which another version of Spark adds to the interface pass straight through.
 */
public class StatementParser implements InvocationHandler {
  private final SparkSession session;
  private final ParserInterface sparks;
  private volatile boolean sourceKnowsSettings;

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
    if (sql != null && plans) prepareSource(sql);
    StatementCommand named = sql != null && plans ? NamedStatement.of(session, sql) : null;
    if (named != null) return named;
    if (sql != null && plans && Statements.areOurs(sql)) return StatementCommand.parsed(session, sql);
    if (sql != null && (plans || expressions)) {
      arguments = (Object[]) given.clone();
      arguments[0] = SearchOperators.rewrite(sql);
    }
    try {
      Object plan = method.invoke(sparks, arguments);
      Object change = sql != null && plans ? RowChangeCommand.of(session, sql, plan) : null;
      return change == null ? plan : change;
    } catch (InvocationTargetException e) {
      Throwable cause = e.getCause();
      String said = plans && sql != null && cause instanceof ParseException ? StatementRunner.nearMiss(session, sql) : null;
      throw said == null ? cause : new StatementError("QUERY_SYNTAX", said);
    }
  }

  /** Where no Python process has done it: the data source is told the session's settings, as soon as SQL names it. */
  private void prepareSource(String sql) {
    if (sourceKnowsSettings || StatementRunner.isAttached()) return;
    String lower = sql.toLowerCase(java.util.Locale.ROOT);
    if (!lower.contains(TableRelation.FORMAT) && !lower.contains(TableRelation.OTHER_NAMES[0])) return;
    sourceKnowsSettings = true;
    SessionSource.registerFound(session);
  }
}
