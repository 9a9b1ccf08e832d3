"""Searching a table: every split is asked, words weigh the same in all of them, and the best come first.

With a limit the hits of all splits are found first, and rows are read of the winners only. Ordered by a column, splits
that cannot hold a winner are not even asked.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from indextables.scan.task import ScanTask
from indextables.splits.read.table_split import SplitEntry
from indextables.splits.search.scores import Hits, TermStatistics, term_statistics, total, weighs_values
from indextables.splits.search.search import (
    SearchRequest,
    best_first,
    best_of,
    can_compete,
    find_hits,
    merge_results,
    read_best,
    read_hits,
    search_split,
)

_FIRST_WAVE = 2


def search_table(task: ScanTask, request: SearchRequest) -> pa.Table:
    """The result of a search over the splits of a task."""
    request.check(task.schema)
    splits, numbers = task.plan.splits, range(len(task.plan.splits))
    own = _split_statistics(task, request)
    table = total(own) if own and len(splits) > 1 else None  # of one split, its own statistics are the table's

    def find(at: int) -> Hits:
        return find_hits(task.open(splits[at]), _asked(splits[at], request), table, own[at] if own else None)

    if request.limit is None:
        parts = task.in_order(lambda at: read_hits(task.open(splits[at]), find(at), request), numbers, rows=True)
        return merge_results(list(parts), request, task.schema)
    hits = list(task.in_order(find, numbers)) if request.order_by is None else _first_hits(task, request, find)
    return read_best(lambda at: task.open(splits[at]), hits, request, task.schema, each=task.in_order)


def word_statistics(task: ScanTask, request: SearchRequest) -> TermStatistics:
    """How rare the words of the query are in the splits of a task; those of several tasks add up."""
    return total(task.each(lambda entry: term_statistics(task.open(entry), request.query)))


def search_one(
    task: ScanTask, entry: SplitEntry, request: SearchRequest, statistics: TermStatistics | None
) -> pa.Table:
    """What one split contributes."""
    return search_split(task.open(entry), _asked(entry, request), statistics)


def _asked(entry: SplitEntry, request: SearchRequest) -> SearchRequest:
    return replace(request, where=None) if entry.certain and request.where is not None else request


def _split_statistics(task: ScanTask, request: SearchRequest) -> list[TermStatistics]:
    """The statistics of each split, where scores depend on them."""
    splits = task.plan.splits
    if not request.scores or (len(splits) == 1 and not weighs_values(task.open(splits[0]), request.query)):
        return []
    return list(task.each(lambda entry: term_statistics(task.open(entry), request.query, ahead=True)))


def _first_hits(task: ScanTask, request: SearchRequest, find: Callable[[int], Hits]) -> list[Hits]:
    """The hits of each split for a request that orders by a column: the best splits first, while others can compete."""
    order, bounds = request.order_by, task.plan.order_bounds
    count, most = request.wanted, len(task.plan.splits)
    if order is None or bounds is None or not count or most < 2:
        return list(task.in_order(find, range(most)))
    hits = [Hits(np.empty(0, np.int64), np.empty(0, np.float32))] * most
    left, wave = best_first(bounds, order).tolist(), _FIRST_WAVE
    while left:
        now, left = left[:wave], left[wave:]
        for at, found in zip(now, task.in_order(find, now), strict=True):
            hits[at] = found
        number, place = best_of(hits, replace(request, limit=count, offset=0))
        if len(number) == count:
            values = hits[number[-1]].values
            assert values is not None
            possible = can_compete(bounds, order, values[int(place[-1])])
            left = [at for at in left if possible[at]]
        wave *= 2
    return hits
