"""A clean copy of a log, in another place: the newest version that can be read, without splits that are gone.

The source is only read. The copy is a log of one version; put in the place of the damaged one it makes the table whole
again, as far as its splits are there.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from indextables.errors import CorruptTableError, IndexTablesError, NotFoundError, RefusedError, UnsupportedError
from indextables.log.create import FirstVersion, create_table
from indextables.log.listing import list_log
from indextables.log.replay import readable_versions
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import AddAction, LogAction
from indextables.model.conflicts import Operation
from indextables.model.file_list import to_actions
from indextables.model.report import Report
from indextables.model.schema_registry import with_mappings
from indextables.model.snapshot import Snapshot
from indextables.upkeep.repair_report import LeftOut, RepairReport
from indextables.upkeep.status import DRY_RUN, SUCCESS


class CopyPlan(Report, frozen=True):
    """What a clean copy would hold."""

    source_path: str
    target_path: str
    source_version: int
    newest_version: int
    """The highest number in the damaged log; what lies between cannot be read."""
    valid_splits: int
    left_out: tuple[LeftOut, ...]
    snapshot: Snapshot
    adds: tuple[AddAction, ...]
    hidden: ClassVar[tuple[str, ...]] = ("snapshot", "adds")

    def report(self, status: str) -> RepairReport:
        """The figures."""
        lost = self.newest_version - self.source_version
        message = f"Version {self.source_version} was the newest that could be read; {lost} after it are lost. "
        moved = f"Put {self.target_path}/_transaction_log in the place of the log of {self.source_path} to use it."
        return RepairReport(
            source_path=self.source_path,
            target_path=self.target_path,
            source_version=self.source_version,
            total_splits=self.valid_splits + len(self.left_out),
            valid_splits=self.valid_splits,
            missing_splits=len(self.left_out),
            status=status,
            message=(message if lost else "") + moved,
            left_out=self.left_out,
        )

    def preview(self) -> RepairReport:
        """What a dry run reports."""
        return self.report(DRY_RUN)


def plan(source: TransactionLog, target: TransactionLog) -> CopyPlan:
    """Read the source as far as it can be read, and look which of its splits are there."""
    if source.store.url == target.store.url:
        raise RefusedError(
            f"A copy of the log of {source.store.url} cannot be written over it.",
            hint="Give another place; the copy can be moved afterwards.",
            path=source.store.url,
        )
    snapshot = _newest_readable(source)
    files = snapshot.all_files
    there = {info.path: info.size for info in source.store.list()} if files.num_rows else {}
    adds, left_out = [], []
    for action in with_mappings(to_actions(files), snapshot.schema_registry):
        size = there.get(action.path)
        if size == action.size:
            adds.append(msgspec.structs.replace(action, added_at_version=None, added_at_timestamp=None))
        else:
            reason = "it is missing" if size is None else f"it has {size} bytes; the log says {action.size}"
            left_out.append(LeftOut(action.path, reason))
    return CopyPlan(
        source_path=source.store.url,
        target_path=target.store.url,
        source_version=snapshot.version,
        newest_version=list_log(source.store).newest,
        valid_splits=len(adds),
        left_out=tuple(left_out),
        snapshot=snapshot,
        adds=tuple(adds),
    )


def run(planned: CopyPlan, target: TransactionLog, *, engine_info: str) -> RepairReport:
    """Write the copy; TableExistsError if there is a table in that place."""
    header = planned.snapshot.header
    kept = {action.path for action in planned.adds}
    skips = [skip for skip in header.skips.values() if skip.path in kept]
    actions: list[LogAction] = [*header.txns.values(), *planned.adds, *skips]
    first = FirstVersion(
        operation=Operation.REPAIR,
        protocol=header.protocol,
        actions=actions,
        parameters={"source": planned.source_path, "version": planned.source_version},
    )
    create_table(target, planned.snapshot.metadata, exist_ok=False, engine_info=engine_info, first=first)
    return planned.report(SUCCESS)


def _newest_readable(log: TransactionLog) -> Snapshot:
    """The newest version, or the newest before the damage."""
    try:
        snapshot = log.reload()
        snapshot.files(columns=["path"])
        return snapshot
    except CorruptTableError as error:
        failure: IndexTablesError = error
    for version in reversed(readable_versions(list_log(log.store))):
        try:
            snapshot = log.at_version(version)
            snapshot.files(columns=["path"])
            return snapshot
        except (CorruptTableError, NotFoundError, UnsupportedError):
            continue
    raise failure
