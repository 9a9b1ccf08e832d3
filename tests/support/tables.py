"""Small tables for tests of the log: splits that exist only as actions."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
from msgspec.structs import replace

from indextables import AddAction, Table
from indextables.config.log import CacheSettings, RetrySettings
from indextables.handle import TableHandle
from indextables.log.cache import LogCache
from indextables.log.context import LogContext, LogSettings
from indextables.log.create import create_table
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import MetadataAction
from indextables.model.schema import schema_to_json
from indextables.storage.store import Store
from tests.support.faulty_store import CountingStore

SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string()), ("day", pa.string())])


class RemoteStore(CountingStore):
    """A counting store that has no local files, as far as its users can tell."""

    def local_path(self, path: str) -> Path | None:
        return None


def clock(start_ms: int = 1_700_000_000_000, step_ms: int = 1_000) -> Callable[[], int]:
    """A clock that ticks once a call."""
    ticks = itertools.count(start_ms, step_ms)
    return lambda: next(ticks)


def log_on(store: Store, *, attempts: int = 10, cached: bool = True) -> TransactionLog:
    """A log that neither sleeps nor shares its memory with other tests."""
    settings = LogSettings(
        retry=RetrySettings(max_attempts=attempts), cache=CacheSettings(enabled=cached)
    )
    return TransactionLog(
        LogContext(
            store,
            settings,
            cache=LogCache(1 << 26),
            now_ms=clock(),
            rng=random.Random(7),
            sleep=lambda seconds: None,
        )
    )


def create_on(
    store: Store, *, partition_columns: tuple[str, ...] = (), attempts: int = 10
) -> Table:
    """A new table on any store."""
    log = log_on(store, attempts=attempts)
    metadata = MetadataAction(
        id="table",
        schema_string=schema_to_json(SCHEMA),
        partition_columns=partition_columns,
        created_time=0,
    )
    return Table(
        TableHandle(
            log, create_table(log, metadata, exist_ok=False, engine_info="test"), _options(attempts)
        )
    )


def open_on(store: Store, *, attempts: int = 10) -> Table:
    """The table on a store, seen by a process that remembers nothing."""
    log = log_on(store, attempts=attempts)
    return Table(TableHandle(log, log.newest(), _options(attempts)))


def _options(attempts: int) -> dict[str, object]:
    return {"transaction.retry.maxAttempts": attempts}


def split(name: str, *, size: int = 100, records: int = 10, day: str | None = None) -> AddAction:
    """A split as an action."""
    partition_values: dict[str, str | None] = {} if day is None else {"day": day}
    path = f"splits/{name}.split" if day is None else f"day={day}/splits/{name}.split"
    return AddAction(
        path=path,
        partition_values=partition_values,
        size=size,
        num_records=records,
        modification_time=1,
    )


def append(table: Table, *names: str) -> int | None:
    """Commit splits with these names."""
    with table.transaction(check_splits=False) as tx:
        for name in names:
            tx.add(split(name))
    return tx.version


def live(table: Table) -> set[str]:
    """The names of the live splits; fails if one stands twice."""
    paths = table.files().column("path").to_pylist()
    assert len(paths) == len(set(paths)), paths
    return {p.rsplit("/", 1)[1].removesuffix(".split") for p in paths}


def merge(table: Table, sources: Iterable[str], target: str) -> int | None:
    """Commit a merge of splits into one."""
    with table.transaction(operation="MERGE", check_splits=False) as tx:
        for name in sources:
            tx.remove(f"splits/{name}.split")
        tx.add(split(target))
    return tx.version


def move_log(table: Table, store: Store) -> None:
    """Let a table read and write its log through another store."""
    table.handle.log = TransactionLog(replace(table.handle.log.context, store=store))
