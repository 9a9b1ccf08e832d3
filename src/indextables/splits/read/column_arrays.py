"""Columns of a split as arrays with one number per row, by which aggregations count rows.

A text is its code in a dictionary of the whole split, a timestamp its microseconds. An array
is built when a column is aggregated for the second time, and kept in the cache of decoded columns.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

Numbers = npt.NDArray[np.integer]


_MOST_TEXTS = 0.5
"""Share of distinct texts above which codes save nothing."""


class ColumnArray(Struct, frozen=True):
    """A column of rows as numbers: codes of `texts`, or microseconds."""

    numbers: Numbers
    texts: pa.Array | None = None
    """The text of each code. The code after the last one is a null."""
    valid: npt.NDArray[np.bool_] | None = None
    """Which rows have a timestamp; None if all have one."""

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        parts = (self.numbers, self.texts, self.valid)
        return sum(part.nbytes for part in parts if part is not None)

    def take(self, rows: npt.NDArray[np.int64] | None) -> ColumnArray:
        """Return the rows with these numbers, or all."""
        if rows is None:
            return self
        if self.valid is None:
            return ColumnArray(self.numbers[rows], self.texts)
        return ColumnArray(self.numbers[rows], self.texts, self.valid[rows])


def is_countable(kind: pa.DataType) -> bool:
    """Return whether columns of a type can be such an array."""
    return bool(pa.types.is_string(kind) or (pa.types.is_timestamp(kind) and kind.unit == "us"))


def build_array(columns: Iterable[pa.ChunkedArray]) -> ColumnArray | None:
    """Return the column of consecutive row groups as one array, or None if most texts differ."""
    chunks = [chunk for column in columns for chunk in column.chunks]
    if all(pa.types.is_timestamp(chunk.type) for chunk in chunks):
        return _build_times(chunks)
    coded = [
        chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        for chunk in chunks
    ]
    if any(chunk.dictionary.null_count or chunk.type != coded[0].type for chunk in coded):
        return None
    unified = pa.chunked_array(coded).unify_dictionaries()
    texts = unified.chunk(0).dictionary
    if len(texts) > len(unified) * _MOST_TEXTS:
        return None
    kind = np.min_scalar_type(len(texts))
    codes = [
        chunk.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False).astype(kind)
        for chunk in unified.chunks
    ]
    return ColumnArray(np.concatenate(codes), texts)


def _build_times(chunks: list[pa.Array]) -> ColumnArray:
    micros = [chunk.cast(pa.int64()) for chunk in chunks]
    numbers = [chunk.fill_null(0).to_numpy(zero_copy_only=False) for chunk in micros]
    valid = None
    if any(chunk.null_count for chunk in micros):
        valid = np.concatenate(
            [chunk.is_valid().to_numpy(zero_copy_only=False) for chunk in micros]
        )
    return ColumnArray(np.concatenate(numbers or [np.zeros(0, np.int64)]), None, valid)
