"""The rows whose vectors are nearest to a given one, by exact distances.

Distances are computed in two steps. Products in the precision of the column find the candidates;
the distances of the candidates are then computed in double precision, one row at a time, and
rounded. So a row has the same distance in every split that holds it, and the order of rows does not
depend on how they are divided among splits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from indextables.splits.index.vectors import Vectors, vectors_of
from indextables.splits.read.searchable import Rows, Searchable
from indextables.splits.search.hits import Scores
from indextables.splits.search.scores import Hits

Doubles = npt.NDArray[np.float64]
_BLOCK_ROWS = 16_384
"""Rows whose distances are computed at once, so that intermediate results stay small."""


class NearestTo(Struct, frozen=True):
    """A vector to which the rows of a search are compared. Picklable."""

    column: str
    """The column, by its physical name."""
    vector: tuple[float, ...]
    metric: str


def find_nearest(split: Searchable, rows: Rows, wanted: NearestTo, count: int) -> Hits:
    """Return the rows of a split with the smallest distances, nearest first; equal distances in row
    order. The scores of the hits are distances.
    """
    if not len(rows) or not count or wanted.column not in split.schema.names:
        return Hits(np.empty(0, np.int64), np.empty(0, np.float32))
    target = np.asarray(wanted.vector, np.float64)
    kept_rows, kept_distances = np.empty(0, np.int64), np.empty(0, np.float32)
    start = 0
    for batch in split.iter_rows(
        None if len(rows) == split.num_rows else rows, columns=[wanted.column]
    ):
        numbers = rows[start : start + batch.num_rows]
        start += batch.num_rows
        for offset in range(0, batch.num_rows, _BLOCK_ROWS):
            block = batch.column(0).slice(offset, _BLOCK_ROWS)
            found = _nearest_of(
                split.path, block, numbers[offset : offset + _BLOCK_ROWS], target, wanted, count
            )
            kept_rows = np.concatenate([kept_rows, found[0]])
            kept_distances = np.concatenate([kept_distances, found[1]])
            if len(kept_rows) > 2 * count:
                best = np.lexsort((kept_rows, kept_distances))[:count]
                kept_rows, kept_distances = kept_rows[best], kept_distances[best]
    best = np.lexsort((kept_rows, kept_distances))[:count]
    return Hits(kept_rows[best], kept_distances[best])


def _nearest_of(
    path: str, block: pa.Array, numbers: Rows, target: Doubles, wanted: NearestTo, count: int
) -> tuple[Rows, Scores]:
    """Return the rows of a block that can be among the nearest, with their distances."""
    has_vector, vectors = vectors_of(block, len(target), path)
    rows = numbers[has_vector]
    if len(rows) > count:
        candidates = _candidates(vectors, target, wanted.metric, count)
        rows, vectors = rows[candidates], vectors[candidates]
    distances = _distances(vectors.astype(np.float64), target, wanted.metric)
    return rows, distances.astype(np.float32)


def _candidates(
    vectors: Vectors, target: Doubles, metric: str, count: int
) -> npt.NDArray[np.int64]:
    """Return the positions of vectors whose distance may be one of the smallest."""
    products = (vectors @ target.astype(vectors.dtype)).astype(np.float64)
    squares = np.einsum("ij,ij->i", vectors, vectors, dtype=vectors.dtype).astype(np.float64)
    lengths = np.sqrt(squares)
    length = float(np.sqrt(target @ target))
    # The rounding error of a sum of n products is below n times the precision times their lengths.
    error = 4 * len(target) * float(np.finfo(np.float32).eps)
    if metric == "l2":
        rough = squares - 2 * products
        slack = error * (lengths + length) ** 2
    elif metric == "dot":
        rough = -products
        slack = error * lengths * length
    else:
        scale = np.maximum(lengths * length, np.finfo(vectors.dtype).tiny)
        rough = np.where(lengths * length > 0, -products / scale, 0.0)
        slack = np.full(len(rough), 2 * error)
    if not (np.isfinite(rough).all() and np.isfinite(slack).all()):
        return np.arange(len(rough))
    worst = np.partition(rough + slack, count - 1)[count - 1]
    return np.flatnonzero(rough - slack <= worst)


def _distances(vectors: Doubles, target: Doubles, metric: str) -> Doubles:
    """Return the distance of each vector. Under cosine a vector of zeros is at distance 1."""
    distances: Doubles
    if metric == "l2":
        differences = vectors - target
        distances = np.sqrt(np.einsum("ij,ij->i", differences, differences))
        return distances
    products: Doubles = np.einsum("ij,j->i", vectors, target)
    if metric == "dot":
        return -products
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors)) * np.sqrt(target @ target)
    distances = 1 - np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    return distances
