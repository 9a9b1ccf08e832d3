"""Every schedule of upkeep beside writers, over splits that hold rows: what remains is what some order of the verbs that were
acknowledged would have left, no row is lost or doubled, and no live split is missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, combinations, permutations
from typing import Any

import pyarrow as pa
import pytest

from indextables import config
from indextables.config.state import RetentionSettings
from indextables.config.upkeep import PurgeSettings
from indextables.errors import CommitUnknownError, ConflictError, IndexTablesError, NotFoundError
from indextables.log.checkpoint.state_files import every_file
from indextables.log.log_files import version_path
from indextables.log.transaction import Changes
from indextables.model import conflicts
from indextables.model.actions import AddAction, CommitInfo, MetadataAction, RemoveAction
from indextables.model.conflicts import Operation
from indextables.model.file_list import to_actions
from indextables.model.predicate import Predicate, bind, parse
from indextables.model.protocol import NEW_TABLE_PROTOCOL
from indextables.model.schema import schema_from_json
from indextables.model.snapshot import Snapshot
from indextables.storage.spec import StoreSpec
from indextables.storage.store import Store
from indextables.testing.interleave import NOW_MS, Content, explore
from indextables.upkeep import delete, drop_partitions, merge, purge, restore, truncate
from indextables.upkeep.delete import DeleteOutcome, DeleteTask
from indextables.upkeep.merge import FailedSource, MergeBounds, MergeOutcome, MergeTask
from indextables.upkeep.purge import Retention
from indextables.wire import version_file
from tests.interleave.stepped_logs import live_paths, open_log, unseen

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in (("id", "long"), ("p", "integer"))
        ],
    }
)
SETTINGS = config.resolve(options={"merge.parallelism": 1})
NOWHERE = StoreSpec("memory://nowhere")
PAST, CLEANERS = {"old.split": [7]}, frozenset(("purger", "second_purger", "truncater"))
START = {"a.split": [0, 2], "b.split": [4], "c.split": [1, 3]}
ADDED, REPLACED = [6], [8, 9]
EMPTY = pa.table({"path": []})


def add(path: str, rows: Sequence[int], **more: Any) -> AddAction:
    return AddAction(path=path, size=len(json.dumps(rows)), partition_values={"p": str(rows[0] % 2)}, **more)


def lived_in() -> Content:
    """Version 1 had a split that version 2 replaced by those of now: even rows in one partition, odd ones in the other."""
    zero = (
        CommitInfo(txn_id="create", timestamp=0),
        NEW_TABLE_PROTOCOL,
        MetadataAction(id="t", schema_string=SCHEMA, partition_columns=("p",)),
    )
    one = (CommitInfo(txn_id="one", timestamp=1), *(add(path, rows) for path, rows in PAST.items()))
    two = (
        CommitInfo(txn_id="two", timestamp=2),
        *(RemoveAction(path=path) for path in PAST),
        *(add(path, rows) for path, rows in START.items()),
    )
    files = {version_path(n): version_file.encode(a, compress=False) for n, a in enumerate((zero, one, two))}
    return {**files, **{path: json.dumps(rows).encode() for path, rows in {**PAST, **START}.items()}}


def condition(text: str) -> Predicate:
    return bind(parse(text), schema_from_json(SCHEMA))


def written(store: Store, path: str, rows: Sequence[int], **more: Any) -> AddAction:
    store.put(path, json.dumps(rows).encode())
    return add(path, rows, **more)


def appender(store: Store) -> Any:
    log = open_log(store, "appender")
    read = log.newest()
    changes = Changes(Operation.APPEND, adds=[written(store, "new.split", ADDED)])
    return log.commit(read, changes, keep_up=False).version


def overwriter(store: Store) -> Any:
    log = open_log(store, "overwriter")
    read = log.newest()
    adds = [written(store, f"over-{row}.split", [row]) for row in REPLACED]
    return log.commit(read, Changes(Operation.OVERWRITE, adds=adds, selected=every_file), keep_up=False).version


def merger(store: Store) -> Any:
    log = open_log(store, "merger")

    def execute(work: Sequence[MergeTask]) -> Iterator[MergeOutcome]:
        for task in work:
            sources = task.group.sources
            try:
                rows = [row for source in sources for row in json.loads(store.get(source.path))]
            except NotFoundError as error:
                yield MergeOutcome(task.group, failed=(FailedSource(str(error.context["path"]), "gone"),))
                continue
            name = f"merged-{len(sources)}-{rows[0]}.split"
            yield MergeOutcome(task.group, sources, (written(store, name, rows, data_change=False),))

    bounds = MergeBounds(1 << 30, 1000, 0.45)
    planned = merge.plan(log.fresh(), url=store.url, bounds=bounds, now_ms=NOW_MS)
    return merge.run(planned, log, spec=NOWHERE, settings=SETTINGS, execute=execute).status


def deleter(store: Store) -> Any:
    log = open_log(store, "deleter")

    def execute(work: Sequence[DeleteTask]) -> Iterator[DeleteOutcome]:
        for task in work:
            rows = json.loads(store.get(task.source.path))
            rest = [row for row in rows if row != 2]
            some = rest and len(rest) < len(rows)
            added = written(store, f"rest-of-{task.source.path}", rest) if some else None
            yield DeleteOutcome(task.source.path, len(rows) - len(rest), added)

    planned = delete.plan(log.fresh(), url=store.url, where=condition("id = 2 AND p = 0"))
    return delete.run(planned, log, spec=NOWHERE, settings=SETTINGS, execute=execute).status


def dropper(store: Store) -> Any:
    log = open_log(store, "dropper")
    return drop_partitions.run(drop_partitions.plan(log, condition("p = 0")), log).status


def restorer(store: Store) -> Any:
    log = open_log(store, "restorer")
    return restore.run(restore.plan(log, version=1), log).version


def purger(store: Store) -> Any:
    log = open_log(store, "purger")
    planned = purge.plan(log, retention=Retention(0, 0), settings=RetentionSettings(manifest_hours=0))
    return purge.run(planned, log, settings=PurgeSettings(delete_retries=0, parallelism=1)).status


def second_purger(store: Store) -> Any:
    log = open_log(store, "second")
    planned = purge.plan(log, retention=Retention(0, 0), settings=RetentionSettings(manifest_hours=0))
    return purge.run(planned, log, settings=PurgeSettings(delete_retries=0, parallelism=1)).status


def truncater(store: Store) -> Any:
    log = open_log(store, "truncater")
    return truncate.run(truncate.plan(log, settings=RetentionSettings(manifest_hours=0)), log).status


def reader(store: Store) -> Any:
    """Version 1, as somebody reads it who opened it by its number."""
    log = open_log(store, "reader")
    paths = log.at_version(1).all_files.column("path").to_pylist()
    return sorted(row for path in paths for row in json.loads(store.get(path)))


Rows = tuple[int, ...]
EFFECTS: Mapping[str, Callable[[Rows], Rows]] = {
    "appender": lambda rows: (*rows, *ADDED),
    "overwriter": lambda rows: tuple(REPLACED),
    "deleter": lambda rows: tuple(row for row in rows if row != 2),
    "dropper": lambda rows: tuple(row for row in rows if row % 2),
    "restorer": lambda rows: tuple(chain(*PAST.values())),
}


def possible(certain: Sequence[str], doubtful: Sequence[str]) -> Iterator[list[int]]:
    """The rows after every order of what was acknowledged, with and without what is not known."""
    for count in range(len(doubtful) + 1):
        for some in combinations(doubtful, count):
            for order in permutations([*certain, *some]):
                rows: Rows = tuple(chain(*START.values()))
                for name in order:
                    rows = EFFECTS[name](rows)
                yield sorted(rows)


def check(content: Content, results: Mapping[str, Any]) -> str | None:
    live = live_paths(content)
    missing = [path for path in live if path not in content]
    if missing:
        return f"GONE: {missing} are part of the table"
    certain = [n for n, r in results.items() if n in EFFECTS and not isinstance(r, Exception)]
    doubtful = [n for n, r in results.items() if n in EFFECTS and isinstance(r, CommitUnknownError)]
    found = sorted(row for path in live for row in json.loads(content[path]))
    if found not in possible(certain, doubtful):
        return f"WRONG: {found} after {certain} and perhaps {doubtful}"
    if isinstance(results.get("reader"), list) and results["reader"] != sorted(chain(*PAST.values())):
        return f"TORN: the reader saw {results['reader']}"
    for name, result in results.items():
        if isinstance(result, Exception) and not isinstance(result, IndexTablesError):
            return f"{name} failed: {result!r}"
        if (
            isinstance(result, Exception)
            and name in (*CLEANERS, "merger")
            and not isinstance(result, ConflictError | CommitUnknownError)
        ):
            return f"{name} failed: {result!r}"
    return None


def run(*actors: Callable[[Store], Any], faults: int = 0, states: int = 400_000) -> None:
    named = {actor.__name__: actor for actor in actors}

    def without_cleaners(name: str, call: tuple[Any, ...], content: Content, finished: Mapping[str, Any]) -> bool:
        absent = dict.fromkeys(CLEANERS - set(named))
        quiet = not CLEANERS & set(named) - set(finished)
        if quiet and str(call[1]).endswith(".split") and call[0] in ("get", "put", "head"):
            return True
        return unseen(name, call, content, {**absent, **finished}, cleaners=CLEANERS)

    found = explore(named, check, start=lived_in(), faults=faults, max_states=states, private=without_cleaners)
    print(f"{', '.join(named)}: {found.states:,} states, {found.ends:,} ends")
    assert found.violations == []
    assert found.complete
    assert found.ends > 1


Actors = tuple[Callable[[Store], Any], ...]
PAIRS: list[Actors] = [
    (deleter, merger),
    (dropper, merger),
    (dropper, appender),
    (overwriter, merger),
    (overwriter, deleter),
    (restorer, merger),
    (restorer, deleter),
    (deleter, purger),
    (overwriter, purger),
    (merger, purger),
    (purger, second_purger),
    (reader, truncater),
    (reader, purger),
]
TRIPLES: list[Actors] = [
    (deleter, merger, appender),
    (dropper, merger, appender),
    (restorer, merger, deleter),
    (restorer, merger, purger),
]
LARGE: list[Actors] = [
    (deleter, merger, purger),
    (overwriter, merger, purger),
    (appender, dropper, purger),
    (appender, purger, second_purger),
]


def names(actors: Actors) -> str:
    return " beside ".join(actor.__name__ for actor in actors)


@pytest.mark.parametrize("actors", PAIRS, ids=names)
def test_two(actors: Actors) -> None:
    run(*actors)


@pytest.mark.parametrize("actors", [(deleter, merger), (dropper, appender), (restorer, merger)], ids=names)
def test_two_and_a_fault(actors: Actors) -> None:
    run(*actors, faults=1)


@pytest.mark.slow
@pytest.mark.parametrize("actors", PAIRS, ids=names)
def test_any_two_and_a_fault(actors: Actors) -> None:
    run(*actors, faults=1)


@pytest.mark.parametrize("faults", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_merge_beside_a_truncation(faults: int) -> None:
    run(merger, truncater, faults=faults)


@pytest.mark.parametrize("actors", TRIPLES, ids=names)
def test_three(actors: Actors) -> None:
    run(*actors)


@pytest.mark.slow
@pytest.mark.parametrize("actors", LARGE, ids=names)
def test_three_with_many_schedules(actors: Actors) -> None:
    run(*actors)


@pytest.mark.parametrize("actors", [(deleter, merger), (overwriter, merger)], ids=names)
def test_without_looking_whether_the_sources_are_live_rows_come_back(
    actors: Actors, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trusting(self: Changes, snapshot: Snapshot) -> list[AddAction]:
        wanted = set(self.removes) | set(
            (self.selected(snapshot) if self.selected else EMPTY).column("path").to_pylist()
        )
        return [action for action in to_actions(snapshot.all_files) if action.path in wanted]

    monkeypatch.setattr(conflicts, "_reason", lambda *args: None)
    monkeypatch.setattr(Changes, "_removals", trusting)
    with pytest.raises(AssertionError, match="WRONG"):
        run(*actors)
