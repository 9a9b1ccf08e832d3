"""A purge deletes what nobody can need any more, says why, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from indextables import AddAction, Table
from indextables.errors import (
    ConflictError,
    InvalidInputError,
    RefusedError,
    UnavailableError,
    VersionNotFoundError,
)
from indextables.log.commit import CommitResult
from indextables.operations import purge
from indextables.storage.local import TEMP_PREFIX
from indextables.storage.store import ObjectInfo
from tests.support.faulty_store import Fault, FaultyStore, StoreWrapper
from tests.support.rows import ids, rows, table_of
from tests.support.stores import age, contents, splits_on_disk

UNCHECKED: dict[str, object] = {"purge.retentionCheckEnabled": False}


def unchecked(table: Table) -> Table:
    return Table.open(table.path, options=UNCHECKED)


def live(table: Table) -> set[str]:
    return set(table.files().column("path").to_pylist())


def stray(table: Table, name: str = "split-stray.split") -> str:
    (Path(table.path) / "splits").mkdir(exist_ok=True)
    (Path(table.path) / "splits" / name).write_bytes(b"not committed")
    return f"splits/{name}"


def readable(table: Table) -> dict[int, bool]:
    found = table.history()
    return dict(
        zip(
            found.column("version").to_pylist(),
            found.column("is_readable").to_pylist(),
            strict=True,
        )
    )


def test_a_dry_run_lists_exactly_what_is_then_deleted(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=6)
    table.merge()
    stray(table)
    (Path(table.path) / f"splits/{TEMP_PREFIX}dead").write_bytes(b"half")
    (Path(table.path) / "splits/.gone.split.crc").write_bytes(b"crc")
    age(table.path, hours=2000)
    before = contents(table.path)
    planned = Table.open(table.path).purge(dry_run=True)
    assert contents(table.path) == before
    report = Table.open(table.path).purge()
    after = contents(table.path)
    gone = sorted(set(before) - set(after))
    assert [file.path for file in planned.files] == [file.path for file in report.files]
    assert sorted(file.path for file in report.files) == gone
    assert {path: before[path] for path in after if path in before} == {
        p: b for p, b in after.items() if p in before
    }
    assert {file.path: file.size for file in report.files} == {
        path: len(before[path]) for path in gone
    }
    assert report.size_bytes_deleted == sum(len(before[path]) for path in gone)
    assert (planned.status, planned.dry_run, planned.orphaned_files_found) == ("dry_run", True, 7)
    assert (report.status, report.orphaned_files_deleted, report.tx_log_files_deleted) == (
        "success",
        7,
        7,
    )
    assert {file.kind for file in report.files} == {"split", "version", "temporary", "checksum"}
    assert all(file.reason for file in report.files)
    assert ids(Table.open(table.path)) == list(range(60))
    assert Table.open(table.path).purge().status == "no_action"


def test_what_was_purged_is_in_the_history(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3)
    table.merge()
    unchecked(table).purge(older_than_hours=0, log_retention_hours=720)
    last = table.history(limit=1).to_pylist()[0]
    assert last["operation"] == "PURGE"
    assert last["operation_parameters"] == '{"retentionHours":0,"logRetentionHours":720}'
    assert '"numSplitFiles":3' in last["operation_metrics"]


def test_a_removed_split_is_kept_from_its_removal_on(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3)
    old = live(table)
    age(table.path, hours=1000)
    table.overwrite(rows([5]))
    assert Table.open(table.path).purge(dry_run=True).status == "no_action", "removed a moment ago"
    age(table.path, hours=169)
    found = Table.open(table.path).purge()
    assert {file.path for file in found.files} == old
    assert found.files[0].reason == "removed by version 4, 7.0 days ago"
    assert ids(Table.open(table.path)) == [5]


def test_a_writer_whose_clock_is_behind_does_not_make_a_removal_older(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    age(table.path, hours=1000)
    behind = table.handle.log.now_ms() - 900 * 3_600_000
    table.handle.log.context.now_ms = lambda: behind
    table.overwrite(rows([5]))
    assert Table.open(table.path).purge(dry_run=True).status == "no_action"


def test_two_clocks(tmp_path: Path) -> None:
    """A version in the log whose splits are gone is not readable, and history says so."""
    table = table_of(tmp_path / "t", appends=2)
    table.overwrite(rows([5]))
    table.append(rows([6]))
    age(table.path, hours=200)
    Table.open(table.path).purge()
    assert readable(table) == {5: True, 4: True, 3: True, 2: False, 1: False, 0: False}
    with pytest.raises(VersionNotFoundError, match="2 of its 2 splits were purged") as caught:
        Table.open(table.path, version=2)
    assert caught.value.hint == "Versions 3 to 5 can be read; history() shows each."
    assert ids(Table.open(table.path, version=3)) == [5]


def test_after_truncation_a_removal_counts_from_the_oldest_version_left(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2)
    table.overwrite(rows([5]))
    age(table.path, hours=1000, paths=splits_on_disk(table.path))
    table.truncate_time_travel()
    assert Table.open(table.path).purge(dry_run=True).orphaned_files_found == 0
    age(table.path, hours=170)
    report = Table.open(table.path).purge()
    assert report.orphaned_files_deleted == 2
    assert "part of no version" in report.files[0].reason
    assert ids(Table.open(table.path)) == [5]


def test_states_without_versions_tell_when_a_split_ended(tmp_path: Path) -> None:
    """Another engine commits by states alone: what one state has and the next has not ended with
    the next.
    """
    table = table_of(tmp_path / "t", appends=2)
    table.checkpoint()
    table.overwrite(rows([5]))
    table.checkpoint()
    for version in (1, 2, 3):
        (Path(table.path) / f"_transaction_log/{version:020d}.json").unlink()
    age(table.path, hours=1000)
    age(table.path, hours=1, paths=["_transaction_log/state-v00000000000000000003/_manifest.avro"])
    fresh = Table.open(table.path)
    fresh.invalidate_cache()
    assert fresh.purge(dry_run=True).orphaned_files_found == 0
    age(table.path, hours=1000)
    found = Table.open(table.path).purge(log_retention_hours=100_000)
    assert {file.reason for file in found.files if file.kind == "split"} == {
        "removed by version 3, 41.7 days ago"
    }
    assert ids(Table.open(table.path)) == [5]


def test_an_uncommitted_split_is_kept_for_the_retention(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    path = stray(table)
    age(table.path, hours=167)
    assert Table.open(table.path).purge().status == "no_action"
    age(table.path, hours=169)
    assert [file.path for file in Table.open(table.path).purge().files] == [path]


def test_too_short_a_retention_is_refused(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    with pytest.raises(RefusedError, match="1 hours for splits") as caught:
        table.purge(older_than_hours=1)
    assert "purge.retentionCheckEnabled" in caught.value.hint
    with pytest.raises(RefusedError, match="version files"):
        table.purge(log_retention_hours=23.9, dry_run=True)
    for wrong in (-1, float("nan"), float("inf")):
        with pytest.raises(InvalidInputError, match="makes no sense"):
            unchecked(table).purge(older_than_hours=wrong)
        with pytest.raises(InvalidInputError, match="for version files makes no sense"):
            unchecked(table).purge(log_retention_hours=wrong)
    with pytest.raises(RefusedError):
        Table.open(table.path, version=0).purge()
    assert table.purge(older_than_hours=24, log_retention_hours=24).status == "no_action"
    assert unchecked(table).purge(older_than_hours=0, log_retention_hours=0).status == "no_action"


class Ageless(StoreWrapper):
    """A store that does not say when anything was written."""

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        return (
            replace(info, last_modified_ms=None)
            for info in super().list(prefix, start_after=start_after)
        )


def test_unknown_age_is_kept(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=6)
    table.merge()
    stray(table)
    fresh = unchecked(table)
    fresh.handle.log.context.store = Ageless(fresh.handle.log.store)
    assert fresh.purge(older_than_hours=0, log_retention_hours=0).status == "no_action"


def test_expired_states_and_manifests(tmp_path: Path) -> None:
    options: dict[str, object] = {"checkpoint.interval": 2, "cleanup.enabled": False}
    table = table_of(tmp_path / "t", appends=9, options=options)
    table.compact()
    for n in (90, 91):
        table.append(rows([n]))
    age(table.path, hours=2000)
    report = Table.open(table.path).purge()
    assert report.expired_states_deleted >= 3
    assert report.manifests_deleted >= 1
    assert report.expired_states_found == report.expired_states_deleted
    assert ids(Table.open(table.path)) == list(range(92))
    assert len([p for p in contents(table.path) if "state-v" in p]) == 2, (
        "the two newest states stay"
    )


def test_other_files_and_other_tables_are_left_alone(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    inner = table_of(tmp_path / "t" / "Inner", appends=2)
    inner.overwrite(rows([1]))
    for name in ("_SUCCESS", "notes.txt", "splits/readme.md", "_transaction_log/strange.bin"):
        (Path(table.path) / name).write_bytes(b"mine")
    age(table.path, hours=5000)
    assert Table.open(table.path).purge().status == "no_action"


def test_checksums_of_files_that_are_there_stay(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    (path,) = live(table)
    folder, name = path.rsplit("/", 1)
    (Path(table.path) / folder / f".{name}.crc").write_bytes(b"crc")
    (Path(table.path) / "_transaction_log" / ".00000000000000000000.json.crc").write_bytes(b"crc")
    age(table.path, hours=5000)
    assert Table.open(table.path).purge().status == "no_action"
    Table.open(table.path).overwrite(rows([1]))
    age(table.path, hours=300)
    assert {file.kind for file in Table.open(table.path).purge().files} == {"split", "checksum"}


def test_a_file_that_is_being_written_stays_even_without_retention(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    temp = Path(table.path) / f"splits/{TEMP_PREFIX}now"
    temp.write_bytes(b"half")
    assert unchecked(table).purge(older_than_hours=0, log_retention_hours=0).status == "no_action"
    age(table.path, hours=1.1, paths=[f"splits/{TEMP_PREFIX}now"])
    assert len(unchecked(table).purge(older_than_hours=0, log_retention_hours=0).files) == 1


def test_a_commit_of_a_split_that_was_taken_for_an_orphan_fails(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    writer = Table.open(table.path)
    path = stray(table)
    report = unchecked(table).purge(older_than_hours=0, log_retention_hours=0)
    assert [file.path for file in report.files] == [path]
    with pytest.raises(ConflictError, match="purged"), writer.transaction(check_splits=False) as tx:
        tx.add(AddAction(path=path, size=13, num_records=1))
    assert live(Table.open(table.path)) == live(table)


def test_the_same_when_the_log_was_truncated_meanwhile(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    writer = Table.open(table.path)
    path = stray(table)
    other = unchecked(table)
    other.purge(older_than_hours=0, log_retention_hours=0)
    other.append(rows([50]))
    other.truncate_time_travel()
    with (
        pytest.raises(ConflictError, match="purged concurrently"),
        writer.transaction(check_splits=False) as tx,
    ):
        tx.add(AddAction(path=path, size=13, num_records=1))


def test_a_commit_of_a_split_that_the_table_had_before_fails_beside_a_purge(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    (path,) = live(table)
    size = (Path(table.path) / path).stat().st_size
    table.overwrite(rows([5]))
    writer = Table.open(table.path)

    def deleted_late(paths: Sequence[str]) -> None:
        with (
            pytest.raises(ConflictError, match="purged concurrently"),
            writer.transaction(check_splits=False) as tx,
        ):
            tx.add(AddAction(path=path, size=size, num_records=10))
        table.handle.log.store.delete(paths)

    unchecked(table).purge(older_than_hours=0, log_retention_hours=720, delete=deleted_late)
    assert ids(Table.open(table.path)) == [5]


def test_a_split_that_is_committed_before_the_purge_starts_stays(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    writer, purger = Table.open(table.path), unchecked(table)
    path = stray(table)
    commit = purger.handle.log.commit

    def committed_first(*args: object, **kwargs: object) -> object:
        with writer.transaction(check_splits=False) as tx:
            tx.add(AddAction(path=path, size=13, num_records=1))
        return commit(*args, **kwargs)  # type: ignore[arg-type]

    purger.handle.log.commit = committed_first  # type: ignore[method-assign,assignment]
    report = purger.purge(older_than_hours=0, log_retention_hours=0)
    assert (report.orphaned_files_found, report.orphaned_files_deleted) == (1, 0)
    assert path in splits_on_disk(table.path)


def test_a_restore_that_comes_between_wins_or_fails_clearly(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    table.overwrite(rows([5]))
    late = Table.open(table.path)
    log_commit = late.handle.log.commit

    def purged_first(*args: object, **kwargs: object) -> object:
        unchecked(table).purge(older_than_hours=0, log_retention_hours=0)
        return log_commit(*args, **kwargs)  # type: ignore[arg-type]

    late.handle.log.commit = purged_first  # type: ignore[method-assign,assignment]
    with pytest.raises(ConflictError, match="purged concurrently"):
        late.restore(version=1)
    assert ids(Table.open(table.path)) == [5]
    with pytest.raises(VersionNotFoundError):
        Table.open(table.path).restore(version=1)


def test_what_was_removed_by_a_clock_that_is_ahead_is_old_enough_if_nothing_has_to_age(
    tmp_path: Path,
) -> None:
    """Versions that follow each other within a millisecond are dated one after the other, and so
    ahead of the clock.
    """
    table = table_of(tmp_path / "t", appends=1)
    table.overwrite(rows([5]))
    purger = unchecked(table)
    removed_ms = purger.handle.log.newest().header.timestamp_ms
    purger.handle.log.context.now_ms = lambda: removed_ms - 2
    assert purger.purge(older_than_hours=0, log_retention_hours=0).orphaned_files_deleted == 1
    assert ids(Table.open(table.path)) == [5]


def test_a_split_restored_before_the_purge_is_announced_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(tmp_path / "t", appends=3)
    table.overwrite(rows([5]))
    purger = unchecked(table)
    monkeypatch.setattr(purge, "BATCH", 1)
    commit = purger.handle.log.commit
    restored: list[object] = []

    def restored_first(*args: Any, **kwargs: Any) -> CommitResult:
        if not restored:
            restored.append(Table.open(table.path).restore(version=3))
        return commit(*args, **kwargs)

    purger.handle.log.commit = restored_first  # type: ignore[method-assign]
    report = purger.purge(older_than_hours=0, log_retention_hours=0)
    assert restored
    assert (report.orphaned_files_found, report.orphaned_files_deleted) == (3, 0)
    assert ids(Table.open(table.path)) == list(range(30))


@pytest.mark.parametrize("truncated", [False, True])
def test_a_split_that_was_restored_and_removed_again_meanwhile_is_kept_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, truncated: bool
) -> None:
    table = table_of(tmp_path / "t", appends=1)
    table.overwrite(rows([5]))
    age(table.path, hours=2000)
    by_the_stores_clock = purge.by_the_stores_clock

    def stopped(*args: object) -> object:
        other = Table.open(table.path)
        other.restore(version=1)
        other.overwrite(rows([6]))
        if truncated:
            other.append(rows([7]))
            other.truncate_time_travel()
        return by_the_stores_clock(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(purge, "by_the_stores_clock", stopped)
    held = splits_on_disk(table.path)
    report = Table.open(table.path).purge()
    assert (report.orphaned_files_found, report.orphaned_files_deleted) == (1, 0)
    assert held <= splits_on_disk(table.path)
    if not truncated:
        assert ids(Table.open(table.path, version=3)) == list(range(10))
        assert Table.open(table.path).restore(version=3).status == "success"


def test_what_a_purge_has_condemned_cannot_be_restored_though_it_is_still_there(
    tmp_path: Path,
) -> None:
    table = table_of(tmp_path / "t", appends=2)
    table.overwrite(rows([5]))
    unchecked(table).purge(older_than_hours=0, log_retention_hours=720, delete=lambda paths: None)
    table.append(rows([6]))
    table.overwrite(rows([7]))
    with pytest.raises(VersionNotFoundError, match="2 of its 2 splits were purged"):
        Table.open(table.path).restore(version=2)
    assert Table.open(table.path).restore(version=5).files_added == 2, "removed after that purge"
    assert ids(Table.open(table.path)) == [5, 6]


def test_deletions_are_repeated_and_then_raised(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2)
    table.merge()
    purger = unchecked(table)
    purger.handle.log.context.store = FaultyStore(
        purger.handle.log.store, [Fault("delete", times=3)]
    )
    assert purger.purge(older_than_hours=0, log_retention_hours=720).orphaned_files_deleted == 2
    table.append(rows([77]))
    table.merge()
    failing = unchecked(table)
    failing.handle.log.context.store = FaultyStore(
        failing.handle.log.store, [Fault("delete", times=99)]
    )
    with pytest.raises(UnavailableError):
        failing.purge(older_than_hours=0, log_retention_hours=720)
    assert (
        unchecked(table).purge(older_than_hours=0, log_retention_hours=720).orphaned_files_deleted
        == 2
    )
    assert ids(Table.open(table.path)) == [*range(20), 77]


def test_skips_in_cooldown_survive(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3)
    (path, *_) = sorted(live(table))
    with table.transaction(operation="SKIP") as tx:
        tx.skip(path, reason="broken")
    unchecked(table).purge(older_than_hours=0, log_retention_hours=0)
    unchecked(table).truncate_time_travel()
    assert Table.open(table.path).skipped_files().column("path").to_pylist() == [path]


def test_progress_and_deleting_elsewhere(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3)
    table.merge()
    told: list[tuple[int, int, str]] = []
    elsewhere: list[str] = []
    report = unchecked(table).purge(
        older_than_hours=0,
        log_retention_hours=720,
        progress=lambda done, total, what: told.append((done, total, what)),
        delete=elsewhere.extend,
    )
    assert sorted(elsewhere) == sorted(file.path for file in report.files)
    assert told[-1] == (3, 3, "files")


def test_a_stale_memory_is_never_trusted(tmp_path: Path) -> None:
    """Whatever staleness the settings allow, what is live is looked up in the store."""
    table = table_of(tmp_path / "t", appends=2)
    stale = Table.open(
        table.path, options={**UNCHECKED, "transaction.cache.expirationSeconds": 3600}
    )
    stale.append(rows([50]))
    other = Table.open(table.path)
    other.merge()
    other.handle.log.cache.put(
        "snapshots",
        table.path,
        other.handle.log.context.place,
        stale.handle.log.snapshots.find_cached(),
        cost_bytes=1,
    )
    stale.purge(older_than_hours=0, log_retention_hours=0)
    assert ids(Table.open(table.path)) == [*range(20), 50]
