"""The batch writer: tasks write splits, the planner commits them once.

Settings of the session as a task sees them.

A planner process is not told the session's settings unless the extension is installed; a task is. What a task can still
follow it follows, what its planner should have known is an error: a setting is never ignored in silence.

The stream writer: every batch is committed once, however often Spark tries it.

Spark repeats a batch, with the same number, if it does not know whether the batch was committed. The log does know: each
commit records the query and the number of its batch, and a batch that is recorded is not committed again. The query's id
is visible to tasks only; it travels back with what they wrote.

Spark makes one writer to plan the tasks of a batch and another one, in another process, to commit it. The table may have
changed in between: what the tasks were planned for travels back too, and is what the commit is checked against.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa
from msgspec.structs import replace
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from indextables import config
from indextables.config import PREFIX, Settings
from indextables.config.indexing import IndexingSettings
from indextables.config.registry import SettingsGroup, declared
from indextables.errors import IndexTablesError, InvalidInputError
from indextables.model.actions import AddAction
from indextables.spark.schemas import arrow_schema
from indextables.spark.settings import bare
from indextables.spark.source.options import SourceOptions, spelled
from indextables.spark.writes import (
    OVERWRITE_MODE,
    SESSION_OVERWRITE_MODE,
    PlannedWrite,
    WriteRequest,
    is_dynamic,
    plan_table_write,
)
from indextables.write.row_write import RowWrite

G = TypeVar("G", bound=SettingsGroup)


def task_properties() -> Mapping[str, str]:
    """The settings of the session, and what else Spark tells a task."""
    context = TaskContext.get()
    return {} if context is None else dict(context._localProperties or {})


def unknown_to_planner(planned: PlannedWrite, properties: Mapping[str, str]) -> dict[str, str]:
    """The session's settings that the options do not have."""
    known = {key.lower() for key in planned.request.settings}
    session = {bare(key): value for key, value in properties.items() if key.lower().startswith(PREFIX)}
    return {key: value for key, value in session.items() if key.lower() not in known}


def under_session(planned: PlannedWrite, session: Mapping[str, str]) -> PlannedWrite:
    """The write as further settings of the session want it."""
    if not session:
        return planned
    given = config.resolve(options=session)
    late = [key for key in session if config.REGISTRY.find(key)[0].group is IndexingSettings]
    if late:
        raise InvalidInputError(
            f"The session's setting {PREFIX}{late[0]} did not reach the writer in time.",
            hint="Call indextables.spark.install(spark) once, write with indextables.spark.write(), or pass it as an option.",
            key=late[0],
        )
    plan = planned.rows.plan
    task = replace(plan.task, splits=_changed(plan.task.splits, given), stats=_changed(plan.task.stats, given))
    return replace(planned, rows=replace(planned.rows, plan=replace(plan, task=task)))


def _changed(group: G, given: Settings) -> G:
    told = given.given()
    return replace(group, **{s.field_name: given[s.key] for s in declared(type(group)) if s.key in told})


logger = logging.getLogger(__name__)


def planned_write(options: SourceOptions, schema: StructType, *, overwrite: bool) -> PlannedWrite:
    """The write that options ask for, checked against the table."""
    return plan_table_write(write_request(options, schema, overwrite=overwrite), arrow_schema(schema))


def write_request(options: SourceOptions, schema: StructType, *, overwrite: bool) -> WriteRequest:
    """The write that options ask for."""
    return WriteRequest(
        # Not the path in the schema: the rows of an INSERT ... SELECT carry the path of the table they come from.
        path=options.required_path(),
        overwrite=overwrite,
        partition_by=options.names("partitionColumns"),
        replace_where=options.text("replaceWhere"),
        dynamic_partitions=is_dynamic(options.text(OVERWRITE_MODE), key=OVERWRITE_MODE),
        merge_schema=options.flag("mergeSchema"),
        user_metadata=options.text("userMetadata"),
        txn=_transaction_id(options),
        settings=spelled(options.settings, schema.names),
    )


def _transaction_id(options: SourceOptions) -> tuple[str, int] | None:
    app_id, version = options.text("txnAppId"), options.number("txnVersion")
    if app_id is not None and version is not None:
        return app_id, version
    if app_id is None and version is None:
        return None
    given, missing = ("txnVersion", "txnAppId") if app_id is None else ("txnAppId", "txnVersion")
    raise InvalidInputError(
        f"{given} is given without {missing}.", hint="An exactly-once write needs both, or neither."
    )


@dataclass
class WrittenSplits(WriterCommitMessage):
    """What one task wrote, and what it alone can know of the session."""

    added: Sequence[AddAction]
    made_for: RowWrite = field(repr=False)
    """What the task was planned for, which is what the commit has to be checked against."""
    session: Mapping[str, str] = field(default_factory=dict, repr=False)
    application: str | None = None
    query_id: str | None = None


def run_task(planned: PlannedWrite, batches: Iterator[pa.RecordBatch]) -> WrittenSplits:
    """One task's rows as splits, under the settings of the session as far as the options do not say otherwise."""
    properties = task_properties()
    session = unknown_to_planner(planned, properties)
    planned = planned.under_session(properties.get(SESSION_OVERWRITE_MODE))
    return WrittenSplits(
        added=under_session(planned, session).run(batches),
        made_for=planned.rows,
        session=session,
        application=properties.get("spark.app.id"),
        query_id=properties.get("sql.streaming.queryId"),
    )


class TableWriter(DataSourceArrowWriter):
    """Writes batches of rows."""

    def __init__(self, planned: PlannedWrite) -> None:
        self._planned = planned

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenSplits:
        """Runs in a task."""
        return run_task(self._planned, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Runs once in a planner process, when every task has succeeded."""
        finish_written(self._planned, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Runs when a task or the commit has failed."""
        abandon_after_failure(self._planned, messages)


def finish_written(
    planned: PlannedWrite, messages: Sequence[WriterCommitMessage | None], *, txn: tuple[str, int] | None = None
) -> int | None:
    """The one commit of a job: of what its tasks were planned for, with what they know of the session."""
    written = [m for m in messages if isinstance(m, WrittenSplits)]
    rows = written[0].made_for if written else planned.rows
    session = next((m.session for m in written), {})
    application = next((m.application for m in written if m.application), None)
    request = replace(planned.request, settings={**session, **planned.request.settings})
    return PlannedWrite(request, rows).finish(
        [action for m in written for action in m.added],
        parameters={"sparkApplicationId": application} if application else {},
        txn=txn,
    )


def abandon_after_failure(planned: PlannedWrite, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Delete what the tasks of a failed job wrote, if it is certain that no commit names it.

    Spark also asks for this after a commit that failed. Then every task has reported, and the commit itself has cleaned
    up what it could prove to be unwanted; the rest may be part of the table.
    """
    if all(message is not None for message in messages):
        return
    written = [m for m in messages if isinstance(m, WrittenSplits)]
    added = [a for m in written for a in m.added]
    if added and not replace(planned, rows=written[0].made_for).abandon(added):
        logger.warning("the splits of a failed write to %s were left in place", planned.request.path)


class TableStreamWriter(DataSourceStreamArrowWriter):
    """Writes batches of rows, and commits them under the query's id."""

    def __init__(self, request: WriteRequest, schema: StructType) -> None:
        # What a complete output replaces is the stream's to say, not the session's.
        self._request = replace(request, dynamic_partitions=bool(request.dynamic_partitions))
        self._planned = plan_table_write(self._request, arrow_schema(schema))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenSplits:
        """Runs in a task."""
        return run_task(self._planned, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Runs on the driver, when every task of a batch has succeeded."""
        written = [m for m in messages if isinstance(m, WrittenSplits)]
        query = next((m.query_id for m in written if m.query_id), None)
        if query is None:
            raise IndexTablesError("Spark did not say which streaming query a batch belongs to.", batch=batchId)
        if self._request.overwrite or any(m.added for m in written):
            finish_written(self._planned, messages, txn=(query, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Runs on the driver, when a task or the commit of a batch has failed."""
        abandon_after_failure(self._planned, messages)
