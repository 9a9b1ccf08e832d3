"""SQL conditions: what they mean as trees, and what is said of those that mean nothing."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

from indextables.errors import InvalidInputError, QuerySyntaxError
from indextables.model.predicate import (
    And,
    Column,
    Comparison,
    Constant,
    In,
    IsNotNull,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    TextMatch,
    all_of,
    any_of,
    columns_of,
    like,
    parse,
)

A, B, S = Column(("a",)), Column(("b",)), Column(("s",))


def eq(column: Column, value: Any) -> Comparison:
    return Comparison("=", column, Literal(value))


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a = 1", eq(A, 1)),
        ("a == 1", eq(A, 1)),
        ("1 < a", Comparison(">", A, Literal(1))),
        ("a <> 1", Comparison("!=", A, Literal(1))),
        ("a<=>NULL", Comparison("<=>", A, Literal(None))),
        ("a = 1 AND b = 2 AND s = 'x'", And((eq(A, 1), eq(B, 2), eq(S, "x")))),
        ("a = 1 or b = 2 and s = 'x'", Or((eq(A, 1), And((eq(B, 2), eq(S, "x")))))),
        ("(a = 1 or b = 2) and not s = 'x'", And((Or((eq(A, 1), eq(B, 2))), Not(eq(S, "x"))))),
        ("a = 1 AND (b = 2 AND s = 'x')", And((eq(A, 1), And((eq(B, 2), eq(S, "x")))))),
        ("!(a = 1)", Not(eq(A, 1))),
        ("a", eq(A, True)),
        ("NOT a AND b", And((Not(eq(A, True)), eq(B, True)))),
        ("a IN (1, 2, NULL)", In(A, (Literal(1), Literal(2), Literal(None)))),
        ("a NOT IN (-1)", Not(In(A, (Literal(-1),)))),
        (
            "a BETWEEN 1 AND 2 AND b",
            And(
                (
                    And((Comparison(">=", A, Literal(1)), Comparison("<=", A, Literal(2)))),
                    eq(B, True),
                )
            ),
        ),
        (
            "a NOT BETWEEN 1 AND 2",
            Not(And((Comparison(">=", A, Literal(1)), Comparison("<=", A, Literal(2))))),
        ),
        ("a IS NULL", IsNull(A)),
        ("a is not null", IsNotNull(A)),
        ("isnull(a) OR isnotnull(b)", Or((IsNull(A), IsNotNull(B)))),
        ("s LIKE 'ab%'", TextMatch("starts_with", S, "ab")),
        ("s LIKE '%ab'", TextMatch("ends_with", S, "ab")),
        ("s LIKE '%ab%'", TextMatch("contains", S, "ab")),
        ("s LIKE 'ab'", eq(S, "ab")),
        ("s LIKE ''", eq(S, "")),
        ("s LIKE '%%'", TextMatch("starts_with", S, "")),
        ("s LIKE 'a_b%'", Like(S, "a_b%")),
        (r"s LIKE 'a\_b%'", TextMatch("starts_with", S, "a_b")),
        ("s LIKE 'a!%b%' ESCAPE '!'", TextMatch("starts_with", S, "a%b")),
        ("s NOT LIKE 'a_'", Not(Like(S, "a_"))),
        (
            "startswith(s, 'a') AND endswith(s, 'b')",
            And((TextMatch("starts_with", S, "a"), TextMatch("ends_with", S, "b"))),
        ),
        ('contains(s, "it\'s")', TextMatch("contains", S, "it's")),
        ("isnan(a)", Comparison("<=>", A, Literal(float("nan")))),
        ("a = double('-Infinity')", eq(A, float("-inf"))),
        ("a = CAST('2024-02-29' AS DATE)", eq(A, dt.date(2024, 2, 29))),
        ("a = 'it''s' /* one /* two */ */ -- three", eq(A, "it's")),
        (r"a = 'tab\t quote\' slash\\ \u00e9'", eq(A, "tab\t quote' slash\\ é")),
        (r"a = r'C:\new'", eq(A, r"C:\new")),
        ("a = X'0aFF'", eq(A, b"\x0a\xff")),
        ("a = 1.50", eq(A, Decimal("1.50"))),
        ("a = -.5e-3", eq(A, Decimal("-.5e-3"))),
        ("a = 2.5D", eq(A, 2.5)),
        ("a = 3L", eq(A, 3)),
        ("a = 3BD", eq(A, Decimal(3))),
        ("a = - - 3", eq(A, 3)),
        ("a = DATE '1969-12-31'", eq(A, dt.date(1969, 12, 31))),
        (
            "a = TIMESTAMP '2024-01-01 01:00:00+01:00'",
            eq(A, dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
        ),
        (
            "a = TIMESTAMP '2024-01-01T00:00'",
            eq(A, dt.datetime(2024, 1, 1)),
        ),  # its zone is known where it is bound
        ("a = TIMESTAMP '2024-01-01T00:00Z'", eq(A, dt.datetime(2024, 1, 1, tzinfo=dt.UTC))),
        (
            "a = TIMESTAMP_NTZ '2024-01-01 00:00:00.25'",
            eq(A, dt.datetime(2024, 1, 1, 0, 0, 0, 250_000)),
        ),
        (
            "date = 1 AND timestamp = 2",
            And((eq(Column(("date",)), 1), eq(Column(("timestamp",)), 2))),
        ),
        ("`we``ird.name`.x.`y z` = 1", eq(Column(("we`ird.name", "x", "y z")), 1)),
        ("größe = 1", eq(Column(("größe",)), 1)),
        ("1 = 1", Constant(True)),
        ("1.0 < 1 OR 'a' = 'b' OR NULL", Or((Constant(False), Constant(False), Constant(None)))),
        ("NULL <=> NULL", Constant(True)),
        ("DATE '2024-01-01' < TIMESTAMP '2024-01-01 00:00:01'", Constant(True)),
    ],
)
def test_conditions(text: str, tree: Predicate) -> None:
    assert parse(text) == tree
    assert parse(str(tree)) == tree


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "expected a column, a value or '(', found the end"),
        ("a == = 1", 1, 6, "expected a column, a value or '(', found '='"),
        ("a betwen 1 and 2", 1, 3, "Did you mean BETWEEN?"),
        ("a = 1 ad b = 2", 1, 7, "Did you mean AND?"),
        ("a IN ()", 1, 7, "found ')'"),
        ("a IN (1, b)", 1, 10, "expected a value, found b"),
        ("a IN (1 2)", 1, 9, "expected ',' or ')', found '2'"),
        ("a = b", 1, 5, "column 'a' is compared with column 'b'"),
        ("a = 'x", 1, 5, "the string that begins here does not end"),
        ("a = `x", 1, 5, "the backquote that opens here is not closed"),
        ("`` = 1", 1, 1, "an identifier cannot be empty"),
        ("(a = 1", 1, 7, "expected ')', AND or OR, found the end"),
        ("a = 1)", 1, 6, "expected the end, AND or OR, found ')'"),
        ("a IS 5", 1, 6, "expected NULL or NOT NULL, found '5'"),
        ("a BETWEEN 1 OR 2", 1, 13, "expected AND and the upper end of BETWEEN"),
        ("a LIKE 5", 1, 8, "expected a pattern in quotes"),
        ("a LIKE 'x\\\\y'", 1, 8, "stands before 'y'"),
        ("a LIKE 'x' ESCAPE 'xy'", 1, 19, "ESCAPE takes one character"),
        ("a ilike 'x'", 1, 3, "ILIKE is not supported"),
        ("startwith(a, 'x')", 1, 1, "Did you mean startswith?"),
        ("a = DATE '2023-02-29'", 1, 10, "'2023-02-29' is not a date"),
        ("a = CAST('x' AS INT)", 1, 17, "'x' is not a int"),
        ("a = CAST(1 AS map)", 1, 15, "cannot be cast to 'map'"),
        ("a = X'0g'", 1, 5, "X'0g' is not hexadecimal"),
        ("a = 1 AND\n  b ~ 3", 2, 5, "the character '~' has no meaning here"),
        ("a /* b", 1, 3, "the comment that begins here does not end"),
        ("5", 1, 1, "5 is a value, not a condition"),
        ("(a = 1) = TRUE", 1, 1, "a condition stands where a column or a value is expected"),
        ("5 IS NULL", 1, 1, "expected a column, found 5"),
        ("a = 1x", 1, 5, "a name cannot begin with a digit"),
        ("a. = 1", 1, 4, "expected the name of a field"),
        ("1 = 'a'", 1, 3, "1 and 'a' cannot be compared"),
        ("a = '\\ud800'", 1, 6, "is not a character"),
        ("(" * 70 + "a" + ")" * 70, 1, 62, "more than 60 conditions inside one another"),
        ("a = " + "1" * 1001, 1, 5, "more than 1000 digits"),
        ("NOT", 1, 4, "found the end"),
        ("a NOT", 1, 3, "expected the end, AND or OR, found 'NOT'"),
    ],
)
def test_errors_show_the_place_and_what_was_expected(
    text: str, line: int, column: int, message: str
) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse(text)
    assert message in str(caught.value)
    assert (caught.value.context["line"], caught.value.context["column"]) == (line, column)


def test_an_error_points_at_the_place() -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse("a = 1 AND\n\tb = = 2")
    assert caught.value.message == (
        "Predicate, line 2, column 6: expected a column, a value or '(', found '='.\n  \tb = = 2\n  \t    ^\n"
    )


def test_columns_of_a_tree() -> None:
    assert columns_of(parse("b.x = 1 AND (a IS NULL OR b.y IN (2)) AND TRUE")) == ("b", "a")
    assert columns_of(Constant(True)) == ()


def test_joining_any_number_of_predicates() -> None:
    one, two = eq(A, 1), eq(B, 2)
    assert (all_of([]), all_of([one]), all_of([one, two])) == (Constant(True), one, one & two)
    assert (any_of([]), any_of([one]), any_of([one, two])) == (Constant(False), one, one | two)
    assert ~one == Not(one)


def test_values_that_no_predicate_can_hold_are_refused() -> None:
    for value in ([1], Decimal("NaN"), dt.timedelta(1), object()):
        with pytest.raises(InvalidInputError, match="cannot hold the value"):
            Literal(value)
    with pytest.raises(InvalidInputError, match="IN over column 'a' has no values"):
        In(A, ())
    with pytest.raises(InvalidInputError, match="no comparison '~'"):
        Comparison("~", A, Literal(1))


def test_literals_are_equal_by_kind_and_value() -> None:
    assert Literal(1) != Literal(True)
    assert Literal(1) != Literal(1.0)
    assert Literal(float("nan")) == Literal(float("nan"))
    paris = dt.timezone(dt.timedelta(hours=1))
    assert Literal(dt.datetime(2024, 1, 1, 1, tzinfo=paris)).value == dt.datetime(
        2024, 1, 1, tzinfo=dt.UTC
    )


def test_values_of_other_libraries_become_plain_ones() -> None:
    given = [
        np.int64(5),
        np.float64(0.1),
        np.bool_(True),
        np.str_("x"),
        pd.Timestamp("2024-01-01", tz="Europe/Paris"),
    ]
    texts = ["5", "0.1D", "TRUE", "'x'", "TIMESTAMP '2023-12-31 23:00:00Z'"]
    assert [str(Literal(value)) for value in given] == texts


def test_like_takes_its_simplest_form() -> None:
    assert like(S, "a%%b__") == Like(S, "a%b__")
    assert like(S, "a#_b%c", escape="#") == Like(S, "a\\_b%c")
