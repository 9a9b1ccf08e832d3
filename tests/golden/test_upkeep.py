"""Tables of another engine are kept in order like our own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa

from indextables import Table
from tests.golden.golden_tables import GoldenTable, for_each_table


def sorted_rows(table: Table) -> list[str]:
    found: pa.Table = table.scan().read_all()
    return sorted(map(repr, found.to_pylist()))


@for_each_table
def test_merging_rewrites_foreign_splits(table: GoldenTable, tmp_path: Path) -> None:
    shutil.copytree(table.path, tmp_path / "t")
    copy = Table.open(str(tmp_path / "t"))
    before, kinds = sorted_rows(copy), {}
    for name in copy.schema.names:
        kinds[name] = copy.count(where=f"`{name}` IS NOT NULL")
    partitions = {repr(values) for values in copy.files().column("partition_values").to_pylist()}
    report = copy.merge()
    assert report.skipped_files == 0, report
    assert report.merge_groups == len(partitions)
    fresh = Table.open(copy.path)
    assert sorted_rows(fresh) == before
    assert fresh.files().num_rows == len(partitions)
    assert {name: fresh.count(where=f"`{name}` IS NOT NULL") for name in kinds} == kinds
    assert fresh.merge().status == "no_action", "what is ours is not rewritten again"


@for_each_table
def test_a_healthy_table_has_no_findings(table: GoldenTable) -> None:
    report = Table.open(str(table.path)).verify(full=True)
    assert report.findings == ()
    assert report.splits_checked == table.expected["live_files"]


@for_each_table
def test_rows_of_foreign_splits_can_be_deleted(table: GoldenTable, tmp_path: Path) -> None:
    shutil.copytree(table.path, tmp_path / "t")
    copy = Table.open(str(tmp_path / "t"))
    before = copy.scan().read_all().to_pylist()
    if not before or "id" not in copy.schema.names:
        return
    one = before[len(before) // 2]["id"]
    report = copy.delete(where=f"id = {one!r}")
    left = [row for row in before if row["id"] != one]
    assert report.deleted_rows == len(before) - len(left)
    assert sorted_rows(Table.open(copy.path)) == sorted(map(repr, left))


@for_each_table
def test_a_lost_log_is_rebuilt_from_foreign_splits(table: GoldenTable, tmp_path: Path) -> None:
    shutil.copytree(table.path, tmp_path / "t")
    copy = Table.open(str(tmp_path / "t"))
    live = set(copy.files().column("path").to_pylist())
    on_disk = {str(path.relative_to(tmp_path / "t")) for path in (tmp_path / "t").rglob("*.split")}
    before = sorted_rows(copy)
    shutil.rmtree(tmp_path / "t" / "_transaction_log")
    if not on_disk:
        return
    assert Table.repair(copy.path).valid_splits == len(on_disk)
    if live == on_disk:
        columns = list(copy.schema.names)
        fresh = Table.open(copy.path).scan(columns=columns).read_all().cast(copy.schema)
        assert sorted(map(repr, fresh.to_pylist())) == before
