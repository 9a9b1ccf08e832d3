package indextables;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.unsafe.types.UTF8String;

/** The partitions of a table as Spark's rows. Between Python and Java their values are texts, as the log writes them. */
class PartitionRows {
  /** The partitions whose columns of some names have some values; all of them without names. */
  static InternalRow[] of(NamedTable table, String[] names, InternalRow values) {
    List all = (List) CatalogRequest.answer("partitions", CatalogRequest.arguments(table.path)).get("partitions");
    StructField[] fields = table.partitionSchema().fields();
    List rows = new java.util.ArrayList();
    for (int i = 0; i < all.size(); i++) {
      GenericInternalRow row = row((List) all.get(i), fields);
      if (fits(row, table, names, values)) rows.add(row);
    }
    return (InternalRow[]) rows.toArray(new InternalRow[0]);
  }

  static boolean drop(NamedTable table, InternalRow values) {
    StructField[] fields = table.partitionSchema().fields();
    String[] texts = new String[fields.length];
    for (int i = 0; i < texts.length; i++) {
      Object value = values.get(i, fields[i].dataType());
      Object text = value == null ? null : cast(value, fields[i].dataType(), DataTypes.StringType);
      texts[i] = text == null ? null : text.toString();
    }
    Map arguments = CatalogRequest.arguments(table.path);
    arguments.put("values", Arrays.asList((Object[]) texts));
    return Boolean.TRUE.equals(CatalogRequest.answer("drop partition", arguments).get("dropped"));
  }

  private static GenericInternalRow row(List texts, StructField[] fields) {
    Object[] values = new Object[fields.length];
    for (int i = 0; i < values.length; i++) {
      String text = (String) texts.get(i);
      values[i] = text == null ? null : cast(UTF8String.fromString(text), DataTypes.StringType, fields[i].dataType());
    }
    return new GenericInternalRow(values);
  }

  private static Object cast(Object value, DataType from, DataType to) {
    scala.Option zone = scala.Option.apply("UTC");
    return new Cast(new Literal(value, from), to, zone, Cast.apply$default$4()).eval(null);
  }

  private static boolean fits(InternalRow row, NamedTable table, String[] names, InternalRow values) {
    for (int i = 0; i < names.length; i++) {
      int place = table.partitionSchema().fieldIndex(names[i]);
      DataType type = table.partitionSchema().fields()[place].dataType();
      Object asked = values.get(i, type);
      Object there = row.get(place, type);
      if (asked == null ? there != null : !asked.equals(there)) return false;
    }
    return true;
  }
}
