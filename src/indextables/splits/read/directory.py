"""The index of a split as a folder that tantivy opens: full-length sparse files with the data that
a query needs.

Tantivy returns wrong answers without an error if it reads a hole. A view therefore fetches and
verifies the ranges of the fields that a query uses before the query runs. Files are shared with
other processes through the cache. A range is marked present only after its bytes were written and
their checksum matched. Local splits work in the same way: their index data is inside one file and
tantivy can only open folders, so used ranges are copied once.

For a merge the index is a segment whose files are copied to the merge's folder.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Hashable, Iterable, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import tantivy
from msgspec import Struct

from indextables.errors import BadFileError, InvalidInputError, StorageError
from indextables.splits.format.footer import SplitFooter
from indextables.splits.format.section_table import Component
from indextables.splits.format.source import SplitSource, batches, read_ranges
from indextables.splits.index.mapping import DocMapping
from indextables.splits.index.segments import META, open_folder
from indextables.splits.index.tantivy_files import TantivyErrors, alive_bitset, check_store
from indextables.splits.read.cache import SplitCache, write_at, write_new
from indextables.splits.read.searchable import Mask, Rows

_PRESENT = b"\x01"
_RANGES = "ranges"
_OPSTAMP = 1


class IndexDirectory:
    """An open index. After `close` it may be reused, so its folder must not be modified."""

    living: Rows | None = None
    """None: all documents live."""

    def __init__(
        self,
        source: SplitSource,
        tail: SplitFooter,
        mapping: DocMapping,
        cache: SplitCache,
        key: str,
        folder: Path,
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
        self._marks = folder / _RANGES
        self._ready: dict[tuple[tuple[str, ...], bool, bool], int] = {}
        """Field sets that are known to be present, with their number of ranges. A present range
        stays present.
        """

    @classmethod
    def open(
        cls, source: SplitSource, tail: SplitFooter, mapping: DocMapping, cache: SplitCache
    ) -> IndexDirectory:
        """Open a view without the data of any field."""
        if not tail.table.components:
            raise InvalidInputError(f"The split {tail.path} has no indexed column.", path=tail.path)
        key = tail.digest
        idle = cache.idle_views.take(key)
        if isinstance(idle, IndexDirectory):
            if not idle.evicted:
                idle._source, idle._tail = source, tail
                return idle
            idle.dispose()
        names = [
            META,
            _RANGES,
            *(tail.table.file_name(component) for component in tail.table.components),
        ]
        return cls(
            source,
            tail,
            mapping,
            cache,
            key,
            cache.link(key, names, lambda folder: _build(folder, tail)),
        )

    @staticmethod
    def term_count(tail: SplitFooter, cache: SplitCache, field: str, text: str) -> int | None:
        """Return how many rows hold a term, from the dictionary of an idle view with the field's
        data, or None.
        """
        idle = cache.idle_views.take(tail.digest)
        if idle is None:
            return None
        try:
            if not isinstance(idle, IndexDirectory) or idle.evicted:
                return None
            count = idle._ready.get(((field,), False, False)) or idle._ready.get(
                ((field,), False, True)
            )
            if count is None:
                return None
            cache.count(hits=count, misses=0)
            with TantivyErrors(tail.path, "A search"):
                return int(idle.index.searcher().doc_freq(field, text))
        finally:
            cache.idle_views.give(tail.digest, idle)

    def need(self, fields: Iterable[str], *, positions: bool = False, norms: bool = False) -> None:
        """Fetch and verify the data of these fields if it is not present."""
        asked = (tuple(fields), positions, norms)
        count = self._ready.get(asked)
        if count is not None:
            self._cache.count(hits=count, misses=0)
            return
        fields = asked[0]
        names = {"term", "idx", *(["pos"] if positions else []), *(["fieldnorm"] if norms else [])}
        wanted = set(fields)
        known = {c.field for c in self._mapping.indexed}
        if not wanted <= known:
            raise InvalidInputError(
                f"The split {self._tail.path} has no index field {sorted(wanted - known)}."
            )
        numbers = [
            i for i, (c, r) in enumerate(self._ranges) if c.name in names and r.field in wanted
        ]
        self._fetch(numbers)
        self._ready[asked] = len(numbers)

    @property
    def index(self) -> tantivy.Index:
        """Tantivy's index with registered analyzers."""
        if self._index is None:
            with TantivyErrors(self._tail.path, "Opening"):
                self._index = self._open_index()
        return self._index

    def _open_index(self) -> tantivy.Index:
        index = open_folder(self.folder, self._mapping)
        documents = index.searcher().num_docs
        if documents != self.rows:
            message = (
                f"The index of {self._tail.path} has {documents} documents for {self.rows} rows."
            )
            raise BadFileError(message, path=self._tail.path)
        return index

    def recall(self, name: Hashable) -> Any:
        """Return a cached result for this index, or None."""
        return self._cache.pages.get((self._key, "found", name))

    def remember(self, name: Hashable, value: Any, size: int) -> None:
        """Cache a result within the memory limit."""
        self._cache.pages.put((self._key, "found", name), value, size)

    @property
    def evicted(self) -> bool:
        """Whether the cache no longer holds the entry that the view links to."""
        return self._marks.stat().st_nlink < 2

    def close(self) -> None:
        """Return the view to the cache for reuse."""
        self._cache.idle_views.give(self._key, self)

    def dispose(self) -> None:
        """Close the view permanently and delete its folder."""
        self._index = None
        self._cache.release(self.folder)

    def __enter__(self) -> IndexDirectory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _fetch(self, numbers: Sequence[int]) -> None:
        marks = os.open(self._marks, os.O_RDWR | os.O_CLOEXEC)
        try:
            present = os.pread(marks, len(self._ranges), 0)
            missing = [i for i in numbers if present[i : i + 1] != _PRESENT]
            self._cache.count(hits=len(numbers) - len(missing), misses=len(missing))
            for batch in batches([self._ranges[i][1] for i in missing]):
                few = [missing[at] for at in batch]
                for number, start, data in read_ranges(
                    self._source, [self._ranges[i][1] for i in few], self._tail.path
                ):
                    self._write(self._ranges[few[number]][0], start, data)
                for i in few:
                    os.pwrite(marks, _PRESENT, i)
        finally:
            os.close(marks)
        if missing:
            self._cache.added(self._key, sum(self._ranges[i][1].length for i in missing))

    def _write(self, component: Component, start: int, data: bytes) -> None:
        path = f"{self.folder}/{self._tail.table.file_name(component)}"
        try:
            file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                write_at(file, start, data)
            finally:
                os.close(file)
        except OSError as e:
            message = f"The cache folder {self._cache.directory} cannot be written: {e}."
            hint = "Free some space, or set cache.directoryPath to another disk."
            raise StorageError(message, hint=hint, path=path) from e


class RowMask(Struct, frozen=True, dict=True):
    """The rows of a split's file that are part of the table."""

    vector: str
    alive: Mask

    @cached_property
    def living(self) -> Rows:
        """The numbers of the living rows in the file."""
        return np.flatnonzero(self.alive).astype(np.int64)


class MaskedIndex:
    """An index in which the deleted rows of a split are deleted documents, so that tantivy skips
    them.

    It is a folder of links to an index that it owns, with a list of living documents.
    """

    def __init__(self, view: IndexDirectory, mask: RowMask, cache: SplitCache) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mask-", dir=view.folder.parent))
        self.vector = mask.vector
        self._mask: RowMask | None = mask
        self._view = view
        self._cache = cache
        self._index: tantivy.Index | None = None

    @property
    def living(self) -> Rows:
        """The documents that are not deleted."""
        assert self._mask is not None, "a view that waits is not searched"
        return self._mask.living

    @classmethod
    def open(
        cls,
        source: SplitSource,
        tail: SplitFooter,
        mapping: DocMapping,
        cache: SplitCache,
        mask: RowMask,
    ) -> MaskedIndex:
        """Open a view without the data of any field. A view of an earlier search is reused."""
        idle = cache.idle_views.take((tail.digest, mask.vector))
        if isinstance(idle, MaskedIndex):
            if not idle.evicted:
                idle._view._source, idle._view._tail = source, tail
                idle._mask = mask
                return idle
            idle.dispose()
        return cls(IndexDirectory.open(source, tail, mapping, cache), mask, cache)

    def need(self, fields: Iterable[str], *, positions: bool = False, norms: bool = False) -> None:
        """Fetch and verify the data of these fields if it is not present."""
        self._view.need(fields, positions=positions, norms=norms)

    @property
    def index(self) -> tantivy.Index:
        """Tantivy's index with registered analyzers."""
        if self._index is None:
            path = self._view._tail.path
            with TantivyErrors(path, "Opening"):
                self._link()
                index = open_folder(self.folder, self._view._mapping)
                documents = index.searcher().num_docs
            if documents != len(self.living):
                message = (
                    f"The index of {path} has {documents} documents for {len(self.living)} rows."
                )
                raise BadFileError(message, path=path)
            self._index = index
        return self._index

    def _link(self) -> None:
        assert self._mask is not None
        for entry in os.scandir(self._view.folder):
            if entry.name not in (META, _RANGES) and not (self.folder / entry.name).exists():
                (self.folder / entry.name).hardlink_to(entry.path)
        meta = json.loads((self._view.folder / META).read_bytes())
        (segment,) = meta["segments"]
        deleted = len(self._mask.alive) - len(self.living)
        segment["deletes"] = {"num_deleted_docs": deleted, "opstamp": _OPSTAMP}
        name = f"{segment['segment_id'].replace('-', '')}.{_OPSTAMP}.del"
        (self.folder / name).write_bytes(alive_bitset(self._mask.alive))
        (self.folder / META).write_text(json.dumps(meta), encoding="utf-8")

    def recall(self, name: Hashable) -> Any:
        """Return a cached result for the index without the deleted rows, or None."""
        return self._view.recall((self.vector, name))

    def remember(self, name: Hashable, value: Any, size: int) -> None:
        """Return a cached result for the index without the deleted rows, or None."""
        self._view.remember((self.vector, name), value, size)

    @property
    def evicted(self) -> bool:
        """Whether the cache no longer holds the entry that the view links to."""
        return self._view.evicted

    def close(self) -> None:
        """Return the view to the cache for reuse."""
        self._mask = None  # a number for each row: the next user of the view computes its own
        self._cache.idle_views.give((self._view._key, self.vector), self)

    def dispose(self) -> None:
        """Close the view permanently and delete its folder."""
        self._index = None
        self._cache.release(self.folder)
        self._view.dispose()

    def __enter__(self) -> MaskedIndex:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _build(folder: Path, tail: SplitFooter) -> None:
    """Build a cache entry: every index file at full length with its end, but without the data of
    any field.
    """
    count = 0
    for component in tail.table.components:
        count += len(component.ranges)
        if component.name == "store":
            check_store(tail.hot(component.tail), component.tail.length, f"{tail.path} (.store)")
        end = tail.hot(component.tail)
        write_new(f"{folder}/{tail.table.file_name(component)}", end, length=component.length)
    write_new(f"{folder}/{META}", tail.hot(tail.table.meta))
    write_new(f"{folder}/{_RANGES}", bytes(count))


class StoredSegment(Struct, frozen=True):
    """A segment inside a split."""

    source: SplitSource
    tail: SplitFooter

    @property
    def segment_id(self) -> str:
        """The segment's name."""
        return self.tail.table.segment

    @property
    def rows(self) -> int:
        """The number of its documents."""
        return self.tail.table.rows

    def place(self, folder: Path, stem: str) -> None:
        """Write its verified composite files into a folder under another name."""
        parts = [
            (component, wanted)
            for component in self.tail.table.components
            for wanted in component.ranges
        ]
        with ExitStack() as opened:
            files: dict[str, int] = {}
            for component in self.tail.table.components:
                file = opened.enter_context(
                    (folder / f"{stem}.{component.name}").open("wb", buffering=0)
                )
                files[component.name] = file.fileno()
                write_at(
                    file.fileno(),
                    component.length - component.tail.length,
                    self.tail.hot(component.tail),
                )
            for batch in batches([wanted for _, wanted in parts]):
                some = [parts[at] for at in batch]
                for number, start, data in read_ranges(
                    self.source, [wanted for _, wanted in some], self.tail.path
                ):
                    write_at(files[some[number][0].name], start, data)
