"""Which files a stream reads, and in which order: the same files for the same offsets, whenever it is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace
from pyspark.sql.datasource import InputPartition

from indextables.errors import ConflictError, NotFoundError, RefusedError, VersionNotFoundError
from indextables.model.actions import AddAction, RemoveAction
from indextables.model.conflicts import Operation
from indextables.model.file_list import from_actions, to_actions
from indextables.model.new_rows import files_of_new_rows
from indextables.model.pruning import may_match
from indextables.model.snapshot import CommittedVersion
from indextables.scan.plan import ScanPlan, entries
from indextables.scan.task import ScanTask
from indextables.spark.source.reader import worker_store
from indextables.splits.table_split import SplitEntry
from indextables.storage.spec import StoreSpec, open_store
from indextables.table import Table

DONE = -1
ROWS_PER_PART = 2_000_000
"""So many rows that a restoration took away are held by one task, 16 bytes of each."""


class Offset(Struct, frozen=True):
    """A place in the history of a table: so many files of a version are read, or all of them (`DONE`).

    In a snapshot the files are all that are live at the version, otherwise those that the version adds. The table's id
    and the transaction that made the version say which history it is: numbers are the same in any other.
    """

    version: int
    files: int = DONE
    snapshot: bool = False
    table: str | None = None
    """None in checkpoints of earlier releases: taken for the table that is there."""
    txn: str | None = None

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Offset:
        """The offset as Spark keeps it in its checkpoint."""
        place = int(told["version"]), int(told["files"]), bool(told["snapshot"])
        return cls(*place, told.get("table"), told.get("txn"))

    def to_dict(self) -> dict[str, object]:
        """What Spark keeps."""
        place = {"version": self.version, "files": self.files, "snapshot": self.snapshot}
        marks = {"table": self.table, "txn": self.txn}
        return {**place, **{key: value for key, value in marks.items() if value is not None}}

    def is_at(self, other: Offset) -> bool:
        """Whether both are the same place, however much they know of its history."""
        return (self.version, self.files, self.snapshot) == (other.version, other.files, other.snapshot)


class Restoration(Struct, frozen=True):
    """What a restoration did to one partition: files came back and others went, and most rows may be in both."""

    added: tuple[AddAction, ...]
    removed: tuple[RemoveAction, ...]

    @property
    def size(self) -> int:
        """The bytes that come back."""
        return sum(file.size for file in self.added)

    @property
    def paths(self) -> list[str]:
        """The splits that must be read to know what came back."""
        return [file.path for file in self.added] + [file.path for file in self.removed]


@dataclass
class RestoredRows(InputPartition):
    """Rows that a restoration brought back: those of its files that no row of the files it took away equals.

    Equal rows are counted, so that of three that are there after it and one before it two are new. Of several parts each
    does the rows whose digest is its own, so that what it must remember stays small.
    """

    added: ScanPlan
    removed: ScanPlan
    columns: tuple[str, ...]
    part: int
    parts: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in the columns that are wanted."""
        store = worker_store(self.added.spec)
        known: Counter[bytes] = Counter()
        for batch in ScanTask(self.removed, store).batches():
            known.update(digest for digest in _digests(batch) if self._is_ours(digest))
        for batch in ScanTask(self.added, store).batches():
            new = []
            for place, digest in enumerate(_digests(batch)):
                if not self._is_ours(digest):
                    continue
                if known[digest] > 0:
                    known[digest] -= 1
                else:
                    new.append(place)
            yield batch.take(pa.array(new, pa.int64())).select(list(self.columns))

    def _is_ours(self, digest: bytes) -> bool:
        return int.from_bytes(digest[:4]) % self.parts == self.part


def _digests(batch: pa.RecordBatch) -> Iterator[bytes]:
    """A digest of each row; -0.0 is 0.0 and NaN is NaN, as the columns' types compare them."""
    values = [column.to_pylist() for column in batch.columns]
    for row in zip(*values, strict=True):
        told = repr(tuple(v + 0.0 if isinstance(v, float) else v for v in row))
        yield blake2b(told.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class StreamFiles:
    """The files of a table in the order of its history."""

    def __init__(self, path: str, options: Mapping[str, object], *, ignore_changes: bool) -> None:
        self._path = path
        self._options = dict(options)
        self._ignore_changes = ignore_changes

    def newest_version(self) -> int:
        """The newest version of the table."""
        return self.table().version

    def advance(
        self, start: Offset, until: int, *, max_files: int | None = None, max_bytes: int | None = None
    ) -> Offset:
        """How far a batch goes from an offset: at least one file if there is one, at most what the limits allow."""
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

    def between(self, start: Offset, end: Offset) -> tuple[Table, list[AddAction], list[Restoration]]:
        """The table as it is now, the files after one offset up to another, and what was restored between them."""
        found: list[AddAction] = []
        restored: list[Restoration] = []
        if not start.is_at(end):
            for file, offset in self._steps(self.table(start, end), start, end.version):
                if isinstance(file, Restoration):
                    restored.append(file)
                elif file is not None:
                    found.append(file)
                if offset.is_at(end):
                    break
        # Opened after the files were found: had the table been created anew meanwhile, they would not all be its own.
        table = self.table(start, end)
        self._check_there(table, [file.path for file in found] + [path for one in restored for path in one.paths])
        return table, found, restored

    def _check_there(self, table: Table, paths: Sequence[str]) -> None:
        """A split that is not live any more may have been purged: said here, and not by a task that cannot find it."""
        live = set(table.files()["path"].to_pylist()) if paths else set()
        old = [path for path in paths if path not in live]
        store = open_store(StoreSpec.from_url(table.path, table.settings))
        gone = next((path for path in old if store.head(path) is None), None)
        if gone is not None:
            raise NotFoundError(
                f"Rows that the stream has yet to read are gone: {gone} was removed from {self._path} and purged.",
                hint="Start a new query with a new checkpoint; it begins with the rows that are there now.",
                path=gone,
            )

    def entries(self, table: Table, files: list[AddAction], plan: ScanPlan) -> tuple[SplitEntry, ...]:
        """Those files that can hold a row of the plan, as entries to open."""
        listed = from_actions(files)
        if plan.where is not None:
            listed = listed.filter(may_match(plan.where, listed, partition_columns=table.partition_columns))
        return entries(listed)

    def restored_rows(self, table: Table, restored: Restoration, plan: ScanPlan) -> list[RestoredRows]:
        """The tasks that find which rows a restoration brought back. Rows are equal if all their columns are."""
        whole = replace(plan, columns=tuple(table.schema.names))
        added = whole.with_splits(self.entries(table, list(restored.added), plan))
        gone = [SplitEntry(f.path, f.size or 0, None, None, f.partition_values or {}) for f in restored.removed]
        removed = replace(whole, query=None, splits=tuple(gone))
        rows = sum(file.num_records or ROWS_PER_PART for file in restored.added)
        parts = max(1, -(-rows // ROWS_PER_PART))
        return [RestoredRows(added, removed, plan.columns, part, parts) for part in range(parts)]

    def _steps(
        self, table: Table, start: Offset, until: int
    ) -> Iterator[tuple[AddAction | Restoration | None, Offset]]:
        """Each file after an offset with the offset behind it; the end of each version without a file."""
        known = replace(start, table=table.metadata.id)
        if start.files != DONE:
            files = self._snapshot_files(start.version) if start.snapshot else self._added(table, start)
            yield from _counted(files, known)
        elif start.txn is not None:
            self._check_history(table, start)
        if until > start.version:
            for version in table.versions(after=start.version, until=until):
                made = Offset(version.version, 0, table=table.metadata.id, txn=version.info.txn_id)
                yield from _counted(self._files_of(version), made)

    def _snapshot_files(self, version: int) -> list[AddAction]:
        files: pa.Table = Table.open(self._path, version=version, options=self._options).files()
        return sorted(to_actions(files), key=lambda action: action.path)

    def _added(self, table: Table, offset: Offset) -> Sequence[AddAction | Restoration]:
        version = self._check_history(table, offset)
        if version is None:
            raise VersionNotFoundError(f"Version {offset.version} of {self._path} is not in the log any more.")
        # An earlier release counted the files of a restoration one by one.
        return files_of_new_rows(version) if offset.table is None and offset.files else self._files_of(version)

    def _check_history(self, table: Table, offset: Offset) -> CommittedVersion | None:
        """The version of an offset; ConflictError if it is not the one that was read, None if it is not there any more."""
        try:
            version = table.versions(after=offset.version - 1, until=offset.version)[0]
        except VersionNotFoundError:
            return None
        if offset.txn not in (None, version.info.txn_id):
            raise self._other(f"version {offset.version} is not the one that the stream has read", offset)
        return version

    def _files_of(self, version: CommittedVersion) -> Sequence[AddAction | Restoration]:
        """The files whose rows a version adds."""
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
        return restorations(new, removes) if version.info.operation == Operation.RESTORE else new

    def table(self, *offsets: Offset) -> Table:
        """The table as it is now; ConflictError if it is not the one that the offsets are of."""
        table = Table.open(self._path, options=self._options, max_staleness=0)
        for offset in offsets:
            if offset.table not in (None, table.metadata.id):
                raise self._other("it was created anew", offset)
            if offset.version > table.version:
                raise self._other(
                    f"the stream has read up to version {offset.version}, and the newest is {table.version}", offset
                )
        return table

    def _other(self, why: str, offset: Offset) -> ConflictError:
        return ConflictError(
            f"{self._path} is another table than the one that the stream has read up to version {offset.version}: {why}.",
            hint="Start a new query with a new checkpoint; it begins with the rows that are there now.",
            path=self._path,
            version=offset.version,
        )


def restorations(added: Sequence[AddAction], removed: Sequence[RemoveAction]) -> list[AddAction | Restoration]:
    """What a restoration did, partition by partition; where it took nothing away, its files as they are."""
    found: list[AddAction | Restoration] = []
    came: dict[tuple[tuple[str, str | None], ...], list[AddAction]] = {}
    for file in added:
        came.setdefault(_partition(file), []).append(file)
    went: dict[tuple[tuple[str, str | None], ...], list[RemoveAction]] = {}
    for gone in removed:
        went.setdefault(_partition(gone), []).append(gone)
    for partition, files in came.items():
        if partition in went:
            found.append(Restoration(tuple(files), tuple(went[partition])))
        else:
            found += files
    return found


def _partition(file: AddAction | RemoveAction) -> tuple[tuple[str, str | None], ...]:
    return tuple(sorted((file.partition_values or {}).items()))


def _counted(
    files: Sequence[AddAction | Restoration], start: Offset
) -> Iterator[tuple[AddAction | Restoration | None, Offset]]:
    for place in range(start.files, len(files)):
        yield files[place], replace(start, files=place + 1)
    yield None, replace(start, files=DONE, snapshot=False)
