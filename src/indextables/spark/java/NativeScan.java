package indextables;

import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/** What Python calls: a DataFrame over the splits of one snapshot, read by Spark itself. */
public class NativeScan {
  /**
   * How these files are read, whatever the session says of others: a split that is missing or damaged is an error and
   * never fewer rows, and days and times mean what they meant when they were written.
   */
  private static final scala.collection.immutable.Map OWN_WAYS =
      with(with(with(with(scala.collection.immutable.Map$.MODULE$.empty(), "ignoreMissingFiles", "false"),
          "ignoreCorruptFiles", "false"), "datetimeRebaseMode", "CORRECTED"), "int96RebaseMode", "CORRECTED");

  private static scala.collection.immutable.Map with(scala.collection.immutable.Map map, String key, String value) {
    return (scala.collection.immutable.Map) map.$plus(new Tuple2(key, value));
  }

  /** Schemes of one store: where Spark has a file system for one, it can read URLs of the others. */
  private static final String[][] SIBLINGS = {{"s3", "s3a", "s3n"}, {"abfss", "abfs"}};

  /** Whether Spark has a file system for a URL. Nothing is opened. */
  public static boolean canRead(Object session, String url) {
    return readable((SparkSession) session, url) != null;
  }

  /** The URL with a scheme that Spark has a file system for; null if there is none. */
  private static String readable(SparkSession session, String url) {
    String scheme = new Path(url).toUri().getScheme();
    if (scheme == null || hasFileSystem(session, scheme)) return url;
    for (int i = 0; i < SIBLINGS.length; i++) {
      if (!java.util.Arrays.asList((Object[]) SIBLINGS[i]).contains(scheme)) continue;
      for (int j = 0; j < SIBLINGS[i].length; j++)
        if (hasFileSystem(session, SIBLINGS[i][j])) return SIBLINGS[i][j] + url.substring(scheme.length());
    }
    return null;
  }

  private static boolean hasFileSystem(SparkSession session, String scheme) {
    try {
      FileSystem.getFileSystemClass(scheme, session.sessionState().newHadoopConf());
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
    Path top = new Path(readable(spark, root));
    top = top.getFileSystem(spark.sessionState().newHadoopConf()).makeQualified(top);
    SnapshotFileIndex index = new SnapshotFileIndex(partition, top, label, (java.util.Map) source, files);
    HadoopFsRelation relation =
        new HadoopFsRelation(
            index,
            partition,
            data,
            scala.Option.empty(),
            new ParquetFileFormat(),
            OWN_WAYS,
            spark);
    org.apache.spark.sql.classic.Dataset rows =
        (org.apache.spark.sql.classic.Dataset) spark.baseRelationToDataFrame(relation);
    // Without the extension there is no rule that does it later.
    if (!index.hidesRows() || StatementParser.standsBefore(spark.sessionState().sqlParser())) return rows;
    return org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows(spark, DeletedRows.in(rows.queryExecution().analyzed()));
  }
}
