"""Reindexing: answers are right before, during and after; what is interrupted goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import ConflictError, IndexTablesError, InvalidInputError, QuerySyntaxError
from indextables.model import protocol as protocols
from indextables.operations.merge import MergeOutcome, MergeTask

SCHEMA = pa.schema([("day", pa.int32()), ("id", pa.int64()), ("body", pa.string())])


def made(path: Path) -> Table:
    table = Table.create(str(path), schema=SCHEMA, partition_columns=["day"])
    for day in range(3):
        texts = ["read timeout", f"all clear {day}", "timeout"]
        table.append(
            pa.table(
                {"day": [day] * 3, "id": range(day * 3, day * 3 + 3), "body": texts}, schema=SCHEMA
            )
        )
    return table


def found(table: Table, query: str) -> list[int]:
    return sorted(table.search(query, columns=["id"]).column("id").to_pylist())


def test_answers_are_right_before_during_and_after(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    with pytest.raises(QuerySyntaxError, match=r"reindex\(\{\"body\": \"text\"\}\)"):
        table.search("timeout")
    assert found(table, "body:timeout") == [2, 5, 8]
    assert table.reindex({"body": "text"}, dry_run=True).splits_left == 3
    assert table.version == 3
    report = table.reindex({"body": "text"}, where="day = 1")
    assert (report.splits_rewritten, report.splits_left) == (1, 2)
    for reader in (table, Table.open(table.path)):
        assert found(reader, "timeout") == [0, 2, 3, 5, 6, 8]
        assert found(reader, 'body:"read timeout"') == [0, 3, 6]
        assert reader.count(query="body:clear") == 3
        assert len(reader.search("timeout", limit=4, snippet="body")) == 4
    table.append(pa.table({"day": [7], "id": [99], "body": ["late timeout"]}, schema=SCHEMA))
    table.delete(query="body:clear", where="day = 2")
    assert table.reindex({"body": "text"}).splits_left == 0
    assert table.reindex({"body": "text"}).status == "no_action"
    assert found(table, "timeout") == [0, 2, 3, 5, 6, 8, 99]
    assert table.count(query="body:clear") == 2
    assert {split.answered_by for split in table.explain(query="timeout").splits} == {"index"}
    assert "indexDecisions" in (table.protocol.reader_features or ())
    assert table.verify(full=True).healthy
    assert found(Table.open(table.path, version=3), "body:timeout") == [2, 5, 8]


def test_it_goes_on_after_an_interruption(tmp_path: Path) -> None:
    table = made(tmp_path / "t")

    def stopped(work: Sequence[MergeTask]) -> Iterator[MergeOutcome]:
        yield work[0].run()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.reindex({"body": "text"}, execute=stopped)
    table = Table.open(table.path)
    assert found(table, "timeout") == [0, 2, 3, 5, 6, 8]
    assert table.reindex({"body": "text"}).splits_rewritten == 3
    assert table.merge().status in ("no_action", "success")
    assert found(table, "timeout") == [0, 2, 3, 5, 6, 8]


def test_a_tokenizer_alone_and_back_to_a_string(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.reindex({"body": "text"})
    table.reindex(["body"], tokenizer="en_stem")
    assert found(table, "body:timeouts") == [0, 2, 3, 5, 6, 8]
    table.alter.rename_column("body", "text")
    table.reindex({"text": "string"})
    assert found(table, "text:timeout") == [2, 5, 8]
    assert found(table, 'text:"read timeout"') == [0, 3, 6]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"day": "text"}, "partition"),
        ({"id": "text"}, "id"),
        ({"x": "text"}, "no column"),
        ({"body": "words"}, "words"),
        ({}, "which"),
    ],
)
def test_what_does_not_fit_changes_nothing(
    tmp_path: Path, columns: dict[str, str], words: str
) -> None:
    table = made(tmp_path / "t")
    with pytest.raises(IndexTablesError, match=words):
        table.reindex(columns)
    assert Table.open(table.path).version == 3
    assert Table.open(table.path).protocol == protocols.NEW_TABLE_PROTOCOL
    with pytest.raises(InvalidInputError):
        table.reindex(["body"], tokenizer="nonsense")


@pytest.mark.parametrize(
    "options",
    [
        {"indexing.typemap.message": "string"},
        {"indexing.typemap.string": "message,other"},
        {"indexing.nonindexed": "message,other"},
        {"indexing.typemap.message": "text", "indexing.tokenizer.message": "whitespace"},
    ],
)
def test_who_created_the_table_goes_on_writing(tmp_path: Path, options: dict[str, str]) -> None:
    schema = pa.schema([("id", pa.int64()), ("message", pa.string()), ("other", pa.string())])
    table = Table.create(str(tmp_path / "t"), schema=schema, options=options)
    row = {"message": "Read timeout", "other": "a b"}
    table.append([{"id": 1, **row}])
    beside = Table.open(table.path, options=options)
    table.reindex({"message": "text"}, tokenizer="en_stem")
    table.append([{"id": 2, **row}])
    table.update(set={"id": "id + 10"}, where="id = 1")
    table.upsert([{"id": 3, **row}], on=["id"])
    with pytest.raises(ConflictError, match="index"):
        beside.append([{"id": 9, **row}])
    beside = beside.refresh()
    beside.append([{"id": 4, **row}])
    assert sorted(beside.search("message:timeouts").column("id").to_pylist()) == [2, 3, 4, 11]
    assert beside.verify().healthy
