"""Reading a split: its schema, any of its rows, its index.

    reader = SplitReader.open(LocalSource(path))
    reader.read_rows(columns=["message"], rows=np.array([7, 100_000]))
    with reader.open_index(["c3"], positions=True) as view:
        view.index.searcher().search(...)

Every byte that is used is proven by a checksum first. Only what is asked for is read: the row groups that hold the
wanted rows, the chunks of the wanted columns, the index data of the wanted fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.errors import InvalidInputError
from indextables.model.predicate import Predicate
from indextables.splits.cache import SplitCache
from indextables.splits.layout import SectionTable
from indextables.splits.mapping import DocMapping
from indextables.splits.picking import rows_at
from indextables.splits.row_groups import rows_that_may_match
from indextables.splits.rowfile import read_groups, windows
from indextables.splits.source import ReadStats, SplitSource
from indextables.splits.stored_segment import StoredSegment
from indextables.splits.tail import SplitTail
from indextables.splits.tail_cache import open_tail
from indextables.splits.tantivy_files import Mask
from indextables.splits.view import IndexView

Rows = npt.NDArray[np.int64]


class SplitReader:
    """An open split. Cheap to keep, not to be pickled; opened after a fork, never before."""

    def __init__(self, source: SplitSource, tail: SplitTail, cache: SplitCache) -> None:
        self._source = source
        self._tail = tail
        self._cache = cache

    @classmethod
    def open(
        cls, source: SplitSource, *, footer_start: int | None = None, cache: SplitCache | None = None
    ) -> SplitReader:
        """Open a split of ours. One read when the footer start is known from the log."""
        cache = cache or SplitCache.default()
        return cls(source, open_tail(source, footer_start, cache), cache)

    @property
    def path(self) -> str:
        """The split's name in messages."""
        return self._source.path

    @property
    def schema(self) -> pa.Schema:
        """Columns and types of the rows in the file (partition columns are not among them)."""
        return self._tail.schema

    @property
    def num_rows(self) -> int:
        """How many rows the split has."""
        return self._tail.table.rows

    @property
    def table(self) -> SectionTable:
        """The section table."""
        return self._tail.table

    @property
    def stats(self) -> ReadStats:
        """Requests and bytes so far."""
        return self._source.stats

    @property
    def indexed(self) -> bool:
        """Whether there is an index to open."""
        return bool(self._tail.table.components)

    @property
    def incomplete(self) -> Mapping[str, int]:
        """Columns of which the index does not hold every value completely, and how many values that are."""
        return self._tail.table.incomplete

    @property
    def mapping(self) -> DocMapping:
        """How the columns are indexed."""
        return self._tail.mapping

    @property
    def tail(self) -> SplitTail:
        """The end of the file, decoded."""
        return self._tail

    def read_rows(self, rows: Rows | Mask | None = None, *, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows by number (in the order given, repeats allowed), by mask, or all; the wanted columns only."""
        names = self._columns(columns)
        numbers = self._numbers(rows)
        if not names:
            return pa.table({"": pa.nulls(len(numbers))}).select([])
        wanted = numbers if rows is not None else None
        groups = np.arange(self._tail.metadata.num_row_groups) if wanted is None else self._groups_of(numbers)
        table = read_groups(self._source, self._tail, [int(g) for g in groups], names)
        return table if wanted is None else rows_at(table, self._places(groups, numbers))

    def iter_rows(
        self, rows: Rows | Mask | None = None, *, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The same rows in file order as a stream, in bounded memory. Row numbers must ascend."""
        names = self._columns(columns)
        numbers = self._numbers(rows)
        if len(numbers) > 1 and bool((np.diff(numbers) <= 0).any()):
            raise InvalidInputError("Row numbers must ascend when rows are streamed.", path=self.path)
        if not names:
            yield pa.record_batch({"": pa.nulls(len(numbers))}).select([])
            return
        groups = self._groups_of(numbers)
        for run in windows(self._tail, groups, names):
            table = read_groups(self._source, self._tail, run, names)
            low, high = self._tail.group_starts[run[0]], self._tail.group_starts[run[-1] + 1]
            here = numbers[np.searchsorted(numbers, low) : np.searchsorted(numbers, high)]
            if len(here) != table.num_rows:
                table = rows_at(table, self._places(np.array(run), here))
            yield from table.to_batches()

    def may_match(self, bound: Predicate) -> Mask | None:
        """FALSE for rows that a predicate bound to this split's schema cannot be true for; None if nothing is known."""
        return rows_that_may_match(self._tail, bound)

    def open_index(self, fields: Iterable[str], *, positions: bool = False, norms: bool = False) -> IndexView:
        """The index with the data of these tantivy fields, proven and present. Close the view after use.

        `positions` for phrases, `norms` for scores. A field outside the list must not be searched: tantivy would find
        nothing there, in silence.
        """
        view = IndexView.open(self._source, self._tail, self.mapping, self._cache)
        try:
            view.need(fields, positions=positions, norms=norms)
        except BaseException:
            view.close()
            raise
        return view

    def prewarm(self, columns: Iterable[str] | None = None) -> int:
        """Bring the index of some columns (None: of all) into the disk cache; returns the bytes that were fetched."""
        wanted = [c.field for c in self.mapping.indexed if columns is None or c.name in set(columns)]
        before = self.stats.bytes
        if wanted and self.indexed:
            self.open_index(wanted, positions=True, norms=True).close()
        return self.stats.bytes - before

    @property
    def segment(self) -> StoredSegment:
        """The whole index, for merging."""
        return StoredSegment(self._source, self._tail)

    def _columns(self, columns: Sequence[str] | None) -> list[str]:
        if columns is None:
            return list(self.schema.names)
        unknown = [name for name in columns if name not in self.schema.names]
        if unknown:
            message = f"The split {self.path} has no column {', '.join(map(repr, unknown))}."
            raise InvalidInputError(message, hint=f"Its columns: {', '.join(self.schema.names)}.", columns=unknown)
        return list(columns)

    def _numbers(self, rows: Rows | Mask | None) -> Rows:
        if rows is None:
            return np.arange(self.num_rows, dtype=np.int64)
        found = np.asarray(rows)
        if found.dtype == np.bool_:
            if len(found) != self.num_rows:
                raise InvalidInputError(f"A mask of {len(found)} rows for {self.num_rows} of {self.path}.")
            return np.flatnonzero(found)
        numbers: Rows = found.astype(np.int64)
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= self.num_rows):
            raise InvalidInputError(f"Row numbers outside the {self.num_rows} rows of {self.path}.")
        return numbers

    def _groups_of(self, numbers: Rows) -> Rows:
        starts = self._tail.group_starts
        groups = np.searchsorted(starts, numbers, side="right") - 1
        # What np.unique gives, which loads the whole of numpy.ma on its first call.
        return np.flatnonzero(np.bincount(groups, minlength=len(starts)))

    def _places(self, groups: Rows, numbers: Rows) -> Rows:
        """Where rows are in a table that holds only some row groups."""
        starts = self._tail.group_starts
        lengths = np.diff(starts)[groups]
        offsets = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
        place = np.searchsorted(starts[groups], numbers, side="right") - 1
        found: Rows = offsets[place] + numbers - starts[groups][place]
        return found
