"""Sources of split bytes: a local file, or ranged reads from an object store. Both count their
reads.

Index data is verified: no byte is used before the checksum of its range matched.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from indextables.config.splits import RangeSettings
from indextables.errors import (
    AccessDeniedError,
    BadFileError,
    IndexTablesError,
    MissingSplitError,
    NotFoundError,
    StorageError,
)
from indextables.splits.format.section_table import FieldRange
from indextables.storage.store import Store

AS_USUAL = RangeSettings()
"""Default limits for combining ranges: a request costs more than a few unneeded bytes."""


class ReadStats(Struct):
    """Requests and bytes read."""

    requests: int = 0
    bytes: int = 0


class SplitSource(Protocol):
    """The bytes of one split."""

    @property
    def path(self) -> str:
        """The split's name in messages."""
        ...

    @property
    def size(self) -> int:
        """Length of the file."""
        ...

    @property
    def identity(self) -> str:
        """Identifier of this file, different from other files and from earlier files at the same
        path.
        """
        ...

    @property
    def remote(self) -> bool:
        """Whether reads are requests to a store."""
        ...

    @property
    def stats(self) -> ReadStats:
        """Reads so far."""
        ...

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several (start, length) ranges. Raises `BadFileError` if the file is shorter."""
        ...


class LocalSource:
    """A split on local disk."""

    remote = False

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.path = name or str(path)
        self.stats = ReadStats()
        self._path = path
        try:
            status = path.stat()
        except OSError as e:
            raise _unreadable(self.path, e) from e
        self.size = status.st_size
        place = path if path.is_absolute() else path.absolute()
        self.identity = f"{place}:{status.st_size}:{status.st_mtime_ns}:{status.st_ino}"

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read with plain reads: a mapped file that is truncated by another process would crash
        this one.
        """
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                parts = [self._read(descriptor, start, length) for start, length in ranges]
            finally:
                os.close(descriptor)
        except OSError as e:
            raise _unreadable(self.path, e) from e
        self.stats.requests += len(ranges)
        self.stats.bytes += sum(map(len, parts))
        return parts

    def _read(self, descriptor: int, start: int, length: int) -> bytes:
        data = os.pread(descriptor, length, start)
        while len(data) < length and (
            more := os.pread(descriptor, length - len(data), start + len(data))
        ):
            data += more
        if len(data) != length:
            message = f"The split {self.path} is cut short: bytes {start} to {start + length} are not there."
            raise BadFileError(message, path=self.path, start=start, length=length)
        return data


class StoreSource:
    """A split in an object store. Nearby ranges are combined, and all ranges of a call are read in
    parallel.
    """

    remote = True

    def __init__(
        self, store: Store, path: str, size: int, ranges: RangeSettings = AS_USUAL
    ) -> None:
        """Create a source for an object of known size; `ranges` controls which ranges are combined."""
        self.path = path
        self.size = size
        self.identity = f"{store.url}/{path}:{size}"
        self.stats = ReadStats()
        self._store = store
        self._joining = ranges

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read all ranges in one call of the store."""
        for start, length in ranges:
            if start < 0 or start + length > self.size:
                message = f"The split {self.path} has {self.size} bytes; {start} to {start + length} are not there."
                raise BadFileError(message, path=self.path, start=start, length=length)
        joined = coalesce(ranges, self._joining.max_gap, self._joining.max_bytes)
        try:
            parts = self._store.get_ranges(self.path, joined)
        except NotFoundError as e:
            raise _missing(self.path) from e
        self.stats.requests += len(joined)
        self.stats.bytes += sum(length for _, length in joined)
        return cut(ranges, joined, parts)


def open_source(
    store: Store, path: str, *, size: int | None = None, ranges: RangeSettings = AS_USUAL
) -> SplitSource:
    """Open the split at a path of a store.

    A size from the log must match the file; for a remote file the first read shows it. `ranges`
    controls which ranges of a remote file are combined.
    """
    local = store.local_path(path)
    if local is not None:
        source = LocalSource(local, path)
        if size is not None and source.size != size:
            message = f"The split {path} has {source.size} bytes; the log says {size}."
            raise BadFileError(
                message, path=path, start=min(size, source.size), length=abs(size - source.size)
            )
        return source
    if size is None:
        info = store.head(path)
        if info is None:
            raise _missing(path)
        size = info.size
    return StoreSource(store, path, size, ranges)


def coalesce(
    ranges: Sequence[tuple[int, int]], gap: int = AS_USUAL.max_gap, most: int = AS_USUAL.max_bytes
) -> list[tuple[int, int]]:
    """Combine ranges into fewer larger ones, in file order.

    `gap` is the maximum distance between combined ranges; `most` is the maximum combined length, 0
    for no limit.
    """
    joined: list[tuple[int, int]] = []
    for start, length in sorted(r for r in ranges if r[1]):
        if joined:
            first, end = joined[-1][0], sum(joined[-1])
            further = max(end, start + length)
            if further == end or (start <= end + gap and (not most or further - first <= most)):
                joined[-1] = first, further - first
                continue
        joined.append((start, length))
    return joined


def cut(
    ranges: Sequence[tuple[int, int]], joined: Sequence[tuple[int, int]], parts: Sequence[bytes]
) -> list[bytes]:
    """Extract the requested ranges from the combined ones."""
    pieces = []
    for start, length in ranges:
        if not length:
            pieces.append(b"")
            continue
        at, part = next(
            (s, p)
            for (s, n), p in zip(joined, parts, strict=True)
            if s <= start and start + length <= s + n
        )
        pieces.append(part[start - at : start - at + length])
    return pieces


def _unreadable(path: str, error: OSError) -> IndexTablesError:
    """Return the error for a failed read: missing, not permitted, or an I/O failure."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return _missing(path)
    kind = AccessDeniedError if isinstance(error, PermissionError) else StorageError
    return kind(f"The split {path} cannot be read: {error.strerror or error}.", path=path)


def _missing(path: str) -> MissingSplitError:
    return MissingSplitError(f"The split {path} is not in the store.", path=path)


PIECE_BYTES = 8 << 20
PIECES_AT_ONCE = 4


def batches(ranges: Sequence[FieldRange]) -> list[list[int]]:
    """Group numbers so that their ranges fit into memory together. A large range is a group of its
    own.
    """
    limit = PIECE_BYTES * PIECES_AT_ONCE
    groups: list[list[int]] = []
    held = limit + 1
    for number, field_range in enumerate(ranges):
        if held + field_range.length > limit:
            groups.append([])
            held = 0
        groups[-1].append(number)
        held += field_range.length
    return groups


def read_ranges(
    source: SplitSource, ranges: Sequence[FieldRange], path: str
) -> Iterator[tuple[int, int, bytes]]:
    """Yield the bytes of a batch of ranges: number of the range, offset in the index file, data.

    Several ranges come from one call. A range that is a group of its own comes in pieces; its
    checksum is verified with the last piece.
    """
    if len(ranges) == 1:
        yield from _pieces(source, ranges[0], path)
        return
    parts = source.read_many([(field_range.offset, field_range.length) for field_range in ranges])
    for number, (field_range, data) in enumerate(zip(ranges, parts, strict=True)):
        _check(field_range, zlib.crc32(data), path)
        yield number, field_range.start, data


def _pieces(
    source: SplitSource, field_range: FieldRange, path: str
) -> Iterator[tuple[int, int, bytes]]:
    crc = 0
    starts = range(0, field_range.length, PIECE_BYTES)
    for first in range(0, len(starts), PIECES_AT_ONCE):
        pieces = [
            (s, min(PIECE_BYTES, field_range.length - s))
            for s in starts[first : first + PIECES_AT_ONCE]
        ]
        parts = source.read_many([(field_range.offset + start, length) for start, length in pieces])
        for (start, _), data in zip(pieces, parts, strict=True):
            crc = zlib.crc32(data, crc)
            yield 0, field_range.start + start, data
    _check(field_range, crc, path)


def _check(field_range: FieldRange, crc: int, path: str) -> None:
    if crc != field_range.crc32:
        start, end = field_range.offset, field_range.offset + field_range.length
        message = f"Bytes {start} to {end} of the split {path} (field {field_range.field}) are damaged: wrong checksum."
        raise BadFileError(message, path=path, start=start, length=field_range.length)
