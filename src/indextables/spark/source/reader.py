"""The batch reader: the planner prunes and groups splits, each task searches and reads its group.

Telling our splits, which are Parquet files, from the bundles of other engines, which Spark cannot read.

Splits into tasks: enough of them for each task to be worth starting, few enough for all cores to have work.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from indextables.config.spark import SparkReadSettings
from indextables.errors import ConflictError, VersionNotFoundError
from indextables.scan.plan import ScanPlan
from indextables.scan.search import TableSearch
from indextables.scan.task import ScanTask, limited
from indextables.spark.schemas import SparkBatches, path_in
from indextables.spark.source.options import ReadRequest, SourceOptions
from indextables.splits.read.table_split import SplitEntry
from indextables.storage.spec import StoreSpec, open_store
from indextables.storage.store import Store
from indextables.table import Table

_MAGIC = b"PAR1"
_THREADS = 16


def parquet_splits(table: Table, files: pa.Table) -> pa.BooleanArray:
    """Which files are Parquet. The log tells for those that we wrote; of the others the last bytes are read."""
    ours = pc.fill_null(pc.match_substring(files["stats"], '"nullCount"'), False).to_numpy()
    doubtful = np.flatnonzero(~ours)
    if len(doubtful) == 0:
        return pa.array(ours)
    store = open_store(StoreSpec.from_url(table.path, table.settings))
    paths = files["path"].take(doubtful).to_pylist()
    sizes = files["size"].take(doubtful).to_pylist()

    def ends_as_parquet(path: str, size: int) -> bool:
        return size > 2 * len(_MAGIC) and store.get_range(path, size - len(_MAGIC), len(_MAGIC)) == _MAGIC

    with ThreadPoolExecutor(_THREADS) as pool:
        endings = list(pool.map(ends_as_parquet, paths, sizes))
    parquet = ours.copy()
    parquet[doubtful] = endings
    return pa.array(parquet)


def splits_of_kind(table: Table, splits: Sequence[SplitEntry], kind: str) -> list[SplitEntry]:
    """Those of some splits that are `parquet`, or those that are `foreign`."""
    files = table.files()
    ours = set(files["path"].filter(parquet_splits(table, files)).to_pylist())
    return [entry for entry in splits if (entry.path in ours) == (kind == "parquet")]


SCAN_BYTES = 128 << 20
"""What one task scans, as Spark itself cuts files."""
SEARCH_BYTES = 1 << 30
"""What one task searches: of a split that is searched, only a small part is read."""


def task_groups(splits: Sequence[SplitEntry], *, per_task: int, searching: bool) -> Iterator[tuple[SplitEntry, ...]]:
    """The splits of each task, in order. `per_task` 0 goes by size."""
    if per_task:
        for start in range(0, len(splits), per_task):
            yield tuple(splits[start : start + per_task])
        return
    max_bytes = SEARCH_BYTES if searching else SCAN_BYTES
    group: list[SplitEntry] = []
    size = 0
    for entry in splits:
        if group and size + entry.size > max_bytes:
            yield tuple(group)
            group, size = [], 0
        group.append(entry)
        size += entry.size
    if group:
        yield tuple(group)


class Frame(Struct, frozen=True):
    """What a DataFrame was made of: a version of a table, and which table that was, whatever is at its path later."""

    version: int
    table_id: str

    NEW: ClassVar[str] = "new"
    """The option's value by which the extension asks for the frame to be told in the schema."""

    @classmethod
    def of(cls, table: Table) -> Frame:
        """The frame of an open table."""
        return cls(table.version, table.metadata.id)

    @classmethod
    def parse(cls, text: str | None) -> Frame | None:
        """A frame as the option tells it."""
        if text is None or text == cls.NEW:
            return None
        version, _, table_id = text.partition("@")
        return cls(int(version), table_id)

    def __str__(self) -> str:
        return f"{self.version}@{self.table_id}"

    def check(self, table: Table) -> None:
        """ConflictError if a path has another table by now."""
        if table.metadata.id != self.table_id:
            raise ConflictError(
                f"{table.path} is another table than the one that this DataFrame was made for: it was created anew.",
                hint="Nothing was read. Make the DataFrame again.",
                path=table.path,
                id=table.metadata.id,
                expected=self.table_id,
            )


def open_table(options: SourceOptions, path: str, frame: Frame | None = None) -> Table:
    """The table of a read: at the version that its frame was made at, else at the one that the options ask for."""
    settings = dict(options.settings)
    frame = Frame.parse(options.text("frame")) or frame
    if frame is None:
        version, timestamp = options.number("versionAsOf"), options.text("timestampAsOf")
        return Table.open(path, version=version, timestamp=timestamp, options=settings)
    try:
        table = Table.open(path, version=frame.version, options=settings)
    except VersionNotFoundError:
        # Of a table that was created anew this would say too little.
        frame.check(Table.open(path, options=settings))
        raise
    frame.check(table)
    return table


@dataclass
class SplitGroup(InputPartition):
    """The part of a read that one task does: a scan, or a search."""

    scan: ScanPlan | TableSearch
    limit: int | None = None

    def __repr__(self) -> str:
        return f"SplitGroup({len(self._plan.splits)} splits)"

    @property
    def _plan(self) -> ScanPlan:
        return self.scan.plan if isinstance(self.scan, TableSearch) else self.scan

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of the group."""
        task = ScanTask(self._plan, worker_store(self._plan.spec))
        if not isinstance(self.scan, TableSearch):
            yield from limited(task.batches(), self.limit)
        elif self.limit is not None:
            yield from self.scan.merged(task).to_batches()
        else:
            for table in self.scan.tables(task):
                yield from table.to_batches()


class TableReader(DataSourceReader):
    """Reads the columns of a schema, in its order."""

    def __init__(self, options: SourceOptions, schema: StructType, frame: Frame | None = None) -> None:
        self._options = options
        self._frame = frame
        self._schema = schema
        self._request = ReadRequest.parse(options)

    def partitions(self) -> Sequence[InputPartition]:
        """One group of splits per task. A limit makes it one task, so that it is a limit of the whole."""
        options, request = self._options, self._request
        table = open_table(options, options.required_path(path_in(self._schema)), self._frame)
        columns = self._schema.names
        scan = request.search(table, columns) if request.searches else request.plan(table, columns)
        plan = scan.plan if isinstance(scan, TableSearch) else scan
        only = options.text("only")
        if only is not None:
            # What Spark can read itself is read by Spark itself: a native scan asks for the rest.
            plan = plan.with_splits(splits_of_kind(table, plan.splits, only))
        if isinstance(scan, TableSearch):
            scan = scan.with_splits(plan.splits).weighed(ScanTask(plan))
        if request.limit is not None and not request.limit_is_of_task:
            return [SplitGroup(scan.with_splits(plan.splits), request.limit)]
        per_task = table.settings.group(SparkReadSettings).splits_per_task
        groups = task_groups(plan.splits, per_task=per_task, searching=plan.query is not None)
        return [SplitGroup(scan.with_splits(splits), request.limit) for splits in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a group. Spark makes an empty list of partitions into one that holds nothing."""
        if isinstance(partition, SplitGroup):
            yield from SparkBatches(self._schema)(partition.batches())
            keep_modules()


@cache
def keep_modules() -> None:
    """Tell the garbage collector of this worker, once, that what is loaded by now stays.

    Spark has a worker collect garbage after every task, and the next task waits while it looks through all modules.
    """
    gc.freeze()


@lru_cache(maxsize=8)
def worker_store(spec: StoreSpec) -> Store:
    """The store of a table in this worker, opened once however many tasks come."""
    return open_store(spec)
