"""Logs for the explorer of schedules: nothing in them depends on time, chance or threads."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import Any

from indextables.config.log import LogReadSettings, RetrySettings, VersionFileSettings
from indextables.config.state import CompactionSettings
from indextables.log.cache import LogCache
from indextables.log.log_files import CLOCK, MANIFESTS, POINTER
from indextables.log.transaction_log import LogSettings, TransactionLog
from indextables.storage.store import Store
from indextables.testing.interleave import NOW_MS, Content, SteppedStore, outcomes


def open_log(store: Store, name: str, *, attempts: int = 4, now_ms: int = NOW_MS) -> TransactionLog:
    """A log whose commits are named after who makes them."""
    settings = LogSettings(
        read=LogReadSettings(parallelism=1),
        retry=RetrySettings(max_attempts=attempts),
        files=VersionFileSettings(compress=False),
        compaction=CompactionSettings(after_merge=False),
    )
    ids = iter(f"{name}-{n}" for n in range(100))
    return TransactionLog(
        store,
        settings,
        cache=LogCache(1 << 20),
        now_ms=lambda: now_ms,
        new_id=lambda: next(ids),
        rng=random.Random(0),
        sleep=lambda seconds: None,
    )


_read: dict[frozenset[tuple[str, bytes]], list[str]] = {}


def live_paths(content: Content) -> list[str]:
    """The splits that a reader of this content finds. Many schedules end with the same content, which is read once."""
    key = frozenset((path, data) for path, data in content.items() if not path.endswith(".split"))
    if key not in _read:

        def answer(call: tuple[Any, ...]) -> Any:
            return outcomes(dict(content), call)[0][1]

        _read[key] = list(open_log(SteppedStore(answer), "reader").newest().all_files.column("path").to_pylist())
    return _read[key]


def forget() -> None:
    """Read everything anew: a test that switches a rule off reads by other rules."""
    _read.clear()


def unseen(
    name: str, call: tuple[Any, ...], content: Content, finished: Mapping[str, Any], *, cleaners: Collection[str]
) -> bool:
    """Calls whose moment no other actor can tell.

    Manifests and the pointer are read by nobody else in time, states by a truncater after it wrote them; and once the
    other cleaners are done nothing is deleted any more, and what is there can be read at any time.
    """
    verb, path = str(call[0]), str(call[1])
    if path.startswith((MANIFESTS, POINTER, CLOCK)):
        return verb != "list"
    if name == "truncater" and "/state-v" in path and verb in ("get", "head"):
        return True
    return set(cleaners) - {name} <= set(finished) and verb in ("get", "head") and path in content
