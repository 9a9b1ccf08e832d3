"""Searching a table: every split is asked, words weigh the same in all of them, and the best come
first.

search = TableSearch.of(plan, limit=10)            checked; holds the plan that finds its rows
search = search.weigh(task)                      how rare its words are in the table: each split is
asked once search.with_splits(some).tables(task)              a part of it, anywhere

With a limit the hits of all splits are found first, and rows are read of the winners only. Ordered
by a column, splits that cannot hold a winner are not even asked.

A search in pages goes on behind the last row of the page before. Rows of equal keys, or scores,
come in the order of their splits' paths and of their numbers, so that every row is on one page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables.metrics import METRICS
from indextables.model.column_names import ColumnNames
from indextables.model.schema import SCORE
from indextables.query.plan import ScanPlan
from indextables.query.task import ScanTask
from indextables.splits.index.values import normal_key
from indextables.splits.read.table_split import SplitEntry
from indextables.splits.search.nearest import NearestTo
from indextables.splits.search.order import After, OrderBy, behind, best_first, can_compete
from indextables.splits.search.scores import (
    Hits,
    TermStatistics,
    term_statistics,
    total,
    weighs_values,
)
from indextables.splits.search.search import (
    SearchRequest,
    best_of,
    find_hits,
    merge_results,
    read_best,
    read_hits,
    search_split,
)
from indextables.splits.search.snippets import Highlight, Snippet
from indextables.storage.store import Store

_FIRST_WAVE = 2
_EVERY_ROW = 1 << 60
"""A number above all row numbers of a split."""


class PageEnd(Struct, frozen=True):
    """The last row of a page: its sort keys and its position."""

    keys: pa.Table
    split: str
    row: int


class TableSearch(Struct, frozen=True):
    """A search and the plan of its scan. Picklable."""

    plan: ScanPlan
    request: SearchRequest
    statistics: TermStatistics | None = None
    """Term statistics of the whole table."""
    split_statistics: Mapping[str, TermStatistics] = {}
    """Term statistics of each split by path."""
    after: PageEnd | None = None
    """The end of the previous page."""

    @classmethod
    def of(
        cls,
        plan: ScanPlan,
        *,
        limit: int | None = None,
        offset: int = 0,
        score: bool = False,
        snippet: Snippet | None = None,
        order_by: OrderBy | Sequence[OrderBy] | None = None,
        paged: bool = False,
        highlight: Highlight | None = None,
        nearest: NearestTo | None = None,
    ) -> TableSearch:
        """Create the search of a plan with a query. What the table cannot answer is an error."""
        assert plan.query is not None
        names = plan.names
        orders: tuple[OrderBy, ...]
        if order_by is None:
            orders = ()
        elif isinstance(order_by, OrderBy):
            orders = (order_by,)
        else:
            orders = tuple(order_by)
        if not names.same:
            if snippet is None:
                snippet = None
            else:
                snippet = replace(snippet, column=names.column(snippet.column))
            if highlight is not None:
                highlight = replace(
                    highlight, columns=names.columns(highlight.columns), labels=highlight.columns
                )
            orders = tuple(_physical(order, names) for order in orders)
        request = SearchRequest(
            plan.query,
            plan.columns,
            where=plan.where,
            limit=limit,
            offset=offset,
            score=score,
            snippet=snippet,
            order_by=orders or None,
            ranked=bool(orders)
            and SCORE not in plan.schema.names
            and any(order.column == SCORE for order in orders),
            paged=paged,
            highlight=highlight,
            nearest=nearest,
        )
        request.check(plan.schema)
        return cls(plan.by_path() if paged or nearest else plan, request)

    def weigh(self, task: ScanTask) -> TableSearch:
        """Return the search with term statistics, if scores depend on them. For one split its own
        are the table's.
        """
        request, splits = self.request, self.plan.splits
        alone = len(splits) == 1
        if not request.scores or (alone and not weighs_values(task.open(splits[0]), request.query)):
            return self
        absent = self._statistics_without_terms(task)
        asked = [entry for entry in splits if entry.path not in absent]
        counts = task.in_order(
            lambda entry: term_statistics(task.open(entry), request.query, ahead=True), asked
        )
        counted = {entry.path: statistics for entry, statistics in zip(asked, counts, strict=True)}
        by_path = {entry.path: counted.get(entry.path) or absent[entry.path] for entry in splits}
        return replace(
            self, statistics=None if alone else total(by_path.values()), split_statistics=by_path
        )

    def _statistics_without_terms(self, task: ScanTask) -> dict[str, TermStatistics]:
        """Return the statistics of splits that hold no scored term, by their term filters."""
        splits = self.plan.splits
        holders = task.find_holders(self.request.query)
        return {
            entry.path: TermStatistics(entry.stored_records)
            for entry, may_hold in zip(splits, holders, strict=True)
            if not may_hold and entry.stored_records is not None
        }

    def with_splits(self, splits: Sequence[SplitEntry]) -> TableSearch:
        """Return the same search over some of its splits."""
        paths = {entry.path for entry in splits}
        by_path = {path: counts for path, counts in self.split_statistics.items() if path in paths}
        return replace(self, plan=self.plan.with_splits(splits), split_statistics=by_path)

    def tables(self, task: ScanTask) -> Iterator[pa.Table]:
        """Yield what each split contributes."""
        parts = task.each(
            lambda entry: search_split(
                task.open(entry),
                self._request(entry),
                self.statistics,
                self.split_statistics.get(entry.path),
            )
        )
        return map(self.plan.names.to_logical, parts)

    def merged(self, task: ScanTask) -> pa.Table:
        """Merge the contributions of all splits in order, from offset to limit."""
        return self.plan.names.to_logical(self._merge(task))

    def _merge(self, task: ScanTask) -> pa.Table:
        request, splits = self.request, self.plan.splits
        numbers = range(len(splits))

        find = self._finder(task)
        if request.limit is None:
            found = self._find_all(task, find)
            matching = [number for number in numbers if len(found[number].rows)]
            parts = task.in_order(
                lambda n: read_hits(task.open(splits[n]), found[n], request), matching, rows=True
            )
            return merge_results(list(parts), request, task.schema)
        hits = self._hits(task, find)
        if len(hits) == 1 and request.orders and hits[0].keys is None and len(hits[0].rows) > 1:
            return merge_results(
                [read_hits(task.open(splits[0]), hits[0], request)], request, task.schema
            )
        return self._read_best(task, hits)

    def _finder(self, task: ScanTask, *, located: bool = False) -> Callable[[int], Hits]:
        alone = len(self.plan.splits) == 1 and not self.request.paged and not located

        def find(number: int) -> Hits:
            entry = self.plan.splits[number]
            own = self.split_statistics.get(entry.path)
            return find_hits(
                task.open(entry), self._request(entry), self.statistics, own, alone=alone
            )

        return find

    def page(
        self, store: Store | None = None, after: PageEnd | None = None
    ) -> tuple[pa.Table, PageEnd | None]:
        """Return a page after the end of the previous page, and its own end; None for the last
        page.

        One additional row is searched, so that a full page knows whether it is the last.
        """
        limit = self.request.limit
        assert self.request.paged and limit is not None
        task = ScanTask(self.plan, store)
        search = replace(self.weigh(task), after=after)
        more = replace(search, request=replace(self.request, limit=limit + 1))
        hits = more._hits(task, more._finder(task))
        rows = self.plan.names.to_logical(search._read_best(task, hits))
        METRICS.count("rows_read_total", by=rows.num_rows)
        split, place = best_of(hits, more.request)
        if len(split) <= limit or not limit:
            return rows, None
        number, at = int(split[limit - 1]), int(place[limit - 1])
        last = hits[number]
        if last.keys is None:
            keys = last.at(np.array([at])).score_table()
        else:
            keys = last.keys.slice(at, 1)
        return rows, PageEnd(keys, self.plan.splits[number].path, int(last.rows[at]))

    def locate(self, store: Store | None = None) -> tuple[pa.Table, list[tuple[str, int]]]:
        """Return the result of a search with a limit, with split path and row number of each row."""
        task = ScanTask(self.plan, store)
        search = self.weigh(task)
        hits = search._hits(task, search._finder(task, located=True))
        rows = self.plan.names.to_logical(search._read_best(task, hits))
        METRICS.count("rows_read_total", by=rows.num_rows)
        split, place = best_of(hits, self.request)
        pairs = zip(split.tolist(), place.tolist(), strict=True)
        return rows, [
            (self.plan.splits[number].path, int(hits[number].rows[at])) for number, at in pairs
        ]

    def rank(
        self, store: Store, count: int
    ) -> tuple[list[tuple[str, int]], npt.NDArray[np.float64]]:
        """Return the best rows by split path and row number, best first, and their scores; for a
        search by a vector their negative distances.
        """
        task = ScanTask(self.plan, store)
        search = replace(self, request=replace(self.request, limit=count, offset=0)).weigh(task)
        hits = search._hits(task, search._finder(task, located=True))
        split, place = best_of(hits, search.request)
        pairs = list(zip(split.tolist(), place.tolist(), strict=True))
        scores = np.array([hits[number].scores[at] for number, at in pairs], np.float64)
        rows = [(self.plan.splits[number].path, int(hits[number].rows[at])) for number, at in pairs]
        if self.request.nearest is not None:
            return rows, -scores
        return rows, scores

    def _read_best(self, task: ScanTask, hits: Sequence[Hits]) -> pa.Table:
        splits = self.plan.splits
        return read_best(
            lambda n: task.open(splits[n]), hits, self.request, task.schema, each=task.in_order
        )

    def _hits(self, task: ScanTask, find: Callable[[int], Hits]) -> list[Hits]:
        if self.request.orders:
            return self._first_hits(task, find)
        return self._find_all(task, find)

    def _find_all(self, task: ScanTask, find: Callable[[int], Hits]) -> list[Hits]:
        """Return the hits of every split. Splits that hold no match by their term filter are not
        opened.
        """
        hits = [_no_hits()] * len(self.plan.splits)
        numbers = task.find_candidates()
        for number, found in zip(numbers, task.in_order(find, numbers), strict=True):
            hits[number] = found
        return hits

    def run(self, store: Store | None = None) -> pa.Table:
        """Run the search in this process."""
        task = ScanTask(self.plan, store)
        hits = self.weigh(task).merged(task)
        METRICS.count("rows_read_total", by=hits.num_rows)
        return hits

    def _request(self, entry: SplitEntry) -> SearchRequest:
        """Return the request for one split. A condition that all its rows meet is not evaluated
        again.
        """
        request, end = self.request, self.after
        if entry.certain and request.where is not None:
            request = replace(request, where=None)
        if end is None:
            return request
        # Rows of equal keys come split by split: all of them in splits before the end's are before
        # it.
        if entry.path == end.split:
            row = end.row
        elif entry.path > end.split:
            row = -1
        else:
            row = _EVERY_ROW
        return replace(request, after=After(end.keys, row))

    def _first_hits(self, task: ScanTask, find: Callable[[int], Hits]) -> list[Hits]:
        """Return the hits of each split ordered by a column: the best splits first, while others
        can compete.
        """
        request, bounds = self.request, self.plan.order_bounds
        order, count, most = request.orders[0], request.wanted, len(self.plan.splits)
        if bounds is None or not order.is_plain or not count or most < 2:
            return self._find_all(task, find)
        hits = [_no_hits()] * most
        candidates = set(task.find_candidates())
        left, wave = (
            [number for number in best_first(bounds, order).tolist() if number in candidates],
            _FIRST_WAVE,
        )
        if self.after is not None:
            possible, _ = behind(bounds, order, After(self.after.keys, self.after.row))
            left = [number for number in left if possible[number]]
        while left:
            now, left = left[:wave], left[wave:]
            for number, hits_of_split in zip(now, task.in_order(find, now), strict=True):
                hits[number] = hits_of_split
            split, place = best_of(hits, replace(request, limit=count, offset=0))
            if len(split) == count:
                keys = hits[split[-1]].keys
                assert keys is not None
                possible = can_compete(bounds, order, keys.column("0.0")[int(place[-1])])
                left = [number for number in left if possible[number]]
            wave *= 2
        return hits


def _physical(order: OrderBy, names: ColumnNames) -> OrderBy:
    """Return an order with physical column names."""
    if order.path:
        path = names.document_path(order.column, order.path, normal_key)
    else:
        path = ()
    return replace(order, column=names.column(order.column), path=path)


def _no_hits() -> Hits:
    return Hits(np.empty(0, np.int64), np.empty(0, np.float32))
