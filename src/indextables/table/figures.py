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
from indextables.log import history as log_history
from indextables.log.log_files import list_log
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import AddAction, RemoveAction
from indextables.model.conflicts import Operation
from indextables.model.snapshot import CommittedVersion
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


def column_figures(
    schema: pa.Schema, partition_columns: Sequence[str], indexing: IndexingSettings
) -> list[ColumnFigure]:
    """Every column, and what a search finds it by."""
    mapping = DocMapping.from_settings(pa.schema([f for f in schema if f.name not in partition_columns]), indexing)
    kinds = {column.name: column.kind if column.indexed else "statistics" for column in mapping.columns}
    return [ColumnFigure(f.name, str(f.type), f.nullable, kinds.get(f.name, "partition")) for f in schema]


def version_figures(log: TransactionLog, *, limit: int) -> tuple[list[VersionFigure], list[MergeFigure]]:
    """The newest versions, oldest first, and the merges among them."""
    told = log_history.history(log, limit=limit).to_pylist()[::-1]
    listing = list_log(log.store)
    files = [(row["version"], listing.versions[row["version"]]) for row in told if row["version"] in listing.versions]
    walk = _VersionWalk(log, {version.version: version for version in log.reader.read(files)})
    return [walk.step(row) for row in told], walk.merges


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


def partition_figures(files: pa.Table, columns: Sequence[str]) -> list[PartitionFigure]:
    """What each partition holds, in the order of their values. Rows of splits that do not say how many count as none."""
    found: dict[tuple[str | None, ...], list[int]] = {}
    picked = (files.column(name).to_pylist() for name in ("partition_values", "num_records", "size"))
    for values, records, size in zip(*picked, strict=True):
        given = dict(values or [])
        totals = found.setdefault(tuple(given.get(name) for name in columns), [0, 0, 0])
        totals[0] += 1
        totals[1] += records or 0
        totals[2] += size
    return [PartitionFigure(key, *found[key]) for key in sorted(found, key=in_order)]


def in_order(values: Sequence[str | None]) -> list[tuple[bool, float, str]]:
    """Numbers by their value, texts as they are, no value last."""
    return [(value is None, _number(value), value or "") for value in values]


def _number(value: str | None) -> float:
    try:
        return float(value or "")
    except ValueError:
        return 0.0


def component_figures(sizes: pa.Table) -> list[ComponentFigure]:
    """The rows of `component_sizes` summed over the splits, the largest first."""
    summed = sizes.group_by(["component", "field"]).aggregate([("size_bytes", "sum")])
    found = [ComponentFigure(r["component"], r["field"], r["size_bytes_sum"]) for r in summed.to_pylist()]
    return sorted(found, key=lambda figure: (-figure.size_bytes, figure.component, figure.field or ""))
