"""Pages: the smallest pieces of a column that can be decoded. A search for ten rows reads ten pages, not ten row groups.

The page table of a split has, for every page in the order of the file, its length, its checksum and how many values it
holds (0: a dictionary). Pages lie one after another from the start of the file, so lengths are places too. pyarrow reads no
single pages; so those that are needed become a Parquet file of their own in memory, with a footer made here.

The bounds of pages are in Parquet's own column index, which is part of the split's proven end.

Parquet's headers are Thrift structs in the compact protocol: read as dicts from field number to value.
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
_TYPES = {"BOOLEAN": 0, "INT32": 1, "INT64": 2, "FLOAT": 4, "DOUBLE": 5, "BYTE_ARRAY": 6, "FIXED_LEN_BYTE_ARRAY": 7}
_CODECS = {"ZSTD": 6}
_MAX_DEPTH = 32


def page_table(path: Path, end: int) -> bytes:
    """The table of the pages from the start of a file to where its rows end."""
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
    """The first row of every page, and the number of rows at the end."""
    pages: Numbers
    """The number of each in the page table."""
    groups: Numbers
    """The row group that each belongs to."""
    dictionaries: Numbers
    """The number of every row group's dictionary in the page table; -1 if it has none."""

    @cached_property
    def start_list(self) -> list[int]:
        """`starts` as a list, in which a few rows are found more quickly."""
        return [int(start) for start in self.starts]

    @cached_property
    def group_list(self) -> list[int]:
        """`groups` as a list."""
        return [int(group) for group in self.groups]

    @cached_property
    def group_pages(self) -> list[int]:
        """How many pages every row group has."""
        return [int(count) for count in np.bincount(self.groups, minlength=len(self.dictionaries))]


class PageTable:
    """The pages of a split, as its footer tells them."""

    def __init__(self, data: bytes, places: Numbers, group_starts: Numbers, path: str) -> None:
        """`places` are offset and length of every column chunk: [row group, leaf column, 2]."""
        self.lengths, self.checksums, self._values = np.frombuffer(data, "<u4").reshape(3, -1).astype(np.int64)
        edges = np.concatenate([[0], np.cumsum(self.lengths)]) + len(_MAGIC)
        self.starts: Numbers = edges[:-1]
        self._path = path
        self._group_starts = group_starts
        self._first = np.searchsorted(edges, places[:, :, 0])
        self._last = np.searchsorted(edges, places.sum(axis=2))
        within = np.minimum(self._first, len(edges) - 1), np.minimum(self._last, len(edges) - 1)
        if (edges[within[0]] != places[:, :, 0]).any() or (edges[within[1]] != places.sum(axis=2)).any():
            raise self._bad()
        self._columns: dict[int, ColumnPages] = {}

    def column(self, leaf: int) -> ColumnPages:
        """The pages of a column that is flat: each of its values is a row."""
        if leaf not in self._columns:
            self._columns[leaf] = self._column(leaf)
        return self._columns[leaf]

    def _column(self, leaf: int) -> ColumnPages:
        pages, groups, dictionaries = [], [], []
        for group, (first, last) in enumerate(zip(self._first[:, leaf], self._last[:, leaf], strict=True)):
            dictionary = first < last and self._values[first] == 0
            dictionaries.append(first if dictionary else -1)
            own = np.arange(first + bool(dictionary), last)
            if self._values[own].sum() != self._group_starts[group + 1] - self._group_starts[group]:
                raise self._bad()
            pages.append(own)
            groups.append(np.full(len(own), group))
        joined = np.concatenate([np.empty(0, np.int64), *pages])
        starts = np.concatenate([[0], np.cumsum(self._values[joined])])
        return ColumnPages(starts, joined, np.concatenate([np.empty(0, np.int64), *groups]), np.array(dictionaries))

    def _bad(self) -> BadFileError:
        return BadFileError(f"The page table of the split {self._path} does not fit its columns.", path=self._path)


class PageColumn:
    """One flat column, as it is described in the footer of a file of its pages."""

    def __init__(self, field: pa.Field, metadata: FileMetaData, leaf: int) -> None:
        chunk = metadata.row_group(0).column(leaf)
        name = field.name.encode()
        kind, codec = _TYPES[chunk.physical_type], _CODECS[chunk.compression]
        self._field = field
        self._kind = b"".join(
            [
                b"\x15" + _signed(kind),
                b"\x19" + _list(5, [_signed(encoding) for encoding in (0, 3, 8)]),
                b"\x19" + _list(8, [_unsigned(len(name)) + name]),
                b"\x15" + _signed(codec),
            ]
        )
        """The fields of a ColumnMetaData that are the same for all pages: type, encodings, path, codec."""

    @staticmethod
    def possible(kind: pa.DataType, metadata: FileMetaData, leaf: int) -> bool:
        """Whether single pages of such a column can be decoded here."""
        plain = not (pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_null(kind))
        if not plain or isinstance(kind, pa.BaseExtensionType) or not metadata.num_row_groups:
            return False
        chunk = metadata.row_group(0).column(leaf)
        return chunk.physical_type in _TYPES and chunk.compression in _CODECS

    @cached_property
    def _frame(self) -> tuple[bytes, bytes]:
        """The footer of an empty file of this column, before and after its number of rows and its row groups."""
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(sink, pa.schema([self._field]), version="2.6"):
            pass
        data = sink.getvalue().to_pybytes()
        footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
        places = field_places(footer)
        return footer[: places[3]], footer[places[5] :]

    def file(self, groups: Sequence[tuple[bytes, Sequence[bytes], int]]) -> bytes:
        """A Parquet file of these pages: for each row group its dictionary (or nothing), its pages, its rows."""
        body, chunks, at, total = [_MAGIC], [], len(_MAGIC), 0
        for dictionary, pages, rows in groups:
            size = len(dictionary) + sum(map(len, pages))
            chunks.append(self._row_group(at, len(dictionary), size, rows))
            body += [dictionary, *pages]
            at += size
            total += rows
        before, after = self._frame
        # Fields 3 and 4, each the next one after the field before it.
        footer = before + b"\x16" + _signed(total) + b"\x19" + _list(12, chunks) + after
        return b"".join([*body, footer, len(footer).to_bytes(4, "little"), _MAGIC])

    def _row_group(self, at: int, dictionary: int, size: int, rows: int) -> bytes:
        """A RowGroup (columns, bytes, rows) of one ColumnChunk (offset, metadata)."""
        held, count, first = b"\x16" + _signed(size), b"\x16" + _signed(rows), b"\x26" + _signed(at + dictionary)
        metadata = self._kind + count + held + held + first + (b"\x26" + _signed(at) if dictionary else b"")
        chunk = b"\x26\x00\x1c" + metadata + b"\x00\x00"
        return b"\x19" + _list(12, [chunk]) + held + count + b"\x00"


class PageBounds(Struct, frozen=True):
    """Smallest and largest values of the pages of a column chunk, as Parquet writes them down."""

    low: list[bytes]
    high: list[bytes]
    only_nulls: list[bool]
    nulls: list[int] | None


def page_bounds(footer: Mapping[int, Any], leaf: int, data: bytes, footer_start: int) -> list[PageBounds | None]:
    """The column index of a column in every row group, out of the end of a file; None where there is none."""
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
    """The fields of a struct, and where it ends."""
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
    """Where the fields of a struct begin, by their numbers."""
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


def _unsigned(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _signed(number: int) -> bytes:
    return _unsigned(number << 1 if number >= 0 else (-number << 1) - 1)


def _list(kind: int, items: Sequence[bytes]) -> bytes:
    head = bytes([len(items) << 4 | kind]) if len(items) < 15 else bytes([0xF0 | kind]) + _unsigned(len(items))
    return head + b"".join(items)
