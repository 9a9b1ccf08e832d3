"""Updating and upserting rows: what a user sees afterwards is what a dict of rows by key would
hold.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from indextables import Table
from indextables.errors import (
    ConflictError,
    InvalidInputError,
    QuerySyntaxError,
    SchemaMismatchError,
)
from indextables.operations import upsert
from indextables.operations.row_change import RowChange
from indextables.splits.search.match import find_rows
from tests.support.rows import ids, rows, table_of

MODES = ["auto", "vector", "rewrite"]


def by_id(table: Table) -> dict[int, dict[str, Any]]:
    found = table.scan().read_all().to_pylist()
    assert len({row["id"] for row in found}) == len(found), "no key stands twice"
    return {row["id"]: row for row in found}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("partitioned", [False, True], ids=["flat", "partitioned"])
def test_update(tmp_path: Path, mode: str, partitioned: bool) -> None:
    table = table_of(
        tmp_path / "t", appends=2, each=20, partitioned=partitioned, options={"delete.mode": mode}
    )
    expected = by_id(table)
    report = table.update(
        set={"level": "lower(level)", "message": "concat('was ', message)"},
        where="id IN (3, 4, 25)",
    )
    assert (report.status, report.updated_rows, report.version) == ("success", 3, 3)
    for i in (3, 4, 25):
        row = expected[i]
        expected[i] = {**row, "level": row["level"].lower(), "message": f"was {row['message']}"}
    assert by_id(Table.open(table.path)) == by_id(table) == expected
    assert table.count(query="message:was") == 3
    assert (
        table.count(query="level:info")
        + table.count(query="level:warn")
        + table.count(query="level:error")
        == 3
    )
    assert table.update(set={"level": "'x'"}, where="id = 99").status == "no_action"
    assert table.history(limit=1).column("operation").to_pylist() == ["UPDATE"]
    assert table.verify(full=True).findings == ()


def test_update_moves_rows_to_other_partitions(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1, each=30, partitioned=True)
    table.update(set={"day": 7}, query="message:n4 OR message:n5")
    assert ids(table, where="day = 7") == [4, 5]
    assert len(ids(table)) == 30


def test_what_a_column_can_be_set_to(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1, each=10)
    table.update(
        set={
            "id": pc.field("id") + 100,
            "day": "CASE WHEN id < 5 THEN CAST(id * 2 AS int) ELSE - day END",
            "level": None,
            "message": "upper(substring(message, 1, 3)) || '-' || coalesce(level, 'none')",
        }
    )
    first = by_id(table)[102]
    assert first == {"id": 102, "day": 4, "level": None, "message": "TIM-ERROR"}
    assert by_id(table)[107]["day"] == -1
    assert table.update(set={"day": "id % 7 + day / 0"}).updated_rows == 10
    assert by_id(table)[102]["day"] is None, "what is divided by zero is null"


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"nothing": 1}, InvalidInputError, "nothing"),
        ({}, InvalidInputError, "what to set"),
        ({"level": "uper(level)"}, QuerySyntaxError, "no function"),
        ({"level": "hello world"}, (QuerySyntaxError, InvalidInputError), "hello"),
        ({"day": "'x'"}, InvalidInputError, "day"),
        ({"day": 10**12}, InvalidInputError, "day"),
        ({"day": "day + 3000000000"}, InvalidInputError, "day"),
        ({"day": "upper(day)"}, InvalidInputError, "day"),
        ({"level": "concat(level"}, QuerySyntaxError, "expected"),
    ],
)
def test_what_cannot_be_set_changes_nothing(
    tmp_path: Path, given: Any, error: Any, match: str
) -> None:
    table = table_of(tmp_path / "t", appends=1)
    with pytest.raises(error, match=match):
        table.update(set=given, where="id > 3")
    assert Table.open(table.path).version == 1
    assert ids(table) == list(range(10))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("partitioned", [False, True], ids=["flat", "partitioned"])
def test_upsert(tmp_path: Path, mode: str, partitioned: bool) -> None:
    table = table_of(
        tmp_path / "t", appends=3, each=20, partitioned=partitioned, options={"delete.mode": mode}
    )
    expected = by_id(table)
    new = rows([5, 25, 70, 71], day=1)
    report = table.upsert(new, on=["id"])
    assert (report.inserted_rows, report.updated_rows, report.version) == (2, 2, 4)
    expected |= {row["id"]: row for row in new.to_pylist()}
    assert by_id(table) == expected
    report = table.upsert(
        rows([5, 99]), on=["id"], when_matched="delete", when_not_matched="ignore"
    )
    assert (report.inserted_rows, report.deleted_rows) == (0, 1)
    del expected[5]
    assert by_id(table) == expected
    again = rows([6, 100])
    table.upsert(again, on=["id"], when_matched="ignore")
    expected[100] = again.to_pylist()[1]
    assert by_id(Table.open(table.path)) == expected
    assert table.upsert(rows([6]), on=["id"], when_matched="ignore").version is None
    assert table.verify(full=True).findings == ()


def test_a_text_becomes_a_moment_in_utc(tmp_path: Path) -> None:
    schema = pa.schema(
        [("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC")), ("day", pa.date32())]
    )
    table = Table.create(str(tmp_path / "t"), schema=schema)
    table.append(pa.table({"id": [1]}))
    table.update(
        set={"at": "CAST('2026-11-02 03:04:05' AS timestamp)", "day": "CAST('2026-11-02' AS date)"}
    )
    assert str(table.scan().read_all().column("at")[0]) == "2026-11-02 03:04:05+00:00"


def test_columns_that_the_rows_lack_keep_their_values(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    old = by_id(table)[3]
    table.upsert(pa.table({"id": [3, 30], "level": ["NEW", "NEW"]}), on=["id"])
    assert by_id(table)[3] == {**old, "level": "NEW"}
    assert by_id(table)[30] == {"id": 30, "day": None, "level": "NEW", "message": None}


def test_keys_of_several_columns_and_nulls(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.int32()), ("v", pa.int64())])
    table = Table.create(str(tmp_path / "t"), schema=schema)
    table.append(
        pa.table(
            {"a": ["x", "x", None, "y"], "b": [1, 2, 1, None], "v": [1, 2, 3, 4]}, schema=schema
        )
    )
    report = table.upsert(
        pa.table({"a": ["x", None, "y"], "b": [2, 1, None], "v": [20, 30, 40]}, schema=schema),
        on=["a", "b"],
    )
    assert (report.updated_rows, report.inserted_rows) == (1, 2), "a null is equal to nothing"
    found = sorted(table.scan().read_all().column("v").to_pylist())
    assert found == [1, 3, 4, 20, 30, 40]


def test_a_key_that_stands_twice_is_refused_by_name(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    with pytest.raises(InvalidInputError, match="id = 4"):
        table.upsert(rows([3, 4, 4]), on=["id"])
    with pytest.raises(InvalidInputError, match="no column 'id'"):
        table.upsert(pa.table({"level": ["x"]}), on=["id"])
    with pytest.raises(SchemaMismatchError):
        table.upsert(pa.table({"id": [1], "more": [1]}), on=["id"])
    with pytest.raises(InvalidInputError, match="named twice"):
        table.upsert(rows([3]), on=["id", "ID"])
    with pytest.raises(InvalidInputError, match="when_matched"):
        table.upsert(rows([3]), on=["id"], when_matched="drop")  # type: ignore[arg-type]
    assert Table.open(table.path).version == 1


def test_only_splits_that_can_hold_a_key_are_looked_into(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=4)
    assert table.upsert(rows([12, 13]), on=["id"]).splits_searched == 1
    assert table.upsert(rows([1000]), on=["id"], dry_run=True).splits_searched == 0


def test_a_text_key_is_found_by_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(tmp_path / "t", appends=1, each=30)
    asked: list[Any] = []

    def noted(split: Any, query: Any) -> Any:
        asked.append(query)
        return find_rows(split, query)

    monkeypatch.setattr(upsert, "find_rows", noted)
    source = pa.table({"level": ["WARN", "NONE"], "message": ["changed", "new"]})
    report = table.upsert(source, on=["level"])
    assert (report.updated_rows, report.inserted_rows, len(asked)) == (10, 1, 1)
    assert table.count(query="message:changed") == 10


def between(monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    """Something that another does after the rows were read and before they are committed, once."""
    commit = RowChange.commit

    def late(self: Any, *given: Any, **more: Any) -> Any:
        monkeypatch.setattr(RowChange, "commit", commit)
        act()
        return commit(self, *given, **more)

    monkeypatch.setattr(RowChange, "commit", late)


def test_others_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(tmp_path / "t", appends=1, each=40, options={"delete.mode": "vector"})
    other = Table.open(table.path)
    between(monkeypatch, lambda: other.update(set={"level": "'theirs'"}, where="id = 1"))
    table.update(set={"level": "'ours'"}, where="id = 2")
    assert {i: by_id(table)[i]["level"] for i in (1, 2)} == {1: "theirs", 2: "ours"}
    between(monkeypatch, lambda: other.update(set={"level": "'theirs'"}, where="id = 3"))
    with pytest.raises(ConflictError, match="deleted"):
        table.update(set={"level": "'ours'"}, where="id IN (3, 4)")
    assert {i: by_id(Table.open(table.path))[i]["level"] for i in (3, 4)} == {
        3: "theirs",
        4: "WARN",
    }
    between(monkeypatch, lambda: other.upsert(rows([77]), on=["id"]))
    with pytest.raises(ConflictError, match="same keys"):
        table.upsert(rows([77]), on=["id"])
    between(monkeypatch, lambda: other.append(rows([200])))
    table.upsert(rows([78]), on=["id"])
    assert set(by_id(table)) == {*range(40), 77, 78, 200}


def test_dry_runs_change_nothing(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2)
    assert table.update(set={"level": "'x'"}, where="id < 3", dry_run=True).updated_rows == 3
    report = table.upsert(rows([3, 30]), on=["id"], dry_run=True)
    assert (report.status, report.inserted_rows, report.updated_rows) == ("dry_run", 1, 1)
    assert Table.open(table.path).version == 2
