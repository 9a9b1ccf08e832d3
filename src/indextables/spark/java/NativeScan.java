package indextables;

import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** What Python calls: a DataFrame over the splits of one snapshot, read by Spark itself. */
public class NativeScan {

  /** Whether Spark has a file system for a URL. Nothing is opened. */
  public static boolean canRead(Object session, String url) {
    String scheme = new Path(url).toUri().getScheme();
    if (scheme == null) return true;
    try {
      FileSystem.getFileSystemClass(scheme, ((SparkSession) session).sessionState().newHadoopConf());
      return true;
    } catch (Exception e) {
      return false;
    }
  }

  public static Object dataFrame(
      Object session, String dataSchema, String partitionSchema, String root, String label, Object source, byte[] files)
      throws Exception {
    SparkSession spark = (SparkSession) session;
    StructType data = (StructType) DataType.fromJson(dataSchema);
    StructType partition = (StructType) DataType.fromJson(partitionSchema);
    Path top = new Path(root);
    top = top.getFileSystem(spark.sessionState().newHadoopConf()).makeQualified(top);
    SnapshotFileIndex index = new SnapshotFileIndex(partition, top, label, (java.util.Map) source, files);
    HadoopFsRelation relation =
        new HadoopFsRelation(
            index,
            partition,
            data,
            scala.Option.empty(),
            new ParquetFileFormat(),
            scala.collection.immutable.Map$.MODULE$.empty(),
            spark);
    return spark.baseRelationToDataFrame(relation);
  }
}
