package indextables;

import java.util.Arrays;
import java.util.Locale;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.expressions.ScalaUDF;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractFunction2;

/**
 * A search in a plan: textsearch(column, 'query'), fieldmatch, indexquery; over all columns indexqueryall('query'), fieldmatchall.
 * It is never computed. The rule hands it to the scan of the table; where that cannot be, the query is refused.
 */
public class SearchFunction extends AbstractFunction1 {
  static final String[] NAMES = {"textsearch", "fieldmatch", "indexquery", "indexqueryall", "fieldmatchall"};

  /** Before these names where a job was written for IndexTables for the JVM. */
  private static final String OTHER_PREFIX = "tantivy4spark_";

  private final String name;

  SearchFunction(String name) {
    this.name = name;
  }

  /** Makes the expression of a call. */
  public Object apply(Object given) {
    Seq arguments = (Seq) given;
    boolean everywhere = name.endsWith("all");
    boolean right = arguments.size() == (everywhere ? 1 : 2) && ((Expression) arguments.last()).foldable();
    if (!right) {
      String form = everywhere ? "('query')" : "(column, 'query')";
      String taken = (everywhere ? "" : "a column and ") + "one text that is no column.";
      throw new StatementError("INVALID_INPUT", name + form + " takes " + taken);
    }
    Object never = everywhere ? (Object) new OfOne(name) : (Object) new OfTwo(name);
    Seq none = (Seq) scala.collection.immutable.Seq$.MODULE$.empty();
    return new ScalaUDF(
        never, DataTypes.BooleanType, arguments, none, scala.Option.empty(), scala.Option.apply(name), false, true);
  }

  /** The function's name if an expression is a search, else null. */
  static String nameOf(Expression e) {
    if (!(e instanceof ScalaUDF)) return null;
    Object function = ((ScalaUDF) e).function();
    return function instanceof OfOne || function instanceof OfTwo ? (String) ((ScalaUDF) e).udfName().get() : null;
  }

  /** Whether a condition that Spark has parsed has a search. One in a subquery is part of that query. */
  public static boolean isIn(Object condition) {
    Expression e = (Expression) condition;
    if (nameOf(e) != null) return true;
    if (e instanceof UnresolvedFunction) {
      String called = ((String) ((UnresolvedFunction) e).nameParts().last()).toLowerCase(Locale.ROOT);
      if (called.startsWith(OTHER_PREFIX)) called = called.substring(OTHER_PREFIX.length());
      if (Arrays.asList(NAMES).contains(called)) return true;
    }
    scala.collection.Iterator children = e.children().iterator();
    while (children.hasNext()) if (isIn(children.next())) return true;
    return false;
  }

  static void inject(SparkSessionExtensions extensions) {
    for (int i = 0; i < 2 * NAMES.length; i++) {
      String name = NAMES[i / 2];
      String known = i % 2 == 0 ? name : OTHER_PREFIX + name;
      Object function = new scala.Tuple3(new FunctionIdentifier(known), info(known), new SearchFunction(name));
      extensions.injectFunction((scala.Tuple3) function);
    }
  }

  /** Adds the functions to a session that runs already, by way of Spark's own code, which knows how names are qualified. */
  static void register(FunctionRegistry registry) {
    SparkSessionExtensions alone = new SparkSessionExtensions();
    inject(alone);
    alone.registerFunctions(registry);
  }

  private static ExpressionInfo info(String name) {
    return new ExpressionInfo(SearchFunction.class.getName(), name);
  }

  static StatementError refusal(String shown) {
    return new StatementError(
        "UNSUPPORTED",
        "A search must be on a column of an IndexTables table as it is stored, below any aggregation, DISTINCT and UNION, and"
            + " this one is not: " + shown + ". Search first, and go on with the result: (SELECT * FROM t WHERE message"
            + " TEXTSEARCH '...').");
  }

  /** What Spark would call if it computed a search. */
  static class OfOne extends AbstractFunction1 {
    private final String name;

    OfOne(String name) {
      this.name = name;
    }

    public Object apply(Object query) {
      throw refusal(name + "('" + query + "')");
    }

    public boolean equals(Object other) {
      return other instanceof OfOne && ((OfOne) other).name.equals(name);
    }

    public int hashCode() {
      return name.hashCode();
    }
  }

  /** The same with a column. */
  static class OfTwo extends AbstractFunction2 {
    private final String name;

    OfTwo(String name) {
      this.name = name;
    }

    public Object apply(Object column, Object query) {
      if (column == null) return Boolean.FALSE; // Spark wants to know what an outer join does without a partner
      throw refusal(name + "(..., '" + query + "')");
    }

    public boolean equals(Object other) {
      return other instanceof OfTwo && ((OfTwo) other).name.equals(name);
    }

    public int hashCode() {
      return name.hashCode();
    }
  }
}
