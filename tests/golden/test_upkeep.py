"""Tables of another engine are kept in order like our own."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table
from indextables.commands import sql
from indextables.operations.rewrite import are_foreign
from tests.golden.golden_tables import GOLDEN, JVM, GoldenTable, for_each_table, jvm_table
from tests.golden.many_splits import many_splits


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


@for_each_table
def test_a_purge_that_keeps_nothing_and_a_truncation_lose_nothing(
    table: GoldenTable, tmp_path: Path
) -> None:
    """Another engine commits by states alone, so what is live must be found without version files."""
    shutil.copytree(table.path, tmp_path / "t")
    unchecked: dict[str, object] = {"purge.retentionCheckEnabled": False}
    copy = Table.open(str(tmp_path / "t"), options=unchecked)
    live = set(copy.files().column("path").to_pylist())
    before = sorted_rows(copy)
    planned = copy.purge(older_than_hours=0, log_retention_hours=0, dry_run=True)
    assert not live & {file.path for file in planned.files}
    copy.purge(older_than_hours=0, log_retention_hours=0)
    Table.open(copy.path).truncate_time_travel()
    again = Table.open(copy.path, options=unchecked)
    again.purge(older_than_hours=0, log_retention_hours=0)
    fresh = Table.open(copy.path)
    assert sorted_rows(fresh) == before
    assert {
        str(path.relative_to(tmp_path / "t")) for path in (tmp_path / "t").rglob("*.split")
    } == live
    assert fresh.verify(full=True).findings == ()


@for_each_table
def test_an_older_version_comes_back(table: GoldenTable, tmp_path: Path) -> None:
    shutil.copytree(table.path, tmp_path / "t")
    copy = Table.open(str(tmp_path / "t"))
    history = copy.history().to_pylist()
    for version in [entry["version"] for entry in history if entry["is_readable"]][1:]:
        then = sorted_rows(Table.open(copy.path, version=version))
        Table.open(copy.path).restore(version=version)
        assert sorted_rows(Table.open(copy.path)) == then, version
    assert Table.open(copy.path).verify(full=True).findings == ()


@for_each_table
def test_foreign_splits_own_splits_and_deleted_rows_together(
    table: GoldenTable, tmp_path: Path
) -> None:
    """Rows of both engines, some of each named by deletion vectors: every answer is that of the
    rows that are left.
    """
    shutil.copytree(table.path, tmp_path / "t")
    copy = Table.open(str(tmp_path / "t"), options={"delete.mode": "vector"})
    rows = copy.scan().read_all()
    if "id" not in copy.schema.names or len(set(rows.column("id").to_pylist())) < 4:
        return
    copy.append(rows)
    ids = sorted(set(rows.column("id").to_pylist()))
    gone = ids[::4][:5]
    copy.delete(where=f"id IN ({', '.join(map(repr, gone))})")
    left = [row for row in [*rows.to_pylist(), *rows.to_pylist()] if row["id"] not in gone]
    assert any(copy.files().column("deleted_records").to_pylist())
    for seen in (copy, Table.open(copy.path)):
        assert sorted_rows(seen) == sorted(map(repr, left))
        assert seen.count() == len(left)
        for one in (ids[len(ids) // 2], gone[0]):
            assert seen.count(where=f"id = {one!r}") == sum(row["id"] == one for row in left)
        counted = seen.aggregate({"n": {"value_count": {"field": "id"}}}).to_pylist()[0]
        assert counted["n"] == len(left)
        assert seen.explain(where=f"id <> {gone[0]!r}").rows_matched == len(left)
    assert copy.verify(full=True).findings == ()
    copy.merge()
    assert sorted_rows(Table.open(copy.path)) == sorted(map(repr, left))


def test_a_rewrite_makes_splits_ours_in_batches_and_goes_on_where_it_stopped(
    tmp_path: Path,
) -> None:
    table = many_splits(jvm_table("t13_checkpointed"), tmp_path, 3)
    rows, splits = table.count(), table.files().num_rows
    hits = table.count(query="message:timeout")
    seen: list[tuple[int, int]] = []
    settings = {"merge.batchSize": 1, "merge.parallelism": 1}

    def stops(done: int, total: int, what: str) -> None:
        seen.append((done, total))
        if done == 2:
            raise KeyboardInterrupt(what)

    opened = Table.open(table.path, options=settings)
    preview = opened.merge(rewrite=True, max_source_splits=2, dry_run=True)
    assert (preview.status, preview.merged_files) == ("dry_run", splits)
    with pytest.raises(KeyboardInterrupt):
        opened.merge(rewrite=True, max_source_splits=2, progress=stops)
    assert seen[0] == (1, preview.merge_groups)
    halfway = Table.open(table.path)
    assert halfway.files().num_rows == splits - 1  # the first batch of two splits has become one
    assert halfway.count() == rows
    left = halfway.merge(rewrite=True, max_source_splits=2)
    assert left.merged_files == splits - 2
    done = Table.open(table.path)
    assert (done.count(), done.count(query="message:timeout")) == (rows, hits)
    again = sql(f"MERGE SPLITS '{table.path}' REWRITE").to_pylist()[0]
    assert (again["status"], again["merged_files"]) == ("no_action", 0)
    assert done.verify(full=True).findings == ()


@pytest.mark.parametrize(
    "table", [GoldenTable(GOLDEN / "10_large_batch"), GoldenTable(JVM / "t03_partitioned")], ids=str
)
@pytest.mark.parametrize("statement", [True, False])
def test_a_rewrite_takes_every_healthy_split_and_says_what_it_left(
    table: GoldenTable, statement: bool, tmp_path: Path
) -> None:
    if not table.path.exists():
        pytest.skip("the tables of other engines are not here")
    shutil.copytree(table.path, tmp_path / "t")
    copy = Table.open(str(tmp_path / "t"))
    files = copy.files().to_pylist()
    by_partition: dict[str, list[dict[str, Any]]] = {}
    for file in files:
        by_partition.setdefault(repr(file["partition_values"]), []).append(file)
    lost = next(group for group in by_partition.values() if len(group) == 2)[
        0
    ]  # it leaves a neighbour alone
    (tmp_path / "t" / lost["path"]).unlink()
    for left in (len(files) - 1, 0):
        if statement:
            row = sql(f"MERGE SPLITS '{copy.path}' REWRITE").to_pylist()[0]
            told = (row["status"], row["merged_files"], row["skipped_files"])
            message = row["message"]
        else:
            report = copy.merge(rewrite=True)
            told, message = (
                (report.status, report.merged_files, report.skipped_files),
                report.message,
            )
            assert [skipped["path"] for skipped in report.skipped] == [lost["path"]]
        assert told == ("success" if left else "no_action", left, 1)
        assert (
            f"1 split could not be read and was left: The split {lost['path']} is not in the store."
            in message
        )
    foreign = are_foreign(
        Table.open(copy.path).files(), Table.open(copy.path).handle.snapshot.schema_registry
    )
    assert sum(foreign) == 1


@pytest.mark.parametrize("layout", ["gzip", "jvm"])
def test_version_files_have_the_layout_that_the_setting_says(layout: str, tmp_path: Path) -> None:
    options = {"transaction.compression.layout": layout}
    table = Table.create(str(tmp_path / "t"), schema=pa.schema({"a": pa.int64()}), options=options)
    table.append(pa.table({"a": [1, 2]}))
    files = sorted((tmp_path / "t" / "_transaction_log").glob("0*.json"))
    marked = [path.read_bytes()[:4] == b"\x01\x01\x1f\x8b" for path in files]
    assert len(files) >= 2
    assert set(marked) == {layout == "jvm"}
    assert Table.open(str(tmp_path / "t")).count() == 2
