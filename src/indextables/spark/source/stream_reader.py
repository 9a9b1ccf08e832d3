"""The stream reader: what is appended to a table, split after split.

An offset is a version of a table and how many of its files have been read; another table at the
same path is an error. A stream starts with a whole snapshot, unless it is told a version to start
with; after that, each version contributes the files it adds. Files that only rearrange rows (a
merge) are passed over. A version that takes rows away is an error unless `ignoreChanges` is set:
then the rows that it adds are read, and those it took away stay with whoever has read them. Rows
that it kept are not read again: a replacement marks the files that hold them, and the files that a
restoration brings back are compared with those that it takes away.

With `readChangeFeed` every row that came or went is read, with what happened to it
(`query/change_feed.py`): such a stream goes on across deletions, updates and restorations.

`StreamOptions` is what a stream asks for; `StreamFiles` says which files it reads and in which
order: the same files for the same offsets, whenever it is asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from indextables.config.spark import SparkReadSettings
from indextables.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    RefusedError,
    UnsupportedError,
    VersionNotFoundError,
)
from indextables.handle import version_of
from indextables.model.actions import AddAction, RemoveAction
from indextables.model.arguments import to_epoch_ms
from indextables.model.conflicts import Operation, files_of_new_rows
from indextables.model.file_list import from_actions, to_actions
from indextables.model.pruning import may_match
from indextables.model.snapshot import CommittedVersion
from indextables.query.change_feed import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    INSERT,
    Change,
    ChangeTask,
    changes_between,
    changes_of,
    check_has_changes,
    row_digests,
)
from indextables.query.plan import ScanPlan, entries, plan_scan
from indextables.query.task import ScanTask
from indextables.spark.compat import (
    STREAMS_HAVE_LIMITS,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from indextables.spark.error_texts import plain_errors
from indextables.spark.schemas import SparkBatches, path_in
from indextables.spark.source.options import ReadRequest, SourceOptions
from indextables.spark.source.reader import Frame, SplitGroup, open_table, task_groups, worker_store
from indextables.splits.read.table_split import SplitEntry
from indextables.storage.spec import StoreSpec, open_store
from indextables.table import Table


class StreamOptions(Struct, frozen=True):
    """The parsed options of a stream."""

    request: ReadRequest
    start: int | Literal["latest"] | None
    """The first version to read; without one the whole table comes first."""
    start_time: str | None
    """The timestamp of the first version, instead."""
    max_files: int | None
    max_bytes: int | None
    ignore_changes: bool
    feed: bool = False
    """Whether rows come with their change type."""

    @classmethod
    def parse(cls, options: SourceOptions) -> StreamOptions:
        """Parse the options; options that have no meaning in a stream raise an error."""
        request = ReadRequest.parse(options)
        if request.aggregate is not None:
            raise InvalidInputError(
                "A stream and a change feed have no option aggregate.",
                hint="Aggregate the frame with Spark.",
            )
        if request.searches:
            raise InvalidInputError(
                "A stream has no limit, scores or snippets.",
                hint="Use query and where alone to filter a stream.",
            )
        limits = [
            name
            for name in ("maxFilesPerTrigger", "maxBytesPerTrigger")
            if options.text(name) is not None
        ]
        if limits and not STREAMS_HAVE_LIMITS:
            raise UnsupportedError(
                f"{limits[0]} needs Spark 4.2 or newer: older versions do not pass the start of a batch to the stream.",
                hint="Leave it out: each batch then reads everything that is there.",
                key=limits[0],
            )
        feed = options.flag("readChangeFeed")
        if feed and (request.query is not None or request.where is not None):
            message = "A stream of changes has neither query nor where."
            raise InvalidInputError(
                message, hint="Filter the frame: a row may come to match, or cease to."
            )
        return cls(
            feed=feed,
            request=request,
            start=options.version("startingVersion"),
            start_time=_one_of(options, "startingVersion", "startingTimestamp"),
            max_files=options.number("maxFilesPerTrigger", 1),
            max_bytes=options.size("maxBytesPerTrigger"),
            ignore_changes=options.flag("ignoreChanges"),
        )

    def plan(self, table: Table, columns: Sequence[str]) -> ScanPlan:
        """Plan the scan that finds the rows."""
        return plan_scan(
            table.handle, query=self.request.query, where=self.request.where, columns=columns
        )

    def check(self, table: Table) -> None:
        """Refuse what this table cannot answer when the stream is defined, not when it runs."""
        self.plan(table, ())
        if isinstance(self.start, int) and self.start > table.version + 1:
            raise VersionNotFoundError(
                f"{table.path} has no version {self.start} to start with: the newest is {table.version}.",
                hint="Start with latest to read only what is written from now on.",
                path=table.path,
                version=self.start,
                newest=table.version,
            )


def _one_of(options: SourceOptions, version: str, moment: str) -> str | None:
    """Return a timestamp that is given instead of a version."""
    if options.text(version) is not None and options.text(moment) is not None:
        raise InvalidInputError(f"Give {version} or {moment}, not both.", key=moment)
    return options.text(moment)


def first_version(table: Table, moment: str) -> int:
    """Return the first version committed at or after a timestamp."""
    try:
        return version_of(table.handle.log, version=None, timestamp=to_epoch_ms(moment) - 1) + 1
    except VersionNotFoundError:
        return 0


FEED_FIELDS = (
    StructField(CHANGE_TYPE, StringType()),
    StructField(COMMIT_VERSION, LongType()),
    StructField(COMMIT_TIMESTAMP, TimestampType()),
)
"""Additional columns of a change stream."""
DONE = -1
_TASKS = 4
ROWS_PER_PART = 2_000_000
"""Number of rows per task when a restore is compared; each holds 16 bytes."""


class Offset(Struct, frozen=True):
    """A position in the history of a table: number of read files of a version, or all (`DONE`).

    In a snapshot the files are all live ones, otherwise those that the version adds. The table's id
    and the version's transaction identify the history.
    """

    version: int
    files: int = DONE
    snapshot: bool = False
    table: str | None = None
    """None in checkpoints of earlier releases: the current table is assumed."""
    txn: str | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Offset:
        """Parse an offset from Spark's checkpoint."""
        place = int(values["version"]), int(values["files"]), bool(values["snapshot"])
        return cls(*place, values.get("table"), values.get("txn"))

    def to_dict(self) -> dict[str, object]:
        """Return the offset for Spark's checkpoint."""
        place = {"version": self.version, "files": self.files, "snapshot": self.snapshot}
        marks = {"table": self.table, "txn": self.txn}
        return {**place, **{key: value for key, value in marks.items() if value is not None}}

    def is_at(self, other: Offset) -> bool:
        """Return whether both are the same position, whatever they know of the history."""
        return (self.version, self.files, self.snapshot) == (
            other.version,
            other.files,
            other.snapshot,
        )


class Restoration(Struct, frozen=True):
    """A restore in one partition: files came back and others were removed, and most rows may be in
    both.
    """

    added: tuple[AddAction, ...]
    removed: tuple[RemoveAction, ...]

    @property
    def size(self) -> int:
        """Return the bytes of restored files."""
        return sum(file.size for file in self.added)

    @property
    def paths(self) -> list[str]:
        """Return the splits that must be read to determine the restored rows."""
        return [file.path for file in self.added] + [file.path for file in self.removed]


@dataclass
class RestoredRows(InputPartition):
    """Restored rows: those of restored files without an equal row in the removed files.

    Duplicates are counted: of three rows after and one before, two are new. Each of several parts
    handles the rows with its digests, which bounds memory.
    """

    added: ScanPlan
    removed: ScanPlan
    columns: tuple[str, ...]
    part: int
    parts: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the requested columns."""
        store = worker_store(self.added.spec)
        digests: Counter[bytes] = Counter()
        for batch in ScanTask(self.removed, store).batches():
            digests.update(digest for digest in row_digests(batch) if self._is_ours(digest))
        for batch in ScanTask(self.added, store).batches():
            new = []
            for place, digest in enumerate(row_digests(batch)):
                if not self._is_ours(digest):
                    continue
                if digests[digest] > 0:
                    digests[digest] -= 1
                else:
                    new.append(place)
            yield batch.take(pa.array(new, pa.int64())).select(list(self.columns))

    def _is_ours(self, digest: bytes) -> bool:
        return int.from_bytes(digest[:4]) % self.parts == self.part


@dataclass
class ChangedRows(InputPartition):
    """Inserted and deleted rows of some splits."""

    task: ChangeTask

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows with their change type."""
        yield from self.task.batches(worker_store(self.task.plan.spec))


Step = AddAction | Restoration | Change
"""What a stream reads at once."""


class StreamFiles:
    """The files of a table in the order of its history."""

    def __init__(
        self, path: str, options: Mapping[str, object], *, ignore_changes: bool, feed: bool = False
    ) -> None:
        self._path = path
        self._options = dict(options)
        self._ignore_changes = ignore_changes
        self._feed = feed

    def newest_version(self) -> int:
        """Return the newest version of the table."""
        return self.table().version

    def newest_offset(self) -> Offset:
        """The end of the newest version, for a Spark that does not pass the start of a batch."""
        table = self.table()
        end = Offset(table.version, table=table.metadata.id)
        version = self._check_history(table, end)
        if version is None:
            return end
        return replace(end, txn=version.info.txn_id)

    def advance(
        self,
        start: Offset,
        until: int,
        *,
        max_files: int | None = None,
        max_bytes: int | None = None,
    ) -> Offset:
        """Return the end of a batch from an offset: at least one file if there is one, at most what
        the limits allow.
        """
        table = self.table(start)
        end, count, size = replace(start, table=table.metadata.id), 0, 0
        for file, offset in self._steps(table, start, until):
            if file is not None:
                size += file.size
                if (max_files is not None and count >= max_files) or (
                    max_bytes is not None and count and size > max_bytes
                ):
                    break
                count += 1
            end = offset
        return end

    def between(
        self, start: Offset, end: Offset
    ) -> tuple[Table, list[AddAction], list[Restoration], list[Change]]:
        """Return the current table, the files between two offsets, and the restores and changes
        among them.
        """
        files: list[AddAction] = []
        restored: list[Restoration] = []
        changes: list[Change] = []
        if not start.is_at(end):
            for file, offset in self._steps(self.table(start, end), start, end.version):
                if isinstance(file, Restoration):
                    restored.append(file)
                elif isinstance(file, Change):
                    changes.append(file)
                elif file is not None:
                    files.append(file)
                if offset.is_at(end):
                    break
        # Opened after the files were found: had the table been created anew meanwhile, they would
        # not all be its own.
        table = self.table(start, end)
        paths = [file.path for file in files] + [path for one in restored for path in one.paths]
        paths += [path for one in changes for path in one.paths]
        self._check_there(table, paths)
        return table, files, restored, changes

    def _check_there(self, table: Table, paths: Sequence[str]) -> None:
        """Refuse files that are no longer live and were purged, before a task fails to find them."""
        if paths:
            live = set(table.files()["path"].to_pylist())
        else:
            live = set()
        old = [path for path in paths if path not in live]
        store = open_store(StoreSpec.from_url(table.path, table.settings))
        missing = next((path for path in old if store.head(path) is None), None)
        if missing is not None:
            raise NotFoundError(
                f"Rows that the stream has yet to read are gone: {missing} was removed from {self._path} and purged.",
                hint="Start a new query with a new checkpoint; it begins with the rows that are there now.",
                path=missing,
            )

    def entries(self, files: list[AddAction], plan: ScanPlan) -> tuple[SplitEntry, ...]:
        """Return the files that can hold a row of the plan, as entries to open."""
        file_list = from_actions(files)
        if plan.where is not None:
            file_list = file_list.filter(
                may_match(plan.where, file_list, partition_columns=plan.partition_columns)
            )
        return entries(file_list)

    def restored_rows(self, restored: Restoration, plan: ScanPlan) -> list[RestoredRows]:
        """Return the tasks that determine which rows a restore brought back. Rows are equal if all
        columns are.
        """
        all_columns = replace(plan, columns=tuple(plan.schema.names))
        added = all_columns.with_splits(self.entries(list(restored.added), plan))
        old_splits = [
            SplitEntry(
                f.path, f.size or 0, None, None, f.partition_values or {}, f.deletion_vector, None
            )
            for f in restored.removed
        ]
        removed = replace(all_columns, query=None, splits=tuple(old_splits))
        rows = sum(file.num_records or ROWS_PER_PART for file in restored.added)
        parts = max(1, -(-rows // ROWS_PER_PART))
        return [
            RestoredRows(added, removed, tuple(plan.output_schema.names), part, parts)
            for part in range(parts)
        ]

    def _steps(
        self, table: Table, start: Offset, until: int
    ) -> Iterator[tuple[Step | None, Offset]]:
        """Yield each file after an offset with the next offset, and the end of each version without
        a file.
        """
        offset = replace(start, table=table.metadata.id)
        if start.files != DONE:
            if start.snapshot:
                files = self._snapshot_files(start.version)
            else:
                files = self._list_added(table, start)
            yield from _number_files(files, offset)
        elif start.txn is not None:
            self._check_history(table, start)
        if until > start.version:
            for version in table.handle.log.since(start.version, until):
                version_start = Offset(
                    version.version, 0, table=table.metadata.id, txn=version.info.txn_id
                )
                yield from _number_files(self._files_of(version), version_start)

    def _snapshot_files(self, version: int) -> Sequence[Step]:
        table = Table.open(self._path, version=version, options=self._options)
        files = sorted(to_actions(table.files()), key=lambda action: action.path)
        if not self._feed:
            return files
        stamp = version, table.handle.snapshot.header.timestamp_ms
        return [Change(INSERT, entry, *stamp) for entry in entries(from_actions(files))]

    def _list_added(self, table: Table, offset: Offset) -> Sequence[Step]:
        version = self._check_history(table, offset)
        if version is None:
            raise VersionNotFoundError(
                f"Version {offset.version} of {self._path} is not in the log any more."
            )
        # An earlier release counted the files of a restoration one by one.
        if offset.table is None and offset.files:
            return files_of_new_rows(version)
        return self._files_of(version)

    def _check_history(self, table: Table, offset: Offset) -> CommittedVersion | None:
        """Return the version of an offset, or None if it is gone. Raises ConflictError if it is not
        the one that was read.
        """
        try:
            version = table.handle.log.since(offset.version - 1, offset.version)[0]
        except VersionNotFoundError:
            return None
        if offset.txn not in (None, version.info.txn_id):
            raise self._other(
                f"version {offset.version} is not the one that the stream has read", offset
            )
        return version

    def _files_of(self, version: CommittedVersion) -> Sequence[Step]:
        """Return the files whose rows a version adds, or all its changes."""
        if self._feed:
            return changes_of(version, self._size_of)
        removes = [a for a in version.actions if isinstance(a, RemoveAction) and a.data_change]
        if removes and not self._ignore_changes:
            raise RefusedError(
                f"Version {version.version} of {self._path} ({version.info.operation}) takes rows away, which a stream "
                "cannot pass on.",
                hint="Set ignoreChanges to read on, or start a new query with a later startingVersion.",
                path=self._path,
                version=version.version,
            )
        new = files_of_new_rows(version)
        if version.info.operation == Operation.RESTORE:
            return restorations(new, removes)
        return new

    def _size_of(self, path: str) -> int:
        """Return the size of a split that the log lacks; 0 if it is gone, which is detected before
        reading.
        """
        table = self.table()
        info = open_store(StoreSpec.from_url(table.path, table.settings)).head(path)
        if info is None:
            return 0
        return info.size

    def table(self, *offsets: Offset) -> Table:
        """Return the current table. Raises ConflictError if it is not that of the offsets."""
        table = Table.open(self._path, options=self._options, max_staleness=0)
        check_has_changes(table.handle)
        for offset in offsets:
            if offset.table not in (None, table.metadata.id):
                raise self._other("it was created anew", offset)
            if offset.version > table.version:
                raise self._other(
                    f"the stream has read up to version {offset.version}, and the newest is {table.version}",
                    offset,
                )
        return table

    def _other(self, why: str, offset: Offset) -> ConflictError:
        return ConflictError(
            f"{self._path} is another table than the one that the stream has read up to version {offset.version}: {why}.",
            hint="Start a new query with a new checkpoint; it begins with the rows that are there now.",
            path=self._path,
            version=offset.version,
        )


def restorations(
    added: Sequence[AddAction], removed: Sequence[RemoveAction]
) -> list[AddAction | Restoration]:
    """Return what a restore did by partition; without removed files, its files unchanged."""
    steps: list[AddAction | Restoration] = []
    came: dict[tuple[tuple[str, str | None], ...], list[AddAction]] = {}
    for file in added:
        came.setdefault(_partition(file), []).append(file)
    went: dict[tuple[tuple[str, str | None], ...], list[RemoveAction]] = {}
    for removal in removed:
        went.setdefault(_partition(removal), []).append(removal)
    for partition, files in came.items():
        if partition in went:
            steps.append(Restoration(tuple(files), tuple(went[partition])))
        else:
            steps += files
    return steps


def _partition(file: AddAction | RemoveAction) -> tuple[tuple[str, str | None], ...]:
    return tuple(sorted((file.partition_values or {}).items()))


def _number_files(files: Sequence[Step], start: Offset) -> Iterator[tuple[Step | None, Offset]]:
    for place in range(start.files, len(files)):
        yield files[place], replace(start, files=place + 1)
    yield None, replace(start, files=DONE, snapshot=False)


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a table."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._schema = schema
        self._options = options
        self._until: int | None = None

    # Looked at when first used: of an error in the constructor Spark tells nothing but that there
    # is no reader.

    @cached_property
    def _stream_options(self) -> StreamOptions:
        return StreamOptions.parse(self._options)

    @cached_property
    def _files(self) -> StreamFiles:
        return StreamFiles(
            self._options.required_path(path_in(self._schema)),
            dict(self._options.settings),
            ignore_changes=self._stream_options.ignore_changes,
            feed=self._stream_options.feed,
        )

    @plain_errors
    def initialOffset(self) -> dict[str, object]:  # noqa: N802
        """Return the start of a new query: `startingVersion`, or the whole current table."""
        start, table = self._stream_options.start, self._files.table()
        self._stream_options.check(table)
        if self._stream_options.start_time is not None:
            start = first_version(table, self._stream_options.start_time)
        if start is None:
            return Offset(table.version, 0, snapshot=True, table=table.metadata.id).to_dict()
        return Offset(
            table.version if start == "latest" else start - 1, table=table.metadata.id
        ).to_dict()

    @plain_errors
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read no further than the current version."""
        self._until = self._files.newest_version()

    @plain_errors
    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of one batch."""
        if self._stream_options.max_files is not None:
            return ReadMaxFiles(self._stream_options.max_files)
        size = self._stream_options.max_bytes
        if size is None:
            return ReadAllAvailable()
        return ReadMaxBytes(size)

    @plain_errors
    def latestOffset(  # noqa: N802
        self, start: dict[str, object] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, object]:
        """Return the end of the next batch; without its start (before Spark 4.2) the newest
        version.
        """
        if start is None:
            return self._files.newest_offset().to_dict()
        if isinstance(limit, ReadMaxFiles):
            most_files = limit.max_files
        else:
            most_files = None
        if isinstance(limit, ReadMaxBytes):
            most_bytes = limit.max_bytes
        else:
            most_bytes = None
        if self._until is None:
            until = self._files.newest_version()
        else:
            until = self._until
        end = self._files.advance(
            Offset.of(start), until, max_files=most_files, max_bytes=most_bytes
        )
        return end.to_dict()

    @plain_errors
    def partitions(
        self, start: dict[str, object], end: dict[str, object]
    ) -> Sequence[InputPartition]:
        """Return the tasks of a batch."""
        table, files, restored, changes = self._files.between(Offset.of(start), Offset.of(end))
        if self._stream_options.feed:
            return self._changed_rows(table, changes)
        plan = self._stream_options.plan(table, self._schema.names)
        plan = plan.with_splits(self._files.entries(files, plan))
        settings = table.settings.group(SparkReadSettings)
        per_task, most = settings.splits_per_task, settings.max_splits_per_task
        groups = task_groups(
            plan.splits, per_task=per_task, most=most, searching=plan.query is not None
        )
        compared = [task for one in restored for task in self._files.restored_rows(one, plan)]
        return [*(SplitGroup(plan.with_splits(splits)) for splits in groups), *compared]

    def _changed_rows(self, table: Table, changes: Sequence[Change]) -> list[ChangedRows]:
        told = {field.name for field in FEED_FIELDS}
        columns = [name for name in self._schema.names if name not in told]
        plan = plan_scan(table.handle, columns=columns)
        return [ChangedRows(ChangeTask.of(plan, [change])) for change in changes]

    @plain_errors
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        if isinstance(partition, ChangedRows):
            yield from SparkBatches(self._schema)(
                batch.select(self._schema.names) for batch in partition.batches()
            )
        elif isinstance(partition, (SplitGroup, RestoredRows)):
            yield from SparkBatches(self._schema)(partition.batches())

    def commit(self, end: dict[str, object]) -> None:
        """Do nothing: no state needs to be released."""


class ChangeReader(DataSourceReader):
    """Reads the changes of a table from one version to another, both inclusive."""

    def __init__(self, options: SourceOptions, schema: StructType, frame: Frame | None) -> None:
        self._options = options
        self._schema = schema
        self._frame = frame
        StreamOptions.parse(options)  # what makes no sense in a feed is an error

    @plain_errors
    def partitions(self) -> Sequence[InputPartition]:
        """Return changes in version order, in about as many tasks as run concurrently."""
        table = open_table(
            self._options, self._options.required_path(path_in(self._schema)), self._frame
        )
        check_has_changes(table.handle)
        told = {field.name for field in FEED_FIELDS}
        columns = [name for name in self._schema.names if name not in told]
        changes = changes_between(table.handle.log, *self._versions(table), newest=table.version)
        each = -(-len(changes) // (2 * (self._options.number("parallelism") or _TASKS))) or 1
        parts = [changes[start : start + each] for start in range(0, len(changes), each)]
        plan = plan_scan(table.handle, columns=columns)
        return [ChangedRows(ChangeTask.of(plan, part)) for part in parts]

    def _versions(self, table: Table) -> tuple[int, int]:
        start_time = _one_of(self._options, "startingVersion", "startingTimestamp")
        end_time = _one_of(self._options, "endingVersion", "endingTimestamp")
        first = self._options.number("startingVersion")
        if start_time is not None:
            first = first_version(table, start_time)
        if first is None:
            raise InvalidInputError(
                "A read of changes needs the version to begin with.",
                hint='Give .option("startingVersion", 1), or startingTimestamp; endingVersion is the last one.',
                key="startingVersion",
            )
        last = self._options.number("endingVersion")
        if end_time is not None:
            last = min(
                version_of(table.handle.log, version=None, timestamp=end_time), table.version
            )
        return first, table.version if last is None else last

    @plain_errors
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        if isinstance(partition, ChangedRows):
            yield from SparkBatches(self._schema)(
                batch.select(self._schema.names) for batch in partition.batches()
            )
