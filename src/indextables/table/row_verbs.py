"""The verbs of the rows: append, overwrite, scan, search, count, aggregate, explain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from indextables import config
from indextables.log.selection import every_file, files_of_partitions, files_within
from indextables.log.transaction import LiveSelection
from indextables.model.conflicts import Operation
from indextables.model.schema import schema_from_json
from indextables.scan.explain import ScanReport, explain
from indextables.scan.plan import plan_scan
from indextables.scan.search import search_table
from indextables.scan.task import ScanTask, limited
from indextables.splits.order import OrderBy
from indextables.splits.search import SearchRequest
from indextables.splits.snippets import Snippet
from indextables.table.handle import ENGINE_INFO, TableHandle
from indextables.table.predicates import Where, bound_predicate
from indextables.write.incoming import incoming, only
from indextables.write.plan import plan_write, write_changes


class RowVerbs(TableHandle):
    """Writing and reading rows."""

    def append(
        self,
        data: Any,
        *,
        merge_schema: bool = False,
        user_metadata: str | None = None,
        txn: tuple[str, int] | None = None,
    ) -> int | None:
        """Add rows: anything with an Arrow stream, or an iterable of batches. Returns the version, None for no rows.

        `merge_schema` adds columns that the table does not have; `txn=(app_id, version)` makes the append exactly-once.
        """
        return self._write(data, Operation.APPEND, merge_schema=merge_schema, user_metadata=user_metadata, txn=txn)

    def overwrite(
        self,
        data: Any,
        *,
        where: Where | None = None,
        dynamic_partitions: bool = False,
        merge_schema: bool = False,
        user_metadata: str | None = None,
    ) -> int | None:
        """Replace rows: all of them, those that match `where`, or those of the partitions that the data has."""
        operation = Operation.OVERWRITE if where is None and not dynamic_partitions else Operation.REPLACE_WHERE
        return self._write(
            data,
            operation,
            where=where,
            dynamic_partitions=dynamic_partitions,
            merge_schema=merge_schema,
            user_metadata=user_metadata,
        )

    def scan(
        self, *, where: Where | None = None, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> pa.RecordBatchReader:
        """Rows as a stream of batches: those that match, the wanted columns, at most `limit` of them."""
        task = self._scan_task(None, where, columns)
        return pa.RecordBatchReader.from_batches(task.plan.output_schema, limited(task.batches(), limit))

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
        task = self._scan_task(query, where, columns)
        assert task.plan.query is not None
        request = SearchRequest(
            task.plan.query,
            task.plan.columns,
            where=task.plan.where,
            limit=limit,
            offset=offset,
            score=score,
            snippet=None if snippet is None else Snippet(snippet),
            order_by=None if order_by is None else OrderBy.parse(order_by, task.schema.names),
        )
        return search_table(task, request)

    def explain(
        self, *, query: str | None = None, where: Where | None = None, columns: Sequence[str] | None = None
    ) -> ScanReport:
        """Carry out a scan or search without returning rows, and say what was pruned, opened, matched and read."""
        return explain(self._scan_task(query, where, columns))

    def count(self, *, query: str | None = None, where: Where | None = None) -> int:
        """How many rows there are, or match: from the log or the index, without reading rows where that is exact."""
        return self._scan_task(query, where, ()).count()

    def _scan_task(self, query: str | None, where: Where | None, columns: Sequence[str] | None) -> ScanTask:
        bound = bound_predicate(where, self.schema)
        plan = plan_scan(self._snapshot, self._spec, self.settings, query=query, where=bound, columns=columns)
        return ScanTask(plan, self._log.store)

    def _write(
        self,
        data: Any,
        operation: Operation,
        *,
        where: Where | None = None,
        dynamic_partitions: bool = False,
        merge_schema: bool = False,
        user_metadata: str | None = None,
        txn: tuple[str, int] | None = None,
    ) -> int | None:
        self._refuse_if_pinned()
        rows = incoming(data)
        plan = plan_write(
            self._spec,
            self.metadata,
            rows.schema,
            recorded=config.resolve(table=self.metadata.configuration),
            settings=self.settings,
            merge_schema=merge_schema,
            new_layout=operation is Operation.OVERWRITE,
        )
        schema = schema_from_json(plan.task.schema_json)
        bound = bound_predicate(where, schema)
        added = plan.task.run(
            rows.batches if bound is None else only(bound, rows.batches, schema), store=self._log.store
        )
        replaced: LiveSelection | None = None
        if dynamic_partitions:
            replaced = files_of_partitions(a.partition_values or {} for a in added)
        elif operation is not Operation.APPEND:
            replaced = every_file if bound is None else files_within(bound, self.partition_columns)
        changes = write_changes(
            plan,
            added,
            operation=operation,
            replaced=replaced,
            parameters={"where": str(bound)} if bound is not None else {},
            txn=txn,
            user_metadata=user_metadata,
            engine_info=ENGINE_INFO,
        )
        return self._commit_written(changes, added)
