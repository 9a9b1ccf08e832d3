"""`Table.delete`: delete the rows that match, in one version.

A split all of whose rows match by its bounds in the log is removed without being read; one that
cannot match is left alone. The others lose their rows by `row_removal`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa

from indextables.config import Settings
from indextables.config.upkeep import DeleteSettings, MergeSettings
from indextables.errors import InvalidInputError
from indextables.handle import TableHandle
from indextables.log.live_files import files_in_parts
from indextables.log.transaction_log import TransactionLog
from indextables.model.conflicts import Operation
from indextables.model.predicate import Predicate, Where
from indextables.model.pruning import all_match, may_match
from indextables.model.report import Progress, Report, pluralize, silent, was
from indextables.model.snapshot import Snapshot
from indextables.operations.jobs import DRY_RUN, NO_ACTION, SUCCESS, Execute, in_threads
from indextables.operations.rewrite import source_splits
from indextables.operations.row_removal import (
    DeleteOutcome,
    DeleteTask,
    RemovalPlan,
    removal_changes,
    remove_rows,
)
from indextables.query.plan import bind_condition, physical_query, plan_scan
from indextables.query.task import ScanTask
from indextables.splits.query.tree import Query
from indextables.storage.spec import StoreSpec


class DeleteReport(Report, frozen=True):
    """What was, or would be, deleted. A dry run may count splits that turn out to stay.

    `splits_masked` kept their files: a deletion vector names the deleted rows.
    """

    table_path: str
    status: str
    deleted_rows: int | None
    splits_rewritten: int
    splits_removed: int
    version: int | None
    message: str
    splits_masked: int = 0


class DeletePlan(Report, frozen=True):
    """The splits that are removed whole, and those that must be read."""

    table_path: str
    version: int
    where: Predicate | None
    query: Query | None
    removed_splits: tuple[str, ...]
    removed_rows: int | None
    """Rows of the splits that are removed whole; None if the log has no counts."""
    candidates: tuple[str, ...]
    removal: RemovalPlan
    """The candidates, whose rows are tested."""
    vectors: Mapping[str, str | None]
    """The deletion vectors of all these splits, as they were read."""
    hidden: ClassVar[tuple[str, ...]] = ("removal", "vectors")

    def preview(self, rows: int) -> DeleteReport:
        """Return the report of a dry run, given how many rows match."""
        message = "No row matches."
        if rows:
            splits = pluralize(len(self.removed_splits), "split")
            message = (
                f"{pluralize(rows, 'row')} would be deleted: {splits} would be removed, "
                f"{len(self.candidates)} would be looked into."
            )
        status = DRY_RUN if rows else NO_ACTION
        return DeleteReport(
            self.table_path,
            status,
            rows,
            len(self.candidates),
            len(self.removed_splits),
            None,
            message,
        )


def plan(
    snapshot: Snapshot, *, url: str, where: Predicate | None = None, query: Query | None = None
) -> DeletePlan:
    """Find the splits of a snapshot that can hold rows to delete."""
    columns = tuple(snapshot.metadata.partition_columns or ())
    files = files_in_parts(snapshot, where)
    possible = np.ones(files.num_rows, np.bool_)
    certain = np.full(files.num_rows, query is None, np.bool_)
    if where is not None:
        possible &= np.asarray(may_match(where, files, partition_columns=columns))
        certain &= np.asarray(all_match(where, files, partition_columns=columns))
    removed = files.filter(pa.array(possible & certain))
    counts = removed.column("num_records").to_pylist()
    sources = source_splits(files.filter(pa.array(possible & ~certain)), snapshot.schema_registry)
    removal = RemovalPlan(snapshot, tuple(sources), where, query)
    vectors = dict(
        zip(
            removed.column("path").to_pylist(),
            removed.column("deletion_vector").to_pylist(),
            strict=True,
        )
    )
    return DeletePlan(
        table_path=url,
        version=snapshot.version,
        where=where,
        query=query,
        removed_splits=tuple(removed.column("path").to_pylist()),
        removed_rows=None if None in counts else sum(counts),
        candidates=tuple(source.path for _, source in sources),
        removal=removal,
        vectors={**vectors, **removal.vectors},
    )


def run(
    planned: DeletePlan,
    log: TransactionLog,
    *,
    spec: StoreSpec,
    settings: Settings,
    execute: Execute[DeleteTask, DeleteOutcome],
    progress: Progress = silent,
) -> DeleteReport:
    """Delete the rows. Raises ConflictError, and commits nothing, if another writer has replaced
    one of the splits.
    """
    share = settings.group(DeleteSettings).vector_share
    done = remove_rows(
        planned.removal,
        store=log.store,
        spec=spec,
        settings=settings,
        execute=execute,
        progress=progress,
        vector_share=share,
    )
    condition = {"where": planned.where, "query": planned.query}
    changes = removal_changes(
        Operation.DELETE,
        done,
        store=log.store,
        vectors=planned.vectors,
        removes=planned.removed_splits,
        parameters={name: str(value) for name, value in condition.items() if value is not None},
        metrics={"numDeletedRecords": done.deleted + (planned.removed_rows or 0)},
    )
    version = log.commit(
        planned.removal.read, changes, written=[action.path for action in done.adds]
    ).version
    if planned.removed_rows is None:
        rows = None
    else:
        rows = planned.removed_rows + done.deleted
    rewritten = len(done.adds)
    return DeleteReport(
        table_path=planned.table_path,
        status=NO_ACTION if version is None else SUCCESS,
        deleted_rows=rows,
        splits_rewritten=rewritten,
        splits_removed=len(planned.removed_splits) + len(done.removes) - rewritten,
        version=version,
        message="No row matches." if version is None else _message(rows),
        splits_masked=len(done.deletions),
    )


def _message(rows: int | None) -> str:
    if rows is None:
        return "Rows were deleted."
    return f"{pluralize(rows, 'row')} {was(rows)} deleted."


def delete(
    table: TableHandle,
    *,
    where: Where | None,
    query: str | None,
    dry_run: bool,
    progress: Progress,
    execute: Execute[DeleteTask, DeleteOutcome] | None,
) -> DeleteReport:
    """Delete the rows that match a condition, a query, or both. See `Table.delete`."""
    table.check_writable()
    if where is None and query is None:
        hint = "Give where=..., query=..., or both; overwrite() replaces every row."
        raise InvalidInputError("Nothing says which rows to delete.", hint=hint)
    newest = table.read_newest()
    tree, predicate = bind_condition(newest, where=where, query=query)
    planned = plan(
        newest.snapshot,
        url=newest.path,
        where=newest.names.optional_predicate(predicate),
        query=None if tree is None else physical_query(tree, newest.names),
    )
    if dry_run:
        scan = plan_scan(newest, query=tree, where=predicate, columns=())
        return planned.preview(ScanTask(scan, newest.log.store).count())
    parallelism = newest.settings.group(MergeSettings).parallelism
    report = run(
        planned,
        newest.log,
        spec=newest.spec,
        settings=newest.search_settings,
        execute=execute or in_threads(newest.log.store, parallelism=parallelism),
        progress=progress,
    )
    return table.show_newest_after(report)
