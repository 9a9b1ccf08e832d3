"""Rows for a table that may not be there yet: written for the table that is there or will be, then committed once.

The rows are written before the table is created: if they cannot be, there is no table. Two writers may both find none.
One of them creates it; the other plans anew, in its own mode, on the table that it now finds, as if it had come later
(rule R17): it appends, replaces or is refused as on any table that exists. Only the rows are not written again; if they
were made for another layout that is a ConflictError, and the write can be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from indextables import config
from indextables.errors import ConflictError, InvalidInputError, TableExistsError, TableNotFoundError
from indextables.log.create import create_table
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import AddAction
from indextables.model.conflicts import Operation
from indextables.model.schema import check_partition_columns, schema_from_json
from indextables.model.snapshot import Header
from indextables.storage.spec import StoreSpec
from indextables.table.handle import ENGINE_INFO, open_log
from indextables.table.log_verbs import new_metadata
from indextables.table.predicates import Where, bound_predicate
from indextables.table.whole import Table
from indextables.write.incoming import incoming
from indextables.write.row_write import NOT_CREATED, RowWrite, plan_write

Options = Mapping[str, object] | None


def create_with_rows(
    path: str,
    data: Any,
    *,
    partition_columns: Sequence[str] = (),
    options: Options = None,
    user_metadata: str | None = None,
    exist_ok: bool = False,
) -> tuple[Table, int | None]:
    """Create a table (version 0) and append its first rows (version 1, None for no rows).

    If another creates it meanwhile that is an error, or with `exist_ok` the rows are appended to its table.
    """
    log, rows = open_log(path, options), incoming(data)
    write = plan_first_rows(log, rows.schema, options=options, partition_columns=partition_columns, first=not exist_ok)
    added = write.run(rows.batches, store=log.store)
    return finish_rows(log, write, added, options=options, user_metadata=user_metadata)


def plan_rows(
    log: TransactionLog,
    data: pa.Schema,
    *,
    options: Options = None,
    partition_columns: Sequence[str] | None = None,
    operation: Operation = Operation.APPEND,
    where: Where | None = None,
    dynamic_partitions: bool = False,
    merge_schema: bool = False,
    first: bool = False,
) -> RowWrite:
    """Check a write against the table, or against what the table will be. A `first` write is for a new table only."""
    try:
        table = Table(log, log.newest(), options)
    except TableNotFoundError:
        return plan_first_rows(
            log,
            data,
            options=options,
            partition_columns=partition_columns or (),
            operation=operation,
            where=where,
            dynamic_partitions=dynamic_partitions,
            merge_schema=merge_schema,
            first=first,
        )
    if first:
        raise TableExistsError(
            f"There is a table at {table.path} already.", hint="Append to it, or overwrite it.", path=table.path
        )
    _check_partitioning(table, partition_columns)
    operation, dynamic_partitions = _in_partitions(operation, dynamic_partitions, table.partition_columns)
    return table.plan_write(
        data, operation=operation, where=where, dynamic_partitions=dynamic_partitions, merge_schema=merge_schema
    )


def plan_first_rows(
    log: TransactionLog,
    data: pa.Schema,
    *,
    options: Options = None,
    partition_columns: Sequence[str] = (),
    operation: Operation = Operation.APPEND,
    where: Where | None = None,
    dynamic_partitions: bool = False,
    merge_schema: bool = False,
    first: bool = False,
) -> RowWrite:
    """Check the first rows of a table, and everything that the table will be: its columns, partitions and settings."""
    metadata = new_metadata(data, partition_columns, options, table_id=log.new_id(), created_time=log.now_ms())
    settings = config.resolve(options=options, table=metadata.configuration)
    recorded = config.resolve(table=metadata.configuration)
    spec, schema = StoreSpec.from_url(log.store.url, settings), schema_from_json(metadata.schema_string)
    plan = plan_write(spec, metadata, schema, recorded=recorded, settings=settings)
    operation, dynamic_partitions = _in_partitions(operation, dynamic_partitions, metadata.partition_columns or ())
    return RowWrite(
        plan,
        Header(version=NOT_CREATED, metadata=metadata),
        operation,
        bound_predicate(where, schema),
        dynamic_partitions,
        merge_schema,
        first,
    )


def finish_rows(
    log: TransactionLog,
    write: RowWrite,
    added: Sequence[AddAction],
    *,
    options: Options = None,
    parameters: Mapping[str, Any] | None = None,
    user_metadata: str | None = None,
    txn: tuple[str, int] | None = None,
) -> tuple[Table, int | None]:
    """Commit what a planned write has written, to a table that is created now if there was none."""
    try:
        if write.read_version == NOT_CREATED:
            table, write = _created(log, write, options)
        else:
            table = Table(log, log.fresh(), options)
    except BaseException:
        abandon_rows(log, write, added)
        raise
    return table, table.finish_write(write, added, parameters=parameters, user_metadata=user_metadata, txn=txn)


def abandon_rows(log: TransactionLog, write: RowWrite, added: Sequence[AddAction]) -> bool:
    """Delete what a write that failed has written, unless it may be committed; returns whether it was deleted."""
    return log.discard([action.path for action in added], since=write.read_version)


def _created(log: TransactionLog, write: RowWrite, options: Options) -> tuple[Table, RowWrite]:
    """The new table and the write on it; or another's that was made first, and the write planned anew (R17)."""
    planned = write.table
    metadata = new_metadata(
        schema_from_json(planned.schema_string),
        planned.partition_columns or (),
        options,
        table_id=planned.id,
        created_time=log.now_ms(),
    )
    try:
        snapshot = create_table(log, metadata, exist_ok=False, engine_info=ENGINE_INFO)
    except TableExistsError:
        if write.first:
            raise
        table = Table(log, log.fresh(), options)
        return table, _planned_anew(table, write)
    return Table(log, snapshot, options), replace(write, read=replace(write.read, version=0))


def _planned_anew(table: Table, write: RowWrite) -> RowWrite:
    task = write.plan.task
    again = table.plan_write(
        schema_from_json(task.schema_json),
        operation=write.operation,
        where=write.where,
        dynamic_partitions=write.dynamic_partitions,
        merge_schema=write.merge_schema,
    )
    if again.plan.task.layout != task.layout:
        raise ConflictError(
            f"Another writer was first to create {table.path}, partitioned by {_listed(table.partition_columns)}, with "
            f"columns or an index that these rows were not written for.",
            hint="Nothing was committed. Repeat the write: it is then planned for the table that is there.",
            path=table.path,
            version=table.version,
            retry_helps=True,
        )
    return again


def _in_partitions(
    operation: Operation, dynamic_partitions: bool, partition_columns: Sequence[str]
) -> tuple[Operation, bool]:
    """A table without partitions is overwritten as a whole, as every source of Spark does it."""
    if dynamic_partitions and not partition_columns:
        return Operation.OVERWRITE, False
    return operation, dynamic_partitions


def _check_partitioning(table: Table, partition_columns: Sequence[str] | None) -> None:
    if partition_columns is None:
        return
    wanted = check_partition_columns(table.schema, tuple(partition_columns))
    if list(wanted) != table.partition_columns:
        raise InvalidInputError(
            f"{table.path} is partitioned by {_listed(table.partition_columns)}, not by {_listed(wanted)}.",
            hint="Leave the partition columns out to write to a table that exists.",
            path=table.path,
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
