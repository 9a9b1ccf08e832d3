package indextables;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownTopN;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScanBuilder;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Plans one scan: the columns that are wanted, the filters that Spark has, what it aggregates, sorts and cuts off, as options
 * for Python. Python says which filters it applies exactly; Spark applies the others again, so a filter that is not
 * understood costs time, never rows. An order and a limit Spark applies again in any case.
 */
class TableScanBuilder
    implements SupportsPushDownRequiredColumns,
        SupportsPushDownV2Filters,
        SupportsPushDownAggregates,
        SupportsPushDownLimit,
        SupportsPushDownTopN {
  private static final org.apache.spark.sql.connector.expressions.filter.Predicate[] NONE =
      new org.apache.spark.sql.connector.expressions.filter.Predicate[0];
  private final StructType full;
  private final StructType stored; // without what is known of rows besides
  private final CaseInsensitiveStringMap options;
  private final Map pushed = new HashMap();
  private StructType wanted;
  private org.apache.spark.sql.connector.expressions.filter.Predicate[] filters = NONE;
  private AnswerSize size;

  TableScanBuilder(StructType full, CaseInsensitiveStringMap options) {
    this(full, full, options);
  }

  TableScanBuilder(StructType full, StructType stored, CaseInsensitiveStringMap options) {
    this.full = full;
    this.stored = stored;
    this.options = options;
    this.wanted = full;
  }

  /** A scan that ends at a limit, or that aggregates, must not be filtered before it does. */
  public org.apache.spark.sql.connector.expressions.filter.Predicate[] pushPredicates(
      org.apache.spark.sql.connector.expressions.filter.Predicate[] given) {
    if (options.containsKey("limit") || TableRelation.isDerived(options) || given.length == 0) return given;
    filters = given;
    pushed.put("filters", FilterJson.of(filters));
    byte[] told = isAnswered() ? StatementRunner.planned(DriverRequest.readFilters(full, all())) : null;
    if (told == null) return given;
    String exact = new String(told, StandardCharsets.UTF_8); // a letter for each filter: y if Python applies it
    pushed.put("exact", exact);
    List left = new ArrayList();
    for (int i = 0; i < given.length; i++) if (exact.charAt(i) != 'y') left.add(given[i]);
    return (org.apache.spark.sql.connector.expressions.filter.Predicate[]) left.toArray(NONE);
  }

  public org.apache.spark.sql.connector.expressions.filter.Predicate[] pushedPredicates() {
    return filters;
  }

  /** Whether the process that started this driver can be asked about the read, and rows are not ranked by it. */
  private boolean isAnswered() {
    return StatementRunner.isAttached() && !TableRelation.isDerived(options);
  }

  private boolean isPlain() {
    if (options.containsKey("matches")) return false;
    return isAnswered() && !options.containsKey("limit") && !options.containsKey("score") && !options.containsKey("snippet");
  }

  /** The whole aggregation, if the driver answers it; otherwise each task returns its part, and Spark brings them together. */
  public boolean supportCompletePushDown(Aggregation aggregation) {
    if (!pushAggregation(aggregation)) return false;
    return size != null && size.small;
  }

  public boolean pushAggregation(Aggregation aggregation) {
    if (!isPlain()) return false;
    PushedAggregation found = PushedAggregation.of(aggregation, full);
    pushed.remove("aggregation");
    wanted = full;
    if (found == null) return false;
    pushed.put("aggregation", found.json);
    wanted = found.columns;
    size = AnswerSize.of(wanted, all(), false);
    if (size != null) return true;
    pushed.remove("aggregation"); // Python cannot do it
    wanted = full;
    return false;
  }

  public boolean pushLimit(int limit) {
    if (!isPlain()) return false;
    pushed.put("rows", String.valueOf(limit));
    return true;
  }

  public boolean pushTopN(SortOrder[] orders, int limit) {
    if (!isPlain() || orders.length != 1 || !(orders[0].expression() instanceof NamedReference)) return false;
    String[] names = ((NamedReference) orders[0].expression()).fieldNames();
    if (names.length != 1) return false;
    boolean scored = names[0].equals(RowMetadata.SCORE) && stored.getFieldIndex(names[0]).isEmpty();
    // The best come first; who wants the worst gets all of them, and Spark sorts.
    if (scored && orders[0].direction() != SortDirection.DESCENDING) return false;
    List order = new ArrayList();
    order.add(names[0]);
    order.add(orders[0].direction() == SortDirection.DESCENDING ? "desc" : "asc");
    order.add(orders[0].nullOrdering() == NullOrdering.NULLS_FIRST ? "nulls first" : "nulls last");
    pushed.put("order", FilterJson.written(order));
    pushed.put("rows", String.valueOf(limit));
    return true;
  }

  public boolean isPartiallyPushed() {
    return true;
  }

  /** Whole columns, in the order of the table; at least one, since batches without columns have no rows. */
  public void pruneColumns(StructType required) {
    if (pushed.containsKey("aggregation")) return;
    List kept = new ArrayList();
    StructField[] fields = full.fields();
    for (int i = 0; i < fields.length; i++) if (required.getFieldIndex(fields[i].name()).isDefined()) kept.add(fields[i]);
    StructField[] besides = RowMetadata.FIELDS.fields();
    for (int i = 0; i < besides.length; i++) {
      boolean known = full.getFieldIndex(besides[i].name()).isDefined();
      if (!known && required.getFieldIndex(besides[i].name()).isDefined()) kept.add(besides[i]);
    }
    if (kept.isEmpty()) kept.add(cheapest(fields));
    wanted = new StructType((StructField[]) kept.toArray(new StructField[0]));
  }

  private static StructField cheapest(StructField[] fields) {
    for (int i = 0; i < fields.length; i++) {
      Object type = fields[i].dataType();
      boolean wide = type instanceof StringType || type instanceof StructType;
      if (!wide && !(type instanceof ArrayType) && !(type instanceof MapType)) return fields[i];
    }
    return fields[0];
  }

  private CaseInsensitiveStringMap all() {
    Map all = new HashMap(options.asCaseSensitiveMap());
    all.putAll(pushed);
    all.put("parallelism", String.valueOf(SparkSession.active().sparkContext().defaultParallelism()));
    return new CaseInsensitiveStringMap(all);
  }

  public Scan build() {
    CaseInsensitiveStringMap told = all();
    if (!pushed.containsKey("aggregation")) RowMetadata.check(wanted, stored, told);
    size = AnswerSize.of(wanted, told, false);
    if (size != null && size.small) return new SmallAnswer(wanted, told, size);
    PlannedSource source = TableRelation.source();
    Scan scan = new PythonScanBuilder(source, TableRelation.FORMAT, wanted, told).build();
    return new TableScan(scan, source, told, size);
  }
}
