"""Purging: deleting what a plan found, so that nobody at work beside it loses anything.

Before the first file goes, a version of its own says in the log that a purge takes place. It is the record for the history
and a fence for writers: it removes by name the splits that somebody may have been about to commit, and a commit that adds
one of them fails instead of naming a file that is gone. Ages are measured by the store's clock, which is asked before
anything is changed. Before every batch the newest version is looked at again, and whatever has come alive stays. The
newest checkpoint is proven before anything goes, and written anew if it is damaged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from indextables.config.state import CleanupSettings
from indextables.errors import IndexTablesError, StorageError, VersionNotFoundError
from indextables.log.cleaning import CleaningReport
from indextables.log.clock import StoreClock
from indextables.log.commit import Plan
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import CommitInfo, LogAction, RemoveAction, TxnAction
from indextables.model.conflicts import PURGE_TXN, Intent, Operation
from indextables.model.report import Report, counted, was
from indextables.model.snapshot import CommittedVersion, Snapshot
from indextables.storage.spec import StoreSpec, open_store
from indextables.storage.store import Store
from indextables.upkeep.progress import Progress, silent
from indextables.upkeep.purge_plan import PurgeFile, PurgePlan, Retention, log_policy, plan, sizes_by_kind
from indextables.upkeep.status import DRY_RUN, NO_ACTION, SUCCESS

T = TypeVar("T")
BATCH = 1_000
TOLERANCE_MS = 10_000
"""So far this machine may be ahead of the store before what is old is looked for again, by the store's clock."""
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
    damage = log.heal()
    if not any(True for _ in planned.all_files()):
        return _report(planned, (), status=SUCCESS if damage else NO_ACTION, duration_ms=0, damage=damage)
    planned = by_the_stores_clock(planned, log)
    if not any(True for _ in planned.all_files()):
        return _report(planned, (), status=SUCCESS if damage else NO_ACTION, duration_ms=0, damage=damage)
    fence = _put_up_fence(planned, log, engine_info)
    deleted: list[PurgeFile] = []
    work, newest, unfenced = planned.files, _Newest(log, planned, fence), planned.in_flight - fence.removed
    total, step = len(work) + len(planned.expiry.expired), BATCH if delete is None else _BATCH_ELSEWHERE
    for at in range(0, len(work), step):
        batch = newest.without_needed(work[at : at + step], in_flight=unfenced)
        paths = [file.path for file in batch]
        _again_if_it_fails(lambda: (delete or log.store.delete)(paths), retries)  # noqa: B023 (called at once)
        deleted += batch
        progress(min(at + step, len(work)), total, "files")

    def clean() -> CleaningReport:
        return log.cleaner().clean(
            log_policy(planned.settings, log_hours=planned.log_retention_hours),
            only={file.path for file in planned.expiry.expired},
            settings=CleanupSettings(failure_policy="fail"),
            told=lambda done: progress(len(work) + done, total, "files"),
        )

    cleaned = _again_if_it_fails(clean, retries)
    deleted += [PurgeFile(file.path, file.kind, file.size, file.reason) for file in cleaned.deleted]
    return _report(planned, deleted, status=SUCCESS, duration_ms=log.now_ms() - began_ms, damage=damage)


def preview(planned: PurgePlan, log: TransactionLog) -> PurgeReport:
    """What a dry run reports."""
    found, damage = tuple(planned.all_files()), log.damage()
    status = DRY_RUN if found or damage else NO_ACTION
    return _report(planned, found, status=status, duration_ms=0, dry_run=True, damage=damage)


def by_the_stores_clock(planned: PurgePlan, log: TransactionLog) -> PurgePlan:
    """The part of a plan that is old enough by the store's clock too. RefusedError if the clocks are far apart."""
    now_ms = StoreClock(log.store, log.now_ms).tell()
    if planned.now_ms - now_ms <= TOLERANCE_MS or not (planned.retention_hours or planned.log_retention_hours):
        return planned
    retention = Retention(planned.retention_hours, planned.log_retention_hours)
    again = plan(log, retention=retention, settings=planned.settings, now_ms=now_ms)
    promised = {file.path for file in planned.all_files()}
    return replace(
        planned,
        files=tuple(file for file in again.files if file.path in promised),
        expiry=again.expiry.only(promised),
        in_flight=planned.in_flight | again.in_flight,
    )


def _put_up_fence(planned: PurgePlan, log: TransactionLog, engine_info: str | None) -> CommittedVersion:
    """Record the purge; the splits that the version removes can be committed by no writer from then on."""
    committed = log.commit(planned.read, _Fence(planned, engine_info), keep_up=False)
    assert committed.offered is not None, "a purge always has something to record"
    return committed.offered


class _Newest:
    """The splits that came alive since a plan, and those of the newest version; looked at again at every question."""

    def __init__(self, log: TransactionLog, planned: PurgePlan, fence: CommittedVersion) -> None:
        self._log = log
        self._retains = planned.retention_hours > 0
        # The fence itself adds nothing; where it came right after what the plan read there is nothing in between.
        at = planned.read.version
        self._looked_until = fence.version if fence.version == at + 1 else at
        self._known: tuple[int, frozenset[str]] = (-1, frozenset())
        self._revived: set[str] = set()
        self._untold = False

    def without_needed(self, batch: Sequence[PurgeFile], *, in_flight: frozenset[str]) -> list[PurgeFile]:
        """The files of a batch that no version since the plan has, and that nobody can commit any more.

        One that came alive is kept even if it was removed again: its age counts from that removal (rule C2).
        """
        live = self._live()
        if self._untold:
            batch = [file for file in batch if file.kind != "split"]
        needed = live | self._revived | in_flight
        return [file for file in batch if file.path not in needed]

    def _live(self) -> frozenset[str]:
        newest = self._log.fresh()
        self._look_back(newest.version)
        if newest.version != self._known[0]:
            paths = newest.files(columns=["path"]).column("path").to_pylist()
            self._known = newest.version, frozenset(paths)
        return self._known[1]

    def _look_back(self, newest: int) -> None:
        if newest <= self._looked_until:
            return
        try:
            for version in self._log.since(self._looked_until, newest):
                self._revived |= version.added
        except VersionNotFoundError as gone:
            if self._retains:
                self._untold = True
                logger.warning("splits are left to the next purge of %s: %s", self._log.store.url, gone.message)
        self._looked_until = newest


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
    planned: PurgePlan,
    files: Sequence[PurgeFile],
    *,
    status: str,
    duration_ms: int,
    dry_run: bool = False,
    damage: IndexTablesError | None = None,
) -> PurgeReport:
    found, done = sizes_by_kind(planned.all_files()), sizes_by_kind(() if dry_run else files)

    def count(kinds: Mapping[str, tuple[int, int]], *names: str) -> int:
        return sum(kinds[name][0] for name in names if name in kinds)

    verb = "would be deleted" if dry_run else f"{was(len(files))} deleted"
    size = sum(file.size for file in files)
    message = "There is nothing to purge."
    if files:
        message = f"{counted(len(files), 'file')} of {counted(size, 'byte')} {verb}."
    if damage is not None:
        message = f"{damage.message} The checkpoint {'is' if dry_run else 'was'} written anew. {message}"
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
        message=message,
        files=tuple(files),
    )
