"""What a search needs of a split, and no more: rows by number, the index by field. Readers provide it.

`SplitReader` is one; a foreign split (no usable index) is another, whose `indexed` is False: its queries are answered
by scanning its rows with the same analyzers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tantivy

from indextables.splits.mapping import DocMapping

Rows = npt.NDArray[np.int64]
"""Row numbers of one split, ascending."""


@dataclass(frozen=True)
class IndexView:
    """A tantivy index of one segment whose doc ids are row numbers, open for reading.

    The analyzers of the mapping are registered on `index`. `folder` holds its `meta.json` and components (files or
    links): a large row set is taken from a scratch folder of links to them.
    """

    index: tantivy.Index
    folder: Path


class Searchable(Protocol):
    """A split as a search sees it."""

    @property
    def path(self) -> str:
        """Where the split lies, for messages."""

    @property
    def num_rows(self) -> int:
        """Rows of the split."""

    @property
    def schema(self) -> pa.Schema:
        """Columns of the split's Parquet body."""

    @property
    def mapping(self) -> DocMapping:
        """How the columns are indexed."""

    @property
    def indexed(self) -> bool:
        """Whether `open_index` can be called; if not, queries scan the rows."""

    @property
    def incomplete(self) -> Mapping[str, int]:
        """Values per column name that the index holds incompletely (`IndexValues.incomplete`, summed); 0 left out."""

    def read_rows(self, rows: Rows | None, columns: Sequence[str]) -> pa.Table:
        """The rows with these numbers, in that order (None: every row), with only the named columns."""

    def open_index(self, fields: Sequence[str], *, need_positions: bool, need_norms: bool) -> IndexView:
        """The index with at least these tantivy fields (`c0`, …) present, checked and safe to search."""
