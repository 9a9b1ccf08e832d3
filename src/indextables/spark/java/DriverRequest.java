package indextables;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A request to the Python process of this driver, as JSON with a tag: indextables.spark.requests has the same fields. */
class DriverRequest {
  private final Map fields = new LinkedHashMap();

  private DriverRequest(String type) {
    fields.put("type", type);
  }

  private DriverRequest with(String name, Object value) {
    fields.put(name, value);
    return this;
  }

  String json() {
    return FilterJson.written(fields);
  }

  static DriverRequest prepareSession() {
    return new DriverRequest("prepare session");
  }

  static DriverRequest statementColumns(String sql) {
    return new DriverRequest("statement columns").with("sql", sql);
  }

  static DriverRequest statementRows(String sql) {
    return new DriverRequest("statement rows").with("sql", sql);
  }

  static DriverRequest correction(String sql, String reason) {
    return new DriverRequest("correction").with("sql", sql).with("reason", reason);
  }

  static DriverRequest readPlan(StructType columns, CaseInsensitiveStringMap options) {
    return read("read plan", columns, options);
  }

  static DriverRequest readSize(StructType columns, CaseInsensitiveStringMap options) {
    return read("read size", columns, options);
  }

  static DriverRequest readFilters(StructType columns, CaseInsensitiveStringMap options) {
    return read("read filters", columns, options);
  }

  static DriverRequest readRows(StructType columns, CaseInsensitiveStringMap options) {
    return read("read rows", columns, options);
  }

  private static DriverRequest read(String type, StructType columns, CaseInsensitiveStringMap options) {
    Map all = SessionSource.withSession(options).asCaseSensitiveMap();
    return new DriverRequest(type).with("schema", columns.json()).with("options", all);
  }

  static DriverRequest catalog(String verb, Map arguments) {
    return new DriverRequest("catalog").with("verb", verb).with("arguments", arguments);
  }

  static DriverRequest tableFrame(String path, String frame) {
    return new DriverRequest("table frame").with("path", path).with("frame", frame);
  }

  static DriverRequest rowChange(String path, String name) {
    return new DriverRequest("row change").with("path", path).with("name", name);
  }
}
