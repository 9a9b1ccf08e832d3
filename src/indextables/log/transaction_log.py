"""The transaction log of one table: the door through which everything above reads and commits."""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Callable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from indextables.config.log import CacheSettings, LogReadSettings, RetrySettings, VersionFileSettings
from indextables.config.state import (
    CheckpointSettings,
    CleanupSettings,
    CompactionSettings,
    RetentionSettings,
    StateReadSettings,
    StateRetrySettings,
    StateWriteSettings,
)
from indextables.errors import (
    CleanupError,
    CommitUnknownError,
    CorruptTableError,
    IndexTablesError,
    NotFoundError,
    VersionNotFoundError,
)
from indextables.log import replay as reading
from indextables.log.cache import CacheStats, LogCache
from indextables.log.checkpoint.checkpointer import Checkpointer, CheckpointReport, SpoiledCheckpointError
from indextables.log.checkpoint.descent import is_of_another_engine
from indextables.log.checkpoint.state_files import StateFiles
from indextables.log.checkpoint.state_reader import BaseReader
from indextables.log.checkpoint.state_writer import Compact
from indextables.log.checkpoint.verifier import CheckpointVerifier
from indextables.log.cleaning import Cleaner, policy_of
from indextables.log.commit import CommitResult, Committer, Plan, Proposal
from indextables.log.log_files import list_log
from indextables.log.replay import LoadedSnapshot
from indextables.log.transaction import Changes
from indextables.log.versions import VersionReader
from indextables.model.actions import ProtocolAction
from indextables.model.conflicts import Intent, Operation, another_table, is_same_table
from indextables.model.protocol import AVRO_STATE, PARQUET_SPLITS, SUPPORTED_VERSION, is_shared, taken_over, upgraded
from indextables.model.snapshot import CommittedVersion, Snapshot
from indextables.model.state import is_compact
from indextables.storage.store import Store

logger = logging.getLogger(__name__)
CHECKPOINT_GRACE_MS = 1_000
"""For how long a checkpoint that is due is left to the writer whose commit completed the interval."""
PROCESS_CACHE = LogCache(CacheSettings().max_bytes)


_TAKEN_OVER = (
    "%s was another engine's table until now. Version %d raises its protocol: from here on it can be read and written by "
    "this package alone, because the other engine reads neither its splits nor its version files, and is refused. Older "
    "versions can still be opened by their number."
)


class LogSettings(Struct, frozen=True):
    """The settings of a log, together."""

    read: LogReadSettings = LogReadSettings()
    retry: RetrySettings = RetrySettings()
    cache: CacheSettings = CacheSettings()
    files: VersionFileSettings = VersionFileSettings()
    state_read: StateReadSettings = StateReadSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    state_write: StateWriteSettings = StateWriteSettings()
    compaction: CompactionSettings = CompactionSettings()
    state_retry: StateRetrySettings = StateRetrySettings()
    retention: RetentionSettings = RetentionSettings()
    cleanup: CleanupSettings = CleanupSettings()


class UpkeepCounts(Struct):
    """What was done beside the commits of this log object, and what failed."""

    checkpoints: int = 0
    failures: int = 0
    last_failure: str | None = None
    failed_last: bool = False
    cleanup_failure: CleanupError | None = None
    """What went wrong with cleaning, for the table to raise (`cleanup.failurePolicy=fail`)."""
    overdue_since: tuple[int, int] | None = None
    """The checkpoint that is missing its successor, and when that was first noticed (ms)."""


class _TakeoverProposal(Struct, frozen=True):
    """A proposal that also raises the protocol of a table that another engine could go on writing beside us."""

    proposal: Proposal

    @property
    def intent(self) -> Intent:
        return self.proposal.intent

    def plan(self, snapshot: Snapshot, *, now_ms: int) -> Plan:
        planned = self.proposal.plan(snapshot, now_ms=now_ms)
        if not planned.actions or not is_shared(snapshot.header.protocol):
            return planned
        own = [a for a in planned.actions if isinstance(a, ProtocolAction)]
        rest = [a for a in planned.actions if not isinstance(a, ProtocolAction)]
        return replace(planned, actions=[taken_over(own[-1] if own else snapshot.header.protocol), *rest])


class SnapshotLog(Struct, dict=True):
    """Reads the versions of one table, and remembers what it read. Clock, ids and randomness can be given for tests.

    The table is known by its id once it was read (rule R15): another one in its place is a ConflictError from then on.
    """

    store: Store
    settings: LogSettings = LogSettings()
    cache: LogCache = PROCESS_CACHE
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    new_id: Callable[[], str] = lambda: str(uuid.uuid4())
    rng: random.Random = field(default_factory=random.Random)
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    upkeep: UpkeepCounts = field(default_factory=UpkeepCounts)

    def __post_init__(self) -> None:
        self.cache.max_bytes = max(self.cache.max_bytes, self.settings.cache.max_bytes)
        cache = self.cache if self.settings.cache.enabled else None
        self.reader = VersionReader(self.store, cache, self.settings.read)
        self.bases = BaseReader(self.reader, self.settings.state_read)
        self._table_id = ""
        self._read: LoadedSnapshot | None = None
        self._committed: Snapshot | None = None

    def newest(self, *, max_staleness_seconds: float | None = None) -> Snapshot:
        """The newest version. One listing tells whether the remembered snapshot still is it.

        Within `max_staleness_seconds` (by default the setting `transaction.cache.expirationSeconds`, 0) of the last look,
        the remembered snapshot is returned without asking the store.
        """
        cached = self._from_cache()
        if cached is None:
            return self.reload()
        loaded, listed_ms = cached
        patience = self.settings.cache.expiration_seconds if max_staleness_seconds is None else max_staleness_seconds
        if patience > 0 and self.now_ms() - listed_ms < patience * 1000:
            return self._snapshot_of_same_table(loaded)
        return self._remember(reading.advance(self.store, self.bases, loaded))

    def fresh(self) -> Snapshot:
        """The newest version as the store has it now, whatever staleness the settings allow."""
        return self.newest(max_staleness_seconds=0)

    def reload(self) -> Snapshot:
        """The newest version, read from the start, whatever is remembered."""
        return self._remember(reading.load(self.store, self.bases))

    def at_version(self, version: int) -> Snapshot:
        """An older version by its number."""
        return reading.load(self.store, self.bases, version=version).snapshot

    def since(self, after: int, until: int) -> Sequence[CommittedVersion]:
        """The versions in (after, until]; VersionNotFoundError if the log no longer holds them all."""
        listing = list_log(self.store, first_version=after + 1)
        missing = listing.missing(after, until)
        if missing:
            raise VersionNotFoundError(f"Version {missing[0]} of {self.store.url} is not in the log any more.")
        try:
            return self.reader.read([(v, listing.versions[v]) for v in range(after + 1, until + 1)])
        except NotFoundError as error:
            message = f"The versions {after + 1} to {until} of {self.store.url} were cleaned away while they were read."
            raise VersionNotFoundError(message) from error

    def cache_stats(self) -> CacheStats:
        """Hits, misses and what is held of this table."""
        return self.cache.stats(self.store.url)

    def invalidate_cache(self) -> int:
        """Forget everything remembered of this table."""
        return self.cache.invalidate(self.store.url)

    def _from_cache(self) -> tuple[LoadedSnapshot, int] | None:
        if not self.settings.cache.enabled:
            return None
        cached: tuple[LoadedSnapshot, int] | None = self.cache.get("snapshots", self.store.url, "newest")
        return cached

    def _remember_own(self, version: CommittedVersion) -> None:
        cached = self._from_cache()
        if cached is not None and cached[0].snapshot.version == version.version - 1 - len(cached[0].own):
            self._remember(replace(cached[0], own=(*cached[0].own, version)))

    def _remember(self, loaded: LoadedSnapshot) -> Snapshot:
        snapshot = self._snapshot_of_same_table(loaded)
        if self.settings.cache.enabled:
            cost = 1_000 * (len(loaded.files) + 1)
            self.cache.put("snapshots", self.store.url, "newest", (loaded, self.now_ms()), cost_bytes=cost)
        return snapshot

    def _snapshot_of_same_table(self, loaded: LoadedSnapshot) -> Snapshot:
        """Rule R15: what was read, if it is of the table that was read before."""
        table_id = loaded.snapshot.metadata.id
        if not is_same_table(self._table_id, table_id):
            raise another_table(self.store.url, self._table_id, table_id)
        self._table_id, self._read = table_id, loaded
        return loaded.snapshot


class TransactionLog(SnapshotLog, dict=True):
    """The log of one table: read, committed to, checkpointed and kept in order."""

    def commit(
        self,
        read: Snapshot,
        proposal: Proposal,
        *,
        txn_id: str | None = None,
        written: Sequence[str] = (),
        keep_up: bool = True,
    ) -> CommitResult:
        """Commit a proposal on the newest snapshot (see `log/commit.py`); then checkpoint and clean up if it is time.

        `written` are splits that were written for it: if it is certain that no version names them, they are deleted.
        """
        try:
            committed = self._committer.commit(read, _TakeoverProposal(proposal), txn_id=txn_id or self.new_id())
        except CommitUnknownError:
            raise
        except IndexTablesError:
            self.discard(written, since=read.version)
            raise
        if committed.version is None:
            self.discard(written, since=read.version)
        if committed.version is not None:
            self._committed = committed.snapshot
        if committed.written is not None:
            if is_shared(read.header.protocol) and any(
                isinstance(a, ProtocolAction) for a in committed.written.actions
            ):
                logger.warning(_TAKEN_OVER, self.store.url, committed.version)
            self._remember_own(committed.written)
            if keep_up:
                self._keep_up(committed)
        return committed

    def after_commit(self) -> Snapshot:
        """The newest version; where it cannot be read, the one that was committed here last.

        Rule R8: a commit that landed is not told as failed because a look at the table afterwards failed.
        """
        try:
            return self.fresh()
        except IndexTablesError as failure:
            if self._committed is None:
                raise
            logger.warning(
                "%s was committed, but its newest version cannot be read: %s", self.store.url, failure.message
            )
            return self._committed

    def discard(self, paths: Sequence[str], *, since: int) -> bool:
        """Delete splits of a write that was planned on a version and failed, if no version names them (rule R14)."""
        return self._committer.discard(paths, since=since)

    @property
    def _committer(self) -> Committer:
        return Committer(
            store=self.store,
            reader=self.reader,
            newest=self.fresh,
            reload=self.reload,
            at_version=self.at_version,
            since=self.since,
            listed=lambda version: self._read.files.get(version) if self._read is not None else None,
            retry=self.settings.retry,
            files=self.settings.files,
            now_ms=self.now_ms,
            monotonic=self.monotonic,
            rng=self.rng,
            sleep=self.sleep,
        )

    def checkpoint(self, *, compact: Compact = Compact.AS_NEEDED) -> CheckpointReport:
        """Checkpoint the newest version. An older protocol is raised first: only newer readers find an Avro state.

        Compacting a version that has a state already makes a version of its own, for states are never rewritten.
        """
        snapshot = self.newest()
        if self._needs_upgrade(snapshot):
            snapshot = self._upgraded(snapshot)
        if compact is Compact.ALL and self.settings.checkpoint.format == "avro":
            snapshot = self._uncompacted(snapshot)
        report = self._write_checkpoint(snapshot, compact, thorough=True)
        self.reload()
        return report

    def damage(self) -> IndexTablesError | None:
        """What is wrong with the newest checkpoint, read from the store; None if it can be trusted."""
        return self.verifier().newest_failure(list_log(self.store))

    def heal(self) -> IndexTablesError | None:
        """Write the newest checkpoint anew if it is damaged; returns what was wrong with it.

        It gets another name; the damaged one stays where it is, and goes when it is old enough.
        """
        failure = self.damage()
        if failure is not None:
            self.checkpoint()
        return failure

    def _write_checkpoint(
        self,
        snapshot: Snapshot,
        compact: Compact,
        *,
        settings: CheckpointSettings | None = None,
        only_if_due: bool = False,
        thorough: bool = False,
    ) -> CheckpointReport:
        """Checkpoint a snapshot; if the place is taken by a checkpoint that is damaged, as a version of its own."""
        checkpointer = self._checkpointer if settings is None else replace(self._checkpointer, settings=settings)
        for _ in range(self.settings.state_retry.max_attempts):
            try:
                return checkpointer.write(snapshot, compact=compact, only_if_due=only_if_due, thorough=thorough)
            except SpoiledCheckpointError as spoiled:
                failure = spoiled.failure
            snapshot.files(columns=["path"])  # or it is told here, before anything is written, that they cannot be read
            snapshot = self.commit(snapshot, Changes(Operation.COMPACT, keep_empty=True), keep_up=False).snapshot
            compact = Compact.ALL
        raise failure

    def verifier(self) -> CheckpointVerifier:
        """A verifier of checkpoints, which has read nothing yet."""
        return CheckpointVerifier.of(self.store, self.settings.read, self.settings.state_read)

    def checkpoint_version(self, snapshot: Snapshot) -> int:
        """The version that a checkpoint of this snapshot would be of: its own, or that of the upgrade it needs first."""
        return snapshot.version + self._needs_upgrade(snapshot)

    def cleaner(self) -> Cleaner:
        """The cleaner of this log."""
        return Cleaner(self.store, self.bases, self.now_ms)

    def _keep_up(self, committed: CommitResult) -> None:
        """Rule R8: what goes wrong here is logged and counted, never raised; the next writer does it again."""
        written, snapshot = committed.written, committed.snapshot
        merged = written is not None and written.info.operation == Operation.MERGE
        tidy = merged and self.settings.compaction.after_merge and self.settings.checkpoint.enabled
        # As long as the newest state is another engine's, that engine does not see our versions, and writes beside them.
        closed_to_others = not is_of_another_engine(snapshot.base) or is_shared(snapshot.header.protocol)
        if closed_to_others and not tidy and not (self._checkpointer.is_due(snapshot) and self._falls_to_us(snapshot)):
            return
        try:
            if self._needs_upgrade(snapshot):
                snapshot = self._upgraded(snapshot)
            compact = Compact.DIRTY if tidy else Compact.AS_NEEDED
            settings = self.settings.checkpoint if closed_to_others else self._avro_checkpoints
            self._write_checkpoint(snapshot, compact, settings=settings, only_if_due=closed_to_others and not tidy)
            self.upkeep.checkpoints += 1
            self.upkeep.failed_last = False
            self.reload()
        except Exception as failure:  # noqa: BLE001 - whatever it is: the commit has landed and must not fail
            self._count_failure(failure, "checkpointed")
            self.upkeep.failed_last = True
            return
        if self.settings.cleanup.enabled:
            self._clean_up(committed.version)

    def _count_failure(self, failure: Exception, what: str) -> None:
        self.upkeep.failures += 1
        self.upkeep.last_failure = str(failure)
        logger.warning("%s was committed, but not %s: %s", self.store.url, what, failure, exc_info=True)

    def _falls_to_us(self, snapshot: Snapshot) -> bool:
        """Whether this commit is the one to checkpoint at: of many writers at once, one does the work.

        It is the one that completes an interval. Others step in if nothing has come of it after a while, or when they
        complete the next interval; a writer that failed tries again at once.
        """
        last = max(snapshot.base.header.version, 0)
        if (snapshot.version - last) % self.settings.checkpoint.interval == 0 or self.upkeep.failed_last:
            return True
        if self.upkeep.overdue_since is None or self.upkeep.overdue_since[0] != last:
            self.upkeep.overdue_since = (last, self.now_ms())
        return self.now_ms() - self.upkeep.overdue_since[1] > CHECKPOINT_GRACE_MS

    def _clean_up(self, version: int | None = None) -> None:
        """Clean the log. What goes wrong is told by `UpkeepCounts.cleanup_failure` if `cleanup.failurePolicy` says so."""
        try:
            report = self.cleaner().clean(policy_of(self.settings.retention), settings=self.settings.cleanup)
            if report.expired:
                logger.info("cleaned the log of %s: %s", self.store.url, report.to_dict())
            if report.damaged:
                self.heal()
                raise CorruptTableError(f"{report.failures[0]} What it would have to stand for was kept.")
        except Exception as failure:  # noqa: BLE001 - whatever it is: the commit has landed and must not fail
            self._count_failure(failure, "cleaned up")
            if self.settings.cleanup.failure_policy == "fail":
                self.upkeep.cleanup_failure = _cleanup_error(self.store.url, version, failure)

    @property
    def _checkpointer(self) -> Checkpointer:
        return Checkpointer(
            store=self.store,
            bases=self.bases,
            settings=self.settings.checkpoint,
            write_settings=self.settings.state_write,
            compaction=self.settings.compaction,
            retry=self.settings.state_retry,
            verifier=self.verifier,
            now_ms=self.now_ms,
            new_id=self.new_id,
            rng=self.rng,
            sleep=self.sleep,
        )

    @property
    def _avro_checkpoints(self) -> CheckpointSettings:
        return replace(self.settings.checkpoint, format="avro")

    def _needs_upgrade(self, snapshot: Snapshot) -> bool:
        protocol = snapshot.header.protocol
        oldest = min(protocol.min_reader_version, protocol.min_writer_version)
        return self.settings.checkpoint.format == "avro" and oldest < SUPPORTED_VERSION

    def _upgraded(self, snapshot: Snapshot) -> Snapshot:
        protocol = upgraded(
            snapshot.header.protocol,
            min_reader_version=SUPPORTED_VERSION,
            min_writer_version=SUPPORTED_VERSION,
            features=(AVRO_STATE, PARQUET_SPLITS),
        )
        return self.commit(snapshot, Changes(Operation.PROTOCOL, protocol=protocol), keep_up=False).snapshot

    def _uncompacted(self, snapshot: Snapshot) -> Snapshot:
        source = snapshot.base.source
        if snapshot.version != snapshot.base.header.version or not isinstance(source, StateFiles):
            return snapshot
        if is_compact(source.state, entries_per_manifest=self.settings.state_write.entries_per_manifest):
            return snapshot
        return self.commit(snapshot, Changes(Operation.COMPACT, keep_empty=True), keep_up=False).snapshot


def _cleanup_error(url: str, version: int | None, failure: Exception) -> CleanupError:
    why = failure.message if isinstance(failure, IndexTablesError) else failure
    message = f"Version {version} of {url} was committed, but cleaning up after it failed: {why}"
    return CleanupError(message, path=url, version=version)
