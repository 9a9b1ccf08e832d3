"""The term filter of a split: a Bloom filter of its terms, by which a search skips splits without
opening their index.

A split with at most `MAX_TERMS` terms has one in its hot section. The filter covers words and whole
values; terms of JSON paths, addresses and trigrams are not in it. It has no false negatives: a term
that is not in the filter is not in the split.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

Hashes = npt.NDArray[np.uint64]
MAX_TERMS = 25_000
"""Splits with more terms have no filter: it would be a large part of their footer."""
_BITS_PER_TERM = 10
_PROBES = 6
_MIN_BYTES = 64
_FACTOR = 0x9E3779B97F4A7C15
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


class TermFilter(Struct, frozen=True):
    """The filter of one split, and the index fields that it covers."""

    bits: npt.NDArray[np.uint8]
    fields: tuple[str, ...]


def hash_terms(field: str, terms: Sequence[str]) -> Hashes:
    """Return a 64-bit hash of each term of a field. The hashes are stored: they never change."""
    array = pa.array(terms, pa.large_string())
    offsets = np.frombuffer(array.buffers()[1], np.int64)[: len(terms) + 1]
    data = np.frombuffer(array.buffers()[2] or b"", np.uint8)[: offsets[-1]]
    lengths = np.diff(offsets)
    powers = np.cumprod(np.full(int(lengths.max(initial=0)), _FACTOR, np.uint64))
    positions = np.arange(len(data)) - np.repeat(offsets[:-1], lengths)
    # A trailing zero, so that an empty last term has an element to start at.
    parts = np.append((data.astype(np.uint64) + np.uint64(1)) * powers[positions], np.uint64(0))
    if len(terms):
        sums = np.add.reduceat(parts, offsets[:-1])
    else:
        sums = np.empty(0, np.uint64)
    sums[lengths == 0] = 0
    seed = int.from_bytes(hashlib.blake2b(field.encode(), digest_size=8).digest(), "little")
    mixed = sums + np.uint64(seed)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX[0]
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX[1]
    return mixed ^ (mixed >> np.uint64(31))


def bit_positions(hashes: Hashes, count: int) -> npt.NDArray[np.int64]:
    """Return the bits of each term in a filter of `count` bits, a power of two: [term, probe]."""
    first = (hashes & np.uint64(0xFFFFFFFF)).astype(np.uint64)
    step = ((hashes >> np.uint64(32)) | np.uint64(1)).astype(np.uint64)
    numbers: Hashes = np.arange(_PROBES).astype(np.uint64)
    probes: Hashes = np.add.outer(first, np.zeros(_PROBES, np.uint64)) + np.multiply.outer(
        step, numbers
    )
    return np.bitwise_and(probes, np.uint64(count - 1)).astype(np.int64)


def build_filter(terms: Mapping[str, Sequence[str]]) -> TermFilter:
    """Return the filter of the terms of some fields."""
    count = sum(map(len, terms.values()))
    size = max(_MIN_BYTES, 1 << (max(count * _BITS_PER_TERM, 8) // 8 - 1).bit_length())
    flags = np.zeros(8 * size, np.bool_)
    for field, some in terms.items():
        flags[bit_positions(hash_terms(field, some), 8 * size).ravel()] = True
    return TermFilter(np.packbits(flags, bitorder="little"), tuple(terms))


def is_filter_length(length: int) -> bool:
    """Return whether a filter can have this number of bytes."""
    return length >= _MIN_BYTES and length & (length - 1) == 0
