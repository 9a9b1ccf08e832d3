"""The change feed tells what came and went: applied to one version, it gives the next."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from indextables import Table
from indextables.errors import (
    InvalidInputError,
    NotFoundError,
    RefusedError,
    UnsupportedError,
    VersionNotFoundError,
)
from tests.support.rows import rows, table_of


def content(table: Table, version: int) -> Counter[str]:
    return Counter(
        repr(sorted(row.items()))
        for row in Table.open(table.path, version=version).scan().read_all().to_pylist()
    )


def feed(table: Table, first: int, last: int | None = None) -> list[dict[str, Any]]:
    return list(table.changes(first, last).read_all().to_pylist())


def check(table: Table) -> None:
    """Every version is the one before it with the feed applied."""
    before: Counter[str] = Counter()
    for version in range(table.version + 1):
        for change in feed(table, version, version):
            assert change.pop("_commit_version") == version
            assert change.pop("_commit_timestamp") is not None
            comes = change.pop("_change_type") in ("insert", "update_postimage")
            before[repr(sorted(change.items()))] += 1 if comes else -1
        assert +before == before, f"version {version} takes away what was not there"
        assert before == content(table, version), f"version {version}"


@pytest.mark.parametrize("mode", ["auto", "vector", "rewrite"])
@pytest.mark.parametrize("partitioned", [False, True], ids=["flat", "partitioned"])
def test_the_feed_leads_from_version_to_version(
    tmp_path: Path, mode: str, partitioned: bool
) -> None:
    table = table_of(
        tmp_path / "t", appends=2, each=12, partitioned=partitioned, options={"delete.mode": mode}
    )
    table.delete(where="id IN (3, 15)")
    table.update(set={"level": "'changed'"}, where="id < 5 OR id = 20")
    table.upsert(rows([1, 2, 100], day=1), on=["id"])
    table.merge()
    table.upsert(rows([1]), on=["id"], when_matched="delete")
    table.restore(version=3)
    table.overwrite(
        rows([7, 8], day=2), where="id > 6 AND id < 10" if not partitioned else "day = 2"
    )
    table.restore(version=6)
    table.overwrite(rows([1]))
    check(table)


def test_what_a_change_is_called(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1, each=20, options={"delete.mode": "vector"})
    table.update(set={"level": "'new'"}, where="id = 3")
    table.upsert(rows([4, 50]), on=["id"])
    table.delete(where="id = 5")
    told = [(c["_commit_version"], c["_change_type"], c["id"]) for c in feed(table, 2)]
    assert sorted(told) == [
        (2, "update_postimage", 3),
        (2, "update_preimage", 3),
        (3, "insert", 50),
        (3, "update_postimage", 4),
        (3, "update_preimage", 4),
        (4, "delete", 5),
    ]
    levels = {c["_change_type"]: c["level"] for c in feed(table, 2, 2)}
    assert levels == {"update_preimage": "INFO", "update_postimage": "new"}


def test_merges_give_nothing_and_columns_can_be_chosen(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2)
    table.merge()
    assert feed(table, 3) == []
    only = table.changes(1, 1, columns=["id"]).read_all()
    assert only.column_names == ["id", "_change_type", "_commit_version", "_commit_timestamp"]
    assert only.column("id").to_pylist() == list(range(10))


def test_a_version_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3)
    for first, last in ((5, None), (-1, None), (2, 1), (0, 9)):
        with pytest.raises((VersionNotFoundError, InvalidInputError)):
            table.changes(first, last)
    table.truncate_time_travel()
    with pytest.raises(VersionNotFoundError, match="Version 1"):
        table.changes(1)


def test_rows_of_a_split_that_was_purged_are_said_to_be_gone(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1, options={"delete.mode": "rewrite"})
    table.delete(where="id = 1")
    quick = Table.open(table.path, options={"purge.retentionCheckEnabled": False})
    quick.purge(older_than_hours=0)
    with pytest.raises(NotFoundError, match="purged"):
        quick.changes(2, 2).read_all()


def test_an_added_column_is_null_in_older_changes(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1, each=2)
    table.append(rows([9]).append_column("more", pa.array(["x"])), merge_schema=True)
    assert [(c["id"], c["more"]) for c in feed(table, 1)] == [(0, None), (1, None), (9, "x")]


def test_a_view_for_readers_of_parquet(tmp_path: Path) -> None:
    table = table_of(
        tmp_path / "t", appends=2, each=30, partitioned=True, options={"delete.mode": "vector"}
    )
    table.delete(where="id = 31")
    view = table.to_parquet_view(str(tmp_path / "view"))
    assert (view.files, view.rows, view.copied) == (6, 59, 5)
    seen = pq.read_table(tmp_path / "view", partitioning="hive")
    assert sorted(seen.column("id").to_pylist()) == [i for i in range(60) if i != 31]
    assert sorted(seen.column_names) == ["day", "id", "level", "message"]
    with pytest.raises(RefusedError, match="not an empty folder"):
        table.to_parquet_view(str(tmp_path / "view"))


def test_overwriting_an_exported_file_leaves_the_table_as_it_is(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2, each=30)
    before = sorted(row["id"] for row in table)
    table.to_parquet_view(str(tmp_path / "view"))
    exported = sorted((tmp_path / "view").rglob("*.parquet"))
    assert len(exported) == 2
    for file in exported:
        pq.write_table(pa.table({"id": [-1]}), file)  # in place: the same inode
    again = Table.open(table.path)
    assert again.verify(full=True).healthy
    assert sorted(row["id"] for row in again) == before


def test_rows_of_another_type_are_said_to_be(tmp_path: Path) -> None:
    table = Table.create(
        str(tmp_path / "t"), schema=pa.schema([("id", pa.int64()), ("v", pa.int64())])
    )
    table.append([{"id": 1, "v": 7}])
    table.overwrite(pa.table({"id": [2], "v": ["seven"]}), overwrite_schema=True)
    table.append([{"id": 3, "v": "eight"}])
    for first in (0, 1, 2):
        with pytest.raises(UnsupportedError, match=r"hold 'v' as bigint.*it is string") as raised:
            table.changes(first).read_all()
        assert "columns=" in (raised.value.hint or "")
    assert table.changes(3).read_all().column("v").to_pylist() == ["eight"]
    assert Table.open(table.path, version=1).changes(0).read_all().column("v").to_pylist() == [7]
    kinds = table.changes(1, columns=["id"]).read_all()
    assert sorted(zip(kinds["_change_type"].to_pylist(), kinds["id"].to_pylist(), strict=True)) == [
        ("delete", 1),
        ("insert", 1),
        ("insert", 2),
        ("insert", 3),
    ]


def test_rows_wider_than_the_column_that_was_restored(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=pa.schema([("n", pa.int32())]))
    table.append([{"n": 1}])
    table.alter.widen_column("n", pa.int64())
    table.append([{"n": 2}])
    table.restore(version=1)
    assert sorted(table.changes(0).read_all().column("n").to_pylist()) == [1, 2, 2]
    table.alter.widen_column("n", pa.int64())
    table.append([{"n": 2**40}])
    table.restore(version=1)
    with pytest.raises(UnsupportedError, match="do not fit"):
        table.changes(0).read_all()


def test_rows_written_anew_while_a_column_was_dropped_that_is_back(tmp_path: Path) -> None:
    """They have lost its values for good: the feed says so, and leads to the rows that the table
    has.
    """
    table = Table.create(
        str(tmp_path / "t"), schema=pa.schema([("id", pa.int64()), ("note", pa.string())])
    )
    table.append(pa.table({"id": [1, 2, 3], "note": ["a", "b", "c"]}))
    table.alter.drop_column("note")
    free = Table.open(table.path, options={"delete.mode": "rewrite"})
    free.delete(where="id = 2")
    table = Table.open(table.path)
    table.restore(version=1)
    changes = [(c["_change_type"], c["id"], c["note"]) for c in feed(table, 3, 3)]
    assert sorted(changes, key=str) == [
        ("delete", 1, "a"),
        ("delete", 2, "b"),
        ("delete", 3, "c"),
        ("insert", 1, None),
        ("insert", 3, None),
    ]
    assert sorted(
        (c["_change_type"], c["id"], c["note"]) for c in feed(table, 4, 4) if c["note"]
    ) == [
        ("insert", 1, "a"),
        ("insert", 2, "b"),
        ("insert", 3, "c"),
    ]
