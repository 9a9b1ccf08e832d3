"""Convert queries to typed predicates, which Parquet statistics and Arrow evaluate.

The implied predicate of a query is true for every row that matches. Splits and row groups whose
bounds exclude it need not be opened. It never excludes a matching row.
"""

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
    TextMatch,
    all_of,
    any_of,
    bind,
    evaluate,
)
from indextables.model.predicate.tree import ColumnTest
from indextables.splits.index.mapping import DocMapping, is_text
from indextables.splits.index.values import plain_texts
from indextables.splits.query.terms import parse_pattern
from indextables.splits.query.tree import (
    AllRows,
    Bool,
    Boost,
    Equals,
    Exists,
    Leaf,
    OneOf,
    Query,
    Range,
    Wildcard,
    Words,
)
from indextables.splits.read.searchable import Mask


def to_predicate(leaf: Leaf) -> Predicate | None:
    """Return the predicate of a leaf if it is about whole values of a column."""
    column = Column((leaf.target.column,))
    if leaf.target.path:
        return None
    if isinstance(leaf, Exists):
        return IsNotNull(column)
    if isinstance(leaf, Equals):
        return Comparison("=", column, Literal(leaf.value))
    if isinstance(leaf, OneOf):
        values = [item.value for item in leaf.items if isinstance(item, Equals)]
        if len(values) == len(leaf.items):
            return In(column, tuple(Literal(v) for v in values))
        return None
    if not isinstance(leaf, Range):
        return None
    bounds = []
    if leaf.lower is not None:
        bounds.append(Comparison(">=" if leaf.include_lower else ">", column, Literal(leaf.lower)))
    if leaf.upper is not None:
        bounds.append(Comparison("<=" if leaf.include_upper else "<", column, Literal(leaf.upper)))
    return all_of(bounds)


def typed_mask(leaf: Leaf, table: pa.Table) -> Mask:
    """Return the rows for which a leaf's predicate is true; never for null."""
    predicate = to_predicate(leaf)
    if predicate is None:
        raise TypeError(f"{leaf} is not about whole values")
    name = leaf.target.column
    array = table.column(name)
    values = plain_texts(array) if is_text(array.type) else array
    alone = pa.table({name: values})
    return predicate_mask(bind(predicate, alone.schema), alone)


def without_columns(bound: Predicate, present: Iterable[str]) -> Predicate:
    """Return a bound predicate in which columns outside `present` are null."""
    names = set(present)
    if isinstance(bound, And):
        return And(tuple(without_columns(below, names) for below in bound.children))
    if isinstance(bound, Or):
        return Or(tuple(without_columns(below, names) for below in bound.children))
    if isinstance(bound, Not):
        return Not(without_columns(bound.child, names))
    if not isinstance(bound, ColumnTest) or bound.column.name in names:
        return bound
    return Constant(
        True if isinstance(bound, IsNull) else False if isinstance(bound, IsNotNull) else None
    )


def predicate_mask(bound: Predicate, table: pa.Table) -> Mask:
    """Return the rows of a table for which a bound predicate is true."""
    if table.num_rows == 0:
        return np.zeros(0, np.bool_)
    mask: Mask = evaluate(bound, table).fill_null(False).to_numpy(zero_copy_only=False)
    return mask


def implied_predicate(query: Query, mapping: DocMapping) -> Predicate | None:
    """Return the unbound predicate that matching rows fulfil, or None.

    Negations imply nothing: a row with null matches `-n:5`, and no comparison is true for it.
    """
    if isinstance(query, Boost):
        return implied_predicate(query.query, mapping)
    if isinstance(query, Bool):
        if query.must:
            return _implied_by_all(query, mapping)
        return _implied_by_any(query, mapping)
    if isinstance(query, AllRows):
        return None
    return _implied_by_leaf(query, mapping)


def _implied_by_all(query: Bool, mapping: DocMapping) -> Predicate | None:
    predicates = [p for below in query.must if (p := implied_predicate(below, mapping)) is not None]
    if predicates:
        return all_of(predicates)
    return None


def _implied_by_any(query: Bool, mapping: DocMapping) -> Predicate | None:
    implied = [implied_predicate(below, mapping) for below in query.should]
    predicates = [p for p in implied if p is not None]
    if predicates and len(predicates) == len(implied):
        return any_of(predicates)
    return None


def _implied_by_leaf(leaf: Leaf, mapping: DocMapping) -> Predicate | None:
    column, indexing = Column((leaf.target.column,)), mapping.find(leaf.target.column)
    kind = "none" if indexing is None else indexing.kind
    if kind == "none" or (isinstance(leaf, Exists | Range) and kind in ("string", "text")):
        return to_predicate(leaf)
    if kind != "string" or indexing is None or indexing.tokenizer != "raw":
        return None
    if isinstance(leaf, Words):
        return Comparison("=", column, Literal(leaf.text))
    if isinstance(leaf, OneOf):
        return In(
            column, tuple(Literal(item.text) for item in leaf.items if isinstance(item, Words))
        )
    if isinstance(leaf, Wildcard):
        first = parse_pattern(leaf.pattern)[0]
        if isinstance(first, str):
            return TextMatch("starts_with", column, first)
        return None
    return None
