"""The stream writer: every batch is committed once, however often Spark tries it.

Spark repeats a batch, with the same number, if it does not know whether the batch was committed. The log does know: each
commit records the query and the number of its batch, and a batch that is recorded is not committed again. The query's id
is visible to tasks only; it travels back with what they wrote.

Spark makes one writer to plan the tasks of a batch and another one, in another process, to commit it. The table may have
changed in between: what the tasks were planned for travels back too, and is what the commit is checked against.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from indextables.errors import IndexTablesError
from indextables.spark.schemas import arrow_schema
from indextables.spark.source.writer import WrittenSplits, abandon_after_failure, finish_written, run_task
from indextables.spark.table_write import WriteRequest, plan_table_write


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
