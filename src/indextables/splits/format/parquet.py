"""The rows of a split as Parquet: row groups written as batches arrive, the Parquet footer last; and opened to be read.

Row groups are large (131,072 rows), for engines that read all of a column; pages are small, for a search that matches few
rows and decodes only theirs. No footer statistics for floating point columns: Parquet's bounds leave NaN out, and an engine
that trusts them drops rows. No dictionary for them where a zero occurs: Spark skips a row group whose dictionary lacks 0.0,
though it holds the equal -0.0, or the other way round. No statistics for full-text and nested columns: they prune nothing
and would make the footer large.

Files are opened with the reader that `pyarrow.parquet.ParquetFile` is a cover of. The cover looks at every column's path
and resolves file systems each time; and its module loads those of all clouds, which takes as long as a search. What is read
here is in memory already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow._parquet import FileMetaData, ParquetReader

from indextables.splits.index.mapping import DocMapping


def open_parquet(file: object, metadata: FileMetaData | None = None, coded: Sequence[int] = ()) -> Any:
    """A reader of a file object: `metadata`, `schema_arrow`, `read_row_groups`. Metadata that is known is not read again.

    Columns that are `coded` (numbers of leaves) come as codes of their dictionaries.
    """
    reader = ParquetReader()
    reader.open(file, metadata=metadata, read_dictionary=coded or None, pre_buffer=False)
    return reader


ROW_GROUP_ROWS = 131_072
ROW_GROUP_BYTES = 64 << 20
"""Row groups of very large rows end earlier, so that memory stays bounded."""
PAGE_ROWS = 8_192
PAGE_BYTES = 64 << 10
"""Pages of long texts have about a thousand rows."""
_ROWS_AT_ONCE = 256
"""After so many rows the writer looks whether a page is full: after its own 1,024, pages of texts had twice their size."""
_DICTIONARY_WORTHWHILE = 0.5
"""A column whose first row group has more distinct values than this share gets no dictionary."""
_DICTIONARY_VALUES = 32_768
"""Nor one with more distinct values than this: whoever reads one page reads the dictionary too."""
_SAMPLE_ROWS = 16_384
_SAMPLE_SHARE = 0.8
"""So many distinct values has a sample of a full row group that has `_DICTIONARY_VALUES` of them, all equally often."""
_FIRST_RATIO = 0.4
"""Size in the file over size in memory, until a row group tells."""


class ParquetBody:
    """A Parquet file under construction. Other bytes may be appended between the rows and the footer."""

    def __init__(self, path: Path, schema: pa.Schema, mapping: DocMapping) -> None:
        self.path = path
        self.schema = schema.remove_metadata()
        self.row_groups = 0
        self.rows = 0
        self._mapping = mapping
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = self._flushed_bytes = 0
        self._sink = pa.OSFile(str(path), "wb")
        self._writer: pq.ParquetWriter | None = None
        self._dictionary: list[str] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows. They reach the file in whole row groups."""
        self.rows += batch.num_rows
        while batch.num_rows:
            part = batch.slice(0, ROW_GROUP_ROWS - self._waiting_rows)
            if part.nbytes > ROW_GROUP_BYTES:
                part = part.slice(0, max(1, part.num_rows * ROW_GROUP_BYTES // part.nbytes))
            batch = batch.slice(part.num_rows)
            self._waiting.append(part)
            self._waiting_rows += part.num_rows
            self._waiting_bytes += part.nbytes
            if self._waiting_rows == ROW_GROUP_ROWS or self._waiting_bytes >= ROW_GROUP_BYTES:
                self._flush()

    def end_rows(self) -> int:
        """Write what is left of the rows; returns where they end in the file."""
        if self._waiting_rows or self._writer is None:
            self._flush()
        return self.tell()

    @property
    def estimated_bytes(self) -> float:
        """What the rows will take in the file, those included that wait for their row group to be full."""
        ratio = self.tell() / self._flushed_bytes if self._flushed_bytes else _FIRST_RATIO
        return self.tell() + self._waiting_bytes * ratio

    def append(self, data: bytes) -> int:
        """Append other bytes after the rows; returns where they start."""
        at = self.tell()
        self._sink.write(data)
        return at

    def tell(self) -> int:
        """How many bytes the file has by now."""
        return int(self._sink.tell())

    def finish(self, metadata: Mapping[str, str]) -> None:
        """Write the Parquet footer with these key-value entries, and close the file."""
        assert self._writer is not None
        self._writer.add_key_value_metadata(dict(metadata))
        self._writer.close()
        self._sink.close()

    def discard(self) -> None:
        """Close a file that nobody will read, after a failure."""
        if self._writer is not None:
            self._writer.is_open = False
        if not self._sink.closed:
            self._sink.close()

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._waiting, self.schema)
        if self._writer is None:
            # The first row group decides which columns get a dictionary.
            self._dictionary = _dictionary_columns(table, self._mapping)
            self._writer = self._open_writer()
        elif self._zeros(table):
            self._writer = self._write_again(self._writer, self._zeros(table))
        if table.num_rows:
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
            self.row_groups += 1
        self._flushed_bytes += self._waiting_bytes
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    def _zeros(self, table: pa.Table) -> list[str]:
        """The columns that have a dictionary and must not, since these rows hold a zero."""
        names = [f.name for f in self.schema if f.name in self._dictionary and is_float(f.type)]
        return [name for name in names if has_zero(table.column(name))]

    def _write_again(self, writer: pq.ParquetWriter, plain: list[str]) -> pq.ParquetWriter:
        """The row groups so far once more, with no dictionary for some columns: a writer cannot change its mind."""
        writer.close()
        self._sink.close()
        before = self.path.with_name(f"{self.path.name}.before")
        self.path.rename(before)
        self._dictionary = [name for name in self._dictionary if name not in plain]
        self._sink = pa.OSFile(str(self.path), "wb")
        again = self._open_writer()
        file = open_parquet(pa.OSFile(str(before)))
        for group in range(file.metadata.num_row_groups):
            again.write_table(file.read_row_groups([group]).cast(self.schema), row_group_size=ROW_GROUP_ROWS)
        file.close()
        before.unlink()
        return again

    def _open_writer(self) -> pq.ParquetWriter:
        return pq.ParquetWriter(
            self._sink,
            self.schema,
            version="2.6",
            compression="zstd",
            compression_level=1,
            use_dictionary=self._dictionary,
            write_statistics=columns_with_statistics(self.schema, self._mapping),
            write_page_index=True,
            data_page_size=PAGE_BYTES,
            max_rows_per_page=PAGE_ROWS,
            write_batch_size=_ROWS_AT_ONCE,
            store_schema=True,
        )


def columns_with_statistics(schema: pa.Schema, mapping: DocMapping) -> list[str]:
    """The columns whose Parquet bounds are worth having and safe to trust."""
    full_text = {c.name for c in mapping.of_kind("text", "json") if not c.exact}
    return [f.name for f in schema if f.name not in full_text and _has_bounds(f.type)]


def leaf_count(kind: pa.DataType) -> int:
    """How many Parquet columns a column of this type becomes."""
    if isinstance(kind, pa.BaseExtensionType):
        return leaf_count(kind.storage_type)
    if pa.types.is_struct(kind):
        return sum(leaf_count(kind.field(i).type) for i in range(kind.num_fields))
    if pa.types.is_map(kind):
        return leaf_count(kind.key_type) + leaf_count(kind.item_type)
    if pa.types.is_nested(kind) or pa.types.is_dictionary(kind):
        return leaf_count(kind.value_type)
    return 1


def leaf_places(schema: pa.Schema) -> dict[str, range]:
    """The numbers of the Parquet columns of every column. Places, not names: a name may hold a dot."""
    places, at = {}, 0
    for field in schema:
        places[field.name] = range(at, at + leaf_count(field.type))
        at = places[field.name].stop
    return places


def _dictionary_columns(first: pa.Table, mapping: DocMapping) -> list[str]:
    texts = {c.name for c in mapping.of_kind("text") if not c.exact}
    leaves = _leaf_paths(first.schema)
    chosen: list[str] = []
    for field, place in zip(first.schema, leaf_places(first.schema).values(), strict=True):
        column = first.column(field.name)
        if field.name in texts or not (pa.types.is_nested(field.type) or _repeats(column)):
            continue
        floats = is_float(field.type) and not has_zero(column)
        chosen += [path for path, kind in leaves[place.start : place.stop] if floats or kind not in ("FLOAT", "DOUBLE")]
    return chosen


def _repeats(column: pa.ChunkedArray) -> bool:
    """Whether so few values recur that a dictionary is worth it; of most columns some rows tell that."""
    most = min(len(column) * _DICTIONARY_WORTHWHILE, _DICTIONARY_VALUES)
    some = column.slice(0, _SAMPLE_ROWS)
    try:
        distinct = pc.count_distinct(some, mode="all").as_py()
        if len(some) == len(column) or distinct * len(column) <= most * len(some):
            return bool(distinct <= most)
        return bool(distinct <= _SAMPLE_SHARE * len(some) and pc.count_distinct(column, mode="all").as_py() <= most)
    except pa.ArrowNotImplementedError:
        return False


def is_float(kind: pa.DataType) -> bool:
    """Whether a column holds floating point numbers."""
    return bool(pa.types.is_float32(kind) or pa.types.is_float64(kind))


def has_zero(column: pa.ChunkedArray) -> bool:
    """Whether a column of floating point numbers holds 0.0 or -0.0."""
    return bool(pc.any(pc.equal(column, pa.scalar(0.0, column.type))).as_py())


def _leaf_paths(schema: pa.Schema) -> list[tuple[str, str]]:
    """Path and physical type of every Parquet column."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema):
        pass
    columns = pq.read_metadata(pa.BufferReader(sink.getvalue())).schema
    return [(str(columns.column(i).path), str(columns.column(i).physical_type)) for i in range(len(columns))]


def _has_bounds(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _has_bounds(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _has_bounds(kind.value_type)
    return not (pa.types.is_floating(kind) or pa.types.is_nested(kind) or pa.types.is_null(kind))
