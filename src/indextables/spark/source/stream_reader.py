"""The stream reader: what is appended to a table, split after split.

An offset is a version of a table and how many of its files have been read; another table at the same path is an error.
A stream starts with a whole snapshot, unless it is told a version to start with; after that, each version contributes the
files it adds. Files that only rearrange rows (a merge) are passed over. A version that takes rows away is an error unless
`ignoreChanges` is set: then the rows that it adds are read, and those it took away stay with whoever has read them. Rows
that it kept are not read again: a replacement marks the files that hold them, and the files that a restoration brings
back are compared with those that it takes away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from indextables.config.spark import SparkReadSettings
from indextables.spark.schemas import SparkBatches, path_in
from indextables.spark.source.grouping import grouped
from indextables.spark.source.options import SourceOptions
from indextables.spark.source.reader import SplitGroup
from indextables.spark.source.stream_files import Offset, RestoredRows, StreamFiles
from indextables.spark.source.stream_options import StreamOptions


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a table."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._schema = schema
        self._asked = StreamOptions.parse(options)
        self._files = StreamFiles(
            options.required_path(path_in(schema)),
            dict(options.settings),
            ignore_changes=self._asked.ignore_changes,
        )
        self._until: int | None = None

    def initialOffset(self) -> dict[str, object]:  # noqa: N802
        """Where a new query starts: with `startingVersion`, or with everything that is in the table now."""
        start, table = self._asked.start, self._files.table()
        self._asked.check(table)
        if start is None:
            return Offset(table.version, 0, snapshot=True, table=table.metadata.id).to_dict()
        return Offset(table.version if start == "latest" else start - 1, table=table.metadata.id).to_dict()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read no further than what is there now."""
        self._until = self._files.newest_version()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """How much one batch takes."""
        if self._asked.max_files is not None:
            return ReadMaxFiles(self._asked.max_files)
        size = self._asked.max_bytes
        return ReadAllAvailable() if size is None else ReadMaxBytes(size)

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:  # noqa: N802
        """How far the next batch goes."""
        most_files = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        most_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        until = self._files.newest_version() if self._until is None else self._until
        end = self._files.advance(Offset.of(start), until, max_files=most_files, max_bytes=most_bytes)
        return end.to_dict()

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        """The tasks of a batch."""
        table, files, restored = self._files.between(Offset.of(start), Offset.of(end))
        plan = self._asked.plan(table, self._schema.names)
        plan = plan.with_splits(self._files.entries(table, files, plan))
        per_task = table.settings.group(SparkReadSettings).splits_per_task
        groups = grouped(plan.splits, per_task=per_task, searching=plan.query is not None)
        compared = [task for one in restored for task in self._files.restored_rows(table, one, plan)]
        return [*(SplitGroup(plan.with_splits(splits)) for splits in groups), *compared]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        if isinstance(partition, (SplitGroup, RestoredRows)):
            yield from SparkBatches(self._schema)(partition.batches())

    def commit(self, end: dict[str, object]) -> None:
        """Nothing is kept that could be forgotten now."""
