package indextables;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructType;
import py4j.Py4JException;

/**
 * Where statements run: in the Python process that started this driver, if there is one, which knows the session and can
 * put Spark's workers to work; otherwise (spark-sql, Thrift and Connect servers) in a Python process that Spark starts.
 */
public class StatementRunner {
  private static final String TABLE_KEY = "indextables.table";

  /** Python's end: called with a session and a request, it returns a DataFrame, or a text that begins with a letter. */
  private static volatile BiFunction driver;

  static void attach(Object given) {
    driver = (BiFunction) given;
  }

  static boolean isAttached() {
    return driver != null;
  }

  static StructType columns(SparkSession session, String sql) {
    if (driver == null) return load(session, sql, null).schema();
    return (StructType) DataType.fromJson((String) asked(session, "columns", sql));
  }

  static Dataset rows(SparkSession session, String sql) {
    if (driver != null) return (Dataset) asked(session, "rows", sql);
    Dataset frame = load(session, sql, null);
    Metadata told = frame.schema().fields()[0].metadata();
    if (!told.contains(TABLE_KEY)) return frame;
    return load(session, sql, TablePaths.of(session, told.getString(TABLE_KEY)));
  }

  /** The text of the error that Python has for a statement that Spark does not understand; null if it has none. */
  static String nearMiss(SparkSession session, String sql) {
    return driver == null ? null : (String) driver.apply(session, new String[] {"near miss", sql});
  }

  /** What Python says to the columns and options of a read: what its tasks do, as Spark keeps it; null if it cannot. */
  static byte[] planned(List request) {
    List all = new ArrayList();
    all.add("read");
    all.addAll(request);
    try {
      return (byte[]) driver.apply(null, all.toArray(new String[0]));
    } catch (Py4JException gone) { // the process has ended, or listens no more
      return null;
    }
  }

  private static Object asked(SparkSession session, String what, String sql) {
    Object answer = driver.apply(session, new String[] {what, sql});
    if (answer instanceof String && ((String) answer).startsWith("!")) {
      throw new IllegalArgumentException(((String) answer).substring(1));
    }
    return answer;
  }

  private static Dataset load(SparkSession session, String sql, String table) {
    Map options = new HashMap();
    options.put("statement", sql);
    if (table != null) options.put("statementTable", table);
    return session.read().format("indextables").options(options).load();
  }
}
