package indextables;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceReadInfo;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's Python data source with one read that is planned already: Spark gets the plan where it would start a Python
 * process. In this form it works with every version; only some let a plan be set.
 */
class PlannedSource extends PythonDataSourceV2 {
  private PythonDataSourceReadInfo plan;

  /** Pieces with their lengths: the function of the tasks, then each partition. */
  void setPlan(byte[] packed) {
    ByteBuffer pieces = ByteBuffer.wrap(packed);
    List partitions = new ArrayList();
    byte[] function = piece(pieces);
    while (pieces.hasRemaining()) partitions.add(piece(pieces));
    plan = new PythonDataSourceReadInfo(function, CollectionConverters.asScala(partitions).toSeq());
  }

  private static byte[] piece(ByteBuffer pieces) {
    byte[] one = new byte[pieces.getInt()];
    pieces.get(one);
    return one;
  }

  public PythonDataSourceCreationResult getOrCreateDataSourceInPython(
      String name, CaseInsensitiveStringMap options, scala.Option schema) {
    return plan == null ? super.getOrCreateDataSourceInPython(name, options, schema) : null;
  }

  public UserDefinedPythonDataSource source() {
    UserDefinedPythonDataSource source = super.source();
    return plan == null ? source : new Planned(source.dataSourceCls(), plan);
  }

  static class Planned extends SessionSource {
    private final PythonDataSourceReadInfo plan;

    Planned(PythonFunction source, PythonDataSourceReadInfo plan) {
      super(source);
      this.plan = plan;
    }

    public PythonDataSourceReadInfo createReadInfoInPython(
        PythonDataSourceCreationResult made, StructType schema, boolean streaming) {
      return plan;
    }
  }
}
