package indextables;

import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * The columns of a DataFrame, and the version of the table that it was made at. Python says both at once; the version is
 * kept beside the columns and not in them, so that a DataFrame's schema, used for another one, does not bring it along.
 */
class FramedSchema extends StructType {
  static final String OPTION = "frame";
  private static final String KEY = "indextables.frame";
  final String frame;

  private FramedSchema(StructField[] fields, String frame) {
    super(fields);
    this.frame = frame;
  }

  static StructType of(StructType told) {
    StructField[] fields = told.fields();
    if (fields.length == 0 || !fields[0].metadata().contains(KEY)) return told;
    StructField first = fields[0];
    Metadata rest = new MetadataBuilder().withMetadata(first.metadata()).remove(KEY).build();
    StructField[] plain = (StructField[]) fields.clone();
    plain[0] = new StructField(first.name(), first.dataType(), first.nullable(), rest);
    return new FramedSchema(plain, first.metadata().getString(KEY));
  }

  public String typeName() { // Python is told the columns as JSON, which names the type
    return "struct";
  }

  /** Executors do not know this class, and do not need it. */
  public Object writeReplace() {
    return new StructType(fields());
  }
}
