package indextables;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.DelegatingCatalogExtension;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.expressions.Transform;

/** What the catalogs extend, with CREATE TABLE LIKE. */
class CatalogApi {
  static final boolean HAS_LIKE = true;

  abstract static class Session extends DelegatingCatalogExtension implements StagingTableCatalog {
    public org.apache.spark.sql.connector.catalog.Table createTableLike(
        Identifier id, TableInfo info, org.apache.spark.sql.connector.catalog.Table source) throws org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException, org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
      org.apache.spark.sql.connector.catalog.Table made = like(id, info.columns(), info.partitions(), info.properties(), source);
      return made == null ? super.createTableLike(id, info, source) : made;
    }

    abstract org.apache.spark.sql.connector.catalog.Table like(
        Identifier id, org.apache.spark.sql.connector.catalog.Column[] columns, Transform[] partitions, Map properties, org.apache.spark.sql.connector.catalog.Table source) throws org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException, org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
  }

  abstract static class Folders implements StagingTableCatalog {
    public org.apache.spark.sql.connector.catalog.Table createTableLike(
        Identifier id, TableInfo info, org.apache.spark.sql.connector.catalog.Table source) throws org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException, org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
      return like(id, info.columns(), info.partitions(), info.properties(), source);
    }

    abstract org.apache.spark.sql.connector.catalog.Table like(
        Identifier id, org.apache.spark.sql.connector.catalog.Column[] columns, Transform[] partitions, Map properties, org.apache.spark.sql.connector.catalog.Table source) throws org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException, org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
  }
}
