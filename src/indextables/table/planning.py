"""Scans and writes as plans: values that travel to workers, and what is made of their results on the driver.

Spark, the web pages and the command line are built on these functions; so are the verbs of `Table`. They take an open table.

    plan = plan_scan(table, query="timeout")           ScanTask(plan.with_splits(some)) does a part of it, anywhere
    write = plan_write(table, schema)                  write.run(batches) writes splits, anywhere
    version = finish_write(table, write, added)        one commit, or abandon_write(table, write, added)

Rows for a table that may not be there yet are written for the table that is there or will be, then committed once. They
are written before the table is created: if they cannot be, there is no table. Two writers may both find none. One of
them creates it; the other plans anew, in its own mode, on the table that it now finds, as if it had come later (rule
R17): it appends, replaces or is refused as on any table that exists. Only the rows are not written again; if they were
made for another layout that is a ConflictError, and the write can be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec.structs import replace

from indextables import config
from indextables.config.upkeep import MergeSettings
from indextables.errors import (
    ConflictError,
    IndexTablesError,
    InvalidInputError,
    TableExistsError,
    TableNotFoundError,
    VersionNotFoundError,
)
from indextables.handle import ENGINE_INFO, TableHandle, open_log
from indextables.log.create import create_table
from indextables.log.history import log_action_rows
from indextables.log.log_files import LOG
from indextables.log.transaction import Changes
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import AddAction, MetadataAction
from indextables.model.arguments import names_list, text, whole_number
from indextables.model.column_names import column_names
from indextables.model.conflicts import Operation, another_table, is_same_table, layout
from indextables.model.predicate import Predicate, Where, bound_predicate
from indextables.model.schema import SCORE, check_partition_columns, schema_from_json
from indextables.model.schema_registry import without_registry
from indextables.model.snapshot import CommittedVersion, Header, Snapshot
from indextables.operations import delete, incoming, row_write
from indextables.operations import jobs as tasks
from indextables.query import plan as scans
from indextables.query.plan import ScanPlan
from indextables.query.search import TableSearch
from indextables.splits.query.fields import QueryFields
from indextables.splits.query.tree import Query, Target
from indextables.splits.search.order import OrderBy
from indextables.splits.search.snippets import Highlight, Snippet
from indextables.storage.spec import StoreSpec
from indextables.table.auto_upkeep import keep_in_order
from indextables.table.definition import changed_metadata, check_change, new_metadata

if TYPE_CHECKING:
    from indextables.operations.delete import DeletePlan, RewriteResult
    from indextables.operations.row_write import RowWrite

Options = Mapping[str, object] | None


# Reading.


def plan_scan(
    table: TableHandle,
    *,
    query: str | Query | None = None,
    where: Where | None = None,
    columns: Sequence[str] | None = None,
    order_by: str | None = None,
    now_ms: int | None = None,
) -> ScanPlan:
    """What a scan has to do, as a value that can travel: `ScanTask(plan.with_splits(...))` does a part of it."""
    now_ms = table.log.now_ms() if now_ms is None else now_ms
    predicate = None if where is None else bound_predicate(where, table.schema, now_ms=now_ms, zone=table.time_zone)
    return scans.plan_scan(
        table.snapshot,
        table.spec,
        table.search_settings,
        query=query,
        where=predicate,
        columns=columns,
        order_by=order_by,
        now_ms=now_ms,
    )


def plan_search(
    table: TableHandle,
    query: str,
    *,
    where: Where | None = None,
    columns: Sequence[str] | None = None,
    limit: int | None = None,
    offset: int = 0,
    score: bool = False,
    snippet: str | None = None,
    highlight: Any = None,
    order_by: str | Sequence[str] | None = None,
    paged: bool = False,
    now_ms: int | None = None,
) -> TableSearch:
    """A search with its plan; `order_by` names columns as people do, `now_ms` is the clock."""
    orders = () if order_by is None else sort_order(table, order_by)
    first = orders[0] if orders else None
    plan = plan_scan(
        table,
        query=text("query", query),
        where=where,
        columns=columns,
        order_by=first.column if first is not None and first.is_plain else None,
        now_ms=now_ms,
    )
    return TableSearch.of(
        plan,
        limit=None if limit is None else whole_number("limit", limit),
        offset=whole_number("offset", offset),
        score=score,
        snippet=None if snippet is None else Snippet(text("snippet", snippet)),
        order_by=orders,
        paged=paged,
        highlight=None if highlight is None else Highlight.parse(highlight),
    )


def sort_order(table: TableHandle, order_by: str | Sequence[str]) -> tuple[OrderBy, ...]:
    """What rows are to be ordered by: columns, paths in them, `_score`; each with asc, desc or a minus.

    Nothing is left where only the best by score are asked for, which is the order of a search with a limit by itself.
    """
    names = table.names.logical.names
    if not isinstance(order_by, list | tuple):
        order_by = text("order_by", order_by)
        given = (order_by,) if order_by in names else tuple(part.strip() for part in order_by.split(","))
    else:
        given = names_list("order_by", order_by)
    if len(given) == 1 and given[0] in names:
        return (OrderBy(given[0]),)

    def resolve(parts: tuple[str, ...]) -> Target | None:
        return query_fields(table).resolve(parts)

    orders = tuple(OrderBy.parse(part, names, resolve) for part in given)
    twice = next(
        (o for n, o in enumerate(orders) if (o.column, o.path) in [(b.column, b.path) for b in orders[:n]]), None
    )
    if twice is not None:
        name = ".".join((twice.column, *twice.path))
        raise InvalidInputError(f"Rows are to be ordered by {name!r} more than once.", hint="Name each column once.")
    return () if orders == (OrderBy(SCORE, descending=True),) else orders


def query_fields(table: TableHandle) -> QueryFields:
    """The columns as queries name them, worked out once for a version."""
    return scans.table_fields(table.snapshot, table.spec, table.search_settings)


def json_columns(table: TableHandle) -> tuple[str, ...]:
    """The columns whose values are documents with paths, as people call them."""
    return tuple(column.name for column in query_fields(table).mapping.of_kind("json"))


def versions(table: TableHandle, *, after: int, until: int) -> Sequence[CommittedVersion]:
    """The versions behind one up to another, as they were committed; one that is gone is named in an error."""
    return table.log.since(after, until)


def log_actions(table: TableHandle, *, include_all: bool = False) -> pa.Table:
    """What the log's files say, a row per action: since the newest checkpoint, or everything that is left."""
    return log_action_rows(table.log, include_all=include_all)


# Writing to a table that is there.


def write_rows(
    table: TableHandle,
    data: Any,
    operation: Operation,
    *,
    where: Where | None = None,
    dynamic_partitions: bool = False,
    merge_schema: bool = False,
    overwrite_schema: bool = False,
    user_metadata: str | None = None,
    txn: tuple[str, int] | None = None,
) -> int | None:
    """Plan a write, write its splits in this process, and commit them; returns the version, None for nothing to do."""
    rows = incoming.incoming(data, table.schema.names, schema=table.schema)
    write = plan_write(
        table,
        rows.schema,
        operation=operation,
        where=where,
        dynamic_partitions=dynamic_partitions,
        merge_schema=merge_schema,
        overwrite_schema=overwrite_schema,
        user_metadata=user_metadata,
        txn=txn,
    )
    return finish_write(table, write, write.run(rows.batches, store=table.log.store))


def plan_write(
    table: TableHandle,
    data: pa.Schema,
    *,
    operation: Operation = Operation.APPEND,
    where: Where | None = None,
    dynamic_partitions: bool | None = False,
    merge_schema: bool = False,
    overwrite_schema: bool = False,
    user_metadata: str | None = None,
    txn: tuple[str, int] | None = None,
) -> RowWrite:
    """Check a write of rows of a schema. The result can travel: `run` it on workers, then `finish_write` once."""
    table.check_writable()
    _check_folder(table)
    if operation is not Operation.OVERWRITE:
        table.indexing.check_settled()
        if overwrite_schema:
            hint = "Leave out where and dynamic_partitions, or change single columns with table.alter."
            raise InvalidInputError("Only an overwrite of all rows can replace the columns.", hint=hint)
    if overwrite_schema and merge_schema:
        raise InvalidInputError("Columns are replaced or merged, not both.", hint="Give overwrite_schema alone.")
    with config.named_as_given(table.options):
        return row_write.plan_row_write(
            table.spec,
            table.snapshot.header,
            data,
            recorded=config.resolve(table=table.indexing.configuration),
            settings=table.settings_for,
            new_name=table.new_column_name,
            overwrite_schema=overwrite_schema,
            operation=operation,
            where=where,
            dynamic_partitions=dynamic_partitions,
            merge_schema=merge_schema,
            options=table.options,
            user_metadata=user_metadata,
            txn=txn,
        )


def finish_write(
    table: TableHandle, write: RowWrite, added: Sequence[AddAction], *, parameters: Mapping[str, Any] | None = None
) -> int | None:
    """Commit splits that a planned write has written; returns the version, None if there was nothing to do."""
    try:
        _return_to(table, write)
    except IndexTablesError:
        abandon_write(table, write, added)
        raise
    version = _commit_rows(table, write, added, parameters or {})
    if version is not None:
        keep_in_order(table, version)
    return version


def commit_changes(table: TableHandle, changes: Changes, added: Sequence[AddAction]) -> int | None:
    """Commit changes to the version that a table shows; splits that were written for them are deleted if it fails."""
    return table.commit(replace(changes, engine_info=ENGINE_INFO), added)


def abandon_write(table: TableHandle, write: RowWrite, added: Sequence[AddAction]) -> bool:
    """Delete the splits of a write that failed before its commit; False if the log does not prove that it did."""
    return abandon_rows(table.log, write, added)


def _return_to(table: TableHandle, write: RowWrite) -> None:
    """Show the version that a write was planned on: of the same table, with the layout its splits have (R15, R18)."""
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
            return Snapshot(write.header)  # cleaned away meanwhile: what the plan holds of it is enough
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
        return table.commit(write.changes(added, parameters=parameters, engine_info=ENGINE_INFO), added)
    try:
        table.log.fresh()  # a table that took this one's place is told as such, before its splits are missed
        plan, rewrite = _without_matches(table, write.where)
    except BaseException:
        abandon_write(table, write, added)
        raise
    candidates = {path: plan.vectors[path] for path in plan.candidates}
    changes = write.changes(added, parameters=parameters, engine_info=ENGINE_INFO, candidates=candidates)
    splits = [*added, *rewrite.adds]
    return table.commit(replace(changes, adds=splits, removes=rewrite.removes, vectors=plan.vectors), splits)


def _without_matches(table: TableHandle, where: Predicate) -> tuple[DeletePlan, RewriteResult]:
    """The splits that hold rows which match and others too, written anew with the others only; not committed."""
    plan = delete.plan(table.snapshot, url=table.path, where=where)
    parallelism = table.settings.group(MergeSettings).parallelism
    execute = tasks.in_threads(table.log.store, parallelism=parallelism)
    return plan, delete.rewrite(
        plan, store=table.log.store, spec=table.spec, settings=table.search_settings, execute=execute
    )


# Writing to a table that may not be there yet.


def create_with_rows(
    path: str,
    data: Any,
    *,
    partition_columns: Sequence[str] = (),
    options: Options = None,
    user_metadata: str | None = None,
    exist_ok: bool = False,
) -> tuple[TableHandle, int | None]:
    """Create a table (version 0) and append its first rows; return it and the version of the rows (1, None for no rows).

    If another creates it meanwhile that is an error, or with `exist_ok` the rows are appended to its table.
    """
    log = open_log(path, options)
    rows = data if isinstance(data, incoming.Incoming) else incoming.incoming(data)
    write = plan_first_rows(
        log,
        rows.schema,
        options=options,
        partition_columns=partition_columns,
        exist_ok=exist_ok,
        user_metadata=user_metadata,
    )
    added = write.run(rows.batches)
    table, version = finish_rows(log, write, added)
    return TableHandle(log, table.snapshot, options), version


def plan_rows(
    log: TransactionLog,
    data: pa.Schema,
    *,
    options: Options = None,
    partition_columns: Sequence[str] | None = None,
    operation: Operation = Operation.APPEND,
    where: Where | None = None,
    dynamic_partitions: bool | None = False,
    merge_schema: bool = False,
    overwrite_schema: bool = False,
    exist_ok: bool = True,
    user_metadata: str | None = None,
    txn: tuple[str, int] | None = None,
) -> RowWrite:
    """Check a write against the table, or against what the table will be. Without `exist_ok` it must be a new one."""
    try:
        table = TableHandle(log, log.newest(), options)
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
            exist_ok=exist_ok,
            user_metadata=user_metadata,
            txn=txn,
        )
    if not exist_ok:
        raise TableExistsError(
            f"There is a table at {table.path} already.", hint="Append to it, or overwrite it.", path=table.path
        )
    check_partitioning(table, partition_columns)
    operation, dynamic_partitions = _in_partitions(operation, dynamic_partitions, table.partition_columns)
    return plan_write(
        table,
        data,
        operation=operation,
        where=where,
        dynamic_partitions=dynamic_partitions,
        merge_schema=merge_schema,
        overwrite_schema=overwrite_schema,
        user_metadata=user_metadata,
        txn=txn,
    )


def plan_first_rows(
    log: TransactionLog,
    data: pa.Schema,
    *,
    options: Options = None,
    partition_columns: Sequence[str] = (),
    operation: Operation = Operation.APPEND,
    where: Where | None = None,
    dynamic_partitions: bool | None = False,
    merge_schema: bool = False,
    exist_ok: bool = True,
    user_metadata: str | None = None,
    txn: tuple[str, int] | None = None,
) -> RowWrite:
    """Check the first rows of a table, and everything that the table will be: its columns, partitions and settings."""
    metadata = new_metadata(data, partition_columns, options, table_id=log.new_id(), created_time=log.now_ms())
    settings = config.resolve(options=options, table=metadata.configuration)
    operation, dynamic_partitions = _in_partitions(operation, dynamic_partitions, metadata.partition_columns or ())
    return row_write.plan_row_write(
        StoreSpec.from_url(log.store.url, settings),
        Header(version=row_write.NOT_CREATED, metadata=metadata),
        schema_from_json(metadata.schema_string),
        recorded=config.resolve(table=metadata.configuration),
        settings=settings,
        operation=operation,
        where=where,
        dynamic_partitions=dynamic_partitions,
        merge_schema=merge_schema,
        exist_ok=exist_ok,
        options=options,
        user_metadata=user_metadata,
        txn=txn,
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
    """The first rows of a table as it shall be from now on, whatever its columns, partitions and index were before.

    `replaces` says whether there must be a table (True), must be none (False), or may be one (None). Rows and definition
    are one version: a write that fails leaves what was there. `properties` are words of users, which are no settings.
    """
    write = plan_first_rows(log, data, options=options, partition_columns=partition_columns, exist_ok=replaces is None)
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
    assert header.metadata is not None
    metadata = replace(metadata, id=header.metadata.id, created_time=header.metadata.created_time)
    return replace(
        write,
        header=row_write.header_to_check(header),
        new_metadata=metadata,
        operation=Operation.OVERWRITE,
        exist_ok=True,
    )


def set_properties(
    table: TableHandle,
    *,
    options: Mapping[str, object],
    properties: Mapping[str, str],
    unset: Sequence[str] = (),
    description: str | None = None,
) -> int | None:
    """Change the settings of a table, and words of users beside them; returns the version, None if nothing changed."""
    known = {*(table.metadata.configuration or {})}
    forgotten = [key for key in unset if key in known or config.is_setting(key)]
    with config.named_as_given(options):
        changed = changed_definition(table, description=description, options=options, unset=forgotten)
        return commit_definition(table, replace(changed, configuration={**(changed.configuration or {}), **properties}))


def changed_definition(
    table: TableHandle,
    *,
    name: str | None = None,
    description: str | None = None,
    options: Mapping[str, object],
    unset: Sequence[str],
) -> MetadataAction:
    """The metadata of a table with another name, description or settings, which name columns as people do."""
    names = table.names
    return changed_metadata(
        without_registry(table.snapshot.metadata),
        name=name,
        description=description,
        options=names.options(options),
        unset=tuple(names.options(dict.fromkeys(unset))),
    )


def commit_definition(table: TableHandle, metadata: MetadataAction) -> int | None:
    """Commit metadata that fits the rows that are there; returns the version, None if nothing changed."""
    old = without_registry(table.snapshot.metadata)
    if metadata == old:
        return None
    check_change(table, metadata)
    reindexes = layout(metadata) != layout(old)
    return table.commit(Changes(Operation.METADATA, metadata=metadata, reindexes=reindexes, engine_info=ENGINE_INFO))


def with_options(write: RowWrite, options: Mapping[str, object]) -> RowWrite:
    """The write with further options for its commit. A table that it will create is checked against them, here."""
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
    log: TransactionLog, write: RowWrite, added: Sequence[AddAction], *, parameters: Mapping[str, Any] | None = None
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
    return table, finish_write(table, write, added, parameters=parameters)


def abandon_rows(log: TransactionLog, write: RowWrite, added: Sequence[AddAction]) -> bool:
    """Delete what a write that failed has written, unless it may be committed; returns whether it was deleted."""
    return log.discard([action.path for action in added], since=write.read_version)


def _create_table(log: TransactionLog, write: RowWrite) -> tuple[TableHandle, RowWrite]:
    """The new table and the write on it; or another's that was made first, and the write planned anew (R17)."""
    metadata = replace(write.table, created_time=log.now_ms())
    try:
        snapshot = create_table(log, metadata, exist_ok=False, engine_info=ENGINE_INFO)
    except TableExistsError:
        if not write.exist_ok:
            raise
        table = TableHandle(log, log.fresh(), write.options)
        return table, _plan_anew(table, write)
    return TableHandle(log, snapshot, write.options), replace(write, header=replace(write.header, version=0))


def _plan_anew(table: TableHandle, write: RowWrite) -> RowWrite:
    plan = plan_write(
        table,
        column_names(write.schema_json).logical,
        operation=write.operation,
        where=write.where,
        dynamic_partitions=write.dynamic_partitions,
        merge_schema=write.merge_schema,
        user_metadata=write.user_metadata,
        txn=write.txn,
    )
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


def _in_partitions(
    operation: Operation, dynamic_partitions: bool | None, partition_columns: Sequence[str]
) -> tuple[Operation, bool | None]:
    """A table without partitions is overwritten as a whole, as every source of Spark does it."""
    if dynamic_partitions and not partition_columns:
        return Operation.OVERWRITE, False
    return operation, dynamic_partitions


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


def _check_folder(table: TableHandle) -> None:
    """Refuse a local folder that was removed, before splits of no table are written there."""
    folder = table.log.store.local_path(LOG)
    if folder is not None and not folder.is_dir():
        raise TableNotFoundError(f"There is no table at {table.path} any more.", path=table.path)


def _column_list(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
