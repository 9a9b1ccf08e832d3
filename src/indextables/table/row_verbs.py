"""The verbs of the rows that take more than finding them: append, overwrite, aggregate, explain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from indextables import config
from indextables.errors import ConflictError, IndexTablesError, VersionNotFoundError
from indextables.model.actions import AddAction
from indextables.model.arguments import transaction_id
from indextables.model.conflicts import Operation, another_table, is_same_table, layout
from indextables.model.schema import schema_from_json
from indextables.model.snapshot import Snapshot
from indextables.scan.aggregate.partial import aggregate_table
from indextables.scan.explain import ScanReport, explain
from indextables.table.delete_verbs import DeleteVerbs
from indextables.table.handle import ENGINE_INFO
from indextables.table.predicates import Where, bound_predicate
from indextables.table.search_verbs import SearchVerbs
from indextables.write.incoming import incoming
from indextables.write.row_write import RowWrite, plan_write, planned_on


class RowVerbs(SearchVerbs, DeleteVerbs):
    """Writing rows, and what is computed from them."""

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

    def aggregate(self, spec: Mapping[str, Any], *, query: str | None = None, where: Where | None = None) -> pa.Table:
        """Aggregations, exact over every match: terms, histograms, ranges, statistics (see `splits.aggregate`).

        `t.aggregate({"levels": {"terms": {"field": "level"}}}, query="timeout")`
        """
        return aggregate_table(self._scan_task(query, where, ()), spec)

    def explain(
        self, *, query: str | None = None, where: Where | None = None, columns: Sequence[str] | None = None
    ) -> ScanReport:
        """Carry out a scan or search without returning rows, and say what was pruned, opened, matched and read."""
        return explain(self._scan_task(query, where, columns))

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
        txn = transaction_id(txn)
        rows = incoming(data)
        write = self.plan_write(
            rows.schema,
            operation=operation,
            where=where,
            dynamic_partitions=dynamic_partitions,
            merge_schema=merge_schema,
        )
        added = write.run(rows.batches, store=self._log.store)
        return self.finish_write(write, added, user_metadata=user_metadata, txn=txn)

    def plan_write(
        self,
        data: pa.Schema,
        *,
        operation: Operation = Operation.APPEND,
        where: Where | None = None,
        dynamic_partitions: bool = False,
        merge_schema: bool = False,
    ) -> RowWrite:
        """Check a write of rows of a schema. The result can travel: `run` it on workers, then `finish_write` once."""
        self._refuse_if_pinned()
        if operation is not Operation.OVERWRITE:
            self._indexing.check_settled()
        plan = plan_write(
            self._spec,
            self.metadata,
            data,
            recorded=config.resolve(table=self._indexing.configuration),
            settings=self.settings,
            merge_schema=merge_schema,
            new_layout=operation is Operation.OVERWRITE,
        )
        bound = bound_predicate(where, schema_from_json(plan.task.schema_json))
        return RowWrite(plan, planned_on(self._snapshot.header), operation, bound, dynamic_partitions, merge_schema)

    def finish_write(
        self,
        write: RowWrite,
        added: Sequence[AddAction],
        *,
        parameters: Mapping[str, Any] | None = None,
        user_metadata: str | None = None,
        txn: tuple[str, int] | None = None,
    ) -> int | None:
        """Commit splits that a planned write has written; returns the version, None if there was nothing to do."""
        try:
            self._return_to(write)
        except IndexTablesError:
            self._discard(write, added)
            raise
        told: dict[str, Any] = {"parameters": parameters, "txn": txn, "user_metadata": user_metadata}
        version = self._commit_rows(write, added, told)
        if version is not None:
            self._after_write(version)
        return version

    def _return_to(self, write: RowWrite) -> None:
        """Show the version that a write was planned on: of the same table, with the layout its splits have (R15, R18)."""
        self._check_same(write)
        if self.version != write.read_version:
            self._snapshot = self._planned_snapshot(write)
            self._check_same(write)
        if layout(self.metadata) != layout(write.table):
            raise ConflictError(
                f"{self.path} is not as it was when these rows were written for it: its columns, its partitions or its "
                "index were changed.",
                hint="Nothing was committed. Repeat the write: it is then planned for the table that is there.",
                path=self.path,
                version=self.version,
                retry_helps=True,
            )

    def _check_same(self, write: RowWrite) -> None:
        if not is_same_table(write.table.id, self.metadata.id):
            raise another_table(self.path, write.table.id, self.metadata.id)

    def _discard(self, write: RowWrite, added: Sequence[AddAction]) -> bool:
        return self._log.discard([action.path for action in added], since=write.read_version)

    def _planned_snapshot(self, write: RowWrite) -> Snapshot:
        try:
            return self._log.at_version(write.read_version)
        except VersionNotFoundError as gone:
            if write.where is None and self._log.fresh().version >= write.read_version:
                return Snapshot(write.read)  # cleaned away meanwhile: what the plan has kept of it is enough
            raise ConflictError(
                f"The version {write.read_version} of {self.path} that a write was planned on is not there any more.",
                path=self.path,
                version=write.read_version,
                retry_helps=True,
            ) from gone

    def _commit_rows(self, write: RowWrite, added: Sequence[AddAction], told: Mapping[str, Any]) -> int | None:
        if write.where is None:
            return self._commit(write.changes(added, **told, engine_info=ENGINE_INFO), added)
        try:
            self._log.fresh()  # a table that took this one's place is told as such, before its splits are missed
            planned, kept = self._without_matches(write.where)
        except BaseException:
            self._discard(write, added)
            raise
        changes = write.changes(added, **told, engine_info=ENGINE_INFO, looked_into=planned.candidates)
        both = [*added, *kept.adds]
        return self._commit(replace(changes, adds=both, removes=kept.removes), both)

    def abandon_write(self, write: RowWrite, added: Sequence[AddAction]) -> bool:
        """Delete the splits of a write that failed before its commit; False if the log does not prove that it did."""
        return self._discard(write, added)
