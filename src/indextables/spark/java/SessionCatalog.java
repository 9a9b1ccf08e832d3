package indextables;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * Spark's own catalog (in memory or a Hive metastore) with our tables in it: it keeps their names and places, and the log
 * says everything else. Tables of other formats are Spark's, as before.
 *
 *   spark.sql.catalog.spark_catalog = indextables.SessionCatalog
 */
public class SessionCatalog extends CatalogApi.Session {
  private static boolean isOurs(Map properties) {
    Object provider = properties.get("provider");
    return provider != null && TableRelation.isFormat(provider.toString());
  }

  /** Properties with the place that LOCATION or the option `path` names, if any. */
  private static Map located(Map given) {
    Map all = new HashMap(given);
    Object path = given.containsKey("option.path") ? given.get("option.path") : given.get("path");
    if (path != null && !given.containsKey("location")) all.put("location", path);
    return all;
  }

  private static TableIdentifier v1(Identifier id) {
    return new TableIdentifier(id.name(), scala.Option.apply(id.namespace()[0]));
  }

  /** Where one of our tables is; null for another's, and for a name that is none. */
  private static String place(Identifier id) {
    if (id.namespace().length != 1) return null;
    org.apache.spark.sql.catalyst.catalog.SessionCatalog names = SparkSession.active().sessionState().catalog();
    if (!names.tableExists(v1(id))) return null;
    CatalogTable entry;
    try {
      entry = names.getTableMetadata(v1(id));
    } catch (Exception gone) {
      return null;
    }
    boolean ours = entry.provider().isDefined() && TableRelation.isFormat((String) entry.provider().get());
    return ours && entry.storage().locationUri().isDefined() ? path(entry.location()) : null;
  }

  private static String path(java.net.URI location) {
    boolean local = location.getScheme() == null || location.getScheme().equals("file");
    return local ? location.getPath() : location.toString();
  }

  private String shown(Identifier id) {
    return name() + "." + id.toString();
  }

  public org.apache.spark.sql.connector.catalog.Table loadTable(Identifier id) throws org.apache.spark.sql.catalyst.analysis.NoSuchTableException {
    String place = place(id);
    return place == null ? super.loadTable(id) : NamedTable.load(shown(id), place, null, null);
  }

  public org.apache.spark.sql.connector.catalog.Table loadTable(Identifier id, String version) throws org.apache.spark.sql.catalyst.analysis.NoSuchTableException {
    String place = place(id);
    return place == null ? super.loadTable(id, version) : NamedTable.load(shown(id), place, version, null);
  }

  public org.apache.spark.sql.connector.catalog.Table loadTable(Identifier id, long micros) throws org.apache.spark.sql.catalyst.analysis.NoSuchTableException {
    String place = place(id);
    return place == null ? super.loadTable(id, micros) : NamedTable.load(shown(id), place, null, Long.valueOf(micros));
  }

  /** Where a table that is being made shall be: where LOCATION says, or in the folder of its database. */
  private static String newPlace(Identifier id, Map properties) throws org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    Object given = properties.get("location");
    if (given != null) return path(new org.apache.hadoop.fs.Path(TablePaths.absolute(given.toString())).toUri());
    return path(SparkSession.active().sessionState().catalog().defaultTablePath(v1(id)));
  }

  public org.apache.spark.sql.connector.catalog.Table createTable(
      Identifier id, org.apache.spark.sql.connector.catalog.Column[] columns, Transform[] partitions, Map properties) throws org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException, org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    if (!isOurs(properties)) return super.createTable(id, columns, partitions, properties);
    refuseTaken(id);
    Map kept = located(properties);
    String mode = kept.containsKey("location") ? "adopt" : "create";
    Map definition = TableDefinition.of(newPlace(id, kept), columns, partitions, kept, mode);
    NamedTable made = new NamedTable(shown(id), CatalogRequest.answer("create", definition));
    registered(id, made, kept);
    return made;
  }

  org.apache.spark.sql.connector.catalog.Table like(
      Identifier id, org.apache.spark.sql.connector.catalog.Column[] columns, Transform[] partitions, Map given, org.apache.spark.sql.connector.catalog.Table source) throws org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException, org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    Map properties = new HashMap(given);
    if (!properties.containsKey("provider") && source instanceof NamedTable) properties.put("provider", TableRelation.FORMAT);
    if (!isOurs(properties)) return null;
    refuseTaken(id);
    Map definition = TableDefinition.of(newPlace(id, properties), columns, partitions, properties, "create");
    NamedTable made = new NamedTable(shown(id), CatalogRequest.answer("create", WarehouseCatalog.like(definition, source)));
    registered(id, made, properties);
    return made;
  }

  private void refuseTaken(Identifier id) throws org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException {
    if (tableExists(id)) throw new org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException(id);
  }

  /** Keeps a name and a place. What else there is to know of the table is in its log, and would grow old here. */
  private static void register(Identifier id, NamedTable table, Map properties) throws Exception {
    boolean external = properties.containsKey("location");
    java.net.URI place = new org.apache.hadoop.fs.Path(table.path).toUri();
    if (place.getScheme() == null) place = new java.net.URI("file", null, place.getPath(), null);
    Object none = scala.Option.empty();
    Object[] storage = {scala.Option.apply(place), none, none, none, Boolean.FALSE, scala.collection.immutable.Map$.MODULE$.empty()};
    Object[] entry = new Object[15];
    Arrays.fill(entry, SparkApi.DEFAULT);
    entry[0] = v1(id);
    entry[1] = external ? CatalogTableType.EXTERNAL() : CatalogTableType.MANAGED();
    entry[2] = SparkApi.construct(CatalogStorageFormat.class, storage);
    entry[3] = new StructType();
    entry[4] = scala.Option.apply(TableRelation.FORMAT);
    entry[14] = scala.Option.apply(properties.get("comment"));
    SparkSession.active().sessionState().catalog().createTable((CatalogTable) SparkApi.construct(CatalogTable.class, entry), false, false);
  }

  private static void registered(Identifier id, NamedTable table, Map properties) {
    try {
      register(id, table, properties);
    } catch (Exception e) {
      CatalogRequest.raise(e);
    }
  }

  public StagedTable stageCreate(
      Identifier id, org.apache.spark.sql.connector.catalog.Column[] columns, Transform[] partitions, Map properties) throws org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException, org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    refuseTaken(id);
    if (!isOurs(properties)) return new PlainStage(this, id, super.createTable(id, columns, partitions, properties));
    return staged(id, columns, partitions, located(properties), "create");
  }

  public StagedTable stageReplace(
      Identifier id, org.apache.spark.sql.connector.catalog.Column[] columns, Transform[] partitions, Map properties) throws org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException, org.apache.spark.sql.catalyst.analysis.NoSuchTableException {
    if (!tableExists(id)) throw new org.apache.spark.sql.catalyst.analysis.NoSuchTableException(id);
    return replacement(id, columns, partitions, properties);
  }

  public StagedTable stageCreateOrReplace(
      Identifier id, org.apache.spark.sql.connector.catalog.Column[] columns, Transform[] partitions, Map properties) throws org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    return replacement(id, columns, partitions, properties);
  }

  private StagedTable replacement(
      Identifier id, org.apache.spark.sql.connector.catalog.Column[] columns, Transform[] partitions, Map properties) throws org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    String place = place(id);
    boolean taken = tableExists(id);
    if (isOurs(properties) && (!taken || place != null)) {
      if (place == null) return staged(id, columns, partitions, located(properties), "create or replace");
      if (properties.get("location") != null && !newPlace(id, properties).equals(place)) {
        CatalogRequest.raise(
            CatalogRequest.error(
                "INVALID_INPUT", shown(id) + " is at " + place + ". A table that is replaced stays there: leave LOCATION"
                    + " out, or DROP TABLE first."));
      }
      Map definition = TableDefinition.of(place, columns, partitions, properties, "replace");
      return StagedNamedTable.of(shown(id), definition, null);
    }
    if (isOurs(properties) || place != null) {
      CatalogRequest.raise(
          CatalogRequest.error(
              "UNSUPPORTED", shown(id) + " has another format. It cannot be replaced in one step: DROP TABLE it first."));
    }
    super.dropTable(id);
    try {
      return new PlainStage(this, id, super.createTable(id, columns, partitions, properties));
    } catch (org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException e) {
      CatalogRequest.raise(e);
      return null;
    }
  }

  private StagedTable staged(
      final Identifier id, org.apache.spark.sql.connector.catalog.Column[] columns, Transform[] partitions, final Map properties, String mode) throws org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    final String place = newPlace(id, properties);
    final SessionCatalog self = this;
    Runnable registration =
        new Runnable() {
          public void run() {
            registered(id, NamedTable.load(self.shown(id), place, null, null), properties);
          }
        };
    return StagedNamedTable.of(shown(id), TableDefinition.of(place, columns, partitions, properties, mode), registration);
  }

  public org.apache.spark.sql.connector.catalog.Table alterTable(Identifier id, TableChange[] changes) throws org.apache.spark.sql.catalyst.analysis.NoSuchTableException {
    String place = place(id);
    if (place == null) return super.alterTable(id, changes);
    Map arguments = CatalogRequest.arguments(place);
    arguments.put("changes", TableDefinition.of(changes));
    return new NamedTable(shown(id), CatalogRequest.answer("alter", arguments));
  }

  public boolean dropTable(Identifier id) {
    return place(id) == null ? super.dropTable(id) : drop(id, false);
  }

  public boolean purgeTable(Identifier id) {
    return place(id) == null ? super.purgeTable(id) : drop(id, true);
  }

  /**
   * Removes a table and then its name. The files of a managed table are deleted as `Table.drop` does it, so that no other
   * process writes to them; if that was interrupted the name stays, and the next DROP TABLE ends it.
   */
  private boolean drop(Identifier id, boolean purges) {
    org.apache.spark.sql.catalyst.catalog.SessionCatalog names = SparkSession.active().sessionState().catalog();
    try {
      boolean managed = names.getTableMetadata(v1(id)).tableType().equals(CatalogTableType.MANAGED());
      if (managed) dropFiles(place(id));
      names.dropTable(v1(id), true, purges);
    } catch (Exception e) {
      CatalogRequest.raise(e);
    }
    return true;
  }

  private static void dropFiles(String place) throws Exception {
    try {
      CatalogRequest.answer("drop", CatalogRequest.arguments(place));
    } catch (Exception e) {
      if (!CatalogRequest.isMissing(e)) throw e;
    }
  }

  public boolean dropNamespace(String[] namespace, boolean cascade) throws org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException, org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException {
    Identifier[] tables = cascade ? listTables(namespace) : new Identifier[0];
    for (int i = 0; i < tables.length; i++) if (place(tables[i]) != null) drop(tables[i], false);
    return super.dropNamespace(namespace, cascade);
  }

  /** A table of another format that Spark makes in two steps, as it does without us. */
  static class PlainStage implements StagedTable, SupportsRead, SupportsWrite {
    private final SessionCatalog catalog;
    private final Identifier id;
    private final org.apache.spark.sql.connector.catalog.Table table;

    PlainStage(SessionCatalog catalog, Identifier id, org.apache.spark.sql.connector.catalog.Table table) {
      this.catalog = catalog;
      this.id = id;
      this.table = table;
    }

    public String name() {
      return table.name();
    }

    public StructType schema() {
      return table.schema();
    }

    public org.apache.spark.sql.connector.catalog.Column[] columns() {
      return table.columns();
    }

    public Transform[] partitioning() {
      return table.partitioning();
    }

    public Map properties() {
      return table.properties();
    }

    public java.util.Set capabilities() {
      return table.capabilities();
    }

    public org.apache.spark.sql.connector.read.ScanBuilder newScanBuilder(org.apache.spark.sql.util.CaseInsensitiveStringMap options) {
      return ((SupportsRead) table).newScanBuilder(options);
    }

    public org.apache.spark.sql.connector.write.WriteBuilder newWriteBuilder(org.apache.spark.sql.connector.write.LogicalWriteInfo info) {
      return ((SupportsWrite) table).newWriteBuilder(info);
    }

    public void commitStagedChanges() {}

    public void abortStagedChanges() {
      catalog.dropTable(id);
    }
  }
}
