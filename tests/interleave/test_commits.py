"""Every schedule of two or three writers over the real commit code: nothing acknowledged is lost,
nothing stands twice.
"""

from __future__ import annotations

from typing import Any

import pytest

from indextables.log.cleaning import Cleaner
from indextables.log.commit import Committer, _Put
from indextables.log.log_files import LogListing, version_path
from indextables.log.versions import VersionReader
from indextables.model.retention import RetentionPolicy
from indextables.storage.store import Store
from tests.support.commit_schedules import check, grown_table, new_table, open_log, writer
from tests.support.interleave import explore


def cleaner(store: Store) -> Any:
    """Checkpoints the table and deletes every version and state that the new state makes
    superfluous, at once.
    """
    log = open_log(store, "cleaner")
    log.maintenance.checkpointer.write(log.newest())
    now = RetentionPolicy(
        log_ms=0, state_ms=0, checkpoint_ms=0, manifest_ms=0, versions=0, state_versions=0
    )
    steward = Cleaner(store, log.bases, now_ms=lambda: 1 << 60)
    return "deleted", len(steward.run(steward.plan(now)).deleted)


def test_two_writers_and_one_fault() -> None:
    """One of them commits twice, and begins the second time with what it remembers."""
    found = explore(
        {"a": writer("a", before=1), "b": writer("b")}, check, start=new_table(), faults=1
    )
    assert found.complete
    assert found.ends > 10
    assert found.violations == []


def test_three_writers() -> None:
    actors = {n: writer(n, attempts=5, before=n == "a") for n in "abc"}
    found = explore(actors, check, start=new_table())
    assert found.complete
    assert found.ends > 30
    assert found.violations == []


def two_writers_and_a_cleaner(*, faults: int) -> None:
    actors = {"a": writer("a", attempts=3), "b": writer("b", attempts=3), "cleaner": cleaner}
    found = explore(actors, check, start=grown_table(), faults=faults, max_states=1_000_000)
    print(f"{found.states:,} states, {found.ends:,} ends")
    assert found.complete
    assert found.ends > 5
    assert found.violations == []


def test_two_writers_and_a_cleaner() -> None:
    two_writers_and_a_cleaner(faults=0)


@pytest.mark.slow
def test_two_writers_a_cleaner_and_one_fault() -> None:
    two_writers_and_a_cleaner(faults=1)


def test_without_looking_for_the_predecessor_r4_a_commit_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Committer, "_is_unchanged", lambda *args: True)
    monkeypatch.setattr(Committer, "_continues_log", lambda *args: True)
    actors = {"cleaner": cleaner, "b": writer("b", before=1), "a": writer("a")}
    found = explore(actors, check, start=grown_table(), stop_at_first=True)
    assert found.violations


def test_without_a_strict_reader_r2_a_commit_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def lenient(self: LogListing, after: int, until: int) -> list[int]:
        return []

    def present(self: VersionReader, wanted: Any) -> Any:
        found = [self.read_one(version) for version, _ in wanted]
        return [version for version in found if version is not None]

    monkeypatch.setattr(LogListing, "missing", lenient)
    monkeypatch.setattr(VersionReader, "read", present)
    actors = {"a": writer("a"), "b": writer("b"), "cleaner": cleaner}
    found = explore(actors, check, start=grown_table(), stop_at_first=True)
    assert found.violations


@pytest.mark.parametrize("is_cleaned", [False, True], ids=["", "with a cleaner"])
def test_without_reading_back_r1_a_writer_is_told_the_wrong_thing(
    monkeypatch: pytest.MonkeyPatch, *, is_cleaned: bool
) -> None:
    def trusting(self: Committer, candidate: Any) -> _Put:
        return _Put(
            self.context.store.put_if_absent(version_path(candidate.number), candidate.body)
        )

    monkeypatch.setattr(Committer, "_put", trusting)
    monkeypatch.setattr(Committer, "_find_landed_version", lambda *args: None)
    actors: dict[str, Any] = {"a": writer("a", attempts=3), "b": writer("b", attempts=3)}
    start = new_table()
    if is_cleaned:
        actors["cleaner"], start = cleaner, grown_table()
    found = explore(actors, check, start=start, faults=1, max_states=1_000_000, stop_at_first=True)
    assert found.violations
    assert found.violations[0].why.startswith(("LOST", "GHOST", "TWICE"))
