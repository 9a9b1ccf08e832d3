"""Searching a table: every split is asked, words weigh the same in all of them, and the best come first.

search = TableSearch.of(plan, limit=10)            checked; holds the plan that finds its rows
search = search.weighed(task)                      how rare its words are in the table: each split is asked once
search.with_splits(some).tables(task)              a part of it, anywhere
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables.scan.plan import ScanPlan
from indextables.scan.task import ScanTask
from indextables.splits.read.table_split import SplitEntry
from indextables.splits.search.scores import TermStatistics, term_statistics, total
from indextables.splits.search.search import OrderBy, SearchRequest, merge_results, search_split
from indextables.splits.search.snippets import Snippet
from indextables.storage.store import Store


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
        """The search with the statistics of its words, if it has scores. A single split has its own at hand."""
        if not self.request.scores or len(self.plan.splits) == 1:
            return self
        counts = task.each(lambda entry: term_statistics(task.open(entry), self.request.query))
        by_path = {entry.path: statistics for entry, statistics in zip(self.plan.splits, counts, strict=True)}
        return replace(self, statistics=total(by_path.values()), split_statistics=by_path)

    def with_splits(self, splits: Sequence[SplitEntry]) -> TableSearch:
        """The same search over some of its splits."""
        paths = {entry.path for entry in splits}
        by_path = {path: counts for path, counts in self.split_statistics.items() if path in paths}
        return replace(self, plan=self.plan.with_splits(splits), split_statistics=by_path)

    def tables(self, task: ScanTask) -> Iterator[pa.Table]:
        """What each split contributes."""
        return task.each(lambda entry: self._search(task, entry))

    def merged(self, task: ScanTask) -> pa.Table:
        """What all splits contribute, in order, from the offset to the limit."""
        return merge_results(list(self.tables(task)), self.request, task.schema)

    def run(self, store: Store | None = None) -> pa.Table:
        """The result of the search, found in this process."""
        task = ScanTask(self.plan, store)
        return self.weighed(task).merged(task)

    def _search(self, task: ScanTask, entry: SplitEntry) -> pa.Table:
        request = replace(self.request, where=None) if entry.certain else self.request
        return search_split(task.open(entry), request, self.statistics, self.split_statistics.get(entry.path))
