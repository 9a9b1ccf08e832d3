"""What a predicate may call: tests written as functions, casts of literals, comparisons of two literals."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable
from typing import Any

from indextables.errors import InvalidInputError
from indextables.model.numeric import parse_decimal, parse_float
from indextables.model.predicate.tree import (
    Column,
    Comparison,
    Constant,
    IsNotNull,
    IsNull,
    Literal,
    Predicate,
    TextMatch,
)
from indextables.model.temporal import micros_of, parse_date, parse_timestamp

FUNCTIONS: dict[str, tuple[Callable[[Column, str], Predicate], bool]] = {
    "startswith": (lambda column, text: TextMatch("starts_with", column, text), True),
    "endswith": (lambda column, text: TextMatch("ends_with", column, text), True),
    "contains": (lambda column, text: TextMatch("contains", column, text), True),
    "isnull": (lambda column, _: IsNull(column), False),
    "isnotnull": (lambda column, _: IsNotNull(column), False),
    "isnan": (lambda column, _: Comparison("<=>", column, Literal(math.nan)), False),
}
"""Each function by name: what it builds, and whether it takes a text besides the column."""


def is_cast(name: str) -> bool:
    """Whether a word is a type that a literal can be cast to, as in `double('NaN')`."""
    return name in _CASTS


def cast_literal(literal: Literal, kind: str) -> Literal:
    """A literal as a value of a type; NULL stays NULL."""
    cast = _CASTS.get(kind)
    if cast is None:
        raise InvalidInputError(f"A literal cannot be cast to {kind!r}.", hint=f"Types: {', '.join(sorted(_CASTS))}.")
    if literal.value is None:
        return literal
    try:
        return Literal(cast(literal.value))
    except (ValueError, TypeError, ArithmeticError):
        raise InvalidInputError(f"{literal} is not a {kind}.", hint=f"Write a valid {kind}.") from None


def compare_literals(operator: str, left: Literal, right: Literal) -> Constant:
    """The outcome of a comparison without a column, such as `1 = 1`."""
    a, b = left.value, right.value
    if operator == "<=>" and (a is None or b is None):
        return Constant(a is b)
    if a is None or b is None:
        return Constant(None)
    kinds = {_kind(a), _kind(b)}
    if len(kinds) > 1:
        raise InvalidInputError(f"{left} and {right} cannot be compared.", hint="Compare values of one kind.")
    x, y = _key(a), _key(b)
    outcomes = {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "!=": x != y}
    return Constant(outcomes.get(operator, x == y))


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float, decimal.Decimal)):
        return "number"
    return "time" if isinstance(value, dt.date) else type(value).__name__


def _key(value: Any) -> Any:
    """Something that Python orders as SQL orders the value: NaN greatest, times by their instant."""
    if isinstance(value, dt.date):
        return micros_of(value)
    if isinstance(value, (float, decimal.Decimal)) or _kind(value) == "number":
        nan = isinstance(value, float) and math.isnan(value)
        return (nan, 0 if nan else value)
    return value


def _to_integer(value: Any) -> int:
    number = parse_decimal(value) if isinstance(value, str) else value
    if isinstance(number, (dt.date, bytes)):
        raise TypeError(value)
    return int(number)


def _to_float(value: Any) -> float:
    return parse_float(value) if isinstance(value, str) else float(value)


def _to_decimal(value: Any) -> decimal.Decimal:
    return parse_decimal(value if isinstance(value, str) else repr(value) if isinstance(value, float) else str(value))


def _to_date(value: Any) -> dt.date:
    if isinstance(value, dt.datetime):
        return value.date()
    if isinstance(value, dt.date):
        return value
    return parse_timestamp(value).date() if len(value.strip()) > 10 else parse_date(value)


def _to_timestamp(value: Any) -> dt.datetime:
    found = value if isinstance(value, dt.datetime) else parse_timestamp(str(value))
    return found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)


def _to_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise TypeError(value)


_CASTS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "integer", "bigint", "long"), _to_integer),
    **dict.fromkeys(("float", "double"), _to_float),
    "decimal": _to_decimal,
    "date": _to_date,
    "timestamp": _to_timestamp,
    "timestamp_ntz": lambda value: _to_timestamp(value).replace(tzinfo=None),
    "string": _to_text,
}
