"""The reader of the option `aggregate`: aggregations of all matching rows, computed in one task.

The partial results of a table's splits have to meet in one place. A data source in Python can
only bring them together in one task; `indextables.spark.aggregate` lets many tasks make them and
merges them in the caller's process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from indextables.query.aggregate.result import finish, partial_of
from indextables.query.aggregate.spec import Aggregations
from indextables.query.plan import ScanPlan
from indextables.query.task import ScanTask
from indextables.spark.error_texts import plain_errors
from indextables.spark.schemas import SparkBatches, path_in
from indextables.spark.source.answers import check_sum
from indextables.spark.source.options import ReadRequest, SourceOptions
from indextables.spark.source.reader import Frame, open_table, worker_store


@dataclass
class AggregatedRows(InputPartition):
    """A scan, and the aggregations of what it finds."""

    scan: ScanPlan
    aggregations: Aggregations

    def __repr__(self) -> str:
        return f"AggregatedRows({len(self.scan.splits)} splits)"


class AggregateReader(DataSourceReader):
    """Reads aggregations of the rows that match the options query and where."""

    def __init__(self, options: SourceOptions, schema: StructType, frame: Frame | None) -> None:
        self._options = options
        self._schema = schema
        self._frame = frame
        self._request = ReadRequest.parse(options)

    @plain_errors
    def partitions(self) -> Sequence[InputPartition]:
        """One task for all splits."""
        path = self._options.required_path(path_in(self._schema))
        table = open_table(self._options, path, self._frame)
        aggregations = self._request.aggregations(table)
        assert aggregations is not None
        return [AggregatedRows(self._request.plan(table, ()), aggregations)]

    @plain_errors
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of the result."""
        assert isinstance(partition, AggregatedRows)
        task = ScanTask(partition.scan, worker_store(partition.scan.spec))
        result = finish(partial_of(task, partition.aggregations), partition.aggregations)
        batches = SparkBatches(self._schema)
        rows = check_sum(result.select(self._schema.names), batches.schema)
        yield from batches(rows.to_batches())
