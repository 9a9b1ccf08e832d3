"""The batch writer: tasks write splits, the planner commits them once."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from indextables.errors import InvalidInputError
from indextables.model.actions import AddAction
from indextables.spark.schemas import arrow_schema
from indextables.spark.source.options import SourceOptions, spelled
from indextables.spark.source.task_settings import task_properties, under_session, unknown_to_planner
from indextables.spark.table_write import (
    OVERWRITE_MODE,
    SESSION_OVERWRITE_MODE,
    PlannedWrite,
    WriteRequest,
    is_dynamic,
    plan_table_write,
)
from indextables.write.row_write import RowWrite

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
