"""Leaves about values rather than words, as typed predicates: answered by Parquet statistics and Arrow."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from indextables.model.predicate import (
    And,
    Column,
    Comparison,
    Constant,
    In,
    IsNotNull,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
    all_of,
    bind,
    evaluate,
)
from indextables.model.predicate.tree import ColumnTest
from indextables.splits.index_values import plain_texts
from indextables.splits.mapping import is_text
from indextables.splits.query.tree import Equals, Exists, Leaf, OneOf, Range
from indextables.splits.searchable import Mask


def to_predicate(leaf: Leaf) -> Predicate | None:
    """The predicate a leaf says, if it is about whole values of a column."""
    column = Column((leaf.target.column,))
    if leaf.target.path:
        return None
    if isinstance(leaf, Exists):
        return IsNotNull(column)
    if isinstance(leaf, Equals):
        return Comparison("=", column, Literal(leaf.value))
    if isinstance(leaf, OneOf):
        values = [item.value for item in leaf.items if isinstance(item, Equals)]
        return In(column, tuple(Literal(v) for v in values)) if len(values) == len(leaf.items) else None
    if not isinstance(leaf, Range):
        return None
    bounds = []
    if leaf.lower is not None:
        bounds.append(Comparison(">=" if leaf.include_lower else ">", column, Literal(leaf.lower)))
    if leaf.upper is not None:
        bounds.append(Comparison("<=" if leaf.include_upper else "<", column, Literal(leaf.upper)))
    return all_of(bounds)


def typed_mask(leaf: Leaf, table: pa.Table) -> Mask:
    """The rows for which a leaf's predicate is true; a null never is."""
    predicate = to_predicate(leaf)
    if predicate is None:
        raise TypeError(f"{leaf} is not about whole values")
    name = leaf.target.column
    array = table.column(name)
    values = plain_texts(array) if is_text(array.type) else array
    alone = pa.table({name: values})
    return predicate_mask(bind(predicate, alone.schema), alone)


def without_columns(bound: Predicate, present: Iterable[str]) -> Predicate:
    """A bound predicate where columns outside `present` hold nothing but nulls."""
    names = set(present)
    if isinstance(bound, And):
        return And(tuple(without_columns(below, names) for below in bound.children))
    if isinstance(bound, Or):
        return Or(tuple(without_columns(below, names) for below in bound.children))
    if isinstance(bound, Not):
        return Not(without_columns(bound.child, names))
    if not isinstance(bound, ColumnTest) or bound.column.name in names:
        return bound
    return Constant(True if isinstance(bound, IsNull) else False if isinstance(bound, IsNotNull) else None)


def predicate_mask(bound: Predicate, table: pa.Table) -> Mask:
    """The rows of a table for which a bound predicate is true."""
    if table.num_rows == 0:
        return np.zeros(0, np.bool_)
    found: Mask = evaluate(bound, table).fill_null(False).to_numpy(zero_copy_only=False)
    return found
