"""Which row groups can hold a row for which a predicate is true, from the bounds in the Parquet footer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from indextables.model.column_ranges import ColumnRange
from indextables.model.predicate import Predicate
from indextables.model.predicate.tree import Column
from indextables.model.pruning import ranges_may_match
from indextables.splits.searchable import Mask
from indextables.splits.tail import SplitTail


def rows_that_may_match(tail: SplitTail, bound: Predicate) -> Mask:
    """FALSE for the rows of row groups in which no row can match."""
    groups = ranges_may_match(bound, GroupRanges(tail))
    return np.repeat(groups, np.diff(tail.group_starts))


class GroupRanges:
    """The ranges of columns over the row groups of a split. Floating point columns have none: NaN has no place there."""

    def __init__(self, tail: SplitTail) -> None:
        self.count = int(tail.metadata.num_row_groups)
        self._tail = tail
        self._places = tail.leaves

    def range_of(self, column: Column, *, nulls: bool = False) -> ColumnRange:  # noqa: ARG002
        nothing = ColumnRange.unknown(column, self.count)
        places = self._places.get(column.name, ())
        if len(column.path) > 1 or len(places) != 1 or pa.types.is_nested(self._tail.schema.field(column.name).type):
            return nothing
        found = [self._statistics(group, places[0]) for group in range(self.count)]
        sizes = np.diff(self._tail.group_starts)
        null_counts = np.array([-1 if s is None or not s.has_null_count else s.null_count for s in found])
        low = [_bound(s, "min") for s in found]
        high = [_bound(s, "max") for s in found]
        try:
            bounds = pa.array(low, column.type), pa.array(high, column.type)
        except (pa.ArrowException, OverflowError):
            return nothing
        return ColumnRange(*bounds, null_counts != sizes, null_counts != 0)

    def _statistics(self, group: int, leaf: int) -> pq.Statistics | None:
        return self._tail.metadata.row_group(group).column(leaf).statistics


def _bound(statistics: pq.Statistics | None, which: str) -> Any:
    return getattr(statistics, which) if statistics is not None and statistics.has_min_max else None
