"""One test against a range: can some value between the bounds pass it, can some value fail it? For all files at once.

What is not known is possible: where a bound is absent, both answers are yes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indextables.model.column_ranges import ColumnRange
from indextables.model.file_values import Mask
from indextables.model.predicate.evaluation import compare, outcome_of
from indextables.model.predicate.like import literal_prefix
from indextables.model.predicate.tree import ColumnTest, Comparison, In, Like, Literal, TextMatch
from indextables.model.stat_text import successor

_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def can_pass(test: ColumnTest, known: ColumnRange) -> Mask:
    """Where some value within the range passes."""
    if isinstance(test, Comparison):
        return _can_compare(test.operator, test, known)
    if isinstance(test, In):
        return _can_be_listed(test, known)
    if isinstance(test, TextMatch) and test.kind == "starts_with":
        return _can_begin(test.text, known)
    found = _possible(_of_single_values(known, outcome_of(test, known.low)))
    return found & _can_begin(literal_prefix(test.pattern), known) if isinstance(test, Like) else found


def can_fail(test: ColumnTest, known: ColumnRange) -> Mask:
    """Where some value within the range does not pass."""
    if isinstance(test, Comparison):
        if test.operator != "=":
            return _can_compare(_OPPOSITE[test.operator], test, known)
        value, arrow = test.literal.value, test.column.type
        others = (pc.invert(compare("=", end, value, arrow)) for end in (known.low, known.high))
        return np.logical_or(*(_possible(other) for other in others))
    if isinstance(test, TextMatch) and test.kind == "starts_with":
        return _can_begin_otherwise(test.text, known)
    return _possible(_of_single_values(known, pc.invert(outcome_of(test, known.low))))


def _can_compare(operator: str, test: Comparison, known: ColumnRange) -> Mask:
    value, arrow = test.literal.value, test.column.type
    if operator == "=":
        return _possible(compare("<=", known.low, value, arrow)) & _possible(compare(">=", known.high, value, arrow))
    end = known.low if operator in ("<", "<=") else known.high
    return _possible(compare(operator, end, value, arrow))


def _can_be_listed(test: In, known: ColumnRange) -> Mask:
    """Where at least one listed value lies within the range: fewer of them lie below it than up to its end."""
    values = np.sort(_orderable(pa.array([v.value for v in test.literals], test.column.type)))
    found = np.ones(len(known.low), np.bool_)
    if values.dtype == object:
        # Objects are slow to search: first leave out what the least and the greatest of them rule out.
        outside = {"<=": values[-1], ">=": values[0]}
        for operator, end in outside.items():
            found &= _can_compare(operator, Comparison(operator, test.column, Literal(end)), known)
    rows = pa.array(np.flatnonzero(found))
    below = _count(values, known.low.take(rows), "left", 0)
    up_to = _count(values, known.high.take(rows), "right", len(values))
    found[found] = up_to > below
    return found


def _count(values: npt.NDArray[Any], ends: pa.Array, side: Any, unknown: int) -> npt.NDArray[np.int64]:
    """How many of the sorted values lie below each end (`left`), or up to and with it (`right`)."""
    counts = np.full(len(ends), unknown, np.int64)
    given = pc.is_valid(ends).to_numpy(zero_copy_only=False)
    counts[given] = np.searchsorted(values, _orderable(ends.drop_null()), side)
    return counts


def _orderable(values: pa.Array) -> npt.NDArray[Any]:
    """Values without NULLs as numpy orders them: numbers as such, times as numbers, the rest as Python objects."""
    arrow = values.type
    if pa.types.is_date(arrow):
        return np.asarray(values.cast(pa.int32()))
    if pa.types.is_timestamp(arrow):
        return np.asarray(values.cast(pa.int64()))
    if pa.types.is_integer(arrow) or pa.types.is_floating(arrow):
        return np.asarray(values)
    objects = np.empty(len(values), object)
    objects[:] = values.to_pylist()
    return objects


def _can_begin(prefix: str, known: ColumnRange) -> Mask:
    """The texts with a prefix are those from the prefix itself up to, not including, its successor."""
    arrow, beyond = known.low.type, successor(prefix)
    found = _possible(compare(">=", known.high, prefix, arrow))
    return found if beyond is None else found & _possible(compare("<", known.low, beyond, arrow))


def _can_begin_otherwise(prefix: str, known: ColumnRange) -> Mask:
    arrow, beyond = known.low.type, successor(prefix)
    found = _possible(compare("<", known.low, prefix, arrow))
    return found if beyond is None else found | _possible(compare(">=", known.high, beyond, arrow))


def _of_single_values(known: ColumnRange, outcome: pa.Array) -> pa.Array:
    """The outcome where both bounds are the same value, hence the only one; elsewhere nothing is known."""
    return pc.if_else(pc.equal(known.low, known.high), outcome, pa.scalar(None, pa.bool_()))


def _possible(outcome: pa.Array) -> Mask:
    mask: Mask = pc.fill_null(outcome, True).to_numpy(zero_copy_only=False)
    return mask
