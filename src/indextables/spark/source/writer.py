"""The writers of the data source: tasks write splits, a planner process commits them once.

A planner process receives the session's settings only with the extension; a task always does. A
setting that a task can still apply is applied; one that its planner should have known is an error.

Every batch of a stream is committed once, however often Spark repeats it. Each commit records the
query and the batch number, and a recorded batch is not committed again. The query's id is visible
only in tasks and is returned with their splits. Spark creates one writer to plan the tasks of a
batch and another one, in another process, to commit it. The plan of the tasks is returned too, and
is the basis of the commit's checks (R18).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import UUID

import pyarrow as pa
from msgspec.structs import replace
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from indextables import config
from indextables.config import PREFIX, Settings
from indextables.config.indexing import IndexingSettings
from indextables.config.registry import SettingsGroup, list_settings
from indextables.errors import IndexTablesError, InvalidInputError, RefusedError, TableNotFoundError
from indextables.handle import open_log
from indextables.model.actions import AddAction
from indextables.model.conflicts import Operation
from indextables.model.predicate import Where, all_of
from indextables.operations.first_write import with_options
from indextables.operations.prose import ProseSample, log_prose_hint
from indextables.operations.row_write import RowWrite
from indextables.operations.write_request import WriteRequest
from indextables.spark.compat import DataSourceStreamArrowWriter, with_offsets
from indextables.spark.error_texts import plain_errors
from indextables.spark.overwrites import (
    OVERWRITE_MODE,
    SESSION_OVERWRITE_MODE,
    OverwriteRequest,
    parse_mode,
    under_overwrite_mode,
)
from indextables.spark.schemas import arrow_schema
from indextables.spark.settings import bare, known_settings
from indextables.spark.source.definitions import TableDefinition, plan_defined_write
from indextables.spark.source.filters import parse_filters
from indextables.spark.source.options import SourceOptions, with_column_case
from indextables.spark.writes import abandon, finish, plan_table_write, write_operation
from indextables.table import Table
from indextables.table.frame_writer import index_settings

G = TypeVar("G", bound=SettingsGroup)


def task_properties() -> Mapping[str, str]:
    """Return the settings of the session, and other properties that Spark passes to a task."""
    context = TaskContext.get()
    if context is None:
        return {}
    return dict(context._localProperties or {})


def under_session(write: RowWrite, properties: Mapping[str, str]) -> RowWrite:
    """Return the write with the session's settings of a task, below its options."""
    write = under_overwrite_mode(write, properties.get(SESSION_OVERWRITE_MODE))
    options = {key.lower() for key in write.options}
    settings = {bare(key): value for key, value in known_settings(properties).items()}
    unplanned = {key: value for key, value in settings.items() if key.lower() not in options}
    late = [key for key in unplanned if config.REGISTRY.find(key)[0].group is IndexingSettings]
    if late:
        raise InvalidInputError(
            f"The session's setting {PREFIX}{late[0]} did not reach the writer in time.",
            hint="Call indextables.spark.install(spark) once, write with indextables.spark.write(), or pass it as an option.",
            key=late[0],
        )
    write = with_options(write, unplanned)
    session = config.resolve(options=unplanned)
    return replace(
        write, splits=_override(write.splits, session), stats=_override(write.stats, session)
    )


def _override(group: G, session: Settings) -> G:
    keys = session.given()
    return replace(
        group, **{s.field_name: session[s.key] for s in list_settings(type(group)) if s.key in keys}
    )


logger = logging.getLogger(__name__)


def plan_source_write(
    options: SourceOptions, schema: StructType, *, overwrite: bool, streaming: bool = False
) -> RowWrite:
    """Plan the write of the options, checked against the table.

    What a complete output of a stream replaces does not depend on the session.
    """
    definition, filters = options.text("definition"), options.text("replaceFilters")
    replace_where: Where | None = options.text("replaceWhere")
    request = OverwriteRequest(
        "condition"
        if filters is not None
        else "everything"
        if overwrite or definition is not None
        else "nothing",
        option=parse_mode(options.text(OVERWRITE_MODE), key=OVERWRITE_MODE),
        session=False if streaming else None,
        has_condition=replace_where is not None,
    )
    dynamic = request.is_dynamic()
    partition_columns = options.names("partitionColumns")
    text, substring = options.names("text") or (), options.names("substring") or ()
    if definition is not None:
        defined = TableDefinition.parse(definition)
        defined = replace(
            defined, text=text or defined.text, substring=substring or defined.substring
        )
        if not _replaces_a_part(
            defined, options.settings, replace_where is not None, bool(dynamic)
        ):
            return plan_defined_write(defined, options.settings)
        overwrite = True
        partition_columns = partition_columns or defined.partition_columns or None
    if filters is not None:
        replace_where = all_of(parse_filters(filters, arrow_schema(schema), exactly=True))
    settings: Mapping[str, object] = with_column_case(options.settings, schema.names)
    if text or substring:
        settings = index_settings(
            options.required_path(), arrow_schema(schema), settings, text=text, substring=substring
        )
    return plan_table_write(
        # Not the path in the schema: the rows of an INSERT ... SELECT carry the path of the table
        # they come from.
        options.required_path(),
        arrow_schema(schema),
        WriteRequest(
            operation=write_operation(
                overwrite=overwrite, where=replace_where, dynamic_partitions=dynamic
            ),
            where=replace_where,
            dynamic_partitions=dynamic,
            merge_schema=options.flag("mergeSchema"),
            overwrite_schema=options.flag("overwriteSchema"),
            user_metadata=options.text("userMetadata"),
            txn=_transaction_id(options),
        ),
        partition_by=partition_columns,
        options=settings,
    )


def _replaces_a_part(
    defined: TableDefinition, settings: Mapping[str, str], has_condition: bool, dynamic: bool
) -> bool:
    """Return whether a write that could replace a table replaces only some rows: the table keeps
    its definition.
    """
    if defined.mode == "create" or not (has_condition or dynamic):
        return False
    try:
        table = Table.open(defined.path, options=settings)
    except TableNotFoundError:
        return False
    return has_condition or bool(table.partition_columns)


def _transaction_id(options: SourceOptions) -> tuple[str, int] | None:
    app_id, version = options.text("txnAppId"), options.number("txnVersion")
    if app_id is not None and version is not None:
        return app_id, version
    if app_id is None and version is None:
        return None
    present, missing = ("txnVersion", "txnAppId") if app_id is None else ("txnAppId", "txnVersion")
    raise InvalidInputError(
        f"{present} is given without {missing}.",
        hint="An exactly-once write needs both, or neither.",
    )


@dataclass
class WrittenSplits(WriterCommitMessage):
    """What one task wrote, and the session properties that only tasks know."""

    added: Sequence[AddAction]
    plan: RowWrite = field(repr=False)
    """The plan of the task, the basis of the commit's checks."""
    application: str | None = None
    query_id: str | None = None
    prose: str | None = None
    """A column of the first rows that looks like prose, in a new table without text columns."""


def run_task(write: RowWrite, batches: Iterator[pa.RecordBatch]) -> WrittenSplits:
    """Write one task's rows as splits, with the session's settings below the options."""
    properties = task_properties()
    write = under_session(write, properties)
    sample = ProseSample(is_wanted=write.may_miss_text)
    return WrittenSplits(
        added=write.run(sample.watch(map(with_offsets, batches))),
        plan=write,
        application=properties.get("spark.app.id"),
        query_id=properties.get("sql.streaming.queryId"),
        prose=sample.column,
    )


class TableWriter(DataSourceArrowWriter):
    """Writes batches of rows."""

    def __init__(self, plan: RowWrite) -> None:
        self._plan = plan

    @plain_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenSplits:
        """Write the rows of a task."""
        return run_task(self._plan, iterator)

    @plain_errors
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit once in a planner process, after every task has succeeded."""
        commit_splits(self._plan, messages)

    @plain_errors
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Clean up after a task or the commit has failed."""
        abandon_splits(self._plan, messages)


def commit_splits(
    write: RowWrite,
    messages: Sequence[WriterCommitMessage | None],
    *,
    txn: tuple[str, int] | None = None,
    mark: tuple[str, int] | None = None,
) -> int | None:
    """Commit a job: the plan of its tasks with the session properties they returned."""
    parts = [m for m in messages if isinstance(m, WrittenSplits)]
    write = parts[0].plan if parts else write
    application = next((part.application for part in parts if part.application), None)
    log_prose_hint(next((part.prose for part in parts if part.prose), None))
    return finish(
        write.with_request(txn=txn or write.request.txn, marks=() if mark is None else (mark,)),
        [action for part in parts for action in part.added],
        application=application,
    )


def abandon_splits(write: RowWrite, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Delete what the tasks of a failed job wrote, if certainly no commit names it.

    Spark also calls this after a failed commit. Then every task has reported, and the commit itself
    has deleted what it could prove to be unneeded; the rest may be part of the table.
    """
    if all(message is not None for message in messages):
        return
    parts = [m for m in messages if isinstance(m, WrittenSplits)]
    added = [action for part in parts for action in part.added]
    if added and not abandon(parts[0].plan, added):
        logger.warning("the splits of a failed write to %s were left in place", write.spec.url)


def _number(query: str) -> int:
    """Return the id of a query as a number for the log."""
    return UUID(query).int >> 65


class TableStreamWriter(DataSourceStreamArrowWriter):
    """Writes batches of rows, and commits them under the query's id."""

    def __init__(self, plan: RowWrite, checkpoint: str | None = None) -> None:
        self._plan = plan
        self._checkpoint = checkpoint

    @plain_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenSplits:
        """Write the rows of a task."""
        return run_task(self._plan, iterator)

    @plain_errors
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit on the driver, after every task of a batch has succeeded."""
        parts = [m for m in messages if isinstance(m, WrittenSplits)]
        query = next((part.query_id for part in parts if part.query_id), None)
        if query is None:
            raise IndexTablesError(
                "Spark did not say which streaming query a batch belongs to.", batch=batchId
            )
        if self._plan.request.operation is Operation.APPEND and not any(
            part.added for part in parts
        ):
            return
        if self._checkpoint is None:
            mark = None
        else:
            mark = (f"checkpoint {self._checkpoint}", _number(query))
        try:
            self._check_query(query, batchId, mark)
        except RefusedError:
            abandon(parts[0].plan, [action for part in parts for action in part.added])
            raise
        commit_splits(self._plan, messages, txn=(query, batchId), mark=mark)

    def _check_query(self, query: str, batch: int, mark: tuple[str, int] | None) -> None:
        """Refuse a batch of another query, or one whose rows the table has from an earlier query."""
        try:
            recorded = open_log(self._plan.spec.url, self._plan.options).fresh().header.txns
        except TableNotFoundError:
            return
        newest = recorded.get(query)
        if newest is not None and newest.version > batch:
            raise RefusedError(
                f"Batch {batch} of the streaming query {query} was sent after its batch {newest.version}: two queries run "
                "with one id, from copies of one checkpoint.",
                hint="Nothing of it was written. Give each query a checkpoint folder of its own.",
                query=query,
                batch=batch,
            )
        before = None if mark is None else recorded.get(mark[0])
        if (
            mark is None
            or before is None
            or before.version == mark[1]
            or self._plan.request.operation is not Operation.APPEND
        ):
            return
        raise RefusedError(
            f"The checkpoint folder {self._checkpoint} was made anew: another query wrote to {self._plan.spec.url} from it, "
            "and this one begins again with rows that the table has already.",
            hint="Nothing was written. Put the folder back; or, to write the rows again, name another folder.",
            checkpoint=self._checkpoint,
            query=query,
        )

    @plain_errors
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Clean up on the driver after a task or the commit of a batch has failed."""
        abandon_splits(self._plan, messages)
