"""Every schedule of deletions, updates and upserts by row beside merges, restorations and purges:
what remains is what some order of the verbs that were acknowledged would have left, no key stands
twice, and no live split or vector is missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import msgspec
import numpy as np
import pytest

from indextables.errors import CommitUnknownError, IndexTablesError
from indextables.log.transaction import Changes, RowDeletion
from indextables.log.transaction_log import TransactionLog
from indextables.model import deletion_vector
from indextables.model import protocol as protocols
from indextables.model.actions import AddAction
from indextables.model.column_names import NAME_KEY
from indextables.model.conflicts import Operation
from indextables.model.deletion_vector import vector_path
from indextables.model.file_list import to_actions
from indextables.model.protocol import raise_protocol
from indextables.operations import delete
from indextables.operations.rewrite import SourceSplit
from indextables.storage import vector_files
from indextables.storage.store import Store
from indextables.storage.vector_files import VectorWriter, load_vector
from tests.interleave.stepped_logs import (
    SCHEMA,
    Actors,
    Effects,
    Rows,
    condition,
    content_of,
    ends,
    every_schedule,
    failed,
    merge_all,
    names,
    open_log,
    purger,
    put_split,
    quiet_store,
    restorer,
    unfounded,
)
from tests.support.interleave import Content, explore

START = {"a.split": [0, 2, 4, 6], "b.split": [8, 10]}
CLEANERS = frozenset(("purger",))


class _NeverKnown(dict[Any, Any]):
    """What is remembered of vectors: nothing, for other schedules put others under the same name."""

    def __setitem__(self, key: Any, value: Any) -> None:
        return None

    def move_to_end(self, key: Any) -> None:
        return None


@pytest.fixture(autouse=True)
def vectors_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every vector lies in a file, however small it is: what is in the log cannot be lost."""
    monkeypatch.setattr(deletion_vector, "INLINE_BYTES", 0)
    monkeypatch.setattr(vector_files, "_known", _NeverKnown())


def add(path: str, rows: Sequence[int], **more: Any) -> AddAction:
    return AddAction(
        path=path,
        size=len(json.dumps(rows)),
        partition_values={"p": "0"},
        num_records=len(rows),
        min_values={"id": str(min(rows))},
        max_values={"id": str(max(rows))},
        stats=json.dumps({"numRecords": len(rows), "nullCount": {"id": 0}}),
        **more,
    )


def lived_in() -> Content:
    return content_of([[add(path, rows) for path, rows in START.items()]], START)


def living(store: Store, action: AddAction) -> dict[int, int]:
    """The rows of a split that are part of the table, each with its place in the file."""
    rows = json.loads(store.get(action.path))
    gone = (
        set()
        if action.deletion_vector is None
        else set(load_vector(store, action.deletion_vector).tolist())
    )
    return {row: place for place, row in enumerate(rows) if place not in gone}


def change(
    log: TransactionLog,
    store: Store,
    name: str,
    operation: Operation,
    dropped: Sequence[int],
    new: Sequence[int],
    *,
    inserts: bool = False,
    **more: Any,
) -> Any:
    """Take rows away and add others, as one version; if there are none to take away, others come
    only if told so.
    """
    read = log.fresh()
    deletions = []
    found: set[int] = set()
    for action in to_actions(read.all_files):
        rows = living(store, action)
        places = sorted(rows[row] for row in dropped if row in rows)
        found |= set(dropped) & set(rows)
        if places:
            stored = (action.num_records or 0) + (action.deleted_records or 0)
            deletions.append(RowDeletion(action.path, np.array(places), stored))
    adds = [put_split(store, add(f"{name}.split", new), new)] if new and (found or inserts) else []
    numbers = iter(range(100))
    changes = Changes(
        operation,
        adds=adds,
        deletions=deletions,
        writer=VectorWriter(store, lambda: f"{name}-{next(numbers)}"),
        **more,
    )
    return log.commit(read, changes, written=[a.path for a in adds], keep_up=False).version


def deleter_of_2(store: Store) -> Any:
    return change(open_log(store, "d2"), store, "d2", Operation.DELETE, [2], [])


def deleter_of_4(store: Store) -> Any:
    return change(open_log(store, "d4"), store, "d4", Operation.DELETE, [4], [])


def deleter_of_2_and_8(store: Store) -> Any:
    return change(open_log(store, "d28"), store, "d28", Operation.DELETE, [2, 8], [])


def updater_of_2(store: Store) -> Any:
    return change(open_log(store, "u2"), store, "u2", Operation.UPDATE, [2], [22])


def upserter(name: str) -> Callable[[Store], Any]:
    """Writes row 50, in place of one that is there."""

    def run(store: Store) -> Any:
        log, keys = open_log(store, name), condition("id = 50")
        return change(log, store, name, Operation.UPSERT, [50], [50], inserts=True, keys=keys)

    run.__name__ = name
    return run


first_upserter, second_upserter = upserter("first_upserter"), upserter("second_upserter")


def upserter_of_2(store: Store) -> Any:
    """Writes row 2, which is there unless somebody takes it away."""
    log, keys = open_log(store, "up2"), condition("id = 2")
    return change(log, store, "up2", Operation.UPSERT, [2], [2], inserts=True, keys=keys)


def appender(store: Store) -> Any:
    return change(
        open_log(store, "appender"), store, "new", Operation.APPEND, [], [12], inserts=True
    )


def expirer(store: Store) -> Any:
    """Lets every row above 5 go: one split as a whole by its bounds, and what of another is on this
    side of the edge.
    """
    log = open_log(store, "expirer")
    read = log.fresh()
    planned = delete.plan(read, url=store.url, where=condition("id > 5"))
    deletions = []
    for action in to_actions(read.all_files):
        if action.path in planned.candidates:
            places = sorted(place for row, place in living(store, action).items() if row > 5)
            stored = (action.num_records or 0) + (action.deleted_records or 0)
            deletions += [RowDeletion(action.path, np.array(places), stored)] if places else []
    numbers = iter(range(100))
    changes = Changes(
        Operation.DELETE,
        removes=planned.removed_splits,
        vectors=planned.vectors,
        deletions=deletions,
        writer=VectorWriter(store, lambda: f"expirer-{next(numbers)}"),
    )
    return log.commit(read, changes, keep_up=False).version


ALTERED = json.dumps(
    {
        **json.loads(SCHEMA),
        "fields": [
            {**field, "metadata": {NAME_KEY: "key"} if field["name"] == "id" else {}}
            for field in json.loads(SCHEMA)["fields"]
        ],
    }
)


def alterer(store: Store) -> Any:
    """Gives a column another name."""
    log = open_log(store, "alterer")
    read = log.fresh()
    protocol = raise_protocol(
        read.header.protocol,
        min_reader_version=4,
        min_writer_version=4,
        features=(protocols.COLUMN_MAPPING,),
    )
    metadata = msgspec.structs.replace(read.metadata, schema_string=ALTERED)
    return log.commit(
        read, Changes(Operation.ALTER, metadata=metadata, protocol=protocol), keep_up=False
    ).version


def merger(store: Store) -> Any:
    def rows_of(source: SourceSplit) -> Sequence[int]:
        return [*living(store, AddAction(path=source.path, size=0, deletion_vector=source.vector))]

    # A vector that is gone is damage; a split that is gone is not found.
    return merge_all(
        store, rows_of, lambda path, rows: add(path, rows, data_change=False), lost=IndexTablesError
    )


def _without(*gone: int) -> Callable[[Rows], Rows]:
    return lambda rows: tuple(row for row in rows if row not in gone)


EFFECTS: Effects = {
    "deleter_of_2": _without(2),
    "deleter_of_4": _without(4),
    "deleter_of_2_and_8": _without(2, 8),
    "updater_of_2": lambda rows: tuple(22 if row == 2 else row for row in rows),
    "first_upserter": lambda rows: (*_without(50)(rows), 50),
    "second_upserter": lambda rows: (*_without(50)(rows), 50),
    "upserter_of_2": lambda rows: (*_without(2)(rows), 2),
    "appender": lambda rows: (*rows, 12),
    "expirer": lambda rows: tuple(row for row in rows if row <= 5),
    "restorer": lambda rows: tuple(row for own in START.values() for row in own),
}


def check(content: Content, results: Mapping[str, Any]) -> str | None:
    store = quiet_store(content)
    files = to_actions(open_log(store, "reader").newest().all_files)
    needed = {
        path for a in files for path in (a.path, vector_path(a.deletion_vector)) if path is not None
    }
    if needed - set(content):
        return f"GONE: {sorted(needed - set(content))} are part of the table"
    found = sorted(row for action in files for row in living(store, action))
    wrong = unfounded(found, tuple(row for own in START.values() for row in own), EFFECTS, results)
    if wrong is not None:
        return wrong
    for action in files:
        if action.num_records != len(living(store, action)):
            return f"COUNT: {action.path} is said to have {action.num_records} rows"
    if isinstance(results.get("alterer"), int) and not isinstance(results.get("restorer"), int):
        schema = open_log(store, "reader").newest().metadata.schema_string
        if schema != ALTERED and not isinstance(results.get("restorer"), CommitUnknownError):
            return f"UNALTERED: {schema}"
    return failed(results, stewards=(*CLEANERS, "merger"))


def run(*actors: Callable[[Store], Any], faults: int = 0, states: int = 400_000) -> None:
    every_schedule(actors, check, lived_in(), faults=faults, states=states)


VERBS: Actors = (deleter_of_2, updater_of_2, upserter_of_2, merger, restorer, purger, expirer)
PAIRS: list[Actors] = [*combinations(VERBS, 2)]
PAIRS += [
    (deleter_of_2, deleter_of_4),
    (deleter_of_2, deleter_of_2_and_8),
    (updater_of_2, deleter_of_4),
    (first_upserter, second_upserter),
    (first_upserter, appender),
    (first_upserter, merger),
    (first_upserter, purger),
    (first_upserter, expirer),
    (expirer, deleter_of_2_and_8),
    *((alterer, verb) for verb in VERBS),
]
TRIPLES: list[Actors] = [*combinations(VERBS, 3)]
TRIPLES += [
    (deleter_of_2, deleter_of_4, merger),
    (updater_of_2, deleter_of_4, restorer),
    (first_upserter, second_upserter, merger),
    (deleter_of_2, deleter_of_4, purger),
    (expirer, deleter_of_4, merger),
    (alterer, expirer, merger),
    (alterer, updater_of_2, first_upserter),
]


@pytest.mark.parametrize("actors", PAIRS, ids=names)
def test_two(actors: Actors) -> None:
    run(*actors)


@pytest.mark.parametrize(
    "actors", [(deleter_of_2, deleter_of_4), (updater_of_2, merger), (expirer, alterer)], ids=names
)
def test_two_and_a_fault(actors: Actors) -> None:
    run(*actors, faults=1)


def test_three_with_a_purge_and_a_fault() -> None:
    run(merger, restorer, purger, faults=1)


@pytest.mark.slow
@pytest.mark.parametrize("actors", PAIRS, ids=names)
def test_any_two_and_a_fault(actors: Actors) -> None:
    run(*actors, faults=1)


def same_ends(*actors: Callable[[Store], Any], faults: int) -> None:
    named = {actor.__name__: actor for actor in actors}
    reduced, few = ends(named, lived_in(), faults=faults)
    every, many = ends(named, lived_in(), faults=faults, every_order=True, max_states=2_000_000)
    print(f"{names(actors)}: {few.states:,} of {many.states:,} states")
    assert reduced == every
    assert few.states < many.states


@pytest.mark.parametrize(
    "actors", [(updater_of_2, purger), (deleter_of_2, deleter_of_4)], ids=names
)
def test_no_end_is_lost_by_leaving_out_orders(actors: Actors) -> None:
    same_ends(*actors, faults=1)


@pytest.mark.slow
@pytest.mark.parametrize("actors", PAIRS, ids=names)
def test_no_end_of_any_two_is_lost_by_leaving_out_orders(actors: Actors) -> None:
    same_ends(*actors, faults=1)


@pytest.mark.slow
@pytest.mark.parametrize("actors", TRIPLES, ids=names)
def test_no_end_of_any_three_is_lost_by_leaving_out_orders(actors: Actors) -> None:
    same_ends(*actors, faults=0)


@pytest.mark.slow
@pytest.mark.parametrize("actors", TRIPLES, ids=names)
def test_three(actors: Actors) -> None:
    run(*actors)


@pytest.mark.slow
@pytest.mark.parametrize("actors", TRIPLES, ids=names)
def test_three_and_a_fault(actors: Actors) -> None:
    run(*actors, faults=1)


def test_two_deletions_of_different_rows_both_stand() -> None:
    """In no schedule does one of them give way."""

    def both(content: Content, results: Mapping[str, Any]) -> str | None:
        refused = [name for name, result in results.items() if isinstance(result, Exception)]
        return f"{refused} gave way" if refused else check(content, results)

    actors = {"deleter_of_2": deleter_of_2, "deleter_of_4": deleter_of_4}
    found = explore(actors, both, start=lived_in())
    assert found.violations == []
    assert found.ends > 1
