package indextables;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A folder as a catalog: namespaces are folders, and a folder with a transaction log is a table. Nothing else is kept, so
 * that what others put there is seen at once. A name that is a path or a URL is the table there: catalog.`/data/logs`.
 *
 *   spark.sql.catalog.lake = indextables.WarehouseCatalog
 *   spark.sql.catalog.lake.warehouse = /data/lake
 */
public class WarehouseCatalog extends CatalogApi.Folders implements SupportsNamespaces {
  private static final String LOG = "_transaction_log";
  private String name;
  private String root;

  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    String given = options.get("warehouse");
    this.root = given == null ? null : TablePaths.absolute(given);
  }

  public String name() {
    return name;
  }

  /** Defaults of columns reach `createTable`, which refuses them with what to write instead, as the session's catalog does. */
  public java.util.Set capabilities() {
    return Collections.singleton(TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE);
  }

  // Places

  static boolean isPath(String[] namespace, String name) {
    return namespace.length == 0 && (name.startsWith("/") || name.matches("[A-Za-z][A-Za-z0-9+.-]+:/.*"));
  }

  /** The path that a name is, without what says a version: `/data/logs@v3`. */
  private String place(Identifier id) {
    if (isPath(id.namespace(), id.name())) return id.name();
    return folder(id.namespace()) + "/" + checked(id.name());
  }

  private String folder(String[] namespace) {
    if (root == null) {
      CatalogRequest.raise(
          CatalogRequest.error(
              "INVALID_INPUT",
              "The catalog " + name + " has no folder for names. Write a path: " + name + ".`/data/logs`; or set"
                  + " spark.sql.catalog." + name + ".warehouse."));
    }
    StringBuilder all = new StringBuilder(root);
    for (int i = 0; i < namespace.length; i++) all.append('/').append(checked(namespace[i]));
    return all.toString();
  }

  private static String checked(String part) {
    boolean plain = !part.isEmpty() && !part.startsWith(".") && !part.startsWith("_");
    for (int i = 0; i < part.length(); i++) plain = plain && "/\\:*?\"<>|".indexOf(part.charAt(i)) < 0;
    if (!plain) CatalogRequest.raise(CatalogRequest.error("INVALID_INPUT", "`" + part + "` cannot be the name of a folder."));
    return part;
  }

  private static FileSystem files(Path path) {
    try {
      return path.getFileSystem(SparkSession.active().sessionState().newHadoopConf());
    } catch (java.io.IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }

  private static FileStatus[] children(String folder) {
    Path path = new Path(folder);
    try {
      return files(path).exists(path) ? files(path).listStatus(path) : null;
    } catch (java.io.IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }

  private static boolean isTable(Path folder) {
    try {
      return files(folder).exists(new Path(folder, LOG));
    } catch (java.io.IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }

  // Tables

  public Identifier[] listTables(String[] namespace) throws org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    FileStatus[] all = root == null && namespace.length == 0 ? new FileStatus[0] : children(folder(namespace));
    if (all == null && namespace.length > 0) throw new org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException(namespace);
    List tables = new ArrayList();
    for (int i = 0; all != null && i < all.length; i++) {
      boolean ours = all[i].isDirectory() && isTable(all[i].getPath());
      if (ours) tables.add(new TableName(namespace, all[i].getPath().getName()));
    }
    return (Identifier[]) tables.toArray(new Identifier[0]);
  }

  public org.apache.spark.sql.connector.catalog.Table loadTable(Identifier id) throws org.apache.spark.sql.catalyst.analysis.NoSuchTableException {
    return load(id, null, null);
  }

  public org.apache.spark.sql.connector.catalog.Table loadTable(Identifier id, String version) throws org.apache.spark.sql.catalyst.analysis.NoSuchTableException {
    return load(id, version, null);
  }

  public org.apache.spark.sql.connector.catalog.Table loadTable(Identifier id, long micros) throws org.apache.spark.sql.catalyst.analysis.NoSuchTableException {
    return load(id, null, Long.valueOf(micros));
  }

  private NamedTable load(Identifier id, String version, Long micros) throws org.apache.spark.sql.catalyst.analysis.NoSuchTableException {
    if (root == null && !isPath(id.namespace(), id.name())) {
      throw new org.apache.spark.sql.catalyst.analysis.NoSuchTableException(id);
    }
    try {
      return NamedTable.load(shown(id), place(id), version, micros);
    } catch (Exception e) {
      // Of a path that has no table Spark would say that it cannot query files of this kind.
      boolean named = !isPath(id.namespace(), id.name());
      if (named && CatalogRequest.isMissing(e)) throw new org.apache.spark.sql.catalyst.analysis.NoSuchTableException(id);
      CatalogRequest.raise(e);
      return null;
    }
  }

  public boolean tableExists(Identifier id) {
    boolean placed = root != null || isPath(id.namespace(), id.name());
    return placed && isTable(new Path(place(id)));
  }

  private String shown(Identifier id) {
    return name + "." + id.toString();
  }

  private Map definition(
      Identifier id, org.apache.spark.sql.connector.catalog.Column[] columns, Transform[] partitions, Map properties, String mode) {
    Object location = properties.get("location");
    String place = place(id);
    if (location != null && !TablePaths.absolute(location.toString()).equals(place)) {
      CatalogRequest.raise(
          CatalogRequest.error(
              "INVALID_INPUT",
              "Tables of the catalog " + name + " are in its own folder, so LOCATION cannot be elsewhere. Leave it out,"
                  + " or write the path as the name: CREATE TABLE indextables.`" + location + "` (...)."));
    }
    Object provider = properties.get("provider");
    if (provider != null && !TableRelation.isFormat(provider.toString())) {
      CatalogRequest.raise(
          CatalogRequest.error(
              "INVALID_INPUT", "The catalog " + name + " holds tables USING indextables, not " + provider + "."));
    }
    return TableDefinition.of(place, columns, partitions, properties, mode);
  }

  public org.apache.spark.sql.connector.catalog.Table createTable(
      Identifier id, org.apache.spark.sql.connector.catalog.Column[] columns, Transform[] partitions, Map properties) throws org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException {
    return created(id, definition(id, columns, partitions, properties, "create"));
  }

  private org.apache.spark.sql.connector.catalog.Table created(Identifier id, Map definition) throws org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException {
    try {
      return new NamedTable(shown(id), CatalogRequest.answer("create", definition));
    } catch (Exception e) {
      if (CatalogRequest.isExisting(e)) throw new org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException(id);
      CatalogRequest.raise(e);
      return null;
    }
  }

  org.apache.spark.sql.connector.catalog.Table like(
      Identifier id, org.apache.spark.sql.connector.catalog.Column[] columns, Transform[] partitions, Map properties, org.apache.spark.sql.connector.catalog.Table source) throws org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException {
    return created(id, like(definition(id, columns, partitions, properties, "create"), source));
  }

  /** A definition with the index of the table that it is made like. */
  static Map like(Map definition, org.apache.spark.sql.connector.catalog.Table source) {
    if (source instanceof NamedTable) definition.put("like", ((NamedTable) source).path);
    return definition;
  }

  public StagedTable stageCreate(
      Identifier id, org.apache.spark.sql.connector.catalog.Column[] columns, Transform[] partitions, Map properties) throws org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException {
    try {
      return StagedNamedTable.of(shown(id), definition(id, columns, partitions, properties, "create"), null);
    } catch (Exception e) {
      if (CatalogRequest.isExisting(e)) throw new org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException(id);
      CatalogRequest.raise(e);
      return null;
    }
  }

  public StagedTable stageReplace(
      Identifier id, org.apache.spark.sql.connector.catalog.Column[] columns, Transform[] partitions, Map properties) throws org.apache.spark.sql.catalyst.analysis.NoSuchTableException {
    try {
      return StagedNamedTable.of(shown(id), definition(id, columns, partitions, properties, "replace"), null);
    } catch (Exception e) {
      if (CatalogRequest.isMissing(e)) throw new org.apache.spark.sql.catalyst.analysis.NoSuchTableException(id);
      CatalogRequest.raise(e);
      return null;
    }
  }

  public StagedTable stageCreateOrReplace(
      Identifier id, org.apache.spark.sql.connector.catalog.Column[] columns, Transform[] partitions, Map properties) {
    return StagedNamedTable.of(shown(id), definition(id, columns, partitions, properties, "create or replace"), null);
  }

  public org.apache.spark.sql.connector.catalog.Table alterTable(Identifier id, TableChange[] changes) throws org.apache.spark.sql.catalyst.analysis.NoSuchTableException {
    Map arguments = CatalogRequest.arguments(load(id, null, null).path);
    arguments.put("changes", TableDefinition.of(changes));
    return new NamedTable(shown(id), CatalogRequest.answer("alter", arguments));
  }

  public boolean dropTable(Identifier id) {
    if (root == null && !isPath(id.namespace(), id.name())) return false;
    if (!isTable(new Path(place(id)))) return false;
    CatalogRequest.answer("drop", CatalogRequest.arguments(place(id)));
    return true;
  }

  public boolean purgeTable(Identifier id) {
    return dropTable(id);
  }

  public void renameTable(Identifier old, Identifier made) throws org.apache.spark.sql.catalyst.analysis.NoSuchTableException, org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException {
    Path from = new Path(place(old));
    Path to = new Path(place(made));
    if (!isTable(from)) throw new org.apache.spark.sql.catalyst.analysis.NoSuchTableException(old);
    try {
      if (files(to).exists(to)) throw new org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException(made);
      files(to).mkdirs(to.getParent());
      if (!files(from).rename(from, to)) throw new java.io.IOException("Cannot rename " + from + " to " + to);
    } catch (java.io.IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }

  // Namespaces

  public String[][] listNamespaces() throws org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    return listNamespaces(new String[0]);
  }

  public String[][] listNamespaces(String[] within) throws org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    FileStatus[] all = root == null && within.length == 0 ? new FileStatus[0] : children(folder(within));
    if (all == null && within.length > 0) throw new org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException(within);
    List names = new ArrayList();
    for (int i = 0; all != null && i < all.length; i++) {
      String part = all[i].getPath().getName();
      boolean open = all[i].isDirectory() && !part.startsWith(".") && !part.startsWith("_");
      if (!open || isTable(all[i].getPath())) continue;
      String[] one = new String[within.length + 1];
      for (int j = 0; j < within.length; j++) one[j] = within[j];
      one[within.length] = part;
      names.add(one);
    }
    return (String[][]) names.toArray(new String[0][]);
  }

  public boolean namespaceExists(String[] namespace) {
    if (namespace.length == 0) return true;
    return root != null && children(folder(namespace)) != null && !isTable(new Path(folder(namespace)));
  }

  public Map loadNamespaceMetadata(String[] namespace) throws org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    if (!namespaceExists(namespace)) throw new org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException(namespace);
    Map all = new HashMap();
    if (root != null) all.put("location", folder(namespace));
    return all;
  }

  public void createNamespace(String[] namespace, Map properties) throws org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException {
    if (namespaceExists(namespace)) throw new org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException(namespace);
    Path place = new Path(folder(namespace));
    try {
      files(place).mkdirs(place);
    } catch (java.io.IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }

  public void alterNamespace(String[] namespace, NamespaceChange[] changes) {
    CatalogRequest.raise(CatalogRequest.error("UNSUPPORTED", "Namespaces of the catalog " + name + " are folders and have no properties."));
  }

  public boolean dropNamespace(String[] namespace, boolean cascade) throws org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException, org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException {
    if (namespace.length == 0 || !namespaceExists(namespace)) return false;
    Path place = new Path(folder(namespace));
    try {
      boolean empty = files(place).listStatus(place).length == 0;
      if (!empty && !cascade) throw new org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException(namespace);
      return files(place).delete(place, true);
    } catch (java.io.IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }

  /** A name within the catalog. (Spark's own is made by a method that the compiler in the driver cannot call.) */
  static class TableName implements Identifier {
    private final String[] namespace;
    private final String name;

    TableName(String[] namespace, String name) {
      this.namespace = namespace;
      this.name = name;
    }

    public String[] namespace() {
      return namespace;
    }

    public String name() {
      return name;
    }

    public String toString() {
      return namespace.length == 0 ? name : String.join(".", namespace) + "." + name;
    }
  }
}
