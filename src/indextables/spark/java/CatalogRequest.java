package indextables;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.classic.SparkSession;

/**
 * What the catalog asks of Python: a verb and its arguments as JSON. The table layer does the work and says what became of
 * it (indextables.spark.catalog); an error comes back with its kind, and is raised as Spark's users know errors.
 */
class CatalogRequest {
  static final String MISSING = "TABLE_NOT_FOUND";
  static final String EXISTS = "TABLE_EXISTS";

  static Map arguments(String path) {
    Map all = new HashMap();
    all.put("path", path);
    return all;
  }

  /** Python's answer, a JSON document. */
  static Map answer(String verb, Map arguments) {
    return (Map) parsed(text(verb, arguments, null));
  }

  /** The answer of a process that was asked otherwise: JSON, or what a query has thrown. */
  static Map checked(Object answer) {
    if (answer instanceof Throwable) raise((Throwable) answer);
    return (Map) parsed((String) answer);
  }

  /** The same for a request about a DataFrame. */
  static Map answer(String verb, Map arguments, Dataset frame) {
    return (Map) parsed(text(verb, arguments, frame));
  }

  private static String text(String verb, Map arguments, Dataset frame) {
    SparkSession session = SparkSession.active();
    StatementRunner.prepare(session);
    Object answer = StatementRunner.catalog(session, verb, arguments, frame);
    if (answer instanceof Throwable) raise((Throwable) answer); // of a query, which Spark's own code has raised
    return (String) answer;
  }

  /** Raises the error that an answer to a statement is, if it is one. */
  static void refuseError(String answer) {
    if (!answer.startsWith("{\"error\"")) return;
    Map document = document(answer);
    throw new StatementError((String) document.get("error"), (String) document.get("message"));
  }

  private static Object parsed(String answer) {
    Map document = document(answer);
    if (document.containsKey("error"))
      raise(error((String) document.get("error"), (String) document.get("message")));
    return document;
  }

  private static Map document(String answer) {
    try {
      return (Map) new ObjectMapper().readValue(answer, Map.class);
    } catch (java.io.IOException e) {
      throw new IllegalStateException(answer, e);
    }
  }

  /** An error with a class of its own, as `INDEXTABLES_CONFLICT`; the message has it in front, as Spark's have. */
  static AnalysisException error(String kind, String message) {
    String name = "INDEXTABLES_" + kind;
    scala.Option none = scala.Option.empty();
    scala.collection.immutable.Map nothing =
        (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty();
    return new CatalogError("[" + name + "] " + message, scala.Option.apply(name), nothing, kind);
  }

  /** Throws what Java would have declared. */
  static void raise(Throwable error) {
    org.apache.spark.unsafe.Platform.throwException(error);
  }

  static boolean isMissing(Throwable error) {
    return error instanceof CatalogError && ((CatalogError) error).kind.equals(MISSING);
  }

  static boolean isExisting(Throwable error) {
    return error instanceof CatalogError && ((CatalogError) error).kind.equals(EXISTS);
  }

  static class CatalogError extends AnalysisException {
    final String kind;

    CatalogError(String message, scala.Option name, scala.collection.immutable.Map parameters, String kind) {
      super(message, scala.Option.empty(), scala.Option.empty(), scala.Option.empty(), name, parameters, new QueryContext[0]);
      this.kind = kind;
    }

    /** Spark's scripts look for a handler by it, and do not expect an error without one. */
    public String getSqlState() {
      return "42000";
    }
  }
}
