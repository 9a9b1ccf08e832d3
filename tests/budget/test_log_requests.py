"""What the log asks of the store, counted: an open and a commit cost a fixed handful of requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from indextables.storage.local import LocalStore
from indextables.testing.faulty_store import CountingStore
from tests.support.tables import append, create_on, open_on


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


def test_a_commit_without_conflict_costs_three(store: LocalStore) -> None:
    append(create_on(store), "s0")
    counting = CountingStore(store)
    table = open_on(counting)
    requests(counting)
    for n in range(5):
        append(table, f"s{n + 1}")
        assert requests(counting) == {"list": 1, "put_if_absent": 1, "head": 1}


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
