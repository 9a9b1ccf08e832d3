"""Rows of a companion split: read by number from the Parquet files of its source.

The files were written by other engines, with their own types, column orders and row groups. A column
is found by its name in the file, read, and converted to the type that the table has; a column that
the file lacks is null. The row count of a file is compared with the recorded one when it is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow._parquet import FileMetaData

from indextables.errors import BadFileError, SchemaMismatchError, SourceChangedError
from indextables.model.column_names import absent_values
from indextables.model.column_ranges import ColumnRange
from indextables.model.predicate import Predicate
from indextables.model.source_file import SourceFile
from indextables.splits.format.container import chunk_places
from indextables.splits.format.parquet import leaf_places, open_parquet
from indextables.splits.format.source import ReadStats
from indextables.splits.index.mapping import DocMapping, decisions_of, under_decisions
from indextables.splits.index.values import IncompleteValues
from indextables.splits.read.cache import SplitCache
from indextables.splits.read.column_arrays import ColumnArray
from indextables.splits.read.directory import IndexDirectory, MaskedIndex, RowMask
from indextables.splits.read.reader import ProvidedChunks, SplitReader
from indextables.splits.read.searchable import Mask, Rows
from indextables.splits.read.source_bytes import SourceBytes

_FIRST_READ = 64 << 10
_TRAILER = 8
_MAGIC = b"PAR1"
_WINDOW_ROWS = 131_072
"""Maximum number of rows of a batch."""


class SourceParquet:
    """One Parquet file of a source, with the columns and types of a table."""

    def __init__(
        self, data: SourceBytes, schema: pa.Schema, cache: SplitCache, rows: int | None = None
    ) -> None:
        """Create a reader; `rows` is the recorded number of rows, which the file must have."""
        self._data = data
        self._schema = schema
        self._cache = cache
        self._rows = rows

    @property
    def path(self) -> str:
        """The file's location in messages."""
        return self._data.path

    @property
    def stats(self) -> ReadStats:
        """Requests and bytes so far."""
        return self._data.stats

    @property
    def is_current(self) -> bool:
        """Whether the file on disk is still the one that was opened."""
        return self._data.is_current

    @cached_property
    def _footer(self) -> tuple[FileMetaData, pa.Schema]:
        key = f"source {self._data.identity}"
        known = self._cache.tails.get(key)
        if not isinstance(known, tuple):
            known = self._read_footer()
            self._cache.tails.put(key, known, known[0].serialized_size)
        metadata = known[0]
        if self._rows is not None and metadata.num_rows != self._rows:
            message = f"{self.path} has {metadata.num_rows} rows; {self._rows} were indexed."
            raise SourceChangedError(message, path=self.path)
        return known

    def _read_footer(self) -> tuple[FileMetaData, pa.Schema]:
        size = self._data.size
        first = max(0, size - _FIRST_READ)
        (tail,) = self._data.read_many([(first, size - first)])
        if len(tail) < _TRAILER or tail[-4:] != _MAGIC:
            if tail[-4:] == b"PARE":
                why = "it is encrypted, and an index would show its words"
            else:
                why = "it does not end as a Parquet file"
            raise BadFileError(f"{self.path} cannot be read: {why}.", path=self.path)
        length = int.from_bytes(tail[-8:-4], "little") + _TRAILER
        if length > size:
            raise BadFileError(f"{self.path} is cut short.", path=self.path)
        if length > len(tail):
            (before,) = self._data.read_many([(size - length, length - len(tail))])
            tail = before + tail
        try:
            file = open_parquet(pa.BufferReader(tail[-length:]))
            return file.metadata, file.schema_arrow.remove_metadata()
        except (pa.ArrowException, OSError, ValueError) as error:
            raise BadFileError(
                f"The Parquet footer of {self.path} cannot be read: {error}.", path=self.path
            ) from error

    @property
    def metadata(self) -> FileMetaData:
        """The Parquet metadata of the file."""
        return self._footer[0]

    @property
    def file_schema(self) -> pa.Schema:
        """The columns of the file with the types that it names."""
        return self._footer[1]

    @property
    def num_rows(self) -> int:
        """Number of rows of the file."""
        return int(self.metadata.num_rows)

    @cached_property
    def _starts(self) -> Rows:
        """The first row of every row group, followed by the number of rows."""
        groups = range(self.metadata.num_row_groups)
        sizes = [self.metadata.row_group(group).num_rows for group in groups]
        return np.cumsum([0, *sizes]).astype(np.int64)

    @cached_property
    def _leaves(self) -> dict[str, range]:
        return leaf_places(self.file_schema)

    @cached_property
    def _places(self) -> Sequence[tuple[int, int]]:
        return chunk_places(self.metadata)

    def iter_rows(self, rows: Rows | None, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield rows by ascending number (None: all) with some columns, a row group at a time."""
        starts = self._starts
        for group, (low, high) in enumerate(pairwise(starts.tolist())):
            if rows is None:
                wanted = None
            else:
                here = rows[np.searchsorted(rows, low) : np.searchsorted(rows, high)] - low
                if not len(here):
                    continue
                wanted = None if len(here) == high - low else here
            if high == low:
                continue
            table = self._group(group, columns, keep=rows is not None)
            if wanted is None:
                yield table
            else:
                yield table.take(pa.array(wanted))

    def _group(self, group: int, columns: Sequence[str], *, keep: bool) -> pa.Table:
        """Return columns of a row group, with the types of the table."""
        pages, content = self._cache.pages, self._data.identity
        count = int(self._starts[group + 1] - self._starts[group])
        held: dict[str, pa.ChunkedArray] = {}
        for name in columns:
            kind = str(self._schema.field(name).type)
            known = pages.get((content, group, name, kind))
            if known is not None:
                held[name] = known
        absent = [name for name in columns if name not in held]
        stored = [name for name in absent if name in self.file_schema.names]
        read = self._read_group(group, stored)
        for name in absent:
            field = self._schema.field(name)
            if name not in stored:
                held[name] = pa.chunked_array([absent_values(field, count)])
                continue
            held[name] = values = self._convert(read.column(name), field)
            if keep:
                pages.put((content, group, name, str(field.type)), values, values.nbytes)
        return pa.table([held[name] for name in columns], names=list(columns))

    def _read_group(self, group: int, columns: Sequence[str]) -> pa.Table:
        """Return columns of a row group as the file has them."""
        if not columns:
            return pa.table({})
        leaves = sorted(leaf for name in columns for leaf in self._leaves[name])
        width = self.metadata.num_columns
        ranges = [self._places[group * width + leaf] for leaf in leaves]
        file = ProvidedChunks(self.path, self._data.size, ranges, self._data.read_many(ranges))
        try:
            reader = open_parquet(file, self.metadata)
            return reader.read_row_groups([group], column_indices=leaves, use_threads=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise BadFileError(
                f"The rows of {self.path} cannot be decoded: {error}.", path=self.path
            ) from error

    def _convert(self, values: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
        try:
            return convert_column(values, field.type)
        except (pa.ArrowException, ValueError) as error:
            raise SchemaMismatchError(
                f"Column {field.name!r} of {self.path} is {values.type} and does not fit the "
                f"source's {field.type}: {error}.",
                hint="Write the file again with the type that the other files have.",
                path=self.path,
                column=field.name,
            ) from error


def convert_column(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return a column with another type of the same meaning: wider numbers, other layouts of text,
    structs with added fields.
    """
    if values.type == kind:
        return values
    if pa.types.is_struct(kind) and pa.types.is_struct(values.type):
        return pa.chunked_array([_convert_struct(c, kind) for c in values.chunks], kind)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    return pc.cast(values, options=pc.CastOptions(target_type=kind, allow_time_truncate=True))


def _convert_struct(values: pa.StructArray, kind: pa.StructType) -> pa.StructArray:
    names = [field.name for field in values.type]
    parts = []
    for field in kind:
        if field.name in names:
            part = pa.chunked_array([values.field(names.index(field.name))])
            parts.append(convert_column(part, field.type).combine_chunks())
        else:
            parts.append(pa.nulls(len(values), field.type))
    joined = [p.chunk(0) if isinstance(p, pa.ChunkedArray) else p for p in parts]
    return pa.StructArray.from_arrays(joined, fields=list(kind), mask=values.is_null())


class CompanionReader:
    """The documents of a companion split, or the rows of one source file without an index."""

    def __init__(
        self,
        path: str,
        files: Sequence[tuple[SourceFile, SourceParquet]],
        schema: pa.Schema,
        mapping: DocMapping,
        index: SplitReader | None,
    ) -> None:
        """`schema` are the columns of the table without partition columns, `mapping` how the table
        indexes them.
        """
        self._path = path
        self._files = [file for _, file in files]
        self._starts = np.cumsum([0, *(listed.rows for listed, _ in files)]).astype(np.int64)
        self._schema = schema
        self._mapping = mapping
        self.index = index

    @property
    def path(self) -> str:
        """The split's or the file's name in messages."""
        return self._path

    @property
    def schema(self) -> pa.Schema:
        """Columns of the rows."""
        return self._schema

    @property
    def num_rows(self) -> int:
        """Number of documents."""
        return int(self._starts[-1])

    @property
    def stored_rows(self) -> int:
        """Number of documents."""
        return self.num_rows

    @cached_property
    def mapping(self) -> DocMapping:
        """How the columns are indexed here. A column that this split indexes in another way than
        the table, or not at all, is answered from the rows.
        """
        if self.index is None:
            return self._mapping
        own = self.index.mapping
        known = DocMapping(tuple(c for c in own.columns if self._mapping.find(c.name) is not None))
        return under_decisions(known, decisions_of(self._mapping))

    @property
    def indexed(self) -> bool:
        """Whether there is an index to open."""
        return self.index is not None and self.index.indexed

    @property
    def incomplete(self) -> Mapping[str, IncompleteValues]:
        """Values that the index holds only partly, by column."""
        if self.index is None:
            return {}
        return self.index.incomplete

    @property
    def is_current(self) -> bool:
        """Whether the files on disk are still those that were opened."""
        return all(file.is_current for file in self._files)

    @property
    def stats(self) -> ReadStats:
        """Requests and bytes so far, of the index and the files."""
        parts = [file.stats for file in self._files]
        if self.index is not None:
            parts.append(self.index.stats)
        return ReadStats(sum(part.requests for part in parts), sum(part.bytes for part in parts))

    def read_rows(
        self, rows: Rows | Mask | None = None, *, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return the rows with these numbers in that order (None: all), with only the named
        columns.
        """
        names = self._schema.names if columns is None else list(columns)
        numbers = self._numbers(rows)
        if not names:
            return pa.table({"": pa.nulls(len(numbers))}).select([])
        distinct = np.unique(numbers)
        parts = list(self._parts(distinct, names))
        schema = pa.schema([self._schema.field(name) for name in names])
        plain = pa.schema([pa.field(f.name, f.type) for f in schema])
        table = pa.concat_tables([plain.empty_table(), *parts])
        if len(distinct) != len(numbers) or not np.array_equal(distinct, numbers):
            table = table.take(pa.array(np.searchsorted(distinct, numbers)))
        return table

    def iter_rows(
        self,
        rows: Rows | Mask | None = None,
        *,
        columns: Sequence[str] | None = None,
        codes: bool = False,  # noqa: ARG002
    ) -> Iterator[pa.RecordBatch]:
        """Stream the rows in the order of their numbers, which must ascend."""
        names = self._schema.names if columns is None else list(columns)
        numbers = None if rows is None else self._numbers(rows)
        if not names:
            count = len(self._numbers(rows))
            yield pa.record_batch({"": pa.nulls(count)}).select([])
            return
        for table in self._parts(numbers, names):
            yield from table.combine_chunks().to_batches(max_chunksize=_WINDOW_ROWS)

    def _parts(self, numbers: Rows | None, names: Sequence[str]) -> Iterator[pa.Table]:
        for number, (low, high) in enumerate(pairwise(self._starts.tolist())):
            if numbers is None:
                yield from self._files[number].iter_rows(None, names)
                continue
            start, end = np.searchsorted(numbers, [low, high])
            if start < end:
                yield from self._files[number].iter_rows(numbers[start:end] - low, names)

    def _numbers(self, rows: Rows | Mask | None) -> Rows:
        if rows is None:
            return np.arange(self.num_rows, dtype=np.int64)
        found = np.asarray(rows)
        if found.dtype == np.bool_:
            return np.flatnonzero(found).astype(np.int64)
        numbers: Rows = found.astype(np.int64)
        return numbers

    def may_match(self, bound: Predicate) -> Mask | None:  # noqa: ARG002
        """Return None: bounds of other engines' files are not used."""
        return None

    def decides(self, bound: Predicate) -> bool:  # noqa: ARG002
        """Return False: no bound is exact."""
        return False

    def rows_with(self, column: str, terms: Sequence[str]) -> Mask | None:  # noqa: ARG002
        """Return None: the index answers this better."""
        return None

    def column_array(self, column: str, rows: Rows | None) -> ColumnArray | None:  # noqa: ARG002
        """Return None: columns of source files are read as they are."""
        return None

    def group_bounds(self, column: str) -> tuple[Rows, ColumnRange] | None:  # noqa: ARG002
        """Return None: bounds of other engines' files are not used."""
        return None

    def open_index(
        self,
        fields: Iterable[str],
        *,
        positions: bool = False,
        norms: bool = False,
        mask: RowMask | None = None,
    ) -> IndexDirectory | MaskedIndex:
        """Open the index with the verified data of these fields."""
        assert self.index is not None, "a file without an index is scanned"
        return self.index.open_index(fields, positions=positions, norms=norms, mask=mask)
