"""Any damage to a split is noticed: every answer is the right one or an error, never another
answer.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import tantivy
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.errors import BadFileError
from indextables.splits.format.footer_checksum import FOOTER_CHECKSUM_KEY
from indextables.splits.format.source import LocalSource
from indextables.splits.index.tantivy_files import TantivyErrors
from indextables.splits.read.cache import SplitCache
from indextables.splits.read.reader import SplitReader
from tests.support.splits import log_rows, old_splits, small_pages, write_file
from tests.torture.fuzz_files import sealed

TABLE = log_rows(400)


PICKED = np.array([7, 300, 301])


@functools.cache
def whole(*, old: bool = False) -> bytes:
    """A split of small row groups and pages, so that a few rows are read by pages; or one of
    release 0.1.0.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        old_splits() if old else small_pages(16, group_rows=200),
    ):
        return write_file(TABLE, Path(folder) / "a.split").read_bytes()


@functools.cache
def right_answers() -> tuple[list[int], list[int]]:
    with tempfile.TemporaryDirectory() as folder:
        return answers(whole(), Path(folder))[1:]


def answers(
    data: bytes, folder: Path, *, footer_start: int | None = None
) -> tuple[pa.Table, list[int], list[int]]:
    """Everything a user can see of a split: its rows, all and a few of them, a term's rows, a
    phrase's rows by score.
    """
    path = folder / "x.split"
    path.write_bytes(data)
    reader = SplitReader.open(
        LocalSource(path), footer_start=footer_start, cache=SplitCache(folder / "c", 1 << 30)
    )
    assert reader.read_rows(PICKED).equals(TABLE.take(pa.array(PICKED)).combine_chunks())
    rows = reader.read_rows()
    with (
        reader.open_index(["c1", "c2", "c3"], positions=True, norms=True) as view,
        TantivyErrors("x.split", "Searching"),
    ):
        schema, searcher = view.index.schema, view.index.searcher()
        term = tantivy.Query.term_query(schema, "c1", "ERROR", index_option="basic")
        phrase = tantivy.Query.phrase_query(schema, "c3", ["remote", "host"])
        found = [
            [place.doc for _, place in searcher.search(q, limit=400).hits] for q in (term, phrase)
        ]
    return rows, found[0], found[1]


def check(data: bytes) -> bool:
    """Whether the damage was noticed; the answers are right if not."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            rows, *found = answers(data, Path(folder))
        except BadFileError as e:
            assert "x.split" in e.message
            return True
    assert rows.equals(TABLE)
    assert tuple(found) == right_answers()
    return False


def test_the_whole_split_gives_the_right_answers() -> None:
    assert check(whole()) is False
    assert right_answers()[0] == [
        n for n, level in enumerate(TABLE["level"].to_pylist()) if level == "ERROR"
    ]
    assert right_answers()[1]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(whole()) - 1), st.integers(1, 255)), min_size=1, max_size=4
    )
)
def test_flipped_bytes(flips: list[tuple[int, int]]) -> None:
    data = bytearray(whole())
    for place, bits in flips:
        data[place] ^= bits
    check(bytes(data))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(whole()) - 1), st.integers(1, 5_000), st.booleans())
def test_a_stretch_of_zeros_or_a_missing_one(start: int, length: int, removed: bool) -> None:
    data = whole()
    check(
        data[:start]
        + (b"" if removed else bytes(min(length, len(data) - start)))
        + data[start + length :]
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(0, len(whole()) - 1))
def test_a_file_that_is_cut_short(size: int) -> None:
    assert check(whole()[:size])


@pytest.mark.parametrize("old", [False, True])
def test_every_byte_of_the_footer_and_the_index_counts(old: bool) -> None:
    """All of the tail and of the index bodies are under a checksum; of the rows, all column chunks
    and pages.
    """
    data = whole(old=old)
    assert check(data) is False
    missed = [
        at
        for at in range(4, len(data), 101)
        if not check(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
    ]
    assert missed == []


@pytest.mark.parametrize("size", [0, 7, 11])
def test_other_files(size: int) -> None:
    assert check(b"PAR1" + bytes(size) + b"PAR1")


@pytest.mark.parametrize("rows", [b"999", b"001", b"401"])
def test_an_index_of_other_rows_than_the_split_has(rows: bytes) -> None:
    """Every checksum is right; the index just speaks of rows that are not there."""
    data = whole()
    footer_start = int(
        data[data.rfind(FOOTER_CHECKSUM_KEY.encode()) + len(FOOTER_CHECKSUM_KEY) + 2 :][:16], 16
    )
    assert data.count(b'"max_doc": 400') == 1
    crafted = sealed(
        data.replace(b'"max_doc": 400', b'"max_doc": ' + rows.lstrip(b"0").rjust(3)), footer_start
    )
    with tempfile.TemporaryDirectory() as folder, pytest.raises(BadFileError, match=r"x\.split"):
        answers(crafted, Path(folder))
