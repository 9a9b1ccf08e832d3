"""What the log asks of the store, counted: an open and a commit cost a fixed handful of requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from indextables.log.commit import MOST_FOLLOWED
from indextables.storage.local import LocalStore
from indextables.storage.store import PutOutcome
from tests.support.faulty_store import CountingStore, StoreWrapper
from tests.support.tables import append, create_on, live, open_on


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path))


def requests(store: CountingStore) -> dict[str, int]:
    return {verb: n for verb, n in store.reset().requests.items() if n}


def test_opening_costs_two_requests_and_one_per_version(store: LocalStore) -> None:
    table = create_on(store)
    for n in range(3):
        append(table, f"s{n}")
    counting = CountingStore(store)
    open_on(counting)
    asked = requests(counting)
    assert asked.pop("get") <= 4 + 1
    assert sum(asked.values()) == 1


def test_a_commit_without_conflict_costs_three_of_them_one_page_of_a_listing(
    store: LocalStore,
) -> None:
    append(create_on(store), "s0")
    counting = CountingStore(store)
    table = open_on(counting)
    requests(counting)
    append(table, "s1")
    assert requests(counting) == {"put_if_absent": 1, "head": 1, "list": 1}
    for n in range(5):
        append(table, f"s{n + 2}")
        assert requests(counting) == {"put_if_absent": 1, "list": 1, "get": 1}


def test_looking_again_costs_one(store: LocalStore) -> None:
    append(create_on(store), "s0")
    counting = CountingStore(store)
    table = open_on(counting)
    requests(counting)
    table.refresh().files()
    assert requests(counting) == {"list": 1}
    append(open_on(store), "s1")
    table.refresh().files()
    assert requests(counting) == {"list": 1, "get": 1}


class LosingStore(StoreWrapper):
    """Others commit just before each of the first few versions is offered, once or several times."""

    at_once = 1

    def __init__(self, inner: LocalStore, races: int) -> None:
        super().__init__(inner)
        self.others, self.races = open_on(inner), races

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        if self.races:
            self.races -= 1
            for n in range(self.at_once):
                append(self.others, f"other{self.races}" if n == 0 else f"other{self.races}-{n}")
        return self.inner.put_if_absent(path, data)


@pytest.mark.parametrize("races", [1, 2, 3])
def test_a_lost_race_costs_no_further_listing(store: LocalStore, races: int) -> None:
    """Put and read back, look for one more, see that the table is the same: and the next version is
    offered.
    """
    append(create_on(store), "s0")
    losing = LosingStore(store, 0)
    counting = CountingStore(losing)
    table = open_on(counting)
    requests(counting)
    losing.races = races
    append(table, "mine")
    assert requests(counting) == {
        "put_if_absent": 1 + races,
        "get": 2 * races,
        "head": 1 + races,
        "list": 1,
    }
    assert live(open_on(store)) == {"s0", "mine", *(f"other{n}" for n in range(races))}
    append(table, "again")
    assert requests(counting) == {"put_if_absent": 1, "list": 1, "get": 1}
    assert live(open_on(store)) >= {"mine", "again"}


def test_several_versions_lost_at_once_are_read_by_name(store: LocalStore) -> None:
    append(create_on(store), "s0")
    losing = LosingStore(store, 0)
    losing.at_once = 5
    counting = CountingStore(losing)
    table = open_on(counting)
    requests(counting)
    losing.races = 1
    append(table, "mine")
    assert requests(counting) == {"put_if_absent": 2, "get": 5 + 1, "head": 2, "list": 1}
    assert len(live(open_on(store))) == 2 + 5


def test_whoever_is_far_behind_lists_again(store: LocalStore) -> None:
    append(create_on(store), "s0")
    losing = LosingStore(store, 0)
    losing.at_once = MOST_FOLLOWED + 8
    counting = CountingStore(losing)
    table = open_on(counting)
    requests(counting)
    losing.races = 1
    append(table, "mine")
    assert requests(counting)["list"] > 1
    assert len(live(open_on(store))) == 2 + losing.at_once
