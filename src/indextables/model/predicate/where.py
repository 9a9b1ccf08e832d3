"""Predicates as callers write them: SQL text, a tree, or an Arrow expression; bound to the table's schema."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import InvalidInputError
from indextables.model.predicate.arrow_expression import from_arrow_expression
from indextables.model.predicate.binding import bind
from indextables.model.predicate.parser import parse
from indextables.model.predicate.tree import Predicate, columns_of


class ArrowExpression(Protocol):
    """A `pyarrow.compute.Expression`, by methods that it alone has: pyarrow ships no types."""

    def is_valid(self) -> Any:
        """Whether the value is there."""

    def isin(self, values: Any) -> Any:
        """Whether the value is one of some."""


Where: TypeAlias = str | Predicate | ArrowExpression
"""SQL text, a predicate tree, or a pyarrow.compute expression."""


def bound_predicate(where: Where | None, schema: pa.Schema) -> Predicate | None:
    """The predicate typed by the schema, or None if there is none."""
    if where is None:
        return None
    if isinstance(where, str):
        return bind(parse(where), schema)
    if isinstance(where, Predicate):
        return bind(where, schema)
    if isinstance(where, pc.Expression):
        return bind(from_arrow_expression(where), schema)
    raise InvalidInputError(
        f"A {type(where).__name__} is not a predicate.",
        hint="Give SQL text such as \"level = 'ERROR'\", or a pyarrow.compute expression.",
    )


def partition_predicate(where: Where, schema: pa.Schema, partition_columns: list[str]) -> Predicate:
    """A predicate over partition columns only; any other column is refused by name."""
    bound = bound_predicate(where, schema)
    others = sorted(set(columns_of(bound)) - set(partition_columns)) if bound is not None else []
    if bound is None or others:
        names = ", ".join(partition_columns) or "none"
        raise InvalidInputError(
            f"{', '.join(others)} cannot be used here: only partition columns can.",
            hint=f"The partition columns are {names}.",
            columns=others,
        )
    return bound
