package indextables;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A write to a table by its name. The DataFrame goes to the Python process that started the driver, which writes it as
 * `its.write` does. For streams and dynamic overwrites the data source's writer does the work.
 */
class NamedWrite implements SupportsOverwriteV2, SupportsDynamicOverwrite {
  private final NamedTable table;
  private final LogicalWriteInfo info;
  private final Map options;
  private boolean overwrites;

  NamedWrite(NamedTable table, LogicalWriteInfo info, Map own) {
    this.table = table;
    this.info = info;
    this.options = new HashMap(info.options().asCaseSensitiveMap());
    options.putAll(own);
    options.put("path", table.path);
  }

  public WriteBuilder truncate() {
    overwrites = true;
    if (!options.containsKey("replaceWhere")) options.put("partitionOverwriteMode", "static");
    return this;
  }

  public boolean canOverwrite(org.apache.spark.sql.connector.expressions.filter.Predicate[] conditions) {
    return true;
  }

  public WriteBuilder overwrite(org.apache.spark.sql.connector.expressions.filter.Predicate[] conditions) {
    boolean everything = true;
    for (int i = 0; i < conditions.length; i++) everything = everything && conditions[i].name().equals("ALWAYS_TRUE");
    if (everything) return truncate();
    overwrites = true;
    options.put("replaceFilters", FilterJson.of(conditions));
    return this;
  }

  public WriteBuilder overwriteDynamicPartitions() {
    overwrites = true;
    options.put("partitionOverwriteMode", "dynamic");
    return this;
  }

  public Write build() {
    boolean dynamic = "dynamic".equals(options.get("partitionOverwriteMode"));
    return !dynamic ? (Write) new FrameWrite(this) : sourceWrite();
  }

  /** The write as the data source does it. */
  private Write sourceWrite() {
    LogicalWriteInfo located = new LocatedInfo(info, new CaseInsensitiveStringMap(options));
    WriteBuilder builder =
        new PythonTable(TableRelation.source(), TableRelation.FORMAT, table.schema()).newWriteBuilder(located);
    return overwrites ? ((SupportsTruncate) builder).truncate().build() : builder.build();
  }

  static class FrameWrite implements V1Write {
    private final NamedWrite write;

    FrameWrite(NamedWrite write) {
      this.write = write;
    }

    public InsertableRelation toInsertableRelation() {
      return new Insertion(write);
    }

    public BatchWrite toBatch() {
      return write.sourceWrite().toBatch();
    }

    public StreamingWrite toStreaming() {
      return write.sourceWrite().toStreaming();
    }

    public String description() {
      return "IndexTables path=" + write.table.path;
    }
  }

  static class Insertion implements InsertableRelation {
    private final NamedWrite write;

    Insertion(NamedWrite write) {
      this.write = write;
    }

    public void insert(Dataset rows, boolean overwrite) {
      Map arguments = CatalogRequest.arguments(write.table.path);
      arguments.put("options", write.options);
      arguments.put("overwrite", Boolean.valueOf(write.overwrites));
      CatalogRequest.answer("write", arguments, rows);
    }
  }

  static class LocatedInfo implements LogicalWriteInfo {
    private final LogicalWriteInfo info;
    private final CaseInsensitiveStringMap options;

    LocatedInfo(LogicalWriteInfo info, CaseInsensitiveStringMap options) {
      this.info = info;
      this.options = options;
    }

    public CaseInsensitiveStringMap options() {
      return options;
    }

    public String queryId() {
      return info.queryId();
    }

    public StructType schema() {
      return info.schema();
    }
  }
}
