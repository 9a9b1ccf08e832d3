package indextables;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandleProxies;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.Collections;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceWriteInfo;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The data source as Spark knows it, except that its planner processes are told the session's settings too.
 * They are added where Python is called, so that no plan ever shows them.
 */
public class SessionSource extends UserDefinedPythonDataSource {
  private static final String PREFIX = "spark.indextables.";
  private static final String ZONE = "condition.timeZone";
  private static final String FILE_SYSTEMS = "spark.hadoop.fs.";
  private static final Map SESSIONS = Collections.synchronizedMap(new WeakHashMap());

  public SessionSource(PythonFunction source) {
    super(source);
  }

  public static void register(Object session, Object source) {
    SparkSession spark = (SparkSession) session;
    if (SESSIONS.put(spark, Boolean.TRUE) != null) return;
    SessionSource ours = new SessionSource((PythonFunction) source);
    SparkApi.register(spark, TableRelation.FORMAT, ours);
    for (int i = 0; i < TableRelation.OTHER_NAMES.length; i++)
      SparkApi.register(spark, TableRelation.OTHER_NAMES[i], ours);
  }

  /**
   * The folder of this driver's blocks, which Spark passes to every Python process that it starts; empty if there is none.
   * The methods are looked up one by one: their classes have other methods of types that need not be on the class path.
   */
  public static String sharedFolder() {
    try {
      Class environment = sparkClass("SparkEnv");
      Class blocks = sparkClass("storage.BlockManager");
      Class disk = sparkClass("storage.DiskBlockManager");
      MethodHandles.Lookup lookup = MethodHandles.publicLookup();
      MethodHandle get = lookup.findStatic(environment, "get", MethodType.methodType(environment));
      Object found = ((Supplier) MethodHandleProxies.asInterfaceInstance(Supplier.class, get)).get();
      found = call(lookup.findVirtual(environment, "blockManager", MethodType.methodType(blocks)), found);
      found = call(lookup.findVirtual(blocks, "diskBlockManager", MethodType.methodType(disk)), found);
      found = call(lookup.findVirtual(disk, "localDirsString", MethodType.methodType(String[].class)), found);
      return ((String[]) found)[0];
    } catch (ReflectiveOperationException e) { // another version of Spark has no such method
      return "";
    }
  }

  private static Class sparkClass(String name) throws ClassNotFoundException {
    return Class.forName("org.apache.spark." + name, true, SparkSession.class.getClassLoader());
  }

  private static Object call(MethodHandle method, Object on) {
    return ((Function) MethodHandleProxies.asInterfaceInstance(Function.class, method)).apply(on);
  }

  public PythonDataSourceCreationResult createDataSourceInPython(
      String name, CaseInsensitiveStringMap options, scala.Option schema) {
    CaseInsensitiveStringMap all = withSession(options);
    if (schema.isDefined() || isForView())
      return super.createDataSourceInPython(TableRelation.FORMAT, all, schema); // whichever of its names was used
    Map asked = new HashMap(all.asCaseSensitiveMap());
    asked.put(FramedSchema.OPTION, "new");
    PythonDataSourceCreationResult made =
        super.createDataSourceInPython(TableRelation.FORMAT, new CaseInsensitiveStringMap(asked), schema);
    return new PythonDataSourceCreationResult(made.dataSource(), FramedSchema.of(made.schema()));
  }

  /** Whether the columns are asked for by CREATE TEMPORARY VIEW ... USING: a view shows the newest version, always. */
  private static boolean isForView() {
    StackTraceElement[] callers = Thread.currentThread().getStackTrace();
    for (int i = 0; i < callers.length; i++)
      if (callers[i].getClassName().endsWith("CreateTempViewUsing")) return true;
    return false;
  }

  public PythonDataSourceWriteInfo createWriteInfoInPython(
      String name, StructType schema, CaseInsensitiveStringMap options, boolean overwrite, boolean streaming) {
    return super.createWriteInfoInPython(TableRelation.FORMAT, schema, withSession(options), overwrite, streaming);
  }

  /** Tasks carry the source along; executors do not know this class, and do not need it. */
  public Object writeReplace() {
    return new UserDefinedPythonDataSource(dataSourceCls());
  }

  /** The options, without prefix, over the session's settings, which have it: an unknown one of those is only warned of. */
  static CaseInsensitiveStringMap withSession(CaseInsensitiveStringMap options) {
    Map all = new HashMap();
    all.put(PREFIX + ZONE, SQLConf.get().sessionLocalTimeZone());
    java.util.Iterator given = options.asCaseSensitiveMap().entrySet().iterator();
    while (given.hasNext()) {
      Map.Entry option = (Map.Entry) given.next();
      String name = (String) option.getKey();
      boolean prefixed = name.toLowerCase(Locale.ROOT).startsWith(PREFIX);
      String plain = prefixed ? name.substring(PREFIX.length()) : name;
      if (plain.equalsIgnoreCase(ZONE)) all.remove(PREFIX + ZONE);
      all.put(plain, option.getValue());
    }
    scala.collection.Iterator settings = SQLConf.get().getAllConfs().iterator();
    while (settings.hasNext()) {
      scala.Tuple2 setting = (scala.Tuple2) settings.next();
      String key = (String) setting._1();
      if (key.startsWith(FILE_SYSTEMS)) all.put(key, setting._2()); // Spark's own know the credentials of a store
      if (!key.toLowerCase(Locale.ROOT).startsWith(PREFIX)) continue;
      if (options.containsKey(key) || options.containsKey(key.substring(PREFIX.length()))) continue;
      all.put(key, setting._2());
    }
    return new CaseInsensitiveStringMap(all);
  }
}
