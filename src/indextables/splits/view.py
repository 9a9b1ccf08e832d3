"""The index of a split as a folder that tantivy opens: full-length sparse files that hold what a query needs.

Tantivy answers wrongly, in silence, over a hole. So a view is told which fields a query touches, and fetches and proves
their ranges first. Files are shared with other processes through the cache; a range is marked present only after its
bytes are there and their checksum was right. A local split takes the same way: its index data is inside one file, and
tantivy can only open folders, so the ranges that are used are copied out once.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType

import tantivy

from indextables.errors import BadFileError, InvalidInputError, StorageError
from indextables.splits.cache import SplitCache
from indextables.splits.layout import Component, FieldRange
from indextables.splits.mapping import DocMapping
from indextables.splits.panics import tantivy_errors
from indextables.splits.segments import META, Segment, open_folder, segments_of
from indextables.splits.source import SplitSource
from indextables.splits.tail import SplitTail

PIECE_BYTES = 8 << 20
PIECES_AT_ONCE = 4
_PRESENT = b"\x01"
_RANGES = "ranges"


class IndexView:
    """An open index. Close it when done: it may be used again; its folder must not be written to."""

    def __init__(
        self, source: SplitSource, tail: SplitTail, mapping: DocMapping, cache: SplitCache, key: str, folder: Path
    ) -> None:
        self.folder = folder
        self.rows = tail.table.rows
        self._source = source
        self._tail = tail
        self._mapping = mapping
        self._cache = cache
        self._key = key
        self._index: tantivy.Index | None = None
        self._ranges = [(c, r) for c in tail.table.components for r in c.ranges]

    @classmethod
    def open(cls, source: SplitSource, tail: SplitTail, mapping: DocMapping, cache: SplitCache) -> IndexView:
        """A view without any field's data yet."""
        if not tail.table.components:
            raise InvalidInputError(f"The split {tail.path} has no indexed column.", path=tail.path)
        key = tail.digest
        idle = cache.idle_views.take(key)
        if isinstance(idle, IndexView):
            if not idle.evicted:
                idle._source, idle._tail = source, tail
                return idle
            idle.dispose()
        names = [META, _RANGES, *(tail.table.file_name(component) for component in tail.table.components)]
        return cls(source, tail, mapping, cache, key, cache.link(key, names, lambda folder: _build(folder, tail)))

    def need(self, fields: Iterable[str], *, positions: bool = False, norms: bool = False) -> None:
        """Make sure that the data of these fields is present and proven."""
        names = {"term", "idx", *(["pos"] if positions else []), *(["fieldnorm"] if norms else [])}
        wanted = set(fields)
        known = {c.field for c in self._mapping.indexed}
        if not wanted <= known:
            raise InvalidInputError(f"The split {self._tail.path} has no index field {sorted(wanted - known)}.")
        self._fetch([i for i, (c, r) in enumerate(self._ranges) if c.name in names and r.field in wanted])

    def need_all(self) -> Segment:
        """Make the whole index present, and give it as a segment to merge."""
        self._fetch(range(len(self._ranges)))
        (segment,) = segments_of(self.folder)
        return segment

    @property
    def index(self) -> tantivy.Index:
        """Tantivy's index, with analyzers registered."""
        if self._index is None:
            with tantivy_errors(self._tail.path, "Opening"):
                self._index = open_folder(self.folder, self._mapping)
        return self._index

    @property
    def evicted(self) -> bool:
        """Whether the cache no longer holds what the view links to."""
        return (self.folder / _RANGES).stat().st_nlink < 2

    def close(self) -> None:
        """Hand the view back for the next user."""
        self._cache.idle_views.give(self._key, self)

    def dispose(self) -> None:
        """Give up the view and its folder for good."""
        self._index = None
        self._cache.release(self.folder)

    def __enter__(self) -> IndexView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _fetch(self, numbers: Iterable[int]) -> None:
        numbers = list(numbers)
        ranges = self.folder / _RANGES
        with ranges.open("r+b", buffering=0) as marks:
            present = os.pread(marks.fileno(), len(self._ranges), 0)
            missing = [i for i in numbers if present[i : i + 1] != _PRESENT]
            self._cache.count(hits=len(numbers) - len(missing), misses=len(missing))
            for few in _batches([(i, self._ranges[i][1].length) for i in missing]):
                self._fetch_few(few)
                for i in few:
                    os.pwrite(marks.fileno(), _PRESENT, i)
        if missing:
            self._cache.added(self._key, sum(self._ranges[i][1].length for i in missing))

    def _fetch_few(self, numbers: Sequence[int]) -> None:
        """Ranges that fit into memory together in one call; one that does not, piece by piece."""
        if len(numbers) == 1:
            component, wanted = self._ranges[numbers[0]]
            self._fetch_large(component, wanted)
            return
        found = self._source.read_many([(r.offset, r.length) for _, r in (self._ranges[i] for i in numbers)])
        for i, data in zip(numbers, found, strict=True):
            component, wanted = self._ranges[i]
            _check(wanted, zlib.crc32(data), self._tail.path)
            self._write(component, wanted.start, data)

    def _fetch_large(self, component: Component, wanted: FieldRange) -> None:
        crc = 0
        starts = range(0, wanted.length, PIECE_BYTES)
        for first in range(0, len(starts), PIECES_AT_ONCE):
            pieces = [(s, min(PIECE_BYTES, wanted.length - s)) for s in starts[first : first + PIECES_AT_ONCE]]
            found = self._source.read_many([(wanted.offset + start, length) for start, length in pieces])
            for (start, _), data in zip(pieces, found, strict=True):
                crc = zlib.crc32(data, crc)
                self._write(component, wanted.start + start, data)
        _check(wanted, crc, self._tail.path)

    def _write(self, component: Component, start: int, data: bytes) -> None:
        path = self.folder / self._tail.table.file_name(component)
        try:
            with path.open("r+b", buffering=0) as f:
                while data:
                    written = os.pwrite(f.fileno(), data, start)
                    data, start = data[written:], start + written
        except OSError as e:
            message = f"The cache folder {self._cache.directory} cannot be written: {e}."
            hint = "Free some space, or set cache.directoryPath to another disk."
            raise StorageError(message, hint=hint, path=str(path)) from e


def _build(folder: Path, tail: SplitTail) -> None:
    """A new cache entry: every index file at full length, with its end but without any field's data."""
    count = 0
    for component in tail.table.components:
        count += len(component.ranges)
        with (folder / tail.table.file_name(component)).open("wb") as f:
            f.truncate(component.length)
            f.seek(component.length - component.tail.length)
            f.write(tail.hot(component.tail))
    (folder / META).write_bytes(tail.hot(tail.table.meta))
    (folder / _RANGES).write_bytes(bytes(count))


def _batches(sizes: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Numbers grouped so that their ranges fit into memory together; a large range stands alone."""
    limit = PIECE_BYTES * PIECES_AT_ONCE
    groups: list[list[int]] = []
    held = limit + 1
    for number, size in sizes:
        if held + size > limit:
            groups.append([])
            held = 0
        groups[-1].append(number)
        held += size
    return groups


def _check(wanted: FieldRange, crc: int, path: str) -> None:
    if crc != wanted.crc32:
        start, end = wanted.offset, wanted.offset + wanted.length
        message = f"Bytes {start} to {end} of the split {path} (field {wanted.field}) are damaged: wrong checksum."
        raise BadFileError(message, path=path, start=start, length=wanted.length)
