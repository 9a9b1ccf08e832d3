"""One worker's part of a write: its rows become splits in the store, and log entries for the driver to commit.

A `WriteTask` is plain values and travels by pickle; the store and the writers are opened where it runs. Split names are
random, so that a task that runs twice never overwrites what the other run wrote; what no commit names is an orphan.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import pyarrow as pa
from msgspec import Struct, field

from indextables.config.splits import SplitWriterSettings
from indextables.config.stats import StatsSettings
from indextables.model.actions import AddAction
from indextables.model.schema import schema_from_json
from indextables.splits.info import SplitInfo
from indextables.splits.layout import Origin
from indextables.splits.mapping import DocMapping
from indextables.splits.naming import new_split_name, split_path
from indextables.splits.writer import write_splits
from indextables.storage.spec import StoreSpec, open_store
from indextables.storage.store import Store
from indextables.write.incoming import conformed
from indextables.write.partitioning import PartitionKey, partitions
from indextables.write.spill import Spill


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class WriteTask(Struct, frozen=True):
    """Everything a worker needs to write rows of a table."""

    spec: StoreSpec
    schema_json: str
    partition_columns: tuple[str, ...]
    mapping: DocMapping
    splits: SplitWriterSettings
    stats: StatsSettings = field(default_factory=StatsSettings)
    tags: tuple[str, ...] = ()

    @property
    def layout(self) -> tuple[str, tuple[str, ...], DocMapping]:
        """What its splits are made for: the columns, the partitions, and how each column is indexed."""
        return self.schema_json, self.partition_columns, self.mapping

    def run(
        self,
        batches: Iterable[pa.RecordBatch],
        *,
        store: Store | None = None,
        new_name: Callable[[], str] = new_split_name,
        now_ms: Callable[[], int] = _now_ms,
    ) -> list[AddAction]:
        """Write the rows. If it fails, the splits it has uploaded are deleted: nobody can have committed them."""
        writing = _Writing(self, store or open_store(self.spec), new_name, now_ms)
        try:
            writing.write(conformed(batch, writing.schema) for batch in batches)
        except BaseException:
            writing.abandon()
            raise
        return writing.added


class _Writing:
    """One run of a task: where the rows go, and what was uploaded so far."""

    def __init__(self, task: WriteTask, store: Store, new_name: Callable[[], str], now_ms: Callable[[], int]) -> None:
        self.schema = schema_from_json(task.schema_json)
        self.added: list[AddAction] = []
        self._task = task
        self._store = store
        self._new_name = new_name
        self._now_ms = now_ms
        self._body = pa.schema([f for f in self.schema if f.name not in task.partition_columns])

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        columns = self._task.partition_columns
        if not columns:
            self._write_partition((), batches)
            return
        with Spill(self._body, folder=self._task.splits.temp_directory) as spill:
            for batch in batches:
                for key, rows in partitions(batch, columns):
                    spill.add(key, rows)
            for key, rows in spill.partitions():
                self._write_partition(key, rows)

    def _write_partition(self, key: PartitionKey, batches: Iterable[pa.RecordBatch]) -> None:
        task = self._task
        values = dict(zip(task.partition_columns, key, strict=True))
        origin = Origin(schema=task.schema_json, partition_columns=task.partition_columns, partition_values=values)
        for split in write_splits(
            batches, self._body, task.mapping, settings=task.splits, stats=task.stats, tags=task.tags, origin=origin
        ):
            self._upload(values, split)

    def abandon(self) -> None:
        self._store.delete([action.path for action in self.added])

    def _upload(self, values: dict[str, str | None], split: SplitInfo) -> None:
        path = split_path(values, self._new_name())
        action = split.add_action(path, partition_values=values, modification_time=self._now_ms())
        # Noted before the upload, so that one that fails half-way is cleaned up too.
        self.added.append(action)
        self._store.put_file(path, split.path)
