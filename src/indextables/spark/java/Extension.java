package indextables;

import java.lang.reflect.Field;
import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.SparkSessionExtensionsProvider;
import org.apache.spark.sql.catalyst.analysis.Analyzer;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SessionState;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractFunction2;
import scala.runtime.BoxedUnit;

/** What a session gets: statements and operators in SQL, scans that are right, searches that are refused where they must. */
public class Extension extends AbstractFunction1 implements SparkSessionExtensionsProvider {
  private static final Map KNOWN = Collections.synchronizedMap(new WeakHashMap());

  /** Called by Spark where the jar is on its class path, for every session from the start. */
  public Object apply(Object given) {
    SparkSessionExtensions extensions = (SparkSessionExtensions) given;
    if (KNOWN.put(extensions, Boolean.TRUE) != null) return BoxedUnit.UNIT;
    extensions.injectParser(
        new AbstractFunction2() {
          public Object apply(Object session, Object parser) {
            return StatementParser.before((SparkSession) session, (ParserInterface) parser);
          }
        });
    extensions.injectHintResolutionRule(
        new AbstractFunction1() {
          public Object apply(Object session) {
            return new StatementRule((SparkSession) session);
          }
        });
    extensions.injectOptimizerRule(
        new AbstractFunction1() {
          public Object apply(Object session) {
            return new TableRule();
          }
        });
    extensions.injectPreCBORule(
        new AbstractFunction1() {
          public Object apply(Object session) {
            return new MatchRule();
          }
        });
    extensions.injectPreCBORule(
        new AbstractFunction1() {
          public Object apply(Object session) {
            return new DeletedRows();
          }
        });
    extensions.injectPlannerStrategy(
        new AbstractFunction1() {
          public Object apply(Object session) {
            return new SearchGuard();
          }
        });
    SearchFunction.inject(extensions);
    ChangesFunction.inject(extensions);
    return BoxedUnit.UNIT;
  }

  /** Called by Python for a session that runs already; those that are made from it get everything from the start. */
  public static void install(Object session, Object driver) throws Exception {
    SparkSession spark = (SparkSession) session;
    if (driver != null) StatementRunner.attach(driver);
    StatementRunner.isPrepared(spark);
    new Extension().apply(spark.extensions());
    SessionState state = spark.sessionState();
    if (StatementParser.standsBefore(state.sqlParser())) return;
    SearchFunction.register(state.functionRegistry());
    ChangesFunction.register(state.tableFunctionRegistry());
    set(state, SessionState.class, "sqlParser", StatementParser.before(spark, state.sqlParser()));
    addStatementRule(spark, state.analyzer());
  }

  /** The analyzer of a session keeps the rules that the extensions had when it was made: before, or just now. */
  private static void addStatementRule(SparkSession session, Analyzer analyzer) throws Exception {
    Seq rules = analyzer.hintResolutionRules();
    scala.collection.Iterator each = rules.iterator();
    while (each.hasNext()) if (each.next() instanceof StatementRule) return;
    Class type = analyzer.getClass();
    while (type.getSuperclass() != Analyzer.class) type = type.getSuperclass();
    set(analyzer, type, "hintResolutionRules", rules.appended(new StatementRule(session)));
  }

  private static void set(Object owner, Class type, String name, Object value) throws Exception {
    Field field = type.getDeclaredField(name);
    field.setAccessible(true);
    field.set(owner, value);
  }
}
