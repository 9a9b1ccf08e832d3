package indextables;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A read that returns so little that the process which started this driver does it at once: no task, no worker. */
public class SmallAnswer implements LocalScan, SupportsReportStatistics {
  private final StructType columns;
  private final CaseInsensitiveStringMap options;
  private final AnswerSize size;
  private InternalRow[] rows;

  SmallAnswer(StructType columns, CaseInsensitiveStringMap options, AnswerSize size) {
    this.columns = columns;
    this.options = options;
    this.size = size;
  }

  public StructType readSchema() {
    return columns;
  }

  public String description() {
    return "read by the driver: " + TableScan.described(options);
  }

  /** A stream goes on where a read ends: the data source's own reader does it. */
  public org.apache.spark.sql.connector.read.streaming.MicroBatchStream toMicroBatchStream(String checkpoint) {
    return new org.apache.spark.sql.execution.datasources.v2.python.PythonScanBuilder(
            TableRelation.source(), TableRelation.FORMAT, columns, options)
        .build()
        .toMicroBatchStream(checkpoint);
  }

  public Statistics estimateStatistics() {
    return size;
  }

  public synchronized InternalRow[] rows() {
    if (rows == null) rows = decoded(StatementRunner.answered(DriverRequest.readRows(columns, options)));
    return rows;
  }

  private InternalRow[] decoded(byte[] arrow) {
    scala.collection.Iterator each =
        (scala.collection.Iterator) ArrowConverters$.MODULE$.fromIPCStreamWithIterator(arrow, null)._1();
    UnsafeProjection projection = UnsafeProjection.create(columns);
    List all = new ArrayList();
    while (each.hasNext()) all.add(projection.apply((InternalRow) each.next()).copy());
    return (InternalRow[]) all.toArray(new InternalRow[0]);
  }
}
