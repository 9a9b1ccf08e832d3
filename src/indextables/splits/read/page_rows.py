"""Read rows by number from the pages that hold them, and exclude rows by the bounds of pages and
row groups.

A search for its ten best rows reads little: the needed pages are known in advance, so all of them
are one call to the store. Each page is verified by its checksum. Decoded pages are cached as
separate copies, so that none keeps others in memory.

Bounds come from Parquet for every 8,192 rows or for every row group. In a split with a page table,
most columns have one page per such range. Columns with other page sizes (long texts without a
dictionary) and types that are not decoded here use the bounds of row groups. Floating-point columns
have no bounds, because NaN is not ordered.
"""

from __future__ import annotations

import bisect
import struct
import zlib
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from indextables.errors import BadFileError
from indextables.model.column_ranges import ColumnRange
from indextables.model.predicate.tree import Column
from indextables.splits.format.footer import SplitFooter
from indextables.splits.format.pages import (
    ColumnPages,
    PageBounds,
    PageColumn,
    PageTable,
    page_bounds,
)
from indextables.splits.format.parquet import PAGE_ROWS, open_parquet
from indextables.splits.format.source import SplitSource
from indextables.splits.read.cache import SplitCache
from indextables.splits.read.searchable import FEW_ROWS

Rows = npt.NDArray[np.int64]
_MARK_BYTES = 200
"""Approximate memory of a record that a row group was requested."""
_DENSE = 2
"""If more than one in this many pages is needed, whole row groups are read."""


class PickedPages(Struct, frozen=True):
    """The pages of one column that hold some rows, and the position of the rows in them."""

    name: str
    column: ColumnPages
    pages: list[int]
    """Indexes of the pages in the column, ascending."""
    page_of: Sequence[int] | Rows
    """For each row the index in `pages` of its page."""
    within: Sequence[int] | Rows
    """For each row its position in that page."""


class PageRows:
    """Reads rows of a split that has a page table."""

    def __init__(
        self,
        source: SplitSource,
        tail: SplitFooter,
        table: PageTable,
        cache: SplitCache,
        content: str,
        decode_groups: Callable[[Sequence[int], Sequence[str]], object],
    ) -> None:
        """`content` identifies the rows of this file in the cache, where `decode_groups` stores
        columns of row groups.
        """
        self._source = source
        self._tail = tail
        self._table = table
        self._cache = cache
        self._content = content
        self._decode_groups = decode_groups
        self._columns: dict[str, PageColumn | None] = {}

    def plan(self, numbers: Rows, names: Sequence[str]) -> dict[str, PickedPages]:
        """Return the pages to read per column. Empty if reading whole row groups is as good."""
        picked = {
            name: self._pick(numbers, name) for name in names if self._column(name) is not None
        }
        touched = sum(len(p.pages) for p in picked.values())
        if touched * _DENSE <= sum(map(_pages_of_groups, picked.values())):
            return picked
        return {}

    def read(self, picked: Sequence[PickedPages]) -> dict[str, pa.Array | pa.ChunkedArray]:
        """Read the rows of a plan column by column."""
        decoded = {p.name: self._find_cached(p) for p in picked}
        missing = [
            (p, pages)
            for p in picked
            if (pages := [n for n in p.pages if n not in decoded[p.name]])
        ]
        if missing and not self._source.remote:
            for p, pages in missing:
                if self._kept_whole(p, pages):
                    decoded[p.name] = self._find_cached(p)
            missing = [
                (p, left)
                for p, pages in missing
                if (left := [n for n in pages if n not in decoded[p.name]])
            ]
        if missing:
            data = self._proven(
                sorted({number for p, pages in missing for number in _numbers(p.column, pages)})
            )
            for p, pages in missing:
                for page, values in zip(pages, self._decode(p, pages, data), strict=True):
                    decoded[p.name][page] = values
                    self._cache.pages.put(
                        (self._content, p.name, page, "page"), values, values.nbytes
                    )
        return {
            p.name: _rows(p, [decoded[p.name][n] for n in p.pages], self._type(p.name))
            for p in picked
        }

    def _kept_whole(self, p: PickedPages, pages: Sequence[int]) -> bool:
        """Decode and cache whole row groups of a numeric or time column that is read repeatedly.

        A row group takes as long as a few of its pages.
        """
        if not pa.types.is_primitive(self._type(p.name)):
            return False
        groups = {p.column.group_list[page] for page in pages}
        again = [
            group
            for group in groups
            if self._cache.pages.get((self._content, group, p.name, "asked"))
        ]
        for group in groups.difference(again):
            self._cache.pages.put((self._content, group, p.name, "asked"), True, _MARK_BYTES)
        if again:
            self._decode_groups(again, [p.name])
        return bool(again)

    def _column(self, name: str) -> PageColumn | None:
        if name not in self._columns:
            field, leaf = self._tail.schema.field(name), self._tail.leaves[name].start
            possible = PageColumn.possible(field.type, self._tail.metadata, leaf)
            self._columns[name] = PageColumn(field, self._tail.metadata, leaf) if possible else None
        return self._columns[name]

    def _type(self, name: str) -> pa.DataType:
        return self._tail.schema.field(name).type

    def _pick(self, numbers: Rows, name: str) -> PickedPages:
        column = self._table.column(self._tail.leaves[name].start)
        if len(numbers) <= FEW_ROWS:
            rows, starts = numbers.tolist(), column.start_list
            at = [bisect.bisect_right(starts, row) - 1 for row in rows]
            few = sorted(set(at))
            within = [row - starts[page] for row, page in zip(rows, at, strict=True)]
            return PickedPages(name, column, few, [few.index(page) for page in at], within)
        page = np.searchsorted(column.starts, numbers, side="right") - 1
        pages = np.flatnonzero(np.bincount(page, minlength=len(column.pages)))
        return PickedPages(
            name,
            column,
            pages.tolist(),
            np.searchsorted(pages, page),
            numbers - column.starts[page],
        )

    def _find_cached(self, p: PickedPages) -> dict[int, pa.Array]:
        """Return the cached pages, as single pages or as parts of their row groups."""
        held: dict[int, pa.Array] = {}
        cache, starts, groups = self._cache.pages, p.column.start_list, p.column.group_list
        for page in p.pages:
            if (whole := cache.get((self._content, groups[page], p.name))) is not None:
                start = starts[page] - int(self._tail.group_starts[groups[page]])
                part = whole.slice(start, starts[page + 1] - starts[page])
                if part.num_chunks == 1:
                    values = part.chunk(0)
                else:
                    values = pa.concat_arrays(part.chunks)
                if pa.types.is_dictionary(values.type):
                    values = values.dictionary_decode()
                else:
                    values = values
            else:
                values = cache.get((self._content, p.name, page, "page"))
            if values is not None:
                held[page] = values
        return held

    def _proven(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """Return the verified bytes of pages. Adjacent pages are read together."""
        runs: list[list[int]] = []
        for number in numbers:
            if runs and runs[-1][-1] == number - 1:
                runs[-1].append(number)
            else:
                runs.append([number])
        starts, lengths = self._table.starts, self._table.lengths
        parts = self._source.read_many(
            [(int(starts[r[0]]), int(lengths[r[0] : r[-1] + 1].sum())) for r in runs]
        )
        data = {}
        for run, part in zip(runs, parts, strict=True):
            at = 0
            for number in run:
                length = int(lengths[number])
                page = data[number] = part[at : at + length]
                if zlib.crc32(page) != int(self._table.checksums[number]):
                    raise self._damage_error(int(starts[number]), length)
                at += length
        return data

    def _damage_error(self, start: int, length: int) -> BadFileError:
        message = f"Bytes {start} to {start + length} of the split {self._tail.path} are damaged: the checksum differs."
        return BadFileError(message, path=self._tail.path, start=start, length=length)

    def _decode(
        self, p: PickedPages, pages: Sequence[int], data: dict[int, bytes]
    ) -> list[pa.Array]:
        """Return the values of each page."""
        starts, groups = p.column.start_list, p.column.group_list
        rows = [starts[page + 1] - starts[page] for page in pages]
        parts = []
        for group in dict.fromkeys(groups[page] for page in pages):
            here = [page for page in pages if groups[page] == group]
            dictionary = int(p.column.dictionaries[group])
            bodies = [data[int(p.column.pages[page])] for page in here]
            count = sum(starts[page + 1] - starts[page] for page in here)
            parts.append((data[dictionary] if dictionary >= 0 else b"", bodies, count))
        column = self._column(p.name)
        assert column is not None
        try:
            reader = open_parquet(pa.BufferReader(column.file(parts)))
            values = reader.read_all(use_threads=False).column(0)
        except (pa.ArrowException, OSError, ValueError) as e:
            raise BadFileError(
                f"The rows of the split {self._tail.path} cannot be decoded: {e}.",
                path=self._tail.path,
            ) from e
        if len(values) != sum(rows):
            raise BadFileError(
                f"Pages of the split {self._tail.path} hold other rows than they say.",
                path=self._tail.path,
            )
        if values.type == self._type(p.name):
            values = values
        else:
            values = values.cast(self._type(p.name))
        if len(pages) == 1 and values.num_chunks == 1:
            return [values.chunk(0)]
        # Copies, each with memory of its own.
        return [
            pa.concat_arrays(values.slice(end - count, count).chunks)
            for end, count in zip(accumulate(rows), rows, strict=True)
        ]


def _pages_of_groups(p: PickedPages) -> int:
    """Return the number of pages in the affected row groups."""
    groups = p.column.group_list
    return sum(p.column.group_pages[group] for group in {groups[page] for page in p.pages})


def _numbers(column: ColumnPages, pages: Sequence[int]) -> list[int]:
    """Return the page table indexes of pages, with the dictionaries they need."""
    dictionaries = column.dictionaries[column.groups[list(pages)]]
    return [*column.pages[list(pages)].tolist(), *dictionaries[dictionaries >= 0].tolist()]


def _rows(
    p: PickedPages, pages: Sequence[pa.Array], kind: pa.DataType
) -> pa.Array | pa.ChunkedArray:
    """Return the values of the rows in order."""
    if not len(p.within):
        return pa.array([], kind)
    if len(p.within) <= FEW_ROWS:
        places = zip(p.page_of, p.within, strict=True)
        return pa.concat_arrays([pages[page].slice(place, 1) for page, place in places])
    offsets = np.concatenate([[0], np.cumsum([len(page) for page in pages])])
    return (
        pa.chunked_array(pages, kind).take(pa.array(offsets[p.page_of] + p.within)).combine_chunks()
    )


class RowBounds:
    """The bounds of columns over the parts of a split."""

    def __init__(self, tail: SplitFooter) -> None:
        self.starts: Rows = _parts(tail)
        """The first row of every part, followed by the number of rows."""
        self.count = len(self.starts) - 1
        self._tail = tail
        self._known: dict[Column, ColumnRange] = {}

    def range_of(self, column: Column, *, nulls: bool = False) -> ColumnRange:  # noqa: ARG002
        if column not in self._known:
            self._known[column] = self._range(column)
        return self._known[column]

    def _range(self, column: Column) -> ColumnRange:
        places = self._tail.leaves.get(column.name, ())
        if (
            len(column.path) > 1
            or len(places) != 1
            or pa.types.is_nested(self._tail.schema.field(column.name).type)
        ):
            return ColumnRange.unknown(column, self.count)
        return self._of_pages(column, places[0]) or self._of_groups(column, places[0])

    def _of_groups(self, column: Column, leaf: int) -> ColumnRange:
        metadata = self._tail.metadata
        found = [
            metadata.row_group(group).column(leaf).statistics
            for group in range(metadata.num_row_groups)
        ]
        null_counts = np.array(
            [-1 if s is None or not s.has_null_count else s.null_count for s in found]
        )
        sizes = np.diff(self._tail.group_starts)
        try:
            low = pa.array([_decode_bound(s, "min") for s in found], column.type)
            high = pa.array([_decode_bound(s, "max") for s in found], column.type)
        except (pa.ArrowException, OverflowError):
            return ColumnRange.unknown(column, self.count)
        group = np.searchsorted(self._tail.group_starts, self.starts[:-1], side="right") - 1
        at = pa.array(group)
        return ColumnRange(
            low.take(at), high.take(at), (null_counts != sizes)[group], (null_counts != 0)[group]
        )

    def _of_pages(self, column: Column, leaf: int) -> ColumnRange | None:
        """Return the bounds of the column's pages if each part is one page."""
        table = self._tail.pages
        if table is None or self.count == self._tail.metadata.num_row_groups:
            return None  # row groups of one page say the same, and are decoded already
        if column.type != self._tail.schema.field(column.name).type:
            return None
        if not np.array_equal(table.column(leaf).starts, self.starts):
            return None
        try:
            groups = page_bounds(
                self._tail.parquet_footer, leaf, self._tail.data, self._tail.footer_start
            )
            return _join(groups, column.type, self.count)
        except (IndexError, KeyError, TypeError, ValueError, struct.error, pa.ArrowException):
            return None


def _parts(tail: SplitFooter) -> Rows:
    starts = tail.group_starts
    if tail.pages is None or not len(starts) > 1:
        return starts
    pieces = [np.arange(low, high, PAGE_ROWS) for low, high in pairwise(starts)]
    return np.concatenate([*pieces, starts[-1:]])


def _join(groups: list[PageBounds | None], kind: pa.DataType, count: int) -> ColumnRange | None:
    """Concatenate the bounds of all row groups, or return None if their number of pages differs."""
    bounds = [group for group in groups if group is not None]
    if len(bounds) != len(groups) or any(group.nulls is None for group in bounds):
        return None
    only_nulls = np.array([flag for group in bounds for flag in group.only_nulls], np.bool_)
    nulls = np.array([n for group in bounds for n in group.nulls or []], np.int64)
    low = _values([value for group in bounds for value in group.low], only_nulls, kind)
    high = _values([value for group in bounds for value in group.high], only_nulls, kind)
    if (
        low is None
        or high is None
        or not len(low) == len(high) == len(nulls) == len(only_nulls) == count
    ):
        return None
    return ColumnRange(low, high, ~only_nulls, nulls != 0)


def _values(raw: list[bytes], absent: npt.NDArray[np.bool_], kind: pa.DataType) -> pa.Array | None:
    """Decode bounds to the type of their column, or return None for unsupported types."""
    if len(raw) != len(absent):
        return None
    if pa.types.is_string(kind):
        return pa.array(
            [None if no else value.decode() for value, no in zip(raw, absent, strict=True)], kind
        )
    wide = pa.types.is_int64(kind) or (pa.types.is_timestamp(kind) and kind.unit != "s")
    if not wide and not (pa.types.is_signed_integer(kind) or pa.types.is_date32(kind)):
        return None
    zero = bytes(8 if wide else 4)
    data = b"".join(zero if no else value for value, no in zip(raw, absent, strict=True))
    plain = pa.array(np.frombuffer(data, "<i8" if wide else "<i4"), mask=absent)
    if pa.types.is_integer(kind):
        return plain.cast(kind)
    return plain.view(kind)


def _decode_bound(statistics: pq.Statistics | None, which: str) -> Any:
    if statistics is not None and statistics.has_min_max:
        return getattr(statistics, which)
    return None
