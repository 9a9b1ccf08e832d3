"""Logs and actors for the explorer of schedules: nothing in them depends on time, chance or
threads.

A split is a JSON list of its rows.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import combinations, permutations
from typing import Any

from indextables import config
from indextables.config.log import (
    CompactionSettings,
    LogReadSettings,
    RetentionSettings,
    RetrySettings,
    VersionFileSettings,
)
from indextables.config.upkeep import PurgeSettings
from indextables.errors import (
    CommitUnknownError,
    ConflictError,
    IndexTablesError,
    NotFoundError,
    RefusedError,
)
from indextables.log.cache import LogCache
from indextables.log.context import LogContext, LogSettings
from indextables.log.log_files import CLOCK, MANIFESTS, POINTER, version_path
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import AddAction, CommitInfo, LogAction, MetadataAction
from indextables.model.predicate import Predicate, bind, parse
from indextables.model.protocol import NEW_TABLE_PROTOCOL
from indextables.model.schema import schema_from_json
from indextables.operations import merge, purge, restore
from indextables.operations.merge import FailedSource, MergeBounds, MergeOutcome, MergeTask
from indextables.operations.purge import Retention
from indextables.operations.rewrite import SourceSplit
from indextables.storage.spec import StoreSpec
from indextables.storage.store import Store
from indextables.wire import version_file
from tests.support.interleave import NOW_MS, Content, Exploration, SteppedStore, explore, outcomes

Actors = tuple[Callable[[Store], Any], ...]
Rows = tuple[int, ...]
Effects = Mapping[str, Callable[[Rows], Rows]]
Check = Callable[[Content, Mapping[str, Any]], str | None]
SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": n, "type": t, "nullable": True, "metadata": {}}
            for n, t in (("id", "long"), ("p", "integer"))
        ],
    }
)
SETTINGS = config.resolve(options={"merge.parallelism": 1})
NOWHERE = StoreSpec("memory://nowhere")


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
        LogContext(
            store,
            settings,
            cache=LogCache(1 << 20),
            now_ms=lambda: now_ms,
            new_id=lambda: next(ids),
            rng=random.Random(0),
            sleep=lambda seconds: None,
        )
    )


def content_of(
    versions: Sequence[Sequence[LogAction]], splits: Mapping[str, Sequence[int]]
) -> Content:
    """A store with a table: its first version, those that follow, and splits with their rows."""
    created = (
        NEW_TABLE_PROTOCOL,
        MetadataAction(id="t", schema_string=SCHEMA, partition_columns=("p",)),
    )
    files = {
        version_path(n): version_file.encode(
            (CommitInfo(txn_id=f"v{n}", timestamp=n), *actions), compress=False
        )
        for n, actions in enumerate((created, *versions))
    }
    return {**files, **{path: json.dumps(rows).encode() for path, rows in splits.items()}}


def condition(text: str) -> Predicate:
    """A condition over the columns of the table."""
    return bind(parse(text), schema_from_json(SCHEMA))


def put_split(store: Store, entry: AddAction, rows: Sequence[int]) -> AddAction:
    """Write a split, and return its entry in the log."""
    store.put(entry.path, json.dumps(rows).encode())
    return entry


def merge_all(
    store: Store,
    rows_of: Callable[[SourceSplit], Sequence[int]],
    entry_of: Callable[[str, Sequence[int]], AddAction],
    *,
    lost: type[IndexTablesError] = NotFoundError,
) -> str:
    """Merge all splits that can be merged. `rows_of` reads one and raises `lost` for one that is
    gone.
    """
    log = open_log(store, "merger")

    def execute(work: Sequence[MergeTask]) -> Iterator[MergeOutcome]:
        for task in work:
            sources = task.group.sources
            try:
                rows = [row for source in sources for row in rows_of(source)]
            except lost as error:
                yield MergeOutcome(
                    task.group, failed=(FailedSource(str(error.context.get("path")), "gone"),)
                )
                continue
            entry = entry_of(f"merged-{'-'.join(map(str, rows))}.split", rows)
            yield MergeOutcome(task.group, sources, (put_split(store, entry, rows),))

    planned = merge.plan(
        log.fresh(), url=store.url, bounds=MergeBounds(1 << 30, 1000, 0.45), now_ms=NOW_MS
    )
    return merge.run(planned, log, spec=NOWHERE, settings=SETTINGS, execute=execute).status


def quiet_store(content: Content) -> Store:
    """A store that holds this content and answers every call rightly."""

    def answer(call: tuple[Any, ...]) -> Any:
        return outcomes(dict(content), call)[0][1]

    return SteppedStore(answer)


_read: dict[frozenset[tuple[str, bytes]], list[str]] = {}


def live_paths(content: Content) -> list[str]:
    """The splits that a reader of this content finds. Many schedules end with the same content,
    which is read once.
    """
    key = frozenset((path, data) for path, data in content.items() if not path.endswith(".split"))
    if key not in _read:
        _read[key] = list(
            open_log(quiet_store(content), "reader").newest().all_files.column("path").to_pylist()
        )
    return _read[key]


def forget() -> None:
    """Read everything anew: a test that switches a rule off reads by other rules."""
    _read.clear()


def unseen(
    name: str,
    call: tuple[Any, ...],
    content: Content,
    finished: Mapping[str, Any],
    *,
    cleaners: Collection[str],
) -> bool:
    """Calls whose moment no other actor can tell.

    Manifests and the pointer are read by nobody else in time, states by a truncater after it wrote
    them; and once the other cleaners are done nothing is deleted any more, and what is there can be
    read at any time.
    """
    verb, path = str(call[0]), str(call[1])
    if path.startswith((MANIFESTS, POINTER, CLOCK)):
        return verb != "list"
    if name == "truncater" and "/state-v" in path and verb in ("get", "head"):
        return True
    return set(cleaners) - {name} <= set(finished) and verb in ("get", "head") and path in content


def names(actors: Actors) -> str:
    """What a test of some actors is called."""
    return " beside ".join(actor.__name__ for actor in actors)


def restorer(store: Store) -> Any:
    """Brings version 1 back."""
    log = open_log(store, "restorer")
    return restore.run(restore.plan(log, version=1), log).version


def purger(store: Store, name: str = "purger") -> Any:
    """Deletes whatever nobody needs, however young it is."""
    log = open_log(store, name)
    planned = purge.plan(
        log, retention=Retention(0, 0), settings=RetentionSettings(manifest_hours=0)
    )
    return purge.run(planned, log, settings=PurgeSettings(delete_retries=0, parallelism=1)).status


def unfounded(
    found: list[int], start: Rows, effects: Effects, results: Mapping[str, Any]
) -> str | None:
    """What is wrong with rows that no order of what was acknowledged, with or without what is not
    known, would leave.
    """
    certain = [n for n, r in results.items() if n in effects and not isinstance(r, Exception)]
    doubtful = [n for n, r in results.items() if n in effects and isinstance(r, CommitUnknownError)]
    if found in _possible(start, effects, certain, doubtful):
        return None
    return f"WRONG: {found} after {certain} and perhaps {doubtful}"


def _possible(
    start: Rows, effects: Effects, certain: Sequence[str], doubtful: Sequence[str]
) -> Iterator[list[int]]:
    for count in range(len(doubtful) + 1):
        for some in combinations(doubtful, count):
            for order in permutations([*certain, *some]):
                rows = start
                for name in order:
                    rows = effects[name](rows)
                yield sorted(rows)


def failed(results: Mapping[str, Any], *, stewards: Collection[str]) -> str | None:
    """A failure that is none of ours, or one of a steward that did not just give way to others."""
    for name, result in results.items():
        if isinstance(result, Exception) and not isinstance(result, IndexTablesError):
            return f"{name} failed: {result!r}"
        gave_way = isinstance(result, ConflictError | CommitUnknownError) or (
            isinstance(result, RefusedError) and "stopped after" in str(result)
        )
        if isinstance(result, Exception) and name in stewards and not gave_way:
            return f"{name} failed: {result!r}"
    return None


End = tuple[frozenset[tuple[str, bytes]], tuple[tuple[str, str], ...]]


def ends(
    actors: Mapping[str, Callable[[Store], Any]], start: Content, **more: Any
) -> tuple[set[End], Exploration]:
    """Every content that schedules leave, with the results that go with it."""
    found: set[End] = set()

    def note(content: Content, results: Mapping[str, Any]) -> None:
        found.add(
            (
                frozenset(content.items()),
                tuple((name, repr(result)) for name, result in results.items()),
            )
        )

    explored = explore(actors, note, start=start, **more)
    assert explored.complete
    return found, explored


def every_schedule(
    actors: Actors, check: Check, start: Content, *, faults: int = 0, states: int = 400_000
) -> None:
    """Run actors in every order of their calls, and check what each leaves."""
    named = {actor.__name__: actor for actor in actors}
    found = explore(named, check, start=start, faults=faults, max_states=states)
    print(f"{', '.join(named)}: {found.states:,} states, {found.ends:,} ends")
    assert found.violations == [], found.violations
    assert found.complete
    assert found.ends  # one, where no order makes a difference
