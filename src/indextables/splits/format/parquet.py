"""Write and open the rows of a split as Parquet.

Row groups are large (131,072 rows), for engines that read whole columns; pages are small, for
searches that decode only the pages of matching rows.

Floating-point columns have no footer statistics, because Parquet's bounds ignore NaN and an engine
that trusts them drops rows. They have no dictionary if a zero occurs, because Spark skips a row
group whose dictionary lacks 0.0 although it holds the equal -0.0, and vice versa. Full-text and
nested columns have no statistics: these would prune nothing and enlarge the footer.

Files are opened with the reader below `pyarrow.parquet.ParquetFile`, which parses every column
path, resolves file systems on each open, and imports the file systems of all clouds. All bytes are
in memory here.
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


def open_parquet(
    file: object, metadata: FileMetaData | None = None, coded: Sequence[int] = ()
) -> Any:
    """Open a reader for a file object with `metadata`, `schema_arrow` and `read_row_groups`.

    Known metadata is not read again. Columns in `coded` (leaf numbers) are read as dictionary
    codes. Timestamps of 96 bits, which other engines wrote, are read as microseconds.
    """
    reader = ParquetReader()
    reader.open(
        file,
        metadata=metadata,
        read_dictionary=coded or None,
        pre_buffer=False,
        coerce_int96_timestamp_unit="us",
    )
    return reader


ROW_GROUP_ROWS = 131_072
ROW_GROUP_BYTES = 64 << 20
"""Row groups of very large rows end earlier, which bounds memory."""
PAGE_ROWS = 8_192
PAGE_BYTES = 64 << 10
"""Page size; pages of long texts hold about a thousand rows."""
_ROWS_AT_ONCE = 256
"""Number of rows between page size checks. With the default of 1,024, pages of texts become twice
as large.
"""
_DICTIONARY_WORTHWHILE = 0.5
"""Maximum share of distinct values in the first row group for a column to get a dictionary."""
_DICTIONARY_VALUES = 32_768
"""Maximum number of distinct values of a dictionary, because reading one page reads the dictionary
too.
"""
_SAMPLE_ROWS = 16_384
_SAMPLE_SHARE = 0.8
"""Share of distinct values in a sample of a full row group with `_DICTIONARY_VALUES` equally
frequent values.
"""
_FIRST_RATIO = 0.4
"""Initial ratio of file size to memory size, until a row group is written."""


class ParquetBody:
    """A Parquet file under construction. Other bytes can be inserted between rows and footer."""

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
        """Add rows. They are written in whole row groups."""
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
        """Write the remaining rows and return their end in the file."""
        if self._waiting_rows or self._writer is None:
            self._flush()
        return self.tell()

    @property
    def estimated_bytes(self) -> float:
        """Estimated size of the rows in the file, including buffered rows."""
        if self._flushed_bytes:
            ratio = self.tell() / self._flushed_bytes
        else:
            ratio = _FIRST_RATIO
        return self.tell() + self._waiting_bytes * ratio

    def append(self, data: bytes) -> int:
        """Append other bytes after the rows and return their start."""
        at = self.tell()
        self._sink.write(data)
        return at

    def tell(self) -> int:
        """Return the current size of the file."""
        return int(self._sink.tell())

    def finish(self, metadata: Mapping[str, str]) -> None:
        """Write the Parquet footer with these key-value entries and close the file."""
        assert self._writer is not None
        self._writer.add_key_value_metadata(dict(metadata))
        self._writer.close()
        self._sink.close()

    def discard(self) -> None:
        """Close an unusable file after a failure."""
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
        """Return the columns whose dictionary is invalid because these rows hold a zero."""
        names = [f.name for f in self.schema if f.name in self._dictionary and is_float(f.type)]
        return [name for name in names if has_zero(table.column(name))]

    def _write_again(self, writer: pq.ParquetWriter, plain: list[str]) -> pq.ParquetWriter:
        """Rewrite the row groups so far without dictionaries for some columns, because a writer's
        options are fixed.
        """
        writer.close()
        self._sink.close()
        before = self.path.with_name(f"{self.path.name}.before")
        self.path.rename(before)
        self._dictionary = [name for name in self._dictionary if name not in plain]
        self._sink = pa.OSFile(str(self.path), "wb")
        again = self._open_writer()
        file = open_parquet(pa.OSFile(str(before)))
        for group in range(file.metadata.num_row_groups):
            again.write_table(
                file.read_row_groups([group]).cast(self.schema), row_group_size=ROW_GROUP_ROWS
            )
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
    """Return the columns whose Parquet bounds are useful and correct."""
    full_text = {c.name for c in mapping.of_kind("text", "json") if not c.exact}
    return [f.name for f in schema if f.name not in full_text and _has_bounds(f.type)]


def leaf_count(kind: pa.DataType) -> int:
    """Return the number of Parquet leaf columns of a type."""
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
    """Return the leaf columns of every column, by index, because a name may contain a dot."""
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
        chosen += [
            path
            for path, kind in leaves[place.start : place.stop]
            if floats or kind not in ("FLOAT", "DOUBLE")
        ]
    return chosen


def _repeats(column: pa.ChunkedArray) -> bool:
    """Return whether a column has few enough distinct values for a dictionary. Most columns are
    decided by a sample.
    """
    most = min(len(column) * _DICTIONARY_WORTHWHILE, _DICTIONARY_VALUES)
    some = column.slice(0, _SAMPLE_ROWS)
    try:
        distinct = pc.count_distinct(some, mode="all").as_py()
        if len(some) == len(column) or distinct * len(column) <= most * len(some):
            return bool(distinct <= most)
        return bool(
            distinct <= _SAMPLE_SHARE * len(some)
            and pc.count_distinct(column, mode="all").as_py() <= most
        )
    except pa.ArrowNotImplementedError:
        return False


def is_float(kind: pa.DataType) -> bool:
    """Return whether a column holds floating-point numbers."""
    return bool(pa.types.is_float32(kind) or pa.types.is_float64(kind))


def has_zero(column: pa.ChunkedArray) -> bool:
    """Return whether a floating-point column holds 0.0 or -0.0."""
    return bool(pc.any(pc.equal(column, pa.scalar(0.0, column.type))).as_py())


def _leaf_paths(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return path and physical type of every Parquet leaf column."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema):
        pass
    columns = pq.read_metadata(pa.BufferReader(sink.getvalue())).schema
    return [
        (str(columns.column(i).path), str(columns.column(i).physical_type))
        for i in range(len(columns))
    ]


def _has_bounds(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _has_bounds(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _has_bounds(kind.value_type)
    return not (pa.types.is_floating(kind) or pa.types.is_nested(kind) or pa.types.is_null(kind))
