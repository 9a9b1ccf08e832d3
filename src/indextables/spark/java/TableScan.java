package indextables;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Spark's scan of a Python data source, with a description that tells what is searched for and filtered. */
public class TableScan implements Scan, SupportsReportStatistics {
  private static final String[] TOLD = {"path", "versionAsOf", "query", "searches", "matches", "where", "filters", "limit", "aggregation", "order", "rows"};
  private final Scan scan;
  private final PlannedSource source;
  private final CaseInsensitiveStringMap options;
  private boolean planned;
  private AnswerSize size;

  TableScan(Scan scan, PlannedSource source, CaseInsensitiveStringMap options, AnswerSize size) {
    this.scan = scan;
    this.source = source;
    this.options = options;
    this.size = size;
  }

  public StructType readSchema() {
    return scan.readSchema();
  }

  /** Asked for when something depends on it, such as whether one side of a join is sent to all workers. */
  public synchronized Statistics estimateStatistics() {
    if (size == null || size.numRows().isEmpty()) size = AnswerSize.of(scan.readSchema(), options, true);
    return size;
  }

  public String description() {
    return described(options);
  }

  static String described(CaseInsensitiveStringMap options) {
    StringBuilder told = new StringBuilder("IndexTables");
    for (int i = 0; i < TOLD.length; i++) {
      if (options.containsKey(TOLD[i])) told.append(' ').append(TOLD[i]).append('=').append(options.get(TOLD[i]));
    }
    return told.toString();
  }

  public synchronized Batch toBatch() {
    if (!planned) PlannedRead.prepare(source, scan.readSchema(), options);
    planned = true;
    return scan.toBatch();
  }

  public org.apache.spark.sql.connector.read.streaming.MicroBatchStream toMicroBatchStream(String checkpoint) {
    return scan.toMicroBatchStream(checkpoint);
  }

  public CustomMetric[] supportedCustomMetrics() {
    return scan.supportedCustomMetrics();
  }

  public CustomTaskMetric[] reportDriverMetrics() {
    return scan.reportDriverMetrics();
  }

  public Scan.ColumnarSupportMode columnarSupportMode() {
    return scan.columnarSupportMode();
  }
}
