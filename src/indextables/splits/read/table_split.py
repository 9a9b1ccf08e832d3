"""A split as part of its table: with partition columns and later columns, and without deleted rows.

Rows of a `TableSplit` are numbered without the deleted ones, so no reader, count or search can
return them. Their numbers in the file are `places`; a deletion vector names rows by those.
`open_split` opens our splits and bundles of another engine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from indextables.config.splits import RangeSettings
from indextables.errors import BadFileError
from indextables.metrics import METRICS, PROFILER
from indextables.model.column_names import absent_values
from indextables.model.column_ranges import ColumnRange
from indextables.model.predicate import Predicate, columns_of
from indextables.model.source_file import SourceFile
from indextables.model.values import decode_value
from indextables.splits.format.source import AS_USUAL, ReadStats, SplitSource, open_source
from indextables.splits.index.mapping import DocMapping, decided_columns, under_decisions
from indextables.splits.index.table_schema import TableSchema
from indextables.splits.index.values import IncompleteValues, keep_living
from indextables.splits.read.bundle_files import WHOLE_BYTES, is_bundle, whole_if_small
from indextables.splits.read.cache import SplitCache
from indextables.splits.read.column_arrays import ColumnArray
from indextables.splits.read.directory import RowMask
from indextables.splits.read.foreign import ForeignReader
from indextables.splits.read.reader import SMALL_BYTES, SmallSource, SplitReader, open_term_count
from indextables.splits.read.searchable import Mask, Rows, SearcherView
from indextables.splits.read.source_rows import CompanionReader
from indextables.storage.store import Store
from indextables.storage.vector_files import load_vector


def open_split(
    source: SplitSource,
    schema: pa.Schema,
    *,
    footer_start: int | None = None,
    num_records: int | None = None,
    cache: SplitCache | None = None,
) -> SplitReader | ForeignReader:
    """Open a reader for the split; `schema` (the table's without partition columns) types a foreign
    split's values.

    A row count that differs from the log raises `BadFileError`.
    """
    reader = _open(source, schema, footer_start, cache)
    METRICS.count("splits_opened_total")
    if num_records is not None and reader.num_rows != num_records:
        message = f"The split {source.path} has {reader.num_rows} rows; the log says {num_records}."
        raise BadFileError(message, path=source.path, start=0, length=source.size)
    return reader


class _BundlesExpected:
    """Whether the last opened split was another engine's, in which case the next is tried as one
    first.

    A table usually has splits of one kind; a wrong guess costs one read.
    """

    last = False


def _open(
    source: SplitSource, schema: pa.Schema, footer_start: int | None, cache: SplitCache | None
) -> SplitReader | ForeignReader:
    if _BundlesExpected.last and source.size <= WHOLE_BYTES and not source.remote:
        bundle = whole_if_small(source)
        if _ends_as_bundle(bundle):
            return ForeignReader.open(bundle, schema)
    try:
        reader = SplitReader.open(source, footer_start=footer_start, cache=cache)
    except BadFileError:
        bundle = whole_if_small(source)
        if not _ends_as_bundle(bundle):
            raise
        _BundlesExpected.last = True
        return ForeignReader.open(bundle, schema)
    _BundlesExpected.last = False
    return reader


def _ends_as_bundle(source: SplitSource) -> bool:
    return source.size >= 8 and is_bundle(source.read_many([(source.size - 8, 8)])[0])


class SplitEntry(Struct, frozen=True):
    """The log entry of a split, as far as reading needs it; plain picklable values."""

    path: str
    size: int
    num_records: int | None
    footer_start: int | None
    partition_values: Mapping[str, str | None]
    vector: str | None
    """Its deletion vector."""
    deleted: int | None
    """Number of rows in the deletion vector; `num_records` does not count them."""
    certain: bool = False
    """Whether every row is known to match the predicate of the scan, so that it is not evaluated.
    """
    warm: bool = False
    """Whether the first reader also fetches its indexes for later searches (`prewarm.enabled`)."""
    sources: tuple[SourceFile, ...] = ()
    """The files whose rows a companion split indexes, or the file of a source that has no index."""

    @property
    def stored_records(self) -> int | None:
        """Number of rows in the file."""
        if self.num_records is None:
            return None
        return self.num_records + (self.deleted or 0)


class TableSplit:
    """A `Searchable` with the columns of the table."""

    def __init__(
        self,
        reader: SplitReader | ForeignReader | CompanionReader,
        schema: pa.Schema,
        constants: Mapping[str, str | None],
        mask: RowMask | None = None,
    ) -> None:
        self.reader = reader
        self.schema = schema
        self.mask = mask
        self.is_warm = False
        """Whether its indexes were fetched ahead of searches."""
        self._constants = constants
        self._schemas: dict[tuple[str, ...], pa.Schema] = {}

    def places(self, rows: Rows) -> Rows:
        """Return the numbers in the file of rows of this split."""
        if self.mask is None:
            return rows
        return self.mask.living[rows]

    @property
    def path(self) -> str:
        """The split's location."""
        return self.reader.path

    @property
    def num_rows(self) -> int:
        """Number of rows of the split that are part of the table."""
        if self.mask is None:
            return self.reader.num_rows
        return len(self.mask.living)

    @property
    def stored_rows(self) -> int:
        """Number of rows in the file."""
        return self.reader.num_rows

    @cached_property
    def mapping(self) -> DocMapping:
        """How the stored columns are indexed. A column whose index contradicts the table's decision
        counts as not indexed.
        """
        return under_decisions(self.reader.mapping, decided_columns(self.schema))

    @property
    def indexed(self) -> bool:
        """Whether the split has an index that can be searched."""
        return self.reader.indexed

    @cached_property
    def incomplete(self) -> Mapping[str, IncompleteValues]:
        """Values of living rows that the index holds only partly, by column."""
        if self.mask is None:
            return self.reader.incomplete
        return {
            name: keep_living(values, self.mask.alive)
            for name, values in self.reader.incomplete.items()
        }

    @property
    def index_reader(self) -> SplitReader | None:
        """The reader of the split's own index; None for a split of another engine, and for a file
        without an index.
        """
        if isinstance(self.reader, CompanionReader):
            return self.reader.index
        if isinstance(self.reader, SplitReader):
            return self.reader
        return None

    @property
    def stats(self) -> ReadStats:
        """Reads of the split so far."""
        return self.reader.stats

    def read_rows(
        self, rows: Rows | Mask | None = None, *, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return rows by number, by mask, or all, with the table's columns."""
        names = self.schema.names if columns is None else list(columns)
        stored = self._list_stored(names)
        if stored or not names:
            with PROFILER.section("read_rows"):
                return self._complete(
                    self.reader.read_rows(self._in_file(rows), columns=stored), names
                )
        return self._complete_count(_count(rows, self.num_rows), names)

    def iter_rows(
        self,
        rows: Rows | Mask | None = None,
        *,
        columns: Sequence[str] | None = None,
        codes: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Stream the rows in file order. With `codes`, texts may be dictionary codes."""
        names = self.schema.names if columns is None else list(columns)
        stored = self._list_stored(names)
        if not stored:
            yield from self._complete_count(_count(rows, self.num_rows), names).to_batches()
            return
        batches = PROFILER.steps(
            "read_rows", self.reader.iter_rows(self._in_file(rows), columns=stored, codes=codes)
        )
        if stored == names and isinstance(
            self.reader, ForeignReader
        ):  # which has the types of the table
            yield from batches
            return
        for batch in batches:
            table = pa.Table.from_batches([batch])
            yield from (
                self._complete_codes(table, names) if codes else self._complete(table, names)
            ).to_batches()

    def may_match(self, bound: Predicate) -> Mask | None:
        """Return the rows for which a predicate cannot be true, as far as the stored columns show."""
        columns = columns_of(bound)
        as_stored = set(self._list_stored(columns)) == set(columns) and all(
            self._is_as_stored(name) for name in columns
        )
        possible = self.reader.may_match(bound) if as_stored else None
        if possible is None or self.mask is None:
            return possible
        return possible[self.mask.living]

    def decides(self, bound: Predicate) -> bool:
        """Return whether another engine's terms are an exact answer."""
        return isinstance(self.reader, ForeignReader) and self.reader.decides(bound)

    def rows_with(self, column: str, terms: Sequence[str]) -> Mask | None:
        """Return the rows that can hold all of some terms of another engine's index, or None."""
        if not isinstance(self.reader, ForeignReader) or column not in self._present:
            return None
        possible = self.reader.rows_with(column, terms)
        if possible is None or self.mask is None:
            return possible
        return possible[self.mask.living]

    def group_bounds(self, column: str) -> tuple[Rows, ColumnRange] | None:
        """Return the bounds of a column that is stored with the table's type."""
        stored = column in self._list_stored([column]) and self._is_as_stored(column)
        groups = self.reader.group_bounds(column) if stored else None
        if groups is None or self.mask is None:
            return groups
        starts, bounds = groups
        return np.searchsorted(self.mask.living, starts).astype(np.int64), bounds

    def column_array(self, column: str, rows: Rows | None) -> ColumnArray | None:
        """Return a column that is stored with the table's type as an array, or None."""
        stored = column in self._present and self._is_as_stored(column)
        if not stored:
            return None
        if self.mask is not None:
            rows = self.mask.living if rows is None else self.mask.living[rows]
        return self.reader.column_array(column, rows)

    def stored_type(self, column: str) -> pa.DataType | None:
        """Return the type of a column in the file, or None if it is missing."""
        if column in self._present:
            return self.reader.schema.field(column).type
        return None

    def _is_as_stored(self, column: str) -> bool:
        """Return whether a stored column has the table's type; statistics of a narrower type do not
        apply.
        """
        return bool(self.reader.schema.field(column).type == self._kind(column))

    def open_index(
        self, fields: Iterable[str], *, positions: bool = False, norms: bool = False
    ) -> SearcherView:
        """Open the split's index, in which deleted rows are deleted documents."""
        if isinstance(self.reader, ForeignReader):
            return self.reader.open_index(fields, positions=positions, norms=norms)
        return self.reader.open_index(fields, positions=positions, norms=norms, mask=self.mask)

    def prewarm(self, columns: Collection[str]) -> set[str]:
        """Fetch the indexes of some or all columns into the local cache and return the indexed
        columns.

        Nothing is cached for a split of another engine.
        """
        reader = self.index_reader
        own = self.mapping.indexed if reader is None else reader.mapping.indexed
        known = [column for column in own if not columns or column.name in columns]
        if known and self.indexed and reader is not None:
            with self.open_index([column.field for column in known], positions=True, norms=True):
                pass  # it is fetched by opening
        self.is_warm = True
        return {column.name for column in known}

    def term_count(self, field: str, text: str) -> int | None:
        """Return how many rows hold a term if its dictionary is open and no row is deleted, or
        None.
        """
        reader = self.index_reader
        if self.mask is not None or reader is None:
            return None
        return open_term_count(reader, field, text)

    def _in_file(self, rows: Rows | Mask | None) -> Rows | Mask | None:
        """Return rows in the numbering of the reader."""
        if self.mask is None:
            return rows
        if rows is None:
            return self.mask.living
        return self.mask.living[np.asarray(rows)]

    def _kind(self, column: str) -> pa.DataType:
        return self.schema.field(column).type

    def _list_stored(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name in self._present]

    @cached_property
    def _present(self) -> frozenset[str]:
        """Return the columns of the file that are columns of the table."""
        return frozenset(self.reader.schema.names) - frozenset(self._constants)

    def _complete(self, rows: pa.Table, names: Sequence[str]) -> pa.Table:
        schema = self._only(names)
        if rows.schema.equals(schema):
            return rows
        return pa.table([self._column(rows, name) for name in names], schema=schema)

    def _complete_codes(self, rows: pa.Table, names: Sequence[str]) -> pa.Table:
        """Return the rows like `_complete`, but keep dictionary codes of texts."""
        coded = {
            field.name
            for field in rows.schema
            if pa.types.is_dictionary(field.type)
            and field.type.value_type == self._kind(field.name)
        }
        return pa.table(
            {
                name: rows.column(name) if name in coded else self._column(rows, name)
                for name in names
            }
        )

    def _complete_count(self, count: int, names: Sequence[str]) -> pa.Table:
        if not names:  # a table of no columns has a number of rows only if it had a column once
            return pa.table({"": pa.nulls(count)}).select([])
        return pa.table([self._constant(name, count) for name in names], schema=self._only(names))

    def _only(self, names: Sequence[str]) -> pa.Schema:
        known = self._schemas.get(tuple(names))
        if known is None:
            known = self._schemas[tuple(names)] = pa.schema(
                [self.schema.field(name) for name in names]
            )
        return known

    def _column(self, rows: pa.Table, name: str) -> pa.ChunkedArray | pa.Array:
        if name not in rows.column_names:
            return self._constant(name, rows.num_rows)
        column, wanted = rows.column(name), self._kind(name)
        if column.type == wanted:
            return column
        return pc.cast(column, wanted)

    def _constant(self, name: str, count: int) -> pa.Array:
        if name not in self._constants:
            return absent_values(self.schema.field(name), count)
        kind = self._kind(name)
        text = self._constants.get(name)
        value = None if text is None else decode_value(text, kind)
        if value is None:
            return pa.nulls(count, kind)
        return pa.repeat(pa.scalar(value, kind), count)


def _count(rows: Rows | Mask | None, total: int) -> int:
    if rows is None:
        return total
    if rows.dtype == bool:
        return int(rows.sum())
    return len(rows)


def open_table_split(
    store: Store,
    entry: SplitEntry,
    schema: pa.Schema,
    partition_columns: Sequence[str],
    *,
    cache: SplitCache | None = None,
    ranges: RangeSettings = AS_USUAL,
) -> TableSplit:
    """Open a split of a table. A row count that differs from the log raises BadFileError.

    `ranges` controls which ranges of a remote file are combined.
    """
    source = open_source(store, entry.path, size=entry.size, ranges=ranges)
    return _open_table_split(source, entry, schema, partition_columns, cache, store)


def shared_table_split(
    store: Store,
    entry: SplitEntry,
    schema: pa.Schema,
    partition_columns: Sequence[str],
    *,
    cache: SplitCache,
    ranges: RangeSettings = AS_USUAL,
) -> TableSplit:
    """Open a split once per process, as long as the file, its log entry and the table's columns are
    unchanged.

    Its read counters cover all users. Another engine's bundle counts with its size, because its
    content stays in memory and may be unpacked on disk.
    """
    source = open_source(store, entry.path, size=entry.size, ranges=ranges)
    known = _opened_before(source, store, entry, schema, partition_columns, cache, ranges)
    if known is not None:
        return known
    split = _open_table_split(source, entry, schema, partition_columns, cache, store)
    opened = _OpenedSplit(split, store, entry, schema, tuple(partition_columns), ranges)
    # A mask has a truth value and a number for each row, which may be far more than the end of the
    # file.
    if isinstance(split.reader, SplitReader):
        own = len(split.reader.tail.data)
    else:
        own = _KEPT_FACTOR * source.size
    cache.opened.put(
        source.identity, opened, own + (0 if split.mask is None else 9 * split.stored_rows)
    )
    return split


def opened_table_split(
    store: Store,
    entry: SplitEntry,
    schema: pa.Schema,
    partition_columns: Sequence[str],
    *,
    cache: SplitCache,
    ranges: RangeSettings = AS_USUAL,
) -> TableSplit | None:
    """Return the split if this process has it open, or None."""
    source = open_source(store, entry.path, size=entry.size, ranges=ranges)
    return _opened_before(source, store, entry, schema, partition_columns, cache, ranges)


def _opened_before(
    source: SplitSource,
    store: Store,
    entry: SplitEntry,
    schema: pa.Schema,
    partition_columns: Sequence[str],
    cache: SplitCache,
    ranges: RangeSettings,
) -> TableSplit | None:
    known = cache.opened.get(source.identity)
    if not isinstance(known, _OpenedSplit) or not known.serves(
        store, entry, schema, partition_columns, ranges
    ):
        return None
    return known.split


_KEPT_FACTOR = 4
"""Ratio of decoded terms of another engine in memory to their size in the file."""


class _OpenedSplit(Struct, frozen=True):
    """A split and the parameters it was opened with."""

    split: TableSplit
    store: Store
    entry: SplitEntry
    schema: pa.Schema
    partition_columns: tuple[str, ...]
    ranges: RangeSettings

    def serves(
        self,
        store: Store,
        entry: SplitEntry,
        schema: pa.Schema,
        partition_columns: Sequence[str],
        ranges: RangeSettings,
    ) -> bool:
        """Return whether it would be opened in the same way. A remote store must be the same
        object, because it has credentials.
        """
        if (store is not self.store or ranges != self.ranges) and store.local_path(
            entry.path
        ) is None:
            return False
        if entry is not self.entry and _without_certainty(entry) != _without_certainty(self.entry):
            return False
        same = schema is self.schema or schema.equals(self.schema, check_metadata=True)
        return same and self.partition_columns == tuple(partition_columns)


def _without_certainty(entry: SplitEntry) -> tuple[object, ...]:
    own = (
        entry.path,
        entry.size,
        entry.num_records,
        entry.footer_start,
        dict(entry.partition_values),
    )
    return *own, entry.vector, entry.deleted, entry.sources


def _open_table_split(
    source: SplitSource,
    entry: SplitEntry,
    schema: pa.Schema,
    partition_columns: Sequence[str],
    cache: SplitCache | None,
    store: Store,
) -> TableSplit:
    body = TableSchema(schema, tuple(partition_columns)).stored
    if cache is not None and source.remote and source.size <= SMALL_BYTES:
        source = SmallSource(source, cache)
    reader = open_split(
        source, body, footer_start=entry.footer_start, num_records=entry.stored_records, cache=cache
    )
    constants = {name: entry.partition_values.get(name) for name in partition_columns}
    return TableSplit(
        reader,
        schema,
        constants,
        row_mask(store, entry.path, entry.vector, entry.deleted, reader.num_rows),
    )


def row_mask(
    store: Store,
    path: str,
    vector: str | None,
    deleted: int | None,
    stored: int,
    *,
    fresh: bool = False,
) -> RowMask | None:
    """Return the living rows of a split with a deletion vector, or None. `fresh` reads it from the
    store.
    """
    if vector is None:
        return None
    try:
        rows = load_vector(store, vector, records=deleted, fresh=fresh)
    except BadFileError as error:
        raise BadFileError(f"{path}: {error.message}", path=path, vector=vector) from error
    if len(rows) and int(rows[-1]) >= stored:
        raise BadFileError(
            f"The deletion vector of {path} names row {int(rows[-1])} of a split of {stored} rows.",
            path=path,
        )
    alive = np.ones(stored, np.bool_)
    alive[rows] = False
    return RowMask(vector, alive)
