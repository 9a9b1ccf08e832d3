package indextables;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.DelegatingCatalogExtension;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.expressions.Transform;

/** What the catalogs extend. Spark 4.0 and 4.1 have no CREATE TABLE LIKE for catalogs: `RowChanges` refuses it there. */
class CatalogApi {
  static final boolean HAS_LIKE = false;

  abstract static class Session extends DelegatingCatalogExtension implements StagingTableCatalog {
    abstract org.apache.spark.sql.connector.catalog.Table like(
        Identifier id, org.apache.spark.sql.connector.catalog.Column[] columns, Transform[] partitions, Map properties, org.apache.spark.sql.connector.catalog.Table source) throws org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException, org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
  }

  abstract static class Folders implements StagingTableCatalog {
    abstract org.apache.spark.sql.connector.catalog.Table like(
        Identifier id, org.apache.spark.sql.connector.catalog.Column[] columns, Transform[] partitions, Map properties, org.apache.spark.sql.connector.catalog.Table source) throws org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException, org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
  }
}
