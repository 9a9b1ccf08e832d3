"""The bytes of a source's Parquet file, which another program may replace at any time.

Every read proves that the file is the one that was listed: on a disk by its size, times and inode
before and after the read, in a store by its size and, where the format may reuse a name, its tag
after the read. Another file is a SourceChangedError that names it, never other rows.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from indextables.config.splits import RangeSettings
from indextables.errors import (
    BadFileError,
    IndexTablesError,
    NotFoundError,
    SourceChangedError,
    StorageError,
)
from indextables.splits.format.source import AS_USUAL, ReadStats, coalesce, cut
from indextables.storage.store import ObjectInfo, Store


def file_stamp(store: Store, info: ObjectInfo) -> str:
    """Return what distinguishes a file from others of its path and size, as far as its store
    shows it.
    """
    local = store.local_path(info.path)
    if local is not None:
        try:
            return _stamp_of(local.stat())
        except OSError as error:
            raise _failure(store, info.path, error) from error
    return info.tag or str(info.last_modified_ms)


def _stamp_of(status: os.stat_result) -> str:
    # The time of the last change of the inode cannot be set by a program that copies or touches.
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_ctime_ns:x}"


class SourceBytes:
    """The bytes of one file of a source."""

    def __init__(
        self,
        store: Store,
        path: str,
        size: int,
        stamp: str,
        ranges: RangeSettings = AS_USUAL,
    ) -> None:
        """Create a source of bytes. An empty `stamp` means that the format never reuses a name."""
        self.path = f"{store.url.rstrip('/')}/{path}"
        self.size = size
        self.stats = ReadStats()
        self._store = store
        self._name = path
        self._ranges = ranges
        self._local = store.local_path(path)
        self._stamp = stamp
        if self._local is not None and not stamp:
            self._stamp = _stamp_of(self._status(self._local))

    @property
    def identity(self) -> str:
        """Identifier of this file and its content."""
        return f"{self.path}:{self.size}:{self._stamp}"

    @property
    def remote(self) -> bool:
        """Whether reads are requests to a store."""
        return self._local is None

    @property
    def is_current(self) -> bool:
        """Whether a file on disk is still the one that was opened; True for other stores."""
        if self._local is None:
            return True
        try:
            return _stamp_of(self._local.stat()) == self._stamp
        except OSError:
            return False

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several (start, length) ranges. Raises SourceChangedError for another file."""
        for start, length in ranges:
            if start < 0 or length < 0 or start + length > self.size:
                message = (
                    f"{self.path} has {self.size} bytes; {start} to {start + length} are not there."
                )
                raise BadFileError(message, path=self.path, start=start, length=length)
        if self._local is None:
            return self._read_remote(ranges)
        parts = self._read_local(self._local, ranges)
        self.stats.requests += len(ranges)
        self.stats.bytes += sum(map(len, parts))
        return parts

    def _read_local(self, local: Path, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        try:
            file = os.open(local, os.O_RDONLY | os.O_CLOEXEC)
            try:
                self._check(os.fstat(file))
                parts = [_read_at(file, start, length) for start, length in ranges]
                self._check(os.fstat(file))
            finally:
                os.close(file)
        except OSError as error:
            raise _failure(self._store, self._name, error) from error
        for (start, length), part in zip(ranges, parts, strict=True):
            if len(part) != length:
                raise self._change_error(f"it ends before byte {start + length}")
        return parts

    def _read_remote(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        joined = coalesce(ranges, self._ranges.max_gap, self._ranges.max_bytes)
        try:
            parts = self._store.get_ranges(self._name, joined)
            if self._stamp:
                self._check_object(self._store.head(self._name))
        except NotFoundError as error:
            raise self._change_error("it is not there any more") from error
        except BadFileError as error:
            raise self._change_error("it is shorter than it was") from error
        self.stats.requests += len(joined) + bool(self._stamp)
        self.stats.bytes += sum(length for _, length in joined)
        return cut(ranges, joined, parts)

    def _check_object(self, info: ObjectInfo | None) -> None:
        if info is None:
            raise self._change_error("it is not there any more")
        if info.size != self.size or file_stamp(self._store, info) != self._stamp:
            raise self._change_error("another file has its name")

    def _check(self, status: os.stat_result) -> None:
        if status.st_size != self.size:
            raise self._change_error(
                f"it has {status.st_size} bytes and was listed with {self.size}"
            )
        if _stamp_of(status) != self._stamp:
            raise self._change_error("it was written or replaced since it was listed")

    def _status(self, local: Path) -> os.stat_result:
        try:
            return local.stat()
        except OSError as error:
            raise _failure(self._store, self._name, error) from error

    def _change_error(self, why: str) -> SourceChangedError:
        return SourceChangedError(
            f"The source file {self.path} is not what it was: {why}.", path=self.path
        )


def _read_at(file: int, start: int, length: int) -> bytes:
    data = os.pread(file, length, start)
    while len(data) < length and (more := os.pread(file, length - len(data), start + len(data))):
        data += more
    return data


def _failure(store: Store, path: str, error: OSError) -> IndexTablesError:
    place = f"{store.url.rstrip('/')}/{path}"
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return SourceChangedError(f"The source file {place} is not there any more.", path=place)
    return StorageError(
        f"The source file {place} cannot be read: {error.strerror or error}.", path=place
    )
