"""Putting a split together: the index after the rows, the hot section after the index, the footer, the seal."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from msgspec import Struct

from indextables.splits.layout import TABLE_KEY, Component, FieldRange, SectionTable, Span, Statistics, encode_table
from indextables.splits.mapping import DocMapping
from indextables.splits.parquet_body import ParquetBody, leaf_places
from indextables.splits.seal import PLACEHOLDER, SEAL_KEY, seal_file
from indextables.splits.segments import META, Segment, read_meta
from indextables.splits.tantivy_files import (
    COMPONENTS,
    COMPOSITE,
    INDEX_FORMAT,
    TANTIVY_VERSION,
    composite_spans,
    empty_store,
    row_column,
)

_BODY_ORDER = ("term", "idx", "fieldnorm", "pos")
_COPY_BYTES = 4 << 20
_END_BYTES = 4 << 20
"""More than any directory of fields takes."""


class Placed(Struct, frozen=True):
    """What is where in a finished split."""

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
    incomplete: Mapping[str, int],
) -> Placed:
    """Write everything that follows the rows. The file is complete and sealed when this returns."""
    index_start = body.end_rows()
    files = [_split_file(segment, name) for name in COMPONENTS] if segment else []
    ranges = _append_bodies(body, segment, files) if segment else {}
    footer_start = body.tell()
    hot = _Hot(body, footer_start)
    components = tuple(
        Component(name=f.name, length=f.length, tail=hot.append(f.tail), ranges=tuple(ranges.get(f.name, ())))
        for f in files
    )
    meta = hot.append((segment.folder / META).read_bytes() if segment else b"")
    leaves = sum(len(place) for place in leaf_places(body.schema).values())
    chunks = hot.append(bytes(4 * leaves * body.row_groups))
    hot_length = body.tell() - footer_start
    table = SectionTable(
        tantivy=TANTIVY_VERSION,
        index_format=INDEX_FORMAT,
        rows=body.rows,
        segment=segment.stem if segment else "",
        meta=meta,
        chunks=chunks,
        components=components,
        mapping=mapping.to_json(),
        mapping_ref=mapping.ref,
        statistics=statistics,
        incomplete=dict(incomplete),
    )
    body.finish({TABLE_KEY: encode_table(table), SEAL_KEY: PLACEHOLDER})
    _fill_chunk_checksums(body.path, footer_start + chunks.offset)
    seal_file(body.path, footer_start)
    return Placed(table, footer_start, hot_length, body.path.stat().st_size, footer_start - index_start)


class _IndexFile(Struct, frozen=True):
    """One of tantivy's files as a split holds it: spans of its body by field, and its end."""

    name: str
    length: int
    spans: Sequence[tuple[str, int, int]]
    tail: bytes


class _Hot:
    """Appends to the hot section and says where things went."""

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
        block, tail = empty_store(segment.rows)
        return _IndexFile(name, len(block) + len(tail), (), tail)
    path = segment.file(name)
    length = path.stat().st_size
    end = _read(path, max(0, length - _END_BYTES), length)
    names = [entry["name"] for entry in read_meta(segment.folder)["schema"]]
    start, spans = composite_spans(end, length, path.name)
    return _IndexFile(name, length, [(names[s.field_id], s.start, s.end) for s in spans], _read(path, start, length))


def _append_bodies(body: ParquetBody, segment: Segment, files: Sequence[_IndexFile]) -> dict[str, list[FieldRange]]:
    """Every field's data, field by field: what one query needs lies together. Returns the ranges of every file."""
    ranges: dict[str, list[FieldRange]] = {name: [] for name in COMPOSITE}
    by_field: dict[str, list[tuple[str, int, int]]] = {}
    for file in sorted(files, key=lambda f: _BODY_ORDER.index(f.name) if f.name in COMPOSITE else len(_BODY_ORDER)):
        for field, start, end in file.spans:
            by_field.setdefault(field, []).append((file.name, start, end))
    for field, parts in by_field.items():
        for name, start, end in parts:
            offset, crc = _copy(body, segment.file(name), start, end)
            ranges[name].append(FieldRange(field, start, end - start, offset, crc))
    return {name: sorted(found, key=lambda r: r.start) for name, found in ranges.items()}


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
    """The checksum of every column chunk, row group by row group: their places are known only when Parquet is done."""
    metadata = pq.read_metadata(path)
    with path.open("r+b") as f:
        found = []
        for start, length in chunk_places(metadata):
            f.seek(start)
            found.append(zlib.crc32(f.read(length)))
        f.seek(offset)
        f.write(np.array(found, "<u4").tobytes())


def chunk_places(metadata: pq.FileMetaData) -> list[tuple[int, int]]:
    """Offset and length of every column chunk, row group by row group."""
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
