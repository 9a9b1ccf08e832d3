package indextables;

import java.util.Collections;
import java.util.Map;
import org.apache.spark.QueryContext;
import org.apache.spark.SparkThrowable;

/** What is wrong with a statement, with an error class of its own, such as INDEXTABLES_QUERY_SYNTAX. */
class StatementError extends IllegalArgumentException implements SparkThrowable {
  private final String kind;

  StatementError(String kind, String message) {
    super("[INDEXTABLES_" + kind + "] " + message);
    this.kind = kind;
  }

  public String getCondition() {
    return "INDEXTABLES_" + kind;
  }

  public String getErrorClass() {
    return getCondition();
  }

  public String getSqlState() {
    return "42000";
  }

  public boolean isInternalError() {
    return false;
  }

  public Map getMessageParameters() {
    return Collections.EMPTY_MAP;
  }

  public QueryContext[] getQueryContext() {
    return new QueryContext[0];
  }
}
