"""The rows of a split: proven column chunks, handed to Parquet as if the whole file were there."""

from __future__ import annotations

import bisect
import zlib
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.errors import BadFileError
from indextables.splits.parquet_reader import open_parquet
from indextables.splits.source import SplitSource
from indextables.splits.tail import SplitTail

WINDOW_BYTES = 16 << 20
"""Compressed bytes of a read that are held at once when many rows stream by."""
_THREADS_BYTES = 1 << 20
"""Fewer compressed bytes are decoded in less time than a pool of threads takes to wake up."""
Groups = npt.NDArray[np.int64]


def read_groups(source: SplitSource, tail: SplitTail, groups: Sequence[int], columns: Sequence[str]) -> pa.Table:
    """These columns of these row groups; every chunk is proven before it is decoded."""
    schema = pa.schema([tail.schema.field(name) for name in columns])
    if not groups:
        return schema.empty_table()
    places = tail.leaves
    leaves = [leaf for name in dict.fromkeys(columns) for leaf in places[name]]
    chunks = [(group, leaf) for group in groups for leaf in leaves]
    ranges = [(int(start), int(length)) for start, length in (tail.places[chunk] for chunk in chunks)]
    found = source.read_many(ranges)
    for chunk, (start, length), data in zip(chunks, ranges, found, strict=True):
        if zlib.crc32(data) != int(tail.checksums[chunk]):
            message = f"Bytes {start} to {start + length} of the split {tail.path} are damaged: the checksum differs."
            raise BadFileError(message, path=tail.path, start=start, length=length)
    file = _ProvenChunks(tail.path, source.size, ranges, found)
    try:
        reader = open_parquet(file, tail.metadata)
        many = sum(length for _, length in ranges) > _THREADS_BYTES
        table = reader.read_row_groups(list(groups), column_indices=sorted(leaves), use_threads=many)
    except (pa.ArrowException, OSError, ValueError) as e:
        raise BadFileError(f"The rows of the split {tail.path} cannot be decoded: {e}.", path=tail.path) from e
    chosen = table.select(list(columns)).replace_schema_metadata(None)
    return chosen if chosen.schema.equals(schema, check_metadata=True) else chosen.cast(schema)


def windows(tail: SplitTail, groups: Groups, columns: Sequence[str]) -> Iterator[list[int]]:
    """Row groups in runs whose chunks fit into memory comfortably."""
    places = tail.leaves
    leaves = [leaf for name in columns for leaf in places[name]]
    sizes = tail.places[:, leaves, 1].sum(axis=1)
    run: list[int] = []
    held = 0
    for group in groups:
        if run and held + sizes[group] > WINDOW_BYTES:
            yield run
            run, held = [], 0
        run.append(int(group))
        held += int(sizes[group])
    if run:
        yield run


class _ProvenChunks:
    """A file that has only the bytes that were fetched; reading any others is an error, never zeros."""

    def __init__(self, path: str, size: int, ranges: Sequence[tuple[int, int]], data: Sequence[bytes]) -> None:
        pieces = sorted((start, piece) for (start, _), piece in zip(ranges, data, strict=True))
        self._path = path
        self._size = size
        self._starts = [start for start, _ in pieces]
        self._data = [piece for _, piece in pieces]
        self._at = 0
        self.closed = False

    def read(self, length: int = -1) -> memoryview:
        number = bisect.bisect_right(self._starts, self._at) - 1
        if number >= 0:
            skip = self._at - self._starts[number]
            if 0 <= length <= len(self._data[number]) - skip:
                self._at += length
                return memoryview(self._data[number])[skip : skip + length]
        message = f"Parquet asked for {length} bytes at {self._at} of {self._path}, which no column chunk holds."
        raise BadFileError(message, path=self._path, start=self._at, length=length)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return self._size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True
