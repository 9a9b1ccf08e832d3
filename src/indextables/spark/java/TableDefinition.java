package indextables;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;

/** CREATE, REPLACE and ALTER TABLE as JSON for Python, which checks them. */
class TableDefinition {
  static Map of(
      String path,
      org.apache.spark.sql.connector.catalog.Column[] columns,
      Transform[] partitions,
      Map properties,
      String mode) {
    Map all = CatalogRequest.arguments(path);
    all.put("schema", CatalogV2Util.v2ColumnsToStructType(columns).json());
    List names = new ArrayList();
    for (int i = 0; i < partitions.length; i++) {
      List one = new ArrayList();
      one.add(partitions[i].name());
      NamedReference[] references = partitions[i].references();
      for (int j = 0; j < references.length; j++) one.add(String.join(".", references[j].fieldNames()));
      names.add(one);
    }
    all.put("partitions", names);
    all.put("properties", new HashMap(properties));
    all.put("mode", mode);
    List computed = new ArrayList();
    for (int i = 0; i < columns.length; i++) {
      boolean plain = columns[i].defaultValue() == null && columns[i].generationExpression() == null;
      if (!plain || columns[i].identityColumnSpec() != null) computed.add(columns[i].name());
    }
    all.put("computed", computed);
    return all;
  }

  static List of(TableChange[] changes) {
    List all = new ArrayList();
    for (int i = 0; i < changes.length; i++) all.add(change(changes[i]));
    return all;
  }

  private static Map change(TableChange given) {
    Map all = new HashMap();
    all.put("change", given.getClass().getSimpleName());
    if (given instanceof TableChange.SetProperty) {
      all.put("key", ((TableChange.SetProperty) given).property());
      all.put("value", ((TableChange.SetProperty) given).value());
    } else if (given instanceof TableChange.RemoveProperty) {
      all.put("key", ((TableChange.RemoveProperty) given).property());
    } else if (given instanceof TableChange.ColumnChange) {
      all.put("column", ((TableChange.ColumnChange) given).fieldNames());
      column((TableChange.ColumnChange) given, all);
    }
    return all;
  }

  private static void column(TableChange.ColumnChange given, Map all) {
    if (given instanceof TableChange.AddColumn) {
      TableChange.AddColumn added = (TableChange.AddColumn) given;
      all.put("type", added.dataType().json());
      all.put("nullable", Boolean.valueOf(added.isNullable()));
      all.put("comment", added.comment());
      all.put("default", Boolean.valueOf(added.defaultValue() != null));
      all.put("position", added.position() == null ? null : added.position().toString());
    } else if (given instanceof TableChange.RenameColumn) {
      all.put("name", ((TableChange.RenameColumn) given).newName());
    } else if (given instanceof TableChange.DeleteColumn) {
      all.put("if_exists", ((TableChange.DeleteColumn) given).ifExists());
    } else if (given instanceof TableChange.UpdateColumnType) {
      all.put("type", ((TableChange.UpdateColumnType) given).newDataType().json());
    } else if (given instanceof TableChange.UpdateColumnComment) {
      all.put("comment", ((TableChange.UpdateColumnComment) given).newComment());
    } else if (given instanceof TableChange.UpdateColumnNullability) {
      all.put("nullable", Boolean.valueOf(((TableChange.UpdateColumnNullability) given).nullable()));
    }
  }
}
