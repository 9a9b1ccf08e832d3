package indextables;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;

/** One column of the file list as Python hands it over: 'l' whole numbers, 'd' doubles, 's' texts. */
class Column {
  final byte kind;
  final int count;
  final boolean[] valid;
  private long[] longs;
  private double[] doubles;
  private int[] starts;
  private int[] lengths;
  private byte[] data;

  Column(ByteBuffer in) {
    kind = in.get();
    count = in.getInt();
    valid = new boolean[count];
    if (kind == 's') readTexts(in);
    else readNumbers(in);
  }

  /** A length for each text, -1 for null; then the UTF-8 bytes of all of them. */
  private void readTexts(ByteBuffer in) {
    starts = new int[count];
    lengths = new int[count];
    rest(in).asIntBuffer().get(lengths);
    in.position(in.position() + 4 * count);
    data = in.array();
    int at = in.position();
    for (int i = 0; i < count; i++) {
      starts[i] = at;
      valid[i] = lengths[i] >= 0;
      if (valid[i]) at += lengths[i];
    }
    in.position(at);
  }

  /** A byte for each number, 0 for null; then 8 bytes for each. */
  private void readNumbers(ByteBuffer in) {
    for (int i = 0; i < count; i++) valid[i] = in.get() != 0;
    if (kind == 'l') {
      longs = new long[count];
      rest(in).asLongBuffer().get(longs);
    } else {
      doubles = new double[count];
      rest(in).asDoubleBuffer().get(doubles);
    }
    in.position(in.position() + 8 * count);
  }

  private static ByteBuffer rest(ByteBuffer in) {
    return ((ByteBuffer) in.slice()).order(ByteOrder.LITTLE_ENDIAN);
  }

  long number(int i) {
    return longs[i];
  }

  String text(int i) {
    return valid[i] ? new String(data, starts[i], lengths[i], StandardCharsets.UTF_8) : null;
  }

  /** The value as Catalyst keeps it for a type; null where there is none. */
  Object value(int i, DataType type) {
    if (!valid[i]) return null;
    if (kind == 's') {
      if (type instanceof DecimalType) return Decimal.apply(new java.math.BigDecimal(text(i)));
      return type instanceof StringType ? UTF8String.fromBytes(data, starts[i], lengths[i]) : null;
    }
    if (kind == 'd') {
      if (type instanceof DoubleType) return Double.valueOf(doubles[i]);
      return type instanceof FloatType ? Float.valueOf((float) doubles[i]) : null;
    }
    if (type instanceof LongType || type instanceof TimestampType || type instanceof TimestampNTZType)
      return Long.valueOf(longs[i]);
    if (type instanceof IntegerType || type instanceof DateType) return Integer.valueOf((int) longs[i]);
    if (type instanceof ShortType) return Short.valueOf((short) longs[i]);
    if (type instanceof ByteType) return Byte.valueOf((byte) longs[i]);
    return type instanceof BooleanType ? Boolean.valueOf(longs[i] != 0) : null;
  }
}
