package indextables;

import java.io.File;
import java.util.TreeSet;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

/** Where the table behind a name is: a view or a table of the catalog that reads exactly one of our tables. */
public class TablePaths {
  public static String of(Object session, String name) {
    SparkSession spark = (SparkSession) session;
    LogicalPlan plan = spark.table(name).queryExecution().analyzed();
    TreeSet paths = new TreeSet();
    scala.collection.Iterator leaves = plan.collectLeaves().iterator();
    while (leaves.hasNext()) {
      String path = of((LogicalPlan) leaves.next());
      if (path == null) throw new IllegalArgumentException(name + " is no IndexTables table, or reads others too.");
      paths.add(path);
    }
    if (paths.size() == 1) return (String) paths.first();
    String said = name + " reads " + paths.size() + " tables: " + paths + ".";
    throw new IllegalArgumentException(said + " Give the path of one in quotes.");
  }

  /** A path as seen from the folder in which Spark was started, as Spark itself sees it; URLs stay as they are. */
  static String absolute(String path) {
    return path.matches("[A-Za-z][A-Za-z0-9+.-]*:.*") ? path : new File(path).getAbsolutePath();
  }

  private static String of(LogicalPlan leaf) {
    if (leaf instanceof DataSourceV2Relation) return TableRelation.pathOf((DataSourceV2Relation) leaf);
    if (!(leaf instanceof LogicalRelation)) return null;
    Object relation = ((LogicalRelation) leaf).relation();
    if (!(relation instanceof HadoopFsRelation)) return null;
    Object files = ((HadoopFsRelation) relation).location();
    return files instanceof SnapshotFileIndex ? (String) ((SnapshotFileIndex) files).source().get("path") : null;
  }
}
