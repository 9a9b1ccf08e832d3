"""Every schedule of a purge that keeps nothing beside a writer, a restore and a truncation: what is
acknowledged is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from indextables.config.log import RetentionSettings
from indextables.config.upkeep import PurgeSettings
from indextables.errors import (
    CommitUnknownError,
    ConflictError,
    MissingSplitError,
    VersionNotFoundError,
)
from indextables.log.log_files import version_path
from indextables.log.transaction import Changes
from indextables.model.actions import AddAction, CommitInfo, MetadataAction, RemoveAction
from indextables.model.protocol import NEW_TABLE_PROTOCOL
from indextables.operations import purge, restore, truncate
from indextables.operations.purge import Retention
from indextables.storage.store import Store
from indextables.wire import version_file
from tests.interleave.stepped_logs import live_paths, open_log, unseen
from tests.support.interleave import Content, explore


@pytest.fixture(autouse=True)
def _every_orphan_may_be_somebodys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purge, "IN_FLIGHT_MS", 1 << 60)


def table_with(removed: bool = False) -> Content:
    """A table whose only split is live, or was removed."""
    zero = (
        CommitInfo(txn_id="create", timestamp=0),
        NEW_TABLE_PROTOCOL,
        MetadataAction(id="t", schema_string='{"type":"struct","fields":[]}'),
    )
    one = (CommitInfo(txn_id="first", timestamp=1), AddAction(path="first.split", size=5))
    two = (CommitInfo(txn_id="second", timestamp=2), RemoveAction(path="first.split"))
    versions = [zero, one, *([two] if removed else [])]
    files = {
        version_path(n): version_file.encode(actions, compress=False)
        for n, actions in enumerate(versions)
    }
    return {**files, "first.split": b"first"}


def writer(store: Store) -> Any:
    """Reads the table, uploads a split, commits it."""
    log = open_log(store, "writer")
    read = log.newest()
    store.put("new.split", b"new")
    return log.commit(
        read, Changes("WRITE", adds=[AddAction(path="new.split", size=3)]), keep_up=False
    ).version


def purger(store: Store) -> Any:
    log = open_log(store, "purger")
    planned = purge.plan(
        log, retention=Retention(0, 0), settings=RetentionSettings(manifest_hours=0)
    )
    return purge.run(planned, log, settings=PurgeSettings(delete_retries=0, parallelism=1)).status


def restorer(store: Store) -> Any:
    log = open_log(store, "restorer")
    return restore.run(restore.plan(log, version=1), log).version


def truncater(store: Store) -> Any:
    log = open_log(store, "truncater")
    return truncate.run(
        truncate.plan(log, settings=RetentionSettings(manifest_hours=0)), log
    ).status


ALLOWED: Mapping[str, tuple[type[Exception], ...]] = {
    "writer": (ConflictError, CommitUnknownError),
    "restorer": (ConflictError, CommitUnknownError, MissingSplitError, VersionNotFoundError),
}


def check(content: Content, results: Mapping[str, Any]) -> str | None:
    live = live_paths(content)
    missing = [path for path in live if path not in content]
    if missing:
        return f"GONE: {missing} are part of the table"
    if isinstance(results.get("writer"), int) and "new.split" not in live:
        return "LOST: the writer was told that it had committed"
    if isinstance(results.get("restorer"), int) and "first.split" not in live:
        return "LOST: the restorer was told that it had committed"
    for name, result in results.items():
        if isinstance(result, Exception) and not isinstance(result, ALLOWED.get(name, ())):
            return f"{name} failed: {result!r}"
    return None


def run(
    *actors: Callable[[Store], Any], removed: bool = False, faults: int = 0, states: int = 400_000
) -> None:
    named = {actor.__name__: actor for actor in actors}
    found = explore(
        named,
        check,
        start=table_with(removed),
        faults=faults,
        max_states=states,
        private=partial(unseen, cleaners=("purger", "truncater")),
    )
    print(f"{found.states:,} states, {found.ends:,} ends")
    assert found.complete
    assert found.violations == []
    assert found.ends > 1


def test_a_purge_beside_a_writer() -> None:
    run(writer, purger)


def test_a_purge_beside_a_writer_with_a_fault() -> None:
    run(writer, purger, faults=1)


@pytest.mark.parametrize("faults", [0, 1])
def test_a_purge_beside_a_restore(faults: int) -> None:
    run(restorer, purger, removed=True, faults=faults)


def test_without_the_fence_a_split_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purge, "IN_FLIGHT_MS", 0)
    found = explore(
        {"writer": writer, "purger": purger}, check, start=table_with(), stop_at_first=True
    )
    assert found.violations


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_a_purge_and_a_truncation_beside_a_writer() -> None:
    run(writer, purger, truncater, states=5_000_000)
