"""Evaluation: Spark's order and SQL's three-valued logic, against a table made by hand and against
DuckDB.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

from indextables.errors import InvalidInputError
from indextables.model.predicate import bind, evaluate, parse

NAN, INF = float("nan"), float("inf")
TABLE = pa.table(
    {
        "n": pa.array([1, 2, None, -5], pa.int64()),
        "d": pa.array([NAN, -0.0, None, INF], pa.float64()),
        "r": pa.array([0.1, 0.5, None, NAN], pa.float32()),
        "p": pa.array(
            [Decimal("1.10"), Decimal("-0.01"), None, Decimal("99.99")], pa.decimal128(4, 2)
        ),
        "s": pa.array(["a\U0001f600c", "a_b\n%", None, "\uffff"]),
        "b": pa.array([b"\xff", b"\x00", None, b""]),
        "f": pa.array([True, False, None, True]),
        "day": pa.array([dt.date(1969, 12, 31), dt.date(2024, 2, 29), None, dt.date(1, 1, 1)]),
        "ts": pa.array([-1, 0, None, 1_709_211_600_000_000], pa.timestamp("us", tz="UTC")),
        "st": pa.array([{"x": 1}, None, {"x": None}, {"x": 4}], pa.struct([("x", pa.int32())])),
    }
)
T, F, N = True, False, None


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("n < 2.5", [T, T, N, T]),
        ("n = 2.5", [F, F, N, F]),
        ("n != 2.5", [T, T, N, T]),
        ("n <=> NULL", [F, F, T, F]),
        ("n <=> 1", [T, F, F, F]),
        ("n = NULL", [N, N, N, N]),
        ("n IN (1, NULL)", [T, N, N, N]),
        ("n NOT IN (1, NULL)", [F, N, N, N]),
        ("n IN (1, 2)", [T, T, N, F]),
        ("n BETWEEN -5 AND 1", [T, F, N, T]),
        ("NULL AND n > 1", [F, N, N, F]),
        ("NULL OR n > 1", [N, T, N, N]),
        ("TRUE", [T, T, T, T]),
        ("NULL", [N, N, N, N]),
        ("d = double('NaN')", [T, F, N, F]),
        ("d >= double('NaN')", [T, F, N, F]),
        ("d > double('NaN')", [F, F, N, F]),
        ("d < double('NaN')", [F, T, N, T]),
        ("d <= double('NaN')", [T, T, N, T]),
        ("isnan(d)", [T, F, F, F]),
        ("d > 1e308", [T, F, N, T]),
        ("d = 0", [F, T, N, F]),
        ("d IN (0.0, double('NaN'))", [T, T, N, F]),
        ("d NOT IN (-0.0, 5)", [T, F, N, T]),
        ("r = 0.1", [F, F, N, F]),
        ("r > 0.1", [T, T, N, T]),
        ("r IN (0.5, 0.1)", [F, T, N, F]),
        ("p > 1.099", [T, F, N, T]),
        ("p >= 1.1", [T, F, N, T]),
        ("p < -0.005", [F, T, N, F]),
        ("s > '\uffff'", [F, F, N, F]),
        ("s >= 'a\uffff'", [T, F, N, T]),
        ("s LIKE 'a_c'", [T, F, N, F]),
        ("s LIKE 'a\\\\_%\\\\%'", [F, T, N, F]),
        ("s LIKE '%\n_'", [F, T, N, F]),
        ("startswith(s, '')", [T, T, N, T]),
        ("endswith(s, '%')", [F, T, N, F]),
        ("contains(s, '\U0001f600')", [T, F, N, F]),
        ("b > X'00'", [T, F, N, F]),
        ("b = ''", [F, F, N, T]),
        ("f", [T, F, N, T]),
        ("f > FALSE", [T, F, N, T]),
        ("day < TIMESTAMP '1969-12-31 00:00:01'", [T, F, N, T]),
        ("day >= '1970-01-01'", [F, T, N, F]),
        ("ts < DATE '1970-01-01'", [T, F, N, F]),
        ("ts = '2024-02-29T15:00:00+02:00'", [F, F, N, T]),
        ("st.x > 1", [F, N, N, T]),
        ("st IS NULL", [F, T, F, F]),
        ("st.x IS NULL", [F, T, T, F]),
        ("st IS NOT NULL AND st.x IS NULL", [F, F, T, F]),
    ],
)
def test_semantics(condition: str, expected: list[bool | None]) -> None:
    bound = bind(parse(condition), TABLE.schema)
    assert evaluate(bound, TABLE).to_pylist() == expected
    assert evaluate(bound, TABLE.to_batches()[0]).to_pylist() == expected
    halves = pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)])
    assert evaluate(bound, halves).to_pylist() == expected
    assert evaluate(bound, TABLE.slice(0, 0)).to_pylist() == []


@pytest.mark.parametrize(
    "condition",
    [
        "n < 2.5 OR n IS NULL",
        "n = 2.5",
        "n IN (1, NULL) OR f",
        "NOT (n IN (1, NULL))",
        "NOT (n > 1 AND f)",
        "n BETWEEN -5 AND 1 OR NULL",
        "d = CAST('NaN' AS DOUBLE)",
        "d > 1.5",
        "d = -0.0",
        "d < CAST('Infinity' AS DOUBLE)",
        "p > 1.099 AND p < 100.5",
        "p IN (1.1, 99.990)",
        "s > 'a\uffff'",
        "s < 'a'",
        "s LIKE 'a_c'",
        "s NOT LIKE '%\n%'",
        "day < DATE '1970-01-01'",
        "day IN (DATE '2024-02-29', NULL)",
        "day >= TIMESTAMP '1969-12-31 12:00:00'",
        "ts >= TIMESTAMP '1970-01-01 00:00:00+00:00'",
        "st.x <> 4",
        "f = FALSE OR f IS NULL",
    ],
)
def test_duckdb_says_the_same(condition: str) -> None:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("rows", TABLE)
        expected = [
            row[0]
            for row in connection.execute(f"SELECT ({condition})::BOOLEAN FROM rows").fetchall()
        ]
    assert evaluate(bind(parse(condition), TABLE.schema), TABLE).to_pylist() == expected


def test_data_in_another_encoding_of_the_type_is_read_as_the_type() -> None:
    other = pa.table({"s": TABLE["s"].dictionary_encode(), "n": TABLE["n"].cast(pa.int32())})
    bound = bind(parse("s = '\uffff' AND n < 0"), TABLE.schema)
    assert evaluate(bound, other).to_pylist() == [F, F, N, T]


def test_a_column_that_is_not_in_the_data_is_an_error() -> None:
    with pytest.raises(InvalidInputError, match=r"The data has no column 'n'\. It has 's'"):
        evaluate(bind(parse("n = 1"), TABLE.schema), TABLE.select(["s"]))


def test_a_tree_that_is_not_bound_is_an_error() -> None:
    with pytest.raises(InvalidInputError, match="Bind the predicate to a schema"):
        evaluate(parse("n = 1"), TABLE)
