"""The batch reader: the planner prunes and groups splits, each task searches and reads its group.

Groups are large enough for the start of a task to pay, and numerous enough to use all cores. Our
splits are Parquet files; bundles of other engines are not, and Spark cannot read them.
"""

from __future__ import annotations

import datetime as dt
import gc
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_parts
from functools import cache, lru_cache
from typing import ClassVar, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from indextables import config
from indextables.config.indexing import SearchSettings
from indextables.config.spark import SparkReadSettings
from indextables.errors import ConflictError, NotFoundError, VersionNotFoundError
from indextables.model.relative_times import from_zone
from indextables.model.schema import SCORE, SNIPPET
from indextables.model.values import parse_timestamp
from indextables.pools import SPLITS
from indextables.query.plan import ScanPlan
from indextables.query.search import TableSearch
from indextables.query.task import ScanTask
from indextables.spark.error_texts import plain_errors
from indextables.spark.schemas import SparkBatches, path_in
from indextables.spark.source.answers import (
    AnswerSize,
    PushedAggregation,
    answer_size,
    as_stream,
    check_sum,
)
from indextables.spark.source.filters import PLACE, MatchColumns
from indextables.spark.source.options import ReadRequest, SourceOptions
from indextables.spark.worker_metrics import store_metrics
from indextables.splits.read.table_split import SplitEntry
from indextables.storage.spec import StoreSpec, open_store
from indextables.storage.store import Store
from indextables.table import Table

_MAGIC = b"PAR1"
_THREADS = 16


def parquet_splits(table: Table, files: pa.Table, *, whole: bool = False) -> pa.BooleanArray:
    """Return which files are Parquet; with `whole` only those without a deletion vector.

    The log decides for our files; the last bytes of others are read. No split of a companion has
    rows.
    """
    if table.handle.companion is not None:
        return pa.array(np.zeros(files.num_rows, np.bool_))
    parquet = (
        pc.fill_null(pc.match_substring(files["stats"], '"nullCount"'), False).to_numpy().copy()
    )
    doubtful = np.flatnonzero(~parquet)
    if len(doubtful):
        store = open_store(StoreSpec.from_url(table.path, table.settings))
        paths = files["path"].take(doubtful).to_pylist()
        sizes = files["size"].take(doubtful).to_pylist()

        def ends_as_parquet(split: tuple[str, int]) -> bool:
            path, size = split
            try:
                return (
                    size > 2 * len(_MAGIC)
                    and store.get_range(path, size - len(_MAGIC), len(_MAGIC)) == _MAGIC
                )
            except NotFoundError:
                return False  # the data source says that it is missing, should somebody read it

        parquet[doubtful] = list(
            SPLITS.each(ends_as_parquet, zip(paths, sizes, strict=True), parallelism=_THREADS)
        )
    if whole:
        parquet &= pc.is_null(files["deletion_vector"]).to_numpy(zero_copy_only=False)
    return pa.array(parquet)


def splits_of_kind(table: Table, splits: Sequence[SplitEntry], kind: str) -> list[SplitEntry]:
    """Return the splits that are `parquet`, `foreign`, or `foreign or changed` (by a vector)."""
    files = table.files()
    ours = set(
        files["path"]
        .filter(parquet_splits(table, files, whole=kind == "foreign or changed"))
        .to_pylist()
    )
    return [entry for entry in splits if (entry.path in ours) == (kind == "parquet")]


SCAN_BYTES = 128 << 20
"""Bytes that one task scans, equal to Spark's size of file partitions."""
SEARCH_BYTES = 1 << 30
"""Bytes that one task searches: only a small part of a searched split is read."""


def task_groups(
    splits: Sequence[SplitEntry],
    *,
    per_task: int,
    searching: bool,
    parallelism: int | None = None,
    most: int = 0,
) -> Iterator[tuple[SplitEntry, ...]]:
    """Divide splits into tasks, in order.

    `per_task` 0 divides by size and the number of concurrent tasks (`parallelism`), with at most
    `most` splits per task unless that is 0.
    """
    if per_task:
        for start in range(0, len(splits), per_task):
            yield tuple(splits[start : start + per_task])
        return
    total = sum(entry.size for entry in splits)
    tasks = max(
        -(-total // (SEARCH_BYTES if searching else SCAN_BYTES)),
        min(len(splits), 2 * (parallelism or 0)),
        1,
    )
    groups: list[list[SplitEntry]] = [[] for _ in range(tasks)]
    before = 0
    for entry in splits:
        # By where the middle of the split lies among all bytes: tasks of equal size, as far as
        # splits allow it.
        groups[min(tasks - 1, (2 * before + entry.size) * tasks // max(2 * total, 1))].append(entry)
        before += entry.size
    for group in groups:
        for start in range(0, len(group), most or max(len(group), 1)):
            yield tuple(group[start : start + (most or len(group))])


class Frame(Struct, frozen=True):
    """The table and version of a DataFrame, independent of what is at the path later."""

    version: int
    table_id: str
    source: str = ""
    """The version of the source of a companion, where the format of the source counts versions."""

    NEW: ClassVar[str] = "new"
    """Option value with which the extension requests the frame in the schema."""

    @classmethod
    def of(cls, table: Table) -> Frame:
        """Return the frame of an open table."""
        companion = table.handle.companion
        number = None if companion is None else companion.source.number
        return cls(table.version, table.metadata.id, "" if number is None else str(number))

    @classmethod
    def parse(cls, text: str | None) -> Frame | None:
        """Parse a frame from its option."""
        if text is None or text == cls.NEW:
            return None
        version, _, rest = text.partition("@")
        table_id, _, source = rest.partition("@")
        return cls(int(version), table_id, source)

    def __str__(self) -> str:
        text = f"{self.version}@{self.table_id}"
        return f"{text}@{self.source}" if self.source else text

    @property
    def at(self) -> int | None:
        """The version of the source, as `Table.open` takes it."""
        return int(self.source) if self.source else None

    def check(self, table: Table) -> None:
        """Raise ConflictError if another table is at the path now."""
        if table.metadata.id != self.table_id:
            raise ConflictError(
                f"{table.path} is another table than the one that this DataFrame was made for: it was created anew.",
                hint="Nothing was read. Make the DataFrame again.",
                path=table.path,
                id=table.metadata.id,
                expected=self.table_id,
            )


def open_table(options: SourceOptions, path: str, frame: Frame | None = None) -> Table:
    """Open the table of a read at the version of its frame, or at the one in the options."""
    settings = dict(options.settings)
    frame = Frame.parse(options.text("frame")) or frame
    if frame is None:
        version, timestamp = options.number("versionAsOf"), options.text("timestampAsOf")
        table = Table.open(
            path, version=version, timestamp=_moment_of(timestamp, settings), options=settings
        )
        return _as_named(table, options)
    try:
        table = Table.open(path, version=frame.version, at=frame.at, options=settings)
    except VersionNotFoundError:
        # Of a table that was created anew this would say too little.
        frame.check(Table.open(path, options=settings))
        raise
    frame.check(table)
    return _as_named(table, options)


def _moment_of(text: str | None, settings: Mapping[str, object]) -> str | dt.datetime | None:
    """Return the timestamp of a read; without a zone it is in the session's, as in `TIMESTAMP AS
    OF`.
    """
    if text is None:
        return None
    try:
        return from_zone(
            parse_timestamp(text), config.resolve(options=settings).group(SearchSettings).time_zone
        )
    except ValueError:
        return text  # a number, or refused in words where it is looked up


def _as_named(table: Table, options: SourceOptions) -> Table:
    """Return the table with the column names of the read: Spark's own scan uses physical ones."""
    if options.flag("physicalNames"):
        return Table(table.handle.physical_view())
    return table


AnyScan = TypeVar("AnyScan", ScanPlan, TableSearch, ScanPlan | TableSearch)


@dataclass
class SplitGroup(InputPartition):
    """The part of a read in one task: a scan, a search, or an aggregation of a scan."""

    scan: ScanPlan | TableSearch
    limit: int | None = None
    aggregation: PushedAggregation | None = None
    matches: MatchColumns | None = None
    columns: tuple[str, ...] = ()
    """With match columns: all columns, in order."""

    def __repr__(self) -> str:
        return f"SplitGroup({len(plan_of(self.scan).splits)} splits)"

    def batches(self, store: Store | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the group."""
        task = ScanTask(plan_of(self.scan), store)
        if self.matches is not None:
            yield from self.matches.batches(task, self.columns)
        elif self.aggregation is not None:
            yield from self.aggregation.of(task).to_batches()
        elif not isinstance(self.scan, TableSearch):
            yield from task.batches() if self.limit is None else task.first(self.limit)
        elif self.limit is not None:
            yield from self.scan.merged(task).to_batches()
        else:
            for table in self.scan.tables(task):
                yield from table.to_batches()


def plan_of(scan: ScanPlan | TableSearch) -> ScanPlan:
    """Return the scan of a search."""
    if isinstance(scan, TableSearch):
        return scan.plan
    return scan


class TableReader(DataSourceReader):
    """Reads the columns of a schema, in order."""

    def __init__(
        self, options: SourceOptions, schema: StructType, frame: Frame | None = None
    ) -> None:
        self._options = options
        self._frame = frame
        self._schema = schema
        self._request = ReadRequest.parse(options)
        self._planned: SplitGroup | None = None

    @plain_errors
    def partitions(self) -> Sequence[InputPartition]:
        """Return one group of splits per task. A limit makes it one task."""
        request, table = self._request, self._table()
        whole = self._whole(table)
        if isinstance(whole.scan, TableSearch):
            whole.scan = whole.scan.weigh(ScanTask(whole.scan.plan))
        if request.limit is not None and not request.limit_is_of_task:
            return [whole]
        plan = plan_of(whole.scan)
        settings = table.settings.group(SparkReadSettings)
        groups = task_groups(
            plan.splits,
            per_task=settings.splits_per_task,
            most=settings.max_splits_per_task,
            searching=plan.query is not None,
            parallelism=self._options.number("parallelism"),
        )
        return [with_parts(whole, scan=whole.scan.with_splits(splits)) for splits in groups]

    @plain_errors
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a group. Spark turns an empty list of partitions into an empty one."""
        if isinstance(partition, SplitGroup):
            yield from self._conform(partition, worker_store(plan_of(partition.scan).spec))
            store_metrics()
            keep_modules()

    def size(self) -> AnswerSize:
        """Return the size of the read. Its plan is kept for the rows."""
        table = self._table()
        whole = self._planned = self._whole(table)
        return answer_size(
            plan_of(whole.scan),
            self._schema,
            limit=whole.limit,
            aggregation=whole.aggregation,
            most_splits=table.settings.group(SparkReadSettings).driver_splits,
            thorough=self._options.flag("thorough"),
        )

    def answer(self) -> bytes:
        """Return all rows in this process as an Arrow stream."""
        whole = self._planned or self._whole(self._table())
        if isinstance(whole.scan, TableSearch):
            whole.scan = whole.scan.weigh(ScanTask(whole.scan.plan))
        batches = list(self._conform(whole))
        return as_stream(SparkBatches(self._schema).schema, batches)

    def exact_filters(self) -> str:
        """Return which filters the read applies exactly as Spark would: a letter for each, y or n."""
        return self._request.exact_filters(self._table())

    def _table(self) -> Table:
        return open_table(
            self._options, self._options.required_path(path_in(self._schema)), self._frame
        )

    def _whole(self, table: Table) -> SplitGroup:
        """Return the read as one task."""
        request = self._request
        matches = request.match_columns(table)
        besides = [name for name in self._schema.names if name not in table.schema.names]
        if PLACE in besides:
            place = self._schema[PLACE].dataType
            assert isinstance(place, StructType)
            files = table.files()
            times = dict(
                zip(files["path"].to_pylist(), files["modification_time"].to_pylist(), strict=True)
            )
            matches = replace(
                matches or MatchColumns({}),
                places=tuple(place.names),
                folder=table.path,
                times=times,
            )
        if matches is not None:
            names = tuple(self._schema.names)
            stored = [name for name in names if name not in matches.queries and name != PLACE]
            # A row of match columns alone still has to be read from something.
            plan = request.plan(table, stored or table.schema.names[:1])
            return SplitGroup(self._of_kind(table, plan), matches=matches, columns=names)
        aggregation = PushedAggregation.parse(request.aggregation, table.schema)
        columns = self._schema.names if aggregation is None else aggregation.columns
        scan: ScanPlan | TableSearch | None = request.first(table, columns)
        if request.order is None or scan is not None:
            limit = request.rows
        else:
            limit = None
        if request.searches:
            scan, limit = request.search(table, columns), request.limit
        elif SCORE in besides or SNIPPET in besides:
            scan, limit = request.ranked(table, columns), request.best
        elif scan is None:
            scan, limit = (
                request.plan(table, columns),
                limit if request.limit is None else request.limit,
            )
        return SplitGroup(self._of_kind(table, scan), limit, aggregation)

    def _of_kind(self, table: Table, scan: AnyScan) -> AnyScan:
        """Restrict a scan to splits that Spark cannot read itself, or to named splits, if
        requested.
        """
        only = self._options.text("only")
        if only is None:
            return scan
        splits = plan_of(scan).splits
        if only.startswith("["):
            named = set(json.loads(only))
            return scan.with_splits([entry for entry in splits if entry.path in named])
        return scan.with_splits(splits_of_kind(table, splits, only))

    def _conform(self, group: SplitGroup, store: Store | None = None) -> Iterator[pa.RecordBatch]:
        batches = SparkBatches(self._schema)
        if (
            isinstance(group.scan, TableSearch)
            and group.aggregation is None
            and group.matches is None
        ):
            # A limited search returns its scores, also where Spark wants none of them.
            return batches(batch.select(self._schema.names) for batch in group.batches(store))
        if group.aggregation is None:
            return batches(group.batches(store))
        parts = list(group.batches(store))
        return iter(
            check_sum(pa.Table.from_batches(parts), batches.schema).to_batches() if parts else ()
        )


@cache
def keep_modules() -> None:
    """Exclude loaded modules from garbage collection in this worker, once.

    Spark collects garbage after every task, and the next task would wait while all modules are
    traversed.
    """
    gc.freeze()


@lru_cache(maxsize=8)
def worker_store(spec: StoreSpec) -> Store:
    """Return the store of a table in this worker, opened once for all tasks."""
    return open_store(spec)
