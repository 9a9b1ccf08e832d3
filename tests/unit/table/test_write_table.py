"""`write_table`: from rows to a searchable table in one call."""

from __future__ import annotations

import logging
from pathlib import Path

import duckdb
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pytest

import indextables
from indextables import Table, write_table
from indextables.errors import InvalidInputError, SchemaMismatchError, TableExistsError

ROWS = [
    {"day": "2026-11-01", "message": "timeout while waiting for the gateway"},
    {"day": "2026-11-02", "message": "disk full on data2"},
]


def test_one_call_writes_a_table_that_is_searched_by_words(tmp_path: Path) -> None:
    table = write_table(str(tmp_path / "t"), ROWS, text=["message"], partition_by=["day"])
    assert table.search("gateway").to_pylist() == [ROWS[0]]
    assert table.partition_columns == ["day"]
    assert indextables.open_table(str(tmp_path / "t")).count() == 2


@pytest.mark.parametrize(
    "make", [pa.Table.from_pylist, pd.DataFrame, pl.DataFrame], ids=["arrow", "pandas", "polars"]
)
def test_frames_of_every_library_are_written(tmp_path: Path, make: object) -> None:
    assert callable(make)
    table = write_table(str(tmp_path / "t"), make(ROWS), text=["message"])
    assert table.search("disk").num_rows == 1


def test_a_duckdb_relation_is_written(tmp_path: Path) -> None:
    relation = duckdb.sql("SELECT range AS id, 'word' || range AS message FROM range(3)")
    table = write_table(str(tmp_path / "t"), relation, text=["message"])
    assert table.search("word2")["id"].to_pylist() == [2]


def test_modes_decide_what_happens_to_a_table_that_exists(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for mode in ("append", "overwrite", "error", "ignore"):
        assert write_table(f"{path}-{mode}", ROWS, text=["message"], mode=mode).count() == 2
    write_table(path, ROWS, text=["message"])
    assert write_table(path, ROWS).count() == 4
    assert write_table(path, ROWS[:1], mode="overwrite").count() == 1
    assert write_table(path, ROWS, mode="ignore").count() == 1
    with pytest.raises(TableExistsError, match="exists already"):
        write_table(path, ROWS, mode="error")
    with pytest.raises(
        InvalidInputError, match="mode must be one of append, overwrite, error, ignore"
    ):
        write_table(path, ROWS, mode="replace")  # type: ignore[arg-type]
    assert Table.open(path).count() == 1


def test_arguments_that_do_not_fit_an_existing_table_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_table(path, ROWS, text=["message"], substring=["message"])
    assert write_table(path, ROWS, text=["message"], substring=["message"]).count() == 4
    with pytest.raises(InvalidInputError, match="indexes it as string") as refused:
        write_table(path, ROWS, text=["day"])
    assert 'reindex({"day": "text"})' in str(refused.value)
    with pytest.raises(InvalidInputError, match="does not index its parts"):
        write_table(path, ROWS, substring=["day"])
    with pytest.raises(InvalidInputError, match="does not have"):
        write_table(path, ROWS, text=["body"])
    with pytest.raises(InvalidInputError, match="partitioned by"):
        write_table(path, ROWS, partition_by=["day"])
    with pytest.raises(SchemaMismatchError):
        write_table(path, [{"other": 1}])
    assert Table.open(path).count() == 4


def test_a_new_table_with_wrong_arguments_is_not_created(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    with pytest.raises(
        InvalidInputError, match="text names 'mesage', which is not a column"
    ) as refused:
        write_table(path, ROWS, text=["mesage"])
    assert "Did you mean 'message'?" in str(refused.value)
    with pytest.raises(InvalidInputError, match="a list of names"):
        write_table(path, ROWS, text="message")
    with pytest.raises(
        InvalidInputError, match=r"but the option indexing\.typemap\.message is 'string'"
    ):
        write_table(path, ROWS, text=["message"], options={"indexing.typemap.message": "string"})
    assert not Path(path).exists()


def test_a_column_of_prose_without_an_index_of_words_is_named_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prose = [
        {"id": f"{n:050}", "body": f"sentence {n} " + "of many words " * 5, "level": "INFO"}
        for n in range(20)
    ]
    with caplog.at_level(logging.WARNING, "indextables"):
        table = write_table(str(tmp_path / "a"), prose)
    assert [r.message for r in caplog.records] == [
        "The column 'body' looks like prose, but is indexed by its whole values. "
        'Pass text=["body"] to search its words.'
    ]
    assert table.count() == 20
    caplog.clear()
    with caplog.at_level(logging.WARNING, "indextables"):
        write_table(str(tmp_path / "b"), prose, text=["body"])
        write_table(str(tmp_path / "c"), [{"id": row["id"], "level": "INFO"} for row in prose])
    assert not caplog.records


def test_create_takes_text_and_substring_columns(tmp_path: Path) -> None:
    schema = pa.schema([("message", pa.string()), ("code", pa.string())])
    table = Table.create(str(tmp_path / "t"), schema=schema, text=["message"], substring=["code"])
    table.append([{"message": "disk full", "code": "abc-123"}])
    assert table.search("full").num_rows == 1
    assert table.count(where="code LIKE '%c-1%'") == 1
    assert table.metadata.configuration == {
        "indexing.typemap.message": "text",
        "indexing.substring.code": "True",
    }
    with pytest.raises(InvalidInputError, match="text names 'msg'"):
        Table.create(str(tmp_path / "u"), schema=schema, text=["msg"])
    with pytest.raises(InvalidInputError, match=r"schema is a pyarrow\.Schema"):
        Table.create(str(tmp_path / "u"), schema={"a": 1}, text=["msg"])
