"""Drop partitions: remove every split of the matching partitions in one version, unread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from indextables.handle import ENGINE_INFO, TableHandle
from indextables.log.live_files import files_of_matching_partitions
from indextables.log.transaction import Changes
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import RemoveAction
from indextables.model.conflicts import Operation
from indextables.model.file_list import to_actions
from indextables.model.predicate import Predicate, Where
from indextables.model.report import Report
from indextables.model.snapshot import Snapshot
from indextables.operations.jobs import DRY_RUN, NO_ACTION, SUCCESS


class DroppedPartition(Struct, frozen=True):
    """A partition and its dropped content."""

    partition_values: dict[str, str | None]
    splits: int
    size_bytes: int


class DropReport(Report, frozen=True):
    """What was, or would be, dropped."""

    table_path: str
    status: str
    partitions_dropped: int
    splits_removed: int
    total_size_bytes: int
    version: int | None
    message: str
    partitions: tuple[DroppedPartition, ...] = ()


class DropPlan(Report, frozen=True):
    """The partitions that match now. The commit selects again, so a partition that is added
    meanwhile is dropped too.
    """

    table_path: str
    where: Predicate
    partitions: tuple[DroppedPartition, ...]
    read: Snapshot
    hidden: ClassVar[tuple[str, ...]] = ("read",)

    def preview(self) -> DropReport:
        """Return the report of a dry run."""
        return _report(self, self.partitions, None, DRY_RUN if self.partitions else NO_ACTION)


def plan(log: TransactionLog, where: Predicate) -> DropPlan:
    """Find the partitions that match a predicate over partition columns."""
    read = log.newest_writable()
    matching = files_of_matching_partitions(where)(read)
    gone = [(action.partition_values, action.size) for action in to_actions(matching)]
    return DropPlan(log.store.url, where, _partitions(gone), read)


def run(planned: DropPlan, log: TransactionLog, *, engine_info: str | None = None) -> DropReport:
    """Commit the drop. Without a match no version is written."""
    changes = Changes(
        Operation.DROP,
        selected=files_of_matching_partitions(planned.where),
        parameters={"where": str(planned.where)},
        engine_info=engine_info,
    )
    committed = log.commit(planned.read, changes)
    if committed.version is None:
        return _report(planned, (), None, NO_ACTION)
    if committed.offered is not None:
        actions = committed.offered.actions
    else:
        actions = ()
    gone = [(a.partition_values, a.size or 0) for a in actions if isinstance(a, RemoveAction)]
    return _report(planned, _partitions(gone), committed.version, SUCCESS)


def _partitions(
    gone: Sequence[tuple[dict[str, str | None] | None, int]],
) -> tuple[DroppedPartition, ...]:
    sizes: dict[tuple[tuple[str, str | None], ...], list[int]] = {}
    for values, size in gone:
        sizes.setdefault(tuple((values or {}).items()), []).append(size)
    return tuple(
        DroppedPartition(dict(values), len(split_sizes), sum(split_sizes))
        for values, split_sizes in sizes.items()
    )


def _report(
    planned: DropPlan, gone: tuple[DroppedPartition, ...], version: int | None, status: str
) -> DropReport:
    splits, size = sum(p.splits for p in gone), sum(p.size_bytes for p in gone)
    verb = "would be dropped" if status == DRY_RUN else "dropped"
    if gone:
        message = f"{len(gone)} partition(s) {verb}."
    else:
        message = f"No partition matches `{planned.where}`."
    return DropReport(planned.table_path, status, len(gone), splits, size, version, message, gone)


def drop_partitions(table: TableHandle, where: Where, *, dry_run: bool) -> DropReport:
    """Remove every split of the partitions that match. See `Table.drop_partitions`."""
    table.check_writable()
    condition = table.read_newest().bind_partitions(where)
    assert condition is not None
    planned = plan(table.log, condition)
    if dry_run:
        return planned.preview()
    return table.show_newest_after(run(planned, table.log, engine_info=ENGINE_INFO))
