"""Logs with small states, for tests of checkpoints: every setting that matters can be given."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from indextables.config.log import CacheSettings, CheckpointSettings, StateRetrySettings
from indextables.log.cache import LogCache
from indextables.log.checkpoint.state_files import StateFiles
from indextables.log.context import LogContext, LogSettings
from indextables.log.create import create_table
from indextables.log.transaction import Changes
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import AddAction, MetadataAction
from indextables.model.schema import schema_to_json
from indextables.model.snapshot import Snapshot
from indextables.model.state import StateManifest
from indextables.storage.local import LocalStore
from indextables.storage.store import Store
from tests.support.tables import SCHEMA, clock


def state_log(store: Store, *, cached: bool = True, **settings: Any) -> TransactionLog:
    """A log that neither sleeps nor shares its memory; automatic checkpoints are far off unless
    asked for.

    Settings are given by group: checkpoint, state_write, compaction, retention, cleanup.
    """
    groups = {
        "checkpoint": CheckpointSettings(interval=1000),
        "state_retry": StateRetrySettings(max_attempts=3),
    }
    return TransactionLog(
        LogContext(
            store,
            LogSettings(cache=CacheSettings(enabled=cached), **{**groups, **settings}),
            cache=LogCache(1 << 26),
            now_ms=clock(),
            rng=random.Random(5),
            sleep=lambda _: None,
        )
    )


def new_state_log(path: Path | str, *, partitioned: bool = True, **settings: Any) -> TransactionLog:
    """A new table and its log."""
    log = state_log(LocalStore(str(path)), **settings)
    columns = ("day",) if partitioned else ()
    metadata = MetadataAction(
        id="t", schema_string=schema_to_json(SCHEMA), partition_columns=columns, created_time=0
    )
    create_table(log, metadata, exist_ok=False, engine_info="test")
    return log


def file(n: int, *, day: int | None = None, **fields: Any) -> AddAction:
    """A split with a random-looking name, in one of ten partitions, whose ids are n*10 to n*10+9."""
    partition = str(n % 10 if day is None else day)
    return AddAction(
        path=f"day={partition}/splits/split-{n:032x}.split",
        partition_values={"day": partition},
        size=1000 + n,
        num_records=10,
        modification_time=1,
        stats='{"numRecords":10,"nullCount":{"id":0}}',
        min_values={"id": str(n * 10)},
        max_values={"id": str(n * 10 + 9)},
        **fields,
    )


def commit(
    log: TransactionLog,
    *adds: AddAction,
    removes: list[str] | None = None,
    operation: str = "WRITE",
) -> int:
    """Commit files; returns the version."""
    committed = log.commit(log.newest(), Changes(operation, adds=adds, removes=removes or []))
    assert committed.version is not None
    return committed.version


def live(snapshot: Snapshot) -> list[str]:
    """The live paths, sorted."""
    return sorted(snapshot.all_files.column("path").to_pylist())


def newest_state(log: TransactionLog) -> StateManifest:
    """The state that the newest snapshot starts from."""
    source = log.reload().base.source
    assert isinstance(source, StateFiles)
    return source.state
