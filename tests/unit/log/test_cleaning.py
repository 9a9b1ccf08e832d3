"""Cleaning the log: what is left still opens, dry runs change nothing, failures are reported or
raised.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

import pytest

from indextables.config.log import (
    CheckpointSettings,
    CleanupSettings,
    RetentionSettings,
    StateWriteSettings,
)
from indextables.errors import StorageError, VersionNotFoundError
from indextables.log import log_files
from indextables.log.checkpoint.state_writer import Compact
from indextables.log.transaction_log import TransactionLog
from indextables.model.retention import RetentionPolicy
from indextables.storage.local import LocalStore
from indextables.storage.store import PutOutcome
from tests.support.faulty_store import Fault, FaultyStore, StoreWrapper
from tests.support.state_logs import commit, file, live, new_state_log, newest_state, state_log

NOTHING_KEPT = RetentionPolicy(log_ms=0, state_ms=0, checkpoint_ms=0, manifest_ms=0)
SHORT = RetentionSettings(
    state_versions=1, state_hours=0, manifest_hours=0, log_ms=0, checkpoint_ms=0, versions=0
)


def later_log(path: Path | str, **settings: Any) -> TransactionLog:
    """The log seen by a clock that is a little ahead, so that what was just written has an age."""
    log = state_log(LocalStore(str(path)), **settings)
    log.context.now_ms = lambda: time.time_ns() // 1_000_000 + 5_000
    return log


def prepared(path: Path) -> TransactionLog:
    """Versions 0 to 9 with states at 4 and 8, of which the second rewrote everything."""
    log = new_state_log(path, state_write=StateWriteSettings(entries_per_manifest=10))
    for n in range(1, 10):
        commit(log, file(n), removes=[file(n - 1).path] if n == 6 else [])
        if n == 4:
            log.checkpoint()
        if n == 8:
            log.checkpoint(compact=Compact.ALL)
    return log


def content(path: Path) -> dict[str, str]:
    files = [p for p in path.rglob("*") if p.is_file()]
    return {str(p.relative_to(path)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def test_everything_before_the_newest_state_goes(tmp_path: Path) -> None:
    right = live(prepared(tmp_path).newest())
    cleaner = later_log(tmp_path).cleaner()
    report = cleaner.run(cleaner.plan(NOTHING_KEPT))
    assert (
        report.deleted_of("version"),
        report.deleted_of("state"),
        report.deleted_of("manifest"),
    ) == (8, 1, 1)
    assert report.failures == ()
    left = {p.name for p in (tmp_path / log_files.LOG).glob("0*.json")}
    assert left == {f"{v:020d}.json" for v in (8, 9)}
    log = state_log(LocalStore(str(tmp_path)))
    assert live(log.newest()) == right
    with pytest.raises(VersionNotFoundError) as caught:
        log.at_version(5)
    assert caught.value.context["available"] == [8, 9]
    assert commit(log, file(50)) == 10


def test_versions_are_deleted_one_by_one_from_the_oldest_on(tmp_path: Path) -> None:
    prepared(tmp_path)
    calls: list[list[str]] = []

    class Recording(StoreWrapper):
        def delete(self, objects: Any) -> None:
            calls.append([getattr(one, "path", one) for one in objects])
            super().delete(objects)

    log = state_log(Recording(LocalStore(str(tmp_path))))
    log.context.now_ms = lambda: time.time_ns() // 1_000_000 + 5_000
    log.cleaner().run(log.cleaner().plan(NOTHING_KEPT))
    versions = [
        paths for paths in calls if any(log_files.version_of(path) is not None for path in paths)
    ]
    assert versions == [[log_files.version_path(number)] for number in range(8)]


def test_a_dry_run_changes_nothing_and_finds_the_same(tmp_path: Path) -> None:
    prepared(tmp_path)
    before = content(tmp_path)
    cleaner = later_log(tmp_path).cleaner()
    plan = cleaner.plan(NOTHING_KEPT)
    report = cleaner.run(plan, settings=CleanupSettings(dry_run=True))
    assert content(tmp_path) == before
    assert report.deleted == ()
    assert {f.path for f in report.expired} == {f.path for f in cleaner.run(plan).deleted}
    assert set(before) - set(content(tmp_path)) == {f.path for f in report.expired}


def test_the_clean_up_after_a_checkpoint(tmp_path: Path) -> None:
    new_state_log(tmp_path)
    log = later_log(tmp_path, checkpoint=CheckpointSettings(interval=3), retention=SHORT)
    for n in range(9):
        commit(log, file(n))
    assert log.upkeep.failures == 0
    assert sorted(p.name for p in (tmp_path / log_files.LOG).glob("state-v*/*")) == [
        "_manifest.avro"
    ]
    assert [p.name for p in sorted((tmp_path / log_files.LOG).glob("0*.json"))] == [
        f"{9:020d}.json"
    ]
    assert live(state_log(LocalStore(str(tmp_path))).newest()) == sorted(
        file(n).path for n in range(9)
    )


@pytest.mark.parametrize(
    "settings", [CleanupSettings(enabled=False), CleanupSettings(dry_run=True)]
)
def test_no_clean_up_where_it_is_not_wanted(tmp_path: Path, settings: CleanupSettings) -> None:
    new_state_log(tmp_path)
    log = later_log(
        tmp_path, checkpoint=CheckpointSettings(interval=3), retention=SHORT, cleanup=settings
    )
    for n in range(9):
        commit(log, file(n))
    assert len(list((tmp_path / log_files.LOG).glob("0*.json"))) == 10


def test_young_files_stay(tmp_path: Path) -> None:
    prepared(tmp_path)
    log = later_log(tmp_path)
    hour = RetentionPolicy(
        log_ms=3_600_000, state_ms=3_600_000, checkpoint_ms=0, manifest_ms=3_600_000
    )
    assert log.cleaner().plan(hour).expired == ()
    old = time.time() - 7_200
    for version in range(4):
        os.utime(tmp_path / log_files.version_path(version), (old, old))
    assert [e.version for e in log.cleaner().plan(hour).expired] == [0, 1, 2, 3]


def test_failed_deletions_are_reported_or_raised(tmp_path: Path) -> None:
    prepared(tmp_path)
    faulty = FaultyStore(LocalStore(str(tmp_path)), [Fault("delete", times=99)])
    log = state_log(faulty)
    log.context.now_ms = lambda: time.time_ns() // 1_000_000 + 5_000
    plan = log.cleaner().plan(NOTHING_KEPT)
    report = log.cleaner().run(plan)
    assert report.deleted == ()
    assert len(report.failures) == 1
    with pytest.raises(StorageError):
        log.cleaner().run(plan, settings=CleanupSettings(failure_policy="fail"))


def test_a_cleaner_stops_when_the_state_it_counted_on_has_gone(tmp_path: Path) -> None:
    prepared(tmp_path)
    cleaner = later_log(tmp_path).cleaner()
    plan = cleaner.plan(NOTHING_KEPT)
    (tmp_path / log_files.state_path(8)).unlink()
    assert cleaner.run(plan).deleted == ()


def test_a_reader_of_a_version_that_is_cleaned_away_is_told(tmp_path: Path) -> None:
    prepared(tmp_path)
    reader = state_log(LocalStore(str(tmp_path)), cached=False)
    held, newest = reader.at_version(5), reader.newest()
    cleaner = later_log(tmp_path).cleaner()
    cleaner.run(cleaner.plan(NOTHING_KEPT))
    with pytest.raises(VersionNotFoundError, match="cleaned away"):
        _ = held.all_files
    assert newest.all_files.num_rows == 8


def test_a_manifest_that_is_written_again_is_young_again(tmp_path: Path) -> None:
    log = new_state_log(tmp_path)
    commit(log, file(1))
    first = log.checkpoint()
    (manifest,) = (tmp_path / log_files.MANIFESTS).iterdir()
    old = time.time() - 7_200
    os.utime(manifest, (old, old))
    (tmp_path / log_files.state_path(first.version)).unlink()
    state_log(LocalStore(str(tmp_path))).checkpoint(compact=Compact.ALL)
    assert list((tmp_path / log_files.MANIFESTS).iterdir()) == [manifest]
    assert manifest.stat().st_mtime > old + 3_600


class TakenAway(StoreWrapper):
    """A cleaner that found the manifests unnamed deletes them as the state that names them is put,
    the first time.
    """

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        if log_files.state_version_of(path) is not None and not self.done:
            self.done = True
            self.inner.delete([info.path for info in self.inner.list(log_files.MANIFESTS)])
        return super().put_if_absent(path, data)

    done = False


@pytest.mark.parametrize("compact", [Compact.AS_NEEDED, Compact.ALL])
def test_a_state_whose_manifests_were_taken_away_is_written_anew(
    tmp_path: Path, compact: Compact
) -> None:
    log = new_state_log(tmp_path, state_write=StateWriteSettings(entries_per_manifest=2))
    for n in range(4):
        commit(log, file(n))
    log.checkpoint()
    commit(log, file(4))
    report = state_log(TakenAway(LocalStore(str(tmp_path)))).checkpoint(compact=compact)
    state = newest_state(log)
    assert state.state_version == report.version
    assert all((tmp_path / log_files.LOG / manifest.path).exists() for manifest in state.manifests)
    cleaner = later_log(tmp_path).cleaner()
    cleaner.run(cleaner.plan(NOTHING_KEPT))
    assert live(state_log(LocalStore(str(tmp_path))).newest()) == sorted(
        file(n).path for n in range(5)
    )
