package indextables;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.FileSourceMetadataAttribute$;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StringType;

/**
 * Turns a filter over rows into a condition over the bounds of a file, [min0, max0, min1, max1, ...].
 * The condition is false only where no row of the file can pass; what is not understood becomes null, which says nothing.
 * A bound that a file does not have is null, so the condition is not false there and the file is kept.
 */
class Skipping {
  private final Map ordinals; // column name -> place among the bounds
  final Map used = new TreeMap(); // place -> type

  Skipping(Map ordinals) {
    this.ordinals = ordinals;
  }

  Expression rewrite(Expression e) {
    if (e instanceof And) {
      Expression left = rewrite((Expression) ((And) e).left());
      Expression right = rewrite((Expression) ((And) e).right());
      return left == null ? right : right == null ? left : (Expression) new And(left, right);
    }
    if (e instanceof Or) {
      Expression left = rewrite((Expression) ((Or) e).left());
      Expression right = rewrite((Expression) ((Or) e).right());
      return left == null || right == null ? null : (Expression) new Or(left, right);
    }
    if (e instanceof In) return anyOf(((In) e).value(), literals((In) e));
    if (e instanceof InSet) return anyOf((Expression) ((InSet) e).child(), literals((InSet) e));
    if (e instanceof BinaryComparison) {
      BinaryComparison c = (BinaryComparison) e;
      String operator = operator(e);
      if (operator == null) return null;
      Expression left = (Expression) c.left();
      Expression right = (Expression) c.right();
      if (right instanceof Literal) return compare(operator, left, (Literal) right);
      if (left instanceof Literal) return compare(mirrored(operator), right, (Literal) left);
    }
    return null;
  }

  private static String operator(Expression e) {
    if (e instanceof EqualTo || e instanceof EqualNullSafe) return "=";
    if (e instanceof LessThan) return "<";
    if (e instanceof LessThanOrEqual) return "<=";
    if (e instanceof GreaterThan) return ">";
    return e instanceof GreaterThanOrEqual ? ">=" : null;
  }

  private static String mirrored(String operator) {
    if (operator.startsWith("<")) return ">" + operator.substring(1);
    return operator.startsWith(">") ? "<" + operator.substring(1) : operator;
  }

  private Expression compare(String operator, Expression column, Literal literal) {
    Integer place = place(column);
    DataType type = column.dataType();
    if (place == null || literal.value() == null || !type.equals(literal.dataType())) return null;
    // Bounds of text are in the order of its bytes; a collation has another.
    if (type instanceof StringType && !type.equals(DataTypes.StringType)) return null;
    if (operator.equals("<")) return new LessThan(bound(place, type, 0), literal);
    if (operator.equals("<=")) return new LessThanOrEqual(bound(place, type, 0), literal);
    if (operator.equals(">")) return new GreaterThan(bound(place, type, 1), literal);
    if (operator.equals(">=")) return new GreaterThanOrEqual(bound(place, type, 1), literal);
    Expression low = new LessThanOrEqual(bound(place, type, 0), literal);
    return new And(low, new GreaterThanOrEqual(bound(place, type, 1), literal));
  }

  private Integer place(Expression e) {
    if (!(e instanceof AttributeReference)) return null;
    AttributeReference a = (AttributeReference) e;
    if (FileSourceMetadataAttribute$.MODULE$.unapply(a).isDefined()) return null; // _metadata.x, not the column x
    return (Integer) ordinals.get(a.name());
  }

  private Expression bound(Integer place, DataType type, int which) {
    used.put(place, type);
    return new BoundReference(2 * place.intValue() + which, type, true);
  }

  private Expression anyOf(Expression column, List literals) {
    if (literals == null) return null;
    Expression all = null;
    for (int i = 0; i < literals.size(); i++) {
      Literal literal = (Literal) literals.get(i);
      if (literal.value() == null) continue; // equals nothing
      Expression one = compare("=", column, literal);
      if (one == null) return null;
      all = all == null ? one : (Expression) new Or(all, one);
    }
    return all;
  }

  private static List literals(In in) {
    List found = new ArrayList();
    scala.collection.Iterator values = in.list().iterator();
    while (values.hasNext()) {
      Object value = values.next();
      if (!(value instanceof Literal)) return null;
      found.add(value);
    }
    return found;
  }

  private static List literals(InSet in) {
    List found = new ArrayList();
    scala.collection.Iterator values = in.hset().iterator();
    while (values.hasNext()) found.add(new Literal(values.next(), ((Expression) in.child()).dataType()));
    return found;
  }
}
