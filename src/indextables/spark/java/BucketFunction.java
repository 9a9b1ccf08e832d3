package indextables;

import java.math.BigDecimal;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.TimestampType;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

/**
 * The bucket that a value falls into, for GROUP BY: indextables_histogram(x, 10), indextables_date_histogram(at, '1h') and
 * indextables_range(x, 10, 50). Expressions of Spark's own, with the keys that Table.aggregate has for the same buckets.
 */
public class BucketFunction extends AbstractFunction1 {
  private static final String[] NAMES = {"histogram", "date_histogram", "range"};
  private static final Pattern FIXED = Pattern.compile("(\\d{1,9})(ms|s|m|h|d)");
  private static final String DAY = "86400000000L";
  private final String name;

  BucketFunction(String name) {
    this.name = name;
  }

  /** The expression of a call; `x` in its text is the first argument. */
  public Object apply(Object given) {
    Seq arguments = (Seq) given;
    String[] told = new String[Math.max(0, arguments.size() - 1)];
    for (int i = 0; i < told.length; i++) {
      Expression argument = (Expression) arguments.apply(i + 1);
      Object value = argument.foldable() ? argument.eval(null) : null;
      if (value == null) throw wrong();
      told[i] = value.toString();
    }
    if (told.length == 0) throw wrong();
    Expression x = (Expression) arguments.head();
    return new CatalystSqlParser().parseExpression(text(x.dataType(), arguments, told)).transform(new Filled(x));
  }

  private String text(DataType type, Seq arguments, String[] told) {
    if (name.equals("histogram")) return numbers(type, arguments, told);
    return name.equals("range") ? ranges(type, told) : moments(type, told);
  }

  private IllegalArgumentException wrong() {
    String form = "(timestamp or date, '30s', '5m', '1h', '7d', 'day', 'week', 'month', 'quarter' or 'year')";
    if (name.equals("histogram")) form = "(number, width[, offset]), with a width above 0";
    if (name.equals("range")) form = "(number, bound, ...), with rising bounds";
    return new IllegalArgumentException("Write indextables_" + name + form + ".");
  }

  private String numbers(DataType type, Seq arguments, String[] told) {
    if (told.length > 2 || !(new BigDecimal(told[0]).signum() > 0)) throw wrong();
    String offset = told.length == 2 ? told[1] : "0";
    boolean whole = type instanceof IntegralType;
    for (int i = 1; i < arguments.size(); i++) {
      whole = whole && ((Expression) arguments.apply(i)).dataType() instanceof IntegralType;
    }
    if (whole) return "cast(x as bigint) - pmod(cast(x as bigint) - " + offset + "L, " + told[0] + "L)";
    String v = "(cast(x as double) - " + offset + "D)";
    String width = told[0] + "D";
    String key = "rint((" + v + " - pmod(" + v + ", " + width + ")) / " + width + ") * " + width + " + " + offset + "D";
    return "if(isnan(cast(x as double)) or abs(cast(x as double)) = double('Infinity'), null, " + key + ")";
  }

  private String moments(DataType type, String[] told) {
    if (!(type instanceof TimestampType || type instanceof DateType) || told.length != 1) throw wrong();
    String micros = type instanceof DateType ? "(unix_date(x) * " + DAY + ")" : "unix_micros(x)";
    String unit = told[0].trim();
    Matcher fixed = FIXED.matcher(unit);
    if (unit.equals("minute") || unit.equals("hour") || unit.equals("day")) fixed = FIXED.matcher("1" + unit.charAt(0));
    if (unit.equals("week") || unit.equals("1w")) {
      return "timestamp_micros(" + micros + " - pmod(" + micros + " + 3 * " + DAY + ", 7 * " + DAY + "))";
    }
    if (fixed.matches()) {
      long length = Long.parseLong(fixed.group(1)) * ((Long) lengths().get(fixed.group(2))).longValue();
      if (length == 0) throw wrong();
      return "timestamp_micros(" + micros + " - pmod(" + micros + ", " + length + "L))";
    }
    String calendar = (String) calendar().get(unit);
    if (calendar == null) throw wrong();
    String day = "date_from_unix_date(cast((" + micros + " - pmod(" + micros + ", " + DAY + ")) div " + DAY + " as int))";
    return "timestamp_micros(unix_date(trunc(" + day + ", '" + calendar + "')) * " + DAY + ")";
  }

  private String ranges(DataType type, String[] told) {
    StringBuilder cases = new StringBuilder("case");
    for (int i = 0; i < told.length; i++) {
      if (i > 0 && new BigDecimal(told[i]).compareTo(new BigDecimal(told[i - 1])) <= 0) throw wrong();
      String key = (i == 0 ? "*" : told[i - 1]) + "-" + told[i];
      cases.append(" when x < ").append(told[i]).append(" then '").append(key).append("'");
    }
    String last = told[told.length - 1];
    String number = type instanceof DoubleType || type instanceof FloatType ? " and not isnan(x)" : "";
    return cases + " when x >= " + last + number + " then '" + last + "-*' end";
  }

  private static Map lengths() {
    Map micros = new HashMap();
    micros.put("ms", Long.valueOf(1000L));
    micros.put("s", Long.valueOf(1000000L));
    micros.put("m", Long.valueOf(60000000L));
    micros.put("h", Long.valueOf(3600000000L));
    micros.put("d", Long.valueOf(86400000000L));
    return micros;
  }

  private static Map calendar() {
    Map units = new HashMap();
    units.put("month", "MONTH");
    units.put("1M", "MONTH");
    units.put("quarter", "QUARTER");
    units.put("1q", "QUARTER");
    units.put("year", "YEAR");
    units.put("1y", "YEAR");
    return units;
  }

  static void inject(SparkSessionExtensions extensions) {
    for (int i = 0; i < NAMES.length; i++) {
      String called = "indextables_" + NAMES[i];
      ExpressionInfo info = new ExpressionInfo(BucketFunction.class.getName(), called);
      extensions.injectFunction(new scala.Tuple3(new FunctionIdentifier(called), info, new BucketFunction(NAMES[i])));
    }
  }

  static void register(FunctionRegistry registry) {
    SparkSessionExtensions alone = new SparkSessionExtensions();
    inject(alone);
    alone.registerFunctions(registry);
  }

  /** Puts the argument where the text says `x`. */
  static class Filled extends AbstractPartialFunction {
    private final Expression x;

    Filled(Expression x) {
      this.x = x;
    }

    public boolean isDefinedAt(Object e) {
      return e instanceof UnresolvedAttribute && ((UnresolvedAttribute) e).name().equals("x");
    }

    public Object applyOrElse(Object e, scala.Function1 otherwise) {
      return isDefinedAt(e) ? x : otherwise.apply(e);
    }
  }
}
