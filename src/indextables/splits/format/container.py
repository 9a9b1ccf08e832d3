"""Assemble a split: rows, then index, then hot section, then footer with its checksum.

`SplitInfo` is a finished split with everything that its log entry records.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow.parquet as pq
from msgspec import Struct

from indextables.model.actions import ROWS_END, AddAction
from indextables.splits.format.footer_checksum import (
    FOOTER_CHECKSUM_KEY,
    PLACEHOLDER,
    write_footer_checksum,
)
from indextables.splits.format.pages import page_table
from indextables.splits.format.parquet import ParquetBody, leaf_places
from indextables.splits.format.section_table import (
    COMPANION_VERSION,
    FORMAT_VERSION,
    TABLE_KEY,
    Component,
    FieldRange,
    IndexedSource,
    SectionTable,
    Span,
    Statistics,
    encode_table,
)
from indextables.splits.format.term_filter import MAX_TERMS, TermFilter, build_filter
from indextables.splits.index.mapping import DocMapping
from indextables.splits.index.segments import META, Segment, open_folder, read_meta
from indextables.splits.index.tantivy_files import (
    COMPONENTS,
    COMPOSITE,
    INDEX_FORMAT,
    TANTIVY_VERSION,
    TantivyErrors,
    composite_spans,
    empty_store,
    row_column,
)
from indextables.splits.index.values import IncompleteValues

FIRST_READ_BYTES = 64 << 10
"""Number of bytes that a reader fetches first if it does not know the footer start."""


_BODY_ORDER = ("term", "idx", "fieldnorm", "pos")
_COPY_BYTES = 4 << 20
_MAX_DICTIONARY_BYTES = 2 << 20
"""A larger term dictionary has too many terms for a filter; it is not read."""
MAX_INCOMPLETE_ROWS = 1 << 16
"""Maximum row numbers recorded per column, because they are part of every footer. Above it,
patterns scan the rows.
"""
_END_BYTES = 4 << 20
"""Upper limit for the size of a directory of fields."""


class SplitLayout(Struct, frozen=True):
    """The positions of the parts of a finished split."""

    table: SectionTable
    footer_start: int
    hot_length: int
    size: int
    index_bytes: int


def finish_split(
    body: ParquetBody,
    segment: Segment | None,
    *,
    mapping: DocMapping,
    statistics: Statistics,
    incomplete: Mapping[str, IncompleteValues],
    source: IndexedSource | None = None,
) -> SplitLayout:
    """Write everything that follows the rows, including the checksum.

    With a `source` the split has no rows of its own: its documents are the rows of these files.
    """
    index_start = body.end_rows()
    pages_of_rows = page_table(body.path, index_start)
    if segment:
        files = [_split_file(segment, name) for name in COMPONENTS]
    else:
        files = []
    ranges = _append_bodies(body, segment, files) if segment else {}
    footer_start = body.tell()
    hot = _Hot(body, footer_start)
    components = tuple(
        Component(
            name=f.name,
            length=f.length,
            tail=hot.append(f.ending),
            ranges=tuple(ranges.get(f.name, ())),
        )
        for f in files
    )
    meta = hot.append((segment.folder / META).read_bytes() if segment else b"")
    leaves = sum(len(place) for place in leaf_places(body.schema).values())
    chunks = hot.append(bytes(4 * leaves * body.row_groups))
    pages = hot.append(pages_of_rows) if pages_of_rows else None
    incomplete_rows = {
        name: hot.append(values.rows.astype("<u4").tobytes())
        for name, values in incomplete.items()
        if values.rows is not None and len(values.rows) <= MAX_INCOMPLETE_ROWS
    }
    term_filter = _build_filter(segment, mapping) if segment else None
    if term_filter is None:
        filter_span = None
    else:
        filter_span = hot.append(term_filter.bits.tobytes())
    hot_length = body.tell() - footer_start
    if source is None:
        version, rows = FORMAT_VERSION, body.rows
    else:
        version, rows = COMPANION_VERSION, sum(file.rows for file in source.files)
    table = SectionTable(
        version=version,
        source=msgspec.UNSET if source is None else source,
        tantivy=TANTIVY_VERSION,
        index_format=INDEX_FORMAT,
        rows=rows,
        segment=segment.stem if segment else "",
        meta=meta,
        chunks=chunks,
        components=components,
        mapping=mapping.to_json(),
        mapping_ref=mapping.ref,
        statistics=statistics,
        incomplete={name: values.count for name, values in incomplete.items()},
        incomplete_rows=incomplete_rows,
        pages=pages,
        term_filter=filter_span,
        term_filter_fields=() if term_filter is None else term_filter.fields,
    )
    body.finish({TABLE_KEY: encode_table(table), FOOTER_CHECKSUM_KEY: PLACEHOLDER})
    _fill_chunk_checksums(body.path, footer_start + chunks.offset)
    write_footer_checksum(body.path, footer_start)
    return SplitLayout(
        table, footer_start, hot_length, body.path.stat().st_size, footer_start - index_start
    )


def _build_filter(segment: Segment, mapping: DocMapping) -> TermFilter | None:
    """Return the filter of the words and whole values of an index; None if there are too many of
    them.
    """
    columns = [column for column in mapping.indexed if column.kind in ("text", "string", "whole")]
    if not columns or segment.file("term").stat().st_size > _MAX_DICTIONARY_BYTES:
        return None
    terms: dict[str, list[str]] = {}
    left = MAX_TERMS
    with TantivyErrors(str(segment.folder), "Reading the terms"):
        searcher = open_folder(segment.folder, mapping).searcher()
        for column in columns:
            terms[column.field] = [
                str(term) for term, _ in searcher.terms_with_prefix(column.field, "")
            ]
            left -= len(terms[column.field])
            if left < 0:
                return None
    return build_filter(terms)


class _IndexFile(Struct, frozen=True):
    """One tantivy file inside a split: the spans of its body by field, and its end."""

    name: str
    length: int
    spans: Sequence[tuple[str, int, int]]
    ending: bytes


class _Hot:
    """Appends to the hot section and returns the positions."""

    def __init__(self, body: ParquetBody, start: int) -> None:
        self._body = body
        self._start = start

    def append(self, data: bytes) -> Span:
        return Span(self._body.append(data) - self._start, len(data))


def _split_file(segment: Segment, name: str) -> _IndexFile:
    if name == "fast":
        data = row_column(segment.rows, 0)
        return _IndexFile(name, len(data), (), data)
    if name == "store":
        block, ending = empty_store(segment.rows)
        return _IndexFile(name, len(block) + len(ending), (), ending)
    path = segment.file(name)
    length = path.stat().st_size
    end = _read(path, max(0, length - _END_BYTES), length)
    names = [entry["name"] for entry in read_meta(segment.folder)["schema"]]
    start, spans = composite_spans(end, length, path.name)
    return _IndexFile(
        name,
        length,
        [(names[s.field_id], s.start, s.end) for s in spans],
        _read(path, start, length),
    )


def _append_bodies(
    body: ParquetBody, segment: Segment, files: Sequence[_IndexFile]
) -> dict[str, list[FieldRange]]:
    """Write the data of every index file field by field, so that one query's data is contiguous.
    Returns the ranges.
    """
    ranges: dict[str, list[FieldRange]] = {name: [] for name in COMPOSITE}
    by_field: dict[str, list[tuple[str, int, int]]] = {}
    for file in sorted(
        files, key=lambda f: _BODY_ORDER.index(f.name) if f.name in COMPOSITE else len(_BODY_ORDER)
    ):
        for field, start, end in file.spans:
            by_field.setdefault(field, []).append((file.name, start, end))
    for field, parts in by_field.items():
        for name, start, end in parts:
            offset, crc = _copy(body, segment.file(name), start, end)
            ranges[name].append(FieldRange(field, start, end - start, offset, crc))
    return {name: sorted(fields, key=lambda r: r.start) for name, fields in ranges.items()}


def _copy(body: ParquetBody, path: Path, start: int, end: int) -> tuple[int, int]:
    offset, crc = body.tell(), 0
    with path.open("rb") as f:
        f.seek(start)
        while start < end:
            data = f.read(min(_COPY_BYTES, end - start))
            body.append(data)
            crc = zlib.crc32(data, crc)
            start += len(data)
    return offset, crc


def _fill_chunk_checksums(path: Path, offset: int) -> None:
    """Compute the checksum of every column chunk after Parquet has written them."""
    metadata = pq.read_metadata(path)
    with path.open("r+b") as f:
        checksums = []
        for start, length in chunk_places(metadata):
            f.seek(start)
            checksums.append(zlib.crc32(f.read(length)))
        f.seek(offset)
        f.write(np.array(checksums, "<u4").tobytes())


def chunk_places(metadata: pq.FileMetaData) -> list[tuple[int, int]]:
    """Return offset and length of every column chunk by row group."""
    places = []
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for number in range(row_group.num_columns):
            chunk = row_group.column(number)
            start = chunk.data_page_offset
            if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
                start = chunk.dictionary_page_offset
            places.append((start, chunk.total_compressed_size))
    return places


def _read(path: Path, start: int, end: int) -> bytes:
    with path.open("rb") as f:
        f.seek(start)
        return f.read(end - start)


class FileStatistics(Struct, frozen=True):
    """Statistics of one split, as recorded in the log."""

    num_records: int
    min_values: dict[str, str] = msgspec.field(default_factory=dict)
    max_values: dict[str, str] = msgspec.field(default_factory=dict)
    null_counts: dict[str, int] = msgspec.field(default_factory=dict)

    def to_json(self) -> str:
        """Return the `stats` field of an add action.

        Null counts mark the bounds next to them as written by the rules of
        `splits/write/statistics.py`.
        """
        content = {"numRecords": self.num_records, "nullCount": self.null_counts}
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


class SplitInfo(Struct, frozen=True):
    """A split on local disk, ready to be uploaded and added to the log."""

    path: Path
    size: int
    num_records: int
    statistics: Statistics
    footer_start_offset: int
    hotcache_length: int
    doc_mapping_json: str
    doc_mapping_ref: str
    rows_end: int | None = None
    """Offset where the rows end and the index begins, or None. Scans that read only rows are
    planned by it.
    """

    @classmethod
    def of(cls, path: Path, layout: SplitLayout) -> SplitInfo:
        """Return the info of a split that was just finished."""
        table = layout.table
        return cls(
            path=path,
            size=layout.size,
            num_records=table.rows,
            statistics=table.statistics,
            footer_start_offset=layout.footer_start,
            hotcache_length=layout.hot_length,
            doc_mapping_json=table.mapping,
            doc_mapping_ref=table.mapping_ref,
            rows_end=layout.footer_start - layout.index_bytes,
        )

    def add_action(
        self,
        path: str,
        *,
        partition_values: dict[str, str | None] | None = None,
        modification_time: int = 0,
        data_change: bool = True,
        num_merge_ops: int = 0,
    ) -> AddAction:
        """Return the add action of the split for its uploaded path."""
        statistics = self.statistics
        return AddAction(
            path=path,
            partition_values=partition_values or {},
            size=self.size,
            modification_time=modification_time,
            data_change=data_change,
            stats=FileStatistics(self.num_records, null_counts=statistics.null_counts).to_json(),
            tags=None if self.rows_end is None else {ROWS_END: str(self.rows_end)},
            min_values=statistics.min_values or None,
            max_values=statistics.max_values or None,
            num_records=self.num_records,
            footer_start_offset=self.footer_start_offset,
            footer_end_offset=self.size,
            hotcache_start_offset=self.footer_start_offset,
            hotcache_length=self.hotcache_length,
            has_footer_offsets=True,
            time_range_start=statistics.time_range_start,
            time_range_end=statistics.time_range_end,
            split_tags=statistics.split_tags or None,
            delete_opstamp=0,
            num_merge_ops=num_merge_ops,
            doc_mapping_json=self.doc_mapping_json,
            doc_mapping_ref=self.doc_mapping_ref,
            uncompressed_size_bytes=statistics.uncompressed_size_bytes,
        )
