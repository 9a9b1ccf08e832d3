"""Processes that create one object at the same time."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import SpawnProcess
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier

from indextables.storage.spec import StoreSpec, open_store
from indextables.storage.store import PutOutcome
from tests.support.places import StorePlace

PROCESSES = 8

spawn = multiprocessing.get_context("spawn")


def contend(
    spec: StoreSpec, me: int, rounds: int, start: Barrier, results: Queue[tuple[int, list[str]]]
) -> None:
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
        contenders.append(
            spawn.Process(target=contend, args=(place.spec, me, rounds, start, results))
        )
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
