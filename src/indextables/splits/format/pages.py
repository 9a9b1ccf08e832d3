"""Pages: the smallest units of a column that can be decoded. A search for ten rows reads ten pages.

The page table of a split has an entry for every page in file order: length, checksum, and number of
values (0 for a dictionary). Pages are contiguous from the start of the file, so lengths give
positions. pyarrow cannot read single pages, so the needed pages are wrapped into an in-memory
Parquet file with a generated footer. Bounds of pages come from Parquet's column index, which is
part of the verified end of the split.

Parquet headers are Thrift structs in the compact protocol, read as dicts from field number to
value.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from pyarrow._parquet import FileMetaData

from indextables.errors import BadFileError

Numbers = npt.NDArray[np.int64]
_MAGIC = b"PAR1"
_TYPES = {
    "BOOLEAN": 0,
    "INT32": 1,
    "INT64": 2,
    "FLOAT": 4,
    "DOUBLE": 5,
    "BYTE_ARRAY": 6,
    "FIXED_LEN_BYTE_ARRAY": 7,
}
_CODECS = {"ZSTD": 6}
_MAX_DEPTH = 32


def page_table(path: Path, end: int) -> bytes:
    """Build the table of the pages between the start of the file and the end of the rows."""
    if end <= len(_MAGIC):
        return b""
    lengths, checksums, values = [], [], []
    with path.open("rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = len(_MAGIC)
        while at < end:
            header, body = read_struct(data, at)
            stop = body + header[3]
            lengths.append(stop - at)
            checksums.append(zlib.crc32(data[at:stop]))
            values.append(0 if 7 in header else (header.get(5) or header[8])[1])
            at = stop
    if at != end:
        raise BadFileError(f"The pages of {path} do not end where its rows do.", path=str(path))
    return np.array([lengths, checksums, values], "<u4").tobytes()


class ColumnPages(Struct, frozen=True, dict=True):
    """The data pages of a flat column, over all row groups."""

    starts: Numbers
    """The first row of every page, followed by the number of rows."""
    pages: Numbers
    """The index of each page in the page table."""
    groups: Numbers
    """The row group of each page."""
    dictionaries: Numbers
    """The page table index of every row group's dictionary; -1 without a dictionary."""

    @cached_property
    def start_list(self) -> list[int]:
        """`starts` as a list, which is faster to search for a few rows."""
        return [int(start) for start in self.starts]

    @cached_property
    def group_list(self) -> list[int]:
        """`groups` as a list."""
        return [int(group) for group in self.groups]

    @cached_property
    def group_pages(self) -> list[int]:
        """Number of pages of every row group."""
        return [int(count) for count in np.bincount(self.groups, minlength=len(self.dictionaries))]


class PageTable:
    """The pages of a split, as recorded in its footer."""

    def __init__(self, data: bytes, places: Numbers, group_starts: Numbers, path: str) -> None:
        """`places` are offset and length of every column chunk: [row group, leaf column, 2]."""
        self.lengths, self.checksums, self._values = (
            np.frombuffer(data, "<u4").reshape(3, -1).astype(np.int64)
        )
        edges = np.concatenate([[0], np.cumsum(self.lengths)]) + len(_MAGIC)
        self.starts: Numbers = edges[:-1]
        self._path = path
        self._group_starts = group_starts
        self._first = np.searchsorted(edges, places[:, :, 0])
        self._last = np.searchsorted(edges, places.sum(axis=2))
        within = np.minimum(self._first, len(edges) - 1), np.minimum(self._last, len(edges) - 1)
        if (edges[within[0]] != places[:, :, 0]).any() or (
            edges[within[1]] != places.sum(axis=2)
        ).any():
            raise self._bad()
        self._columns: dict[int, ColumnPages] = {}

    def column(self, leaf: int) -> ColumnPages:
        """Return the pages of a flat column."""
        if leaf not in self._columns:
            self._columns[leaf] = self._column(leaf)
        return self._columns[leaf]

    def _column(self, leaf: int) -> ColumnPages:
        pages, groups, dictionaries = [], [], []
        for group, (first, last) in enumerate(
            zip(self._first[:, leaf], self._last[:, leaf], strict=True)
        ):
            dictionary = first < last and self._values[first] == 0
            dictionaries.append(first if dictionary else -1)
            own = np.arange(first + bool(dictionary), last)
            if self._values[own].sum() != self._group_starts[group + 1] - self._group_starts[group]:
                raise self._bad()
            pages.append(own)
            groups.append(np.full(len(own), group))
        joined = np.concatenate([np.empty(0, np.int64), *pages])
        starts = np.concatenate([[0], np.cumsum(self._values[joined])])
        return ColumnPages(
            starts, joined, np.concatenate([np.empty(0, np.int64), *groups]), np.array(dictionaries)
        )

    def _bad(self) -> BadFileError:
        return BadFileError(
            f"The page table of the split {self._path} does not fit its columns.", path=self._path
        )


class PageColumn:
    """One flat column, as described in the footer of a file of its pages."""

    def __init__(self, field: pa.Field, metadata: FileMetaData, leaf: int) -> None:
        chunk = metadata.row_group(0).column(leaf)
        name = field.name.encode()
        kind, codec = _TYPES[chunk.physical_type], _CODECS[chunk.compression]
        self._field = field
        self._kind = b"".join(
            [
                b"\x15" + _encode_signed(kind),
                b"\x19" + _list(5, [_encode_signed(encoding) for encoding in (0, 3, 8)]),
                b"\x19" + _list(8, [_encode_unsigned(len(name)) + name]),
                b"\x15" + _encode_signed(codec),
            ]
        )
        """The fields of a ColumnMetaData that are the same for all pages: type, encodings, path and
        codec.
        """

    @staticmethod
    def possible(kind: pa.DataType, metadata: FileMetaData, leaf: int) -> bool:
        """Whether single pages of such a column can be decoded."""
        plain = not (
            pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_null(kind)
        )
        if not plain or isinstance(kind, pa.BaseExtensionType) or not metadata.num_row_groups:
            return False
        chunk = metadata.row_group(0).column(leaf)
        return chunk.physical_type in _TYPES and chunk.compression in _CODECS

    @cached_property
    def _frame(self) -> tuple[bytes, bytes]:
        """Return the footer of an empty file of this column, split at its number of rows and its
        row groups.
        """
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(sink, pa.schema([self._field]), version="2.6"):
            pass
        data = sink.getvalue().to_pybytes()
        footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
        places = field_places(footer)
        return footer[: places[3]], footer[places[5] :]

    def file(self, groups: Sequence[tuple[bytes, Sequence[bytes], int]]) -> bytes:
        """Return a Parquet file of these pages: for each row group its optional dictionary, its
        pages and its rows.
        """
        body, chunks, at, total = [_MAGIC], [], len(_MAGIC), 0
        for dictionary, pages, rows in groups:
            size = len(dictionary) + sum(map(len, pages))
            chunks.append(self._row_group(at, len(dictionary), size, rows))
            body += [dictionary, *pages]
            at += size
            total += rows
        before, after = self._frame
        # Fields 3 and 4, each the next one after the field before it.
        footer = before + b"\x16" + _encode_signed(total) + b"\x19" + _list(12, chunks) + after
        return b"".join([*body, footer, len(footer).to_bytes(4, "little"), _MAGIC])

    def _row_group(self, at: int, dictionary: int, size: int, rows: int) -> bytes:
        """Return a RowGroup (columns, bytes, rows) of one ColumnChunk (offset, metadata)."""
        held, count, first = (
            b"\x16" + _encode_signed(size),
            b"\x16" + _encode_signed(rows),
            b"\x26" + _encode_signed(at + dictionary),
        )
        metadata = (
            self._kind
            + count
            + held
            + held
            + first
            + (b"\x26" + _encode_signed(at) if dictionary else b"")
        )
        chunk = b"\x26\x00\x1c" + metadata + b"\x00\x00"
        return b"\x19" + _list(12, [chunk]) + held + count + b"\x00"


class PageBounds(Struct, frozen=True):
    """Minimum and maximum values of the pages of a column chunk, in Parquet's encoding."""

    low: list[bytes]
    high: list[bytes]
    only_nulls: list[bool]
    nulls: list[int] | None


def page_bounds(
    footer: Mapping[int, Any], leaf: int, data: bytes, footer_start: int
) -> list[PageBounds | None]:
    """Read the column index of a column in every row group from the end of a file; None if it is
    missing.
    """
    bounds: list[PageBounds | None] = []
    for group in footer.get(4, []):
        place = group[1][leaf].get(6)
        if place is None or not footer_start <= place < len(data) + footer_start:
            bounds.append(None)
            continue
        index, _ = read_struct(data, place - footer_start)
        bounds.append(PageBounds(index[2], index[3], index[1], index.get(5)))
    return bounds


def read_struct(data: bytes | mmap.mmap, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Read the fields of a struct and return them with its end."""
    fields: dict[int, Any] = {}
    number = 0
    while (head := data[at]) != 0:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _read_signed(data, at)
        fields[number], at = _read_value(data, at, head & 15, depth)
    return fields, at + 1


def field_places(data: bytes) -> dict[int, int]:
    """Return the positions of the fields of a struct by field number."""
    at = number = 0
    places = {}
    while (head := data[at]) != 0:
        number += head >> 4
        places[number] = at
        _, at = _read_value(data, at + 1, head & 15, 0)
    return places


def _read_value(data: bytes | mmap.mmap, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (1, 2):
        return kind == 1, at
    if kind == 3:
        return data[at], at + 1
    if kind in (4, 5, 6):  # the same as `_read_signed`, without calls: most of a footer is numbers
        number, shift = data[at], 7
        if number > 127:
            number &= 127
            while (byte := data[at := at + 1]) > 127:
                number |= (byte & 127) << shift
                shift += 7
            number |= byte << shift
        return (number >> 1) ^ -(number & 1), at + 1
    if kind == 7:
        return struct.unpack_from("<d", data, at)[0], at + 8
    if kind == 8:
        length, at = _read_unsigned(data, at)
        return bytes(data[at : at + length]), at + length
    if kind == 9 and depth < _MAX_DEPTH:
        return _read_list(data, at, depth + 1)
    if kind == 12 and depth < _MAX_DEPTH:
        return read_struct(data, at, depth + 1)
    raise ValueError(f"Thrift type {kind} at byte {at}")


def _read_list(data: bytes | mmap.mmap, at: int, depth: int) -> tuple[list[Any], int]:
    head = data[at]
    count, kind, at = head >> 4, head & 15, at + 1
    if count == 15:
        count, at = _read_unsigned(data, at)
    if kind in (1, 2):
        return [data[at + n] == 1 for n in range(count)], at + count
    values = []
    for _ in range(count):
        value, at = _read_value(data, at, kind, depth)
        values.append(value)
    return values, at


def _read_unsigned(data: bytes | mmap.mmap, at: int) -> tuple[int, int]:
    number = shift = 0
    while (byte := data[at]) > 127:
        number |= (byte & 127) << shift
        shift += 7
        at += 1
    return number | byte << shift, at + 1


def _read_signed(data: bytes | mmap.mmap, at: int) -> tuple[int, int]:
    number, at = _read_unsigned(data, at)
    return (number >> 1) ^ -(number & 1), at


def _encode_unsigned(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _encode_signed(number: int) -> bytes:
    return _encode_unsigned(number << 1 if number >= 0 else (-number << 1) - 1)


def _list(kind: int, items: Sequence[bytes]) -> bytes:
    if len(items) < 15:
        head = bytes([len(items) << 4 | kind])
    else:
        head = bytes([0xF0 | kind]) + _encode_unsigned(len(items))
    return head + b"".join(items)
