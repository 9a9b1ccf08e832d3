"""Searching a table: every split is asked, words weigh the same in all of them, and the best come first.

search = TableSearch.of(plan, limit=10)            checked; holds the plan that finds its rows
search = search.weighed(task)                      how rare its words are in the table: each split is asked once
search.with_splits(some).tables(task)              a part of it, anywhere

With a limit the hits of all splits are found first, and rows are read of the winners only. Ordered by a column, splits
that cannot hold a winner are not even asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables.metrics import METRICS
from indextables.scan.plan import ScanPlan
from indextables.scan.task import ScanTask
from indextables.splits.read.table_split import SplitEntry
from indextables.splits.search.scores import Hits, TermStatistics, term_statistics, total, weighs_values
from indextables.splits.search.search import (
    OrderBy,
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
from indextables.splits.search.snippets import Snippet
from indextables.storage.store import Store

_FIRST_WAVE = 2


class TableSearch(Struct, frozen=True):
    """A search, and the scan that it was planned as. It travels by pickle."""

    plan: ScanPlan
    request: SearchRequest
    statistics: TermStatistics | None = None
    """How rare its words are in the whole table."""
    split_statistics: Mapping[str, TermStatistics] = {}
    """The same of each split alone, by its path."""

    @classmethod
    def of(
        cls,
        plan: ScanPlan,
        *,
        limit: int | None = None,
        offset: int = 0,
        score: bool = False,
        snippet: Snippet | None = None,
        order_by: OrderBy | None = None,
    ) -> TableSearch:
        """The search for what a plan with a query finds; what the table cannot answer is an error."""
        assert plan.query is not None
        names = plan.names
        if not names.same:
            snippet = None if snippet is None else replace(snippet, column=names.column(snippet.column))
            order_by = None if order_by is None else replace(order_by, column=names.column(order_by.column))
        request = SearchRequest(
            plan.query,
            plan.columns,
            where=plan.where,
            limit=limit,
            offset=offset,
            score=score,
            snippet=snippet,
            order_by=order_by,
        )
        request.check(plan.schema)
        return cls(plan, request)

    def weighed(self, task: ScanTask) -> TableSearch:
        """The search with the statistics of its words, where scores depend on them. Of one split, its own are the table's."""
        request, splits = self.request, self.plan.splits
        alone = len(splits) == 1
        if not request.scores or (alone and not weighs_values(task.open(splits[0]), request.query)):
            return self
        counts = task.each(lambda entry: term_statistics(task.open(entry), request.query, ahead=True))
        by_path = {entry.path: statistics for entry, statistics in zip(splits, counts, strict=True)}
        return replace(self, statistics=None if alone else total(by_path.values()), split_statistics=by_path)

    def with_splits(self, splits: Sequence[SplitEntry]) -> TableSearch:
        """The same search over some of its splits."""
        paths = {entry.path for entry in splits}
        by_path = {path: counts for path, counts in self.split_statistics.items() if path in paths}
        return replace(self, plan=self.plan.with_splits(splits), split_statistics=by_path)

    def tables(self, task: ScanTask) -> Iterator[pa.Table]:
        """What each split contributes."""
        parts = task.each(
            lambda entry: search_split(
                task.open(entry), self._request(entry), self.statistics, self.split_statistics.get(entry.path)
            )
        )
        return map(self.plan.names.to_logical, parts)

    def merged(self, task: ScanTask) -> pa.Table:
        """What all splits contribute, in order, from the offset to the limit."""
        return self.plan.names.to_logical(self._merged(task))

    def _merged(self, task: ScanTask) -> pa.Table:
        request, splits = self.request, self.plan.splits
        numbers = range(len(splits))

        def find(number: int) -> Hits:
            entry = splits[number]
            own = self.split_statistics.get(entry.path)
            return find_hits(task.open(entry), self._request(entry), self.statistics, own)

        if request.limit is None:
            parts = task.in_order(lambda n: read_hits(task.open(splits[n]), find(n), request), numbers, rows=True)
            return merge_results(list(parts), request, task.schema)
        hits = list(task.in_order(find, numbers)) if request.order_by is None else self._first_hits(task, find)
        return read_best(lambda n: task.open(splits[n]), hits, request, task.schema, each=task.in_order)

    def run(self, store: Store | None = None) -> pa.Table:
        """The result of the search, found in this process."""
        task = ScanTask(self.plan, store)
        hits = self.weighed(task).merged(task)
        METRICS.count("rows_read_total", by=hits.num_rows)
        return hits

    def _request(self, entry: SplitEntry) -> SearchRequest:
        """What is asked of one split: a condition that all its rows meet is not looked at again."""
        certain = entry.certain and self.request.where is not None
        return replace(self.request, where=None) if certain else self.request

    def _first_hits(self, task: ScanTask, find: Callable[[int], Hits]) -> list[Hits]:
        """The hits of each split where a column orders them: the best splits first, while others can compete."""
        request, bounds = self.request, self.plan.order_bounds
        order, count, most = request.order_by, request.wanted, len(self.plan.splits)
        if order is None or bounds is None or not count or most < 2:
            return list(task.in_order(find, range(most)))
        hits = [Hits(np.empty(0, np.int64), np.empty(0, np.float32))] * most
        left, wave = best_first(bounds, order).tolist(), _FIRST_WAVE
        while left:
            now, left = left[:wave], left[wave:]
            for number, hits_of_split in zip(now, task.in_order(find, now), strict=True):
                hits[number] = hits_of_split
            split, place = best_of(hits, replace(request, limit=count, offset=0))
            if len(split) == count:
                values = hits[split[-1]].values
                assert values is not None
                possible = can_compete(bounds, order, values[int(place[-1])])
                left = [number for number in left if possible[number]]
            wave *= 2
        return hits
