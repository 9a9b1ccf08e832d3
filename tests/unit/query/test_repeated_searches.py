"""What a search found stays in memory; asked again, it must say what the table says now, and of
this very question.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from indextables import Table
from indextables.splits.format.source import LocalSource
from indextables.splits.read.reader import SplitReader

LEVELS = ["INFO", "WARN", None, "ERROR"]
ROWS = 200
SCHEMA = pa.schema([("n", pa.int64()), ("level", pa.string()), ("message", pa.string())])
TEXT = {"indexing.typemap.message": "text"}


def _rows() -> pa.Table:
    levels = [LEVELS[n % 4] for n in range(ROWS)]
    texts = [f"disk {'full' if n % 3 else 'empty'} on host{n % 7}" for n in range(ROWS)]
    return pa.table({"n": list(range(ROWS)), "level": levels, "message": texts}, schema=SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, options=TEXT)
    table.append(_rows())
    return table


def _answers(table: Table) -> list[object]:
    query = "message:full AND message:disk"
    return [
        table.count(query=query),
        table.search(query, columns=["n"]).column("n").to_pylist(),
        table.search(query, limit=5, columns=["n"], score=True).to_pylist(),
        table.aggregate({"levels": {"terms": {"field": "level"}}}, query=query).to_pylist(),
    ]


@pytest.mark.parametrize("mode", ["vector", "rewrite"])
def test_a_repeated_search_does_not_find_what_was_deleted_meanwhile(
    tmp_path: Path, mode: str
) -> None:
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, options={**TEXT, "delete.mode": mode})
    table.append(_rows())
    before = _answers(table)
    assert _answers(table) == before
    version = table.version
    table.delete(where="n < 50")
    left = [n for n in range(50, ROWS) if n % 3]
    assert [table.count(query="message:full AND message:disk"), _answers(table)[1]] == [
        len(left),
        left,
    ]
    table.delete(where="n < 60")
    assert _answers(table)[1] == [n for n in left if n >= 60]
    assert _answers(Table.open(table.path, version=version)) == before


def test_one_and_true_are_two_questions(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64()), ("doc", pa.string())])
    table = Table.create(
        str(tmp_path / "t"), schema=schema, options={"indexing.typemap.doc": "json"}
    )
    table.append(
        pa.table({"n": [1, 2, 3], "doc": ['{"a": 1}', '{"a": true}', '{"a": "1"}']}, schema=schema)
    )
    first = {
        text: table.search(text, columns=["n"]).column("n").to_pylist()
        for text in ("doc.a:true", "doc.a:1")
    }
    again = {
        text: table.search(text, columns=["n"]).column("n").to_pylist()
        for text in ("doc.a:1", "doc.a:true")
    }
    assert first == again and first["doc.a:true"] == [2]


def test_nothing_stays_where_there_is_no_memory_for_it(table: Table) -> None:
    small = Table.open(table.path, options={"cache.memory.maxSize": 0})
    assert _answers(small) == _answers(small) == _answers(table)


def test_terms_are_counted_with_and_without_nulls_and_below_other_terms(table: Table) -> None:
    counts = Counter(LEVELS[n % 4] for n in range(ROWS))
    found = table.aggregate({"levels": {"terms": {"field": "level"}}}).to_pylist()
    assert {row["levels"]: row["count"] for row in found} == {
        k: v for k, v in counts.items() if k is not None
    }
    found = table.aggregate(
        {"levels": {"terms": {"field": "level", "missing": "none"}}}
    ).to_pylist()
    assert {row["levels"]: row["count"] for row in found} == {
        k or "none": v for k, v in counts.items()
    }
    below = {"levels": {"terms": {"field": "level"}, "aggs": {"most": {"max": {"field": "n"}}}}}
    rows = table.aggregate(below, query="message:full").to_pylist()
    most = {
        level: max(n for n in range(ROWS) if n % 3 and LEVELS[n % 4] == level)
        for level in LEVELS
        if level
    }
    assert {row["levels"]: row["most"] for row in rows} == most


@pytest.mark.parametrize("count", [5, 100])
def test_rows_in_any_order_and_more_than_once_are_texts(table: Table, count: int) -> None:
    (path,) = table.files().column("path").to_pylist()
    reader = SplitReader.open(LocalSource(Path(table.path) / path))
    numbers = np.random.default_rng(1).integers(0, ROWS, count)
    for _ in range(2):  # from the file, and from memory
        found = reader.read_rows(numbers, columns=["level", "n"])
        assert found.schema == pa.schema([SCHEMA.field("level"), SCHEMA.field("n")])
        assert found.column("n").to_pylist() == numbers.tolist()
        assert found.column("level").to_pylist() == [LEVELS[n % 4] for n in numbers.tolist()]
