package indextables;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.status.api.v1.ExecutorSummary;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/** The executors of an application, and rows of which each names the executor or the host that should process it. */
public class Executors {
  /** The id and the host of each executor that is alive, in turn; the driver is left out. */
  public static List of(SparkSession session) {
    List found = new ArrayList();
    scala.collection.Iterator all = session.sparkContext().statusStore().executorList(true).iterator();
    while (all.hasNext()) {
      ExecutorSummary executor = (ExecutorSummary) all.next();
      if (executor.id().equals("driver")) continue;
      found.add(executor.id());
      found.add(executor.hostPort().substring(0, executor.hostPort().lastIndexOf(':')));
    }
    return found;
  }

  /** Rows as pickled bytes, each in a partition of its own that prefers a location. */
  public static JavaRDD located(SparkSession session, List rows, List locations) {
    List pairs = new ArrayList();
    for (int i = 0; i < rows.size(); i++) {
      List one = new ArrayList();
      one.add(locations.get(i));
      pairs.add(new Tuple2(rows.get(i), CollectionConverters.asScala(one).toSeq()));
    }
    SparkContext context = session.sparkContext();
    return context.makeRDD(CollectionConverters.asScala(pairs).toSeq(), ClassTag$.MODULE$.apply(byte[].class)).toJavaRDD();
  }
}
