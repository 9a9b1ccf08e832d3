package indextables;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/**
 * Spark's filters as JSON: [name, child, ...] for a condition, {"column": [...]} for a column, {"kind": "...", "value":
 * "..."} for a constant, null for what has no such form. What they mean is decided in Python (source/filters.py).
 */
class FilterJson {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  static String of(org.apache.spark.sql.connector.expressions.filter.Predicate[] filters) {
    List all = new ArrayList();
    for (int i = 0; i < filters.length; i++) all.add(value(filters[i]));
    return written(all);
  }

  static String written(Object value) {
    try {
      return MAPPER.writeValueAsString(value);
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
  }

  private static Object value(org.apache.spark.sql.connector.expressions.Expression e) {
    if (e instanceof NamedReference) return named("column", Arrays.asList((Object[]) ((NamedReference) e).fieldNames()));
    if (e instanceof org.apache.spark.sql.connector.expressions.Literal) {
      return constant((org.apache.spark.sql.connector.expressions.Literal) e);
    }
    if (!(e instanceof org.apache.spark.sql.connector.expressions.filter.Predicate)) return null;
    List found = new ArrayList();
    found.add(((org.apache.spark.sql.connector.expressions.filter.Predicate) e).name());
    org.apache.spark.sql.connector.expressions.Expression[] children = e.children();
    for (int i = 0; i < children.length; i++) found.add(value(children[i]));
    return found;
  }

  private static java.util.Map named(String key, Object value) {
    java.util.Map one = new java.util.LinkedHashMap();
    one.put(key, value);
    return one;
  }

  private static Object constant(org.apache.spark.sql.connector.expressions.Literal literal) {
    return constant(literal.value(), literal.dataType());
  }

  /** A value as Spark holds it; null for a type that has no such form. */
  private static Object constant(Object value, DataType type) {
    String kind = value == null ? "null" : kind(type);
    if (kind == null) return null;
    java.util.Map typed = named("kind", kind);
    typed.put("value", kind.equals("null") ? null : text(value));
    return typed;
  }

  /** A condition that holds for one value of a column only, null included. */
  static Object equal(String column, Object value, DataType type) {
    String[] name = new String[] {column};
    return Arrays.asList(new Object[] {"<=>", named("column", Arrays.asList((Object[]) name)), constant(value, type)});
  }

  private static String text(Object value) {
    return value instanceof byte[] ? java.util.HexFormat.of().formatHex((byte[]) value) : value.toString();
  }

  private static String kind(DataType type) {
    if (type instanceof BooleanType) return "bool";
    if (type instanceof ByteType || type instanceof ShortType) return "int";
    if (type instanceof IntegerType || type instanceof LongType) return "int";
    if (type instanceof FloatType) return "float";
    if (type instanceof DoubleType) return "double";
    if (type instanceof DecimalType) return "decimal";
    if (type instanceof DateType) return "days";
    if (type instanceof TimestampType) return "microseconds";
    if (type instanceof TimestampNTZType) return "local microseconds";
    if (type instanceof BinaryType) return "hex";
    return type.equals(org.apache.spark.sql.types.DataTypes.StringType) ? "text" : null;
  }
}
