"""Pruning: which files can hold a row for which a predicate is true, and which hold only such rows,
for a whole list.

Each part of the predicate has three masks over the files: whether some row can make it TRUE, FALSE
or NULL. The masks never claim too little, so a file is excluded only if no row can be TRUE, and
matches completely only if no row can be FALSE or NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.model.column_ranges import (
    ColumnRange,
    FileRanges,
    Mask,
    Ranges,
    can_fail,
    can_pass,
    consistent,
)
from indextables.model.predicate.tree import (
    And,
    Column,
    ColumnTest,
    Constant,
    IsNotNull,
    IsNull,
    Not,
    Or,
    Predicate,
    all_of,
    columns_of,
)
from indextables.model.values import NULL_PARTITION, decode_values, is_doubtful

PRUNING_COLUMNS = [
    "partition_values",
    "min_values",
    "max_values",
    "num_records",
    "deleted_records",
    "stats",
]
"""Columns of a file list that pruning uses."""

Bounds = tuple[str | None, str | None]


def may_match(
    bound: Predicate,
    files: pa.Table,
    *,
    partition_columns: Sequence[str] = (),
    statistics: bool = True,
) -> pa.BooleanArray:
    """Return which files must be read: FALSE only if no row can match. Without statistics only
    partition values count.
    """
    left = files.select(PRUNING_COLUMNS)
    exact, rest = _split(bound, frozenset(partition_columns))
    mask = _Possible(FileRanges(left, partition_columns), nulls=False).true(exact)
    if not statistics or isinstance(rest, Constant):
        return pa.array(mask)
    # The statistics of the files that are left cost less than those of all.
    rows = np.flatnonzero(mask)
    if len(rows) < len(mask):
        left = left.take(pa.array(rows))
    possible = _Possible(FileRanges(left, partition_columns), nulls=False).true(rest)
    return _mask(rows[possible], len(mask))


def ranges_may_match(bound: Predicate, ranges: Ranges) -> Mask:
    """Return which parts with known ranges can hold a matching row."""
    return _Possible(ranges, nulls=False).true(bound)


def all_match(
    bound: Predicate, files: pa.Table, *, partition_columns: Sequence[str] = ()
) -> pa.BooleanArray:
    """Return which files match with every row; FALSE if uncertain."""
    candidates = may_match(bound, files, partition_columns=partition_columns)
    left = files.select(PRUNING_COLUMNS)
    if candidates.false_count:
        left = left.filter(candidates)
    possible = _Possible(FileRanges(left, partition_columns), nulls=True)
    certain = ~(possible.false(bound) | possible.null(bound))
    return _mask(np.flatnonzero(candidates)[certain], files.num_rows)


def _split(bound: Predicate, partition_columns: frozenset[str]) -> tuple[Predicate, Predicate]:
    """Split a predicate into a conjunct over partition columns only, and the rest."""
    parts = bound.children if isinstance(bound, And) else (bound,)
    exact = [part for part in parts if partition_columns.issuperset(columns_of(part))]
    return all_of(exact), all_of(part for part in parts if part not in exact)


def _mask(rows: npt.NDArray[np.int64], count: int) -> pa.BooleanArray:
    mask = np.zeros(count, np.bool_)
    mask[rows] = True
    return pa.array(mask)


def manifests_may_match(
    bound: Predicate, bounds: Mapping[str, Sequence[Bounds]], *, count: int, typed: bool = True
) -> pa.BooleanArray:
    """Return which manifests can list a file that may match, by the bounds of partition columns.

    `bounds` holds one (min, max) per manifest and column; other columns are unknown. `typed` means
    that bounds were computed by comparing values of the column's type. Bounds in text or
    number-like order are used only where every order agrees with the type's.
    """
    if NULL_PARTITION in str(bound):
        # Earlier releases took this text for null and left it out of the bounds.
        return pa.array(np.ones(count, np.bool_))
    return pa.array(_Possible(_ManifestRanges(bounds, count, typed), nulls=False).true(bound))


class _ManifestRanges:
    """The ranges of partition columns over manifests. A manifest can always list files without a
    value.
    """

    def __init__(self, bounds: Mapping[str, Sequence[Bounds]], count: int, typed: bool) -> None:
        self.count = count
        self._bounds = bounds
        self._typed = typed

    def range_of(self, column: Column, *, nulls: bool) -> ColumnRange:  # noqa: ARG002
        nothing = ColumnRange.unknown(column, self.count)
        if len(column.path) == 1:
            pairs = self._bounds.get(column.name)
        else:
            pairs = None
        if pairs is None:
            return nothing
        if not self._typed:
            pairs = [_certain_bounds(pair, column.type) for pair in pairs]
        low = decode_values(pa.array([low for low, _ in pairs], pa.string()), column.type)
        high = decode_values(pa.array([high for _, high in pairs], pa.string()), column.type)
        return ColumnRange(*consistent(low, high), nothing.can_value, nothing.can_null)


def _certain_bounds(pair: Bounds, arrow: pa.DataType) -> Bounds:
    """Return what bounds imply in both text order and number-like order."""
    low, high = pair
    if low is None or high is None:
        return None, None
    if pa.types.is_string(arrow):
        # Such writers escape values, and compare them escaped: only where all are one is it the one
        # that is meant. Empty texts may have been left out of the bounds.
        return None, high if low == high and not is_doubtful(high) else None
    agrees = pa.types.is_date(arrow) or (low == high and not pa.types.is_floating(arrow))
    if agrees:
        return pair
    return (None, None)


class _Possible:
    """Whether some row can make a bound tree TRUE, FALSE or NULL. `nulls` requests where NULLs
    occur.
    """

    def __init__(self, ranges: Ranges, *, nulls: bool) -> None:
        self._ranges = ranges
        self._nulls = nulls
        self._by_column: dict[tuple[tuple[str, ...], bool], ColumnRange] = {}

    def true(self, tree: Predicate) -> Mask:
        """Return where TRUE is possible."""
        return self._decide(tree, True)

    def false(self, tree: Predicate) -> Mask:
        """Return where FALSE is possible."""
        return self._decide(tree, False)

    def null(self, tree: Predicate) -> Mask:
        """Return where NULL is possible: some part is NULL and no other part decides."""
        if isinstance(tree, And | Or):
            decides = not isinstance(tree, And)
            nulls = [self.null(c) for c in tree.children]
            open_ = [
                n | self._decide(c, not decides) for n, c in zip(nulls, tree.children, strict=True)
            ]
            return _any(nulls) & _every(open_)
        if isinstance(tree, Not):
            return self.null(tree.child)
        if isinstance(tree, Constant):
            return self._everywhere(tree.value is None)
        if isinstance(tree, IsNull | IsNotNull):
            return self._everywhere(False)
        assert isinstance(tree, ColumnTest)
        return self._range(tree.column, nulls=self._nulls).can_null

    def _decide(self, tree: Predicate, outcome: bool) -> Mask:
        if isinstance(tree, And | Or):
            join = _every if isinstance(tree, And) is outcome else _any
            return join([self._decide(c, outcome) for c in tree.children])
        if isinstance(tree, Not):
            return self._decide(tree.child, not outcome)
        if isinstance(tree, Constant):
            return self._everywhere(tree.value is outcome)
        if isinstance(tree, IsNull | IsNotNull):
            column_range = self._range(tree.column, nulls=True)
            if isinstance(tree, IsNull) is outcome:
                return column_range.can_null
            return column_range.can_value
        assert isinstance(tree, ColumnTest)
        column_range = self._range(tree.column, nulls=self._nulls)
        return (
            can_pass(tree, column_range) if outcome else can_fail(tree, column_range)
        ) & column_range.can_value

    def _everywhere(self, holds: bool) -> Mask:
        return np.full(self._ranges.count, holds)

    def _range(self, column: Column, *, nulls: bool) -> ColumnRange:
        key = (column.path, nulls)
        if key not in self._by_column:
            self._by_column[key] = self._ranges.range_of(column, nulls=nulls)
        return self._by_column[key]


def _every(masks: Sequence[Mask]) -> Mask:
    return reduce(np.logical_and, masks)


def _any(masks: Sequence[Mask]) -> Mask:
    return reduce(np.logical_or, masks)
