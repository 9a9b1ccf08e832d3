package indextables;

import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Stream;
import org.apache.spark.sql.DataFrameWriter;
import org.apache.spark.sql.DataFrameWriterV2;
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
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A write to a table by its name. The DataFrame goes to the Python process that started the driver, which writes it as
 * `its.write` does. For streams and for what Spark plans as a dynamic overwrite the data source's writer does the work.
 *
 * Python decides which rows an overwrite replaces (`OverwriteRequest` in indextables.spark.writes). Spark's plan is one of
 * its inputs: of saveAsTable and insertInto Spark plans an overwrite without regard to the options of the writer.
 */
class NamedWrite implements SupportsOverwriteV2, SupportsDynamicOverwrite {
  private static final String OVERWRITE_MODE = "partitionOverwriteMode";
  private final NamedTable table;
  private final LogicalWriteInfo info;
  private final Map options;
  private String replaces = "nothing";

  NamedWrite(NamedTable table, LogicalWriteInfo info, Map own) {
    this.table = table;
    this.info = info;
    this.options = new HashMap(info.options().asCaseSensitiveMap());
    options.putAll(own);
    options.put("path", table.path);
  }

  public WriteBuilder truncate() {
    replaces = options.containsKey("definition") ? "definition" : "everything";
    return this;
  }

  public boolean canOverwrite(org.apache.spark.sql.connector.expressions.filter.Predicate[] conditions) {
    return true;
  }

  public WriteBuilder overwrite(org.apache.spark.sql.connector.expressions.filter.Predicate[] conditions) {
    boolean everything = true;
    for (int i = 0; i < conditions.length; i++) everything = everything && conditions[i].name().equals("ALWAYS_TRUE");
    if (everything) return truncate();
    replaces = "condition";
    options.put("replaceFilters", FilterJson.of(conditions));
    return this;
  }

  public WriteBuilder overwriteDynamicPartitions() {
    replaces = "partitions";
    return this;
  }

  public Write build() {
    decideOverwriteMode();
    return new FrameWrite(this);
  }

  /** Replaces the writer's option by what Python decides, in whatever case the writer has spelled it. */
  private void decideOverwriteMode() {
    String given = null;
    Iterator keys = options.keySet().iterator();
    while (keys.hasNext()) {
      String key = (String) keys.next();
      if (!key.equalsIgnoreCase(OVERWRITE_MODE)) continue;
      given = (String) options.get(key);
      keys.remove();
    }
    Map arguments = CatalogRequest.arguments(table.path);
    arguments.put("replaces", replaces);
    String condition = info.options().get("replaceWhere");
    arguments.put("hasCondition", Boolean.valueOf(condition != null && !condition.isEmpty()));
    arguments.put("caller", caller());
    arguments.put("option", given);
    arguments.put("session", SQLConf.get().partitionOverwriteMode().toString());
    Object mode = CatalogRequest.answer("overwrite mode", arguments).get("mode");
    if (mode != null) options.put(OVERWRITE_MODE, mode);
  }

  private boolean overwrites() {
    return !replaces.equals("nothing");
  }

  /**
   * The API that asks for the write: DataFrameWriter, DataFrameWriterV2 or a statement. Spark does not hand it over, and its
   * plan of saveAsTable is that of CREATE OR REPLACE TABLE. So the public classes are looked for among the callers.
   */
  private static String caller() {
    return (String) StackWalker.getInstance(StackWalker.Option.RETAIN_CLASS_REFERENCE).walk(new Caller());
  }

  static class Caller implements Function {
    public Object apply(Object frames) {
      Iterator each = ((Stream) frames).iterator();
      while (each.hasNext()) {
        Class type = ((StackWalker.StackFrame) each.next()).getDeclaringClass();
        if (DataFrameWriter.class.isAssignableFrom(type)) return "DataFrameWriter";
        if (DataFrameWriterV2.class.isAssignableFrom(type)) return "DataFrameWriterV2";
      }
      return "statement";
    }
  }

  /** The write as the data source does it. */
  private Write sourceWrite() {
    LogicalWriteInfo located = new LocatedInfo(info, new CaseInsensitiveStringMap(options));
    WriteBuilder builder =
        new PythonTable(TableRelation.source(), TableRelation.FORMAT, table.schema()).newWriteBuilder(located);
    return overwrites() ? ((SupportsTruncate) builder).truncate().build() : builder.build();
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
      arguments.put("overwrite", Boolean.valueOf(write.overwrites()));
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
