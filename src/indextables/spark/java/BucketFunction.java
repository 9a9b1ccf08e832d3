package indextables;

import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.UnresolvedNamedLambdaVariable;
import org.apache.spark.sql.classic.SparkSession;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

/**
 * A function that stands for an expression of Spark. The expression takes the place of every call, so that it goes by
 * the settings of the query: a function made by CREATE FUNCTION keeps the time zone in which it was made.
 */
public class BucketFunction extends AbstractFunction1 {
  private final String name;
  private final List parameters;
  private final List defaults;
  private final String body;

  BucketFunction(String name, List parameters, List defaults, String body) {
    this.name = name;
    this.parameters = parameters;
    this.defaults = defaults;
    this.body = body;
  }

  /** Parameters and defaults are separated by commas; an empty default means that the argument must be given. */
  public static void register(Object session, Object name, Object parameters, Object defaults, Object body) {
    List names = Arrays.asList(((String) parameters).split(",", -1));
    List values = Arrays.asList(((String) defaults).split(",", -1));
    Object function = new BucketFunction((String) name, names, values, (String) body);
    ExpressionInfo info = new ExpressionInfo(BucketFunction.class.getName(), (String) name);
    SparkSessionExtensions alone = new SparkSessionExtensions();
    alone.injectFunction(new scala.Tuple3(new FunctionIdentifier((String) name), info, function));
    alone.registerFunctions(((SparkSession) session).sessionState().functionRegistry());
  }

  /** Makes the expression of a call. */
  public Object apply(Object given) {
    Seq arguments = (Seq) given;
    if (name.equals("indextables_range") && arguments.size() != 2) return labelled(arguments);
    Expression[] values = new Expression[parameters.size()];
    for (int i = 0; i < values.length; i++) {
      String otherwise = (String) defaults.get(i);
      if (i < arguments.size()) values[i] = (Expression) arguments.apply(i);
      else if (!otherwise.isEmpty()) values[i] = parsed(otherwise);
    }
    if (arguments.size() > values.length || Arrays.asList(values).contains(null)) {
      throw new IllegalArgumentException("Write " + name + "(" + String.join(", ", parameters) + ").");
    }
    if (!name.equals("indextables_date_histogram")) values[0] = number(values[0]);
    return parsed(body).transformUp(new Filled(parameters, values));
  }

  /** A text as a number; one that is none is named with its column, where Spark would name a cast that nobody wrote. */
  private Expression number(Expression value) {
    boolean fails = org.apache.spark.sql.internal.SQLConf$.MODULE$.get().ansiEnabled();
    if (!fails || !value.resolved() || !(value.dataType() instanceof org.apache.spark.sql.types.StringType)) return value;
    String shown = value instanceof NamedExpression ? ((NamedExpression) value).name() : value.sql();
    String column = shown.replace("\\", "\\\\").replace("'", "\\'");
    String text =
        "CASE WHEN value IS NULL THEN NULL WHEN try_cast(value AS DOUBLE) IS NULL THEN raise_error(concat('" + name
            + ": " + column + " must hold numbers, and holds the text ', value)) ELSE try_cast(value AS DOUBLE) END";
    List one = Arrays.asList(new Object[] {"value"});
    return (Expression) parsed(text).transformUp(new Filled(one, new Expression[] {value}));
  }

  /** indextables_range(value, 'label', low, high, 'label', low, high, ...): the label of the first range that holds a value. */
  private static Object labelled(Seq arguments) {
    if (arguments.size() < 4 || arguments.size() % 3 != 1) {
      throw new IllegalArgumentException(
          "Write indextables_range(value, array(10, 100)) or indextables_range(value, 'label', low, high, ...), where a"
              + " bound may be NULL.");
    }
    StringBuilder text = new StringBuilder("CASE WHEN value IS NULL OR isnan(double(value)) THEN NULL");
    java.util.ArrayList names = new java.util.ArrayList();
    Expression[] values = new Expression[arguments.size()];
    for (int i = 0; i < values.length; i++) {
      values[i] = (Expression) arguments.apply(i);
      names.add(i == 0 ? "value" : "argument" + i);
    }
    for (int i = 1; i < values.length; i += 3) {
      text.append(" WHEN (argument" + (i + 1) + " IS NULL OR double(value) >= double(argument" + (i + 1) + "))");
      text.append(" AND (argument" + (i + 2) + " IS NULL OR double(value) < double(argument" + (i + 2) + "))");
      text.append(" THEN string(argument" + i + ")");
    }
    return parsed(text.append(" END").toString()).transformUp(new Filled(names, values));
  }

  private static Expression parsed(String text) {
    return org.apache.spark.sql.catalyst.parser.CatalystSqlParser$.MODULE$.parseExpression(text);
  }

  /** A parameter -> its argument. From below, so that what stands in an argument is left alone. */
  static class Filled extends AbstractPartialFunction {
    private final List parameters;
    private final Expression[] values;

    Filled(List parameters, Expression[] values) {
      this.parameters = parameters;
      this.values = values;
    }

    public boolean isDefinedAt(Object e) {
      // Within a lambda every name is first taken for one of its variables.
      boolean free = e instanceof UnresolvedAttribute || e instanceof UnresolvedNamedLambdaVariable;
      return free && parameters.contains(((NamedExpression) e).name());
    }

    public Object applyOrElse(Object e, scala.Function1 otherwise) {
      return isDefinedAt(e) ? values[parameters.indexOf(((NamedExpression) e).name())] : otherwise.apply(e);
    }
  }
}
