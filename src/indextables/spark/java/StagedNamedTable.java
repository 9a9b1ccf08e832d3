package indextables;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;

/**
 * A table that a CREATE or REPLACE ... AS SELECT will make. Its rows and its definition are one version of the log, so that
 * a query that fails leaves what was there before.
 */
class StagedNamedTable extends NamedTable implements StagedTable {
  private final Map definition;
  private final Runnable registration;
  private boolean written;

  /** `registration` gives the table its name, once it is there; null where the place is the name. */
  StagedNamedTable(String name, Map told, Map definition, Runnable registration) {
    super(name, told);
    this.definition = definition;
    this.registration = registration;
  }

  /** A table as it will be, checked by Python: nothing is made yet. */
  static StagedNamedTable of(String name, Map definition, Runnable registration) {
    return new StagedNamedTable(name, CatalogRequest.answer("stage", definition), definition, registration);
  }

  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    written = true;
    Map own = new HashMap();
    own.put("definition", FilterJson.written(definition));
    return new NamedWrite(this, info, own);
  }

  public void commitStagedChanges() {
    if (!written) CatalogRequest.answer("create", definition);
    if (registration != null) registration.run();
  }

  public void abortStagedChanges() {}

  public org.apache.spark.sql.connector.metric.CustomTaskMetric[] reportDriverMetrics() {
    return new org.apache.spark.sql.connector.metric.CustomTaskMetric[0];
  }
}
