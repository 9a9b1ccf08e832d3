"""Maintenance of one log: checkpoints, the cleaning after them, and the copies in a replica.

Checkpoints and cleaning are derived work (rule R8): after a commit they never raise. What fails is
logged and counted in `UpkeepCounts`, and the next writer does it again.
"""

from __future__ import annotations

import logging
import random
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from indextables.config.log import CheckpointSettings
from indextables.errors import (
    CheckpointValidationError,
    CheckpointWriteError,
    CleanupError,
    ConflictError,
    CorruptTableError,
    IndexTablesError,
    LogGapError,
    StorageError,
    TableNotFoundError,
)
from indextables.log.checkpoint.checkpointer import (
    Checkpointer,
    CheckpointReport,
    SpoiledCheckpointError,
)
from indextables.log.checkpoint.compaction import is_compact
from indextables.log.checkpoint.identity import check_is_there
from indextables.log.checkpoint.state_files import StateFiles
from indextables.log.checkpoint.state_writer import Compact
from indextables.log.checkpoint.verifier import CheckpointVerifier, is_of_another_engine
from indextables.log.cleaning import Cleaner, policy_of
from indextables.log.commit import CommitResult, Committer
from indextables.log.context import LogContext
from indextables.log.log_files import list_log
from indextables.log.snapshots import Snapshots
from indextables.log.transaction import Changes
from indextables.metrics import METRICS
from indextables.model.conflicts import Operation
from indextables.model.protocol import (
    SUPPORTED_VERSION,
    is_shared,
    names_parquet_splits,
    take_over,
)
from indextables.model.snapshot import Snapshot
from indextables.wire.state import AVRO_STATE as AVRO_STATE_FORM

logger = logging.getLogger(__name__)
CHECKPOINT_GRACE_MS = 1_000
"""For how long a due checkpoint is left to the writer whose commit completed the interval."""


class UpkeepCounts(Struct):
    """What was done next to the commits of one log, and what failed."""

    checkpoints: int = 0
    failures: int = 0
    last_failure: str | None = None
    failed_last: bool = False
    cleanup_failure: CleanupError | None = None
    """The error of a failed cleaning, which the table raises if `cleanup.failurePolicy=fail`."""
    has_gap: bool = False
    """Whether a checkpoint found a version of the log missing: the next commit checks it first."""
    overdue_since: tuple[int, int] | None = None
    """The checkpoint whose successor is missing, and when that was first noticed (ms)."""

    def count_failure(
        self, url: str, failure: Exception, what: str, metric: str = "checkpoint_failures_total"
    ) -> None:
        """Log and count something that went wrong next to a commit."""
        self.failures += 1
        self.last_failure = str(failure)
        METRICS.count(metric, url)
        is_understood = isinstance(failure.__cause__, LogGapError)
        logger.warning(
            "%s was committed, but not %s: %s",
            url,
            what,
            failure,
            exc_info=None if is_understood else failure,
        )

    def should_checkpoint(self, snapshot: Snapshot, interval: int, now_ms: int) -> bool:
        """Return whether this commit is the one to checkpoint at: of many concurrent writers, one
        does the work.

        It is the one that completes an interval. Others step in if there is no checkpoint after a
        while, or when they complete the next interval; a writer that failed tries again at once.
        """
        last = max(snapshot.base.header.version, 0)
        if (snapshot.version - last) % interval == 0 or self.failed_last:
            return True
        if self.overdue_since is None or self.overdue_since[0] != last:
            self.overdue_since = (last, now_ms)
        return now_ms - self.overdue_since[1] > CHECKPOINT_GRACE_MS


class DueCheckpoint(Struct, frozen=True):
    """A checkpoint that a commit made due: of which snapshot, and how to write it."""

    snapshot: Snapshot
    compact: Compact
    settings: CheckpointSettings
    only_if_due: bool


class LogMaintenance:
    """Checkpoints one log, cleans it, and repairs its newest checkpoint."""

    def __init__(
        self, context: LogContext, snapshots: Snapshots, committer: Committer, counts: UpkeepCounts
    ) -> None:
        self.context = context
        self.snapshots = snapshots
        self.committer = committer
        self.counts = counts

    def checkpoint(self, *, compact: Compact = Compact.AS_NEEDED) -> CheckpointReport:
        """Checkpoint the newest version. An older protocol is raised first: only newer readers find
        an Avro state.

        Compacting a version that already has a state commits another version: states are never
        rewritten.
        """
        snapshot = self._upgrade(self.snapshots.newest_writable())
        if compact is Compact.ALL and self.context.settings.checkpoint.format == "avro":
            snapshot = self._leave_compact_version(snapshot)
        try:
            report = self._write_checkpoint(snapshot, compact, thorough=True)
        except StorageError as failure:
            raise _write_error(self.context.store.url, snapshot.version, failure) from failure
        if (
            report.format == AVRO_STATE_FORM
        ):  # others are read whole: by the next reader, not by this writer
            self.snapshots.reload()
        return report

    def checkpoint_version(self, snapshot: Snapshot) -> int:
        """Return the version that a checkpoint of this snapshot would have: its own, or that of the
        upgrade before it.
        """
        return snapshot.version + self._needs_upgrade(snapshot)

    def find_damage(self) -> IndexTablesError | None:
        """Return what is wrong with the newest checkpoint, read from the store; None if it can be
        trusted.
        """
        return self.verifier().newest_failure(list_log(self.context.store))

    def heal(self) -> IndexTablesError | None:
        """Write the newest checkpoint again if it is damaged; return what was wrong with it.

        The new one gets another name; the damaged one stays until it is old enough to be cleaned
        away.
        """
        failure = self.find_damage()
        if failure is not None:
            self.checkpoint()
        return failure

    def adopt(self, snapshot: Snapshot, changes: Changes | None = None) -> CheckpointReport:
        """Continue from a recovered snapshot with a new version and its state, next to the damaged
        files.
        """
        repaired = changes or Changes(
            Operation.REPAIR, keep_empty=True, parameters={"version": snapshot.version}
        )
        snapshot = self.committer.commit_after(snapshot, repaired)
        return self._write_checkpoint(
            snapshot, Compact.ALL, settings=self._avro_checkpoints, thorough=True
        )

    def follow_up(self, committed: CommitResult, read: Snapshot) -> None:
        """Checkpoint and clean after a commit, if it is time (rule R8)."""
        settings, snapshot = self.context.settings, committed.snapshot
        merged = (
            committed.written is not None and committed.written.info.operation == Operation.MERGE
        )
        should_tidy = merged and settings.compaction.after_merge and settings.checkpoint.enabled
        # As long as the newest state is another engine's, that engine does not see our versions,
        # and writes next to them. The same holds for a table that this very commit took over (rule
        # V11).
        is_taken_over = names_parquet_splits(snapshot.header.protocol) and not names_parquet_splits(
            read.header.protocol
        )
        is_open_to_others = is_of_another_engine(snapshot.base) or is_taken_over
        closed_to_others = not is_open_to_others or is_shared(snapshot.header.protocol)
        if closed_to_others and not should_tidy and not self._is_due(snapshot):
            return
        try:
            snapshot = self._upgrade(snapshot)
        except Exception as failure:  # noqa: BLE001 - whatever it is: the commit has landed and must not fail
            self.counts.count_failure(self.context.store.url, failure, "checkpointed")
            self.counts.failed_last = True
            return
        checkpoint = settings.checkpoint
        due = DueCheckpoint(
            snapshot,
            Compact.DIRTY if should_tidy else Compact.AS_NEEDED,
            checkpoint if closed_to_others else self._avro_checkpoints,
            only_if_due=closed_to_others and not should_tidy,
        )
        # A table that another engine may still write to is closed to it at once. The caller waits
        # for the cleaning where its failure is to be raised.
        must_wait = (
            not checkpoint.asynchronous
            or not closed_to_others
            or settings.cleanup.failure_policy == "fail"
        )
        if self.context.background is None or must_wait:
            self._write_due(due)
            return
        self.context.background.submit(
            self.context.store.url,
            partial(self._copy_for_thread()._write_due, due),
            shutdown_timeout_s=checkpoint.shutdown_timeout_ms / 1000,
            workers=checkpoint.async_parallelism,
        )

    def clean_up(self, version: int | None = None) -> None:
        """Clean the log. Nothing is raised; `UpkeepCounts.cleanup_failure` holds what failed where
        it is to be raised.
        """
        settings, url = self.context.settings, self.context.store.url
        try:
            report = self.cleaner().clean(policy_of(settings.retention), settings=settings.cleanup)
            if report.expired:
                logger.info("cleaned the log of %s: %s", url, report.summary())
                logger.debug("cleaned the log of %s: %s", url, report.to_dict())
            if report.damaged:
                self.heal()
                raise CorruptTableError(
                    f"{report.failures[0]} What it would have to replace was kept."
                )
        except Exception as failure:  # noqa: BLE001 - whatever it is: the commit has landed and must not fail
            self.counts.count_failure(url, failure, "cleaned up")
            if settings.cleanup.failure_policy == "fail":
                self.counts.cleanup_failure = _cleanup_error(url, version, failure)

    def verifier(self) -> CheckpointVerifier:
        """Return a verifier of checkpoints, which has read nothing yet."""
        settings = self.context.settings
        return CheckpointVerifier.of(self.context.store, settings.read, settings.state_read)

    def cleaner(self) -> Cleaner:
        """Return the cleaner of this log."""
        return Cleaner(
            self.context.store,
            self.snapshots.bases,
            self.context.now_ms,
            self._read_tagged_versions,
        )

    @property
    def checkpointer(self) -> Checkpointer:
        """The writer of this log's checkpoints, with the settings in force."""
        context, settings = self.context, self.context.settings
        return Checkpointer(
            store=context.store,
            bases=self.snapshots.bases,
            settings=settings.checkpoint,
            write_settings=settings.state_write,
            compaction=settings.compaction,
            retry=settings.state_retry,
            verifier=self.verifier,
            now_ms=context.now_ms,
            new_id=context.new_id,
            rng=context.rng,
            sleep=context.sleep,
        )

    @property
    def _avro_checkpoints(self) -> CheckpointSettings:
        return replace(self.context.settings.checkpoint, format="avro")

    def _read_tagged_versions(self) -> frozenset[int]:
        """Return the versions that have a tag now. Cleaning reads them before each batch, and ends
        at a newer protocol.
        """
        return frozenset(self.snapshots.newest_writable().header.tags.values())

    def _is_due(self, snapshot: Snapshot) -> bool:
        interval = self.context.settings.checkpoint.interval
        is_due = self.checkpointer.is_due(snapshot)
        return is_due and self.counts.should_checkpoint(snapshot, interval, self.context.now_ms())

    def _write_due(self, due: DueCheckpoint) -> None:
        """Write a checkpoint that a commit made due, and clean up after it. Nothing is raised."""
        snapshot, url = due.snapshot, self.context.store.url
        try:
            check_is_there(self.snapshots.bases, snapshot)
            snapshot = self.snapshots.read_as_listed(snapshot)
            self._write_checkpoint(
                snapshot, due.compact, settings=due.settings, only_if_due=due.only_if_due
            )
            self.counts.checkpoints += 1
            self.counts.failed_last = False
            self.snapshots.reload()
        except Exception as failure:  # noqa: BLE001 - whatever it is: the commit has landed and must not fail
            if self._was_removed(snapshot):
                logger.info(
                    "version %d of %s gets no checkpoint: the table was removed",
                    snapshot.version,
                    url,
                )
                return
            error = _write_error(url, snapshot.version, failure)
            self.counts.count_failure(url, error, "checkpointed")
            self.counts.failed_last, self.counts.has_gap = True, isinstance(failure, LogGapError)
            return
        if self.context.settings.cleanup.enabled:
            self.clean_up(snapshot.version)

    def _was_removed(self, snapshot: Snapshot) -> bool:
        """Return whether the table of a snapshot was removed or replaced by another one."""
        try:
            check_is_there(self.snapshots.bases, snapshot)
        except (TableNotFoundError, ConflictError):
            return True
        except IndexTablesError:
            return False
        return False

    def _write_checkpoint(
        self,
        snapshot: Snapshot,
        compact: Compact,
        *,
        settings: CheckpointSettings | None = None,
        only_if_due: bool = False,
        thorough: bool = False,
    ) -> CheckpointReport:
        """Checkpoint a snapshot; where a damaged checkpoint has its number, as another version."""
        context, checkpointer = self.context, self.checkpointer
        if settings is not None:
            checkpointer = replace(checkpointer, settings=settings)
        for _ in range(context.settings.state_retry.max_attempts):
            try:
                began = context.monotonic()
                report = checkpointer.write(
                    snapshot, compact=compact, only_if_due=only_if_due, thorough=thorough
                )
                _count_checkpoint(report, context.store.url, context.monotonic() - began)
                self._replicate(report, thorough=thorough)
                return report
            except SpoiledCheckpointError as spoiled:
                failure = spoiled.failure
            snapshot.files(
                columns=["path"]
            )  # raises here, before anything is written, if they cannot be read
            snapshot = self._commit_version(snapshot, Changes(Operation.COMPACT, keep_empty=True))
            compact = Compact.ALL
        raise CheckpointValidationError(failure.message, **failure.context) from failure

    def _replicate(self, report: CheckpointReport, *, thorough: bool) -> None:
        """Copy a state to its replica and clean up there. Errors are logged and counted, never
        raised.
        """
        context, replica = self.context, self.context.replica
        if replica is None:
            return
        try:
            if report.format != AVRO_STATE_FORM:
                raise CheckpointWriteError(
                    f"A checkpoint as {report.format} is not copied to a replica; a state is."
                )
            target = replica.copy(context.store, report.version, thorough=thorough)
            cleanup = context.settings.cleanup
            if cleanup.enabled:
                replica.clean(
                    target, policy_of(context.settings.retention), cleanup, self.cleaner()
                )
        except Exception as failure:  # noqa: BLE001 - whatever it is: the table is as it should be, its copy is not
            self.counts.count_failure(
                context.store.url, failure, "copied to its replica", "replica_failures_total"
            )

    def _copy_for_thread(self) -> LogMaintenance:
        """Return the maintenance of the same log for another thread: counts are shared, what it
        reads is not.
        """
        context = replace(self.context, rng=random.Random(), background=None)
        snapshots = Snapshots(context, table_id=self.snapshots.table_id)
        return LogMaintenance(context, snapshots, Committer(context, snapshots), self.counts)

    def _needs_upgrade(self, snapshot: Snapshot) -> bool:
        protocol = snapshot.header.protocol
        oldest = min(protocol.min_reader_version, protocol.min_writer_version)
        return self.context.settings.checkpoint.format == "avro" and oldest < SUPPORTED_VERSION

    def _upgrade(self, snapshot: Snapshot) -> Snapshot:
        """Commit a newer protocol where an Avro state needs it."""
        if not self._needs_upgrade(snapshot):
            return snapshot
        protocol = take_over(snapshot.header.protocol)
        return self._commit_version(snapshot, Changes(Operation.PROTOCOL, protocol=protocol))

    def _leave_compact_version(self, snapshot: Snapshot) -> Snapshot:
        """Commit another version where this one has a state already that is not compact."""
        source = snapshot.base.source
        if snapshot.version != snapshot.base.header.version or not isinstance(source, StateFiles):
            return snapshot
        if is_compact(
            source.state,
            entries_per_manifest=self.context.settings.state_write.entries_per_manifest,
        ):
            return snapshot
        return self._commit_version(snapshot, Changes(Operation.COMPACT, keep_empty=True))

    def _commit_version(self, read: Snapshot, changes: Changes) -> Snapshot:
        """Commit a version that maintenance needs, without maintenance after it."""
        if self.counts.has_gap:
            self.counts.has_gap = False
            self.snapshots.reload()
        return self.committer.commit(read, changes).snapshot


def _count_checkpoint(report: CheckpointReport, url: str, seconds: float) -> None:
    if report.written:
        METRICS.observe("checkpoint_seconds", seconds, url, report.format)
        METRICS.count("checkpoint_entries_total", url, report.format, by=report.num_files)
        text = "created a checkpoint of version %d of %s: %s, %d entries, %d manifests, %d bytes, %.1f ms"
        figures = (
            report.format,
            report.num_files,
            report.num_manifests,
            report.size_bytes,
            seconds * 1000,
        )
        logger.info(text, report.version, url, *figures)


def _write_error(url: str, version: int, failure: Exception) -> CheckpointWriteError:
    why = failure.message if isinstance(failure, IndexTablesError) else failure
    error = CheckpointWriteError(
        f"The checkpoint of version {version} of {url} failed: {why}",
        hint=failure.hint if isinstance(failure, LogGapError) else None,
        path=url,
        version=version,
    )
    error.__cause__ = failure
    return error


def _cleanup_error(url: str, version: int | None, failure: Exception) -> CleanupError:
    why = failure.message if isinstance(failure, IndexTablesError) else failure
    message = f"Version {version} of {url} was committed, but cleaning up after it failed: {why}"
    return CleanupError(message, path=url, version=version)
