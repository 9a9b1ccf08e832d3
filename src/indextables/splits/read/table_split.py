"""A split seen as a part of its table: with the partition columns it does not store and the columns added after it.

Opening a split of either kind: one of ours, or another engine's bundle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from indextables.errors import BadFileError
from indextables.model.column_ranges import ColumnRange
from indextables.model.predicate import Predicate, columns_of
from indextables.model.stat_text import decode_value
from indextables.splits.format.source import ReadStats, SplitSource, open_source
from indextables.splits.index.mapping import DocMapping
from indextables.splits.read.cache import SplitCache
from indextables.splits.read.foreign import ForeignReader, is_bundle
from indextables.splits.read.reader import SMALL_BYTES, SmallSource, SplitReader
from indextables.splits.read.searchable import Mask, Rows, SearcherView
from indextables.storage.store import Store


def open_split(
    source: SplitSource,
    schema: pa.Schema,
    *,
    footer_start: int | None = None,
    num_records: int | None = None,
    cache: SplitCache | None = None,
) -> SplitReader | ForeignReader:
    """A reader for the split; `schema` (the table's, without partition columns) types a foreign split's values.

    A number of records that differs from what the log says is `BadFileError`.
    """
    reader = _open(source, schema, footer_start, cache)
    if num_records is not None and reader.num_rows != num_records:
        message = f"The split {source.path} has {reader.num_rows} rows; the log says {num_records}."
        raise BadFileError(message, path=source.path, start=0, length=source.size)
    return reader


def _open(
    source: SplitSource, schema: pa.Schema, footer_start: int | None, cache: SplitCache | None
) -> SplitReader | ForeignReader:
    try:
        return SplitReader.open(source, footer_start=footer_start, cache=cache)
    except BadFileError:
        if source.size < 8 or not is_bundle(source.read_many([(source.size - 8, 8)])[0]):
            raise
    return ForeignReader.open(source, schema)


class SplitEntry(Struct, frozen=True):
    """What the log says of a split, as far as reading it needs; plain values that travel."""

    path: str
    size: int
    num_records: int | None
    footer_start: int | None
    partition_values: Mapping[str, str | None]
    certain: bool = False
    """Whether every row is known to match the predicate of the scan, so that nobody need look."""


class TableSplit:
    """A `Searchable` with the columns of the table."""

    def __init__(
        self, reader: SplitReader | ForeignReader, schema: pa.Schema, constants: Mapping[str, str | None]
    ) -> None:
        self.reader = reader
        self.schema = schema
        self._constants = constants

    @property
    def path(self) -> str:
        """Where the split lies."""
        return self.reader.path

    @property
    def num_rows(self) -> int:
        """Rows of the split."""
        return self.reader.num_rows

    @property
    def mapping(self) -> DocMapping:
        """How the stored columns are indexed."""
        return self.reader.mapping

    @property
    def indexed(self) -> bool:
        """Whether the split has an index that can be searched."""
        return self.reader.indexed

    @property
    def incomplete(self) -> Mapping[str, int]:
        """Values that the index holds incompletely."""
        return self.reader.incomplete

    @property
    def stats(self) -> ReadStats:
        """What was read of the split so far."""
        return self.reader.stats

    def read_rows(self, rows: Rows | Mask | None = None, *, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows by number, by mask, or all, with the table's columns."""
        names = self.schema.names if columns is None else list(columns)
        stored = self._stored(names)
        if stored or not names:
            return self._complete(self.reader.read_rows(rows, columns=stored), names)
        return self._complete_count(_count(rows, self.num_rows), names)

    def iter_rows(
        self, rows: Rows | Mask | None = None, *, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The same as a stream, in file order."""
        names = self.schema.names if columns is None else list(columns)
        stored = self._stored(names)
        if not stored:
            yield from self._complete_count(_count(rows, self.num_rows), names).to_batches()
            return
        for batch in self.reader.iter_rows(rows, columns=stored):
            yield from self._complete(pa.Table.from_batches([batch]), names).to_batches()

    def may_match(self, bound: Predicate) -> Mask | None:
        """Rows that a predicate cannot be true for, as far as the split's stored columns tell."""
        stored = set(self._stored(self.schema.names))
        return self.reader.may_match(bound) if stored.issuperset(columns_of(bound)) else None

    def group_bounds(self, column: str) -> tuple[Rows, ColumnRange] | None:
        """The bounds of a column that is stored as the table has it."""
        stored = column in self._stored([column]) and self.reader.schema.field(column).type == self._kind(column)
        return self.reader.group_bounds(column) if stored else None

    def open_index(self, fields: Iterable[str], *, positions: bool = False, norms: bool = False) -> SearcherView:
        """The split's index."""
        return self.reader.open_index(fields, positions=positions, norms=norms)

    def _kind(self, column: str) -> pa.DataType:
        return self.schema.field(column).type

    def _stored(self, names: Sequence[str]) -> list[str]:
        present = set(self.reader.schema.names) - set(self._constants)
        return [name for name in names if name in present]

    def _complete(self, rows: pa.Table, names: Sequence[str]) -> pa.Table:
        return pa.table([self._column(rows, name) for name in names], schema=self._only(names))

    def _complete_count(self, count: int, names: Sequence[str]) -> pa.Table:
        return pa.table([self._constant(name, count) for name in names], schema=self._only(names))

    def _only(self, names: Sequence[str]) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in names])

    def _column(self, rows: pa.Table, name: str) -> pa.ChunkedArray | pa.Array:
        if name not in rows.column_names:
            return self._constant(name, rows.num_rows)
        column, wanted = rows.column(name), self._kind(name)
        return column if column.type == wanted else pc.cast(column, wanted)

    def _constant(self, name: str, count: int) -> pa.Array:
        kind = self._kind(name)
        text = self._constants.get(name)
        value = None if text is None else decode_value(text, kind)
        return pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count)


def _count(rows: Rows | Mask | None, total: int) -> int:
    if rows is None:
        return total
    return int(rows.sum()) if rows.dtype == bool else len(rows)


def open_table_split(
    store: Store,
    entry: SplitEntry,
    schema: pa.Schema,
    partition_columns: Sequence[str],
    *,
    cache: SplitCache | None = None,
) -> TableSplit:
    """Open a split of a table. A record count that is not the log's is a BadFileError."""
    return _open_table_split(open_source(store, entry.path, size=entry.size), entry, schema, partition_columns, cache)


def shared_table_split(
    store: Store, entry: SplitEntry, schema: pa.Schema, partition_columns: Sequence[str], *, cache: SplitCache
) -> TableSplit:
    """The same, opened once by a process for as long as the file, what the log says of it and the table's columns stay.

    It counts the reads of all who use it. Another engine's bundle is not kept: it takes its size in unpacked files.
    """
    source = open_source(store, entry.path, size=entry.size)
    known = cache.opened.get(source.identity)
    if isinstance(known, _OpenedSplit) and known.serves(store, entry, schema, partition_columns):
        return known.split
    split = _open_table_split(source, entry, schema, partition_columns, cache)
    if isinstance(split.reader, SplitReader):
        opened = _OpenedSplit(split, store, entry, schema, tuple(partition_columns))
        cache.opened.put(source.identity, opened, len(split.reader.tail.data))
    return split


class _OpenedSplit(Struct, frozen=True):
    """A split and what it was opened for."""

    split: TableSplit
    store: Store
    entry: SplitEntry
    schema: pa.Schema
    partition_columns: tuple[str, ...]

    def serves(self, store: Store, entry: SplitEntry, schema: pa.Schema, partition_columns: Sequence[str]) -> bool:
        """Whether it would be opened in just the same way. A remote store must be the very one: it has credentials."""
        if store is not self.store and store.local_path(entry.path) is None:
            return False
        if entry is not self.entry and _without_certainty(entry) != _without_certainty(self.entry):
            return False
        same = schema is self.schema or schema.equals(self.schema, check_metadata=True)
        return same and self.partition_columns == tuple(partition_columns)


def _without_certainty(entry: SplitEntry) -> tuple[object, ...]:
    return entry.path, entry.size, entry.num_records, entry.footer_start, dict(entry.partition_values)


def _open_table_split(
    source: SplitSource,
    entry: SplitEntry,
    schema: pa.Schema,
    partition_columns: Sequence[str],
    cache: SplitCache | None,
) -> TableSplit:
    body = pa.schema([f for f in schema if f.name not in partition_columns])
    if cache is not None and source.remote and source.size <= SMALL_BYTES:
        source = SmallSource(source, cache)
    reader = open_split(source, body, footer_start=entry.footer_start, num_records=entry.num_records, cache=cache)
    return TableSplit(reader, schema, {name: entry.partition_values.get(name) for name in partition_columns})
