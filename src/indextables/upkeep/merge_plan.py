"""Which splits are merged with which: small ones of one partition, oldest first, up to the target size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from indextables.config.upkeep import MIN_SOURCES, MIN_TARGET_BYTES, MergeSettings
from indextables.errors import InvalidInputError
from indextables.log.selection import every_file, files_of_matching_partitions
from indextables.model.actions import MAX_LONG
from indextables.model.predicate import Predicate
from indextables.model.report import Report
from indextables.model.skips import without_cooling
from indextables.model.snapshot import Snapshot
from indextables.splits.layout import MAX_ROWS
from indextables.splits.live_indexing import Disputes, live_indexing
from indextables.upkeep.merge_report import MergeReport
from indextables.upkeep.rewriting import SourceSplit
from indextables.upkeep.source_splits import ListedSplit, source_splits, to_be_rewritten
from indextables.upkeep.status import DRY_RUN, NO_ACTION


class MergeGroup(Struct, frozen=True):
    """Splits of one partition that become one."""

    partition_values: dict[str, str | None]
    sources: tuple[SourceSplit, ...]

    @property
    def size_bytes(self) -> int:
        """Size of the sources together."""
        return sum(source.size for source in self.sources)

    @property
    def num_records(self) -> int:
        """Rows of the sources together, as far as the log says."""
        return sum(source.num_records or 0 for source in self.sources)


class MergeBounds(Struct, frozen=True):
    """What a merge was asked to do; checked when it is made."""

    target_bytes: int
    max_source_splits: int
    skip_threshold: float
    max_dest_splits: int | None = None

    def __post_init__(self) -> None:
        if self.target_bytes < MIN_TARGET_BYTES:
            raise InvalidInputError(
                f"A target size of {self.target_bytes} bytes is too small.",
                hint=f"Give at least {MIN_TARGET_BYTES} bytes (1M).",
                target_size=self.target_bytes,
            )
        if self.max_source_splits < MIN_SOURCES:
            message = f"{self.max_source_splits} source splits cannot be merged; at least {MIN_SOURCES} are needed."
            raise InvalidInputError(message, max_source_splits=self.max_source_splits)
        if self.max_dest_splits is not None and self.max_dest_splits < 1:
            message = f"A merge into {self.max_dest_splits} splits makes no sense."
            raise InvalidInputError(message, hint="Give 1 or more.", max_dest_splits=self.max_dest_splits)

    @classmethod
    def of(
        cls,
        settings: MergeSettings,
        *,
        target_bytes: int | None = None,
        max_source_splits: int | None = None,
        max_dest_splits: int | None = None,
    ) -> MergeBounds:
        """The settings, with what this merge asks for on top."""
        return cls(
            target_bytes=settings.target_bytes if target_bytes is None else target_bytes,
            max_source_splits=settings.max_source_splits if max_source_splits is None else max_source_splits,
            skip_threshold=settings.skip_threshold,
            max_dest_splits=max_dest_splits,
        )


class MergePlan(Report, frozen=True):
    """The groups to merge, in the order in which they are."""

    table_path: str
    version: int
    target_bytes: int
    where: Predicate | None
    groups: tuple[MergeGroup, ...]
    groups_left: int
    """Groups that `max_dest_splits` leaves for another time."""
    cooling_files: int
    """Splits left alone because an earlier merge failed to read them."""
    read: Snapshot
    decided: tuple[str, ...] = ()
    """Columns that are indexed in several ways, and as the table's configuration says after the merge."""
    hidden: ClassVar[tuple[str, ...]] = ("read", "decided")

    def details(self) -> dict[str, list[dict[str, Any]]]:
        """The groups, and the splits of each."""
        groups = [
            {
                "group": number,
                "partition_values": dict(group.partition_values),
                "splits": len(group.sources),
                "num_records": group.num_records,
                "size_bytes": group.size_bytes,
            }
            for number, group in enumerate(self.groups, start=1)
        ]
        sources = [
            {"group": number, "path": source.path, "size": source.size, "num_records": source.num_records}
            for number, group in enumerate(self.groups, start=1)
            for source in group.sources
        ]
        return {"groups": groups, "sources": sources}

    def preview(self) -> MergeReport:
        """What a dry run reports."""
        files = sum(len(group.sources) for group in self.groups)
        size = sum(group.size_bytes for group in self.groups)
        message = f"{files} splits would be merged into {len(self.groups)}." if files else "There is nothing to merge."
        return MergeReport(
            table_path=self.table_path,
            status=DRY_RUN if files else NO_ACTION,
            merged_files=files,
            merge_groups=len(self.groups),
            original_size_bytes=size,
            merged_size_bytes=size,
            skipped_files=self.cooling_files,
            version=None,
            message=message,
            sources=tuple(self.details()["sources"]),
        )


def plan(
    snapshot: Snapshot, *, url: str, bounds: MergeBounds, now_ms: int, where: Predicate | None = None
) -> MergePlan:
    """Group the small splits of a snapshot; those in cooldown are left alone."""
    chosen = every_file(snapshot) if where is None else files_of_matching_partitions(where)(snapshot)
    ready = without_cooling(chosen, snapshot.header.skips, now_ms=now_ms)
    disputes = live_indexing(snapshot).disputes
    registry = snapshot.schema_registry
    listed = source_splits(_worthwhile(ready, registry, bounds, disputes), registry, disputes)
    groups = sorted(
        _groups(listed, bounds), key=lambda group: (group.sources[0].modification_time, group.sources[0].path)
    )
    return MergePlan(
        table_path=url,
        version=snapshot.version,
        target_bytes=bounds.target_bytes,
        where=where,
        groups=tuple(groups[: bounds.max_dest_splits]),
        groups_left=len(groups[bounds.max_dest_splits :]) if bounds.max_dest_splits is not None else 0,
        cooling_files=chosen.num_rows - ready.num_rows,
        read=snapshot,
        decided=() if disputes is None else tuple(sorted(disputes.right)),
    )


def _worthwhile(
    files: pa.Table, registry: Mapping[str, str], bounds: MergeBounds, disputes: Disputes | None
) -> pa.Table:
    """The splits that a merge does not leave alone: small ones, those of another engine, and wrongly indexed ones."""
    # Compared as whole numbers: a size that no float can hold would end the comparison.
    limit = min(math.ceil(bounds.skip_threshold * bounds.target_bytes), MAX_LONG)
    small = pc.less(files.column("size"), pa.scalar(limit, pa.int64()))
    odd = pa.array(to_be_rewritten(files, registry, disputes), pa.bool_())
    return files.filter(pc.or_(small, pa.chunked_array([odd])))


def _groups(listed: Sequence[ListedSplit], bounds: MergeBounds) -> Iterator[MergeGroup]:
    limit = bounds.skip_threshold * bounds.target_bytes
    for (values, _), entries in groupby(sorted(listed, key=lambda f: f[1].side), key=lambda f: (f[0], f[1].side)):
        sources = [source for _, source in entries]
        for source in sources:
            if source.foreign and source.size >= limit:
                yield MergeGroup(dict(values), (source,))
        for group in _packed([source for source in sources if source.size < limit], bounds):
            # A split of another engine is rewritten even if it stands alone.
            if len(group) >= MIN_SOURCES or group[0].foreign:
                yield MergeGroup(dict(values), tuple(group))


def _packed(sources: Sequence[SourceSplit], bounds: MergeBounds) -> Iterator[list[SourceSplit]]:
    """Sources in their order, cut where the next one would be too much."""
    group: list[SourceSplit] = []
    size = rows = 0
    for source in sources:
        full = size + source.size > bounds.target_bytes or rows + (source.num_records or 0) > MAX_ROWS
        if group and (full or len(group) >= bounds.max_source_splits):
            yield group
            group, size, rows = [], 0, 0
        group.append(source)
        size += source.size
        rows += source.num_records or 0
    if group:
        yield group
