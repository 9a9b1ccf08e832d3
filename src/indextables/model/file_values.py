"""Looking into a file list: the texts of its maps and the null counts of its statistics, for all files at once."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

Mask = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]
UNKNOWN_COUNT = -1


class TextMaps:
    """A column of text maps. Where every map has the same keys in the same order, a lookup is a strided slice."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._chunks = [_MapChunk(chunk) for chunk in column.chunks]

    def lookup(self, key: str) -> tuple[pa.Array, Mask]:
        """The text under a key per map, NULL where there is none; and whether the key is there at all."""
        lookups = [chunk.lookup(key) for chunk in self._chunks]
        if not lookups:
            return pa.array([], pa.string()), np.zeros(0, np.bool_)
        return pa.concat_arrays([texts for texts, _ in lookups]), np.concatenate([mask for _, mask in lookups])


class _MapChunk:
    """The maps of one chunk."""

    def __init__(self, maps: pa.MapArray) -> None:
        self._count = len(maps)
        self._offsets = maps.offsets.to_numpy()
        first, last = (int(self._offsets[0]), int(self._offsets[-1])) if self._count else (0, 0)
        self._keys = maps.keys.slice(first, last - first)
        self._items = maps.items.slice(first, last - first)
        self._offsets = self._offsets - first
        self._null = pc.is_null(maps).to_numpy(zero_copy_only=False) if maps.null_count else None

    def lookup(self, key: str) -> tuple[pa.Array, Mask]:
        shared = self._shared_keys
        if shared is None:
            return self._scattered(key)
        if key not in shared:
            return pa.nulls(self._count, pa.string()), np.zeros(self._count, np.bool_)
        positions = np.arange(shared.index(key), len(self._items), len(shared))
        return self._items.take(pa.array(positions)), np.ones(self._count, np.bool_)

    @cached_property
    def _shared_keys(self) -> list[str] | None:
        """The keys of every map, if they are the same in all of them."""
        if self._count == 0 or self._null is not None or self._keys.type != pa.string():
            return None
        width = len(self._keys) // self._count
        if width == 0 or not np.array_equal(self._offsets, np.arange(self._count + 1) * width):
            return None
        _, starts, letters = self._keys.buffers()
        ends = np.frombuffer(starts, np.int32)[self._keys.offset : self._keys.offset + len(self._keys) + 1]
        lengths = np.diff(ends).reshape(self._count, width)
        if not (lengths == lengths[0]).all():
            return None
        size = int(lengths[0].sum())
        if size:
            rows = np.frombuffer(letters, np.uint8)[ends[0] : ends[-1]].reshape(self._count, size)
            if not (rows == rows[0]).all():
                return None
        keys: list[str] = self._keys.slice(0, width).to_pylist()
        return keys if len(set(keys)) == width else None

    def _scattered(self, key: str) -> tuple[pa.Array, Mask]:
        hits = np.flatnonzero(pc.equal(self._keys, key).to_numpy(zero_copy_only=False))
        rows = np.repeat(np.arange(self._count), np.diff(self._offsets))[hits]
        positions = np.full(self._count, -1, np.int64)
        positions[rows] = hits
        if self._null is not None:
            positions[self._null] = -1
        missing = positions < 0
        return self._items.take(pa.array(positions, mask=missing)), ~missing


def null_counts(stats: pa.ChunkedArray, column: str) -> tuple[Counts, Counts]:
    """The null count of a column and the number of records that each `stats` JSON says; -1 where it says none."""
    texts = pc.fill_null(stats.combine_chunks() if isinstance(stats, pa.ChunkedArray) else stats, "{}")
    counts = _read_together(texts, column)
    return counts if counts is not None else _read_singly(texts, column)


def _read_together(texts: pa.Array, column: str) -> tuple[Counts, Counts] | None:
    """One pass of Arrow's JSON reader over all texts; None if any of them is not what we write."""
    if len(texts) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    lines = pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], texts.cast(pa.string())), "\n")[0].as_buffer()
    fields = pa.struct([pa.field(column, pa.int64())])
    options = pj.ParseOptions(
        explicit_schema=pa.schema([("numRecords", pa.int64()), ("nullCount", fields)]),
        unexpected_field_behavior="ignore",
    )
    try:
        table = pj.read_json(pa.BufferReader(lines), parse_options=options)
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(texts):
        return None
    nulls = pc.struct_field(table["nullCount"], [column])
    return _counts(nulls), _counts(table["numRecords"])


def _counts(values: pa.ChunkedArray) -> Counts:
    counts: Counts = pc.fill_null(values, UNKNOWN_COUNT).to_numpy()
    return counts


def _read_singly(texts: pa.Array, column: str) -> tuple[Counts, Counts]:
    nulls = np.full(len(texts), UNKNOWN_COUNT, np.int64)
    records = np.full(len(texts), UNKNOWN_COUNT, np.int64)
    for row, text in enumerate(texts.to_pylist()):
        try:
            content = msgspec.json.decode(text)
        except msgspec.DecodeError:
            continue
        if isinstance(content, dict):
            nulls[row] = _count(content.get("nullCount"), column)
            records[row] = _count(content, "numRecords")
    return nulls, records


def _count(container: Any, key: str) -> int:
    value = container.get(key) if isinstance(container, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else UNKNOWN_COUNT
