package indextables;

import java.io.IOException;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.roaringbitmap.RoaringBitmap;
import scala.collection.immutable.ArraySeq$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Rows that deletion vectors name, left out of Spark's own scan. Each file has the number of its vector as the value of a
 * hidden partition column, the vectors are broadcast, and a filter looks up each row by its place in its file. All of it is
 * made of Spark's own classes, so that executors need nothing. This happens when searches have found their tables: those
 * are read by the index, which knows the vectors itself.
 */
public class DeletedRows extends Rule {
  private static final String ROW = "row_index";
  private static final Map BROADCASTS = new HashMap(); // application and vectors -> the broadcast, as long as a plan has it

  public TreeNode apply(TreeNode plan) {
    return in((LogicalPlan) plan);
  }

  static LogicalPlan in(LogicalPlan plan) {
    return (LogicalPlan) plan.transformUp(new Change());
  }

  static class Change extends AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return masked(node) != null;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      SnapshotFileIndex files = masked(node);
      return files == null ? otherwise.apply(node) : without((LogicalRelation) node, files);
    }
  }

  /** The files of a scan that must leave rows out and does not yet; else null. */
  private static SnapshotFileIndex masked(Object node) {
    if (!(node instanceof LogicalRelation) || !(((LogicalRelation) node).relation() instanceof HadoopFsRelation)) return null;
    Object files = ((HadoopFsRelation) ((LogicalRelation) node).relation()).location();
    boolean waits = files instanceof SnapshotFileIndex && ((SnapshotFileIndex) files).hidesRows();
    return waits ? (SnapshotFileIndex) files : null;
  }

  private static LogicalPlan without(LogicalRelation relation, SnapshotFileIndex files) {
    HadoopFsRelation read = (HadoopFsRelation) relation.relation();
    Seq columns = relation.output();
    String hidden = "__deletion_vector";
    while (read.schema().getFieldIndex(hidden).isDefined()) hidden = hidden + "_";
    StructType partitions = read.partitionSchema().add(hidden, DataTypes.IntegerType, true);
    HadoopFsRelation told =
        new HadoopFsRelation(
            files.masked(partitions),
            partitions,
            read.dataSchema(),
            read.bucketSpec(),
            read.fileFormat(),
            read.options(),
            read.sparkSession());
    Seq none = (Seq) scala.collection.immutable.Seq$.MODULE$.empty();
    AttributeReference vector =
        new AttributeReference(
            hidden, DataTypes.IntegerType, true, Metadata.empty(), NamedExpression$.MODULE$.newExprId(), none);
    boolean asked = columns.size() > read.schema().length(); // somebody wants _metadata as well
    LogicalRelation described = asked ? relation : relation.withMetadataColumns();
    Seq all = (Seq) described.output().appended(vector);
    LogicalRelation scan =
        relation.copy(told, all, relation.catalogTable(), relation.isStreaming(), relation.stream());
    Attribute metadata = (Attribute) described.output().last();
    int place = ((StructType) metadata.dataType()).fieldIndex(ROW);
    Expression row = new GetStructField((Expression) metadata, place, scala.Option.apply(ROW));
    Expression keep = kept(read.sparkSession().sparkContext(), files, (Expression) vector, row);
    return new Project(columns, new Filter(keep, scan));
  }

  /**
   * A filter that leaves deleted rows out of Spark's own scan as a read through the data source, which knows the vectors
   * itself; null for any other node. Spark may plan a part of a subquery before it brings the search of another part there.
   */
  static LogicalPlan throughSource(LogicalPlan node) {
    if (!(node instanceof Filter) || !(((Filter) node).child() instanceof LogicalRelation)) return null;
    LogicalRelation relation = (LogicalRelation) ((Filter) node).child();
    if (!(relation.relation() instanceof HadoopFsRelation)) return null;
    HadoopFsRelation read = (HadoopFsRelation) relation.relation();
    if (!(read.location() instanceof SnapshotFileIndex) || !((SnapshotFileIndex) read.location()).isMasked()) return null;
    StructField[] partitions = read.partitionSchema().fields();
    String hidden = partitions[partitions.length - 1].name();
    Attribute vector = null;
    List stored = new ArrayList();
    scala.collection.Iterator output = relation.output().iterator();
    while (output.hasNext()) {
      Attribute column = (Attribute) output.next();
      boolean isVector = column.name().equals(hidden);
      if (isVector) vector = column;
      boolean isMetadata = read.schema().getFieldIndex(column.name()).isEmpty();
      if (!isVector && !isMetadata) stored.add(column);
    }
    if (vector == null) return null;
    Expression rest = withoutVector(((Filter) node).condition(), vector);
    Seq columns = CollectionConverters.asScala(stored).toSeq();
    LogicalPlan table = TableRule.throughSource(columns, read.schema(), (SnapshotFileIndex) read.location());
    return rest == null ? table : (LogicalPlan) new Filter(rest, table);
  }

  /** The parts of a condition that do not read a deletion vector; null if there is none. */
  private static Expression withoutVector(Expression condition, Attribute vector) {
    if (condition instanceof And) {
      Expression left = withoutVector((Expression) ((And) condition).left(), vector);
      Expression right = withoutVector((Expression) ((And) condition).right(), vector);
      if (left == null) return right;
      return right == null ? left : (Expression) new And(left, right);
    }
    return condition.references().contains(vector) ? null : condition;
  }

  private static Expression kept(Object context, SnapshotFileIndex files, Expression vector, Expression row) {
    Object shared = shared((org.apache.spark.SparkContext) context, files);
    Expression held = new Literal(shared, new ObjectType(Broadcast.class));
    Expression all = call(held, "value", new ObjectType(List.class), new Expression[0]);
    Expression rows = call(all, "get", new ObjectType(RoaringBitmap.class), new Expression[] {vector});
    // A split has fewer rows than an int counts.
    Expression place = new Cast(row, DataTypes.IntegerType, scala.Option.empty(), EvalMode$.MODULE$.LEGACY());
    Expression gone = call(rows, "contains", DataTypes.BooleanType, new Expression[] {place});
    return new Or((Expression) new IsNull(vector), (Expression) new Not(gone));
  }

  private static Expression call(Expression on, String method, DataType type, Expression[] arguments) {
    Seq none = (Seq) scala.collection.immutable.Seq$.MODULE$.empty();
    return new Invoke(on, method, type, ArraySeq$.MODULE$.unsafeWrapArray(arguments), none, true, true, true);
  }

  /** One broadcast for all reads of the same vectors: plans that read the same then say so. */
  private static synchronized Broadcast shared(org.apache.spark.SparkContext context, SnapshotFileIndex files) {
    String key = context.applicationId() + " " + files.digestText();
    WeakReference known = (WeakReference) BROADCASTS.get(key);
    Broadcast shared = known == null ? null : (Broadcast) known.get();
    if (shared == null) {
      shared = new JavaSparkContext(context).broadcast(bitmaps(files.vectors()));
      java.util.Iterator each = BROADCASTS.values().iterator();
      while (each.hasNext()) if (((WeakReference) each.next()).get() == null) each.remove();
      BROADCASTS.put(key, new WeakReference(shared));
    }
    return shared;
  }

  /** The vectors as Python hands them over: how many, then of each its length and its bytes. */
  private static List bitmaps(ByteBuffer given) {
    ByteBuffer in = ((ByteBuffer) given.duplicate()).order(ByteOrder.LITTLE_ENDIAN);
    int count = in.getInt();
    List all = new ArrayList();
    for (int i = 0; i < count; i++) {
      int length = in.getInt();
      RoaringBitmap one = new RoaringBitmap();
      try {
        one.deserialize(((ByteBuffer) in.slice()).order(ByteOrder.LITTLE_ENDIAN));
      } catch (IOException e) {
        throw new IllegalStateException("a deletion vector cannot be read", e);
      }
      in.position(in.position() + length);
      all.add(one);
    }
    return all;
  }
}
