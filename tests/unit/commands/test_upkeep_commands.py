"""Statements that change a table: what they did, and what a dry run lists while nothing changes."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from indextables import Table
from indextables.commands import parse, sql
from indextables.commands.describe import DescribeMergeJobs
from indextables.commands.upkeep import Verify
from indextables.errors import InvalidInputError, LogGapError, RefusedError, VersionNotFoundError
from tests.support.rows import ids, rows, table_of
from tests.support.stores import age, contents, splits_on_disk, swap_logs


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table of four appends, each with a split in each of three partitions."""
    return table_of(tmp_path / "table", appends=4, partitioned=True).path


def ran(statement: str, **options: object) -> dict[str, Any]:
    """The only row of a statement, whose columns must be those documented."""
    found = sql(statement, {key.replace("__", "."): value for key, value in options.items()})
    command = parse(statement)
    assert command is not None and found.schema.equals(command.columns)
    (row,) = found.to_pylist()
    return dict(row)


def test_merging_keeps_the_rows(path: str) -> None:
    before = ids(Table.open(path))
    row = ran(
        f"MERGE SPLITS '{path}' WHERE day < 2 TARGET SIZE 100M MAX SOURCE SPLITS PER MERGE 10"
    )
    assert (row["table_path"], row["status"], row["merged_files"], row["merge_groups"]) == (
        path,
        "success",
        8,
        2,
    )
    assert row["original_size_bytes"] > row["merged_size_bytes"] > 0 and row["skipped_files"] == 0
    table = Table.open(path)
    assert row["version"] == table.version and ids(table) == before
    assert table.files().num_rows == 2 + 4


def test_a_dry_merge_lists_what_it_would_merge_and_changes_nothing(path: str) -> None:
    before = contents(path)
    row = ran(f"MERGE SPLITS '{path}' MAX DEST SPLITS 1 DRY RUN")
    assert (row["status"], row["merge_groups"], row["merged_files"], row["version"]) == (
        "dry_run",
        1,
        4,
        None,
    )
    named = [p for p in Table.open(path).files().column("path").to_pylist() if p in row["message"]]
    assert len(named) == 4 and len({p.split("/")[0] for p in named}) == 1
    assert contents(path) == before


def test_merging_refuses_what_makes_no_sense(path: str) -> None:
    with pytest.raises(InvalidInputError, match="only partition columns"):
        ran(f"MERGE SPLITS '{path}' WHERE id = 1")
    with pytest.raises(InvalidInputError):
        ran(f"MERGE SPLITS '{path}' TARGET SIZE 1")
    with pytest.raises(InvalidInputError):
        ran(f"MERGE SPLITS '{path}' MAX SOURCE SPLITS PER MERGE 1")


def test_dropping_partitions_compares_numbers(path: str) -> None:
    Table.open(path).append(rows([100], day=10))
    row = ran(f"DROP INDEXTABLES PARTITIONS FROM '{path}' WHERE day < 10 AND day <> 1")
    assert (row["status"], row["partitions_dropped"], row["splits_removed"]) == ("success", 2, 8)
    assert row["total_size_bytes"] > 0 and row["version"] == Table.open(path).version
    assert {i % 3 for i in ids(Table.open(path))} == {1}
    again = ran(f"DROP INDEXTABLES PARTITIONS FROM '{path}' WHERE day = 0")
    assert (again["status"], again["splits_removed"], again["version"]) == ("no_action", 0, None)


def test_restoring_a_version_and_a_moment(path: str) -> None:
    first = Table.open(path, version=1)
    row = ran(f"RESTORE INDEXTABLES '{path}' TO VERSION 1")
    assert row == {
        "table_path": path,
        "version": 5,
        "restored_version": 1,
        "files_added": 0,
        "files_removed": 9,
    }
    assert ids(Table.open(path)) == ids(first) == list(range(10))
    moments = {r["version"]: r["timestamp"] for r in Table.open(path).history().to_pylist()}
    row = ran(f"RESTORE INDEXTABLES '{path}' TO TIMESTAMP '{moments[4].isoformat()}'")
    assert (row["restored_version"], row["files_added"], row["files_removed"]) == (4, 9, 0)
    assert len(ids(Table.open(path))) == 40
    with pytest.raises(VersionNotFoundError):
        ran(f"RESTORE INDEXTABLES '{path}' TO VERSION 99")
    with pytest.raises(VersionNotFoundError):
        ran(
            f"RESTORE INDEXTABLES '{path}' TO TIMESTAMP '{datetime(1999, 1, 1, tzinfo=UTC).isoformat()}'"
        )


def test_a_dry_purge_lists_what_the_purge_then_deletes(path: str) -> None:
    Table.open(path).merge()
    age(path, hours=1000)
    before = contents(path)
    planned = ran(f"PURGE INDEXTABLE '{path}' OLDER THAN 2 DAYS DRY RUN")
    assert contents(path) == before
    assert (
        planned["dry_run"]
        and planned["orphaned_files_found"] == 12
        and planned["orphaned_files_deleted"] == 0
    )
    done = ran(f"PURGE INDEXTABLE '{path}' OLDER THAN 2 DAYS")
    gone = set(before) - set(contents(path))
    assert gone and all(name in planned["message"] for name in gone)
    assert (done["status"], done["retention_hours"], done["dry_run"]) == ("success", 48, False)
    assert done["orphaned_files_found"] == done["orphaned_files_deleted"] == 12
    assert done["size_bytes_deleted"] > 0 and done["duration_ms"] >= 0
    assert len(ids(Table.open(path))) == 40 and len(splits_on_disk(path)) == 3


def test_a_purge_that_is_not_safe_is_refused(path: str) -> None:
    with pytest.raises(RefusedError, match=r"purge\.retentionCheckEnabled"):
        ran(f"PURGE INDEXTABLE '{path}' OLDER THAN 1 HOURS")
    row = ran(f"PURGE INDEXTABLE '{path}' OLDER THAN 1 HOUR", purge__retentionCheckEnabled=False)
    assert row["retention_hours"] == 1


def test_truncating_leaves_the_newest_version(path: str) -> None:
    before = contents(path)
    planned = ran(f"TRUNCATE INDEXTABLES TIME TRAVEL '{path}' DRY RUN")
    assert contents(path) == before
    assert (planned["status"], planned["files_preserved"]) == ("dry_run", 12)
    done = ran(f"TRUNCATE INDEXTABLES TIME TRAVEL '{path}'")
    assert (done["status"], done["versions_deleted"]) == ("success", planned["versions_deleted"])
    assert done["checkpoint_version"] == planned["checkpoint_version"] == 4
    with pytest.raises(VersionNotFoundError):
        Table.open(path, version=1)
    assert len(ids(Table.open(path))) == 40


def test_verifying_finds_nothing_in_a_healthy_table_and_what_is_wrong_in_another(path: str) -> None:
    healthy = sql(f"VERIFY INDEXTABLES '{path}' FULL")
    assert healthy.num_rows == 0 and healthy.schema.equals(Verify.columns)
    lost, damaged = sorted(splits_on_disk(path))[:2]
    (Path(path) / lost).unlink()
    file = Path(path) / damaged
    content = bytearray(file.read_bytes())
    content[20] ^= 1  # within the rows, which only a full verification reads
    file.write_bytes(content)
    quick = sql(f"VERIFY INDEXTABLES '{path}'").to_pylist()
    assert [(f["path"], f["severity"]) for f in quick] == [(lost, "error")]
    full = sql(f"VERIFY INDEXTABLES '{path}' FULL").to_pylist()
    assert {f["path"] for f in full} == {lost, damaged} and all(
        f["check"] and f["message"] for f in full
    )


def test_a_table_that_cannot_be_opened_can_be_verified(path: str) -> None:
    (Path(path) / "_transaction_log/00000000000000000002.json").unlink()
    with pytest.raises(LogGapError):
        Table.open(path)
    found = sql(f"VERIFY INDEXTABLES '{path}'").to_pylist()
    assert any("2" in f["message"] for f in found)


def test_a_lost_log_is_rebuilt_from_the_splits(path: str) -> None:
    before = Table.open(path)
    expected, schema = ids(before), before.schema
    shutil.rmtree(Path(path) / "_transaction_log")
    row = ran(f"REPAIR INDEXFILES TRANSACTION LOG '{path}'")
    assert (row["source_path"], row["target_path"], row["source_version"]) == (path, path, None)
    assert (row["total_splits"], row["valid_splits"], row["missing_splits"], row["status"]) == (
        12,
        12,
        0,
        "success",
    )
    assert ids(Table.open(path)) == expected and Table.open(path).schema.equals(schema)


def test_a_clean_copy_of_a_log_leaves_out_what_is_missing(path: str, tmp_path: Path) -> None:
    files = {file["path"]: file["num_records"] for file in Table.open(path).files().to_pylist()}
    lost = min(files)
    (Path(path) / lost).unlink()
    before = contents(path)
    copy = str(tmp_path / "copy")
    row = ran(f"REPAIR INDEXFILES TRANSACTION LOG '{path}/_transaction_log' AT LOCATION '{copy}'")
    assert (row["source_path"], row["target_path"], row["source_version"]) == (path, copy, 4)
    assert (row["total_splits"], row["valid_splits"], row["missing_splits"]) == (12, 11, 1)
    assert contents(path) == before
    assert Table.open(copy).files().num_rows == 11
    assert list(row)[-2:] == [
        "status",
        "message",
    ]  # after those that programs for IndexTables for the JVM know
    swap_logs(row["message"], keep=tmp_path / "damaged")
    assert len(ids(Table.open(path))) == 40 - files[lost]


def test_merges_after_writes_are_listed_as_jobs(tmp_path: Path) -> None:
    how: dict[str, object] = {"mergeOnWrite.async.enabled": False, "mergeOnWrite.minSplits": 3}
    table = table_of(
        tmp_path / "hygienic", appends=4, options={"mergeOnWrite.enabled": True, **how}
    )
    found = sql("DESCRIBE INDEXTABLES MERGE JOBS")
    assert found.schema.equals(DescribeMergeJobs.columns)
    jobs = [job for job in found.to_pylist() if job["table_path"] == table.path]
    assert jobs and {job["status"] for job in jobs} == {"completed"}
    assert all(
        job["completed_groups"] == job["total_groups"] > 0 and job["progress_pct"] == 100
        for job in jobs
    )
    assert all(job["error_message"] is None and job["duration_ms"] >= 0 for job in jobs)


def test_the_words_of_delta_lake_do_what_ours_do(path: str) -> None:
    before = ids(Table.open(path))
    merged = ran(f"OPTIMIZE '{path}' WHERE day < 2")
    assert (merged["status"], merged["merged_files"], merged["version"]) == ("success", 8, 5)
    assert ids(Table.open(path)) == before
    restored = ran(f"RESTORE TABLE '{path}' TO VERSION AS OF 1")
    assert (restored["version"], restored["restored_version"], ids(Table.open(path))) == (
        6,
        1,
        list(range(10)),
    )
    assert ran(f"DESCRIBE HISTORY '{path}' LIMIT 1")["operation"] == "RESTORE"
    preview = ran(f"VACUUM '{path}' RETAIN 168 HOURS DRY RUN")
    assert (preview["dry_run"], preview["retention_hours"], preview["orphaned_files_found"]) == (
        True,
        168,
        0,
    )
    with pytest.raises(RefusedError):
        ran(f"VACUUM '{path}' RETAIN 1 HOURS")
    moment = Table.open(path).history(limit=2).to_pylist()[1]["timestamp"]
    assert (
        ran(f"RESTORE TABLE '{path}' TO TIMESTAMP AS OF '{moment.isoformat()}'")["restored_version"]
        == 5
    )
    removed = splits_on_disk(path) - set(Table.open(path).files().column("path").to_pylist())
    age(path, hours=1000)
    assert removed and ran(f"VACUUM '{path}' RETAIN 168 HOURS")["orphaned_files_deleted"] >= len(
        removed
    )
    assert not removed & splits_on_disk(path)
    assert ids(Table.open(path)) == before


def test_detail_says_what_the_table_is(path: str) -> None:
    table = Table.open(path)
    table.update_metadata(name="events", options={"checkpoint.interval": 20})
    table = table.refresh()
    row = ran(f"DESCRIBE DETAIL '{path}'")
    assert (row["format"], row["id"], row["name"], row["location"]) == (
        "indextables",
        table.metadata.id,
        "events",
        path,
    )
    assert (row["num_files"], row["num_records"], row["version"]) == (12, table.count(), 5)
    assert row["size_in_bytes"] == sum(table.files().column("size").to_pylist())
    assert row["partition_columns"] == '["day"]'
    assert (
        '"checkpoint.interval":"20"' in row["properties"]
        and "docMappingSchema" not in row["properties"]
    )
    assert (
        row["created_at"]
        < row["last_modified"]
        == table.history(limit=1).to_pylist()[0]["timestamp"]
    )
    assert "parquetSplits" in row["table_features"] and row["min_reader_version"] == 4
    older = Table.open(path, version=1).inspect.detail()
    assert (older.num_files, older.name, older.partition_columns) == (3, None, ("day",))
