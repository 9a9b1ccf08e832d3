"""Ctrl-C during upkeep: what was written for nothing is removed, and what was committed stays."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pyarrow as pa
import pytest

from indextables import Table
from indextables.operations.jobs import collect, in_threads
from indextables.storage.local import LocalStore
from indextables.storage.store import Store

PARTITIONS = 6


@pytest.fixture
def table(tmp_path: Path) -> Table:
    schema = pa.schema([("id", pa.int64()), ("part", pa.string())])
    made = Table.create(
        str(tmp_path / "t"),
        schema=schema,
        partition_columns=["part"],
        options={"merge.parallelism": 3},
    )
    for n in range(3):
        made.append(
            [{"id": n * PARTITIONS + part, "part": f"p{part}"} for part in range(PARTITIONS)]
        )
    return made


def splits(table: Table) -> set[str]:
    return {path.name for path in Path(table.path).rglob("*.split")}


def interrupt(done: int, total: int, what: str) -> None:
    signal.raise_signal(signal.SIGINT)


def test_an_interrupted_merge_leaves_no_splits_behind(table: Table) -> None:
    before = splits(table)
    with pytest.raises(KeyboardInterrupt):
        table.merge(progress=interrupt)
    assert splits(table) == before and len(before) == 3 * PARTITIONS
    assert Table.open(table.path).version == table.version
    assert table.merge().merged_files == 3 * PARTITIONS


def test_an_interrupted_deletion_leaves_no_splits_behind(tmp_path: Path) -> None:
    made = Table.create(
        str(tmp_path / "t"),
        schema=pa.schema([("id", pa.int64())]),
        options={"delete.mode": "rewrite"},
    )
    for n in range(6):
        made.append([{"id": n}, {"id": n + 100}])
    before = splits(made)
    with pytest.raises(KeyboardInterrupt):
        made.delete(where="id < 100", progress=interrupt)
    assert splits(made) == before and len(made) == 12


class Slow:
    """A task that takes a while and records that it ended."""

    def __init__(self, number: int, begun: list[int]) -> None:
        self.number, self.begun = number, begun

    def run(self, *, store: Store | None = None) -> int:
        self.begun.append(self.number)
        time.sleep(0.2)
        return self.number


@pytest.fixture
def alarm() -> Iterator[None]:
    def ring(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, ring)
    yield
    signal.signal(signal.SIGALRM, old)


def test_an_interrupt_while_tasks_are_waited_for_loses_no_result(
    tmp_path: Path, alarm: None
) -> None:
    assert threading.current_thread() is threading.main_thread()
    begun: list[int] = []
    done: list[int] = []
    work = [Slow(number, begun) for number in range(20)]
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    with pytest.raises(KeyboardInterrupt):
        collect(in_threads(LocalStore(tmp_path), parallelism=2)(work), done)
    assert sorted(done) == sorted(begun) and 2 <= len(done) < 20
