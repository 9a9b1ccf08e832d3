package indextables;

import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.TableFunctionRegistry;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.IntegralType;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * table_changes('t', 1, 5): what happened to the rows of a table, from one version (or moment) to another, both included.
 * table_changes_by_path takes the place of a table; the first one takes one too, where it can be nothing else.
 */
public class ChangesFunction extends AbstractFunction1 {
  private static final String[] NAMES = {"table_changes", "table_changes_by_path"};
  private final String name;

  private ChangesFunction(String name) {
    this.name = name;
  }

  /** The plan of a call. */
  public Object apply(Object given) {
    Seq arguments = (Seq) given;
    boolean right = arguments.size() == 2 || arguments.size() == 3;
    scala.collection.Iterator each = arguments.iterator();
    while (each.hasNext()) right = ((Expression) each.next()).foldable() && right;
    if (!right) throw usage("");
    SparkSession session = SparkSession.active();
    Object table = ((Expression) arguments.head()).eval(null);
    if (table == null) throw usage("");
    String said = table.toString();
    boolean place = name.equals(NAMES[1]) || said.startsWith("/") || said.contains("://");
    Map options = new HashMap();
    options.put("readChangeFeed", "true");
    bound((Expression) arguments.apply(1), "starting", options);
    if (arguments.size() == 3) bound((Expression) arguments.apply(2), "ending", options);
    String path = place ? said : TablePaths.of(session, said);
    return ((org.apache.spark.sql.classic.Dataset) session.read().format(TableRelation.FORMAT).options(options).load(path))
        .queryExecution()
        .analyzed();
  }

  /** A version, or a moment in the session's time zone. */
  private void bound(Expression given, String which, Map options) {
    Object value = given.eval(null);
    if (value == null) throw usage(" NULL is neither a version nor a moment.");
    if (given.dataType() instanceof IntegralType) {
      options.put(which + "Version", value.toString());
      return;
    }
    scala.Option zone = scala.Option.apply(SparkSession.active().sessionState().conf().sessionLocalTimeZone());
    Object micros = new Cast(given, DataTypes.TimestampType, zone, EvalMode$.MODULE$.TRY()).eval(null);
    if (micros == null) throw usage(" '" + value + "' is neither a version nor a moment.");
    options.put(which + "Timestamp", Instant.EPOCH.plus(((Long) micros).longValue(), ChronoUnit.MICROS).toString());
  }

  private StatementError usage(String besides) {
    return new StatementError(
        "INVALID_INPUT",
        name + " takes a table, the first version and the last one, or moments." + besides + " Write " + name
            + (name.equals(NAMES[0]) ? "('t', 1, 5)" : "('/data/t', 1, 5)") + " or ('...', '2026-11-01', '2026-11-02').");
  }

  static void inject(SparkSessionExtensions extensions) {
    for (int i = 0; i < NAMES.length; i++) {
      ExpressionInfo info = new ExpressionInfo(ChangesFunction.class.getName(), NAMES[i]);
      Object function = new scala.Tuple3(new FunctionIdentifier(NAMES[i]), info, new ChangesFunction(NAMES[i]));
      extensions.injectTableFunction((scala.Tuple3) function);
    }
  }

  /** Adds the functions to a session that runs already. */
  static void register(TableFunctionRegistry registry) {
    SparkSessionExtensions alone = new SparkSessionExtensions();
    inject(alone);
    alone.registerTableFunctions(registry);
  }
}
