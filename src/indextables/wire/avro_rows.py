"""Arrow columns -> the bytes of Avro rows, a whole column at a time.

A column becomes a list of pieces; piece k of row i is a run of bytes, and the row is its pieces one after another. So
the rows of a table are one element-wise join at the end, and no Python code runs per row. A null row of an optional
column has an empty run in every piece but the first, which holds the number of the union's branch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Flags = np.ndarray[Any, np.dtype[np.bool_]]
Longs = np.ndarray[Any, np.dtype[np.int64]]
Piece = Any
"""A binary array with one run per row, or `bytes` when every row has the same run."""

NULL_BRANCH = b"\x00"
VALUE_BRANCH = b"\x02"
_END = b"\x00"


def join_rows(pieces: Sequence[Piece], rows: int) -> Any:
    """One binary array of the pieces of every row; neighbouring constants are merged first."""
    parts: list[Any] = []
    for piece in pieces:
        if isinstance(piece, bytes) and parts and isinstance(parts[-1], bytes):
            parts[-1] += piece
        else:
            parts.append(piece)
    if all(isinstance(p, bytes) for p in parts):
        return pa.array([b"".join(parts)] * rows, pa.binary())
    scalars = [pa.scalar(p, pa.binary()) if isinstance(p, bytes) else p for p in parts]
    return pc.binary_join_element_wise(*scalars, pa.scalar(b"", pa.binary()))


def optional(column: Any, encode: Callable[[Any, Flags | None], list[Piece]]) -> list[Piece]:
    """A union of null and something: the branch's number, then the value if there is one."""
    if column.null_count == len(column):
        return [NULL_BRANCH]
    if column.null_count == 0:
        return [VALUE_BRANCH, *encode(column, None)]
    present: Flags = column.is_valid().to_numpy(zero_copy_only=False)
    branch = pc.if_else(column.is_valid(), VALUE_BRANCH, NULL_BRANCH)
    return [branch, *encode(column, present)]


def longs(column: Any, present: Flags | None) -> list[Piece]:
    """Whole numbers."""
    filled = column.fill_null(0) if column.null_count else column
    return [varints(filled.cast(pa.int64()).to_numpy(zero_copy_only=False), present)]


def booleans(column: Any, present: Flags | None) -> list[Piece]:
    """True and false."""
    runs = pc.if_else(column, b"\x01", b"\x00")
    return [runs if present is None else runs.fill_null(b"")]


def texts(column: Any, present: Flags | None) -> list[Piece]:
    """Strings: length, then UTF-8."""
    lengths = pc.binary_length(column)
    if present is None:
        return [varints(lengths.to_numpy(zero_copy_only=False), None), column.cast(pa.binary())]
    counts = lengths.fill_null(0).to_numpy(zero_copy_only=False)
    return [varints(counts, present), column.cast(pa.binary()).fill_null(b"")]


def text_lists(column: Any, present: Flags | None) -> list[Piece]:
    """Arrays of strings."""
    lists = _compact(column)
    offsets, first, last = _extent(lists)
    items = lists.values.slice(first, last - first)
    return _blocks(offsets, join_rows(texts(items, None), len(items)), present)


def text_maps(column: Any, present: Flags | None) -> list[Piece]:
    """Maps of string to string. An entry whose value is null cannot be said in this map and is left out."""
    maps = _compact(column)
    offsets, first, last = _extent(maps)
    keys, values = maps.keys.slice(first, last - first), maps.items.slice(first, last - first)
    if values.null_count:
        valid = values.is_valid()
        offsets = np.concatenate([[0], np.cumsum(valid.to_numpy(zero_copy_only=False))])[offsets]
        keys, values = keys.filter(valid), values.filter(valid)
    return _blocks(offsets, join_rows([*texts(keys, None), *texts(values, None)], len(keys)), present)


def _compact(column: Any) -> Any:
    """The same lists with no items hidden under null rows, which Arrow allows and the offsets would then include."""
    return column.take(pa.array(np.arange(len(column)))) if column.null_count else column


def _extent(lists: Any) -> tuple[Longs, int, int]:
    """Row offsets counted from the first item in use, and where the items in use begin and end."""
    offsets = lists.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    return offsets - first, first, last


def _blocks(offsets: Longs, items: Any, present: Flags | None) -> list[Piece]:
    """Avro arrays and maps: one block of items, then the end mark. The items of a row lie side by side already."""
    counts = np.diff(offsets)
    item_offsets = np.frombuffer(items.buffers()[1], dtype=np.int32)[items.offset :]
    body_offsets = np.ascontiguousarray(item_offsets[offsets])
    body = pa.Array.from_buffers(pa.binary(), len(counts), [None, pa.py_buffer(body_offsets), items.buffers()[2]])
    end: Piece = _END if present is None else pc.if_else(pa.array(present), _END, b"")
    return [varints(counts, counts > 0), body, end]


def varints(values: Longs, present: Flags | None) -> Any:
    """Zigzag numbers of 1 to 10 bytes; rows that are not present get no bytes at all."""
    signed = values.astype(np.int64, copy=False)
    unsigned = ((signed << 1) ^ (signed >> 63)).view(np.uint64)
    lengths = np.ones(len(unsigned), dtype=np.int32)
    rest = unsigned >> np.uint64(7)
    while (longer := rest != 0).any():
        lengths += longer
        rest >>= np.uint64(7)
    width = int(lengths.max(initial=1))
    if present is not None:
        lengths[~present] = 0
    offsets = np.zeros(len(unsigned) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.Array.from_buffers(
        pa.binary(), len(unsigned), [None, pa.py_buffer(offsets), pa.py_buffer(_digits(unsigned, lengths, width))]
    )


def _digits(unsigned: np.ndarray[Any, np.dtype[np.uint64]], lengths: np.ndarray[Any, Any], width: int) -> Any:
    """The groups of seven bits of every number, lowest first, side by side."""
    grid = np.empty((len(unsigned), width), dtype=np.uint8)
    rest = unsigned.copy()
    for i in range(width):
        more = np.where(lengths > i + 1, 0x80, 0).astype(np.uint8)
        grid[:, i] = (rest & np.uint64(0x7F)).astype(np.uint8) | more
        rest >>= np.uint64(7)
    return grid[np.arange(width)[None, :] < lengths[:, None]]
