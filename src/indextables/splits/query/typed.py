"""Leaves about values rather than words, as typed predicates: answered by Parquet statistics and Arrow."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.model.predicate import (
    Column,
    Comparison,
    In,
    IsNotNull,
    Literal,
    Predicate,
    all_of,
    bind,
    evaluate,
)
from indextables.splits.index_values import plain_texts
from indextables.splits.mapping import is_text
from indextables.splits.query.tree import Equals, Exists, Leaf, OneOf, Range


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


def typed_mask(leaf: Leaf, table: pa.Table) -> npt.NDArray[np.bool_]:
    """The rows for which a leaf's predicate is true; a null never is."""
    predicate = to_predicate(leaf)
    if predicate is None:
        raise TypeError(f"{leaf} is not about whole values")
    name = leaf.target.column
    array = table.column(name)
    values = plain_texts(array) if is_text(array.type) else array
    return predicate_mask(predicate, pa.table({name: values}))


def predicate_mask(predicate: Predicate, table: pa.Table) -> npt.NDArray[np.bool_]:
    """The rows of a table for which a predicate is true."""
    outcome = evaluate(bind(predicate, table.schema), table)
    return outcome.fill_null(False).to_numpy(zero_copy_only=False)
