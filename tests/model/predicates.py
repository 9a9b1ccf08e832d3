"""Random values, rows and predicates over every type that can be compared, chosen to collide at the
hard places.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from indextables.model.predicate import (
    Column,
    Comparison,
    Constant,
    In,
    IsNotNull,
    IsNull,
    Literal,
    Not,
    Predicate,
    TextMatch,
    all_of,
    any_of,
    like,
)

TYPES: dict[str, pa.DataType] = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "small_decimal": pa.decimal128(5, 2),
    "wide_decimal": pa.decimal128(38, 18),
    "flag": pa.bool_(),
    "text": pa.string(),
    "raw": pa.binary(),
    "day": pa.date32(),
    "at": pa.timestamp("us", tz="UTC"),
    "at local": pa.timestamp("us"),
}
LETTERS = "ab%_\\'\x00\x7fé\u07ff\u0800\ud7ff\ue000\ufffd\uffff\U00010000\U0010fffe\U0010ffff"
DAYS = [
    dt.date(1, 1, 1),
    dt.date(1969, 12, 31),
    dt.date(1970, 1, 1),
    dt.date(2024, 2, 29),
    dt.date(9999, 12, 31),
]
MOMENTS = [
    dt.datetime(1, 1, 1),
    dt.datetime(1582, 10, 15, 12),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    dt.datetime(1970, 1, 1),
    dt.datetime(2024, 2, 29, 13, 30, 0, 1),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),
]
ORDERED = "a\ud7ff\ue000\uffff\U00010000\U0010ffff"
NAN = math.nan
DOUBLES = [
    0.0,
    -0.0,
    0.1,
    1.5,
    -1.5,
    30.0,
    5e-324,
    1.7976931348623157e308,
    math.inf,
    -math.inf,
    NAN,
    NAN,
    NAN,
    1e-40,
]
_EPOCH = dt.datetime(1970, 1, 1)


def mostly(known: list[Any], other: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """One of a few known values three times out of four, so that they meet."""
    chosen = st.sampled_from(known)
    return st.one_of(chosen, chosen, chosen, other)


def texts(max_size: int = 45) -> st.SearchStrategy[str]:
    """Texts with long common beginnings, of characters whose order differs between UTF-8 and
    UTF-16.
    """
    stem = st.sampled_from(["a" * 30, "a" * 31, "a" * 32, "a", "\U0010ffff" * 3, "\ud7ff" * 2])
    long = st.builds(
        lambda a, b: (a + b)[:max_size], stem, st.text(ORDERED, min_size=1, max_size=3)
    )
    short = st.sampled_from(
        ["", "9", "10", "95", "b", "\uffff", "\U00010000", "a" * 32, "a\uffff", "a\U00010000"]
    )
    return st.one_of(long, long, short, st.text(LETTERS, max_size=5))


def doubles() -> st.SearchStrategy[float]:
    return mostly(DOUBLES, st.floats())


def floats() -> st.SearchStrategy[float]:
    def narrow(value: float) -> float:
        with np.errstate(over="ignore"):
            return float(np.float32(value))

    return doubles().map(narrow)


def decimals(arrow: pa.DataType) -> st.SearchStrategy[Decimal]:
    limit = 10**arrow.precision - 1
    units = mostly([0, 1, -1, 10, 150, 1000, 3000, limit, -limit], st.integers(-limit, limit))
    return units.map(lambda n: Decimal(f"{n}E-{arrow.scale}"))


def integers(bits: int) -> st.SearchStrategy[int]:
    limit = 1 << (bits - 1)
    return mostly([0, 1, -1, 2, 10, 30, limit - 1, -limit], st.integers(-limit, limit - 1))


def days() -> st.SearchStrategy[dt.date]:
    return mostly(DAYS, st.dates())


def moments() -> st.SearchStrategy[dt.datetime]:
    return mostly(MOMENTS, st.datetimes())


def values(name: str) -> st.SearchStrategy[Any]:
    """Values of a column, without NULL."""
    arrow = TYPES[name]
    if pa.types.is_integer(arrow):
        return integers(arrow.bit_width)
    if pa.types.is_floating(arrow):
        return floats() if arrow == pa.float32() else doubles()
    if pa.types.is_decimal(arrow):
        return decimals(arrow)
    if pa.types.is_timestamp(arrow):
        return moments() if arrow.tz is None else moments().map(lambda m: m.replace(tzinfo=dt.UTC))
    others: dict[str, st.SearchStrategy[Any]] = {
        "flag": st.booleans(),
        "text": texts(),
        "raw": st.binary(max_size=3),
        "day": days(),
    }
    return others[name]


def literals(name: str) -> st.SearchStrategy[Any]:
    """Values to compare a column with: of its own type, and of every other kind that can be
    compared with it.
    """
    arrow = TYPES[name]
    own = values(name)
    if pa.types.is_integer(arrow) or pa.types.is_floating(arrow) or pa.types.is_decimal(arrow):
        fine = st.decimals(allow_nan=False, allow_infinity=False, places=3)
        numbers = integers(8) | integers(64) | st.integers(-(10**40), 10**40) | doubles() | fine
        return (
            own
            | numbers
            | st.sampled_from(["1", "-0.5", "1e3", "170141183460469231731687303715884105728"])
        )
    if pa.types.is_temporal(arrow):
        written = st.sampled_from(
            ["1969-12-31", "2024-02-29 13:30:00.000001", "2024-02-29T15:30:00+02:00"]
        )
        return (
            own | days() | moments() | moments().map(lambda m: m.replace(tzinfo=dt.UTC)) | written
        )
    if name == "flag":
        return own | st.sampled_from(["true", "FALSE"])
    return own | texts(max_size=5) if name == "raw" else own


@dataclass(frozen=True)
class Pool:
    """A few values and literals of each column: rows and predicates choose among them, so that they
    meet.
    """

    values: dict[str, list[Any]]
    literals: dict[str, list[Any]]


@cache
def pools(names: tuple[str, ...]) -> st.SearchStrategy[Pool]:
    """Values and literals of some columns."""
    some = {name: st.lists(values(name), min_size=1, max_size=4) for name in names}
    others = {name: st.lists(literals(name), min_size=1, max_size=2) for name in names}
    return st.builds(Pool, st.fixed_dictionaries(some), st.fixed_dictionaries(others))


Choice = tuple[str, int, str, list[int], int]
_CHOICES = st.tuples(
    st.sampled_from(["compare", "compare", "compare", "in", "null", "text", "like", "constant"]),
    st.integers(0, 3),
    st.sampled_from(["=", "<=>", "!=", "<", "<=", ">", ">="]),
    st.lists(st.integers(0, 9), min_size=1, max_size=12),
    st.integers(0, 45),
)
_PATTERN = ["%", "_", "a", "\\\\", "\\%", "\\_", "é", "\U0010ffff", "a" * 31, "%a"]


def _grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=2, max_size=3)
    return (
        st.tuples(st.just("and"), several)
        | st.tuples(st.just("or"), several)
        | st.tuples(st.just("not"), inner)
    )


SMALL_TREES: st.SearchStrategy[Any] = st.recursive(_CHOICES, _grow, max_leaves=3)
TREES: st.SearchStrategy[Any] = st.recursive(_CHOICES, _grow, max_leaves=8)
"""Shapes of trees; `predicate_of` fills in columns and literals. Drawing shapes is quick, drawing
strategies is not.
"""


def predicate_of(shape: Any, pool: Pool) -> Predicate:
    """The tree of a shape over the columns and values of a pool."""
    if shape[0] == "not":
        return Not(predicate_of(shape[1], pool))
    if shape[0] in ("and", "or"):
        children = [predicate_of(c, pool) for c in shape[1]]
        return all_of(children) if shape[0] == "and" else any_of(children)
    return _leaf(shape, pool)


def _leaf(choice: Choice, pool: Pool) -> Predicate:
    kind, column_number, operator, picks, cut = choice
    names = list(pool.values)
    name = names[column_number % len(names)]
    column = Column((name,))
    given = [*pool.values[name] * 3, *pool.literals[name]]
    if kind == "constant" and picks[0] < 3:
        return Constant([True, False, None][picks[0]])
    if kind == "null":
        return IsNull(column) if picks[0] % 2 else IsNotNull(column)
    if kind == "text" and name == "text":
        match = ["starts_with", "ends_with", "contains"][picks[0] % 3]
        return TextMatch(match, column, given[cut % len(given)][:cut])
    if kind == "like" and name == "text":
        start = given[cut % len(given)][:1].translate({ord(c): "\\" + c for c in "%_\\"})
        return like(column, start + "".join(_PATTERN[p] for p in picks[:4]))
    found = tuple(Literal(None if p == 9 else given[p % len(given)]) for p in picks)
    return In(column, found) if kind == "in" else Comparison(operator, column, found[0])


ROWS = st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=4)
"""Shapes of rows; `rows_of` fills in the values."""


def rows_of(shape: list[list[int]], pool: Pool) -> dict[str, list[Any]]:
    """The rows of a shape; a fifth of the values is NULL."""
    return {
        name: [None if row[i] > 7 else given[row[i] % len(given)] for row in shape]
        for i, (name, given) in enumerate(pool.values.items())
    }


def table_of(columns: dict[str, list[Any]]) -> pa.Table:
    """Rows as an Arrow table; times are given as numbers, since pyarrow cannot take every datetime."""
    return pa.table({name: _array(given, TYPES[name]) for name, given in columns.items()})


def micros(value: dt.datetime) -> int:
    return (value.replace(tzinfo=None) - _EPOCH) // dt.timedelta(microseconds=1)


def _array(given: list[Any], arrow: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(arrow):
        return pa.array([None if v is None else micros(v) for v in given], pa.int64()).cast(arrow)
    return pa.array(given, arrow)
