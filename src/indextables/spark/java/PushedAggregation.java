package indextables;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.expressions.aggregate.Sum;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/**
 * What Spark aggregates, where Python means the same by it: count, min, max and sum by whole columns. Floating point
 * numbers are left to Spark but for their sum: of NaN and -0.0 it has its own view.
 */
class PushedAggregation {
  final String json;
  final StructType columns;

  private PushedAggregation(String json, StructType columns) {
    this.json = json;
    this.columns = columns;
  }

  /** The aggregation for Python and the columns of its result; null if there is anything in it that Spark must do. */
  static PushedAggregation of(Aggregation aggregation, StructType table) {
    List keys = new ArrayList();
    List functions = new ArrayList();
    List fields = new ArrayList();
    for (int i = 0; i < aggregation.groupByExpressions().length; i++) {
      StructField field = column(aggregation.groupByExpressions()[i], table);
      if (field == null || !isOrdered(field.dataType())) return null;
      keys.add(field.name());
      fields.add(new StructField(field.name(), field.dataType(), true, field.metadata()));
    }
    for (int i = 0; i < aggregation.aggregateExpressions().length; i++) {
      StructField made = function(aggregation.aggregateExpressions()[i], table, functions);
      if (made == null) return null;
      fields.add(new StructField(made.name() + "-" + i, made.dataType(), true, made.metadata()));
    }
    if (fields.isEmpty()) return null;
    Map told = new LinkedHashMap();
    told.put("by", keys);
    told.put("functions", functions);
    return new PushedAggregation(
        FilterJson.written(told), new StructType((StructField[]) fields.toArray(new StructField[0])));
  }

  /** The result of one function as a column; what Python does for it is added to a list. */
  private static StructField function(AggregateFunc given, StructType table, List functions) {
    if (given instanceof CountStar) return made("count", null, DataTypes.LongType, functions);
    boolean distinct = given instanceof Count ? ((Count) given).isDistinct() : given instanceof Sum && ((Sum) given).isDistinct();
    if (distinct || given.children().length != 1) return null;
    StructField field = column(given.children()[0], table);
    if (field == null) return null;
    if (given instanceof Count) return made("count", field.name(), DataTypes.LongType, functions);
    boolean ordered = isOrdered(field.dataType());
    if (given instanceof Min) return ordered ? made("min", field.name(), field.dataType(), functions) : null;
    if (given instanceof Max) return ordered ? made("max", field.name(), field.dataType(), functions) : null;
    DataType total = given instanceof Sum ? total(field.dataType()) : null;
    return total == null ? null : made("sum", field.name(), total, functions);
  }

  private static StructField made(String function, String column, DataType type, List functions) {
    functions.add(Arrays.asList(new Object[] {function, column}));
    return new StructField(function, type, true, org.apache.spark.sql.types.Metadata.empty());
  }

  private static StructField column(org.apache.spark.sql.connector.expressions.Expression e, StructType table) {
    if (!(e instanceof NamedReference) || ((NamedReference) e).fieldNames().length != 1) return null;
    scala.Option place = table.getFieldIndex(((NamedReference) e).fieldNames()[0]);
    return place.isEmpty() ? null : table.fields()[((Integer) place.get()).intValue()];
  }

  private static boolean isWhole(DataType type) {
    return type instanceof ByteType || type instanceof ShortType || type instanceof IntegerType || type instanceof LongType;
  }

  private static boolean isOrdered(DataType type) {
    return isWhole(type) || type instanceof BooleanType || type instanceof DateType || type instanceof DecimalType
        || type instanceof TimestampType || type instanceof TimestampNTZType || type.equals(DataTypes.StringType);
  }

  /** The type of a sum, as Spark has it. */
  private static DataType total(DataType type) {
    if (isWhole(type)) return DataTypes.LongType;
    if (type instanceof FloatType || type instanceof DoubleType) return DataTypes.DoubleType;
    boolean fits = type instanceof DecimalType && ((DecimalType) type).precision() <= 28;
    return fits ? new DecimalType(((DecimalType) type).precision() + 10, ((DecimalType) type).scale()) : null;
  }
}
