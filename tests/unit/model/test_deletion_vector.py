"""Row numbers as Roaring bitmaps: every form of a block, several blocks, several vectors in one
file, damage.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest

from indextables.errors import BadFileError
from indextables.model.deletion_vector import (
    VectorPlace,
    decode_rows,
    encode_rows,
    inline_rows,
    vectors_of,
)

BLOCK = 65_536
SCATTERED = np.random.default_rng(4)
SETS = {
    "nothing": [],
    "one": [7],
    "the first and the last of a block": [0, BLOCK - 1],
    "a run": range(100, 5_000),
    "runs of one and of many": [1, 3, *range(10, 500), 600],
    "a whole block": range(BLOCK),
    "an array": range(0, 8_000, 2),
    "a bitmap": range(0, BLOCK, 2),
    "the next block alone": [BLOCK],
    "two blocks": [5, BLOCK + 5, BLOCK + 6],
    "a run across blocks": range(BLOCK - 10, BLOCK + 10),
    "blocks far apart": [3, 7 * BLOCK + 1, 900 * BLOCK],
    "many blocks of every form": [
        *range(0, 8_000, 2),
        *range(BLOCK, BLOCK + 9_000),
        *range(3 * BLOCK, 4 * BLOCK, 2),
        5 * BLOCK,
        *range(8 * BLOCK, 9 * BLOCK),
    ],
    "at random": sorted(set(SCATTERED.integers(0, 400_000, 50_000).tolist())),
}


@pytest.mark.parametrize("name", SETS)
def test_what_is_encoded_is_decoded(name: str) -> None:
    rows = np.array(SETS[name], np.int64)
    decoded = decode_rows(encode_rows(rows), path="x")
    assert decoded.dtype == np.int64
    assert np.array_equal(decoded, rows)


def test_the_bytes_are_those_of_the_roaring_format() -> None:
    assert encode_rows(np.array([5, BLOCK + 7])) == struct.pack(
        "<IIHHHHIIHH", 12346, 2, 0, 0, 1, 0, 24, 26, 5, 7
    )
    assert encode_rows(np.arange(10, 30)) == struct.pack("<IBHHHHH", 12347, 1, 0, 19, 1, 10, 19)


def test_each_of_several_vectors_is_read_from_its_place() -> None:
    names = ("one", "at random", "a bitmap", "many blocks of every form", "an array")
    sets = [np.array(SETS[name], np.int64) for name in names]
    texts, data = vectors_of(sets, "vectors/x.vec")
    for rows, text in zip(sets, texts, strict=True):
        place = VectorPlace.of(text)
        if place is None:
            assert np.array_equal(inline_rows(text), rows)
            continue
        start, length = place.span
        assert np.array_equal(place.rows(data[start : start + length]), rows)
        for damaged in (bytes([data[start + length - 1] ^ 1]), b""):
            with pytest.raises(BadFileError):
                place.rows(data[start : start + length - 1] + damaged)
    assert [VectorPlace.of(text) is None for text in texts] == [True, False, False, False, False]


@pytest.mark.parametrize(
    "numbers", [[9, 8], [4, 4], [BLOCK - 1, 0]], ids=["descending", "twice", "the ends of a block"]
)
def test_numbers_that_do_not_ascend_are_refused(numbers: Sequence[int]) -> None:
    data = struct.pack(f"<IIHHI{len(numbers)}H", 12346, 1, 0, len(numbers) - 1, 16, *numbers)
    with pytest.raises(BadFileError, match="do not ascend"):
        decode_rows(data, path="x")


@pytest.mark.parametrize(
    "data", [b"", b"abc", struct.pack("<I", 1), encode_rows(np.array([1])) + b"\0"]
)
def test_what_is_no_vector_is_refused(data: bytes) -> None:
    with pytest.raises(BadFileError):
        decode_rows(data, path="x")
