"""Looking at a split as a whole: what takes how much room, whether every byte is sound, what the log should say."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from indextables.errors import BadFileError
from indextables.splits.format.footer import SplitFooter, read_footer
from indextables.splits.format.source import SplitSource
from indextables.splits.write.split_info import SplitInfo

_PIECE_BYTES = 8 << 20


class SplitComponent(Struct, frozen=True):
    """Bytes that one component takes for one column (None: for the split as a whole)."""

    component: str
    column: str | None
    size_bytes: int


def component_sizes(tail: SplitFooter) -> list[SplitComponent]:
    """Every part of a split with its size; together they are the file."""
    sizes = [
        SplitComponent("parquet", name, int(tail.places[:, list(place), 1].sum()))
        for name, place in tail.leaves.items()
    ]
    names = {column.field: column.name for column in tail.mapping.columns}
    sizes += [
        SplitComponent(component.name, names.get(found.field), found.length)
        for component in tail.table.components
        for found in component.ranges
    ]
    magic = tail.footer_start - sum(size.size_bytes for size in sizes)
    return [*sizes, SplitComponent("footer", None, len(tail.data) + magic)]


def damage(source: SplitSource, *, footer_start: int | None = None) -> Iterator[BadFileError]:
    """Every damaged part of a split, found by reading all of it; nothing for a sound one."""
    try:
        tail = read_footer(source, footer_start)
    except BadFileError as e:
        yield e
        return
    for start, length, expected, what in _parts(tail):
        try:
            if _checksum(source, start, length) != expected:
                message = f"Bytes {start} to {start + length} of the split {source.path} ({what}) are damaged."
                yield BadFileError(message, path=source.path, start=start, length=length)
        except BadFileError as e:
            yield e


def describe(source: SplitSource, *, footer_start: int | None = None) -> SplitInfo:
    """What the log should say about a split of ours, from the split alone."""
    tail = read_footer(source, footer_start)
    table = tail.table
    spans = [table.meta, table.chunks, *(component.tail for component in table.components)]
    return SplitInfo(
        path=Path(source.path),
        size=source.size,
        num_records=table.rows,
        statistics=table.statistics,
        footer_start_offset=tail.footer_start,
        hotcache_length=max(span.offset + span.length for span in spans),
        doc_mapping_json=table.mapping,
        doc_mapping_ref=table.mapping_ref,
    )


def _parts(tail: SplitFooter) -> Iterator[tuple[int, int, int, str]]:
    """Start, length, checksum and name of everything before the footer."""
    columns = [name for name, place in tail.leaves.items() for _ in place]
    for group, (places, checksums) in enumerate(zip(tail.places, tail.checksums, strict=True)):
        for name, (start, length), expected in zip(columns, places, checksums, strict=True):
            yield int(start), int(length), int(expected), f"rows of column {name}, row group {group}"
    for component in tail.table.components:
        for found in component.ranges:
            yield found.offset, found.length, found.crc32, f"index file .{component.name}, field {found.field}"


def _checksum(source: SplitSource, start: int, length: int) -> int:
    crc = 0
    for at in range(start, start + length, _PIECE_BYTES):
        (data,) = source.read_many([(at, min(_PIECE_BYTES, start + length - at))])
        crc = zlib.crc32(data, crc)
    return crc
