"""Writing rows to a table that exists: plan on the driver, write splits anywhere, commit once.

write = plan_write(table, schema, request)         checks the columns, the condition and the
settings added = write.run(batches)                         writes splits, in any process version =
finish_write(table, write, added)        one commit; or abandon_write(table, write, added)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from indextables import config
from indextables.config.upkeep import MergeSettings
from indextables.errors import (
    ConflictError,
    IndexTablesError,
    InvalidInputError,
    TableNotFoundError,
    VersionNotFoundError,
)
from indextables.handle import TableHandle
from indextables.log.log_files import LOG
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import AddAction
from indextables.model.conflicts import Operation, another_table, is_same_table, layout
from indextables.model.predicate import Predicate
from indextables.model.schema_registry import without_registry
from indextables.model.snapshot import Snapshot
from indextables.operations import delete, row_write
from indextables.operations.auto_upkeep import run_after_write
from indextables.operations.delete import DeletePlan
from indextables.operations.incoming import incoming
from indextables.operations.jobs import in_threads
from indextables.operations.row_removal import RewriteResult, remove_rows
from indextables.operations.row_write import RowWrite
from indextables.operations.write_request import WriteRequest


def write_rows(table: TableHandle, data: Any, request: WriteRequest) -> int | None:
    """Plan a write, write its splits in this process, and commit. Return the version, None if
    nothing was written.
    """
    rows = incoming(data, table.schema.names, schema=table.schema)
    write = plan_write(table, rows.schema, request)
    return finish_write(table, write, write.run(rows.batches, store=table.log.store))


def plan_write(table: TableHandle, data: pa.Schema, request: WriteRequest) -> RowWrite:
    """Check a write of rows of a schema. The result travels: `run` it in tasks, then call
    `finish_write` once.
    """
    table.check_writable()
    _check_folder(table)
    if request.operation is not Operation.OVERWRITE:
        table.indexing.check_settled()
        if request.overwrite_schema:
            hint = (
                "Leave out where and dynamic_partitions, or change single columns with table.alter."
            )
            raise InvalidInputError(
                "Only an overwrite of all rows can replace the columns.", hint=hint
            )
    if request.overwrite_schema and request.merge_schema:
        raise InvalidInputError(
            "Columns are replaced or merged, not both.", hint="Give overwrite_schema alone."
        )
    with config.named_as_given(table.options):
        return row_write.plan_row_write(
            table.spec,
            table.snapshot.header,
            data,
            recorded=config.resolve(table=table.indexing.configuration),
            settings=table.settings_for,
            request=request,
            new_name=table.new_column_name,
            options=table.options,
        )


def finish_write(
    table: TableHandle,
    write: RowWrite,
    added: Sequence[AddAction],
    *,
    parameters: Mapping[str, Any] | None = None,
) -> int | None:
    """Commit splits that a planned write has written; returns the version, None if there was
    nothing to do.
    """
    try:
        _return_to(table, write)
    except IndexTablesError:
        abandon_write(table, write, added)
        raise
    version = _commit_rows(table, write, added, parameters or {})
    if version is not None:
        run_after_write(table, version)
    return version


def abandon_write(table: TableHandle, write: RowWrite, added: Sequence[AddAction]) -> bool:
    """Delete the splits of a write that failed before its commit; False if the log does not prove
    that it did.
    """
    return abandon_rows(table.log, write, added)


def _return_to(table: TableHandle, write: RowWrite) -> None:
    """Show the version that a write was planned on: of the same table, with the layout its splits
    have (R15, R18).
    """
    _check_same(table, write)
    if table.version != write.read_version:
        table.snapshot = _planned_snapshot(table, write)
        _check_same(table, write)
    if layout(without_registry(table.snapshot.metadata)) != layout(without_registry(write.table)):
        raise ConflictError(
            f"{table.path} is not as it was when these rows were written for it: its columns, its partitions or its "
            "index were changed.",
            hint="Nothing was committed. Repeat the write: it is then planned for the table that is there.",
            path=table.path,
            version=table.version,
            retry_helps=True,
        )


def _check_same(table: TableHandle, write: RowWrite) -> None:
    if not is_same_table(write.table.id, table.metadata.id):
        raise another_table(table.path, write.table.id, table.metadata.id)


def _planned_snapshot(table: TableHandle, write: RowWrite) -> Snapshot:
    try:
        return table.log.at_version(write.read_version)
    except VersionNotFoundError as gone:
        if write.where is None and table.log.fresh().version >= write.read_version:
            return Snapshot(
                write.header
            )  # cleaned away concurrently: the header in the plan is enough
        raise ConflictError(
            f"The version {write.read_version} of {table.path} that a write was planned on is not there any more.",
            path=table.path,
            version=write.read_version,
            retry_helps=True,
        ) from gone


def _commit_rows(
    table: TableHandle, write: RowWrite, added: Sequence[AddAction], parameters: Mapping[str, Any]
) -> int | None:
    if write.where is None:
        return table.commit(write.changes(added, parameters=parameters), added)
    try:
        table.log.fresh()  # a table that replaced this one is reported as such, before its splits are missed
        plan, rewrite = _without_matches(table, write.where)
    except BaseException:
        abandon_write(table, write, added)
        raise
    candidates = {path: plan.vectors[path] for path in plan.candidates}
    changes = write.changes(added, parameters=parameters, candidates=candidates)
    splits = [*added, *rewrite.adds]
    return table.commit(
        replace(changes, adds=splits, removes=rewrite.removes, vectors=plan.vectors), splits
    )


def _without_matches(table: TableHandle, where: Predicate) -> tuple[DeletePlan, RewriteResult]:
    """Rewrite the splits of which only some rows match, without those rows. Nothing is committed."""
    plan = delete.plan(table.snapshot, url=table.path, where=where)
    parallelism = table.settings.group(MergeSettings).parallelism
    result = remove_rows(
        plan.removal,
        store=table.log.store,
        spec=table.spec,
        settings=table.search_settings,
        execute=in_threads(table.log.store, parallelism=parallelism),
    )
    return plan, result


def abandon_rows(log: TransactionLog, write: RowWrite, added: Sequence[AddAction]) -> bool:
    """Delete what a failed write has written, unless it may be committed. Return whether it was
    deleted.
    """
    return log.discard([action.path for action in added], since=write.read_version)


def _check_folder(table: TableHandle) -> None:
    """Refuse a local folder that was removed, before splits of no table are written there."""
    folder = table.log.store.local_path(LOG)
    if folder is not None and not folder.is_dir():
        raise TableNotFoundError(f"There is no table at {table.path} any more.", path=table.path)
