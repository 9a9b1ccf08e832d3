"""The explorer leaves out no schedule that differs: with and without its reduction the same ends
are found.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from indextables.errors import NotFoundError
from indextables.storage.store import Store
from tests.interleave.stepped_logs import ends
from tests.support import interleave
from tests.support.interleave import Actor, Call, Content, commute

PATHS = ("a/x", "a/y", "b")
LISTINGS: tuple[Mapping[str, Any], ...] = (
    {"prefix": ""},
    {"prefix": "a"},
    {"prefix": "a", "start_after": "a/x"},
)
START = {"a/x": b"0", "b": b"0"}
SEEDS = range(60)


def program(seed: str, length: int) -> Actor:
    """Calls of which each depends on all answers before it; its result is everything it was told."""

    def run(store: Store) -> str:
        told: list[Any] = []
        for place in range(length):
            told.append(_call(store, random.Random(f"{seed} {told}"), f"{seed} {place}".encode()))
        return repr(told)

    return run


def _call(store: Store, rng: random.Random, data: bytes) -> Any:
    path, verb = rng.choice(PATHS), rng.choice(("get", "head", "list", "create", "put", "delete"))
    if verb == "get":
        try:
            return store.get(path)
        except NotFoundError:
            return "not there"
    if verb == "head":
        return store.head(path)
    if verb == "list":
        return list(store.list(**rng.choice(LISTINGS)))
    if verb == "create":
        return store.put_if_absent(path, data)
    return store.put(path, data) if verb == "put" else store.delete([path])


def programs(seed: int) -> dict[str, Actor]:
    lengths = random.Random(seed).choice(((5, 5), (3, 3, 3), (2, 3, 4), (2, 2, 2, 2)))
    return {f"actor {n}": program(f"{seed} {n}", length) for n, length in enumerate(lengths)}


def differing(faults: int = 1) -> Iterator[int]:
    """The programs of which the reduction loses an end, or finds one that is none."""
    for seed in SEEDS:
        (reduced, _), (every, _) = (
            ends(programs(seed), START, faults=faults, every_order=o) for o in (False, True)
        )
        if reduced != every:
            yield seed


@pytest.mark.parametrize("faults", [0, 1])
def test_no_end_of_random_programs_is_lost(faults: int) -> None:
    assert list(differing(faults)) == []


def test_orders_that_cannot_be_told_are_run_once() -> None:
    def reader(store: Store) -> Any:
        return [store.get("b"), store.get("a/x"), [info.path for info in store.list("a")]]

    actors = dict.fromkeys("abc", reader)
    (reduced, few), (every, many) = ends(actors, START), ends(actors, START, every_order=True)
    assert reduced == every
    assert few.states == 1 + 3 * 3
    assert many.states == 4**3


def test_stories_with_one_result_are_one() -> None:
    """Whoever was told different things and says the same is not told apart any more."""

    def looker(store: Store) -> Any:
        store.head("b")
        return "done"

    def writer(store: Store) -> Any:
        store.put("b", b"1")
        return "done"

    assert ends({"looker": looker, "writer": writer}, START)[1].ends == 1


CLASHES = [
    *(("list", change) for change in ("create", "put", "delete")),
    *((look, change) for look in ("get", "head") for change in ("create", "put", "delete")),
    *(
        ("create", "create"),
        ("create", "put"),
        ("create", "delete"),
        ("put", "put"),
        ("put", "delete"),
    ),
]


@pytest.mark.parametrize("pair", CLASHES, ids=" and ".join)
def test_if_calls_that_clash_were_said_to_commute_ends_would_be_lost(
    pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(one: Call, other: Call, content: Content) -> bool:
        return {one[0], other[0]} == set(pair) or commute(one, other, content)

    monkeypatch.setattr(interleave, "commute", wrong)
    assert next(differing(), None) is not None


def test_if_choices_were_not_looked_at_again_ends_would_be_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interleave._Schedules, "look_again", lambda self: None)
    assert next(differing(), None) is not None
