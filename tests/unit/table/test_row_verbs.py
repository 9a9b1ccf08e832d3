"""Rows through `Table`: written, replaced, scanned, counted, and refused with a reason."""

from __future__ import annotations

import datetime as dt
import math
import pickle
from collections.abc import Iterator
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from indextables import Table
from indextables.errors import (
    BadFileError,
    InvalidInputError,
    MissingSplitError,
    QuerySyntaxError,
    SchemaMismatchError,
)

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("message", pa.string()),
        pa.field("level", pa.string()),
        pa.field("score", pa.float64()),
        pa.field("day", pa.date32()),
    ]
)
DAYS = [dt.date(2026, 1, 1), dt.date(2026, 1, 2), None]


def rows(start: int, count: int) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "message": [
                f"timeout at gateway {n}" if n % 2 else f"login of user {n}" for n in numbers
            ],
            "level": ["ERROR" if n % 3 == 0 else "INFO" for n in numbers],
            "score": [None if n % 5 == 0 else n / 2 for n in numbers],
            "day": [DAYS[n % 3] for n in numbers],
        },
        schema=SCHEMA,
    )


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table.create(
        str(tmp_path / "t"),
        schema=SCHEMA,
        partition_columns=["day"],
        options={"indexing.typemap.message": "text"},
    )
    made.append(rows(0, 100))
    return made


def ids(reader: pa.RecordBatchReader) -> list[int]:
    return sorted(reader.read_all().column("id").to_pylist())


def test_what_was_written_is_read_back(table: Table) -> None:
    read = Table.open(table.path).scan().read_all().sort_by("id")
    assert read.equals(rows(0, 100))
    assert table.count() == 100
    files = table.files()
    assert files.num_rows == 3
    assert sum(files.column("num_records").to_pylist()) == 100
    assert all(dict(v) for v in files.column("min_values").to_pylist())


def test_statistics_follow_the_settings(tmp_path: Path) -> None:
    options = {"dataSkippingStatsColumns": "message", "stats.truncation.maxLength": 5}
    made = Table.create(str(tmp_path / "s"), schema=SCHEMA, options=options)
    made.append(rows(0, 10))
    entry = made.files().to_pylist()[0]
    assert dict(entry["min_values"]) == {"message": "login"}
    assert dict(entry["max_values"]) == {"message": "timep"}


@pytest.mark.parametrize("form", ["polars", "pandas", "duckdb", "batches", "reader", "batch"])
def test_rows_come_in_every_form(table: Table, form: str) -> None:
    more = rows(100, 10)
    data: object = {
        "polars": lambda: pl.from_arrow(more),
        "pandas": lambda: pl.from_arrow(more).to_pandas(use_pyarrow_extension_array=True),
        "duckdb": lambda: duckdb.from_arrow(more),
        "batches": lambda: iter(more.to_batches(max_chunksize=3)),
        "reader": more.to_reader,
        "batch": lambda: more.combine_chunks().to_batches()[0],
    }[form]()
    table.append(data)
    assert ids(table.scan(where="id >= 100")) == list(range(100, 110))


def test_conditions_and_columns(table: Table) -> None:
    found = table.scan(where="level = 'ERROR' AND score > 10", columns=["score", "ID"]).read_all()
    assert found.column_names == ["score", "id"]
    expected = rows(0, 100).filter((pc.field("level") == "ERROR") & (pc.field("score") > 10))
    assert sorted(found.column("id").to_pylist()) == expected.column("id").to_pylist()
    assert ids(table.scan(where=(pc.field("id") < 5) & pc.field("day").is_null())) == [2]
    assert ids(table.scan(where="day = '2026-01-02'")) == list(range(1, 100, 3))
    assert table.scan(limit=7).read_all().num_rows == 7
    assert table.scan(limit=0).read_all().num_rows == 0


def test_counting(table: Table) -> None:
    assert table.count(where="day = DATE '2026-01-01'") == 34
    assert table.count(query="message:timeout") == 50
    assert table.count(query="timeout AND level:ERROR") == 17
    assert table.count(query="timeout", where="id < 10") == 5
    assert table.count(query="NOT timeout") == 50
    assert table.count(query="score:[10 TO 12]") == 4
    assert table.count(query="nothing-like-it") == 0


def test_overwriting_everything(table: Table) -> None:
    table.overwrite(rows(500, 5))
    assert ids(table.scan()) == list(range(500, 505))
    assert table.history(limit=1).column("operation").to_pylist() == ["OVERWRITE"]
    assert ids(Table.open(table.path, version=1).scan()) == list(range(100))


def test_overwriting_a_part(table: Table) -> None:
    part = rows(1000, 30).filter(pc.field("day") == DAYS[1])
    table.overwrite(part, where="day = '2026-01-02'")
    assert ids(table.scan()) == sorted(
        [n for n in range(100) if n % 3 != 1] + part.column("id").to_pylist()
    )
    with pytest.raises(InvalidInputError, match="do not match"):
        table.overwrite(rows(0, 3), where="day = '2026-01-02'")
    table.overwrite(rows(1, 1), where="id < 10")
    assert ids(table.scan(where="id < 20")) == [1, *(n for n in range(10, 20) if n % 3 != 1)]


def test_overwriting_the_partitions_of_the_data(table: Table) -> None:
    part = rows(2000, 30).filter(pc.field("day").is_null())
    table.overwrite(part, dynamic_partitions=True)
    assert ids(table.scan(where="day IS NULL")) == part.column("id").to_pylist()
    assert table.count() == 67 + part.num_rows


def test_what_does_not_fit_is_named_and_changes_nothing(table: Table) -> None:
    before = {p.name for p in Path(table.path).rglob("*.split")}
    wrong = rows(0, 3).rename_columns(["id", "massage", "level", "score", "day"])
    with pytest.raises(
        SchemaMismatchError, match=r"'massage' \(string\) is not in the table"
    ) as caught:
        table.append(wrong)
    assert (
        caught.value.hint == "Write with merge_schema=True to add new columns, or leave them out."
    )
    text = pa.table({"id": ["a"], "score": ["b"]})
    for merge_schema in (False, True):
        message = r"'id' is string, the table has bigint.*'score' is string"
        with pytest.raises(SchemaMismatchError, match=message) as caught:
            table.append(text, merge_schema=merge_schema)
        assert caught.value.hint.startswith("Cast columns to the table's types")
        assert "merge_schema" not in caught.value.hint
    with pytest.raises(
        SchemaMismatchError, match="Give a value for every column that may not be null"
    ):
        table.append(pa.table({"message": ["no id"]}))
    with pytest.raises(InvalidInputError, match="holds 1 null"):
        table.append(pa.table({"id": pa.array([None], pa.int64())}))
    with pytest.raises(InvalidInputError, match="cannot be taken from a int"):
        table.append(7)
    assert {p.name for p in Path(table.path).rglob("*.split")} == before
    assert table.version == 1


def test_a_source_that_breaks_leaves_nothing_behind(table: Table) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from rows(0, 10).to_batches()
        raise RuntimeError("the source broke")

    before = {p.name for p in Path(table.path).rglob("*")}
    with pytest.raises(RuntimeError, match="the source broke"):
        table.append(broken())
    assert {p.name for p in Path(table.path).rglob("*")} == before


def test_columns_are_added_when_asked(table: Table) -> None:
    wider = rows(100, 3).append_column("region", pa.array(["eu", "us", None]))
    table.append(wider, merge_schema=True)
    assert table.schema.names[-1] == "region"
    read = Table.open(table.path).scan(columns=["id", "region"]).read_all().sort_by("id")
    assert read.column("region").to_pylist() == [None] * 100 + ["eu", "us", None]
    assert Table.open(table.path).count(query="region:eu") == 1
    assert Table.open(table.path).count(query="NOT region:eu") == 102


def test_narrower_numbers_and_missing_columns_fit(table: Table) -> None:
    table.append(
        pa.table({"id": pa.array([1_000], pa.int32()), "score": pa.array([1.5], pa.float32())})
    )
    assert table.scan(where="id = 1000").read_all().to_pylist() == [
        {"id": 1000, "message": None, "level": None, "score": 1.5, "day": None}
    ]


def test_kinds_of_index_are_kept(table: Table) -> None:
    other = Table.open(table.path, options={"indexing.typemap.message": "string"})
    with pytest.raises(InvalidInputError, match="'message'"):
        other.append(rows(0, 1))


def test_no_rows_make_no_version(table: Table) -> None:
    assert table.append(rows(0, 0)) is None
    assert table.version == 1


def test_an_append_is_made_once(table: Table) -> None:
    assert table.append(rows(100, 5), txn=("job", 1)) == 2
    before = len(list(Path(table.path).rglob("*.split")))
    assert table.append(rows(100, 5), txn=("job", 1)) is None
    assert table.count() == 105
    assert len(list(Path(table.path).rglob("*.split"))) == before


def test_bad_questions(table: Table) -> None:
    with pytest.raises(QuerySyntaxError, match="massage"):
        table.count(query="massage:timeout")
    with pytest.raises(InvalidInputError):
        table.scan(where="scor > 1").read_all()
    with pytest.raises(QuerySyntaxError):
        table.count(where="level = ")
    with pytest.raises(InvalidInputError, match="'scor'"):
        table.scan(columns=["scor"])
    with pytest.raises(InvalidInputError, match="list of names"):
        table.scan(columns="score")


def test_a_missing_or_damaged_split_is_named(table: Table) -> None:
    victim = next(Path(table.path).rglob("*.split"))
    whole = victim.read_bytes()
    victim.write_bytes(whole[:-50])
    with pytest.raises(BadFileError, match=victim.name):
        table.scan().read_all()
    victim.unlink()
    with pytest.raises(MissingSplitError, match=victim.name):
        table.scan().read_all()


def test_tasks_travel_by_pickle(table: Table) -> None:
    task = table._task("timeout", "id < 10", ["id"])
    plan = pickle.loads(pickle.dumps(task.plan))
    assert plan == task.plan


def test_a_value_weighs_the_same_in_one_split_and_in_two(tmp_path: Path) -> None:
    """Missing values change what tantivy takes for the average length of a value; a value's rarity
    is its score.
    """
    some = rows(0, 40).set_column(2, "level", pa.array(["ERROR", None, "INFO", None] * 10))
    one, two = (Table.create(str(tmp_path / name), schema=SCHEMA) for name in ("one", "two"))
    one.append(some)
    two.append(some.slice(0, 20))
    two.append(some.slice(20))
    assert (one.files().num_rows, two.files().num_rows) == (1, 2)
    expected = math.log(1 + (40 - 10 + 0.5) / (10 + 0.5))
    for table in (one, two):
        assert (
            table.search("level:ERROR", limit=100)["_score"].to_pylist()
            == [pytest.approx(expected)] * 10
        )


@pytest.mark.parametrize(
    "query", ["j.user.id:7", "j.user.id:7 AND id:0", "j.big:-3", "NOT j.user.id:7"]
)
def test_a_number_in_a_document_is_found_wherever_it_lies_in_the_index(
    tmp_path: Path, query: str
) -> None:
    documents = ['{"user":{"id":7},"big":-3}', '{"user":{"id":70}}']
    data = pa.table({"id": [0, 1], "j": documents})
    table = Table.create(
        str(tmp_path / "t"), schema=data.schema, options={"indexing.typemap.j": "json"}
    )
    table.append(data)
    wanted = [1] if query.startswith("NOT") else [0]
    assert table.search(query).column("id").to_pylist() == wanted
    assert table.search(query, limit=5).column("id").to_pylist() == wanted
    assert table.count(query=query) == 1
