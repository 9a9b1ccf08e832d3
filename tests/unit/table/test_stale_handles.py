"""A handle that others left behind: what it deletes and expires goes by the columns and settings of
the newest version.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import InvalidInputError


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Table.create(
        str(tmp_path / "t"), schema=pa.schema([("a", pa.int64()), ("b", pa.int64())])
    )
    table.append(pa.table({"a": [1, 2, 3], "b": [3, 1, 2]}))
    return table


def test_a_deletion_goes_by_the_names_of_now(table: Table) -> None:
    stale = Table.open(table.path)
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        table.alter.rename_column(old, new)
    stale.delete(where="a = 1")
    assert sorted(
        zip(*(stale.scan().read_all().to_pydict()[n] for n in ("a", "b")), strict=True)
    ) == [(2, 3), (3, 1)]


def test_a_column_that_came_back_is_another_one(table: Table) -> None:
    stale = Table.open(table.path)
    table.alter.drop_column("a")
    table.alter.add_column("a", pa.int64(), default=0)
    assert stale.delete(where="a >= 1").deleted_rows in (0, None)
    assert Table.open(table.path).count() == 3


def test_options_of_a_handle_follow_their_columns_through_a_restoration(tmp_path: Path) -> None:
    old, now = dt.datetime(2020, 1, 1), dt.datetime.now()
    rows = pa.table({"created": [old, old], "ts": [now, now]})
    options = {
        "retention.column": "ts",
        "retention.period": "30 days",
        "retention.onWrite.enabled": True,
    }
    table = Table.create(str(tmp_path / "t"), schema=rows.schema, options=options)
    table.append(rows)
    for before, after in (("ts", "x"), ("created", "ts"), ("x", "created")):
        table.alter.rename_column(before, after)
    table.restore(version=1)
    table.append(rows)
    assert table.count() == 4


def test_a_vector_file_that_is_gone_is_found_by_who_has_read_it(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": range(5000)}))
    table.delete(where=f"id IN ({','.join(str(7 * n) for n in range(600))})")
    assert table.count() == table.scan().read_all().num_rows == 4400
    for file in (tmp_path / "t" / "vectors").glob("*.vec"):
        file.unlink()
    assert Table.open(table.path).verify().status != "healthy"


def test_changes_of_rows_that_held_nulls(table: Table) -> None:
    table.append(pa.table({"a": [None], "b": [9]}, schema=table.schema))
    version = table.version
    table.delete(where="a IS NULL")
    table.alter.set_nullable("a", False)
    assert table.changes(version).read_all().num_rows == 2


def test_merging_and_indexing_anew_go_by_the_columns_and_settings_of_now(tmp_path: Path) -> None:
    schema = pa.schema([("day", pa.int32()), ("old", pa.string()), ("n", pa.int64())])
    table = Table.create(str(tmp_path / "t"), schema=schema, partition_columns=["day"])
    for n in range(4):
        table.append(
            pa.table(
                {"day": [n % 2] * 2, "old": ["Read timeout"] * 2, "n": [9 - n, n]}, schema=schema
            )
        )
    stale, beside = Table.open(table.path), Table.open(table.path)
    table.alter.rename_column("day", "date")
    table.alter.rename_column("old", "message")
    table.update_metadata(
        options={"merge.clusterBy": "n", "indexing.defaultSearchFields": "message"}
    )
    with pytest.raises(InvalidInputError, match="day"):
        beside.merge(where="day = 0")
    assert beside.merge(where="date = 0", dry_run=True).merged_files == 2
    assert beside.merge(where="date = 0").merged_files == 2
    merged = Table.open(table.path).files(where="date = 0").column("path").to_pylist()
    assert len(merged) == 1
    assert Table.open(table.path).scan(where="date = 0").read_all().column("n").to_pylist() == [
        0,
        2,
        7,
        9,
    ]
    with pytest.raises(InvalidInputError, match="old"):
        stale.reindex({"old": "text"})
    assert stale.reindex({"message": "text"}, dry_run=True).splits_left == 3
    assert stale.reindex({"message": "text"}).splits_rewritten == 3
    assert stale.count(query="timeout") == 8
