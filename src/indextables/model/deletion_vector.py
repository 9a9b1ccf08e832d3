"""Deletion vectors: the rows of a split that are deleted although its file still holds them.

A vector is a set of row numbers in the portable format of 32-bit Roaring bitmaps, which libraries
for Java, Rust, Go and Python read. An action of the log has it as a text:

    inline:<base64>                         a small vector within the text itself
    vectors/<name>.vec@<offset>+<length>    a part of a file next to the splits, with its length and
        checksum in front

A split is identified by path and vector, because readers with different vectors read different
rows. Sets of row numbers are numpy arrays, ascending and distinct.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
import zlib
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from indextables.errors import BadFileError
from indextables.model.actions import AddAction

RowSet = npt.NDArray[np.int64]
INLINE_BYTES = 512
"""Maximum size of a vector in the log itself, which every reader of the table reads completely."""
VECTOR_FOLDER = "vectors"
VECTOR_SUFFIX = ".vec"
_INLINE = "inline:"
_PLACE = re.compile(r"(vectors/[A-Za-z0-9._-]{1,200}\.vec)@(\d{1,18})\+(\d{1,10})")
_ENTRY = struct.Struct("<II")
"""Header of each vector in a file: its length and CRC-32."""

_NO_RUNS, _RUNS = 12346, 12347
_ARRAY_MOST = 4096
_FEW_CONTAINERS = 4
_BITMAP_BYTES = 8192


# The portable form of a Roaring bitmap.


def encode_rows(rows: RowSet) -> bytes:
    """Encode a set of row numbers as a Roaring bitmap."""
    numbers = rows.astype(np.uint32)
    keys, starts = np.unique((numbers >> 16).astype(np.uint16), return_index=True)
    low = (numbers & 0xFFFF).astype("<u2")
    parts = np.split(low, starts[1:]) if len(keys) else []
    bodies, is_run = zip(*map(_container, parts), strict=True) if parts else ((), ())
    head = np.empty(2 * len(keys), "<u2")
    head[0::2], head[1::2] = keys, [len(part) - 1 for part in parts]
    with_runs = any(is_run)
    if with_runs:
        flags = np.packbits(np.array(is_run, np.bool_), bitorder="little").tobytes()
        prefix = struct.pack("<I", _RUNS | (len(keys) - 1) << 16) + flags + head.tobytes()
    else:
        prefix = struct.pack("<II", _NO_RUNS, len(keys)) + head.tobytes()
    if not with_runs or len(keys) >= _FEW_CONTAINERS:
        sizes = np.array([0, *map(len, bodies)], np.int64)
        places = len(prefix) + 4 * len(keys) + np.cumsum(sizes)[:-1]
        prefix += places.astype("<u4").tobytes()
    return b"".join([prefix, *bodies])


def _container(low: npt.NDArray[np.uint16]) -> tuple[bytes, bool]:
    """Return the numbers of one block of 65,536 in their shortest form, and whether that is runs."""
    breaks = np.flatnonzero(np.diff(low.astype(np.int64)) != 1)
    plain = 2 * len(low) if len(low) <= _ARRAY_MOST else _BITMAP_BYTES
    if 2 + 4 * (len(breaks) + 1) < plain:
        first, last = (
            low[np.concatenate([[0], breaks + 1])],
            low[np.concatenate([breaks, [len(low) - 1]])],
        )
        runs = np.empty(2 * len(first), "<u2")
        runs[0::2], runs[1::2] = first, last - first
        return struct.pack("<H", len(first)) + runs.tobytes(), True
    if len(low) <= _ARRAY_MOST:
        return low.tobytes(), False
    bits = np.zeros(65536, np.uint8)
    bits[low] = 1
    return np.packbits(bits, bitorder="little").tobytes(), False


def decode_rows(data: bytes, *, path: str) -> RowSet:
    """Decode the row numbers of a Roaring bitmap, ascending. Raises BadFileError."""
    try:
        rows = _decode(data)
    except (struct.error, ValueError, IndexError) as error:
        raise _bad(path, str(error)) from error
    if len(rows) and not (np.diff(rows) > 0).all():
        raise _bad(path, "its row numbers do not ascend")
    return rows


def _decode(data: bytes) -> RowSet:
    (cookie,) = struct.unpack_from("<I", data)
    has_runs = cookie & 0xFFFF == _RUNS
    if has_runs:
        count, at = (cookie >> 16) + 1, 4
        flags = np.unpackbits(
            np.frombuffer(data, np.uint8, (count + 7) // 8, at), bitorder="little"
        )
        at += (count + 7) // 8
    elif cookie == _NO_RUNS:
        (count,) = struct.unpack_from("<I", data, 4)
        flags, at = np.zeros(min(count, 65536), np.uint8), 8
    else:
        raise ValueError("it does not begin like a Roaring bitmap")
    if count > 65536:
        raise ValueError(f"it has {count} blocks")
    head = np.frombuffer(data, "<u2", 2 * count, at)
    at += 4 * count
    if not has_runs or count >= _FEW_CONTAINERS:
        at += 4 * count
    blocks: list[RowSet] = []
    for key, most, run in zip(
        head[0::2].tolist(), head[1::2].tolist(), flags.tolist(), strict=False
    ):
        low, at = _block(data, at, most + 1, bool(run))
        if len(low) != most + 1:
            raise ValueError(f"block {key} holds {len(low)} rows where {most + 1} are announced")
        blocks.append((key << 16) + low)
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes follow its end")
    if blocks:
        return np.concatenate(blocks)
    return np.empty(0, np.int64)


def _block(data: bytes, at: int, count: int, run: bool) -> tuple[RowSet, int]:
    if run:
        (runs,) = struct.unpack_from("<H", data, at)
        pairs = np.frombuffer(data, "<u2", 2 * runs, at + 2).astype(np.int64)
        lengths = pairs[1::2] + 1
        if int(lengths.sum()) != count:
            raise ValueError("its runs hold another number of rows than they announce")
        within = np.arange(count) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return np.repeat(pairs[0::2], lengths) + within, at + 2 + 4 * runs
    if count <= _ARRAY_MOST:
        return np.frombuffer(data, "<u2", count, at).astype(np.int64), at + 2 * count
    bits = np.frombuffer(data, np.uint8, _BITMAP_BYTES, at)
    return np.flatnonzero(np.unpackbits(bits, bitorder="little")).astype(
        np.int64
    ), at + _BITMAP_BYTES


# Where a vector is.


class VectorPlace(Struct, frozen=True):
    """A vector in a file."""

    path: str
    offset: int
    length: int

    @classmethod
    def of(cls, vector: str | None) -> VectorPlace | None:
        """Return the position of a vector in a file, or None if it is inline or missing."""
        if vector is None or vector.startswith(_INLINE):
            return None
        match = _PLACE.fullmatch(vector)
        if match is None:
            raise _bad(vector[:80], "its place cannot be understood")
        return cls(match[1], int(match[2]), int(match[3]))

    def __str__(self) -> str:
        return f"{self.path}@{self.offset}+{self.length}"

    @property
    def span(self) -> tuple[int, int]:
        """Start and length of the bytes to read."""
        return self.offset, _ENTRY.size + self.length

    def rows(self, data: bytes) -> RowSet:
        """Decode the bytes of the span. Raises BadFileError if they are not what was written."""
        if len(data) != _ENTRY.size + self.length:
            raise _bad(str(self), "the file is too short")
        length, checksum = _ENTRY.unpack_from(data)
        body = data[_ENTRY.size :]
        if length != self.length or zlib.crc32(body) != checksum:
            raise _bad(str(self), "it does not match its checksum")
        return decode_rows(body, path=str(self))


def inline_rows(vector: str) -> RowSet:
    """Return the rows of an inline vector."""
    try:
        return decode_rows(
            base64.b64decode(vector[len(_INLINE) :], validate=True),
            path="a deletion vector of the log",
        )
    except binascii.Error as error:
        raise _bad("a deletion vector of the log", str(error)) from error


def vectors_of(sets: Sequence[RowSet], path: str) -> tuple[list[str], bytes]:
    """Return the texts of some vectors, and the file content for those too large for the log (empty
    if none).
    """
    texts: list[str] = []
    pieces: list[bytes] = []
    at = 0
    for rows in sets:
        body = encode_rows(rows)
        if len(body) <= INLINE_BYTES:
            texts.append(_INLINE + base64.b64encode(body).decode())
            continue
        texts.append(str(VectorPlace(path, at, len(body))))
        pieces += [_ENTRY.pack(len(body), zlib.crc32(body)), body]
        at += _ENTRY.size + len(body)
    return texts, b"".join(pieces)


# Files of the log and their vectors.


def vector_path(vector: str | None) -> str | None:
    """Return the file of a vector, or None if it is inline or malformed."""
    match = _PLACE.fullmatch(vector) if vector is not None else None
    if match:
        return match[1]
    return None


def named_paths(actions: Iterable[AddAction]) -> set[str]:
    """Return every file of these splits: their own, and those of their vectors."""
    paths: set[str] = set()
    for action in actions:
        paths.add(action.path)
        path = vector_path(action.deletion_vector)
        if path is not None:
            paths.add(path)
    return paths


def listed_paths(files: pa.Table) -> frozenset[str]:
    """Return every file of a file list with the columns `path` and `deletion_vector`."""
    paths = set(files.column("path").to_pylist())
    vectors = pc.drop_null(files.column("deletion_vector")).to_pylist()
    return frozenset(paths.union(path for path in map(vector_path, vectors) if path is not None))


REACHED_COLUMNS = ["path", "deletion_vector"]
"""Columns of a file list that `listed_paths` needs."""


def stored_records(action: AddAction) -> int | None:
    """Return the number of rows in the file of a split, including deleted ones."""
    if action.num_records is None:
        return None
    return action.num_records + (action.deleted_records or 0)


def _bad(path: str, why: str) -> BadFileError:
    return BadFileError(f"The deletion vector {path} cannot be read: {why}.", path=path)
