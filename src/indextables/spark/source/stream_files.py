"""Which files a stream reads, and in which order: the same files for the same offsets, whenever it is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct

from indextables.errors import NotFoundError, RefusedError
from indextables.model.actions import AddAction, RemoveAction
from indextables.model.file_list import from_actions, to_actions
from indextables.model.new_rows import files_of_new_rows
from indextables.model.pruning import may_match
from indextables.model.snapshot import CommittedVersion
from indextables.scan.plan import ScanPlan, entries
from indextables.splits.table_split import SplitEntry
from indextables.storage.spec import StoreSpec, open_store
from indextables.table import Table

DONE = -1


class Offset(Struct, frozen=True):
    """A place in the history of a table: so many files of a version are read, or all of them (`DONE`).

    In a snapshot the files are all that are live at the version, otherwise those that the version adds.
    """

    version: int
    files: int = DONE
    snapshot: bool = False

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Offset:
        """The offset as Spark keeps it in its checkpoint."""
        return cls(int(told["version"]), int(told["files"]), bool(told["snapshot"]))

    def to_dict(self) -> dict[str, object]:
        """What Spark keeps."""
        return {"version": self.version, "files": self.files, "snapshot": self.snapshot}


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
        end, count, size = start, 0, 0
        for file, offset in self._steps(start, until):
            if file is not None:
                size += file.size
                if (max_files is not None and count >= max_files) or (
                    max_bytes is not None and count and size > max_bytes
                ):
                    break
                count += 1
            end = offset
        return end

    def between(self, start: Offset, end: Offset) -> tuple[Table, list[AddAction]]:
        """The table as it is now, and the files after one offset up to another."""
        found = []
        if start != end:
            for file, offset in self._steps(start, end.version):
                if file is not None:
                    found.append(file)
                if offset == end:
                    break
        table = self.table()
        self._check_there(table, found)
        return table, found

    def _check_there(self, table: Table, files: Sequence[AddAction]) -> None:
        """A split that is not live any more may have been purged: said here, and not by a task that cannot find it."""
        live = set(table.files()["path"].to_pylist()) if files else set()
        old = [file.path for file in files if file.path not in live]
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

    def _steps(self, start: Offset, until: int) -> Iterator[tuple[AddAction | None, Offset]]:
        """Each file after an offset with the offset behind it; the end of each version without a file."""
        if start.files != DONE:
            files = self._snapshot_files(start.version) if start.snapshot else self._added(start.version)
            yield from _counted(files, start)
        if until > start.version:
            for version in self.table().versions(after=start.version, until=until):
                yield from _counted(self._files_of(version), Offset(version.version, 0))

    def _snapshot_files(self, version: int) -> list[AddAction]:
        files: pa.Table = Table.open(self._path, version=version, options=self._options).files()
        return sorted(to_actions(files), key=lambda action: action.path)

    def _added(self, version: int) -> list[AddAction]:
        return self._files_of(self.table().versions(after=version - 1, until=version)[0])

    def _files_of(self, version: CommittedVersion) -> list[AddAction]:
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
        return files_of_new_rows(version)

    def table(self) -> Table:
        """The table as it is now."""
        return Table.open(self._path, options=self._options)


def _counted(files: list[AddAction], start: Offset) -> Iterator[tuple[AddAction | None, Offset]]:
    for place in range(start.files, len(files)):
        yield files[place], Offset(start.version, place + 1, start.snapshot)
    yield None, Offset(start.version, DONE)
