"""Every schedule of writers beside one that checkpoints and cleans with no retention: nothing
acknowledged is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from indextables.errors import VersionNotFoundError
from indextables.log.commit import Committer
from indextables.model.retention import RetentionPolicy
from indextables.storage.store import Store
from tests.interleave.stepped_logs import live_paths
from tests.support.commit_schedules import check, new_table, open_log, writer
from tests.support.interleave import Content, SteppedStore, explore, outcomes

NOTHING_KEPT = RetentionPolicy(log_ms=0, state_ms=0, checkpoint_ms=0, manifest_ms=0)
FAR_FUTURE_MS = 1 << 60


def after(content: Content, actor: Callable[[Store], Any]) -> Content:
    """The content after an actor ran alone."""
    store = dict(content)

    def answer(call: tuple[Any, ...]) -> Any:
        nonlocal store
        store, told, _, _ = outcomes(store, call)[0]
        return told

    actor(SteppedStore(answer))
    return store


def upkeep(store: Store) -> Any:
    """Checkpoint the newest version, then delete everything that it covers."""
    log = open_log(store, "upkeep")
    log.context.now_ms = lambda: FAR_FUTURE_MS
    log.checkpoint()
    cleaner = log.cleaner()
    return len(cleaner.run(cleaner.plan(NOTHING_KEPT)).deleted)


def reader(store: Store) -> Any:
    """The files of the newest version, or the word that it is gone."""
    try:
        return sorted(open_log(store, "reader").newest().all_files.column("path").to_pylist())
    except VersionNotFoundError:
        return "gone"


def judge(content: Content, results: Mapping[str, Any]) -> str | None:
    if isinstance(results["upkeep"], Exception):
        return f"upkeep raised {results['upkeep']!r}"
    if "start.split" not in live_paths(content):
        return "LOST: what was there at the start"
    seen = results.get("reader", "gone")
    if seen != "gone" and (isinstance(seen, Exception) or "start.split" not in seen):
        return f"the reader saw {seen!r}"
    return check(
        content,
        {name: result for name, result in results.items() if name not in ("upkeep", "reader")},
    )


def start() -> Content:
    return after(new_table(), writer("start"))


def test_a_writer_and_an_upkeeper_and_one_fault() -> None:
    found = explore(
        {"a": writer("a"), "upkeep": upkeep}, judge, start=start(), faults=1, max_states=30_000
    )
    assert found.complete
    assert found.ends > 5
    assert found.violations == []


def busy_upkeep(store: Store) -> Any:
    """Two more commits, and an upkeep that leaves no trace of the first: its number is free again."""
    for name in ("b", "c"):
        writer(name)(store)
    return upkeep(store)


def test_a_sleeping_writer_never_takes_a_number_that_was_used() -> None:
    found = explore(
        {"a": writer("a"), "upkeep": busy_upkeep}, judge, start=start(), max_states=60_000
    )
    assert found.complete
    assert found.ends > 5
    assert found.violations == []


def test_without_looking_back_r4_it_would_lose_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Committer, "_is_unchanged", lambda *args: True)
    monkeypatch.setattr(Committer, "_continues_log", lambda *args: True)
    actors = {"a": writer("a"), "upkeep": busy_upkeep}
    found = explore(actors, judge, start=start(), stop_at_first=True, max_states=60_000)
    assert [violation.why[:4] for violation in found.violations] == ["LOST"]


def test_a_reader_beside_a_writer_and_an_upkeeper() -> None:
    actors = {"a": writer("a"), "reader": reader, "upkeep": upkeep}
    found = explore(actors, judge, start=start(), max_states=12_000)
    assert found.complete
    assert found.ends > 5
    assert found.violations == []
