"""Every schedule of a writer that may stop anywhere while others commit and clean: no split that
the table names is deleted.

A snapshot remembers a single transaction id here, so that one commit of another is as many as a
thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from indextables.errors import CommitUnknownError, ConflictError
from indextables.log.cleaning import Cleaner
from indextables.log.commit import Committer
from indextables.log.transaction import Changes
from indextables.model import snapshot as snapshots
from indextables.model.actions import AddAction
from indextables.model.conflicts import Operation
from indextables.model.retention import RetentionPolicy
from indextables.storage.store import Store
from tests.interleave.stepped_logs import live_paths, open_log
from tests.support.commit_schedules import grown_table, new_table
from tests.support.interleave import Content, Exploration, explore

SPLIT = "slow.split"


@pytest.fixture(autouse=True)
def short_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "RECENT_TXN_IDS", 1)


def slow(store: Store, *, replaces: tuple[str, ...] = ()) -> Any:
    """Writes a split and commits it, as an append or as a rewrite of another split."""
    log = open_log(store, "slow", attempts=2)
    read = log.newest()
    store.put(SPLIT, b"rows")
    operation = Operation.DELETE if replaces else Operation.APPEND
    changes = Changes(operation, adds=[AddAction(path=SPLIT, size=4)], removes=replaces)
    return log.commit(read, changes, written=[SPLIT]).version


def rewriter(store: Store) -> Any:
    return slow(store, replaces=("first.split",))


def others(store: Store) -> Any:
    """Commit, checkpoint, and delete every version that the state makes superfluous."""
    log = open_log(store, "others")
    log.commit(log.newest(), Changes("WRITE", adds=[AddAction(path="others.split", size=1)]))
    log.maintenance.checkpointer.write(log.newest())
    now = RetentionPolicy(
        log_ms=0, state_ms=0, checkpoint_ms=0, manifest_ms=0, versions=0, state_versions=0
    )
    steward = Cleaner(store, log.bases, now_ms=lambda: 1 << 60)
    return "deleted", len(steward.run(steward.plan(now)).deleted)


def check(content: Content, results: Mapping[str, Any]) -> str | None:
    live, told = live_paths(content), results["slow"]
    if live.count(SPLIT) > 1:
        return "TWICE"
    if SPLIT in live and SPLIT not in content:
        return f"DELETED: the table names a split that its writer deleted; it was told {told!r}"
    if isinstance(told, int) and SPLIT not in live:
        return f"LOST: told version {told}"
    if isinstance(told, ConflictError) and SPLIT in live:
        return "GHOST: told that nothing was committed"
    if isinstance(told, Exception) and not isinstance(told, ConflictError | CommitUnknownError):
        return f"raised {told!r}"
    return None


def explored(
    actor: Callable[[Store], Any], start: Content, *, faults: int, stop_at_first: bool = False
) -> Exploration:
    return explore(
        {"slow": actor, "others": others},
        check,
        start=start,
        faults=faults,
        stop_at_first=stop_at_first,
    )


@pytest.mark.parametrize("faults", [0, 1])
@pytest.mark.parametrize("actor", [slow, rewriter], ids=["append", "rewrite"])
def test_a_writer_that_stops_anywhere_deletes_nothing_that_is_named(
    actor: Callable[[Store], Any], faults: int
) -> None:
    found = explored(actor, grown_table(), faults=faults)
    print(f"{found.states:,} states, {found.ends:,} ends")
    assert found.complete
    assert found.ends > 2
    assert found.violations == []


def test_without_doubting_a_short_memory_r13_a_live_split_is_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def remembered(self: Committer, newest: Any, candidate: Any) -> int | None:
        return candidate.number if candidate.txn_id in newest.header.recent_txn_ids else None

    def trusting(self: Committer, paths: Any, *, since: int) -> bool:
        self.context.store.delete(paths)
        return True

    monkeypatch.setattr(Committer, "_find_landed_version", remembered)
    monkeypatch.setattr(Committer, "discard", trusting)
    assert explored(slow, grown_table(), faults=0, stop_at_first=True).violations


def test_without_doubting_a_short_memory_r13_rows_stand_in_for_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even where nothing is deleted, the writer is told that nothing was committed."""

    def remembered(self: Committer, newest: Any, candidate: Any) -> int | None:
        return candidate.number if candidate.txn_id in newest.header.recent_txn_ids else None

    monkeypatch.setattr(Committer, "_find_landed_version", remembered)
    assert explored(slow, new_table(), faults=0, stop_at_first=True).violations
