"""Every schedule of upkeep beside writers, over splits that hold rows: what remains is what some
order of the verbs that were acknowledged would have left, no row is lost or doubled, and no live
split is missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest

from indextables.config.log import RetentionSettings
from indextables.errors import VersionNotFoundError
from indextables.log.live_files import every_file
from indextables.log.transaction import Changes
from indextables.model import conflicts
from indextables.model.actions import AddAction, RemoveAction
from indextables.model.conflicts import Operation
from indextables.model.file_list import to_actions
from indextables.model.snapshot import Snapshot
from indextables.operations import delete, drop_partitions, tags, truncate
from indextables.operations.rewrite import SourceSplit
from indextables.operations.row_removal import DeleteOutcome, DeleteTask
from indextables.storage.store import Store
from tests.interleave.stepped_logs import (
    NOWHERE,
    SETTINGS,
    Actors,
    Effects,
    condition,
    content_of,
    every_schedule,
    failed,
    live_paths,
    merge_all,
    names,
    open_log,
    purger,
    put_split,
    quiet_store,
    restorer,
    unfounded,
)
from tests.support.interleave import Content

PAST, CLEANERS = {"old.split": [7]}, frozenset(("purger", "second_purger", "truncater"))
START = {"a.split": [0, 2], "b.split": [4], "c.split": [1, 3]}
ADDED, REPLACED = [6], [8, 9]
EMPTY = pa.table({"path": []})


def add(path: str, rows: Sequence[int], **more: Any) -> AddAction:
    return AddAction(
        path=path, size=len(json.dumps(rows)), partition_values={"p": str(rows[0] % 2)}, **more
    )


def lived_in() -> Content:
    """Version 1 had a split that version 2 replaced by those of now: even rows in one partition,
    odd ones in the other.
    """
    one = [add(path, rows) for path, rows in PAST.items()]
    two = [
        *(RemoveAction(path=path) for path in PAST),
        *(add(path, rows) for path, rows in START.items()),
    ]
    return content_of([one, two], {**PAST, **START})


def written(store: Store, path: str, rows: Sequence[int]) -> AddAction:
    return put_split(store, add(path, rows), rows)


def appender(store: Store) -> Any:
    log = open_log(store, "appender")
    read = log.newest()
    changes = Changes(Operation.APPEND, adds=[written(store, "new.split", ADDED)])
    return log.commit(read, changes, keep_up=False).version


def overwriter(store: Store) -> Any:
    log = open_log(store, "overwriter")
    read = log.newest()
    adds = [written(store, f"over-{row}.split", [row]) for row in REPLACED]
    return log.commit(
        read, Changes(Operation.OVERWRITE, adds=adds, selected=every_file), keep_up=False
    ).version


def merger(store: Store) -> Any:
    def rows_of(source: SourceSplit) -> Sequence[int]:
        return [int(row) for row in json.loads(store.get(source.path))]

    return merge_all(store, rows_of, lambda path, rows: add(path, rows, data_change=False))


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


def second_purger(store: Store) -> Any:
    return purger(store, "second")


def truncater(store: Store) -> Any:
    log = open_log(store, "truncater")
    return truncate.run(
        truncate.plan(log, settings=RetentionSettings(manifest_hours=0)), log
    ).status


def tagger(store: Store) -> Any:
    """Gives version 1 a name, whose split nobody else needs."""
    return tags.tag(open_log(store, "tagger"), "kept", 1, engine_info="test")


def reader(store: Store) -> Any:
    """Version 1, as somebody reads it who opened it by its number."""
    log = open_log(store, "reader")
    paths = log.at_version(1).all_files.column("path").to_pylist()
    return sorted(row for path in paths for row in json.loads(store.get(path)))


EFFECTS: Effects = {
    "appender": lambda rows: (*rows, *ADDED),
    "overwriter": lambda rows: tuple(REPLACED),
    "deleter": lambda rows: tuple(row for row in rows if row != 2),
    "dropper": lambda rows: tuple(row for row in rows if row % 2),
    "restorer": lambda rows: tuple(chain(*PAST.values())),
}


def check(content: Content, results: Mapping[str, Any]) -> str | None:
    live = live_paths(content)
    missing = [path for path in live if path not in content]
    if missing:
        return f"GONE: {missing} are part of the table"
    found = sorted(row for path in live for row in json.loads(content[path]))
    wrong = unfounded(found, tuple(chain(*START.values())), EFFECTS, results)
    if wrong is not None:
        return wrong
    if isinstance(results.get("reader"), list) and results["reader"] != sorted(
        chain(*PAST.values())
    ):
        return f"TORN: the reader saw {results['reader']}"
    return lost_tag(content, results) or failed(results, stewards=(*CLEANERS, "merger"))


def lost_tag(content: Content, results: Mapping[str, Any]) -> str | None:
    """A version that was said to be tagged can be read, and all of its splits are there."""
    if not isinstance(results.get("tagger"), int):
        return None
    log = open_log(quiet_store(content), "reader")
    if log.newest().header.tags != {"kept": 1}:
        return f"UNTAGGED: {log.newest().header.tags}"
    try:
        paths = log.at_version(1).all_files.column("path").to_pylist()
    except VersionNotFoundError as gone:
        # No record in the log tells of a truncation; the tag then says that its version is gone
        # (docs/how-to/change.md).
        return None if "truncater" in results else f"LOST: {gone}"
    return None if paths == [*PAST] and set(paths) <= set(content) else f"LOST: {paths}"


def run(*actors: Callable[[Store], Any], faults: int = 0, states: int = 400_000) -> None:
    every_schedule(actors, check, lived_in(), faults=faults, states=states)


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
    (tagger, appender),
    (tagger, restorer),
    (tagger, purger),
    (tagger, truncater),
]
TRIPLES: list[Actors] = [
    (deleter, merger, appender),
    (dropper, merger, appender),
    (restorer, merger, deleter),
    (restorer, merger, purger),
]
LARGE: list[Actors] = [
    (tagger, purger, appender),
    (deleter, merger, purger),
    (overwriter, merger, purger),
    (appender, dropper, purger),
]


@pytest.mark.parametrize("actors", PAIRS, ids=names)
def test_two(actors: Actors) -> None:
    run(*actors)


@pytest.mark.parametrize(
    "actors", [(deleter, merger), (dropper, appender), (restorer, merger)], ids=names
)
def test_two_and_a_fault(actors: Actors) -> None:
    run(*actors, faults=1)


@pytest.mark.slow
@pytest.mark.parametrize("actors", PAIRS, ids=names)
def test_any_two_and_a_fault(actors: Actors) -> None:
    run(*actors, faults=1, states=2_000_000)


@pytest.mark.parametrize("faults", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_merge_beside_a_truncation(faults: int) -> None:
    run(merger, truncater, faults=faults)


@pytest.mark.parametrize("actors", TRIPLES, ids=names)
def test_three(actors: Actors) -> None:
    run(*actors)


@pytest.mark.slow
@pytest.mark.parametrize("actors", LARGE, ids=names)
def test_three_with_many_schedules(actors: Actors) -> None:
    run(*actors, states=2_000_000)


@pytest.mark.slow
def test_an_appender_and_two_purgers() -> None:
    run(appender, purger, second_purger, states=4_000_000)


@pytest.mark.parametrize("actors", [(deleter, merger), (overwriter, merger)], ids=names)
def test_without_looking_whether_the_sources_are_live_rows_come_back(
    actors: Actors, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trusting(self: Changes, snapshot: Snapshot) -> list[AddAction]:
        wanted = set(self.removes) | set(
            (self.selected(snapshot) if self.selected else EMPTY).column("path").to_pylist()
        )
        return [action for action in to_actions(snapshot.all_files) if action.path in wanted]

    monkeypatch.setattr(conflicts, "_decide", lambda *args: None)
    monkeypatch.setattr(Changes, "_removals", trusting)
    with pytest.raises(AssertionError, match="WRONG"):
        run(*actors)
