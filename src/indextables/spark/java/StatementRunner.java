package indextables;

import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.function.BiFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import py4j.Py4JException;
import scala.Tuple2;

/**
 * Where statements run: in the Python process that started this driver, or in the one that it starts itself (spark-sql,
 * Thrift and Connect servers, see PythonDriver). It knows the session and can put Spark's workers to work.
 */
public class StatementRunner {
  private static final Map PREPARED = Collections.synchronizedMap(new WeakHashMap()); // FALSE while it is done
  private static final Object PREPARING = new Object();

  /**
   * Python's end: called with a session and a request as JSON, it returns bytes, a text or a DataFrame. An error is a JSON
   * document or what a query of Spark has thrown. An object that belongs to a request comes in a pair with the session.
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
checked(python.apply(session, DriverRequest.prepareSession().json()));
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
    return (StructType) DataType.fromJson((String) answer(session, DriverRequest.statementColumns(sql)));
  }

  static Dataset rows(SparkSession session, String sql) {
    return (Dataset) answer(session, DriverRequest.statementRows(sql));
  }

  /** The text of the error that Python has for SQL that Spark does not understand; null if it has none. */
  static String nearMiss(SparkSession session, String sql, String reason) {
    return driver == null ? null : (String) driver.apply(session, DriverRequest.correction(sql, reason).json());
  }

  /** The answer to a request about a read; null if Python cannot tell, or does not answer any more. */
  static byte[] planned(DriverRequest request) {
    try {
      return (byte[]) driver.apply(null, request.json());
    } catch (Py4JException gone) { // the process has ended, or listens no more
      return null;
    }
  }

  /** The rows of a small read, as a stream of Arrow. */
  static byte[] answered(DriverRequest request) {
    return (byte[]) checked(driver.apply(null, request.json()));
  }

  /** The answer to a request of the catalog, JSON; `frame` has the rows of a write. */
  static Object catalog(SparkSession session, String verb, Map arguments, Dataset frame) {
    Object subject = frame == null ? (Object) session : (Object) new Tuple2(session, frame);
    return driver().apply(subject, DriverRequest.catalog(verb, arguments).json());
  }

  /** The rows of a version of a table as Spark reads them itself; null where it does not. */
  static Object frame(SparkSession session, String path, String frame) {
    Object answer = driver().apply(session, DriverRequest.tableFrame(path, frame).json());
    return answer == null || answer instanceof Dataset ? answer : CatalogRequest.checked(answer);
  }

  /** The report of a DELETE, UPDATE or MERGE INTO that Spark has parsed. */
  static Object change(SparkSession session, String path, String name, Object plan) {
    return driver().apply(new Tuple2(session, plan), DriverRequest.rowChange(path, name).json());
  }

  private static Object answer(SparkSession session, DriverRequest request) {
    return checked(driver().apply(session, request.json()));
  }

  /** An answer that is no error. */
  private static Object checked(Object answer) {
    if (answer instanceof Throwable) CatalogRequest.raise((Throwable) answer);
    if (answer instanceof String) CatalogRequest.refuseError((String) answer);
    return answer;
  }
}
