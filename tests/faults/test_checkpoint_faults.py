"""Whatever storage call fails while a state is written, compacted or cleaned: the table stays
right, and heals.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from indextables.config.log import CheckpointSettings, RetentionSettings, StateWriteSettings
from indextables.errors import CheckpointWriteError, CommitUnknownError, StorageError
from indextables.log.checkpoint.state_writer import Compact
from indextables.log.transaction_log import TransactionLog
from indextables.storage.local import LocalStore
from indextables.storage.store import Store
from tests.support.faulty_store import Effect, Fault, FaultyStore
from tests.support.state_logs import commit, file, live, new_state_log, state_log

EFFECTS = (Effect.FAIL_BEFORE, Effect.FAIL_AFTER)
PUT_EFFECTS = (Effect.UNKNOWN_BEFORE, Effect.UNKNOWN_AFTER, Effect.LOST, Effect.CONFLICT)
SHORT = RetentionSettings(
    state_versions=1, state_hours=0, manifest_hours=0, log_ms=0, checkpoint_ms=0, versions=0
)


def log_on(store: Store, *, interval: int = 1000) -> TransactionLog:
    log = state_log(
        store,
        checkpoint=CheckpointSettings(interval=interval),
        state_write=StateWriteSettings(entries_per_manifest=4),
        retention=SHORT,
    )
    log.context.now_ms = lambda: time.time_ns() // 1_000_000 + 5_000
    return log


def append_and_checkpoint(log: TransactionLog) -> None:
    commit(log, file(50))


def checkpoint(log: TransactionLog) -> None:
    log.checkpoint()


def compact(log: TransactionLog) -> None:
    log.checkpoint(compact=Compact.ALL)


def clean(log: TransactionLog) -> None:
    log.maintenance.clean_up()


VERBS: dict[str, tuple[Callable[[TransactionLog], None], int]] = {
    # verb: (do it, checkpoint interval)
    "append and checkpoint": (append_and_checkpoint, 3),
    "checkpoint": (checkpoint, 1000),
    "compact": (compact, 1000),
    "clean": (clean, 1000),
}


def prepared(root: Path) -> None:
    """A state at version 3, and removals and additions after it."""
    log = new_state_log(root)
    for n in range(3):
        commit(log, file(n), file(n + 10))
    log.checkpoint()
    commit(log, file(20), removes=[file(1).path])
    commit(log, file(21), removes=[file(20).path])


@pytest.mark.parametrize("verb", VERBS)
def test_the_kth_call_fails(tmp_path: Path, verb: str) -> None:
    act, interval = VERBS[verb]
    prepared(tmp_path / "start")
    before = live(state_log(LocalStore(str(tmp_path / "start"))).newest())
    after = sorted([*before, file(50).path]) if act is append_and_checkpoint else before
    shutil.copytree(tmp_path / "start", tmp_path / "count")
    counting = FaultyStore(LocalStore(str(tmp_path / "count")))
    log = log_on(counting, interval=interval)
    log.newest()
    opened = len(counting.calls)
    act(log)
    calls = counting.calls[opened:]
    puts = sum(name == "put_if_absent" for name, _ in calls)
    cases: list[tuple[str | None, int, Effect]] = [
        (None, k, effect) for k in range(1, len(calls) + 1) for effect in EFFECTS
    ]
    cases += [("put_if_absent", k, effect) for k in range(1, puts + 1) for effect in PUT_EFFECTS]
    for number, (name, k, effect) in enumerate(cases):
        root = tmp_path / str(number)
        shutil.copytree(tmp_path / "start", root)
        faulty = FaultyStore(LocalStore(str(root)))
        log = log_on(faulty, interval=interval)
        log.newest()
        faulty._faults, faulty._seen = [Fault(name, at=k, effect=effect)], [0]
        try:
            act(log)
            allowed = [after]
        except CommitUnknownError:
            allowed = [before, after]
        except (StorageError, CheckpointWriteError):
            allowed = [before]
        found = live(state_log(LocalStore(str(root))).newest())
        assert found in allowed, (name, k, effect, counting.calls[opened:])
        faulty.off()
        log_on(LocalStore(str(root))).checkpoint()
        healed = state_log(LocalStore(str(root))).newest()
        assert live(healed) == found
        assert not healed.delta.touched
        shutil.rmtree(root)
