"""A file that grows, followed: every line of it becomes a row of a table once, restarts included.

What was read is committed together with its rows: the offset behind them is the version of a transaction whose writer is
the file. After a crash the table itself says where to go on, so no line is lost and none is there twice. A file that was
rotated away (another file has its name) is read to its end first, and the new one from its start.
"""

from __future__ import annotations

import hashlib
import io
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables.cli.rows_in.files import STDIN, RowFiles, reading
from indextables.errors import InvalidInputError, TableNotFoundError
from indextables.model.report import Progress
from indextables.table import Table
from indextables.table.planning import create_with_rows

_MOST = 64 << 20
"""Bytes that one version takes of a file that is followed."""
_LINE_FORMATS = ("text", "jsonl")


class RowTarget(Struct, frozen=True):
    """The table that rows go to, and how it is made if there is none."""

    path: str
    options: Mapping[str, object]
    create: bool = False
    text: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    merge_schema: bool = False
    note: str | None = None

    def open(self) -> Table | None:
        """The table; None where there is none and one may be created."""
        try:
            return Table.open(self.path, options=self.options)
        except TableNotFoundError:
            if not self.create:
                raise
            return None

    def append(self, rows: RowFiles, progress: Progress) -> tuple[Table, int | None]:
        """All rows of files, in one version."""
        table = self.open()
        known = rows if table is None else replace(rows, table_schema=table.schema)
        with known.open(lambda done: progress(done, 0, "rows")) as (_, data):
            if table is not None:
                return table, table.append(data, merge_schema=self.merge_schema, user_metadata=self.note)
            # Another may create it meanwhile: --create asks for rows in a table, not for a new one.
            return create_with_rows(
                Table,
                self.path,
                data,
                partition_columns=list(self.partition_by),
                options=self.table_options(),
                user_metadata=self.note,
                exist_ok=True,
            )

    def table_options(self) -> dict[str, object]:
        """The settings of a new table."""
        return {**{f"indexing.typemap.{name}": "text" for name in self.text}, **self.options}


class GrowingFile:
    """A file that others write to, opened once: it stays the same file when another takes its name."""

    def __init__(self, path: Path) -> None:
        with reading(path):
            self._file: BinaryIO = path.open("rb")
        self.path = path
        found = os.fstat(self._file.fileno())
        self.identity = found.st_dev, found.st_ino
        digest = hashlib.sha256(f"{path.absolute()}:{self.identity}".encode()).hexdigest()[:16]
        self.writer = f"file:{path.name}:{digest}"

    def lines_after(self, offset: int, *, whole: bool = False) -> bytes:
        """The whole lines behind an offset; with `whole` a last line without an end, too."""
        if os.fstat(self._file.fileno()).st_size < offset:
            raise InvalidInputError(
                f"{self.path} was read up to byte {offset} and is shorter now: it was cut.",
                hint="Rotate a log by renaming it; what is cut off and written anew cannot be told from what was there.",
                path=str(self.path),
                offset=offset,
            )
        self._file.seek(offset)
        part = self._file.read(_MOST)
        return part if whole else part[: part.rfind(b"\n") + 1]

    def is_replaced(self) -> bool:
        """Whether another file has the name now."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return False
        return (found.st_dev, found.st_ino) != self.identity

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def follow_file(rows: RowFiles, target: RowTarget, *, interval: float) -> Iterator[tuple[Table, int | None]]:
    """The table after each version that was made of new lines; ends only when it is stopped."""
    place = rows.places[0]
    if len(rows.places) != 1 or place == STDIN or rows._kind(place) not in _LINE_FORMATS or Path(place).suffix == ".gz":
        hint = "Follow one plain file of text or JSON lines; run a command for each file."
        raise InvalidInputError("Only one growing file can be followed.", hint=hint, files=list(rows.places))
    if rows.text.continuation is not None:
        hint = "Leave one of them out: nobody can tell whether the last record of a growing file is complete."
        raise InvalidInputError("--continuation does not go with --follow.", hint=hint)
    file = GrowingFile(Path(place))
    try:
        while True:
            replaced = file.is_replaced()
            yield from _new_lines(file, rows, target, whole=replaced)
            if replaced:
                file.close()
                file = GrowingFile(Path(place))
            else:
                time.sleep(interval)
    finally:
        file.close()


def _new_lines(
    file: GrowingFile, rows: RowFiles, target: RowTarget, *, whole: bool
) -> Iterator[tuple[Table, int | None]]:
    while True:
        table = target.open()
        offset = 0 if table is None else offset_of(table, file.writer)
        part = file.lines_after(offset, whole=whole)
        if not part:
            return
        source = rows.rows_of(io.BytesIO(part), file.path, None if table is None else table.schema)
        batches = [pa.RecordBatch.from_pylist([], schema=source.schema), *source]
        if table is None:
            table = Table.create(
                target.path,
                schema=source.schema,
                partition_columns=target.partition_by,
                options=target.table_options(),
                exist_ok=True,
            )
        txn = file.writer, offset + len(part)
        version = table.append(batches, merge_schema=target.merge_schema, user_metadata=target.note, txn=txn)
        if version is None:
            # Lines without a row, such as empty ones: that they were read is committed all the same.
            with table.transaction(txn=txn, user_metadata=target.note):
                pass
        yield table, version


def offset_of(table: Table, writer: str) -> int:
    """Up to where a file is in a table."""
    recorded = table._snapshot.header.txns.get(writer)
    return 0 if recorded is None else recorded.version
