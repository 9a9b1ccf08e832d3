"""The faulty store fails exactly where it is told to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from indextables.errors import ThrottledError, UnavailableError
from indextables.storage.store import PutOutcome, Store
from tests.support.faulty_store import Effect, Fault, FaultyStore
from tests.support.places import StorePlace

VERBS: dict[str, Callable[[Store], Any]] = {
    "get": lambda store: store.get("a"),
    "get_range": lambda store: store.get_range("a", 0, 1),
    "get_ranges": lambda store: store.get_ranges("a", [(0, 1)]),
    "put": lambda store: store.put("new", b"1"),
    "put_if_absent": lambda store: store.put_if_absent("new", b"1"),
    "head": lambda store: store.head("a"),
    "list": lambda store: [*store.list()],
    "delete": lambda store: store.delete(["a"]),
}


@pytest.fixture
def inner(memory_place: StorePlace) -> Store:
    store = memory_place.open()
    for name in ("a", "b", "c"):
        store.put(name, b"data")
    return store


def content(store: Store) -> list[str]:
    return [info.path for info in store.list()]


@pytest.mark.parametrize("verb", VERBS)
def test_the_kth_call_fails_and_no_other(inner: Store, verb: str) -> None:
    store = FaultyStore(inner, [Fault(verb, at=2)])
    VERBS[verb](store)
    with pytest.raises(UnavailableError):
        VERBS[verb](store)
    if verb != "get":
        VERBS[verb](store)
    assert [called for called, _ in store.calls][:2] == [verb, verb]


@pytest.mark.parametrize(
    ("verb", "before", "after"),
    [
        ("put", ["a", "b", "c"], ["a", "b", "c", "new"]),
        ("put_if_absent", ["a", "b", "c"], ["a", "b", "c", "new"]),
        ("delete", ["a", "b", "c"], ["b", "c"]),
    ],
)
def test_before_or_after_taking_effect(
    inner: Store, verb: str, before: list[str], after: list[str]
) -> None:
    with pytest.raises(UnavailableError):
        VERBS[verb](FaultyStore(inner, [Fault(verb)]))
    assert content(inner) == before
    with pytest.raises(ThrottledError):
        VERBS[verb](
            FaultyStore(
                inner, [Fault(verb, effect=Effect.FAIL_AFTER, error=lambda: ThrottledError("slow"))]
            )
        )
    assert content(inner) == after


@pytest.mark.parametrize(
    ("effect", "answer", "written"),
    [
        (Effect.UNKNOWN_BEFORE, PutOutcome.UNKNOWN, False),
        (Effect.UNKNOWN_AFTER, PutOutcome.UNKNOWN, True),
        (Effect.LOST, PutOutcome.EXISTS, True),
        (Effect.CONFLICT, PutOutcome.EXISTS, False),
    ],
)
def test_answers_that_mislead(
    inner: Store, effect: Effect, answer: PutOutcome, written: bool
) -> None:
    store = FaultyStore(inner, [Fault("put_if_absent", effect=effect)])
    assert store.put_if_absent("new", b"1") is answer
    assert (inner.head("new") is not None) == written


def test_a_misleading_answer_is_for_put_if_absent_alone(inner: Store) -> None:
    with pytest.raises(ValueError, match="put_if_absent"):
        FaultyStore(inner, [Fault("get", effect=Effect.LOST)]).get("a")


@pytest.mark.parametrize(
    ("effect", "shown"), [(Effect.FAIL_BEFORE, []), (Effect.FAIL_AFTER, ["a", "b"])]
)
def test_a_listing_breaks_off(inner: Store, effect: Effect, shown: list[str]) -> None:
    seen = []
    with pytest.raises(UnavailableError):
        for info in FaultyStore(inner, [Fault("list", effect=effect, entries=2)]).list():
            seen.append(info.path)
    assert seen == shown


def test_only_paths_that_match_and_only_so_many_times(inner: Store) -> None:
    store = FaultyStore(inner, [Fault(path_contains="b", times=2)])
    store.get("a")
    for _ in range(2):
        with pytest.raises(UnavailableError):
            store.get("b")
    store.get("b")
    assert store.calls == [("get", "a"), ("get", "b"), ("get", "b"), ("get", "b")]


def test_latency_and_off(inner: Store) -> None:
    waits: list[float] = []
    store = FaultyStore(inner, [Fault(times=100)], latency_ms=20, sleep=waits.append)
    with pytest.raises(UnavailableError):
        store.get("a")
    store.off()
    assert store.get("a") == b"data"
    assert waits == [0.02]
