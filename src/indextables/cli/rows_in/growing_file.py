"""Follow a log that grows and rotates: every line becomes a row of a table once, across restarts.

The position after the lines is committed together with their rows, as the version of a transaction
whose application id identifies the file. After a crash the table itself holds the position, so no
line is lost or duplicated.

| event | action of the follower |
|---|---|
| the log is renamed and replaced by a new file | reads both files; the old one as long as it is
    written to |
| the log rotates, once or several times, while no follower runs | finds the rotated files by name
    and continues where it stopped |
| the log is copied and truncated in place | finds the copy by its content, reads it to its end,
    then the file from its start |
| the log is truncated without a copy, or its inode is reused | reads the file from its start, and
    reports what may be missing |

Lines that may be missing are reported on stderr and in the history of the table.
"""

from __future__ import annotations

import hashlib
import io
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables.cli.rows_in.files import STDIN, RowFiles
from indextables.cli.rows_in.rotated_files import (
    Key,
    LogFile,
    Position,
    Positions,
    key_of,
    rotated_files,
)
from indextables.errors import IndexTablesError, InvalidInputError, TableNotFoundError
from indextables.model.report import Progress
from indextables.operations.first_write import create_with_rows
from indextables.operations.write_request import WriteRequest
from indextables.table import Table

_LINE_FORMATS = ("text", "jsonl")
_IDLE_LOOKS, _IDLE_AT_LEAST_S = 5, 0.5
"""A rotated file is complete after this many intervals, and seconds, without a write."""
_CLOCK_SLACK_S, _CLOCK_TICK_S = 5.0, 0.05
_UNREADABLE = (OSError, EOFError, zlib.error, pa.ArrowException, IndexTablesError)
"""Exceptions of a compressed file that is still being written."""


class RowTarget(Struct, frozen=True):
    """The table that receives the rows, and its settings if it has to be created."""

    path: str
    options: Mapping[str, object]
    create: bool = False
    text: tuple[str, ...] = ()
    substring: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    merge_schema: bool = False
    note: str | None = None

    def open(self) -> Table | None:
        """Open the table, or return None if it is missing and may be created."""
        try:
            return Table.open(self.path, options=self.options)
        except TableNotFoundError:
            if not self.create:
                raise
            return None

    def append(self, rows: RowFiles, progress: Progress) -> tuple[Table, int | None]:
        """Append all rows of files in one version."""
        table = self.open()
        if table is None:
            known = rows
        else:
            known = replace(rows, table_schema=table.schema)
        with known.open(lambda done: progress(done, 0, "rows")) as (_, data):
            if table is not None:
                return table, table.append(
                    data, merge_schema=self.merge_schema, user_metadata=self.note
                )
            # Another process can create it concurrently: --create only requires that the table
            # exists.
            created, version = create_with_rows(
                self.path,
                data,
                partition_columns=list(self.partition_by),
                options=self.table_options(),
                request=WriteRequest(user_metadata=self.note),
            )
            return Table(created), version

    def table_options(self) -> dict[str, object]:
        """Return the settings of a new table."""
        kinds = {f"indexing.typemap.{name}": "text" for name in self.text}
        parts = {f"indexing.substring.{name}": "true" for name in self.substring}
        return {**kinds, **parts, **self.options}


def follow_file(
    rows: RowFiles, target: RowTarget, *, interval: float, report: Callable[[str], None]
) -> Iterator[tuple[Table, int | None]]:
    """The table after each version that was made of new lines; ends only when it is stopped.

    Args:
        rows: The file, and how its lines are read.
        target: The table.
        interval: Seconds between two scans.
        report: Called with what the user must know, such as lines that may be missing.
    """
    place = rows.places[0]
    if (
        len(rows.places) != 1
        or place == STDIN
        or rows._kind(place) not in _LINE_FORMATS
        or Path(place).suffix == ".gz"
    ):
        hint = "Follow one plain file of text or JSON lines; run a command for each file."
        raise InvalidInputError(
            "Only one growing file can be followed.", hint=hint, files=list(rows.places)
        )
    if rows.text.continuation is not None:
        hint = "Leave one of them out: the last record of a growing file may be incomplete."
        raise InvalidInputError("--continuation does not go with --follow.", hint=hint)
    follower = _Follower(rows, target, Path(place), interval=interval, report=report)
    try:
        while True:
            yield from follower.scan()
            time.sleep(interval)
    finally:
        follower.close()


class _Follower:
    """The open files of one log, and the work of each scan."""

    def __init__(
        self,
        rows: RowFiles,
        target: RowTarget,
        path: Path,
        *,
        interval: float,
        report: Callable[[str], None],
    ) -> None:
        self._rows, self._target, self._path, self._report = rows, target, path, report
        self._idle_s = max(_IDLE_AT_LEAST_S, _IDLE_LOOKS * interval)
        self._files: dict[Key, LogFile] = {}
        self._starts: dict[Key, int] = {}
        """`start` is the first offset of a file without a recorded position."""
        self._ignored: set[Key] = set()
        self._complete_names: frozenset[str] | None = None
        self._holes: dict[Key, int] = {}
        self._first_scan_s = time.time()
        self._is_first = True
        first = LogFile(path)
        self._files[first.key] = first

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()

    def scan(self) -> Iterator[tuple[Table, int | None]]:
        """Find the files of the log and read their new lines."""
        scan_s = time.time()
        table = self._target.open()
        before = self._positions(table)
        current = self._open_current()
        lost = self._find_lost(before) if self._is_first else []
        self._is_first = False
        if table is not None:
            self._note_start(table)
            self._check_files(table)
        self._find_rotated(table)
        for position in lost:
            self._report(
                f"The file of {self._path} that was read up to byte {position.offset} is gone, and no rotated file holds "
                "what was read of it: lines that were written to it after that may be missing."
            )
        for file in sorted(
            self._files.values(), key=lambda file: (file.key == current, file.modified_s)
        ):
            yield from self._new_lines(
                file, whole=file.key != current and file.is_idle(self._idle_s)
            )
        self._close_complete(current)
        self._note_complete(current, scan_s)

    def _open_current(self) -> Key | None:
        """Open the file with the name of the log if it is not the open one."""
        current = key_of(self._path)
        if current is None or current in self._files:
            return current
        file = _open_rotated(self._path)
        if file is None:  # renamed in between: the next scan finds it
            return None
        self._files.setdefault(file.key, file)
        return file.key

    def _positions(self, table: Table | None) -> Positions:
        return Positions.of(self._path, {} if table is None else table.handle.snapshot.header.txns)

    def _record(self, table: Table, position: Position, why: str | None = None) -> None:
        """Commit a position without rows."""
        txn = self._positions(table).writer(position), position.version
        with table.transaction(txn=txn, user_metadata=why or self._target.note):
            pass

    def _note_start(self, table: Table) -> None:
        """Record when following started: files that were complete before are not read."""
        if self._positions(table).complete_s is None:
            self._record_complete(table, self._first_scan_s)

    def _record_complete(self, table: Table, complete_s: float) -> None:
        txn = self._positions(table).prefix, int(complete_s * 1000)
        with table.transaction(txn=txn, user_metadata=self._target.note):
            pass

    def _note_complete(self, current: Key | None, scan_s: float) -> None:
        """After a rotation, when all rotated files are read, record the time before which no
        unknown file has new lines.
        """
        names = frozenset(path.name for path, _ in rotated_files(self._path))
        if names == self._complete_names or self._files.keys() - {current}:
            return
        table = self._target.open()
        complete_s = self._positions(table).complete_s
        if table is not None and complete_s is not None:
            if self._complete_names is not None:
                self._record_complete(table, max(complete_s, scan_s - _CLOCK_SLACK_S))
            self._complete_names = names

    # Which files there are.

    def _check_files(self, table: Table) -> None:
        """Start new files at a position, and truncated files at their beginning."""
        for key, file in list(self._files.items()):
            position = self._positions(table).of_file(key)
            if position is None:
                start = self._starts.get(key, self._start_of_older_release(table, file))
                self._record(table, Position(key, 0, start, file.checksum(start), 0))
            elif not file.holds(position):
                self._restart(table, file, position)

    def _restart(self, table: Table, file: LogFile, position: Position) -> None:
        """Read a file from its start if it no longer contains what was read of it."""
        copy = self._copy_of(position)
        if copy is not None:
            why = (
                f"{file.path} was truncated after it was copied to {copy.name}. The copy is read to its end; lines that were "
                "written between the copy and the truncation are in neither."
            )
        else:
            why = _describe_truncation(file.path, position.offset)
        self._report(why)
        self._record(table, Position(file.key, position.generation + 1, 0, 0, 0), why)

    def _copy_of(self, position: Position) -> Path | None:
        """Return the rotated file that contains what was read up to a position."""
        for path, status in rotated_files(self._path):
            key = status.st_dev, status.st_ino
            if key in self._files or key in self._ignored:
                file = None
            else:
                file = _open_rotated(path)
            if file is None:
                continue
            holds = position.offset > 0 and file.holds(position)
            file.close()
            if holds:
                return path
        return None

    def _find_lost(self, positions: Positions) -> list[Position]:
        """Return the positions of the last files if no file contains what was read up to them."""
        newest = positions.newest
        if newest is None:
            return []
        recent_s = newest.updated_s - self._idle_s - _CLOCK_SLACK_S
        lost = {
            p for p in positions.all if p == positions.of_file(p.key) and p.updated_s >= recent_s
        }
        lost = {p for p in lost if p.key not in self._files}
        for path, status in rotated_files(self._path):
            # A file of which nothing was read cannot be recognised; one that was written to since
            # is read from its start.
            fresh = {
                p for p in lost if not p.offset and status.st_mtime >= p.updated_s - _CLOCK_SLACK_S
            }
            lost -= fresh
            file = _open_rotated(path) if lost else None
            if file is not None:
                lost = {
                    p for p in lost if not file.holds(p) or (not p.offset and p.key != file.key)
                }
                file.close()
        return sorted(lost, key=lambda position: position.updated_s)

    def _start_of_older_release(self, table: Table, file: LogFile) -> int:
        """Return the offset that an older release recorded for the file."""
        digest = hashlib.sha256(f"{self._path.absolute()}:{file.key}".encode()).hexdigest()[:16]
        recorded = table.handle.snapshot.header.txns.get(f"file:{self._path.name}:{digest}")
        if recorded is None:
            return 0
        if recorded.version > file.size:
            self._report(_describe_truncation(file.path, recorded.version))
            return 0
        return recorded.version

    def _find_rotated(self, table: Table | None) -> None:
        """Open the rotated files with lines that were not read."""
        complete_s = self._positions(table).complete_s
        from_s = (self._first_scan_s if complete_s is None else complete_s) - _CLOCK_TICK_S
        listed = {
            (status.st_dev, status.st_ino): (path, status)
            for path, status in rotated_files(self._path)
        }
        for key, (path, status) in listed.items():
            positions = self._positions(table)
            known = positions.of_file(key)
            if (
                key in self._files
                or key in self._ignored
                or (known is not None and known.offset == status.st_size)
            ):
                continue
            file = _open_rotated(path)
            if file is None:
                continue
            if file.key == key:
                start = self._start_in(file, positions, listed, from_s=from_s)
            else:
                start = None
            if start is None:
                file.close()
                continue
            self._files[key] = file
            if known is None or not file.holds(known):
                self._starts[key] = start
                if table is not None:
                    if known is None:
                        generation = 0
                    else:
                        generation = known.generation + 1
                    self._record(table, Position(key, generation, start, file.checksum(start), 0))

    def _start_in(
        self,
        file: LogFile,
        positions: Positions,
        listed: Mapping[Key, tuple[Path, Any]],
        *,
        from_s: float,
    ) -> int | None:
        """Return the offset at which a rotated file is read, or None if it is not read now."""
        known = positions.of_file(file.key)
        if known is not None and file.holds(known):
            if file.size > known.offset:
                return known.offset
            self._ignored.add(file.key)  # packed: its size in the folder is another one
            return None
        if not file.size or any(other.begins_with(file) for other in self._files.values()):
            return None  # empty, or a copy of a file that is not truncated yet
        # A copy holds what was read of a file that was truncated since, a packed file what was read
        # of a removed one.
        read = [position for position in positions.all if position.offset and file.holds(position)]
        gone = [position for position in read if not self._is_there(position, listed)]
        if any(
            position.key in self._files and position == positions.of_file(position.key)
            for position in gone
        ):
            return None  # truncated during this scan: the next one restarts it first
        if gone:
            return max(position.offset for position in gone)
        if any(self._is_copied(key, file, listed) for key in {position.key for position in read}):
            return None  # being packed: the next scan finds one of the two
        if file.modified_s < from_s or (file.is_packed and self._is_open(file, positions)):
            self._ignored.add(file.key)
            return None
        self._report(
            f"{file.path} was rotated before any of it was read; it is read from its start."
        )
        return 0

    def _is_copied(self, key: Key, copy: LogFile, listed: Mapping[Key, tuple[Path, Any]]) -> bool:
        """Return whether an open file contains all of another one."""
        if key in listed and key != copy.key:
            file = _open_rotated(listed[key][0])
        else:
            file = None
        if file is None:
            return False
        is_copied = file.begins_with(copy)
        file.close()
        return is_copied

    def _is_there(self, position: Position, listed: Mapping[Key, tuple[Path, Any]]) -> bool:
        """Return whether the file of a position still contains what was read of it."""
        if position.key in self._files:
            return self._files[position.key].holds(position)
        if position.key in listed:
            file = _open_rotated(listed[position.key][0])
        else:
            file = None
        if file is None:
            return False
        holds = file.holds(position)
        file.close()
        return holds

    def _is_open(self, file: LogFile, positions: Positions) -> bool:
        """Return whether a compressed file was made of one that is still open."""
        recorded = (positions.of_file(key) for key in self._files)
        return any(
            position is not None and position.offset and file.holds(position)
            for position in recorded
        )

    def _close_complete(self, current: Key | None) -> None:
        """Close rotated files that are complete. One that grows later is found by its name."""
        positions = self._positions(self._target.open())
        for key, file in list(self._files.items()):
            position = positions.of_file(key)
            read = 0 if position is None else position.offset
            if key != current and read == file.size and file.is_idle(self._idle_s):
                file.close()
                del self._files[key]

    # New lines.

    def _new_lines(self, file: LogFile, *, whole: bool) -> Iterator[tuple[Table, int | None]]:
        while True:
            table = self._target.open()
            position = self._positions(table).of_file(file.key)
            if position is None:
                position = Position(file.key, 0, self._starts.get(file.key, 0), None, 0)
            start = position.offset or self._first_data(file)
            part = file.lines_after(start, whole=whole)
            end = start + len(part)
            check = file.checksum(end)
            if (
                not part
                or check is None
                or not file.holds(position)
                or file.read_at(start, len(part)) != part
            ):
                return  # nothing new, or truncated while it was read: the next scan sees it
            yield self._append(table, file, part, replace(position, offset=end, check=check))

    def _first_data(self, file: LogFile) -> int:
        start = file.first_data()
        if start > self._holes.get(file.key, 0):
            self._holes[file.key] = start
            self._report(
                f"{file.path} begins with {start:,} bytes that were never written: the file was truncated, and its writer "
                "does not append. Reading begins behind them."
            )
        return start

    def _append(
        self, table: Table | None, file: LogFile, part: bytes, position: Position
    ) -> tuple[Table, int | None]:
        target = self._target
        source = self._rows.rows_of(
            io.BytesIO(part), file.path, None if table is None else table.schema
        )
        batches = [pa.RecordBatch.from_pylist([], schema=source.schema), *source]
        if table is None:
            table = Table.create(
                target.path,
                schema=source.schema,
                partition_columns=target.partition_by,
                options=target.table_options(),
                exist_ok=True,
            )
            self._note_start(table)
        txn = self._positions(table).writer(position), position.version
        version = table.append(
            batches, merge_schema=target.merge_schema, user_metadata=target.note, txn=txn
        )
        if version is None:
            # Lines without a row, such as empty ones: that they were read is committed all the
            # same.
            self._record(table, position)
        return table, version


def _describe_truncation(path: Path, offset: int) -> str:
    return (
        f"{path} was truncated, or replaced in place, after byte {offset} of it was read. Lines that were written after that "
        "and before the truncation may be missing. Reading goes on at its start."
    )


def _open_rotated(path: Path) -> LogFile | None:
    """Open a rotated file. Returns None while it cannot be read, such as a compressed file that is
    still being written.
    """
    try:
        return LogFile(path)
    except _UNREADABLE:
        return None
