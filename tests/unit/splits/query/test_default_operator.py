"""Words side by side: any of them must match, or, where the table or the caller says so, all."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import InvalidInputError

ROWS = ["disk full", "disk slow", "net full", "net slow"]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    schema = pa.schema([("n", pa.int64()), ("message", pa.string())])
    table = Table.create(str(tmp_path / "t"), schema=schema, options={"indexing.typemap.message": "text"})
    table.append(pa.table({"n": range(4), "message": ROWS}))
    return table


def matches(table: Table, query: str) -> list[int]:
    return sorted(table.search(query).column("n").to_pylist())


@pytest.mark.parametrize(
    ("query", "any_word", "all_words"),
    [
        ("disk full", [0, 1, 2], [0]),
        ("disk AND full", [0], [0]),
        ("disk OR full", [0, 1, 2], [0, 1, 2]),
        ("disk full OR slow", [0, 1, 2, 3], [0, 1, 3]),
        ("disk -full", [1], [1]),
        ("message:(net slow)", [1, 2, 3], [3]),
        ("(disk full) OR (net slow)", [0, 1, 2, 3], [0, 3]),
        ('"disk full" slow', [0, 1, 3], []),
    ],
)
def test_the_operator_between_words(table: Table, query: str, any_word: list[int], all_words: list[int]) -> None:
    assert matches(table, query) == any_word
    strict = Table.open(table.path, options={"query.defaultOperator": "AND"})
    assert matches(strict, query) == all_words
    assert strict.count(query=query) == len(all_words)


def test_a_table_keeps_its_operator(table: Table) -> None:
    table.update_metadata(options={"query.defaultOperator": "and"})
    assert matches(Table.open(table.path), "disk full") == [0]
    assert matches(Table.open(table.path, options={"query.defaultOperator": "or"}), "disk full") == [0, 1, 2]
    with pytest.raises(InvalidInputError, match=r"query\.defaultOperator"):
        Table.open(table.path, options={"query.defaultOperator": "nand"})
