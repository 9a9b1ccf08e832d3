"""Many processes want to create the same object, round after round: one does, and its bytes are what is read."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from multiprocessing.context import SpawnProcess
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier

import pytest

from indextables.storage.spec import StoreSpec, open_store
from indextables.storage.store import PutOutcome
from tests.support.places import StorePlace
from tests.support.servers import seaweedfs_server

PROCESSES = 8
spawn = multiprocessing.get_context("spawn")


def contend(spec: StoreSpec, me: int, rounds: int, start: Barrier, results: Queue[tuple[int, list[str]]]) -> None:
    """One contender: tries to create the object of every round at the same moment as all others."""
    store = open_store(spec)
    answers = []
    for round_ in range(rounds):
        start.wait(60)
        answers.append(store.put_if_absent(f"log/{round_:06d}.json", payload(me, round_)).value)
    results.put((me, answers))


def payload(who: int, round_: int) -> bytes:
    """Bytes that tell who wrote them, enough of them that a torn write would show."""
    return f"{who}:{round_};".encode() * 2000


def race(place: StorePlace, rounds: int) -> None:
    start, results = spawn.Barrier(PROCESSES), spawn.Queue()
    contenders: list[SpawnProcess] = []
    for me in range(PROCESSES):
        contenders.append(spawn.Process(target=contend, args=(place.spec, me, rounds, start, results)))
        contenders[-1].start()
    answers = dict(results.get(timeout=240) for _ in contenders)
    for contender in contenders:
        contender.join(30)
        assert contender.exitcode == 0
    store = place.open()
    for round_ in range(rounds):
        said = [answers[who][round_] for who in range(PROCESSES)]
        assert said.count(PutOutcome.CREATED.value) == 1, f"round {round_}: {said}"
        assert said.count(PutOutcome.EXISTS.value) == PROCESSES - 1, f"round {round_}: {said}"
        winner = said.index(PutOutcome.CREATED.value)
        assert store.get(f"log/{round_:06d}.json") == payload(winner, round_)
    assert len([*store.list()]) == rounds


def test_one_winner_on_the_local_disk(local_place: StorePlace) -> None:
    race(local_place, 200)


def test_one_winner_on_s3(s3_place: StorePlace) -> None:
    race(s3_place, 200)


@pytest.fixture
def seaweedfs() -> Iterator[StorePlace]:
    with seaweedfs_server() as place:
        yield place


@pytest.mark.slow
def test_one_winner_on_seaweedfs(seaweedfs: StorePlace) -> None:
    race(seaweedfs.below("race"), 50)
