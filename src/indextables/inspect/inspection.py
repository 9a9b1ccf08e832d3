"""`table.inspect`: what a table is made of, and what happened to it. Nothing is changed, and no row is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from indextables.config import Settings
from indextables.config.state import CompactionSettings, StateWriteSettings
from indextables.inspect import splits
from indextables.log import history as log_history
from indextables.log.checkpoint.checkpointer import StateReport, state_report
from indextables.log.checkpoint.state_files import pruned_files
from indextables.log.transaction_log import TransactionLog
from indextables.model.arguments import whole_number
from indextables.model.predicate.where import Where, bound_predicate
from indextables.model.skips import skipped_table
from indextables.model.snapshot import Snapshot
from indextables.scan.plan import plan_scan
from indextables.scan.task import ScanTask
from indextables.storage.spec import StoreSpec

PARTITIONS = pa.schema(
    [
        pa.field("partition", pa.map_(pa.string(), pa.string())),
        pa.field("splits", pa.int64()),
        pa.field("rows", pa.int64()),
        pa.field("size_bytes", pa.int64()),
    ]
)


class OpenTable(Protocol):
    """What looking needs of an open table."""

    _log: TransactionLog
    _snapshot: Snapshot
    _pinned: bool

    @property
    def path(self) -> str:
        """Where the table is."""
        ...

    @property
    def _search_settings(self) -> Settings:
        """The settings of reading."""
        ...

    @property
    def version(self) -> int:
        """The version the table shows."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        ...

    @property
    def partition_columns(self) -> list[str]:
        """The columns the table is partitioned by."""
        ...

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        ...

    @property
    def _spec(self) -> StoreSpec: ...


class Inspection:
    """What can be looked at in a table, by the version that it shows."""

    def __init__(self, table: OpenTable) -> None:
        self.table = table

    @property
    def log(self) -> TransactionLog:
        """The log of the table."""
        return self.table._log

    @property
    def snapshot(self) -> Snapshot:
        """The content of the version that the table shows."""
        return self.table._snapshot

    def files(self, *, where: Where | None = None) -> pa.Table:
        """The live splits, a row each; with `where` only those that may hold a matching row. As `Table.files`."""
        predicate = bound_predicate(where, self.table.schema)
        return pruned_files(self.snapshot, predicate) if predicate is not None else self.snapshot.all_files

    def history(self, *, limit: int | None = None) -> pa.Table:
        """What was committed, newest first, at most `limit` versions. As `Table.history`."""
        return log_history.history(self.log, limit=None if limit is None else whole_number("limit", limit))

    def state(self) -> StateReport:
        """What the newest state or checkpoint holds, or the one that a pinned version is read from. As `Table.state`."""
        settings = self.table.settings
        return state_report(
            self.snapshot if self.table._pinned else self.log.reload(),
            path=self.table.path,
            compaction=settings.group(CompactionSettings),
            writing=settings.group(StateWriteSettings),
        )

    def partitions(self) -> pa.Table:
        """Each partition with its splits, rows and bytes, in the order of their values.

        A table that is not partitioned is one partition. Rows of splits that do not say how many count as none.
        """
        names, files = self.table.partition_columns, self.snapshot.all_files
        totals: dict[tuple[str | None, ...], list[int]] = {}
        columns = (files.column(name).to_pylist() for name in ("partition_values", "num_records", "size"))
        for values, records, size in zip(*columns, strict=True):
            partition = dict(values or [])
            total = totals.setdefault(tuple(partition.get(name) for name in names), [0, 0, 0])
            for place, count in enumerate((1, records or 0, size)):
                total[place] += count
        return pa.Table.from_pylist(
            [
                {"partition": list(zip(names, key, strict=True))}
                | dict(zip(PARTITIONS.names[1:], totals[key], strict=True))
                for key in sorted(totals, key=in_order)
            ],
            schema=PARTITIONS,
        )

    def component_sizes(self, *, where: Where | None = None) -> pa.Table:
        """How many bytes each component of each split takes; `where` chooses splits. As `Table.component_sizes`."""
        table = self.table
        plan = plan_scan(self.snapshot, table._spec, table._search_settings, where=bound_predicate(where, table.schema))
        return splits.sizes_of_components(ScanTask(plan, self.log.store))

    def skipped_files(self) -> pa.Table:
        """Splits that an operation could not process: why, how often, and until when they are left alone."""
        return skipped_table(self.snapshot.header.skips, now_ms=self.log.now_ms())


def in_order(values: Sequence[str | None]) -> list[tuple[bool, float, str]]:
    """The key that sorts partitions: numbers by their value, texts as they are, no value last."""
    return [(value is None, _number(value), value or "") for value in values]


def _number(value: str | None) -> float:
    try:
        return float(value or "")
    except ValueError:
        return 0.0
