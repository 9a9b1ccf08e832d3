package indextables;

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

/**
 * The partitions of a table as Spark's rows. Python sends their values as texts in one form per type, and gets typed values.
 */
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

  /** Drops partitions in one version; false if no split is in any of them. */
  static boolean drop(NamedTable table, InternalRow[] partitions) {
    StructField[] fields = table.partitionSchema().fields();
    List all = new java.util.ArrayList();
    for (int i = 0; i < partitions.length; i++) {
      List one = new java.util.ArrayList();
      for (int j = 0; j < fields.length; j++) {
        DataType type = fields[j].dataType();
        one.add(FilterJson.equal(fields[j].name(), partitions[i].get(j, type), type));
      }
      all.add(one);
    }
    Map arguments = CatalogRequest.arguments(table.path);
    arguments.put("partitions", all);
    return Boolean.TRUE.equals(CatalogRequest.answer("drop partitions", arguments).get("dropped"));
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
