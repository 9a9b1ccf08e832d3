"""Purging: deleting what a plan found, so that nobody at work beside it loses anything.

Before the first file goes, a version of its own says in the log that a purge takes place. It is the record for the history
and a fence for writers: it removes by name the splits that somebody may have been about to commit, and a commit that adds
one of them fails instead of naming a file that is gone. Its file also tells what time it is by the store's clock, which
is the one that ages are measured by. Before every batch the newest version is looked at again, and whatever has come
alive stays.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from indextables.config.state import CleanupSettings
from indextables.errors import StorageError
from indextables.log.cleaning import CleaningReport
from indextables.log.commit import Plan
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import CommitInfo, LogAction, RemoveAction, TxnAction
from indextables.model.conflicts import PURGE_TXN, Intent, Operation
from indextables.model.report import Report, counted, was
from indextables.model.snapshot import CommittedVersion, Snapshot
from indextables.storage.spec import StoreSpec, open_store
from indextables.storage.store import Store
from indextables.upkeep.progress import Progress, silent
from indextables.upkeep.purge_clock import by_the_stores_clock
from indextables.upkeep.purge_plan import PurgeFile, PurgePlan, sizes_by_kind
from indextables.upkeep.status import DRY_RUN, NO_ACTION, SUCCESS

T = TypeVar("T")
BATCH = 1_000
_BATCH_ELSEWHERE = 20_000
"""Files that are deleted together elsewhere than in this process: sending work away pays for many files only."""
logger = logging.getLogger(__name__)


class PurgeReport(Report, frozen=True):
    """What was found and what was deleted; `files` are those found on a dry run, those deleted otherwise."""

    table_path: str
    status: str
    orphaned_files_found: int
    orphaned_files_deleted: int
    size_bytes_deleted: int
    retention_hours: float
    tx_log_files_deleted: int
    expired_states_found: int
    expired_states_deleted: int
    manifests_deleted: int
    dry_run: bool
    duration_ms: int
    message: str
    files: tuple[PurgeFile, ...] = ()


class PurgeTask(Struct, frozen=True):
    """Some deletions, as work that travels."""

    spec: StoreSpec
    paths: tuple[str, ...]

    def run(self, *, store: Store | None = None) -> int:
        """Delete them; returns how many were named."""
        (store or open_store(self.spec)).delete(self.paths)
        return len(self.paths)


def run(
    planned: PurgePlan,
    log: TransactionLog,
    *,
    retries: int,
    delete: Callable[[Sequence[str]], None] | None = None,
    progress: Progress = silent,
    engine_info: str | None = None,
) -> PurgeReport:
    """Delete what a plan found. A batch that keeps failing raises; running the purge again goes on from there.

    `delete` deletes files elsewhere than in this process.
    """
    began_ms = log.now_ms()
    if not any(True for _ in planned.all_files()):
        return _report(planned, (), status=NO_ACTION, duration_ms=0)
    fence = _put_up_fence(planned, log, engine_info)
    planned = by_the_stores_clock(planned, log, fence.version)
    deleted: list[PurgeFile] = []
    work, newest, unfenced = planned.files, _Newest(log), planned.in_flight - fence.removed
    total, step = len(work) + len(planned.expiry.expired), BATCH if delete is None else _BATCH_ELSEWHERE
    for at in range(0, len(work), step):
        batch = newest.without_needed(work[at : at + step], in_flight=unfenced)
        paths = [file.path for file in batch]
        _again_if_it_fails(lambda: (delete or log.store.delete)(paths), retries)  # noqa: B023 (called at once)
        deleted += batch
        progress(min(at + step, len(work)), total, "files")
    cleaner, strict = log.cleaner(), CleanupSettings(failure_policy="fail")

    def clean() -> CleaningReport:
        return cleaner.run(
            planned.expiry, settings=strict, told=lambda done: progress(len(work) + done, total, "files")
        )

    cleaned = _again_if_it_fails(clean, retries)
    deleted += [PurgeFile(file.path, file.kind, file.size, file.reason) for file in cleaned.deleted]
    return _report(planned, deleted, status=SUCCESS, duration_ms=log.now_ms() - began_ms)


def preview(planned: PurgePlan) -> PurgeReport:
    """What a dry run reports."""
    found = tuple(planned.all_files())
    return _report(planned, found, status=DRY_RUN if found else NO_ACTION, duration_ms=0, dry_run=True)


def _put_up_fence(planned: PurgePlan, log: TransactionLog, engine_info: str | None) -> CommittedVersion:
    """Record the purge; the splits that the version removes can be committed by no writer from then on."""
    committed = log.commit(planned.read, _Fence(planned, engine_info), keep_up=False)
    assert committed.offered is not None, "a purge always has something to record"
    return committed.offered


class _Newest:
    """The splits of the newest version, looked at again whenever they are asked for."""

    def __init__(self, log: TransactionLog) -> None:
        self._log = log
        self._known: tuple[int, frozenset[str]] = (-1, frozenset())

    def without_needed(self, batch: Sequence[PurgeFile], *, in_flight: frozenset[str]) -> list[PurgeFile]:
        """The files of a batch that the newest version does not have, and that nobody can commit any more."""
        live = self._live()
        return [file for file in batch if file.path not in live and file.path not in in_flight]

    def _live(self) -> frozenset[str]:
        newest = self._log.fresh()
        if newest.version != self._known[0]:
            paths = newest.files(columns=["path"]).column("path").to_pylist()
            self._known = newest.version, frozenset(paths)
        return self._known[1]


def _again_if_it_fails(act: Callable[[], T], retries: int) -> T:
    for _ in range(retries):
        try:
            return act()
        except StorageError as failure:
            logger.warning("deleting failed and is tried again: %s", failure.message)
    return act()


class _Fence(Struct, frozen=True):
    """The commit of a purge."""

    planned: PurgePlan
    engine_info: str | None

    @property
    def intent(self) -> Intent:
        return Intent(Operation.PURGE, writes_data=False)

    def plan(self, snapshot: Snapshot, *, now_ms: int) -> Plan:
        planned = self.planned
        earlier = snapshot.header.txns.get(PURGE_TXN)
        horizon = max(planned.unreadable_before, earlier.version if earlier else 0)
        # The horizon tells the history which versions may have lost splits.
        actions: list[LogAction] = [TxnAction(app_id=PURGE_TXN, version=horizon, last_updated=now_ms)]
        if planned.in_flight:
            live = set(snapshot.files(columns=["path"]).column("path").to_pylist())
            condemned = sorted(planned.in_flight - live)
            actions += [RemoveAction(path=path, deletion_timestamp=now_ms, data_change=False) for path in condemned]
        return Plan(actions, self._info())

    def _info(self) -> CommitInfo:
        planned = self.planned
        kinds = sizes_by_kind(planned.all_files())
        counts = {f"num{kind.title().replace(' ', '')}Files": count for kind, (count, _) in kinds.items()}
        return CommitInfo(
            operation=Operation.PURGE,
            operation_parameters={
                "retentionHours": planned.retention_hours,
                "logRetentionHours": planned.log_retention_hours,
            },
            operation_metrics={**counts, "numBytes": sum(size for _, size in kinds.values())},
            engine_info=self.engine_info,
        )


def _report(
    planned: PurgePlan, files: Sequence[PurgeFile], *, status: str, duration_ms: int, dry_run: bool = False
) -> PurgeReport:
    found, done = sizes_by_kind(planned.all_files()), sizes_by_kind(() if dry_run else files)

    def count(kinds: Mapping[str, tuple[int, int]], *names: str) -> int:
        return sum(kinds[name][0] for name in names if name in kinds)

    verb = "would be deleted" if dry_run else f"{was(len(files))} deleted"
    size = sum(file.size for file in files)
    return PurgeReport(
        table_path=planned.table_path,
        status=status,
        orphaned_files_found=count(found, "split"),
        orphaned_files_deleted=count(done, "split"),
        size_bytes_deleted=0 if dry_run else size,
        retention_hours=planned.retention_hours,
        tx_log_files_deleted=count(done, "version", "checkpoint", "checkpoint part"),
        expired_states_found=count(found, "state"),
        expired_states_deleted=count(done, "state"),
        manifests_deleted=count(done, "manifest"),
        dry_run=dry_run,
        duration_ms=duration_ms,
        message=f"{counted(len(files), 'file')} of {counted(size, 'byte')} {verb}."
        if files
        else "There is nothing to purge.",
        files=tuple(files),
    )
