"""Whatever storage call fails, and however: the table holds exactly what was acknowledged, and the
verb can be repeated.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from indextables import Table
from indextables.errors import CommitUnknownError, ConflictError, IndexTablesError, StorageError
from indextables.storage.local import LocalStore
from indextables.storage.store import PutOutcome, Store
from tests.support.faulty_store import Effect, Fault, FaultyStore
from tests.support.tables import append, create_on, live, merge, open_on, split

PUT_EFFECTS = (Effect.UNKNOWN_BEFORE, Effect.UNKNOWN_AFTER, Effect.LOST, Effect.CONFLICT)


def skip(table: Table) -> None:
    with table.transaction(operation="SKIP") as tx:
        tx.skip("splits/s1.split", reason="broken")


def exactly_once(table: Table) -> None:
    with table.transaction(txn=("q", 1), check_splits=False) as tx:
        tx.add(split("new"))


def skipped(table: Table) -> int:
    return int(table.skipped_files().num_rows)


def recorded(table: Table) -> int:
    return len(table.handle.snapshot.header.txns)


VERBS: dict[str, tuple[Callable[[Table], object], Callable[[Table], object], object, object]] = {
    # verb: (do it, look at it, what it shows before, what it shows after)
    "append": (lambda t: append(t, "new"), live, {"s1", "s2"}, {"s1", "s2", "new"}),
    "merge": (lambda t: merge(t, ["s1", "s2"], "m"), live, {"s1", "s2"}, {"m"}),
    "metadata": (lambda t: t.update_metadata(name="n"), lambda t: t.metadata.name, None, "n"),
    "skip": (skip, skipped, 0, 1),
    "txn": (exactly_once, recorded, 0, 1),
}


def prepared(root: Path) -> Store:
    store = LocalStore(str(root))
    append(create_on(store), "s1", "s2")
    return store


def calls_of(root: Path, act: Callable[[Table], object]) -> int:
    store = FaultyStore(prepared(root))
    table = open_on(store)
    before = len(store.calls)
    act(table)
    return len(store.calls) - before


@pytest.mark.parametrize("verb", VERBS)
def test_the_kth_call_fails(tmp_path: Path, verb: str) -> None:
    act, look, before, after = VERBS[verb]
    count = calls_of(tmp_path / "count", act)
    tried = 0
    for k in range(1, count + 1):
        for effect in (Effect.FAIL_BEFORE, Effect.FAIL_AFTER, *PUT_EFFECTS):
            inner = prepared(tmp_path / f"{k}-{effect.name}")
            opened = open_on(FaultyStore(inner))
            faulty = opened.handle.log.store
            assert isinstance(faulty, FaultyStore)
            put_only = "put_if_absent" if effect in PUT_EFFECTS else None
            if put_only and k > 1:
                continue
            faulty._faults, faulty._seen = [Fault(put_only, at=k, effect=effect)], [0]
            tried += 1
            try:
                act(opened)
                allowed = [after]
            except CommitUnknownError:
                allowed = [before, after]
            except StorageError:
                allowed = [before]
            assert look(open_on(inner)) in allowed, (k, effect)
            faulty.off()
            if look(open_on(inner)) != after:
                act(open_on(inner))
            assert look(open_on(inner)) == after, (k, effect)
    assert tried >= count * 2


@pytest.mark.parametrize("effect", [Effect.FAIL_BEFORE, Effect.FAIL_AFTER])
def test_reading_never_takes_an_error_for_absence(tmp_path: Path, effect: Effect) -> None:
    inner = prepared(tmp_path)
    counting = FaultyStore(inner)
    open_on(counting)
    for k in range(1, len(counting.calls) + 1):
        with pytest.raises(StorageError):
            open_on(FaultyStore(inner, [Fault(at=k, effect=effect, times=100)]))


def test_two_hundred_commits_with_a_misleading_answer_each(tmp_path: Path) -> None:
    inner = LocalStore(str(tmp_path))
    table = create_on(inner)
    rng = random.Random(11)
    for n in range(200):
        fault = Fault(
            "put_if_absent",
            effect=rng.choice([*PUT_EFFECTS, Effect.FAIL_BEFORE, Effect.FAIL_AFTER]),
        )
        append(open_on(FaultyStore(inner, [fault])), f"n{n}")
    table = open_on(inner)
    assert table.version == 200
    assert live(table) == {f"n{n}" for n in range(200)}
    assert table.history().num_rows == 201


def test_a_store_that_never_answers_is_unknown_and_nothing_is_cleaned(tmp_path: Path) -> None:
    inner = prepared(tmp_path)
    table = open_on(FaultyStore(inner), attempts=3)
    faulty = table.handle.log.store
    assert isinstance(faulty, FaultyStore)
    faulty._faults, faulty._seen = (
        [Fault("put_if_absent", effect=Effect.UNKNOWN_AFTER), Fault("get", times=99)],
        [0, 0],
    )
    with pytest.raises(CommitUnknownError) as caught:
        append(table, "new")
    assert caught.value.context["version"] == 2
    assert live(open_on(inner)) == {"s1", "s2", "new"}


def test_giving_up_after_other_writers_says_so(tmp_path: Path) -> None:
    inner = prepared(tmp_path)
    table = open_on(inner, attempts=1)

    class Racing(FaultyStore):
        def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
            append(open_on(self.inner), f"other{len(self.calls)}")
            return super().put_if_absent(path, data)

    table.handle.log.context.store = Racing(inner)
    with pytest.raises(ConflictError, match="were first 1 times") as caught:
        append(table, "new")
    assert "transaction.retry.maxAttempts" in caught.value.hint
    assert "new" not in live(open_on(inner))


def test_an_error_before_anything_was_written_is_passed_on(tmp_path: Path) -> None:
    inner = prepared(tmp_path)
    table = open_on(FaultyStore(inner))
    faulty = table.handle.log.store
    assert isinstance(faulty, FaultyStore)
    faulty._faults, faulty._seen = [Fault("list", times=99), Fault("head", times=99)], [0, 0]
    with pytest.raises(StorageError) as caught:
        append(table, "new")
    assert not isinstance(caught.value, CommitUnknownError)
    assert isinstance(caught.value, IndexTablesError)
    assert live(open_on(inner)) == {"s1", "s2"}
