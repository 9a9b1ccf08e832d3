"""The obvious evaluator: one row at a time, exact arithmetic, nothing shared with the one that
ships.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from indextables.model.predicate import (
    And,
    Comparison,
    Constant,
    In,
    IsNotNull,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    TextMatch,
)
from tests.model.predicates import TYPES, micros


def holds(tree: Predicate, row: dict[str, Any]) -> bool | None:
    """TRUE, FALSE or NULL (None) for one row of plain values."""
    if isinstance(tree, And):
        parts = [holds(c, row) for c in tree.children]
        return False if False in parts else None if None in parts else True
    if isinstance(tree, Or):
        parts = [holds(c, row) for c in tree.children]
        return True if True in parts else None if None in parts else False
    if isinstance(tree, Not):
        inner = holds(tree.child, row)
        return None if inner is None else not inner
    if isinstance(tree, Constant):
        return tree.value
    return _leaf(tree, row)


def _leaf(tree: Predicate, row: dict[str, Any]) -> bool | None:
    assert isinstance(tree, Comparison | In | IsNull | IsNotNull | TextMatch | Like)
    name = tree.column.name
    value = row[name]
    if isinstance(tree, IsNull | IsNotNull):
        return (value is None) == isinstance(tree, IsNull)
    if isinstance(tree, Comparison):
        return _compare(tree.operator, value, tree.literal.value, TYPES[name])
    if value is None:
        return None
    if isinstance(tree, In):
        outcomes = [_compare("=", value, v.value, TYPES[name]) for v in tree.literals]
        return True if True in outcomes else None if None in outcomes else False
    if isinstance(tree, Like):
        return _like(value, tree.pattern)
    tests = {"starts_with": str.startswith, "ends_with": str.endswith, "contains": str.__contains__}
    return tests[tree.kind](value, tree.text)


def _compare(operator: str, value: Any, literal: Any, arrow: pa.DataType) -> bool | None:
    if operator == "<=>" and (value is None or literal is None):
        return value is literal
    if value is None or literal is None:
        return None
    a, b = _key(value, arrow, literal=False), _key(literal, arrow, literal=True)
    equal, less = bool(a == b), bool(a < b)
    outcomes = {"=": equal, "<=>": equal, "!=": not equal, "<": less, "<=": less or equal}
    return outcomes.get(operator, not less if operator == ">=" else not (less or equal))


def _key(value: Any, arrow: pa.DataType, *, literal: bool) -> Any:
    if pa.types.is_string(arrow):
        return value.encode()
    if pa.types.is_binary(arrow):
        return value.encode() if isinstance(value, str) else value
    if pa.types.is_boolean(arrow):
        return value.lower() == "true" if isinstance(value, str) else value
    if pa.types.is_temporal(arrow):
        return _moment(value)
    number = Decimal(value) if isinstance(value, str) else value
    if pa.types.is_floating(arrow) and literal:
        number = _nearest_double(number)
    elif literal and isinstance(number, float) and math.isfinite(number):
        number = Decimal(repr(number))
    if isinstance(number, float) and not math.isfinite(number):
        return (2 if math.isnan(number) else 1 if number > 0 else -1, Fraction(0))
    return (0, Fraction(number))


def _nearest_double(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _moment(value: Any) -> int:
    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value)
    if not isinstance(value, dt.datetime):
        value = dt.datetime.combine(value, dt.time())
    return micros(value if value.tzinfo is None else value.astimezone(dt.UTC))


def _like(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(_like(text[i:], pattern[1:]) for i in range(len(text) + 1))
    if not text:
        return False
    if pattern[0] == "\\":
        return text[0] == pattern[1] and _like(text[1:], pattern[2:])
    return (pattern[0] == "_" or pattern[0] == text[0]) and _like(text[1:], pattern[1:])
