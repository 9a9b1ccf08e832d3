package indextables;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** How much a read returns, as the index and the log tell it, and whether that is so little that the driver reads it. */
class AnswerSize implements Statistics {
  static final AnswerSize UNKNOWN = new AnswerSize(-1, -1, false);
  private final long rows;
  private final long bytes;
  final boolean small;

  private AnswerSize(long rows, long bytes, boolean small) {
    this.rows = rows;
    this.bytes = bytes;
    this.small = small;
  }

  /** Asks Python. It looks into many splits only where somebody wants to know the size (thorough). */
  static AnswerSize of(StructType columns, CaseInsensitiveStringMap options, boolean thorough) {
    if (!StatementRunner.isAttached()) return thorough ? UNKNOWN : null;
    Map all = new HashMap(options.asCaseSensitiveMap());
    all.put("thorough", String.valueOf(thorough));
    byte[] told = StatementRunner.planned(DriverRequest.readSize(columns, new CaseInsensitiveStringMap(all)));
    if (told == null) return thorough ? UNKNOWN : null;
    String[] parts = new String(told, StandardCharsets.UTF_8).split(" ");
    return new AnswerSize(Long.parseLong(parts[0]), Long.parseLong(parts[1]), parts[2].equals("small"));
  }

  public OptionalLong sizeInBytes() {
    return bytes < 0 ? OptionalLong.empty() : OptionalLong.of(bytes);
  }

  public OptionalLong numRows() {
    return rows < 0 ? OptionalLong.empty() : OptionalLong.of(rows);
  }
}
