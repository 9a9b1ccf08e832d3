package indextables;

import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Has a read planned by the Python process that started this driver, which has the table's log in memory. Spark would ask
 * two processes of its own, one after the other, and does so where there is no such process or where it cannot plan.
 */
class PlannedRead {
  static void prepare(PlannedSource source, StructType columns, CaseInsensitiveStringMap options) {
    if (!StatementRunner.isAttached()) return;
    byte[] plan = StatementRunner.planned(DriverRequest.readPlan(columns, options));
    if (plan != null) source.setPlan(plan);
  }
}
