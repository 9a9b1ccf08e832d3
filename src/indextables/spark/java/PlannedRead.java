package indextables;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Has a read planned by the Python process that started this driver, which has the table's log in memory. Spark would ask
 * two processes of its own, one after the other, and does so where there is no such process or where it cannot plan.
 */
class PlannedRead {
  static void prepare(PlannedSource source, StructType columns, CaseInsensitiveStringMap options) {
    if (!StatementRunner.isAttached()) return;
    byte[] told = StatementRunner.planned("read", request(columns, options));
    if (told == null) return;
    source.setPlan(told);
  }

  /** What Python is told of a read: its columns, then its options with the session's settings. */
  static List request(StructType columns, CaseInsensitiveStringMap options) {
    List request = new ArrayList();
    request.add(columns.json());
    Iterator entries = SessionSource.withSession(options).asCaseSensitiveMap().entrySet().iterator();
    while (entries.hasNext()) {
      Map.Entry entry = (Map.Entry) entries.next();
      request.add(entry.getKey());
      request.add(entry.getValue());
    }
    return request;
  }
}
