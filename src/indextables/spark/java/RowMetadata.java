package indextables;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A column that a table does not store: how well a row matches a search, where it does, and which place it has. */
class RowMetadata implements MetadataColumn {
  static final String SCORE = "_score";
  static final String SNIPPET = "_snippet";
  static final String PLACE = "_metadata";
  static final StructType FIELDS =
      new StructType()
          .add(SCORE, DataTypes.FloatType, true)
          .add(SNIPPET, DataTypes.StringType, true)
          .add(PLACE, new ParquetFileFormat().createFileMetadataCol().dataType(), true);
  private final StructField field;

  RowMetadata(StructField field) {
    this.field = field;
  }

  public String name() {
    return field.name();
  }

  public DataType dataType() {
    return field.dataType();
  }

  /** The columns of a relation as fields: those that it stores as they are told, and those of metadata. */
  static StructType withMetadata(StructType stored, scala.collection.immutable.Seq output) {
    StructType all = new StructType(stored.fields());
    scala.collection.Iterator each = output.iterator();
    while (each.hasNext()) {
      AttributeReference column = (AttributeReference) each.next();
      boolean known = all.getFieldIndex(column.name()).isDefined();
      if (!known && isOne(column)) all = all.add(column.name(), column.dataType(), true);
    }
    return all;
  }

  static boolean isOne(Attribute column) {
    return FIELDS.getFieldIndex(column.name()).isDefined();
  }

  /** The places (`_metadata`) and what a search says cannot come from the same read; and without a search nothing is said. */
  static void check(StructType wanted, StructType stored, CaseInsensitiveStringMap options) {
    boolean found = options.containsKey("searches") || options.containsKey("query");
    for (int i = 0; i < 2; i++) {
      String name = FIELDS.fields()[i].name();
      boolean asked = wanted.getFieldIndex(name).isDefined() && stored.getFieldIndex(name).isEmpty();
      if (!asked) continue;
      if (!found || options.containsKey("matches"))
        throw new StatementError(
            "INVALID_INPUT",
            name + " is known only of rows that a search has found. Give one as a condition of its own: WHERE message"
                + " TEXTSEARCH '...' AND ...; under OR and NOT there is none.");
      if (wanted.getFieldIndex(PLACE).isDefined() && stored.getFieldIndex(PLACE).isEmpty())
        throw new StatementError(
            "UNSUPPORTED", name + " and " + PLACE + " cannot be read at once. Read them in two queries and join them.");
    }
  }

  /** The expression ids that any node of a plan uses. */
  static Set used(LogicalPlan plan) {
    Set all = new HashSet();
    List waiting = new ArrayList();
    waiting.add(plan);
    add(plan.output().iterator(), all);
    while (!waiting.isEmpty()) {
      LogicalPlan node = (LogicalPlan) waiting.remove(waiting.size() - 1);
      add(node.references().iterator(), all);
      scala.collection.Iterator children = node.children().iterator();
      while (children.hasNext()) waiting.add(children.next());
    }
    return all;
  }

  private static void add(scala.collection.Iterator columns, Set ids) {
    while (columns.hasNext()) ids.add(((Attribute) columns.next()).exprId());
  }
}
