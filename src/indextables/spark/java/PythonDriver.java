package indextables;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkConf;
import org.apache.spark.api.python.Py4JServer;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.classic.SparkSession;

/**
 * The Python process of a driver that no Python process has started: spark-sql, Thrift and Connect servers. It is started
 * when something first needs it, attaches itself as `its.install` does, and ends with this driver. If it dies, the next
 * statement starts another.
 */
class PythonDriver {
  private static final String PROGRAM = "from indextables.spark.extension import serve_driver; serve_driver()";
  private static final long PATIENCE_SECONDS = 300;

  /** Starts the process, and returns when it has attached itself; says why it has not. */
  static synchronized void start() {
    if (StatementRunner.isAttached()) return;
    SparkConf conf = SparkSession.active().sparkContext().getConf();
    String python = interpreter(conf);
    Messages messages;
    Process process;
    try {
      process = process(conf, python);
      messages = new Messages(process);
    } catch (IOException e) {
      CatalogRequest.raise(failure(python, e.getMessage()));
      return;
    }
    long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
    while (!StatementRunner.isAttached() && System.nanoTime() < until) {
      try {
        if (process.waitFor(50, TimeUnit.MILLISECONDS)) messages.join(5000);
      } catch (InterruptedException e) {
        process.destroy();
        Thread.currentThread().interrupt();
        CatalogRequest.raise(failure(python, "its start was interrupted"));
      }
      if (!process.isAlive()) CatalogRequest.raise(failure(python, messages.last));
    }
    if (StatementRunner.isAttached()) return;
    process.destroy();
    CatalogRequest.raise(failure(python, "it has not answered for " + PATIENCE_SECONDS + " s"));
  }

  /** The Python of this driver: what PySpark would take. */
  private static String interpreter(SparkConf conf) {
    String[] settings = {"spark.pyspark.driver.python", "spark.pyspark.python"};
    for (int i = 0; i < settings.length; i++) if (conf.contains(settings[i])) return conf.get(settings[i]);
    String[] variables = {"PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"};
    for (int i = 0; i < variables.length; i++) if (System.getenv(variables[i]) != null) return System.getenv(variables[i]);
    return "python3";
  }

  private static Process process(SparkConf conf, String python) throws IOException {
    Py4JServer gateway = new Py4JServer(conf);
    Thread thread = Thread.currentThread();
    ClassLoader before = thread.getContextClassLoader();
    thread.setContextClassLoader(PythonDriver.class.getClassLoader()); // for the threads that answer Python
    try {
      gateway.start();
    } finally {
      thread.setContextClassLoader(before);
    }
    ProcessBuilder builder = new ProcessBuilder(new String[] {python, "-c", PROGRAM});
    Map environment = builder.environment();
    environment.put("PYSPARK_GATEWAY_PORT", String.valueOf(gateway.getListeningPort()));
    environment.put("PYSPARK_GATEWAY_SECRET", gateway.secret());
    environment.put("PYSPARK_PYTHON", conf.get("spark.pyspark.python", environment.getOrDefault("PYSPARK_PYTHON", python).toString()));
    environment.put("PYTHONUNBUFFERED", "1");
    String given = (String) environment.get("PYTHONPATH");
    String sparks = PythonUtils.sparkPythonPath();
    environment.put("PYTHONPATH", given == null ? sparks : sparks + File.pathSeparator + given);
    environment.remove("SPARK_REMOTE");
    environment.remove("SPARK_CONNECT_MODE_ENABLED"); // it talks to this driver itself
    builder.redirectErrorStream(true);
    return builder.start();
  }

  private static Throwable failure(String python, String reason) {
    return CatalogRequest.error(
        "UNSUPPORTED",
        "The driver needs a Python that has the package indextables, and " + python + " did not start: " + reason
            + ". Name one by spark.pyspark.python or PYSPARK_PYTHON.");
  }

  /** What the process says, passed on; the last line tells why it has ended. When it ends, it is no longer asked. */
  static class Messages extends Thread {
    private final Process process;
    volatile String last = "it said nothing";

    Messages(Process process) {
      super("indextables-python-driver");
      this.process = process;
      setDaemon(true);
      start();
    }

    public void run() {
      BufferedReader lines = new BufferedReader(new InputStreamReader(process.getInputStream()));
      try {
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
          if (!line.trim().isEmpty()) last = line.trim();
          System.err.println(line);
        }
      } catch (IOException closed) {
        last = closed.getMessage();
      }
      StatementRunner.attach(null);
    }
  }
}
