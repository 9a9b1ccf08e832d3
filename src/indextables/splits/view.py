"""The index of a split as a folder that tantivy opens: full-length sparse files that hold what a query needs.

Tantivy answers wrongly, in silence, over a hole. So a view is told which fields a query touches, and fetches and proves
their ranges first. Files are shared with other processes through the cache; a range is marked present only after its
bytes are there and their checksum was right. A local split takes the same way: its index data is inside one file, and
tantivy can only open folders, so the ranges that are used are copied out once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

import tantivy

from indextables.errors import BadFileError, InvalidInputError, StorageError
from indextables.splits.cache import SplitCache
from indextables.splits.layout import Component
from indextables.splits.mapping import DocMapping
from indextables.splits.panics import tantivy_errors
from indextables.splits.proven import batches, read_proven
from indextables.splits.segments import META, open_folder
from indextables.splits.source import SplitSource
from indextables.splits.tail import SplitTail
from indextables.splits.tantivy_files import check_store

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

    @property
    def index(self) -> tantivy.Index:
        """Tantivy's index, with analyzers registered."""
        if self._index is None:
            with tantivy_errors(self._tail.path, "Opening"):
                self._index = self._opened()
        return self._index

    def _opened(self) -> tantivy.Index:
        index = open_folder(self.folder, self._mapping)
        documents = index.searcher().num_docs
        if documents != self.rows:
            message = f"The index of {self._tail.path} has {documents} documents for {self.rows} rows."
            raise BadFileError(message, path=self._tail.path)
        return index

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
            for batch in batches([self._ranges[i][1] for i in missing]):
                few = [missing[at] for at in batch]
                for number, start, data in read_proven(
                    self._source, [self._ranges[i][1] for i in few], self._tail.path
                ):
                    self._write(self._ranges[few[number]][0], start, data)
                for i in few:
                    os.pwrite(marks.fileno(), _PRESENT, i)
        if missing:
            self._cache.added(self._key, sum(self._ranges[i][1].length for i in missing))

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
        if component.name == "store":
            check_store(tail.hot(component.tail), component.tail.length, f"{tail.path} (.store)")
        with (folder / tail.table.file_name(component)).open("wb") as f:
            f.truncate(component.length)
            f.seek(component.length - component.tail.length)
            f.write(tail.hot(component.tail))
    (folder / META).write_bytes(tail.hot(tail.table.meta))
    (folder / _RANGES).write_bytes(bytes(count))
