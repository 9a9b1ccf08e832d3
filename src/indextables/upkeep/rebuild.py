"""Rebuilding a lost log from the splits alone: they carry their schema, statistics, partition and mapping.

What no split can tell is which of the others were removed before the log was lost. A split that was merged or rewritten
into another one that is there is left out; one that was overwritten or dropped and not yet purged comes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

from indextables.errors import CorruptTableError, NotFoundError, RefusedError, TableNotFoundError, UnsupportedError
from indextables.log.create import FirstVersion, create_table
from indextables.log.listing import list_log
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import AddAction, MetadataAction
from indextables.model.conflicts import Operation
from indextables.model.report import Report
from indextables.splits.description import describe_split
from indextables.splits.layout import path_mark
from indextables.splits.source import open_source
from indextables.storage.store import ObjectInfo, Store
from indextables.upkeep.progress import Progress, silent
from indextables.upkeep.repair_report import LeftOut, RepairReport
from indextables.upkeep.status import DRY_RUN, NO_ACTION, SUCCESS
from indextables.upkeep.table_files import own_files
from indextables.upkeep.table_layout import FoundSplit, TableLayout, layout_of


class RebuildPlan(Report, frozen=True):
    """What the new log would say."""

    table_path: str
    total_splits: int
    valid_splits: int
    left_out: tuple[LeftOut, ...]
    unreadable_splits: int
    layout: TableLayout
    adds: tuple[AddAction, ...]
    hidden: ClassVar[tuple[str, ...]] = ("layout", "adds")

    def report(self, status: str) -> RepairReport:
        """The figures."""
        replaced = len(self.left_out) - self.unreadable_splits
        return RepairReport(
            source_path=self.table_path,
            target_path=self.table_path,
            source_version=None,
            total_splits=self.total_splits,
            valid_splits=self.valid_splits,
            missing_splits=self.unreadable_splits,
            status=status,
            message=f"{self.valid_splits} splits make up the table; {replaced} had been replaced by others. "
            "Splits that had been overwritten or dropped, and not yet purged, are part of it again.",
            left_out=self.left_out,
        )

    def preview(self) -> RepairReport:
        """What a dry run reports."""
        return self.report(DRY_RUN)


def heal(log: TransactionLog, *, dry_run: bool) -> RepairReport:
    """What a repair does with a log that can be read: a checkpoint that is damaged is written anew beside it."""
    snapshot, damage = log.fresh(), log.damage()
    message = "The table can be opened, and its newest checkpoint is what the versions say. verify() looks at the rest."
    status = NO_ACTION
    if damage is not None:
        status = DRY_RUN if dry_run else SUCCESS
        version = log.checkpoint_version(snapshot) if dry_run else log.checkpoint().version
        message = f"{damage.message} The checkpoint {'is' if dry_run else 'was'} written anew at version {version}."
    files = snapshot.files(columns=["path"]).num_rows
    return RepairReport(
        source_path=log.store.url,
        target_path=log.store.url,
        source_version=snapshot.version,
        total_splits=files,
        valid_splits=files,
        missing_splits=0,
        status=status,
        message=message,
    )


def plan(log: TransactionLog, *, parallelism: int, progress: Progress = silent) -> RebuildPlan:
    """Look at every split below a folder. Nothing is changed."""
    store = log.store
    if not list_log(store).is_empty:
        raise RefusedError(
            f"There is a log at {store.url}; it is rebuilt only where it is lost.",
            hint="Write a clean copy with Table.repair(path, at=...), or move the _transaction_log folder away first.",
            path=store.url,
        )
    files = [info for info in own_files(store.list()) if info.path.endswith(".split")]
    if not files:
        raise TableNotFoundError(f"There are no splits at {store.url} to rebuild a table from.", path=store.url)
    found, bad = _described(store, files, parallelism, progress)
    marks = {mark for split in found for mark in split.replaces}
    replaced = [split for split in found if path_mark(split.path) in marks]
    layout = layout_of([split for split in found if split not in replaced], url=store.url)
    left_out = [*bad, *(LeftOut(split.path, "its rows are in another split") for split in replaced)]
    adds = []
    for split in layout.splits:
        values = layout.values_of(split)
        if values is None:
            bad.append(LeftOut(split.path, "it belongs to a table with other partition columns"))
            left_out.append(bad[-1])
        else:
            adds.append(split.said.add_action(values, modification_time=split.modified_ms))
    return RebuildPlan(store.url, len(files), len(adds), tuple(left_out), len(bad), layout, tuple(adds))


def run(planned: RebuildPlan, log: TransactionLog, *, engine_info: str) -> RepairReport:
    """Write the log: one version with everything, and its state."""
    layout = planned.layout
    metadata = MetadataAction(
        id=log.new_id(),
        schema_string=layout.schema_json,
        partition_columns=layout.partition_columns,
        configuration=dict(layout.configuration),
        created_time=log.now_ms(),
    )
    first = FirstVersion(operation=Operation.REPAIR, actions=planned.adds, parameters={"splits": planned.valid_splits})
    create_table(log, metadata, exist_ok=False, engine_info=engine_info, first=first)
    return planned.report(SUCCESS)


def _described(
    store: Store, files: Sequence[ObjectInfo], parallelism: int, progress: Progress
) -> tuple[list[FoundSplit], list[LeftOut]]:
    """What each split says of itself, the oldest first; and those that cannot be read."""

    def look(info: ObjectInfo) -> FoundSplit | LeftOut:
        try:
            said = describe_split(open_source(store, info.path, size=info.size))
            return FoundSplit(info.path, info.last_modified_ms or 0, said)
        except (CorruptTableError, UnsupportedError, NotFoundError) as error:
            return LeftOut(info.path, error.message)

    found: list[FoundSplit] = []
    bad: list[LeftOut] = []
    with ThreadPoolExecutor(min(parallelism, len(files)), thread_name_prefix="indextables-repair") as pool:
        for done, split in enumerate(pool.map(look, files), start=1):
            (found if isinstance(split, FoundSplit) else bad).append(split)  # type: ignore[arg-type]
            progress(done, len(files), "splits")
    return sorted(found, key=lambda split: (split.modified_ms, split.path)), bad
