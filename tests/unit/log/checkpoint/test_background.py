"""Checkpoints beside the commits: no commit waits for one, none is lost at the end, and a failure
fails no commit.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from indextables import Table
from indextables.config.log import CheckpointSettings
from indextables.errors import CheckpointWriteError
from indextables.log.checkpoint.checkpointer import CHECKPOINTS, CheckpointQueue
from indextables.log.transaction_log import TransactionLog
from indextables.storage.local import LocalStore
from indextables.storage.store import PutOutcome
from tests.support.faulty_store import Effect, Fault, FaultyStore, StoreWrapper
from tests.support.rows import ids, rows, table_of
from tests.support.state_logs import commit, file, live, new_state_log, state_log
from tests.support.state_versions import states

EVERY_SECOND = CheckpointSettings(interval=2)


class GatedStore(StoreWrapper):
    """Holds whoever puts a state until the gate is open."""

    def __init__(self, path: Path) -> None:
        super().__init__(LocalStore(str(path)))
        self.gate, self.arrived = threading.Event(), threading.Event()

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """See `Store.put_if_absent`."""
        if "state-v" in path:
            self.arrived.set()
            assert self.gate.wait(60)
        return super().put_if_absent(path, data)


@pytest.fixture
def queue() -> CheckpointQueue:
    return CheckpointQueue(workers=2)


def with_queue(log: TransactionLog, queue: CheckpointQueue) -> TransactionLog:
    log.context.background = queue
    return log


def test_commits_go_on_while_a_checkpoint_is_written(
    tmp_path: Path, queue: CheckpointQueue
) -> None:
    new_state_log(tmp_path)
    store = GatedStore(tmp_path)
    log = with_queue(state_log(store, checkpoint=EVERY_SECOND), queue)
    for n in range(5):
        commit(log, file(n))
    assert store.arrived.wait(60) and log.newest().version == 5
    assert states(tmp_path) == [] and not queue.wait(0)
    store.gate.set()
    assert queue.wait(60)
    assert states(tmp_path) == [2] and log.upkeep.checkpoints == 1
    commit(log, file(5))
    assert queue.wait(60) and states(tmp_path)[-1] >= 4
    assert live(state_log(LocalStore(str(tmp_path))).newest()) == sorted(
        file(n).path for n in range(6)
    )


def test_at_most_one_at_a_time_for_a_table(queue: CheckpointQueue) -> None:
    gate = threading.Event()
    assert queue.submit("t", lambda: assert_opened(gate), shutdown_timeout_s=60)
    assert not queue.submit("t", lambda: None, shutdown_timeout_s=60)
    assert queue.submit("another", lambda: None, shutdown_timeout_s=60)
    gate.set()
    assert queue.wait(60) and queue.submit("t", lambda: None, shutdown_timeout_s=60)
    assert queue.wait(60)


def assert_opened(gate: threading.Event) -> None:
    assert gate.wait(60)


def test_a_failure_is_logged_and_counted_and_tried_again(
    tmp_path: Path, queue: CheckpointQueue, caplog: pytest.LogCaptureFixture
) -> None:
    new_state_log(tmp_path)
    faulty = FaultyStore(
        LocalStore(str(tmp_path)),
        [Fault(None, path_contains="state-v", effect=Effect.FAIL_BEFORE, times=99)],
    )
    log = with_queue(state_log(faulty, checkpoint=EVERY_SECOND), queue)
    with caplog.at_level(logging.WARNING):
        for n in range(2):
            commit(log, file(n))
        assert queue.wait(60)
    assert (log.upkeep.failures, log.upkeep.checkpoints) == (1, 0)
    assert "The checkpoint of version 2" in str(log.upkeep.last_failure)
    (record,) = [r for r in caplog.records if "but not checkpointed" in r.getMessage()]
    assert record.exc_info is not None and isinstance(record.exc_info[1], CheckpointWriteError)
    faulty.off()
    commit(log, file(2))
    assert queue.wait(60) and log.upkeep.checkpoints == 1 and states(tmp_path) == [3]


def test_a_commit_waits_where_the_setting_says_so(tmp_path: Path, queue: CheckpointQueue) -> None:
    new_state_log(tmp_path)
    settings = CheckpointSettings(interval=2, asynchronous=False)
    log = with_queue(state_log(LocalStore(str(tmp_path)), checkpoint=settings), queue)
    for n in range(2):
        commit(log, file(n))
    assert states(tmp_path) == [2]


def test_the_end_of_a_process_waits_for_it(tmp_path: Path) -> None:
    script = f"""
import pyarrow as pa
from indextables import Table
table = Table.create({str(tmp_path / "t")!r}, schema=pa.schema([("id", pa.int64())]), options={{"checkpoint.interval": 2}})
for n in range(2):
    table.append(pa.table({{"id": [n]}}))
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
    assert states(tmp_path / "t") == [2]


def test_a_forked_child_has_nothing_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr(CHECKPOINTS, "workers", 2)
    assert CHECKPOINTS.submit("t", lambda: assert_opened(gate), shutdown_timeout_s=60)
    child = os.fork()
    if child == 0:
        os._exit(0 if CHECKPOINTS.wait(0) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not CHECKPOINTS.wait(0)
    gate.set()
    assert CHECKPOINTS.wait(60)


def test_a_table_made_anew_in_the_place_of_another_gets_no_state_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CHECKPOINTS, "workers", 2)
    path = tmp_path / "t"
    for n in range(8):
        shutil.rmtree(path, ignore_errors=True)
        table = table_of(path, appends=2, options={"checkpoint.interval": 2})
        table.append(rows([100 + n]))
        assert ids(Table.open(str(path))) == [*range(20), 100 + n]
    assert CHECKPOINTS.wait(60) and ids(Table.open(str(path))) == [*range(20), 107]


def test_a_state_of_a_table_that_was_removed_meanwhile_is_taken_back(
    tmp_path: Path, queue: CheckpointQueue
) -> None:
    new_state_log(tmp_path)
    store = GatedStore(tmp_path)
    log = with_queue(state_log(store, checkpoint=EVERY_SECOND), queue)
    for n in range(2):
        commit(log, file(n))
    assert store.arrived.wait(60)
    for version in (tmp_path / "_transaction_log").glob("*.json"):
        version.unlink()
    store.gate.set()
    assert queue.wait(60) and list((tmp_path / "_transaction_log").glob("state-v*/*")) == []
