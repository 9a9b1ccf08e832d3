package indextables;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.InterpretedPredicate;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FilePruningRunner;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.ArraySeq$;

/**
 * The live splits of one snapshot, for Spark's own Parquet scan. Nothing is listed: paths, sizes and times are the log's.
 * Partitions and files are ruled out here, while the query is planned; the index lives on the driver only.
 */
class SnapshotFileIndex implements FileIndex {
  private final StructType partitionSchema;
  private final Path root;
  private final String label;
  private final Map source; // options with which the data source reads the same splits
  private final byte[] digest;
  private final InternalRow[] partitions;
  private final int[][] members; // partition -> its files
  private final Column paths;
  private final Column sizes;
  private final Column ends; // where the rows of a file end: its index needs no tasks
  private boolean whole; // whether files are told with their whole size
  private final Column times;
  private final Map ordinals = new HashMap(); // column name -> place in lows and highs
  private final Column[] lows;
  private final Column[] highs;
  private final FileStatusWithMetadata[] statuses; // made when a file is first selected
  private final long totalBytes;
  private final Column vectors; // file -> the number of its deletion vector, null where it has none
  private final ByteBuffer bitmaps; // the vectors, see DeletedRows
  private boolean masked; // whether the scan leaves out the rows that vectors name

  SnapshotFileIndex(StructType partitionSchema, Path root, String label, Map source, byte[] files)
      throws Exception {
    this.partitionSchema = partitionSchema;
    this.root = root;
    this.label = label;
    this.source = source;
    MessageDigest md = MessageDigest.getInstance("SHA-256");
    md.update((root + "\n" + partitionSchema.json() + "\n").getBytes(StandardCharsets.UTF_8));
    digest = md.digest(files);
    ByteBuffer in = ((ByteBuffer) ByteBuffer.wrap(files)).order(ByteOrder.LITTLE_ENDIAN);
    partitions = readPartitions(in, partitionSchema);
    Column owners = new Column(in);
    paths = new Column(in);
    sizes = new Column(in);
    ends = new Column(in);
    times = new Column(in);
    members = byPartition(owners, partitions.length);
    Column names = new Column(in);
    lows = new Column[names.count];
    highs = new Column[names.count];
    for (int i = 0; i < names.count; i++) {
      ordinals.put(names.text(i), Integer.valueOf(i));
      lows[i] = new Column(in);
      highs[i] = new Column(in);
    }
    vectors = new Column(in);
    bitmaps = ((ByteBuffer) in.slice()).order(ByteOrder.LITTLE_ENDIAN);
    statuses = new FileStatusWithMetadata[paths.count];
    long sum = 0;
    for (int i = 0; i < paths.count; i++) sum += ends.number(i);
    totalBytes = sum;
  }

  private SnapshotFileIndex(
      SnapshotFileIndex other, StructType partitionSchema, InternalRow[] partitions, int[][] members) {
    this.partitionSchema = partitionSchema;
    this.partitions = partitions;
    this.members = members;
    root = other.root;
    label = other.label;
    source = other.source;
    digest = other.digest;
    paths = other.paths;
    sizes = other.sizes;
    ends = other.ends;
    times = other.times;
    ordinals.putAll(other.ordinals);
    lows = other.lows;
    highs = other.highs;
    vectors = other.vectors;
    bitmaps = other.bitmaps;
    statuses = new FileStatusWithMetadata[paths.count];
    totalBytes = other.totalBytes;
    whole = other.whole;
    masked = other.masked;
  }

  Map source() {
    return source;
  }

  /** The same with the whole size of each file, for those who ask for _metadata.file_size; null if this is it. */
  SnapshotFileIndex whole() {
    if (whole) return null;
    SnapshotFileIndex made = new SnapshotFileIndex(this, partitionSchema, partitions, members);
    made.whole = true;
    return made;
  }

  /** Whether a scan of these files returns rows that are deleted, unless it leaves them out. */
  boolean hidesRows() {
    if (masked) return false;
    for (int i = 0; i < vectors.count; i++) if (vectors.valid[i]) return true;
    return false;
  }

  /** Whether a filter above the scan leaves deleted rows out already. */
  boolean isMasked() {
    return masked;
  }

  ByteBuffer vectors() {
    return bitmaps;
  }

  String digestText() {
    return Arrays.toString(digest);
  }

  /** The same for a scan that leaves deleted rows out, with the number of each file's vector as one more partition value. */
  SnapshotFileIndex masked(StructType schema) {
    ArrayList rows = new ArrayList();
    ArrayList files = new ArrayList();
    for (int p = 0; p < partitions.length; p++) {
      ArrayList plain = new ArrayList();
      for (int j = 0; j < members[p].length; j++) {
        int file = members[p][j];
        if (vectors.valid[file]) {
          rows.add(extended(p, Integer.valueOf((int) vectors.number(file))));
          files.add(new int[] {file});
        } else plain.add(Integer.valueOf(file));
      }
      if (plain.isEmpty()) continue;
      int[] rest = new int[plain.size()];
      for (int j = 0; j < rest.length; j++) rest[j] = ((Integer) plain.get(j)).intValue();
      rows.add(extended(p, null));
      files.add(rest);
    }
    SnapshotFileIndex made =
        new SnapshotFileIndex(
            this, schema, (InternalRow[]) rows.toArray(new InternalRow[0]), (int[][]) files.toArray(new int[0][]));
    made.masked = true;
    return made;
  }

  private InternalRow extended(int partition, Integer vector) {
    Object[] values = new Object[partitionSchema.length() + 1];
    for (int c = 0; c < partitionSchema.length(); c++)
      values[c] = partitions[partition].get(c, partitionSchema.fields()[c].dataType());
    values[partitionSchema.length()] = vector;
    return new GenericInternalRow(values);
  }

  private static InternalRow[] readPartitions(ByteBuffer in, StructType schema) {
    InternalRow[] rows = new InternalRow[in.getInt()];
    Object[][] values = new Object[rows.length][schema.length()];
    for (int c = 0; c < schema.length(); c++) {
      Column column = new Column(in);
      DataType type = schema.fields()[c].dataType();
      for (int p = 0; p < rows.length; p++) {
        values[p][c] = column.value(p, type);
        if (values[p][c] == null && column.valid[p])
          throw new IllegalStateException("partition column " + schema.fields()[c].name() + " cannot be " + type);
      }
    }
    for (int p = 0; p < rows.length; p++) rows[p] = new GenericInternalRow(values[p]);
    return rows;
  }

  private static int[][] byPartition(Column owners, int count) {
    int[] counts = new int[count];
    for (int i = 0; i < owners.count; i++) counts[(int) owners.number(i)]++;
    int[][] members = new int[count][];
    for (int p = 0; p < count; p++) members[p] = new int[counts[p]];
    for (int i = owners.count - 1; i >= 0; i--) {
      int p = (int) owners.number(i);
      members[p][--counts[p]] = i;
    }
    return members;
  }

  public scala.collection.immutable.Seq listFiles(
      scala.collection.immutable.Seq partitionFilters, scala.collection.immutable.Seq dataFilters) {
    if (hidesRows()) // never rows that are deleted, whatever became of the rule that leaves them out
      throw new IllegalStateException(label + " has deleted rows, which this plan does not leave out. Read it again with its.table.");
    InterpretedPredicate wanted = partitionPredicate(partitionFilters);
    BoundsCheck bounds = new BoundsCheck(dataFilters);
    FilePruningRunner metadata = new FilePruningRunner(dataFilters); // _metadata.file_name = ... and the like
    ArrayList found = new ArrayList();
    for (int p = 0; p < partitions.length; p++) {
      if (wanted != null && !wanted.eval(partitions[p])) continue;
      ArrayList files = new ArrayList();
      for (int j = 0; j < members[p].length; j++)
        if (bounds.mayMatch(members[p][j])) files.add(status(members[p][j]));
      if (files.isEmpty()) continue;
      Object[] selected = files.toArray(new FileStatusWithMetadata[0]);
      PartitionDirectory folder = new PartitionDirectory(partitions[p], ArraySeq$.MODULE$.unsafeWrapArray(selected));
      found.add(metadata.fileMetadataFilterOpt().isDefined() ? metadata.prune(folder) : folder);
    }
    return ArraySeq$.MODULE$.unsafeWrapArray(found.toArray());
  }

  private InterpretedPredicate partitionPredicate(scala.collection.immutable.Seq filters) {
    Expression all = null;
    scala.collection.Iterator each = filters.iterator();
    while (each.hasNext()) {
      Expression one = (Expression) ((Expression) each.next()).transform(new PartitionBinding(partitionSchema));
      all = all == null ? one : (Expression) new And(all, one);
    }
    return all == null ? null : Predicate$.MODULE$.createInterpreted(all);
  }

  private FileStatusWithMetadata status(int i) {
    if (statuses[i] == null) {
      FileStatus status = new FileStatus((whole ? sizes : ends).number(i), false, 0, 0L, times.number(i), path(i));
      statuses[i] = new FileStatusWithMetadata(status, FileStatusWithMetadata.apply$default$2());
    }
    return statuses[i];
  }

  private Path path(int i) { // "" as authority gives file:///x, as Spark's own listing does
    java.net.URI top = root.toUri();
    String folder = top.getPath().endsWith("/") ? top.getPath() : top.getPath() + "/";
    return new Path(top.getScheme(), top.getAuthority() == null ? "" : top.getAuthority(), folder + paths.text(i));
  }

  public scala.collection.immutable.Seq rootPaths() {
    return ArraySeq$.MODULE$.unsafeWrapArray(new Path[] {root});
  }

  public String[] inputFiles() {
    String[] all = new String[paths.count];
    for (int i = 0; i < all.length; i++) all[i] = path(i).toUri().toString();
    return all;
  }

  public void refresh() {} // a snapshot never changes

  public long sizeInBytes() {
    return totalBytes;
  }

  public StructType partitionSchema() {
    return partitionSchema;
  }

  public scala.Option metadataOpsTimeNs() {
    return scala.Option.empty();
  }

  // Two DataFrames of one snapshot are the same relation (cached data, reused exchanges); of two snapshots, never.
  public boolean equals(Object other) {
    if (!(other instanceof SnapshotFileIndex) || ((SnapshotFileIndex) other).whole != whole) return false;
    if (((SnapshotFileIndex) other).masked != masked) return false;
    return Arrays.equals(digest, ((SnapshotFileIndex) other).digest);
  }

  public int hashCode() {
    return Arrays.hashCode(digest);
  }

  public String toString() {
    return "IndexTables(" + label + ", " + paths.count + " splits)";
  }

  /** Whether the filters can hold for any row of a file, by its bounds. */
  private class BoundsCheck {
    private final int[] places;
    private final DataType[] types;
    private final Object[] values = new Object[2 * lows.length];
    private final InternalRow row = new GenericInternalRow(values);
    private Expression condition;

    BoundsCheck(scala.collection.immutable.Seq filters) {
      Skipping skipping = new Skipping(ordinals);
      scala.collection.Iterator each = filters.iterator();
      while (each.hasNext()) {
        Expression one = skipping.rewrite((Expression) each.next());
        if (one != null) condition = condition == null ? one : (Expression) new And(condition, one);
      }
      places = new int[skipping.used.size()];
      types = new DataType[places.length];
      Iterator used = skipping.used.entrySet().iterator();
      for (int k = 0; used.hasNext(); k++) {
        Map.Entry entry = (Map.Entry) used.next();
        places[k] = ((Integer) entry.getKey()).intValue();
        types[k] = (DataType) entry.getValue();
      }
    }

    boolean mayMatch(int file) {
      if (condition == null) return true;
      for (int k = 0; k < places.length; k++) {
        values[2 * places[k]] = lows[places[k]].value(file, types[k]);
        values[2 * places[k] + 1] = highs[places[k]].value(file, types[k]);
      }
      return !Boolean.FALSE.equals(condition.eval(row)); // null: not known
    }
  }
}

/** A column of a partition filter -> its place in the row of partition values. */
class PartitionBinding extends scala.runtime.AbstractPartialFunction {
  private final StructType schema;

  PartitionBinding(StructType schema) {
    this.schema = schema;
  }

  public boolean isDefinedAt(Object e) {
    return e instanceof AttributeReference;
  }

  public Object applyOrElse(Object e, scala.Function1 otherwise) {
    if (!isDefinedAt(e)) return otherwise.apply(e);
    int place = schema.fieldIndex(((AttributeReference) e).name());
    return new BoundReference(place, schema.fields()[place].dataType(), true);
  }
}
