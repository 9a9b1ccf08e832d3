"""Where a literal stands among the values of a column's type.

A literal of another kind is never rounded into the column's type, which would change what it says: `n < 2.5` over whole
numbers is `n <= 2`, and `n = 2.5` holds for no row. `place` finds the greatest value of the type at or below the
literal, and whether it is the literal itself; every comparison follows from that.

A number is the number as it is written (0.1 is one tenth), except against float columns: there it becomes the nearest
double, as in Spark, and a `float` column is compared with that double exactly.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from indextables.model.numeric import parse_decimal, parse_float
from indextables.model.temporal import parse_timestamp

_WIDE = decimal.Context(prec=1_000_000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_HUGE = 10_000


class Place(Struct, frozen=True):
    """`floor` is the greatest value of the type at or below the literal; None if the literal is below all of them."""

    floor: Any
    exact: bool


def place(value: Any, arrow: pa.DataType) -> Place:
    """The place of a non-null literal among the values of a type; ValueError or TypeError if it has none."""
    for test, find in _BY_TYPE:
        if test(arrow):
            return find(value, arrow)
    raise TypeError(arrow)


def _number(value: Any) -> decimal.Decimal | float:
    """A numeric literal as a finite Decimal, or as an infinite or NaN float."""
    if isinstance(value, str):
        try:
            return parse_decimal(value)
        except ValueError:
            return parse_float(value.strip())
    if isinstance(value, bool) or not isinstance(value, (int, float, decimal.Decimal)):
        raise TypeError(value)
    if isinstance(value, float):
        return decimal.Decimal(repr(value)) if math.isfinite(value) else value
    return decimal.Decimal(value)


def _place_scaled(value: Any, scale: int, low: int, high: int) -> tuple[int | None, bool]:
    """The place of a number among `low..high` in units of 10**-scale."""
    number = _number(value)
    if isinstance(number, float):
        return (None if number < 0 else high), False
    if number.adjusted() > _HUGE and number:
        return (None if number < 0 else high), False
    if number.adjusted() < -_HUGE and number:
        return (-1 if number < 0 else 0), False
    scaled = number.scaleb(scale, _WIDE)
    floor = int(scaled.to_integral_value(decimal.ROUND_FLOOR, _WIDE))
    if floor < low:
        return None, False
    return (floor, scaled == floor) if floor <= high else (high, False)


def _place_integer(value: Any, arrow: pa.DataType) -> Place:
    limit = 1 << (arrow.bit_width - 1)
    return Place(*_place_scaled(value, 0, -limit, limit - 1))


def _place_decimal(value: Any, arrow: pa.DataType) -> Place:
    limit = 10**arrow.precision - 1
    floor, exact = _place_scaled(value, arrow.scale, -limit, limit)
    return Place(None if floor is None else decimal.Decimal(floor).scaleb(-arrow.scale, _WIDE), exact)


def _place_double(value: Any, _arrow: pa.DataType) -> Place:
    return Place(_nearest_double(value), True)


def _place_float(value: Any, _arrow: pa.DataType) -> Place:
    wanted = _nearest_double(value)
    with np.errstate(over="ignore"):
        near = np.float32(wanted)
    if not math.isnan(wanted) and float(near) > wanted:
        near = np.nextafter(near, np.float32(-np.inf))
    return Place(float(near), math.isnan(wanted) or float(near) == wanted)


def _nearest_double(value: Any) -> float:
    if isinstance(value, float):
        return value + 0.0
    number = _number(value)
    try:
        return float(number) + 0.0
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _place_boolean(value: Any, _arrow: pa.DataType) -> Place:
    if isinstance(value, str):
        return Place({"true": True, "false": False}[value.strip().lower()], True)
    if not isinstance(value, bool):
        raise TypeError(value)
    return Place(value, True)


def _place_text(value: Any, _arrow: pa.DataType) -> Place:
    if not isinstance(value, str):
        raise TypeError(value)
    value.encode()
    return Place(value, True)


def _place_binary(value: Any, _arrow: pa.DataType) -> Place:
    if not isinstance(value, (bytes, str)):
        raise TypeError(value)
    return Place(value.encode() if isinstance(value, str) else value, True)


def _moment(value: Any) -> dt.datetime:
    """A literal as a naive timestamp in UTC; a date is its midnight."""
    if isinstance(value, str):
        value = parse_timestamp(value)
    if isinstance(value, dt.datetime):
        return value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
    if isinstance(value, dt.date):
        return dt.datetime.combine(value, dt.time())
    raise TypeError(value)


def _place_date(value: Any, _arrow: pa.DataType) -> Place:
    moment = _moment(value)
    return Place(moment.date(), moment.time() == dt.time())


def _place_timestamp(value: Any, arrow: pa.DataType) -> Place:
    moment = _moment(value)
    return Place(moment if arrow.tz is None else moment.replace(tzinfo=dt.UTC), True)


_BY_TYPE: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType], Place]], ...] = (
    (pa.types.is_signed_integer, _place_integer),
    (pa.types.is_decimal, _place_decimal),
    (pa.types.is_float64, _place_double),
    (pa.types.is_float32, _place_float),
    (pa.types.is_boolean, _place_boolean),
    (pa.types.is_string, _place_text),
    (pa.types.is_binary, _place_binary),
    (pa.types.is_date, _place_date),
    (pa.types.is_timestamp, _place_timestamp),
)
