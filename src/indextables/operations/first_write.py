"""Writing rows to a table that may not exist yet: the rows are written first, then the table is
created and one commit made.

If the rows cannot be written, no table is created. Two writers may both find no table. One of them
creates it; the other plans its commit again, in its own mode, on the table that it now finds, as if
it had come later (rule R17): it appends, replaces or is refused as on any table that exists. Its
rows are not written again; if they were written for another layout, the commit is a ConflictError
and the write can be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from indextables import config
from indextables.errors import (
    ConflictError,
    InvalidInputError,
    TableExistsError,
    TableNotFoundError,
)
from indextables.handle import ENGINE_INFO, TableHandle, open_log
from indextables.log.create import create_table
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import AddAction
from indextables.model.column_names import column_names
from indextables.model.conflicts import Operation
from indextables.model.protocol import check_writable
from indextables.model.schema import check_partition_columns, schema_from_json
from indextables.model.snapshot import Header
from indextables.operations import row_write, table_write
from indextables.operations.definition import new_metadata
from indextables.operations.incoming import Incoming, incoming
from indextables.operations.row_write import RowWrite
from indextables.operations.table_write import abandon_rows, plan_write
from indextables.operations.write_request import WriteRequest
from indextables.storage.spec import StoreSpec

Options = Mapping[str, object] | None


def create_with_rows(
    path: str,
    data: Any,
    *,
    partition_columns: Sequence[str] = (),
    options: Options = None,
    request: WriteRequest,
) -> tuple[TableHandle, int | None]:
    """Create a table (version 0) and append its first rows; return it and the version of the rows
    (1, None for no rows).

    If another writer creates it concurrently that is an error, or with `request.exist_ok` the rows
    are appended to it.
    """
    log = open_log(path, options)
    rows = data if isinstance(data, Incoming) else incoming(data)
    write = plan_first_rows(
        log, rows.schema, request, options=options, partition_columns=partition_columns
    )
    added = write.run(rows.batches)
    table, version = finish_rows(log, write, added)
    return TableHandle(log, table.snapshot, options), version


def plan_rows(
    log: TransactionLog,
    data: pa.Schema,
    request: WriteRequest,
    *,
    options: Options = None,
    partition_columns: Sequence[str] | None = None,
) -> RowWrite:
    """Check a write against the table, or against what the table will be if there is none."""
    try:
        table = TableHandle(log, log.newest(), options)
    except TableNotFoundError:
        return plan_first_rows(
            log, data, request, options=options, partition_columns=partition_columns or ()
        )
    if not request.exist_ok:
        raise TableExistsError(
            f"There is a table at {table.path} already.",
            hint="Append to it, or overwrite it.",
            path=table.path,
        )
    check_partitioning(table, partition_columns)
    return plan_write(table, data, _in_partitions(request, table.partition_columns))


def plan_first_rows(
    log: TransactionLog,
    data: pa.Schema,
    request: WriteRequest,
    *,
    options: Options = None,
    partition_columns: Sequence[str] = (),
) -> RowWrite:
    """Check the first rows of a table, and everything that the table will be: its columns,
    partitions and settings.
    """
    metadata = new_metadata(
        data, partition_columns, options, table_id=log.new_id(), created_time=log.now_ms()
    )
    settings = config.resolve(options=options, table=metadata.configuration)
    return row_write.plan_row_write(
        StoreSpec.from_url(log.store.url, settings),
        Header(version=row_write.NOT_CREATED, metadata=metadata),
        schema_from_json(metadata.schema_string),
        recorded=config.resolve(table=metadata.configuration),
        settings=settings,
        request=_in_partitions(request, metadata.partition_columns or ()),
        options=options,
    )


def plan_definition(
    log: TransactionLog,
    data: pa.Schema,
    *,
    options: Options = None,
    partition_columns: Sequence[str] = (),
    description: str | None = None,
    properties: Mapping[str, str] | None = None,
    replaces: bool | None = False,
) -> RowWrite:
    """The first rows of a table as it shall be from now on, whatever its columns, partitions and
    index were before.

    `replaces` says whether there must be a table (True), must be none (False), or may be one
    (None). Rows and definition are one version: a write that fails leaves what was there.
    `properties` are words of users, which are no settings.
    """
    request = WriteRequest(exist_ok=replaces is None)
    write = plan_first_rows(
        log, data, request, options=options, partition_columns=partition_columns
    )
    configuration = {**(write.table.configuration or {}), **(properties or {})}
    metadata = replace(write.table, description=description, configuration=configuration)
    write = replace(write, header=replace(write.header, metadata=metadata))
    try:
        header = log.newest().header
    except TableNotFoundError:
        if replaces:
            raise
        return write
    if replaces is False:
        raise TableExistsError(
            f"There is a table at {log.store.url} already.",
            hint="Replace it, or choose another name.",
            path=log.store.url,
        )
    check_writable(header.protocol, path=log.store.url)
    assert header.metadata is not None
    metadata = replace(metadata, id=header.metadata.id, created_time=header.metadata.created_time)
    return replace(
        write,
        header=row_write.header_to_check(header),
        new_metadata=metadata,
        request=replace(write.request, operation=Operation.OVERWRITE, exist_ok=True),
    )


def with_options(write: RowWrite, options: Mapping[str, object]) -> RowWrite:
    """The write with further options for its commit. A table that it will create is checked against
    them, here.
    """
    write = replace(write, options={**options, **write.options})
    if not options or write.read_version != row_write.NOT_CREATED:
        return write
    metadata = new_metadata(
        schema_from_json(write.table.schema_string),
        write.table.partition_columns or (),
        write.options,
        table_id=write.table.id,
        created_time=write.table.created_time or 0,
    )
    return replace(write, header=replace(write.header, metadata=metadata))


def finish_rows(
    log: TransactionLog,
    write: RowWrite,
    added: Sequence[AddAction],
    *,
    parameters: Mapping[str, Any] | None = None,
) -> tuple[TableHandle, int | None]:
    """Commit what a planned write has written, to a table that is created now if there was none."""
    try:
        if write.read_version == row_write.NOT_CREATED:
            table, write = _create_table(log, write)
        else:
            table = TableHandle(log, log.fresh(), write.options)
    except BaseException:
        abandon_rows(log, write, added)
        raise
    return table, table_write.finish_write(table, write, added, parameters=parameters)


def _create_table(log: TransactionLog, write: RowWrite) -> tuple[TableHandle, RowWrite]:
    """Create the table, or plan the write again on the table that another writer created first
    (R17).
    """
    metadata = replace(write.table, created_time=log.now_ms())
    try:
        snapshot = create_table(log, metadata, exist_ok=False, engine_info=ENGINE_INFO)
    except TableExistsError:
        if not write.request.exist_ok:
            raise
        table = TableHandle(log, log.fresh(), write.options)
        return table, _plan_again(table, write)
    return TableHandle(log, snapshot, write.options), replace(
        write, header=replace(write.header, version=0)
    )


def _plan_again(table: TableHandle, write: RowWrite) -> RowWrite:
    plan = plan_write(table, column_names(write.schema_json).logical, write.request)
    if plan.layout != write.layout:
        raise ConflictError(
            f"Another writer was first to create {table.path}, partitioned by {_column_list(table.partition_columns)}, with "
            f"columns or an index that these rows were not written for.",
            hint="Nothing was committed. Repeat the write: it is then planned for the table that is there.",
            path=table.path,
            version=table.version,
            retry_helps=True,
        )
    return plan


def _in_partitions(request: WriteRequest, partition_columns: Sequence[str]) -> WriteRequest:
    """Return the request for a table with these partition columns: without any, all of it is
    overwritten, as in Spark.
    """
    if request.dynamic_partitions and not partition_columns:
        return replace(request, operation=Operation.OVERWRITE, dynamic_partitions=False)
    return request


def check_partitioning(table: TableHandle, partition_columns: Sequence[str] | None) -> None:
    """Refuse partition columns that differ from those of a table that exists."""
    if partition_columns is None:
        return
    columns = check_partition_columns(table.schema, tuple(partition_columns))
    if list(columns) != table.partition_columns:
        raise InvalidInputError(
            f"{table.path} is partitioned by {_column_list(table.partition_columns)}, not by {_column_list(columns)}.",
            hint="Leave the partition columns out to write to a table that exists.",
            path=table.path,
        )


def _column_list(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
