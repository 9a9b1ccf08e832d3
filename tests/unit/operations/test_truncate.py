"""Time travel is cut off: the log shrinks to the newest version, and nothing that it needs goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from indextables import Table
from indextables.errors import RefusedError, VersionNotFoundError
from tests.support.rows import ids, rows, table_of
from tests.support.stores import age, contents, splits_on_disk


def log_files(table: Table) -> set[str]:
    return {path for path in contents(table.path) if path.startswith("_transaction_log/")}


def test_only_the_newest_version_is_left(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=5)
    splits, table_id = splits_on_disk(table.path), table.metadata.id
    report = table.truncate_time_travel()
    assert (
        report.status,
        report.checkpoint_version,
        report.versions_deleted,
        report.files_preserved,
    ) == (*("success", 5, 5, 5),)
    assert splits_on_disk(table.path) == splits
    fresh = Table.open(table.path)
    assert ids(fresh) == list(range(50))
    assert fresh.history().column("version").to_pylist() == [5]
    assert (
        fresh.metadata.id == table_id
        and not Path(table.path, "_transaction_log", f"{0:020d}.json").exists()
    )
    with pytest.raises(VersionNotFoundError):
        Table.open(table.path, version=4)
    fresh.append(rows([99]))
    assert (fresh.version, len(ids(Table.open(table.path)))) == (6, 51)


def test_a_dry_run_lists_exactly_what_is_then_deleted(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=7, options={"checkpoint.interval": 3})
    age(table.path, hours=3)
    before = contents(table.path)
    planned = Table.open(table.path).truncate_time_travel(dry_run=True)
    assert contents(table.path) == before
    assert (planned.status, planned.versions_deleted, planned.checkpoints_deleted) == (
        "dry_run",
        7,
        2,
    )
    report = Table.open(table.path).truncate_time_travel()
    assert sorted(f.path for f in planned.files) == sorted(f.path for f in report.files)
    assert set(before) - set(contents(table.path)) == {f.path for f in report.files}
    assert ids(Table.open(table.path)) == list(range(70))


def test_again_is_no_action(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2)
    table.truncate_time_travel()
    report = table.truncate_time_travel()
    assert (report.status, report.message, report.versions_deleted) == (
        "no_action",
        "There is no older version.",
        0,
    )
    assert Table.open(table.path, version=2).version == 2


def test_versions_that_come_meanwhile_stay(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3)
    other = Table.open(table.path)
    cleaner = table.handle.log.cleaner
    calls = 0

    def after_another_commit() -> object:
        nonlocal calls
        calls += 1
        if calls == 2:
            other.append(rows([77]))
        return cleaner()

    table.handle.log.cleaner = after_another_commit  # type: ignore[method-assign,assignment]
    table.truncate_time_travel()
    assert ids(Table.open(table.path)) == [*range(30), 77]


def test_an_older_version_cannot_be_truncated(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    with pytest.raises(RefusedError):
        Table.open(table.path, version=0).truncate_time_travel()
