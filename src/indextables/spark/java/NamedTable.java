package indextables;

import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.NoSuchPartitionsException;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsAtomicPartitionManagement;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TruncatableTable;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A table that was found by its name or by its path in SQL, at the version that its log had then. Columns, partitions and
 * properties are the log's. Spark reads its splits itself where it can: see `plan` and TableRule.
 */
public class NamedTable extends TableRelation
    implements SupportsAtomicPartitionManagement, SupportsMetadataColumns, TruncatableTable {
  final String path;
  final String frame;
  private final String name;
  private final Map told;
  private LogicalPlan plan;
  private boolean planned;

  NamedTable(String name, Map told) {
    super((StructType) DataType.fromJson((String) told.get("schema")));
    this.name = name;
    this.told = told;
    this.path = (String) told.get("path");
    this.frame = (String) told.get("frame");
  }

  /** The table at a path, at its newest version or an older one (`version` or `micros` since 1970, or neither). */
  static NamedTable load(String name, String path, String version, Long micros) {
    Map arguments = CatalogRequest.arguments(path);
    if (version != null) arguments.put("version", version);
    if (micros != null) arguments.put("micros", micros);
    return new NamedTable(name, CatalogRequest.answer("load", arguments));
  }

  public String name() {
    return name;
  }

  /** The columns as they were declared: by a VARCHAR here Spark checks the lengths of what it writes. */
  public org.apache.spark.sql.connector.catalog.Column[] columns() {
    return new TableRelation((StructType) DataType.fromJson((String) told.get("columns"))).columns();
  }

  public String id() {
    return (String) told.get("id");
  }

  public String version() {
    return String.valueOf(told.get("version"));
  }

  List partitionNames() {
    return (List) told.get("partitions");
  }

  public Transform[] partitioning() {
    List names = partitionNames();
    Transform[] all = new Transform[names.size()];
    for (int i = 0; i < all.length; i++) all[i] = Expressions.identity("`" + ((String) names.get(i)).replace("`", "``") + "`");
    return all;
  }

  public Map properties() {
    Map all = new LinkedHashMap((Map) told.get("properties"));
    all.put("provider", FORMAT);
    all.put("location", path);
    return all;
  }

  /** What a search says of a row, and where the row lies. */
  public MetadataColumn[] metadataColumns() {
    StructField[] fields = RowMetadata.FIELDS.fields();
    MetadataColumn[] all = new MetadataColumn[fields.length];
    for (int i = 0; i < all.length; i++) all[i] = new RowMetadata(fields[i]);
    return all;
  }

  public Set capabilities() {
    Set all = new HashSet(super.capabilities());
    all.add(TableCapability.OVERWRITE_BY_FILTER);
    all.add(TableCapability.OVERWRITE_DYNAMIC);
    SparkApi.addCapabilities(all);
    all.add(TableCapability.V1_BATCH_WRITE);
    return all;
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    if (isFeed(options))
      throw new StatementError(
          "UNSUPPORTED",
          "The option readChangeFeed has columns that a read of " + name + " by its name does not have. Write SELECT * FROM"
              + " table_changes('" + name + "', 1), or load(\"" + path + "\") instead of table(...); so do streams.");
    return super.newScanBuilder(new CaseInsensitiveStringMap(located(options)));
  }

  /** Options with where the table is, and at which version it is read. */
  Map located(CaseInsensitiveStringMap options) {
    Map all = new HashMap(options.asCaseSensitiveMap());
    all.put("path", path);
    all.put(FramedSchema.OPTION, frame);
    return all;
  }

  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new NamedWrite(this, info, new HashMap());
  }

  /** What Spark's own scan of the table is; null where its rows come through the data source. Asked for once. */
  synchronized LogicalPlan plan(SparkSession session) {
    if (!planned) {
      Dataset rows = (Dataset) StatementRunner.frame(session, path, frame);
      plan = rows == null ? null : ((org.apache.spark.sql.classic.Dataset) rows).queryExecution().analyzed();
      planned = true;
    }
    return plan;
  }

  public boolean truncateTable() {
    CatalogRequest.answer("truncate", CatalogRequest.arguments(path));
    return true;
  }

  // Partitions: the log knows those that have rows; others cannot be made, and go with their rows.

  public StructType partitionSchema() {
    List names = partitionNames();
    StructField[] fields = new StructField[names.size()];
    for (int i = 0; i < fields.length; i++) fields[i] = schema().apply((String) names.get(i));
    return new StructType(fields);
  }

  public InternalRow[] listPartitionIdentifiers(String[] names, InternalRow values) {
    return PartitionRows.of(this, names, values);
  }

  public boolean dropPartition(InternalRow values) {
    return dropPartitions(new InternalRow[] {values});
  }

  public boolean dropPartitions(InternalRow[] partitions) {
    return dropped(partitions);
  }

  public boolean truncatePartition(InternalRow values) {
    return dropped(new InternalRow[] {values});
  }

  public boolean truncatePartitions(InternalRow[] partitions) {
    return dropped(partitions);
  }

  /** Spark ignores `false`: a statement that removes no row would look as if it had. */
  private boolean dropped(InternalRow[] partitions) {
    if (partitions.length > 0 && PartitionRows.drop(this, partitions)) return true;
    if (partitions.length == 0)
      throw new StatementError(
          "INVALID_INPUT", "No partition of " + name + " matches. SHOW PARTITIONS lists those that have rows.");
    CatalogRequest.raise(
        new NoSuchPartitionsException(name, CollectionConverters.asScala(Arrays.asList(partitions)).toSeq(), partitionSchema()));
    return false;
  }

  public void createPartition(InternalRow values, Map properties) {
    createPartitions(null, null);
  }

  public void createPartitions(InternalRow[] partitions, Map[] properties) {
    CatalogRequest.raise(
        CatalogRequest.error(
            "UNSUPPORTED", "A partition of " + name + " is there when it has rows: INSERT INTO makes it."));
  }

  public void replacePartitionMetadata(InternalRow values, Map properties) {
    CatalogRequest.raise(
        CatalogRequest.error("UNSUPPORTED", "Partitions of " + name + " have no properties or places of their own."));
  }

  public Map loadPartitionMetadata(InternalRow values) {
    return Collections.EMPTY_MAP;
  }

  /** Two reads of one version of one table are the same read. */
  public boolean equals(Object other) {
    return other instanceof NamedTable && ((NamedTable) other).path.equals(path) && ((NamedTable) other).frame.equals(frame);
  }

  public int hashCode() {
    return path.hashCode();
  }
}
