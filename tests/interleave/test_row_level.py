"""Every schedule of deletions, updates and upserts by row beside merges, restorations and purges: what remains is what some
order of the verbs that were acknowledged would have left, no key stands twice, and no live split or vector is missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest

from indextables.config.state import RetentionSettings
from indextables.config.upkeep import PurgeSettings
from indextables.errors import CommitUnknownError, ConflictError, IndexTablesError, NotFoundError
from indextables.log.log_files import version_path
from indextables.log.transaction import Changes, RowDeletion
from indextables.log.transaction_log import TransactionLog
from indextables.model import deletion_vector
from indextables.model.actions import AddAction, CommitInfo, MetadataAction
from indextables.model.conflicts import Operation
from indextables.model.deletion_vector import vector_path
from indextables.model.file_list import to_actions
from indextables.model.protocol import NEW_TABLE_PROTOCOL
from indextables.storage import vector_files
from indextables.storage.store import Store
from indextables.storage.vector_files import VectorWriter, load_vector
from indextables.testing.interleave import NOW_MS, Content, SteppedStore, explore, outcomes
from indextables.upkeep import merge, purge, restore
from indextables.upkeep.merge import FailedSource, MergeBounds, MergeOutcome, MergeTask
from indextables.upkeep.purge import Retention
from indextables.wire import version_file
from tests.interleave.stepped_logs import open_log, unseen
from tests.interleave.test_upkeep import NOWHERE, SCHEMA, SETTINGS, condition, names

START = {"a.split": [0, 2, 4, 6], "b.split": [8, 10]}
CLEANERS = frozenset(("purger",))
Rows = tuple[int, ...]


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
    zero = (
        CommitInfo(txn_id="create", timestamp=0),
        NEW_TABLE_PROTOCOL,
        MetadataAction(id="t", schema_string=SCHEMA, partition_columns=("p",)),
    )
    one = (CommitInfo(txn_id="one", timestamp=1), *(add(path, rows) for path, rows in START.items()))
    files = {version_path(n): version_file.encode(a, compress=False) for n, a in enumerate((zero, one))}
    return {**files, **{path: json.dumps(rows).encode() for path, rows in START.items()}}


def living(store: Store, action: AddAction) -> dict[int, int]:
    """The rows of a split that are part of the table, each with its place in the file."""
    rows = json.loads(store.get(action.path))
    gone = set() if action.deletion_vector is None else set(load_vector(store, action.deletion_vector).tolist())
    return {row: place for place, row in enumerate(rows) if place not in gone}


def written(store: Store, path: str, rows: Sequence[int], **more: Any) -> AddAction:
    store.put(path, json.dumps(rows).encode())
    return add(path, rows, **more)


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
    """Take rows away and add others, as one version; if there are none to take away, others come only if told so."""
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
    adds = [written(store, f"{name}.split", new)] if new and (found or inserts) else []
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


def appender(store: Store) -> Any:
    return change(open_log(store, "appender"), store, "new", Operation.APPEND, [], [12], inserts=True)


def merger(store: Store) -> Any:
    log = open_log(store, "merger")

    def execute(work: Sequence[MergeTask]) -> Iterator[MergeOutcome]:
        for task in work:
            sources = task.group.sources
            try:
                entries = [AddAction(path=s.path, size=0, deletion_vector=s.vector) for s in sources]
                rows = [row for entry in entries for row in living(store, entry)]
            except (NotFoundError, IndexTablesError) as error:
                yield MergeOutcome(task.group, failed=(FailedSource(str(error.context.get("path")), "gone"),))
                continue
            name = f"merged-{'-'.join(map(str, rows))}.split"
            yield MergeOutcome(task.group, sources, (written(store, name, rows, data_change=False),))

    planned = merge.plan(log.fresh(), url=store.url, bounds=MergeBounds(1 << 30, 1000, 0.45), now_ms=NOW_MS)
    return merge.run(planned, log, spec=NOWHERE, settings=SETTINGS, execute=execute).status


def restorer(store: Store) -> Any:
    log = open_log(store, "restorer")
    return restore.run(restore.plan(log, version=1), log).version


def purger(store: Store) -> Any:
    log = open_log(store, "purger")
    planned = purge.plan(log, retention=Retention(0, 0), settings=RetentionSettings(manifest_hours=0))
    return purge.run(planned, log, settings=PurgeSettings(delete_retries=0, parallelism=1)).status


def _without(*gone: int) -> Callable[[Rows], Rows]:
    return lambda rows: tuple(row for row in rows if row not in gone)


EFFECTS: Mapping[str, Callable[[Rows], Rows]] = {
    "deleter_of_2": _without(2),
    "deleter_of_4": _without(4),
    "deleter_of_2_and_8": _without(2, 8),
    "updater_of_2": lambda rows: tuple(22 if row == 2 else row for row in rows),
    "first_upserter": lambda rows: (*_without(50)(rows), 50),
    "second_upserter": lambda rows: (*_without(50)(rows), 50),
    "appender": lambda rows: (*rows, 12),
    "restorer": lambda rows: tuple(row for own in START.values() for row in own),
}


def possible(certain: Sequence[str], doubtful: Sequence[str]) -> Iterator[list[int]]:
    for count in range(len(doubtful) + 1):
        for some in combinations(doubtful, count):
            for order in permutations([*certain, *some]):
                rows: Rows = tuple(row for own in START.values() for row in own)
                for name in order:
                    rows = EFFECTS[name](rows)
                yield sorted(rows)


def check(content: Content, results: Mapping[str, Any]) -> str | None:
    def answer(call: tuple[Any, ...]) -> Any:
        return outcomes(dict(content), call)[0][1]

    store = SteppedStore(answer)
    files = to_actions(open_log(store, "reader").newest().all_files)
    needed = {path for a in files for path in (a.path, vector_path(a.deletion_vector)) if path is not None}
    if needed - set(content):
        return f"GONE: {sorted(needed - set(content))} are part of the table"
    found = sorted(row for action in files for row in living(store, action))
    certain = [n for n, r in results.items() if n in EFFECTS and not isinstance(r, Exception)]
    doubtful = [n for n, r in results.items() if n in EFFECTS and isinstance(r, CommitUnknownError)]
    if found not in possible(certain, doubtful):
        return f"WRONG: {found} after {certain} and perhaps {doubtful}"
    for action in files:
        if action.num_records != len(living(store, action)):
            return f"COUNT: {action.path} is said to have {action.num_records} rows"
    for name, result in results.items():
        if isinstance(result, Exception) and not isinstance(result, IndexTablesError):
            return f"{name} failed: {result!r}"
        gave_way = isinstance(result, ConflictError | CommitUnknownError)
        if isinstance(result, Exception) and name in (*CLEANERS, "merger") and not gave_way:
            return f"{name} failed: {result!r}"
    return None


def run(*actors: Callable[[Store], Any], faults: int = 0, states: int = 400_000) -> None:
    named = {actor.__name__: actor for actor in actors}

    def private(name: str, call: tuple[Any, ...], content: Content, finished: Mapping[str, Any]) -> bool:
        absent = dict.fromkeys(CLEANERS - set(named))
        quiet = not CLEANERS & set(named) - set(finished)
        verbs = ("get", "get_range", "put", "put_if_absent", "head")
        if quiet and str(call[1]).endswith((".split", ".vec")) and call[0] in verbs:
            return True
        return unseen(name, call, content, {**absent, **finished}, cleaners=CLEANERS)

    found = explore(named, check, start=lived_in(), faults=faults, max_states=states, private=private)
    print(f"{', '.join(named)}: {found.states:,} states, {found.ends:,} ends")
    assert found.violations == []
    assert found.complete
    assert found.ends > 1


Actors = tuple[Callable[[Store], Any], ...]
PAIRS: list[Actors] = [
    (deleter_of_2, deleter_of_4),
    (deleter_of_2, deleter_of_2_and_8),
    (deleter_of_2, updater_of_2),
    (updater_of_2, deleter_of_4),
    (deleter_of_2, merger),
    (updater_of_2, merger),
    (deleter_of_2, restorer),
    (deleter_of_2, purger),
    (updater_of_2, purger),
    (first_upserter, second_upserter),
    (first_upserter, appender),
    (first_upserter, merger),
    (first_upserter, purger),
]
TRIPLES: list[Actors] = [
    (deleter_of_2, deleter_of_4, merger),
    (updater_of_2, deleter_of_4, restorer),
    (first_upserter, second_upserter, merger),
    (deleter_of_2, deleter_of_4, purger),
]


@pytest.mark.parametrize("actors", PAIRS, ids=names)
def test_two(actors: Actors) -> None:
    run(*actors)


@pytest.mark.parametrize("actors", [(deleter_of_2, deleter_of_4), (updater_of_2, merger)], ids=names)
def test_two_and_a_fault(actors: Actors) -> None:
    run(*actors, faults=1)


@pytest.mark.slow
@pytest.mark.parametrize("actors", PAIRS, ids=names)
def test_any_two_and_a_fault(actors: Actors) -> None:
    run(*actors, faults=1)


@pytest.mark.slow
@pytest.mark.parametrize("actors", TRIPLES, ids=names)
def test_three(actors: Actors) -> None:
    run(*actors, states=2_000_000)


@pytest.mark.slow
@pytest.mark.parametrize("actors", [actors for actors in TRIPLES if purger not in actors], ids=names)
def test_three_and_a_fault(actors: Actors) -> None:
    run(*actors, faults=1, states=2_000_000)


def test_two_deletions_of_different_rows_both_stand() -> None:
    """In no schedule does one of them give way."""

    def both(content: Content, results: Mapping[str, Any]) -> str | None:
        refused = [name for name, result in results.items() if isinstance(result, Exception)]
        return f"{refused} gave way" if refused else check(content, results)

    actors = {"deleter_of_2": deleter_of_2, "deleter_of_4": deleter_of_4}
    found = explore(actors, both, start=lived_in())
    assert found.violations == []
    assert found.ends > 1
