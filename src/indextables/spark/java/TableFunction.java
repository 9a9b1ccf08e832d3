package indextables;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.TableFunctionRegistry;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/** Tables as functions in FROM: indextables_search('path', 'query'), and what is known of a table by its path. */
public class TableFunction extends AbstractFunction1 {
  private static final String[] NAMES = {"search", "history", "files", "state"};
  private final String name;

  TableFunction(String name) {
    this.name = name;
  }

  /** The plan of a call. */
  public Object apply(Object given) {
    Seq arguments = (Seq) given;
    boolean search = name.equals("search");
    boolean right = search ? arguments.size() == 2 || arguments.size() == 3 : arguments.size() == 1;
    String[] texts = new String[arguments.size()];
    for (int i = 0; right && i < texts.length; i++) {
      Expression argument = (Expression) arguments.apply(i);
      Object value = argument.foldable() ? argument.eval(null) : null;
      right = value != null;
      texts[i] = right ? value.toString() : null;
    }
    if (!right) {
      String form = search ? "('path', 'query') or ('path', 'query', 'condition')" : "('path')";
      throw new IllegalArgumentException("Write indextables_" + name + form + ", with texts that are no columns.");
    }
    Map options = new HashMap();
    if (search) options.put("query", texts[1]);
    if (texts.length == 3) options.put("where", texts[2]);
    if (name.equals("files")) options.put("listing", "files");
    if (name.equals("history") || name.equals("state")) {
      String path = texts[0].replace("\\", "\\\\").replace("'", "''");
      options.put("statement", "DESCRIBE INDEXTABLES " + name + " '" + path + "'");
    } else {
      options.put("path", texts[0]);
    }
    return TableRelation.loaded(options).queryExecution().analyzed();
  }

  static void inject(SparkSessionExtensions extensions) {
    for (int i = 0; i < NAMES.length; i++) {
      String called = "indextables_" + NAMES[i];
      ExpressionInfo info = new ExpressionInfo(TableFunction.class.getName(), called);
      extensions.injectTableFunction(new scala.Tuple3(new FunctionIdentifier(called), info, new TableFunction(NAMES[i])));
    }
  }

  static void register(TableFunctionRegistry registry) {
    SparkSessionExtensions alone = new SparkSessionExtensions();
    inject(alone);
    alone.registerTableFunctions(registry);
  }
}
