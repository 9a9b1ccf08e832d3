"""Rows by number, out of as few pages as hold them: what a search for its best ten reads.

Which pages those are is known before anything is read, so all of them are one call to the store. Each is proven by its
checksum. Decoded pages are kept in memory beside decoded row groups, each a copy, so that none holds others in memory.
"""

from __future__ import annotations

import bisect
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from indextables.errors import BadFileError
from indextables.splits.format.footer import SplitFooter
from indextables.splits.format.pages import ColumnPages, PageColumn, PageTable
from indextables.splits.format.parquet import open_parquet
from indextables.splits.format.source import SplitSource
from indextables.splits.read.cache import SplitCache
from indextables.splits.read.searchable import FEW_ROWS

Rows = npt.NDArray[np.int64]
_DENSE = 2
"""From this share of the pages on (one in so many), whole row groups are read."""


class PickedPages(Struct, frozen=True):
    """The pages of one column that hold some rows, and where in them the rows are."""

    name: str
    column: ColumnPages
    pages: list[int]
    """Numbers among the column's pages, ascending."""
    page_of: Sequence[int] | Rows
    """For each row, which of `pages` holds it."""
    within: Sequence[int] | Rows
    """For each row, its place in that page."""


class PageRows:
    """Reads rows of a split that has a page table."""

    def __init__(
        self, source: SplitSource, tail: SplitFooter, table: PageTable, cache: SplitCache, content: str
    ) -> None:
        """`content` names the rows of this very file in memory."""
        self._source = source
        self._tail = tail
        self._table = table
        self._cache = cache
        self._content = content
        self._columns: dict[str, PageColumn | None] = {}

    def plan(self, numbers: Rows, names: Sequence[str]) -> dict[str, PickedPages]:
        """The pages to read of those columns that can be read so; none if whole row groups are as well."""
        picked = {name: self._picked(numbers, name) for name in names if self._column(name) is not None}
        touched = sum(len(p.pages) for p in picked.values())
        return picked if touched * _DENSE <= sum(map(_pages_of_groups, picked.values())) else {}

    def read(self, picked: Sequence[PickedPages]) -> dict[str, pa.Array | pa.ChunkedArray]:
        """The rows of a plan, column by column."""
        decoded = {p.name: self._held(p) for p in picked}
        missing = [(p, pages) for p in picked if (pages := [n for n in p.pages if n not in decoded[p.name]])]
        if missing:
            data = self._proven(sorted({number for p, pages in missing for number in _numbers(p.column, pages)}))
            for p, pages in missing:
                for page, values in zip(pages, self._decoded(p, pages, data), strict=True):
                    decoded[p.name][page] = values
                    self._cache.pages.put((self._content, p.name, page, "page"), values, values.nbytes)
        return {p.name: _rows(p, [decoded[p.name][n] for n in p.pages], self._type(p.name)) for p in picked}

    def _column(self, name: str) -> PageColumn | None:
        if name not in self._columns:
            field, leaf = self._tail.schema.field(name), self._tail.leaves[name].start
            possible = PageColumn.possible(field.type, self._tail.metadata, leaf)
            self._columns[name] = PageColumn(field, self._tail.metadata, leaf) if possible else None
        return self._columns[name]

    def _type(self, name: str) -> pa.DataType:
        return self._tail.schema.field(name).type

    def _picked(self, numbers: Rows, name: str) -> PickedPages:
        column = self._table.column(self._tail.leaves[name].start)
        if len(numbers) <= FEW_ROWS:
            rows, starts = numbers.tolist(), column.start_list
            at = [bisect.bisect_right(starts, row) - 1 for row in rows]
            few = sorted(set(at))
            within = [row - starts[page] for row, page in zip(rows, at, strict=True)]
            return PickedPages(name, column, few, [few.index(page) for page in at], within)
        page = np.searchsorted(column.starts, numbers, side="right") - 1
        pages = np.flatnonzero(np.bincount(page, minlength=len(column.pages)))
        return PickedPages(name, column, pages.tolist(), np.searchsorted(pages, page), numbers - column.starts[page])

    def _held(self, p: PickedPages) -> dict[int, pa.Array]:
        """The pages that are in memory, by themselves or as parts of their row groups."""
        held: dict[int, pa.Array] = {}
        cache, starts, groups = self._cache.pages, p.column.start_list, p.column.group_list
        for page in p.pages:
            values = cache.get((self._content, p.name, page, "page"))
            if values is None and (whole := cache.get((self._content, groups[page], p.name))) is not None:
                start = starts[page] - int(self._tail.group_starts[groups[page]])
                part = whole.slice(start, starts[page + 1] - starts[page])
                values = part.chunk(0) if part.num_chunks == 1 else pa.concat_arrays(part.chunks)
                values = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
            if values is not None:
                held[page] = values
        return held

    def _proven(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """The bytes of pages; neighbours are read together."""
        runs: list[list[int]] = []
        for number in numbers:
            if runs and runs[-1][-1] == number - 1:
                runs[-1].append(number)
            else:
                runs.append([number])
        starts, lengths = self._table.starts, self._table.lengths
        parts = self._source.read_many([(int(starts[r[0]]), int(lengths[r[0] : r[-1] + 1].sum())) for r in runs])
        data = {}
        for run, part in zip(runs, parts, strict=True):
            at = 0
            for number in run:
                length = int(lengths[number])
                page = data[number] = part[at : at + length]
                if zlib.crc32(page) != int(self._table.checksums[number]):
                    raise self._damaged(int(starts[number]), length)
                at += length
        return data

    def _damaged(self, start: int, length: int) -> BadFileError:
        message = f"Bytes {start} to {start + length} of the split {self._tail.path} are damaged: the checksum differs."
        return BadFileError(message, path=self._tail.path, start=start, length=length)

    def _decoded(self, p: PickedPages, pages: Sequence[int], data: dict[int, bytes]) -> list[pa.Array]:
        """The values of each page."""
        starts, groups = p.column.starts, p.column.groups[pages]
        rows = starts[np.array(pages) + 1] - starts[pages]
        parts = []
        for group in dict.fromkeys(groups.tolist()):
            here = np.flatnonzero(groups == group)
            dictionary = int(p.column.dictionaries[group])
            bodies = [data[int(p.column.pages[pages[n]])] for n in here.tolist()]
            parts.append((data[dictionary] if dictionary >= 0 else b"", bodies, int(rows[here].sum())))
        column = self._column(p.name)
        assert column is not None
        try:
            reader = open_parquet(pa.BufferReader(column.file(parts)))
            values = reader.read_all(use_threads=False).column(0)
        except (pa.ArrowException, OSError, ValueError) as e:
            raise BadFileError(
                f"The rows of the split {self._tail.path} cannot be decoded: {e}.", path=self._tail.path
            ) from e
        if len(values) != int(rows.sum()):
            raise BadFileError(
                f"Pages of the split {self._tail.path} hold other rows than they say.", path=self._tail.path
            )
        values = values if values.type == self._type(p.name) else values.cast(self._type(p.name))
        ends = np.cumsum(rows)
        return [pa.concat_arrays(values.slice(int(e - n), int(n)).chunks) for e, n in zip(ends, rows, strict=True)]


def _pages_of_groups(p: PickedPages) -> int:
    """How many pages the row groups have that are touched."""
    groups = p.column.group_list
    return sum(p.column.group_pages[group] for group in {groups[page] for page in p.pages})


def _numbers(column: ColumnPages, pages: Sequence[int]) -> list[int]:
    """The numbers of pages in the page table, with those of the dictionaries they need."""
    dictionaries = column.dictionaries[column.groups[list(pages)]]
    return [*column.pages[list(pages)].tolist(), *dictionaries[dictionaries >= 0].tolist()]


def _rows(p: PickedPages, pages: Sequence[pa.Array], kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """The values of the rows, in their order."""
    if not len(p.within):
        return pa.array([], kind)
    if len(p.within) <= FEW_ROWS:
        places = zip(p.page_of, p.within, strict=True)
        return pa.concat_arrays([pages[page].slice(place, 1) for page, place in places])
    offsets = np.concatenate([[0], np.cumsum([len(page) for page in pages])])
    return pa.chunked_array(pages, kind).take(pa.array(offsets[p.page_of] + p.within)).combine_chunks()
