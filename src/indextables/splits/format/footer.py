"""The parsed footer of a split. One read verifies it and locates everything else."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct
from pyarrow._parquet import FileMetaData

from indextables.errors import BadFileError
from indextables.splits.format.container import (
    FIRST_READ_BYTES,
    chunk_places,
)
from indextables.splits.format.footer_checksum import (
    MIN_FOOTER_BYTES,
    check_footer,
    footer_start_of,
)
from indextables.splits.format.pages import PageTable, read_struct
from indextables.splits.format.parquet import leaf_places, open_parquet
from indextables.splits.format.section_table import TABLE_KEY, SectionTable, Span, decode_table
from indextables.splits.format.source import SplitSource
from indextables.splits.format.term_filter import TermFilter
from indextables.splits.index.mapping import DocMapping
from indextables.splits.index.values import IncompleteValues

_KNOWN_SCHEMAS = 64
"""Number of column selections cached per split."""


class SplitFooter(Struct, frozen=True, dict=True):
    """The verified and decoded end of a split."""

    path: str
    footer_start: int
    data: bytes
    table: SectionTable
    metadata: FileMetaData
    schema: pa.Schema
    places: npt.NDArray[np.int64]
    """Offset and length of every column chunk: [row group, leaf column, 2]."""
    checksums: npt.NDArray[np.uint32]
    """Checksum of every column chunk: [row group, leaf column]."""
    group_starts: npt.NDArray[np.int64]
    """The first row of every row group, followed by the total number of rows."""

    @cached_property
    def mapping(self) -> DocMapping:
        """How the columns are indexed."""
        return DocMapping.from_json(self.table.mapping)

    @cached_property
    def leaves(self) -> dict[str, range]:
        """The Parquet leaf columns of every column."""
        return leaf_places(self.schema)

    @cached_property
    def pages(self) -> PageTable | None:
        """Positions of the pages of every column chunk; None for splits of release 0.1.0, which do
        not record them.
        """
        span = self.table.pages
        if span and span.length:
            return PageTable(self.hot(span), self.places, self.group_starts, self.path)
        return None

    @cached_property
    def term_filter(self) -> TermFilter | None:
        """The filter of the terms of the split; None if it has none."""
        span = self.table.term_filter
        if span is None:
            return None
        return TermFilter(np.frombuffer(self.hot(span), np.uint8), self.table.term_filter_fields)

    @cached_property
    def incomplete(self) -> dict[str, IncompleteValues]:
        """Values that the index holds only partly, by column."""
        found = {}
        for name, count in self.table.incomplete.items():
            span = self.table.incomplete_rows.get(name)
            rows = None if span is None else self._row_numbers(span)
            found[name] = IncompleteValues(count, rows)
        return found

    def _row_numbers(self, span: Span) -> npt.NDArray[np.int64]:
        rows = np.frombuffer(self.hot(span), "<u4").astype(np.int64)
        if len(rows) and (rows[-1] >= self.table.rows or (np.diff(rows) <= 0).any()):
            raise _bad(
                self.path,
                self.footer_start,
                len(self.data),
                "row numbers are out of order or range",
            )
        return rows

    def schema_of(self, names: Sequence[str]) -> pa.Schema:
        """Return the schema of some columns."""
        key = tuple(names)
        known = self._schemas.get(key)
        if known is None:
            if len(self._schemas) == _KNOWN_SCHEMAS:
                self._schemas.clear()
            known = self._schemas[key] = pa.schema([self.schema.field(name) for name in names])
        return known

    @cached_property
    def _schemas(self) -> dict[tuple[str, ...], pa.Schema]:
        return {}

    @cached_property
    def parquet_footer(self) -> dict[int, Any]:
        """Parquet's metadata by Thrift field, because pyarrow does not expose the positions of page
        indexes.
        """
        return read_struct(
            self.data, len(self.data) - 8 - int.from_bytes(self.data[-8:-4], "little")
        )[0]

    @cached_property
    def digest(self) -> str:
        """Identifier of the split's content."""
        return hashlib.sha256(b"%d:" % self.footer_start + self.data).hexdigest()[:40]

    def hot(self, span: Span) -> bytes:
        """Bytes of the hot section."""
        return self.data[span.offset : span.offset + span.length]


def read_footer(source: SplitSource, footer_start: int | None = None) -> SplitFooter:
    """Read the end of a split, with one read if the footer start is known and at most two
    otherwise.
    """
    if footer_start is None or not 0 <= footer_start <= source.size - MIN_FOOTER_BYTES:
        if source.size < MIN_FOOTER_BYTES:
            raise _bad(source.path, 0, source.size, "it is too short")
        first = max(0, source.size - FIRST_READ_BYTES)
        (data,) = source.read_many([(first, source.size - first)])
        footer_start = footer_start_of(data, source.path)
        if footer_start > source.size - MIN_FOOTER_BYTES:
            raise _bad(source.path, first, len(data), "its seal names a place outside the file")
        if footer_start < first:
            (before,) = source.read_many([(footer_start, first - footer_start)])
            data = before + data
        data = data[footer_start - source.size :]
    else:
        (data,) = source.read_many([(footer_start, source.size - footer_start)])
    check_footer(data, footer_start=footer_start, path=source.path)
    return decode_footer(data, footer_start, source.path)


def decode_footer(data: bytes, footer_start: int, path: str) -> SplitFooter:
    """Decode a verified footer. Inconsistent content raises `BadFileError`."""
    try:
        file = open_parquet(pa.BufferReader(data))
        metadata, schema = file.metadata, file.schema_arrow.remove_metadata()
        text = (metadata.metadata or {}).get(TABLE_KEY.encode(), b"")
    except (pa.ArrowException, OSError, ValueError) as e:
        raise _bad(path, footer_start, len(data), str(e)) from e
    table = decode_table(text, footer_start=footer_start, hot_limit=len(data), path=path)
    groups, leaves = metadata.num_row_groups, metadata.num_columns
    places = np.array(chunk_places(metadata), np.int64).reshape(groups, leaves, 2)
    rows = [metadata.row_group(i).num_rows for i in range(groups)]
    fits = (
        metadata.num_rows == table.stored_rows == sum(rows)
        and table.chunks.length == 4 * groups * leaves
        and bool((places >= 0).all())
        and bool((places.sum(axis=2) <= footer_start).all())
    )
    if not fits:
        raise _bad(path, footer_start, len(data), "rows and section table do not agree")
    span = table.chunks
    checksums = np.frombuffer(data, "<u4", groups * leaves, span.offset).reshape(groups, leaves)
    starts = np.cumsum([0, *rows]).astype(np.int64)
    return SplitFooter(path, footer_start, data, table, metadata, schema, places, checksums, starts)


def _bad(path: str, start: int, length: int, why: str) -> BadFileError:
    message = (
        f"The end of the split {path} (bytes {start} to {start + length}) cannot be read: {why}."
    )
    return BadFileError(message, path=path, start=start, length=length)
