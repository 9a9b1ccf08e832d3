package indextables;

import java.util.Map;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What Python calls: a DataFrame as `spark.read.format("indextables")` makes it, by a caller who knows its columns. */
public class SourceFrame {
  public static Object of(Object session, String schema, Object options) {
    Object relation =
        TableRelation.of(
            new TableRelation((StructType) DataType.fromJson(schema)), new CaseInsensitiveStringMap((Map) options));
    return org.apache.spark.sql.classic.Dataset.ofRows((SparkSession) session, (LogicalPlan) relation);
  }
}
