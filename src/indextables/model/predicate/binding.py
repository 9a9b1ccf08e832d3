"""Bind a predicate tree to a schema: columns get the schema's spelling and type, literals become
values of that type.

A bound tree needs fewer forms than a free one: comparisons are =, <, <=, > and >= with a literal of
exactly the column's type, IN has at least two values of that type, and predicates that are constant
for the type are written with IS NULL and constants. It still prints as SQL.

A literal of another kind is never rounded into the column's type, which would change its meaning:
over integers, `n < 2.5` is `n <= 2`, and `n = 2.5` is never true. `place` returns the greatest
value of the type at or below the literal, and whether it equals the literal; every comparison
follows from that. A number is exact as written (0.1 is one tenth), except against float columns:
there it becomes the nearest double, as in Spark, and a `float` column is compared with that double
exactly.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables.errors import InvalidInputError, QuerySyntaxError, nearest, show_value
from indextables.model.predicate.tree import (
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
    RLike,
    TextMatch,
)
from indextables.model.relative_times import epoch_moment, parse_moment
from indextables.model.schema import TYPE_KEY, is_atomic, spark_metadata, type_name
from indextables.model.values import parse_decimal, parse_float

_WIDE = decimal.Context(prec=1_000_000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_HUGE = 10_000


class Place(Struct, frozen=True):
    """`floor` is the greatest value of the type at or below the literal; None if the literal is
    below all of them.
    """

    floor: Any
    exact: bool


def place(value: Any, arrow: pa.DataType) -> Place:
    """Return the place of a non-null literal among the values of a type. Raises ValueError or
    TypeError.
    """
    for test, find in _BY_TYPE:
        if test(arrow):
            return find(value, arrow)
    raise TypeError(arrow)


def _number(value: Any) -> decimal.Decimal | float:
    """Return a numeric literal as a finite Decimal, or as an infinite or NaN float."""
    if isinstance(value, str):
        try:
            return parse_decimal(value)
        except ValueError:
            return parse_float(value.strip())
    if isinstance(value, bool) or not isinstance(value, (int, float, decimal.Decimal)):
        raise TypeError(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return decimal.Decimal(repr(value))
        return value
    return decimal.Decimal(value)


def _place_scaled(value: Any, scale: int, low: int, high: int) -> tuple[int | None, bool]:
    """Return the place of a number among `low..high` in units of 10**-scale."""
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
    if floor <= high:
        return (floor, scaled == floor)
    return (high, False)


def _place_integer(value: Any, arrow: pa.DataType) -> Place:
    limit = 1 << (arrow.bit_width - 1)
    return Place(*_place_scaled(value, 0, -limit, limit - 1))


def _place_decimal(value: Any, arrow: pa.DataType) -> Place:
    limit = 10**arrow.precision - 1
    floor, exact = _place_scaled(value, arrow.scale, -limit, limit)
    return Place(
        None if floor is None else decimal.Decimal(floor).scaleb(-arrow.scale, _WIDE), exact
    )


def _place_double(value: Any, _arrow: pa.DataType) -> Place:
    return Place(_nearest_double(value), True)


def _place_float(value: Any, _arrow: pa.DataType) -> Place:
    double = _nearest_double(value)
    with np.errstate(over="ignore"):
        near = np.float32(double)
    if not math.isnan(double) and float(near) > double:
        near = np.nextafter(near, np.float32(-np.inf))
    return Place(float(near), math.isnan(double) or float(near) == double)


def _nearest_double(value: Any) -> float:
    if isinstance(value, float):
        return value + 0.0
    number = _number(value)
    try:
        return float(number) + 0.0
    except OverflowError:
        if number > 0:
            return math.inf
        return -math.inf


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
    """Return a literal as a naive timestamp in UTC. A date is its midnight, a large number counts
    from 1970.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        value = epoch_moment(value)
    if isinstance(value, str):
        value = parse_moment(value)
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            return value
        return value.astimezone(dt.UTC).replace(tzinfo=None)
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


def bind(predicate: Predicate, schema: pa.Schema) -> Predicate:
    """Bind a predicate to the columns and types of a schema.

    Raises:
        QuerySyntaxError: A column does not exist; names the nearest one.
        InvalidInputError: A literal is not comparable with its column; names column, type and
            literal.
    """
    if isinstance(predicate, And):
        return And(tuple(bind(c, schema) for c in predicate.children))
    if isinstance(predicate, Or):
        return Or(tuple(bind(c, schema) for c in predicate.children))
    if isinstance(predicate, Not):
        return Not(bind(predicate.child, schema))
    if isinstance(predicate, IsNull):
        return IsNull(resolve(predicate.column, schema))
    if isinstance(predicate, IsNotNull):
        return IsNotNull(resolve(predicate.column, schema))
    if isinstance(predicate, Comparison):
        return _bind_comparison(predicate, _comparable(predicate.column, schema))
    if isinstance(predicate, In):
        return _bind_in(predicate, _comparable(predicate.column, schema))
    if isinstance(predicate, (TextMatch, Like, RLike)):
        return replace(predicate, column=_text(predicate.column, schema))
    return predicate


def resolve(column: Column, schema: pa.Schema) -> Column:
    """Return the column in the schema's spelling and with its type. Names match case-insensitively."""
    field = _find(schema, column.name, (), column)
    path = [field.name]
    for name in column.path[1:]:
        if not pa.types.is_struct(field.type):
            raise QuerySyntaxError(
                f"Column {'.'.join(path)!r} is {type_name(field.type)} and has no field {name!r}.",
                hint="Only struct columns have fields; put a name that holds a dot in backquotes.",
                column=column.dotted_path,
            )
        field = _find(field.type, name, tuple(path), column)
        path.append(field.name)
    return Column(tuple(path), field.type)


def _find(
    fields: Sequence[pa.Field], name: str, parents: tuple[str, ...], column: Column
) -> pa.Field:
    names = [f.name for f in fields]
    same = [f for f in fields if f.name == name] or [
        f for f in fields if f.name.lower() == name.lower()
    ]
    if len(same) == 1:
        return same[0]
    where = f" in {'.'.join(parents)!r}" if parents else ""
    if same:
        raise QuerySyntaxError(
            f"Column {name!r}{where} is ambiguous: {[f.name for f in same]}.",
            column=column.dotted_path,
        )
    lowered = {k.lower(): k for k in names}
    near = [lowered[n] for n in nearest(name.lower(), lowered, cutoff=0.5)]
    listed = ", ".join(repr(k) for k in names)
    hint = (f"Did you mean {near[0]!r}? " if near else "") + f"The columns are {listed}."
    raise QuerySyntaxError(
        f"There is no column {show_value(name)}{where}.",
        hint=hint,
        column=column.dotted_path,
        columns=names,
        nearest=near,
    )


def _comparable(column: Column, schema: pa.Schema) -> Column:
    resolved = resolve(column, schema)
    kind = type_name(resolved.type)
    if not is_atomic(resolved.type):
        raise InvalidInputError(
            f"Column {resolved.dotted_path!r} is {kind}, whose values cannot be compared.",
            hint="Use IS NULL or IS NOT NULL, or a field inside it.",
            column=resolved.dotted_path,
            type=kind,
        )
    if pa.types.is_string(resolved.type) and _is_collated(schema.field(resolved.name)):
        raise InvalidInputError(
            f"Column {resolved.dotted_path!r} has a collation, which predicates do not know.",
            hint="Filter it in Spark, or store it without a collation.",
            column=resolved.dotted_path,
        )
    return resolved


def _is_collated(field: pa.Field) -> bool:
    type_text = (field.metadata or {}).get(TYPE_KEY, b"")
    return b"collate" in type_text.lower() or "__COLLATIONS" in spark_metadata(field)


def _text(column: Column, schema: pa.Schema) -> Column:
    resolved = _comparable(column, schema)
    if not pa.types.is_string(resolved.type):
        kind = type_name(resolved.type)
        raise InvalidInputError(
            f"Column {resolved.dotted_path!r} is {kind}; LIKE, startswith, endswith, contains and RLIKE need strings.",
            column=resolved.dotted_path,
            type=kind,
        )
    return resolved


def _place(literal: Literal, column: Column) -> Place:
    try:
        return place(literal.value, column.type)
    except (TypeError, ValueError, KeyError):
        kind = type_name(column.type)
        quote = pa.types.is_string(column.type) and not isinstance(literal.value, bytes)
        raise InvalidInputError(
            f"Column {column.dotted_path!r} is {kind} and cannot be compared with {literal}.",
            hint="Put the value in quotes." if quote else f"Compare it with a {kind}.",
            column=column.dotted_path,
            type=kind,
            literal=str(literal),
        ) from None


def _bind_comparison(predicate: Comparison, column: Column) -> Predicate:
    literal, operator = predicate.literal, predicate.operator
    if literal.value is None:
        if operator == "<=>":
            return IsNull(column)
        return Constant(None)
    position = _place(literal, column)
    if operator == "!=":
        return Not(_compare("=", column, position))
    if operator == "<=>":
        return And((IsNotNull(column), _compare("=", column, position)))
    return _compare(operator, column, position)


def _compare(operator: str, column: Column, position: Place) -> Predicate:
    if position.exact:
        return Comparison(operator, column, Literal(position.floor))
    if operator == "=":
        return never(column)
    if position.floor is None:
        if operator in ("<", "<="):
            return never(column)
        return always(column)
    return Comparison("<=" if operator in ("<", "<=") else ">", column, Literal(position.floor))


def _bind_in(predicate: In, column: Column) -> Predicate:
    literals = [v for v in predicate.literals if v.value is not None]
    places = [_place(v, column) for v in literals]
    values = list(dict.fromkeys(Literal(p.floor) for p in places if p.exact))
    if len(literals) < len(predicate.literals):
        # A NULL in the list: no value is ever outside the list, only unknown to be in it.
        if len(values) > 1:
            return Or((In(column, tuple(values)), Constant(None)))
        return _one_or_null(column, values)
    if len(values) > 1:
        return In(column, tuple(values))
    if values:
        return Comparison("=", column, values[0])
    return never(column)


def _one_or_null(column: Column, values: list[Literal]) -> Predicate:
    if values:
        return Or((Comparison("=", column, values[0]), Constant(None)))
    return Constant(None)


def never(column: Column) -> Predicate:
    """Return FALSE for every value, NULL for NULL."""
    return And((IsNull(column), Constant(None)))


def always(column: Column) -> Predicate:
    """Return TRUE for every value, NULL for NULL."""
    return Or((IsNotNull(column), Constant(None)))
