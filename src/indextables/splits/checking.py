"""Checking a split from the file itself, past every cache: its end, and on request every byte of rows and index."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa

from indextables.errors import BadFileError
from indextables.splits.bundle import is_bundle
from indextables.splits.cache import SplitCache
from indextables.splits.foreign import ForeignReader
from indextables.splits.layout import FieldRange
from indextables.splits.reader import SplitReader
from indextables.splits.source import SplitSource
from indextables.splits.tail import SplitTail, read_tail

_PIECE_BYTES = 8 << 20


def check_end(source: SplitSource, schema: pa.Schema, *, footer_start: int | None) -> int:
    """The number of rows that the end of a split speaks of; BadFileError or UnsupportedError if it cannot be read."""
    tail = _tail(source, footer_start)
    if tail is not None:
        return tail.table.rows
    with closing(ForeignReader.open(source, schema)) as reader:
        return reader.num_rows


def check_bytes(source: SplitSource, schema: pa.Schema, *, footer_start: int | None) -> Iterator[pa.RecordBatch]:
    """Every row of a split, after every byte of it was checked; BadFileError at the first that is wrong."""
    tail = _tail(source, footer_start)
    if tail is None:
        with closing(ForeignReader.open(source, schema)) as reader:
            yield from reader.iter_rows()
        return
    for component in tail.table.components:
        for wanted in component.ranges:
            _check_range(source, wanted)
    yield from SplitReader(source, tail, SplitCache.default()).iter_rows()


def _tail(source: SplitSource, footer_start: int | None) -> SplitTail | None:
    """The end of a split of ours; None for another engine's."""
    try:
        return read_tail(source, footer_start)
    except BadFileError:
        if source.size < 8 or not is_bundle(source.read_many([(source.size - 8, 8)])[0]):
            raise
    return None


def _check_range(source: SplitSource, wanted: FieldRange) -> None:
    crc = 0
    for start in range(0, wanted.length, _PIECE_BYTES):
        length = min(_PIECE_BYTES, wanted.length - start)
        crc = zlib.crc32(source.read_many([(wanted.offset + start, length)])[0], crc)
    if crc != wanted.crc32:
        end = wanted.offset + wanted.length
        message = f"Bytes {wanted.offset} to {end} of the split {source.path} are damaged: wrong checksum."
        raise BadFileError(message, path=source.path, start=wanted.offset, length=wanted.length)
