"""The figures that pictures of a table are drawn from: its versions, its merges, its partitions, its splits' components.

Everything is counted from the log; only `component_figures` and `search_figures` open splits, and never more than asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from msgspec import Struct

from indextables.config.indexing import IndexingSettings
from indextables.errors import CorruptTableError, VersionNotFoundError
from indextables.inspect.inspection import Inspection
from indextables.inspect.splits import sizes_of_components
from indextables.log.log_files import list_log
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import AddAction, RemoveAction
from indextables.model.conflicts import Operation
from indextables.model.snapshot import CommittedVersion
from indextables.scan.explain import ScanReport, explain
from indextables.scan.plan import plan_scan
from indextables.scan.task import ScanTask
from indextables.splits.index.mapping import DocMapping

Sizes = Mapping[str, int]
"""Bytes by the path of a split."""


class VersionFigure(Struct, frozen=True):
    """One version. Splits and bytes are those that it holds; None where the log no longer tells."""

    version: int
    at: datetime | None
    operation: str
    is_readable: bool
    splits: int | None
    size_bytes: int | None


class MergeFigure(Struct, frozen=True):
    """One merge: the sizes of the splits it replaced, and of those it wrote."""

    version: int
    before: tuple[int, ...]
    after: tuple[int, ...]


class PartitionFigure(Struct, frozen=True):
    """One partition: its values in the order of the partition columns, and what it holds."""

    values: tuple[str | None, ...]
    splits: int
    rows: int
    size_bytes: int


class ComponentFigure(Struct, frozen=True):
    """The bytes of one component over some splits, of one column where it belongs to one."""

    component: str
    field: str | None
    size_bytes: int


class ColumnFigure(Struct, frozen=True):
    """One column. `index` is its kind of index; `statistics` where bounds answer for it, `partition` where folders do."""

    column: str
    type: str
    nullable: bool
    index: str


def column_figures(inspection: Inspection) -> list[ColumnFigure]:
    """Every column, and what a search finds it by."""
    schema, partition_columns = inspection.table.schema, inspection.table.partition_columns
    body = pa.schema([f for f in schema if f.name not in partition_columns])
    mapping = DocMapping.from_settings(body, inspection.table.settings.group(IndexingSettings))
    kinds = {column.name: column.kind if column.indexed else "statistics" for column in mapping.columns}
    return [ColumnFigure(f.name, str(f.type), f.nullable, kinds.get(f.name, "partition")) for f in schema]


def version_figures(inspection: Inspection, *, limit: int = 60) -> tuple[list[VersionFigure], list[MergeFigure]]:
    """The newest versions, oldest first, with what each held; and the merges among them."""
    log = inspection.log
    rows = inspection.history(limit=limit).to_pylist()[::-1]
    listing = list_log(log.store)
    files = [(row["version"], listing.versions[row["version"]]) for row in rows if row["version"] in listing.versions]
    walk = _VersionWalk(log, {version.version: version for version in log.reader.read(files)})
    return [walk.step(row) for row in rows], walk.merges


class _VersionWalk:
    """A walk through versions, oldest first, that knows the live splits of each where they can be known."""

    def __init__(self, log: TransactionLog, committed: Mapping[int, CommittedVersion]) -> None:
        self.merges: list[MergeFigure] = []
        self._log = log
        self._committed = committed
        self._live: dict[str, int] | None = None
        self._at = -2

    def step(self, row: Mapping[str, Any]) -> VersionFigure:
        version: int = row["version"]
        own = self._committed.get(version)
        if own is not None and self._live is not None and version == self._at + 1:
            self._apply(self._live, own)
        else:
            self._live = self._sizes_at(version)
        self._at = version
        splits, size = (None, None) if self._live is None else (len(self._live), sum(self._live.values()))
        operation = row["operation"] or "unknown"
        return VersionFigure(version, row["timestamp"], operation, row["is_readable"], splits, size)

    def _apply(self, live: dict[str, int], version: CommittedVersion) -> None:
        removed = [live.pop(a.path, 0) for a in version.actions if isinstance(a, RemoveAction)]
        added = {a.path: a.size for a in version.actions if isinstance(a, AddAction)}
        live.update(added)
        if version.info.operation == Operation.MERGE and added:
            self.merges.append(MergeFigure(version.version, tuple(sorted(removed)), tuple(sorted(added.values()))))

    def _sizes_at(self, version: int) -> dict[str, int] | None:
        try:
            files = self._log.at_version(version).files(columns=["path", "size"])
        except (VersionNotFoundError, CorruptTableError):
            return None
        return dict(zip(files.column("path").to_pylist(), files.column("size").to_pylist(), strict=True))


def partition_figures(inspection: Inspection) -> list[PartitionFigure]:
    """What each partition holds, in the order of their values."""
    return [
        PartitionFigure(tuple(value for _, value in row["partition"]), row["splits"], row["rows"], row["size_bytes"])
        for row in inspection.partitions().to_pylist()
    ]


def component_figures(inspection: Inspection, *, max_splits: int = 200) -> tuple[list[ComponentFigure], int]:
    """What the bytes of the largest splits are spent on, the most first, and how many splits were looked at."""
    task = _largest(inspection, None, max_splits)
    summed = sizes_of_components(task).group_by(["component", "field"]).aggregate([("size_bytes", "sum")])
    figures = [ComponentFigure(r["component"], r["field"], r["size_bytes_sum"]) for r in summed.to_pylist()]
    by_size = sorted(figures, key=lambda figure: (-figure.size_bytes, figure.component, figure.field or ""))
    return by_size, len(task.plan.splits)


def search_figures(inspection: Inspection, query: str, *, max_splits: int = 200) -> tuple[ScanReport, ScanReport]:
    """What a search costs in the largest splits it would open: finding the rows, then reading all their columns.

    What this process has read of the splits before is not read again, and not counted.
    """
    finding = explain(_largest(inspection, query, max_splits, columns=()))
    return finding, explain(_largest(inspection, query, max_splits))


def _largest(
    inspection: Inspection, query: str | None, max_splits: int, *, columns: Sequence[str] | None = None
) -> ScanTask:
    table = inspection.table
    plan = plan_scan(inspection.snapshot, table._spec, table._search_settings, query=query, columns=columns)
    largest = sorted(plan.splits, key=lambda entry: -entry.size)[:max_splits]
    return ScanTask(plan.with_splits(largest), inspection.log.store)
