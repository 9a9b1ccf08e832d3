"""Words side by side: any of them must match, or, where the table or the caller says so, all."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import InvalidInputError
from indextables.model.actions import ProtocolAction
from indextables.wire import version_file

ROWS = ["disk full", "disk slow", "net full", "net slow"]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    schema = pa.schema([("n", pa.int64()), ("message", pa.string())])
    table = Table.create(
        str(tmp_path / "t"), schema=schema, options={"indexing.typemap.message": "text"}
    )
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
def test_the_operator_between_words(
    table: Table, query: str, any_word: list[int], all_words: list[int]
) -> None:
    assert matches(table, query) == any_word
    strict = Table.open(table.path, options={"query.defaultOperator": "AND"})
    assert matches(strict, query) == all_words
    assert strict.count(query=query) == len(all_words)


def of_another_engine(table: Table) -> Table:
    """The table as if its log were that of another engine: no version of it names our splits."""
    for path in (Path(table.path) / "_transaction_log").glob("0*.json"):
        actions = [
            ProtocolAction(min_reader_version=2, min_writer_version=2)
            if isinstance(action, ProtocolAction)
            else action
            for action in version_file.decode(path.read_bytes(), path="v")
        ]
        path.write_bytes(version_file.encode(actions))
    return Table.open(table.path, options={"transaction.cache.enabled": False})


def test_a_table_of_another_engine_means_all_words_before_and_after_it_becomes_ours(
    table: Table,
) -> None:
    theirs = of_another_engine(table)
    assert matches(theirs, "disk full") == [0]
    theirs.append(pa.table({"n": [4], "message": ["disk full again"]}))
    assert matches(theirs, "disk full") == [0, 4]
    ours = Table.open(table.path, options={"transaction.cache.enabled": False})
    assert "parquetSplits" in (ours.protocol.reader_features or ())
    assert (ours.metadata.configuration or {})["query.defaultOperator"] == "and"
    assert matches(ours, "disk full") == [0, 4]
    assert matches(Table.open(table.path, version=1), "disk full") == [0]


def test_a_table_of_another_engine_that_says_any_word_means_any(table: Table) -> None:
    of_another_engine(table).update_metadata(options={"query.defaultOperator": "or"})
    assert matches(Table.open(table.path), "disk full") == [0, 1, 2]
    Table.open(table.path).checkpoint()
    assert (Table.open(table.path).metadata.configuration or {})["query.defaultOperator"] == "or"


def test_a_table_of_ours_means_any_word_after_its_protocol_was_written_back(table: Table) -> None:
    table.admin.downgrade_protocol(to=2, log_only=True)
    again = Table.open(table.path)
    assert "parquetSplits" not in (again.protocol.reader_features or ())
    assert matches(again, "disk full") == [0, 1, 2]
    again.reindex(["message"], tokenizer="en_stem")
    assert matches(Table.open(table.path), "disk full") == [0, 1, 2]


def test_a_version_of_another_engine_that_is_restored_means_what_it_meant(table: Table) -> None:
    theirs = of_another_engine(table)
    theirs.checkpoint()
    ours = Table.open(table.path, options={"transaction.cache.enabled": False})
    ours.append(pa.table({"n": [4], "message": ["disk full again"]}))
    ours.restore(version=1)
    assert (
        matches(ours, "disk full") == matches(Table.open(table.path, version=1), "disk full") == [0]
    )
    assert ours.restore(version=1).status == "no_action"


def test_a_version_of_ours_that_is_restored_under_an_older_protocol_means_what_it_meant(
    table: Table,
) -> None:
    table.admin.downgrade_protocol(to=2, log_only=True)
    again = Table.open(table.path)
    again.append(pa.table({"n": [4], "message": ["disk full again"]}))
    again.restore(version=1)
    assert matches(again, "disk full") == [0, 1, 2]


def test_a_table_keeps_its_operator(table: Table) -> None:
    table.update_metadata(options={"query.defaultOperator": "and"})
    assert matches(Table.open(table.path), "disk full") == [0]
    assert matches(
        Table.open(table.path, options={"query.defaultOperator": "or"}), "disk full"
    ) == [0, 1, 2]
    with pytest.raises(InvalidInputError, match=r"query\.defaultOperator"):
        Table.open(table.path, options={"query.defaultOperator": "nand"})
