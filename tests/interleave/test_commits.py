"""Every schedule of two or three writers over the real commit code: nothing acknowledged is lost, nothing stands twice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from indextables.config.log import LogReadSettings, RetrySettings, VersionFileSettings
from indextables.errors import CommitUnknownError, ConflictError
from indextables.log.cache import LogCache
from indextables.log.commit import Committer
from indextables.log.names import version_path
from indextables.log.transaction import Changes
from indextables.log.transaction_log import LogSettings, TransactionLog
from indextables.model.actions import AddAction, CommitInfo, MetadataAction
from indextables.model.protocol import NEW_TABLE_PROTOCOL
from indextables.storage.store import PutOutcome, Store
from indextables.testing.interleave import Content, SteppedStore, explore, outcomes
from indextables.wire import version_file

SCHEMA = '{"type":"struct","fields":[]}'


def open_log(store: Store, name: str, *, attempts: int = 4) -> TransactionLog:
    settings = LogSettings(
        read=LogReadSettings(parallelism=1),
        retry=RetrySettings(max_attempts=attempts),
        files=VersionFileSettings(compress=False),
    )
    ids = iter(f"{name}-{n}" for n in range(100))
    return TransactionLog(
        store,
        settings,
        cache=LogCache(1 << 20),
        now_ms=lambda: 1_000,
        new_id=lambda: next(ids),
        rng=random.Random(0),
        sleep=lambda seconds: None,
    )


def new_table() -> Content:
    actions = (
        CommitInfo(txn_id="create", timestamp=0),
        NEW_TABLE_PROTOCOL,
        MetadataAction(id="t", schema_string=SCHEMA),
    )
    return {version_path(0): version_file.encode(actions, compress=False)}


def writer(name: str, *, attempts: int = 4) -> Callable[[Store], Any]:
    def run(store: Store) -> Any:
        log = open_log(store, name, attempts=attempts)
        changes = Changes("WRITE", adds=[AddAction(path=f"{name}.split", size=1)])
        return log.commit(log.newest(), changes).version

    return run


def read_paths(content: Content) -> list[str]:
    def answer(call: tuple[Any, ...]) -> Any:
        return outcomes(dict(content), call)[0][1]

    return list(open_log(SteppedStore(answer), "reader").newest().all_files.column("path").to_pylist())


def check(content: Content, results: Mapping[str, Any]) -> str | None:
    live = Counter(read_paths(content))
    if any(n > 1 for n in live.values()):
        return f"TWICE: {live}"
    for name, result in results.items():
        path = f"{name}.split"
        if isinstance(result, int) and not live[path]:
            return f"LOST: {name} was told version {result}"
        if isinstance(result, ConflictError) and live[path]:
            return f"GHOST: {name} was told that nothing was committed"
        if isinstance(result, Exception) and not isinstance(result, ConflictError | CommitUnknownError):
            return f"{name} raised {result!r}"
    return None


def test_two_writers_and_one_fault() -> None:
    found = explore({"a": writer("a"), "b": writer("b")}, check, start=new_table(), faults=1)
    assert found.complete
    assert found.ends > 50
    assert found.violations == []


def test_three_writers() -> None:
    actors = {n: writer(n, attempts=5) for n in "abc"}
    found = explore(actors, check, start=new_table())
    assert found.complete
    assert found.ends > 50
    assert found.violations == []


def test_without_reading_back_r1_a_writer_is_told_the_wrong_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    def trusting(self: Committer, offer: Any, txn_id: str) -> PutOutcome:
        return self.store.put_if_absent(version_path(offer.version.version), offer.body)

    monkeypatch.setattr(Committer, "_create", trusting)
    monkeypatch.setattr(Committer, "_landed", lambda *args: None)
    found = explore({"a": writer("a"), "b": writer("b")}, check, start=new_table(), faults=1, stop_at_first=True)
    assert found.violations
