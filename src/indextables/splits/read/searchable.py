"""What a search needs of a split, and no more: rows by number, the index by field. Readers provide it.

`SplitReader` is one; a foreign split (no index that tantivy opens) is another, whose `indexed` is False: its queries are
answered by its rows with the same analyzers, of which its terms leave only the possible ones.
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

Rows = npt.NDArray[np.int64]
"""Row numbers of one split, ascending."""
Mask = npt.NDArray[np.bool_]
"""One truth value per row of a split."""


class SearcherView(Protocol):
    """A tantivy index of one segment whose doc ids are the row numbers of the file, open until it is left."""

    @property
    def index(self) -> tantivy.Index:
        """The index, with the analyzers of the mapping registered."""

    @property
    def folder(self) -> Path:
        """Where its `meta.json` and components are (files or links); a large row set is found through links to them."""

    @property
    def living(self) -> Rows | None:
        """The documents that are not deleted, as which the split's rows are numbered; None if all live."""

    def recall(self, name: Hashable) -> Any:
        """What was found in this very index under a name, as long as it is in memory; else None."""

    def remember(self, name: Hashable, value: Any, size: int) -> None:
        """Keep what was found, within the bound on memory."""

    def __enter__(self) -> SearcherView: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...


class Searchable(Protocol):
    """A split as a search sees it."""

    @property
    def path(self) -> str:
        """Where the split lies, for messages."""

    @property
    def num_rows(self) -> int:
        """Rows of the split."""

    @property
    def stored_rows(self) -> int:
        """Rows of its file, deleted ones among them: what the figures of its index are about."""

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
        """Values that the index does not hold completely, by column."""

    @property
    def stats(self) -> ReadStats:
        """Requests and bytes so far."""

    def read_rows(self, rows: Rows | Mask | None = None, *, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows with these numbers in that order (None: every row), with only the named columns."""

    def iter_rows(
        self, rows: Rows | Mask | None = None, *, columns: Sequence[str] | None = None, codes: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """The same in file order as a stream, in bounded memory. With `codes`, texts may be codes of a dictionary."""

    def may_match(self, bound: Predicate) -> Mask | None:
        """FALSE for rows that a bound predicate cannot be true for, by statistics alone; None if nothing is known."""

    def decides(self, bound: Predicate) -> bool:
        """Whether what `may_match` says of a bound predicate is the answer, so that no row need be read."""

    def rows_with(self, column: str, terms: Sequence[str]) -> Mask | None:
        """Rows that hold all of some terms of a column, where the split has no index to open; None if not known."""

    def group_bounds(self, column: str) -> tuple[Rows, ColumnRange] | None:
        """The first row of every row group and the bounds of a column in each of them; None if nothing is known."""

    def open_index(self, fields: Iterable[str], *, positions: bool = False, norms: bool = False) -> SearcherView:
        """The index with the data of these tantivy fields (`c0`, …) present, checked and safe to search."""


FEW_ROWS = 32


def rows_at(table: pa.Table, places: Rows) -> pa.Table:
    """These rows, in this order; repeats allowed."""
    if 0 < len(places) <= FEW_ROWS:
        # Combined, so that a few rows do not keep the whole of what they were cut from in memory.
        return pa.concat_tables([table.slice(place, 1) for place in places.tolist()]).combine_chunks()
    return table.take(pa.array(places))
