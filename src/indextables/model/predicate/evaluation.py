"""Evaluating a bound tree over Arrow data with SQL's three-valued logic, in Arrow kernels.

Spark's order throughout: NaN equals NaN and is greater than everything else, -0.0 equals 0.0, text and binary compare
by their bytes, decimals are exact, timestamps are microseconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import InvalidInputError
from indextables.model.predicate.like import like_expression
from indextables.model.predicate.tree import (
    And,
    Column,
    ColumnTest,
    Comparison,
    Constant,
    In,
    IsNotNull,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
    RLike,
    TextMatch,
)
from indextables.model.regular_expression import regular_expression
from indextables.model.schema import is_atomic

_KERNELS = {"=": "equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}
_TEXT_KERNELS = {"starts_with": "starts_with", "ends_with": "ends_with", "contains": "match_substring"}


def evaluate(bound: Predicate, batch: pa.Table | pa.RecordBatch) -> pa.BooleanArray:
    """TRUE, FALSE or NULL for every row. Rows for which a filter holds are those that are TRUE."""
    result = _evaluate(bound, batch)
    return result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result


def _evaluate(tree: Predicate, batch: pa.Table | pa.RecordBatch) -> Any:
    if isinstance(tree, And):
        return reduce(pc.and_kleene, [_evaluate(c, batch) for c in tree.children])
    if isinstance(tree, Or):
        return reduce(pc.or_kleene, [_evaluate(c, batch) for c in tree.children])
    if isinstance(tree, Not):
        return pc.invert(_evaluate(tree.child, batch))
    if isinstance(tree, Constant):
        return pa.repeat(pa.scalar(tree.value, pa.bool_()), batch.num_rows)
    assert isinstance(tree, ColumnTest)
    return outcome_of(tree, column_of(tree.column, batch))


def outcome_of(leaf: ColumnTest, values: Any) -> Any:
    """One test over the values of its column."""
    if isinstance(leaf, IsNull):
        return pc.is_null(values)
    if isinstance(leaf, IsNotNull):
        return pc.is_valid(values)
    if isinstance(leaf, Comparison):
        return compare(leaf.operator, values, leaf.literal.value, leaf.column.type)
    if isinstance(leaf, In):
        return _is_in(values, leaf.literals, leaf.column.type)
    if isinstance(leaf, TextMatch):
        return getattr(pc, _TEXT_KERNELS[leaf.kind])(values, leaf.text)
    if isinstance(leaf, RLike):
        return regular_expression(leaf.pattern).matching(values)
    return pc.match_substring_regex(values, like_expression(leaf.pattern))


def compare(operator: str, values: Any, value: Any, arrow: pa.DataType) -> Any:
    """A comparison of values with one value of the same type, by Spark's order."""
    if not pa.types.is_floating(arrow):
        return getattr(pc, _KERNELS[operator])(values, pa.scalar(value, arrow))
    nan = pc.is_nan(values)
    if not math.isnan(value):
        result = getattr(pc, _KERNELS[operator])(values, pa.scalar(value, arrow))
        return pc.or_(result, nan) if operator in (">", ">=") else result
    other = pc.invert(nan)
    return {"=": nan, ">=": nan, "<": other, "<=": pc.or_(nan, other), ">": pc.and_(nan, other)}[operator]


def _is_in(values: Any, literals: Sequence[Literal], arrow: pa.DataType) -> Any:
    members = [v.value for v in literals]
    if pa.types.is_floating(arrow):
        # The set is looked up by its bits: give every zero the same sign, and NaN its own test.
        values = pc.add(values, pa.scalar(0.0, arrow))
        numbers = [v for v in members if not math.isnan(v)]
        result = pc.is_in(values, pa.array(numbers, arrow))
        if len(numbers) < len(members):
            result = pc.or_(result, pc.is_nan(values))
    else:
        result = pc.is_in(values, pa.array(members, arrow))
    return pc.if_else(pc.is_valid(values), result, pa.scalar(None, pa.bool_()))


def column_of(column: Column, batch: pa.Table | pa.RecordBatch) -> Any:
    """The values of a bound column in the type it was bound to; a field of a NULL struct is NULL."""
    if column.type is None:
        raise InvalidInputError(f"Column {column.dotted!r} has no type yet.", hint="Bind the predicate to a schema.")
    index = batch.schema.get_field_index(column.name)
    if index < 0:
        raise InvalidInputError(
            f"The data has no column {column.name!r}.", hint=f"It has {', '.join(map(repr, batch.schema.names))}."
        )
    values = batch.column(index)
    if len(column.path) > 1:
        values = pc.struct_field(values, list(column.path[1:]))
    if values.type == column.type or not is_atomic(column.type):
        return values
    return pc.cast(values, column.type)
