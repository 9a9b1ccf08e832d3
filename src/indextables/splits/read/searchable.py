"""Interface of a split for searches: rows by number, index by field.

`SplitReader` implements it. So does the reader of foreign splits, whose `indexed` is False because
tantivy cannot open their index: queries are answered by their rows with the same analyzers,
preselected by terms.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tantivy

from indextables.model.column_ranges import ColumnRange
from indextables.model.predicate import Predicate
from indextables.splits.format.source import ReadStats
from indextables.splits.index.mapping import DocMapping
from indextables.splits.index.values import IncompleteValues
from indextables.splits.read.column_arrays import ColumnArray

Rows = npt.NDArray[np.int64]
"""Row numbers of one split, ascending."""
Mask = npt.NDArray[np.bool_]
"""One boolean per row of a split."""


class SearcherView(Protocol):
    """An open tantivy index of one segment whose document ids are the row numbers of the file."""

    @property
    def index(self) -> tantivy.Index:
        """The index, with the analyzers of the mapping registered."""

    @property
    def folder(self) -> Path:
        """Folder of its `meta.json` and components (files or links). Large row sets are found
        through links to them.
        """

    @property
    def living(self) -> Rows | None:
        """The documents that are not deleted, in the numbering of the split's rows; None if all
        live.
        """

    def recall(self, name: Hashable) -> Any:
        """Return a cached result for this index, or None."""

    def remember(self, name: Hashable, value: Any, size: int) -> None:
        """Cache a result within the memory limit."""

    def __enter__(self) -> SearcherView: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None: ...


class Searchable(Protocol):
    """A split as a search uses it."""

    @property
    def path(self) -> str:
        """The split's location in messages."""

    @property
    def num_rows(self) -> int:
        """Number of rows of the split."""

    @property
    def stored_rows(self) -> int:
        """Number of rows in its file including deleted ones, the basis of index statistics."""

    @property
    def schema(self) -> pa.Schema:
        """Columns of the split's rows."""

    @property
    def mapping(self) -> DocMapping:
        """How the columns are indexed."""

    @property
    def indexed(self) -> bool:
        """Whether `open_index` can be called; if not, queries scan the rows."""

    @property
    def incomplete(self) -> Mapping[str, IncompleteValues]:
        """Values that the index holds only partly, by column."""

    @property
    def stats(self) -> ReadStats:
        """Requests and bytes so far."""

    def read_rows(
        self, rows: Rows | Mask | None = None, *, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return the rows with these numbers in that order (None: every row), with only the named
        columns.
        """

    def iter_rows(
        self,
        rows: Rows | Mask | None = None,
        *,
        columns: Sequence[str] | None = None,
        codes: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Stream the rows in file order in bounded memory. With `codes`, texts may be dictionary
        codes.
        """

    def may_match(self, bound: Predicate) -> Mask | None:
        """Return FALSE for rows for which a bound predicate cannot be true, by statistics alone, or
        None.
        """

    def decides(self, bound: Predicate) -> bool:
        """Return whether `may_match` is exact for a bound predicate, so that no row must be read."""

    def rows_with(self, column: str, terms: Sequence[str]) -> Mask | None:
        """Return the rows that hold all of some terms of a column in a split without an index to
        open, or None.
        """

    def group_bounds(self, column: str) -> tuple[Rows, ColumnRange] | None:
        """Return the first row of every row group and the bounds of a column in each, or None."""

    def column_array(self, column: str, rows: Rows | None) -> ColumnArray | None:
        """Return a column of some rows (None: all) as numbers, if the process keeps it as such."""

    def open_index(
        self, fields: Iterable[str], *, positions: bool = False, norms: bool = False
    ) -> SearcherView:
        """Return the index with the verified data of these tantivy fields (`c0`, …)."""


FEW_ROWS = 32


def rows_at(table: pa.Table, places: Rows) -> pa.Table:
    """Return these rows in this order; repeats are allowed."""
    if 0 < len(places) <= FEW_ROWS:
        # Combined, so that a few rows do not keep the whole of what they were cut from in memory.
        return pa.concat_tables(
            [table.slice(place, 1) for place in places.tolist()]
        ).combine_chunks()
    return table.take(pa.array(places))
