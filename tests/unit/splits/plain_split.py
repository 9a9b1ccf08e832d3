"""A split without a container: a tantivy index in a folder beside an Arrow table. What the search
tests search.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import tantivy

from indextables.config.indexing import IndexingSettings
from indextables.model.column_ranges import ColumnRange
from indextables.model.predicate import Predicate
from indextables.splits.format.source import ReadStats
from indextables.splits.index.analyzers import register, schema_for
from indextables.splits.index.mapping import DocMapping
from indextables.splits.index.values import IncompleteValues, index_values
from indextables.splits.read.column_arrays import ColumnArray
from indextables.splits.read.searchable import Mask, Rows


@dataclass
class PlainView:
    index: tantivy.Index
    folder: Path
    living: Rows | None = None
    found: dict[Hashable, Any] = field(default_factory=dict)

    def recall(self, name: Hashable) -> Any:
        return self.found.get(name)

    def remember(self, name: Hashable, value: Any, size: int) -> None:
        self.found[name] = value

    def __enter__(self) -> PlainView:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        return None


@dataclass
class PlainSplit:
    """Rows and index of a table; `indexed=False` makes every query scan."""

    table: pa.Table
    mapping: DocMapping
    folder: Path
    incomplete: Mapping[str, IncompleteValues]
    indexed: bool = True
    path: str = "plain.split"
    columns_read: list[tuple[str, ...]] = field(default_factory=list)
    rows_read: int = 0
    stats: ReadStats = field(default_factory=ReadStats)
    _view: PlainView | None = None

    @property
    def num_rows(self) -> int:
        return int(self.table.num_rows)

    @property
    def stored_rows(self) -> int:
        return int(self.table.num_rows)

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    def read_rows(
        self, rows: Rows | Mask | None = None, *, columns: Sequence[str] | None = None
    ) -> pa.Table:
        table = self.table if columns is None else self.table.select(list(columns))
        self.columns_read.append(tuple(table.column_names))
        if rows is None:
            return table
        numbers = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        self.rows_read += len(numbers)
        return table.take(pa.array(numbers))

    def iter_rows(
        self,
        rows: Rows | Mask | None = None,
        *,
        columns: Sequence[str] | None = None,
        codes: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        yield from self.read_rows(rows, columns=columns).to_batches(max_chunksize=100)

    def group_bounds(self, column: str) -> tuple[Rows, ColumnRange] | None:
        return None

    def column_array(self, column: str, rows: Rows | None) -> ColumnArray | None:
        return None

    def decides(self, bound: Predicate) -> bool:
        return False

    def rows_with(self, column: str, terms: Sequence[str]) -> Mask | None:
        return None

    def may_match(self, bound: Predicate) -> Mask | None:
        return None

    def open_index(
        self, fields: Iterable[str], *, positions: bool = False, norms: bool = False
    ) -> PlainView:
        if self._view is None:
            index = tantivy.Index.open(str(self.folder))
            register(index, self.mapping.indexed)
            self._view = PlainView(index, self.folder)
        return self._view


def make_split(table: pa.Table, settings: IndexingSettings, folder: Path) -> PlainSplit:
    """Index a table the way a writer does."""
    mapping = DocMapping.from_settings(table.schema, settings)
    folder.mkdir(parents=True)
    index = tantivy.Index(schema_for(mapping), path=str(folder))
    register(index, mapping.indexed)
    writer = index.writer(15_000_000, 1)
    parts: list[tuple[str, bool, list[str | None]]] = []
    incomplete: dict[str, IncompleteValues] = {}
    for column in mapping.indexed:
        values = index_values(column, table.column(column.name))
        parts.append((column.field, values.is_json, values.texts.to_pylist()))
        if len(values.incomplete):
            incomplete[column.name] = IncompleteValues(len(values.incomplete), values.incomplete)
    for row in range(table.num_rows):
        given = {name: texts[row] for name, _, texts in parts}
        shown = [
            f"{json.dumps(name)}:{text if is_json else json.dumps(text)}"
            for name, is_json, _ in parts
            if (text := given[name]) is not None
        ]
        writer.add_json("{" + ",".join(shown) + "}")
    writer.commit()
    writer.wait_merging_threads()
    return PlainSplit(table, mapping, folder, incomplete)
