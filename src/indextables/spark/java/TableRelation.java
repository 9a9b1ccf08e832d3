package indextables;

import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.collection.immutable.Seq;

/**
 * A table of ours as the data source reads it. Spark keeps what it has planned for a Python data source on an object that
 * all scans of a DataFrame share, so that one scan's filters would reach another; here each scan has an object of its own.
 */
public class TableRelation extends PythonTable {
  static final String FORMAT = "indextables";

  /** Other names of the format, by which jobs for IndexTables for the JVM know it. */
  static final String[] OTHER_NAMES = {
    "tantivy4spark", "io.indextables.provider.IndexTablesProvider", "io.indextables.spark.core.IndexTables4SparkTableProvider"
  };

  private static final String PATH_KEY = "indextables.path";

  private final StructType stored;

  TableRelation(StructType schema) {
    this(schema, schema);
  }

  /** With columns that are not stored: matches, and what is known of rows besides. */
  TableRelation(StructType schema, StructType stored) {
    super(source(), FORMAT, schema);
    this.stored = stored;
  }

  static PlannedSource source() {
    PlannedSource source = new PlannedSource();
    source.setShortName(FORMAT);
    return source;
  }

  /** Two searches of one version with the same options are the same data: what one has cached, the other finds. */
  public boolean equals(Object other) {
    if (other == this || getClass() != TableRelation.class) return other == this;
    return other != null && other.getClass() == getClass() && ((TableRelation) other).schema().equals(schema());
  }

  public int hashCode() {
    return getClass() == TableRelation.class ? schema().hashCode() : System.identityHashCode(this);
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new TableScanBuilder(schema(), stored, options);
  }

  /** Whether a read returns other rows than the table stores, a change feed or aggregations: conditions on them are Spark's. */
  static boolean isDerived(CaseInsensitiveStringMap options) {
    return isFeed(options) || options.containsKey("aggregate");
  }

  /** Whether a read is of what happened to rows. */
  static boolean isFeed(CaseInsensitiveStringMap options) {
    return "true".equalsIgnoreCase(options.get("readChangeFeed"));
  }

  /** Whether a provider is ours, by any of its names. */
  static boolean isFormat(String provider) {
    boolean ours = FORMAT.equalsIgnoreCase(provider);
    for (int i = 0; i < OTHER_NAMES.length; i++) ours = ours || OTHER_NAMES[i].equalsIgnoreCase(provider);
    return ours;
  }

  static boolean isOurs(DataSourceV2Relation relation) {
    if (relation.table() instanceof TableRelation) return true;
    return relation.table() instanceof PythonTable && isFormat(relation.table().name());
  }

  /** Where the table of a relation is; null if it is none of ours. The schema knows it where the options do not. */
  static String pathOf(DataSourceV2Relation relation) {
    if (!isOurs(relation)) return null;
    if (relation.table() instanceof NamedTable) return ((NamedTable) relation.table()).path;
    String given = relation.options().get("path");
    StructField[] fields = relation.table().schema().fields();
    for (int i = 0; given == null && i < fields.length; i++) {
      Metadata metadata = fields[i].metadata();
      if (metadata.contains(PATH_KEY)) given = metadata.getString(PATH_KEY);
    }
    return given == null ? null : TablePaths.absolute(given);
  }

  /**
   * A relation of ours with scans of its own, and the whole path among its options: columns that carry it may be pruned,
   * and the process that plans the scan may be in another folder than the one that read the schema.
   */
  static DataSourceV2Relation unshared(DataSourceV2Relation shared) {
    Map options = new HashMap(shared.options().asCaseSensitiveMap());
    String path = pathOf(shared);
    if (path != null) {
      Iterator keys = options.keySet().iterator();
      while (keys.hasNext()) if (((String) keys.next()).equalsIgnoreCase("path")) keys.remove();
      options.put("path", path);
    }
    StructType schema = shared.table().schema();
    String frame = schema instanceof FramedSchema ? ((FramedSchema) schema).frame : null;
    if (frame != null && !shared.options().containsKey(FramedSchema.OPTION)) options.put(FramedSchema.OPTION, frame);
    return copied(shared, new TableRelation(new StructType(schema.fields())), options);
  }

  static DataSourceV2Relation withOptions(DataSourceV2Relation relation, Map options) {
    return copied(relation, relation.table(), options);
  }

  private static DataSourceV2Relation copied(DataSourceV2Relation from, Object table, Map options) {
    Object[] parts = (Object[]) from.productIterator().toArray(scala.reflect.ClassTag$.MODULE$.Object());
    parts[0] = table;
    parts[4] = new CaseInsensitiveStringMap(options);
    DataSourceV2Relation made = (DataSourceV2Relation) SparkApi.construct(DataSourceV2Relation.class, parts);
    made.copyTagsFrom(from);
    return made;
  }

  /** A relation that returns all columns of a table. */
  static DataSourceV2Relation of(TableRelation table, CaseInsensitiveStringMap options) {
    return relation(table, DataTypeUtils.toAttributes(table.schema()), options);
  }

  /** A relation that returns given columns of a table, of which it stores some. */
  static DataSourceV2Relation of(StructType schema, StructType stored, Seq output, Map options) {
    return relation(new TableRelation(schema, stored), output, new CaseInsensitiveStringMap(options));
  }

  private static DataSourceV2Relation relation(TableRelation table, Seq output, CaseInsensitiveStringMap options) {
    Object[] parts = {table, output, scala.Option.empty(), scala.Option.empty(), options};
    return (DataSourceV2Relation) SparkApi.construct(DataSourceV2Relation.class, parts);
  }
}
