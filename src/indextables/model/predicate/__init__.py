"""Which rows are meant: a typed predicate tree, from text or Arrow expressions, evaluated with
SQL's logic.

parse("level = 'ERROR' AND day >= '2024-05-01'")     SQL text -> tree
from_arrow_expression(pc.field("n") > 5)             Arrow expression -> tree
bind(tree, schema)                                   tree -> bound tree: typed, checked
evaluate(bound, batch)                               bound tree, rows -> TRUE, FALSE or NULL per row

`bound_predicate` takes what callers write: SQL text, a tree, or an Arrow expression.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from indextables.errors import InvalidInputError
from indextables.model.predicate.binding import bind, resolve
from indextables.model.predicate.evaluation import evaluate, from_arrow_expression
from indextables.model.predicate.parser import parse, parse_among
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
    all_of,
    any_of,
    columns_of,
    like,
)
from indextables.model.relative_times import from_zone, is_relative, parse_moment, to_zone
from indextables.model.values import timestamp_of

__all__ = [
    "And",
    "Column",
    "Comparison",
    "Constant",
    "In",
    "IsNotNull",
    "IsNull",
    "Like",
    "Literal",
    "Not",
    "Or",
    "Predicate",
    "RLike",
    "TextMatch",
    "all_of",
    "any_of",
    "bind",
    "columns_of",
    "evaluate",
    "from_arrow_expression",
    "like",
    "parse",
    "parse_among",
    "resolve",
]


class ArrowExpression(Protocol):
    """A `pyarrow.compute.Expression`, identified by its methods because pyarrow ships no types."""

    def is_valid(self) -> Any:
        """Return an expression that is true for non-null values."""

    def isin(self, values: Any) -> Any:
        """Return an expression that is true for listed values."""


Where: TypeAlias = str | Predicate | ArrowExpression
"""SQL text, a predicate tree, or a pyarrow.compute expression."""


def bound_predicate(
    where: Where | None, schema: pa.Schema, *, now_ms: int | None = None, zone: str = "UTC"
) -> Predicate | None:
    """Return the predicate typed by the schema, or None; `now_ms` is the clock of `ts > 'now-15m'`.

    Timestamps without a zone are in `zone`.
    """
    if where is None:
        return None
    if isinstance(where, str):
        return bind(_with_moments(parse(where), schema, now_ms, zone), schema)
    if isinstance(where, Predicate):
        return bind(_with_moments(where, schema, now_ms, zone), schema)
    if isinstance(where, pc.Expression):
        return bind(_with_moments(from_arrow_expression(where), schema, now_ms, zone), schema)
    raise InvalidInputError(
        f"A {type(where).__name__} is not a predicate.",
        hint="Give SQL text such as \"level = 'ERROR'\", or a pyarrow.compute expression.",
    )


def _with_moments(tree: Predicate, schema: pa.Schema, now_ms: int | None, zone: str) -> Predicate:
    """Return the tree with relative times and zoned times as timestamps where they are compared
    with timestamps.
    """
    if isinstance(tree, And | Or):
        return type(tree)(
            tuple(_with_moments(child, schema, now_ms, zone) for child in tree.children)
        )
    if isinstance(tree, Not):
        return Not(_with_moments(tree.child, schema, now_ms, zone))
    literals: tuple[Literal, ...]
    if isinstance(tree, Comparison):
        literals = (tree.literal,)
    elif isinstance(tree, In):
        literals = tree.literals
    else:
        literals = ()
    if zone == "UTC" and not any(map(_relative, literals)):
        return tree
    if isinstance(tree, Comparison):
        return replace(tree, literal=_moment(tree.literal, tree.column, schema, now_ms, zone))
    if isinstance(tree, In):
        return replace(
            tree,
            literals=tuple(_moment(v, tree.column, schema, now_ms, zone) for v in tree.literals),
        )
    return tree


def _relative(literal: Literal) -> bool:
    return isinstance(literal.value, str) and is_relative(literal.value)


def _moment(
    literal: Literal, column: Column, schema: pa.Schema, now_ms: int | None, zone: str
) -> Literal:
    kind = resolve(column, schema).type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        return literal
    value = literal.value
    if _relative(literal):
        if now_ms is None:
            message = f"{literal} is relative to the clock, which is not known here."
            raise InvalidInputError(
                message, hint="Write the moment itself.", column=column.dotted_path
            )
        value = parse_moment(value, timestamp_of(now_ms * 1_000, zone=True), zone)
    has_zone = pa.types.is_timestamp(kind) and getattr(kind, "tz", None) is not None
    if isinstance(value, str):
        if not has_zone:
            return literal  # taken as it is written: a zone that it names is passed over
        try:
            value = parse_moment(value)
        except ValueError:
            return literal  # refused in words where it is bound
    if not isinstance(value, dt.date):
        return literal
    if not isinstance(value, dt.datetime):
        value = dt.datetime.combine(value, dt.time())
    try:
        return Literal(from_zone(value, zone) if has_zone else to_zone(value, zone))
    except ValueError:
        message = f"The time zone {zone!r} of the condition is not known on this machine."
        hint = "Set condition.timeZone to a name such as Europe/Berlin or UTC; names need the package tzdata or the system's."
        raise InvalidInputError(message, hint=hint, column=column.dotted_path, zone=zone) from None


def partition_predicate(
    where: Where, schema: pa.Schema, partition_columns: list[str], *, zone: str = "UTC"
) -> Predicate:
    """Return a predicate over partition columns only; other columns are refused by name."""
    bound = bound_predicate(where, schema, zone=zone)
    if bound is not None:
        others = sorted(set(columns_of(bound)) - set(partition_columns))
    else:
        others = []
    if bound is None or others:
        names = ", ".join(partition_columns) or "none"
        raise InvalidInputError(
            f"{', '.join(others)} cannot be used here: only partition columns can.",
            hint=f"The partition columns are {names}.",
            columns=others,
        )
    return bound
