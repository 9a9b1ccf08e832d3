"""The files of one log that rotates: the file that is written to, and those that its lines were
moved or copied to.

A file is identified by its device and inode. Inodes are reused and files are truncated in place, so
what was read of a file is proven by a checksum: of its first bytes, and of the bytes in front of
the offset up to which it was read.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import re
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
from msgspec import Struct

from indextables.cli.rows_in.files import reading
from indextables.model.actions import TxnAction

Key = tuple[int, int]
"""The device and the inode of a file."""
READ_AT_ONCE = 64 << 20
"""Bytes that one version takes of a file."""
_HEAD, _TAIL = 1024, 4096
_CHECK_BITS = 20
_OPENERS: dict[str, Callable[[str], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": pa.input_stream,
    ".lz4": pa.input_stream,
}
_ROTATED = r"[.-](?:\d[\dT_.:-]*|old|bak)"


class Position(Struct, frozen=True):
    """Up to where a file was read, as a table records it: in the version of a transaction."""

    key: Key
    generation: int
    """How often the file was truncated in place."""
    offset: int
    check: int | None
    """The checksum at the offset; None if an older release wrote the position."""
    updated_s: float

    @property
    def version(self) -> int:
        """The version of the transaction."""
        return self.offset << _CHECK_BITS | (self.check or 0)


class Positions(Struct, frozen=True):
    """All positions that a table records of a log."""

    prefix: str
    all: tuple[Position, ...]
    complete_s: float | None
    """All that was written to rotated files before this time was read, or written before the log
    was followed.
    """

    @classmethod
    def of(cls, path: Path, txns: Mapping[str, TxnAction]) -> Positions:
        """The positions among the transactions of a table."""
        whole = path.absolute()
        prefix = f"follow:{path.name}:{hashlib.sha256(str(whole).encode()).hexdigest()[:16]}"
        found, complete = [], None
        for writer, txn in txns.items():
            if writer == prefix:
                complete = txn.version / 1000
            match = re.fullmatch(rf"{re.escape(prefix)}:([0-9a-f]+)\.([0-9a-f]+)\.(\d+)", writer)
            if match is not None:
                offset, check = txn.version >> _CHECK_BITS, txn.version & ((1 << _CHECK_BITS) - 1)
                key = int(match[1], 16), int(match[2], 16)
                found.append(
                    Position(key, int(match[3]), offset, check, (txn.last_updated or 0) / 1000)
                )
        return cls(prefix, tuple(found), complete)

    def of_file(self, key: Key) -> Position | None:
        """The newest position of a file."""
        return max((p for p in self.all if p.key == key), key=lambda p: p.generation, default=None)

    @property
    def newest(self) -> Position | None:
        """The position that was committed last."""
        return max(self.all, key=lambda p: p.updated_s, default=None)

    def writer(self, position: Position) -> str:
        """The writer of the transaction that records a position."""
        return f"{self.prefix}:{position.key[0]:x}.{position.key[1]:x}.{position.generation}"


class LogFile:
    """An open file of a log: it stays the same file when another takes its name. A packed one is
    read unpacked.
    """

    def __init__(self, path: Path) -> None:
        with reading(path):
            self._file: BinaryIO = path.open("rb")
        self.path = path
        found = os.fstat(self._file.fileno())
        self.key: Key = found.st_dev, found.st_ino
        self._data = self._file
        self.is_packed = path.suffix in _OPENERS
        if self.is_packed:
            unpacked: Any = tempfile.TemporaryFile()  # noqa: SIM115
            self._data = unpacked
            try:
                with _OPENERS[path.suffix](str(path)) as packed:
                    shutil.copyfileobj(packed, self._data)
                self._data.flush()
            except BaseException:
                self.close()
                raise

    @property
    def size(self) -> int:
        """The number of bytes in the file now."""
        return os.fstat(self._data.fileno()).st_size

    @property
    def modified_s(self) -> float:
        """When the file was written to for the last time."""
        return os.fstat(self._file.fileno()).st_mtime

    def is_idle(self, seconds: float) -> bool:
        """Whether nothing was written to the file for some time."""
        return time.time() - self.modified_s >= seconds

    def read_at(self, offset: int, count: int) -> bytes:
        """Bytes of the file; fewer if it ends before."""
        return os.pread(self._data.fileno(), count, offset)

    def checksum(self, offset: int) -> int | None:
        """The checksum of what is in front of an offset; None if the file is shorter."""
        head, tail = min(offset, _HEAD), min(offset, _TAIL)
        parts = self.read_at(0, head), self.read_at(offset - tail, tail)
        if (len(parts[0]), len(parts[1])) != (head, tail) or self.size < offset:
            return None
        return zlib.crc32(parts[1], zlib.crc32(parts[0])) & ((1 << _CHECK_BITS) - 1)

    def holds(self, position: Position) -> bool:
        """Whether the file begins with what was read up to a position."""
        if position.check is None:
            return self.size >= position.offset
        return self.checksum(position.offset) == position.check

    def begins_with(self, other: LogFile) -> bool:
        """Whether the file begins with all that another holds: the other is a copy of it, finished
        or not.
        """
        size = other.size
        return 0 < size <= self.size and self.checksum(size) == other.checksum(size)

    def first_data(self) -> int:
        """Where the data begin. A writer that does not append leaves a hole in front when its file
        is truncated.
        """
        try:
            start = os.lseek(self._data.fileno(), 0, os.SEEK_DATA)
        except OSError:  # all of it is a hole, or the file system does not know holes
            return 0
        if start:
            while block := self.read_at(start, _TAIL):
                rest = block.lstrip(b"\0")
                start += len(block) - len(rest)
                if rest:
                    break
        return start

    def lines_after(self, offset: int, *, whole: bool) -> bytes:
        """The whole lines behind an offset; with `whole` a last line without an end, too."""
        part = self.read_at(offset, READ_AT_ONCE)
        if whole and offset + len(part) >= self.size:
            return part
        return part[: part.rfind(b"\n") + 1]

    def close(self) -> None:
        """Let go of the file."""
        self._data.close()
        self._file.close()


def key_of(path: Path) -> Key | None:
    """The device and inode of the file that has a name now; None if there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def rotated_files(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The files that a log was rotated to, by their names, the oldest first: app.log.1,
    app.log-20261101.gz, app-1.log.
    """
    packed = "|".join(map(re.escape, _OPENERS))
    stem, suffix = re.escape(path.stem), re.escape(path.suffix)
    pattern = re.compile(
        rf"(?:{re.escape(path.name)}{_ROTATED}|{stem}{_ROTATED}{suffix})(?:{packed})?"
    )
    found = []
    for other in path.parent.iterdir():
        if other.name == path.name or not pattern.fullmatch(other.name):
            continue
        try:
            status = other.stat()
        except FileNotFoundError:  # renamed since the folder was listed; the next scan finds it
            continue
        if other.is_file():
            found.append((other, status))
    yield from sorted(found, key=lambda entry: entry[1].st_mtime)
