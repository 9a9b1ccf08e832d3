"""The verbs that find rows: scan, search, count."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from indextables.model.arguments import text, whole_number
from indextables.scan.plan import ScanPlan, plan_scan
from indextables.scan.search import search_table
from indextables.scan.task import ScanTask, limited
from indextables.splits.query.tree import Query
from indextables.splits.search.search import OrderBy, SearchRequest
from indextables.splits.search.snippets import Snippet
from indextables.table.handle import TableHandle
from indextables.table.predicates import Where, bound_predicate


class SearchVerbs(TableHandle):
    """Finding rows."""

    def scan(
        self, *, where: Where | None = None, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> pa.RecordBatchReader:
        """Rows as a stream of batches: those that match, the wanted columns, at most `limit` of them."""
        most = None if limit is None else whole_number("limit", limit)
        task = self._scan_task(None, where, columns)
        return pa.RecordBatchReader.from_batches(task.plan.output_schema, limited(task.batches(), most))

    def search(
        self,
        query: str,
        *,
        where: Where | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        offset: int = 0,
        score: bool = False,
        snippet: str | None = None,
        order_by: str | None = None,
    ) -> pa.Table:
        """Rows that match a query: with a `limit` the best by score (or the first by `order_by`), else every match.

        `_score` is there when rows are ranked or `score` is asked for; `snippet` names a text column whose marked
        passage becomes `_snippet`; `order_by` is a column, with `desc` or without.
        """
        task = self._scan_task(text("query", query), where, columns)
        assert task.plan.query is not None
        request = SearchRequest(
            task.plan.query,
            task.plan.columns,
            where=task.plan.where,
            limit=None if limit is None else whole_number("limit", limit),
            offset=whole_number("offset", offset),
            score=score,
            snippet=None if snippet is None else Snippet(text("snippet", snippet)),
            order_by=None if order_by is None else OrderBy.parse(text("order_by", order_by), task.schema.names),
        )
        return search_table(task, request)

    def count(self, *, query: str | None = None, where: Where | None = None) -> int:
        """How many rows there are, or match: from the log or the index, without reading rows where that is exact."""
        return self._scan_task(query, where, ()).count()

    def _scan_task(self, query: str | None, where: Where | None, columns: Sequence[str] | None) -> ScanTask:
        return ScanTask(self.plan_scan(query=query, where=where, columns=columns), self._log.store)

    def plan_scan(
        self, *, query: str | Query | None = None, where: Where | None = None, columns: Sequence[str] | None = None
    ) -> ScanPlan:
        """What a scan has to do, as a value that can travel: `ScanTask(plan.with_splits(...))` does a part of it."""
        bound = bound_predicate(where, self.schema)
        return plan_scan(self._snapshot, self._spec, self.settings, query=query, where=bound, columns=columns)
