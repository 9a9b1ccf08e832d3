package indextables;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScanBuilder;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Plans one scan: the columns that are wanted and the filters that Spark has, as options for Python, which makes of the
 * filters what it can. Spark applies them all again, so a filter that is not understood costs time, never rows.
 */
class TableScanBuilder implements SupportsPushDownRequiredColumns, SupportsPushDownV2Filters {
  private final StructType full;
  private final CaseInsensitiveStringMap options;
  private StructType wanted;
  private org.apache.spark.sql.connector.expressions.filter.Predicate[] filters =
      new org.apache.spark.sql.connector.expressions.filter.Predicate[0];

  TableScanBuilder(StructType full, CaseInsensitiveStringMap options) {
    this.full = full;
    this.options = options;
    this.wanted = full;
  }

  /** A scan that ends at a limit must not be filtered before it does. */
  public org.apache.spark.sql.connector.expressions.filter.Predicate[] pushPredicates(
      org.apache.spark.sql.connector.expressions.filter.Predicate[] given) {
    if (!options.containsKey("limit")) filters = given;
    return given;
  }

  public org.apache.spark.sql.connector.expressions.filter.Predicate[] pushedPredicates() {
    return filters;
  }

  /** Whole columns, in the order of the table; at least one, since batches without columns have no rows. */
  public void pruneColumns(StructType required) {
    List kept = new ArrayList();
    StructField[] fields = full.fields();
    for (int i = 0; i < fields.length; i++) if (required.getFieldIndex(fields[i].name()).isDefined()) kept.add(fields[i]);
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

  public Scan build() {
    Map all = new HashMap(options.asCaseSensitiveMap());
    if (filters.length > 0) all.put("filters", FilterJson.of(filters));
    CaseInsensitiveStringMap told = new CaseInsensitiveStringMap(all);
    PythonDataSourceV2 source = TableRelation.source();
    Scan scan = new PythonScanBuilder(source, TableRelation.FORMAT, wanted, told).build();
    return new TableScan(scan, source, told);
  }
}
