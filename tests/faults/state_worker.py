"""One process of the test of states under traffic: `python -m tests.faults.state_worker ROLE PATH
SEED`.

A writer makes its commits; the others go on until the file PATH.stop appears. Prints one JSON line:
what it did or saw.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

from indextables import errors
from indextables.config.log import CheckpointSettings, RetentionSettings, StateWriteSettings
from indextables.log.checkpoint.state_writer import Compact
from indextables.log.context import LogContext, LogSettings
from indextables.log.transaction import Changes
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import AddAction
from indextables.model.retention import HOUR_MS, RetentionPolicy
from indextables.storage.local import LocalStore

COMMITS = 20
MANIFESTS_KEPT_MS = 60_000
"""Longer than any state of this test takes to be written."""
NOTHING_KEPT = RetentionPolicy(log_ms=0, state_ms=0, checkpoint_ms=0, manifest_ms=MANIFESTS_KEPT_MS)


def open_log(path: str) -> TransactionLog:
    settings = LogSettings(
        checkpoint=CheckpointSettings(interval=4),
        state_write=StateWriteSettings(entries_per_manifest=20),
        retention=RetentionSettings(manifest_hours=MANIFESTS_KEPT_MS / HOUR_MS),
    )
    return TransactionLog(LogContext(LocalStore(path), settings))


def is_over(log: TransactionLog) -> bool:
    return Path(f"{log.store.url}.stop").exists()


def write(log: TransactionLog, seed: int) -> dict[str, object]:
    """Each commit adds one file and takes the one before it away: exactly one file of a writer is
    live.
    """
    last: str | None = None
    for done in range(COMMITS):
        name = f"w{seed}/split-{seed:016x}{done:016x}.split"
        removes = [last] if last else []
        log.commit(
            log.newest(), Changes("DELETE", adds=[AddAction(path=name, size=done)], removes=removes)
        )
        last = name
    return {"last": last}


def upkeep(log: TransactionLog, seed: int) -> dict[str, object]:
    rounds = 0
    rng = random.Random(seed)
    while not is_over(log):
        log.checkpoint(compact=rng.choice(list(Compact)))
        cleaner = log.cleaner()
        cleaner.run(cleaner.plan(NOTHING_KEPT))
        rounds += 1
    return {"rounds": rounds}


def read(log: TransactionLog, seed: int) -> dict[str, object]:
    """Open, wait a moment, then list: a whole version (at most one file of each writer), or
    VersionNotFoundError.
    """
    seen, lost, wrong = 0, 0, []
    rng = random.Random(seed)
    while not is_over(log):
        snapshot = open_log(log.store.url).reload()
        time.sleep(rng.choice([0, 0.01, 0.2]))
        try:
            paths = snapshot.all_files.column("path").to_pylist()
        except errors.VersionNotFoundError:
            lost += 1
            continue
        seen += 1
        writers = [path.split("/")[0] for path in paths]
        if len(writers) != len(set(writers)) or (snapshot.version > 10 and len(writers) != 2):
            wrong.append([snapshot.version, sorted(paths)])
    return {"seen": seen, "lost": lost, "wrong": wrong}


def main() -> None:
    """Play the role."""
    role, path, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    act = {"write": write, "upkeep": upkeep, "read": read}[role]
    print(json.dumps(act(open_log(path), seed)))


if __name__ == "__main__":
    main()
