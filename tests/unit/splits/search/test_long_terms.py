"""Values with a term that is too long for the index: patterns read these rows alone, and answers
stay exact.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from indextables import Table
from indextables.config.indexing import IndexingSettings
from indextables.splits.index.values import IncompleteValues
from indextables.splits.query.fields import QueryFields
from indextables.splits.query.on_rows import scan_mask
from indextables.splits.query.parser import parse
from indextables.splits.search.match import count_rows, find_rows
from tests.unit.splits.plain_split import PlainSplit, make_split

SETTINGS = IndexingSettings(typemap={"message": "text", "data": "json"})
WORDS = ("memory", "memoir", "timeout", "disk", "Memo")
LONG = ("memo" + "x" * 300, "y" * 400, "disk" * 90, "z" * 255, "é" * 128)
QUERIES = (
    *(
        "memo*",
        "mem?ry",
        "memroy~1",
        "memory~2",
        "/mem.*/",
        "/y+/",
        "*isk",
        f"{LONG[0]}",
        f'"disk {LONG[1]}"',
    ),
    *(
        "NOT memo*",
        "memo* AND timeout",
        "memo* OR timeout",
        "(memo* disk~1)^2",
        "key:memo*",
        "key:/z+/",
    ),
    *(
        f"key:({LONG[3]} OR {LONG[0]} OR disk)",
        "data.a:memo*",
        "data.a:/y+/",
        "data.a:memroy~1",
        "key:????",
    ),
    *("key:" + "?" * 300, "timeout AND NOT (disk OR y*)", f"message:({LONG[2]} OR timeout)"),
)


def make_rows(count: int, seed: int, *, share: float) -> pa.Table:
    rng = random.Random(seed)

    def text() -> str:
        words = rng.choices(WORDS, k=rng.randint(1, 5))
        if rng.random() < share:
            words.insert(rng.randint(0, len(words)), rng.choice(LONG))
        return " ".join(words)

    values = [rng.choice(LONG) if rng.random() < share else rng.choice(WORDS) for _ in range(count)]
    return pa.table(
        {
            "id": pa.array(range(count)),
            "message": pa.array([None if rng.random() < 0.05 else text() for _ in range(count)]),
            "key": pa.array(values),
            "data": pa.array([{"a": value} for value in reversed(values)]),
        }
    )


def expect(split: PlainSplit, query: str) -> list[int]:
    """The rows that match, from the rows alone."""
    parsed = parse(query, QueryFields(split.schema, split.mapping, ("message",)))
    return np.flatnonzero(scan_mask(parsed, split.table, split.mapping)).tolist()


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> PlainSplit:
    return make_split(
        make_rows(600, 1, share=0.02), SETTINGS, tmp_path_factory.mktemp("long") / "index"
    )


@pytest.mark.parametrize("query", QUERIES)
def test_the_index_answers_all_other_rows(split: PlainSplit, query: str) -> None:
    parsed = parse(query, QueryFields(split.schema, split.mapping, ("message",)))
    split.rows_read = 0
    assert find_rows(split, parsed).tolist() == expect(split, query)
    longest = max(values.count for values in split.incomplete.values())
    assert split.rows_read <= 2 * longest < split.num_rows / 4
    assert count_rows(split, parsed) == len(expect(split, query))


@pytest.mark.parametrize("query", QUERIES)
def test_a_split_that_records_only_the_count_has_the_same_answer(
    split: PlainSplit, query: str
) -> None:
    counted = {name: IncompleteValues(values.count) for name, values in split.incomplete.items()}
    old = PlainSplit(split.table, split.mapping, split.folder, counted)
    parsed = parse(query, QueryFields(split.schema, split.mapping, ("message",)))
    assert find_rows(old, parsed).tolist() == expect(split, query)
    cannot_reach_long_terms = query in (
        "mem?ry",
        "memroy~1",
        "memory~2",
        "data.a:memroy~1",
        "key:????",
    )
    assert (old.columns_read == []) == cannot_reach_long_terms


@pytest.mark.parametrize("splits", [1, 4])
def test_searches_of_a_table_are_exact_after_deletes_and_merges(
    tmp_path: Path, splits: int
) -> None:
    rows = make_rows(400, 2, share=0.03)
    options = {"indexing.typemap.message": "text", "indexing.typemap.data": "json"}
    table = Table.create(str(tmp_path / "t"), schema=rows.schema, options=options)
    for start in range(0, rows.num_rows, rows.num_rows // splits):
        table.append(rows.slice(start, rows.num_rows // splits))
    reference = make_split(rows, SETTINGS, tmp_path / "reference")
    expected = {query: expect(reference, query) for query in QUERIES}

    def check(dead: range) -> None:
        for query in QUERIES:
            wanted = [row for row in expected[query] if row not in dead]
            found = table.search(query, columns=["id"], limit=1_000)
            assert sorted(found["id"].to_pylist()) == wanted, query
            assert table.count(query=query) == len(wanted), query
            best = table.search(query, columns=["id"], limit=5, score=True)
            every = table.search(query, columns=["id"], limit=1_000, score=True)
            assert best["_score"].to_pylist() == pytest.approx(
                every["_score"].to_pylist()[:5], rel=1e-6
            ), query

    check(range(0))
    table.delete(where="id >= 100 AND id < 160")
    check(range(100, 160))
    table.merge()
    check(range(100, 160))
