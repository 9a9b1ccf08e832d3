"""Which rows of a split can hold a value, from the bounds that Parquet keeps: of every 8,192 rows, or of every row group.

The parts are runs of rows. A split with a page table has parts of one page of most columns; a column whose pages lie
otherwise (long texts without a dictionary) has the bounds of its row groups, and so have the types that are not decoded here.
Floating point columns have no bounds: NaN has no place there.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from indextables.model.column_ranges import ColumnRange
from indextables.model.predicate.tree import Column
from indextables.splits.format.footer import SplitFooter
from indextables.splits.format.pages import PageBounds, page_bounds
from indextables.splits.format.parquet import PAGE_ROWS

Rows = npt.NDArray[np.int64]


class RowBounds:
    """The ranges of columns over the parts of a split."""

    def __init__(self, tail: SplitFooter) -> None:
        self.starts: Rows = _parts(tail)
        """The first row of every part, and the number of rows at the end."""
        self.count = len(self.starts) - 1
        self._tail = tail
        self._known: dict[Column, ColumnRange] = {}

    def range_of(self, column: Column, *, nulls: bool = False) -> ColumnRange:  # noqa: ARG002
        if column not in self._known:
            self._known[column] = self._range(column)
        return self._known[column]

    def _range(self, column: Column) -> ColumnRange:
        places = self._tail.leaves.get(column.name, ())
        if len(column.path) > 1 or len(places) != 1 or pa.types.is_nested(self._tail.schema.field(column.name).type):
            return ColumnRange.unknown(column, self.count)
        return self._of_pages(column, places[0]) or self._of_groups(column, places[0])

    def _of_groups(self, column: Column, leaf: int) -> ColumnRange:
        metadata = self._tail.metadata
        found = [metadata.row_group(group).column(leaf).statistics for group in range(metadata.num_row_groups)]
        null_counts = np.array([-1 if s is None or not s.has_null_count else s.null_count for s in found])
        sizes = np.diff(self._tail.group_starts)
        try:
            low = pa.array([_bound(s, "min") for s in found], column.type)
            high = pa.array([_bound(s, "max") for s in found], column.type)
        except (pa.ArrowException, OverflowError):
            return ColumnRange.unknown(column, self.count)
        group = np.searchsorted(self._tail.group_starts, self.starts[:-1], side="right") - 1
        at = pa.array(group)
        return ColumnRange(low.take(at), high.take(at), (null_counts != sizes)[group], (null_counts != 0)[group])

    def _of_pages(self, column: Column, leaf: int) -> ColumnRange | None:
        """The bounds of the column's pages, if each part is one page of it."""
        table = self._tail.pages
        if table is None or self.count == self._tail.metadata.num_row_groups:
            return None  # row groups of one page say the same, and are decoded already
        if column.type != self._tail.schema.field(column.name).type:
            return None
        if not np.array_equal(table.column(leaf).starts, self.starts):
            return None
        try:
            groups = page_bounds(self._tail.parquet_footer, leaf, self._tail.data, self._tail.footer_start)
            return _joined(groups, column.type, self.count)
        except (IndexError, KeyError, TypeError, ValueError, struct.error, pa.ArrowException):
            return None


def _parts(tail: SplitFooter) -> Rows:
    starts = tail.group_starts
    if tail.pages is None or not len(starts) > 1:
        return starts
    pieces = [np.arange(low, high, PAGE_ROWS) for low, high in pairwise(starts)]
    return np.concatenate([*pieces, starts[-1:]])


def _joined(groups: list[PageBounds | None], kind: pa.DataType, count: int) -> ColumnRange | None:
    """The bounds of all row groups one after another; None if they are not those of so many pages."""
    bounds = [group for group in groups if group is not None]
    if len(bounds) != len(groups) or any(group.nulls is None for group in bounds):
        return None
    only_nulls = np.array([flag for group in bounds for flag in group.only_nulls], np.bool_)
    nulls = np.array([n for group in bounds for n in group.nulls or []], np.int64)
    low = _values([value for group in bounds for value in group.low], only_nulls, kind)
    high = _values([value for group in bounds for value in group.high], only_nulls, kind)
    if low is None or high is None or not len(low) == len(high) == len(nulls) == len(only_nulls) == count:
        return None
    return ColumnRange(low, high, ~only_nulls, nulls != 0)


def _values(raw: list[bytes], absent: npt.NDArray[np.bool_], kind: pa.DataType) -> pa.Array | None:
    """Bounds as Parquet writes them, in the type of their column; None for a type that is not decoded here."""
    if len(raw) != len(absent):
        return None
    if pa.types.is_string(kind):
        return pa.array([None if no else value.decode() for value, no in zip(raw, absent, strict=True)], kind)
    wide = pa.types.is_int64(kind) or (pa.types.is_timestamp(kind) and kind.unit != "s")
    if not wide and not (pa.types.is_signed_integer(kind) or pa.types.is_date32(kind)):
        return None
    zero = bytes(8 if wide else 4)
    data = b"".join(zero if no else value for value, no in zip(raw, absent, strict=True))
    plain = pa.array(np.frombuffer(data, "<i8" if wide else "<i4"), mask=absent)
    return plain.cast(kind) if pa.types.is_integer(kind) else plain.view(kind)


def _bound(statistics: pq.Statistics | None, which: str) -> Any:
    return getattr(statistics, which) if statistics is not None and statistics.has_min_max else None
