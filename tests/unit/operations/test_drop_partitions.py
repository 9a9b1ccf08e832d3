"""Partitions leave by a typed condition over partition columns."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import InvalidInputError
from tests.support.rows import ids, rows, table_of


def test_matching_partitions_are_dropped_in_one_version(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2, partitioned=True)
    report = table.drop_partitions("day < 2")
    assert (report.status, report.partitions_dropped, report.splits_removed, report.version) == (
        "success",
        2,
        4,
        3,
    )
    assert report.total_size_bytes == sum(p.size_bytes for p in report.partitions)
    assert ids(Table.open(table.path)) == [i for i in range(20) if i % 3 == 2]
    assert table.history(limit=1).column("operation").to_pylist() == ["DROP PARTITIONS"]


def test_the_comparison_is_typed(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", partitioned=True)
    for day in (2, 9, 10, 11):
        table.append(rows([day], day=day))
    table.drop_partitions("day < 10")
    assert ids(table) == [10, 11]


SCHEMA = pa.schema([("id", pa.int64()), ("d", pa.date32()), ("name", pa.string())])
VALUES = [
    (1, datetime.date(2024, 1, 9), "alpha"),
    (2, datetime.date(2024, 1, 10), "beta"),
    (3, None, "a/b=c%"),
    (4, datetime.date(2024, 12, 1), None),
]


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("d < '2024-01-10'", [2, 3, 4]),
        ("d IS NULL", [1, 2, 4]),
        ("name LIKE '%a'", [3, 4]),
        ("NOT (name = 'alpha')", [1, 4]),
        ("name = 'a/b=c%' OR d = DATE '2024-12-01'", [1, 2]),
        ("name IN ('alpha', 'beta') AND d <> '2024-01-09'", [1, 3, 4]),
        ("name IS NULL", [1, 2, 3]),
    ],
)
def test_what_matches(tmp_path: Path, where: str, left: list[int]) -> None:
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, partition_columns=["d", "name"])
    table.append(
        pa.Table.from_pylist(
            [dict(zip(SCHEMA.names, v, strict=True)) for v in VALUES], schema=SCHEMA
        )
    )
    planned = table.drop_partitions(where, dry_run=True)
    report = table.drop_partitions(where)
    assert planned.partitions == report.partitions
    assert sorted(table.scan(columns=["id"]).read_all().column("id").to_pylist()) == left


def test_no_match_is_no_action(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1, partitioned=True)
    report = table.drop_partitions("day = 77")
    assert (report.status, report.partitions_dropped, report.version, table.version) == (
        "no_action",
        0,
        None,
        1,
    )
    assert report.message == "No partition matches `day = 77`."


def test_a_dry_run_commits_nothing(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1, partitioned=True)
    report = table.drop_partitions("day = 1", dry_run=True)
    assert (report.status, report.partitions_dropped, report.version) == ("dry_run", 1, None)
    assert Table.open(table.path).version == 1
    assert "day=1" in str(report)


def test_only_partition_columns_can_be_named(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1, partitioned=True)
    with pytest.raises(InvalidInputError, match="level"):
        table.drop_partitions("day = 1 AND level = 'INFO'")
    with pytest.raises(InvalidInputError, match="only partition columns"):
        table_of(tmp_path / "u", appends=1).drop_partitions("day = 1")
    with pytest.raises(InvalidInputError):
        table.drop_partitions("nothing = 1")


def test_a_partition_that_comes_meanwhile_is_dropped_too(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1, partitioned=True)
    late = Table.open(table.path)
    table.append(rows([100, 101], day=1))
    assert late.drop_partitions("day = 1").splits_removed == 2
    assert ids(Table.open(table.path), where="day = 1") == []
