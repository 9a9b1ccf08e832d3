"""Arrow expressions become the predicate they say, or are refused by name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from indextables.errors import InvalidInputError
from indextables.model.predicate import bind, evaluate, from_arrow_expression

f = pc.field


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (f("a") == 1, "a = 1"),
        (pc.scalar(5) < f("a"), "a > 5"),
        ((f("a") > 1) & (f("b") == 'x"y') | ~f("c"), "(a > 1 AND b = 'x\"y') OR NOT (c = TRUE)"),
        (f("a").isin([1, 2]), "a IS NOT NULL AND a IN (1, 2)"),
        (~f("a").isin([1, None]), "NOT (a IS NULL OR a IN (1))"),
        (f("a").isin([]), "a IS NOT NULL AND FALSE"),
        (f("a").is_null(), "a IS NULL"),
        (f("a").is_null(nan_is_null=True), "a IS NULL OR a <=> double('NaN')"),
        (f("a").is_valid(), "a IS NOT NULL"),
        (f("a").is_nan(), "a = double('NaN')"),
        (f("a", "b.c") == 1, "a.`b.c` = 1"),
        (f("(x == 1) and y") <= 2.5, "`(x == 1) and y` <= 2.5D"),
        (f("d") == dt.date(2020, 1, 1), "d = DATE '2020-01-01'"),
        (f("t") >= dt.datetime(2020, 1, 1), "t >= TIMESTAMP_NTZ '2020-01-01 00:00:00'"),
        (
            f("t") >= pa.scalar(0, pa.timestamp("ns", "Europe/Paris")),
            "t >= TIMESTAMP '1970-01-01 00:00:00Z'",
        ),
        (f("x") == b"ab", "x = X'6162'"),
        (f("z") == Decimal("1.20"), "z = 1.20"),
        (f("q") == pa.scalar("x", pa.large_string()), "q = 'x'"),
        (pc.starts_with(f("s"), "ab"), "startswith(s, 'ab')"),
        (pc.ends_with(f("s"), "ab"), "endswith(s, 'ab')"),
        (pc.match_substring(f("s"), "q"), "contains(s, 'q')"),
        (pc.match_like(f("s"), "a%_"), "s LIKE 'a%_'"),
        (f("a") != None, "a != NULL"),  # noqa: E711
        (pc.scalar(True), "TRUE"),
    ],
    ids=str,
)
def test_what_is_understood(expression: pc.Expression, text: str) -> None:
    assert str(from_arrow_expression(expression)) == text


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        (f("a") + 1 == 2, "add_checked"),
        (f("a").cast("int64") == 3, "cast"),
        (pc.if_else(f("a") == 1, True, False), "if_else"),
        (f(0) == 1, "FieldPath"),
        (f("t") == pa.scalar(1500, pa.timestamp("ns")), "timestamp\\[ns\\]"),
        (pc.starts_with(f("s"), "x", ignore_case=True), "ignore_case=True"),
        (f("a") == f("b"), r"equal\(a, b\)"),
        (f("a") == pa.scalar([1, 2]), "list<"),
        (f("a") == dt.timedelta(1), "duration"),
        (pc.and_(f("a") == 1, f("b") == 2), "and_|and"),
        (pc.is_null(f("a") == 1), "is_null"),
        (pc.scalar(5), "5"),
    ],
    ids=str,
)
def test_what_is_refused(expression: pc.Expression, named: str) -> None:
    with pytest.raises(InvalidInputError, match=f"cannot be understood: .*{named}"):
        from_arrow_expression(expression)


@pytest.mark.parametrize(
    "expression",
    [
        ~f("n").isin([1, None]) | (f("s") == "x"),
        ~f("n").isin([1]),
        ~((f("n") > 1) & (f("s") != "y")),
        f("n").isin([]) | f("s").is_null(),
        ~pc.is_in(f("n"), options=pc.SetLookupOptions(pa.array([1, None]), skip_nulls=True)),
        pc.starts_with(f("s"), "x") | (f("n") < 2),
    ],
    ids=str,
)
def test_the_rows_are_those_that_arrow_finds(expression: pc.Expression) -> None:
    table = pa.table({"n": [1, 2, None, 3, None], "s": ["x", None, "y", "xy", "x"]})
    kept = evaluate(bind(from_arrow_expression(expression), table.schema), table)
    assert table.filter(kept) == table.filter(expression)
