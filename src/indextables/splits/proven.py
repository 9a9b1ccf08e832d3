"""Index data read out of a split, and proven: no byte is used before the checksum of its range was right."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

from indextables.errors import BadFileError
from indextables.splits.layout import FieldRange
from indextables.splits.source import SplitSource

PIECE_BYTES = 8 << 20
PIECES_AT_ONCE = 4


def batches(ranges: Sequence[FieldRange]) -> list[list[int]]:
    """Numbers grouped so that their ranges fit into memory together; a large range stands alone."""
    limit = PIECE_BYTES * PIECES_AT_ONCE
    groups: list[list[int]] = []
    held = limit + 1
    for number, wanted in enumerate(ranges):
        if held + wanted.length > limit:
            groups.append([])
            held = 0
        groups[-1].append(number)
        held += wanted.length
    return groups


def read_proven(source: SplitSource, ranges: Sequence[FieldRange], path: str) -> Iterator[tuple[int, int, bytes]]:
    """The bytes of a batch of ranges: number of the range, place in the index file, data.

    Several come in one call. One that stands alone comes in pieces, and is proven when the last of them was taken.
    """
    if len(ranges) == 1:
        yield from _pieces(source, ranges[0], path)
        return
    found = source.read_many([(wanted.offset, wanted.length) for wanted in ranges])
    for number, (wanted, data) in enumerate(zip(ranges, found, strict=True)):
        _check(wanted, zlib.crc32(data), path)
        yield number, wanted.start, data


def _pieces(source: SplitSource, wanted: FieldRange, path: str) -> Iterator[tuple[int, int, bytes]]:
    crc = 0
    starts = range(0, wanted.length, PIECE_BYTES)
    for first in range(0, len(starts), PIECES_AT_ONCE):
        pieces = [(s, min(PIECE_BYTES, wanted.length - s)) for s in starts[first : first + PIECES_AT_ONCE]]
        found = source.read_many([(wanted.offset + start, length) for start, length in pieces])
        for (start, _), data in zip(pieces, found, strict=True):
            crc = zlib.crc32(data, crc)
            yield 0, wanted.start + start, data
    _check(wanted, crc, path)


def _check(wanted: FieldRange, crc: int, path: str) -> None:
    if crc != wanted.crc32:
        start, end = wanted.offset, wanted.offset + wanted.length
        message = f"Bytes {start} to {end} of the split {path} (field {wanted.field}) are damaged: wrong checksum."
        raise BadFileError(message, path=path, start=start, length=wanted.length)
