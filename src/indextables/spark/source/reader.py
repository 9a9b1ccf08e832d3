"""The batch reader: the planner prunes and groups splits, each task searches and reads its group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from indextables.config.spark import SparkReadSettings
from indextables.scan.plan import ScanPlan
from indextables.scan.task import ScanTask, limited
from indextables.spark.foreign import foreign_splits
from indextables.spark.schemas import SparkBatches, path_in
from indextables.spark.source.grouping import grouped
from indextables.spark.source.options import SourceOptions
from indextables.storage.spec import StoreSpec, open_store
from indextables.storage.store import Store
from indextables.table import Table


def open_table(options: SourceOptions, path: str) -> Table:
    """The table of a read, at the version that the options ask for."""
    return Table.open(
        path,
        version=options.number("versionAsOf"),
        timestamp=options.text("timestampAsOf"),
        options=dict(options.settings),
    )


@dataclass
class SplitGroup(InputPartition):
    """The part of a scan that one task does."""

    plan: ScanPlan
    limit: int | None = None

    def __repr__(self) -> str:
        return f"SplitGroup({len(self.plan.splits)} splits)"


class TableReader(DataSourceReader):
    """Reads the columns of a schema, in its order."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """One group of splits per task; a limit makes it one task, so that it is a limit of the whole."""
        table = open_table(self._options, self._options.required_path(path_in(self._schema)))
        plan = table.plan_scan(
            query=self._options.text("query"), where=self._options.text("where"), columns=self._schema.names
        )
        if self._options.text("only") == "foreign":
            # What Spark can read itself is read by Spark itself: the native scan asks for the rest.
            plan = plan.with_splits(foreign_splits(table, plan.splits))
        limit = self._options.number("limit")
        if limit is not None:
            return [SplitGroup(plan, limit)]
        per_task = table.settings.group(SparkReadSettings).splits_per_task
        groups = grouped(plan.splits, per_task=per_task, searching=plan.query is not None)
        return [SplitGroup(plan.with_splits(splits)) for splits in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a group. Spark makes an empty list of partitions into one that holds nothing."""
        if not isinstance(partition, SplitGroup):
            return
        task = ScanTask(partition.plan, worker_store(partition.plan.spec))
        yield from SparkBatches(self._schema)(limited(task.batches(), partition.limit))


@lru_cache(maxsize=8)
def worker_store(spec: StoreSpec) -> Store:
    """The store of a table in this worker, opened once however many tasks come."""
    return open_store(spec)
