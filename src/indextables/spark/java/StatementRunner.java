package indextables;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.function.BiFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import py4j.Py4JException;

/**
 * Where statements run: in the Python process that started this driver, or in the one that it starts itself (spark-sql,
 * Thrift and Connect servers, see PythonDriver). It knows the session and can put Spark's workers to work.
 */
public class StatementRunner {
  private static final Map PREPARED = Collections.synchronizedMap(new WeakHashMap()); // FALSE while it is done
  private static final Object PREPARING = new Object();

  /**
   * Python's end: called with a session and a request, it returns a DataFrame, or a text that begins with a letter. A request
   * of texts alone is one text, JSON: of an array Python would have to ask for every element, a round trip each.
   */
  private static volatile BiFunction driver;

  static void attach(Object given) {
    driver = (BiFunction) given;
  }

  static boolean isAttached() {
    return driver != null;
  }

  /**
   * Lets a session know the data source, with its settings, and our functions, unless it does. Others who use the session
   * wait until it does; if that fails, the next one tries again.
   */
  static void prepare(SparkSession session) {
    if (Boolean.TRUE.equals(PREPARED.get(session))) return;
    BiFunction python = driver(); // which prepares one session itself when it starts
    synchronized (PREPARING) {
      if (PREPARED.containsKey(session)) return; // or this very thread is at it
      PREPARED.put(session, Boolean.FALSE);
      try {
        checked(python.apply(session, FilterJson.written(new String[] {"prepare", ""})));
        PREPARED.put(session, Boolean.TRUE);
      } finally {
        PREPARED.remove(session, Boolean.FALSE);
      }
    }
  }

  static void isPrepared(SparkSession session) {
    PREPARED.put(session, Boolean.TRUE);
  }

  private static BiFunction driver() {
    BiFunction known = driver;
    if (known != null) return known;
    PythonDriver.start();
    return driver;
  }

  static StructType columns(SparkSession session, String sql) {
    return (StructType) DataType.fromJson((String) asked(session, "columns", sql));
  }

  static Dataset rows(SparkSession session, String sql) {
    return (Dataset) asked(session, "rows", sql);
  }

  /** The text of the error that Python has for SQL that Spark does not understand, and says why; null if it has none. */
  static String nearMiss(SparkSession session, String sql, String why) {
    if (driver == null) return null;
    return (String) driver.apply(session, FilterJson.written(new String[] {"near miss", sql, why}));
  }

  /**
   * What Python says to the columns and options of a read; null if it has nothing to say. "read": what its tasks do, as
   * Spark keeps it; "size": how much it returns; "filters": which filters it applies exactly; "rows": the rows themselves.
   */
  static byte[] planned(String what, List request) {
    List all = new ArrayList();
    all.add(what);
    all.addAll(request);
    try {
      return (byte[]) driver.apply(null, FilterJson.written(all));
    } catch (Py4JException gone) { // the process has ended, or listens no more
      return null;
    }
  }

  /** The rows of a small read, as a stream of Arrow; what goes wrong is told in Python's words. */
  static byte[] answered(List request) {
    List all = new ArrayList();
    all.add("rows of a read");
    all.addAll(request);
    return (byte[]) checked(driver.apply(null, FilterJson.written(all)));
  }

  /** What Python says to a request of the catalog, JSON; with the rows that a write has. */
  static Object catalog(SparkSession session, String verb, String request, Dataset frame) {
    if (frame == null) return driver().apply(session, FilterJson.written(new String[] {"catalog", verb, request}));
    return driver().apply(session, new Object[] {"catalog", verb, request, frame});
  }

  /** The rows of a version of a table as Spark reads them itself; null where it does not, or nobody can be asked. */
  static Object frame(SparkSession session, String path, String frame) {
    Object answer = driver().apply(session, FilterJson.written(new String[] {"frame", path, frame}));
    if (answer != null && !(answer instanceof Dataset)) CatalogRequest.checked(answer);
    return answer;
  }

  /** What became of a DELETE, UPDATE or MERGE INTO that Spark has parsed. */
  static Object change(SparkSession session, String path, String name, Object plan) {
    return driver().apply(session, new Object[] {"change", path, name, plan});
  }

  private static Object asked(SparkSession session, String what, String sql) {
    return checked(driver().apply(session, FilterJson.written(new String[] {what, sql})));
  }

  private static Object checked(Object answer) {
    if (answer instanceof Throwable) CatalogRequest.raise((Throwable) answer);
    if (answer instanceof String && ((String) answer).startsWith("!")) {
      String[] said = ((String) answer).substring(1).split("\n", 2);
      throw new StatementError(said[0], said[1]);
    }
    return answer;
  }
}
