"""The transaction log of one table: the door through which everything above reads and commits."""

from __future__ import annotations

import logging
import os
import random
import time
import uuid
from collections.abc import Callable, Hashable, Sequence
from datetime import UTC, datetime
from functools import cached_property, partial

from msgspec import Struct, field
from msgspec.structs import replace

from indextables.config.log import (
    CacheSettings,
    CheckpointSettings,
    CleanupSettings,
    CompactionSettings,
    LogReadSettings,
    RetentionSettings,
    RetrySettings,
    StateReadSettings,
    StateRetrySettings,
    StateWriteSettings,
    VersionFileSettings,
)
from indextables.errors import (
    CheckpointValidationError,
    CheckpointWriteError,
    CleanupError,
    CommitUnknownError,
    ConflictError,
    CorruptTableError,
    IndexTablesError,
    LogGapError,
    NotFoundError,
    StorageError,
    TableNotFoundError,
    VersionNotFoundError,
)
from indextables.log import replay as reading
from indextables.log.cache import CacheStats, LogCache, bounds_of
from indextables.log.checkpoint.checkpointer import (
    Checkpointer,
    CheckpointQueue,
    CheckpointReport,
    SpoiledCheckpointError,
)
from indextables.log.checkpoint.identity import check_is_there
from indextables.log.checkpoint.state_files import StateFiles
from indextables.log.checkpoint.state_reader import BaseReader
from indextables.log.checkpoint.state_writer import Compact
from indextables.log.checkpoint.verifier import CheckpointVerifier, is_of_another_engine
from indextables.log.cleaning import Cleaner, policy_of
from indextables.log.commit import CommitResult, Committer, commit_after
from indextables.log.log_files import LOG, list_log
from indextables.log.own_commits import OWN_COMMITS, CommitMark, table_key
from indextables.log.proposal import Proposal, TakeoverProposal
from indextables.log.replay import LoadedSnapshot
from indextables.log.replica import Replica
from indextables.log.transaction import Changes
from indextables.log.versions import GRAIN_MS, VersionReader
from indextables.metrics import METRICS
from indextables.model.actions import ProtocolAction, SkipAction
from indextables.model.conflicts import Operation, another_table, is_same_table
from indextables.model.protocol import (
    AVRO_STATE,
    PARQUET_SPLITS,
    SUPPORTED_VERSION,
    check_writable,
    is_shared,
    names_parquet_splits,
    upgraded,
)
from indextables.model.snapshot import CommittedVersion, Snapshot
from indextables.model.state import is_compact
from indextables.pools import LISTING
from indextables.storage.store import Store
from indextables.wire.state import AVRO_STATE as AVRO_STATE_FORM

logger = logging.getLogger(__name__)
CHECKPOINT_GRACE_MS = 1_000
"""For how long a checkpoint that is due is left to the writer whose commit completed the interval."""
PROCESS_CACHE = LogCache(0)  # its bound is the highest that a log of this process was opened with
os.register_at_fork(after_in_child=PROCESS_CACHE.renew_lock)
METRICS.collectors.append(PROCESS_CACHE.figures)


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
    has_gap: bool = False
    """Whether a checkpoint found a version of the log missing: the next commit looks for it first."""
    overdue_since: tuple[int, int] | None = None
    """The checkpoint that is missing its successor, and when that was first noticed (ms)."""

    def count_failure(self, url: str, failure: Exception, what: str, metric: str = "checkpoint_failures_total") -> None:
        """Log and count something that went wrong beside a commit."""
        self.failures += 1
        self.last_failure = str(failure)
        METRICS.count(metric, url)
        is_understood = isinstance(failure.__cause__, LogGapError)
        logger.warning(
            "%s was committed, but not %s: %s", url, what, failure, exc_info=None if is_understood else failure
        )

    def falls_to_us(self, snapshot: Snapshot, interval: int, now_ms: int) -> bool:
        """Whether this commit is the one to checkpoint at: of many writers at once, one does the work.

        It is the one that completes an interval. Others step in if nothing has come of it after a while, or when they
        complete the next interval; a writer that failed tries again at once.
        """
        last = max(snapshot.base.header.version, 0)
        if (snapshot.version - last) % interval == 0 or self.failed_last:
            return True
        if self.overdue_since is None or self.overdue_since[0] != last:
            self.overdue_since = (last, now_ms)
        return now_ms - self.overdue_since[1] > CHECKPOINT_GRACE_MS


class DueCheckpoint(Struct, frozen=True):
    """A checkpoint that a commit made due: of which snapshot, and how it is to be written."""

    snapshot: Snapshot
    compact: Compact
    settings: CheckpointSettings
    only_if_due: bool


def _vector_files(proposal: Proposal) -> Sequence[str]:
    """The files of deletion vectors that were written for a proposal, in all attempts."""
    writer = proposal.writer if isinstance(proposal, Changes) else None
    return tuple(writer.written) if writer is not None else ()


class CachedSnapshot(Struct, frozen=True):
    """A snapshot in the cache, when it was last compared with the store, and which of our commits it contains."""

    loaded: LoadedSnapshot
    listed_ms: int
    mark: CommitMark

    @property
    def snapshot(self) -> Snapshot:
        """The newest version that this process knows of."""
        return self.loaded.latest or self.loaded.snapshot

    def followed_by(self, snapshot: Snapshot, versions: Sequence[CommittedVersion], now_ms: int) -> CachedSnapshot:
        """The same with later versions, which were read or written by name at this time."""
        return replace(self, loaded=self.loaded.followed_by(snapshot, versions), listed_ms=now_ms)

    def with_own_commit(self, version: int, mark: CommitMark) -> CachedSnapshot:
        """The same after a commit of this process. It keeps its old mark, and is out of date, if it lacks some commit."""
        is_complete = self.snapshot.version >= version and mark == self.mark.following
        return replace(self, mark=mark) if is_complete else self


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
    background: CheckpointQueue | None = None
    """Where checkpoints that are due are written beside the commits; None: by the commit that makes them due."""
    replica: Replica | None = None
    """Where states are copied to."""
    place: Hashable = None
    """What tells the store from others of its URL: at another endpoint, with other keys. Nobody is shown what those hold."""

    def __post_init__(self) -> None:
        self.cache.max_bytes = max(self.cache.max_bytes, self.settings.cache.max_bytes)
        bounds = bounds_of(self.settings.cache)
        if bounds is not None:
            self.cache.bound(bounds)
        cache = self.cache if self.settings.cache.enabled else None
        self.reader = VersionReader(self.store, cache, self.settings.read)
        self.bases = BaseReader(self.reader, self.settings.state_read, not self.settings.checkpoint.enabled)
        self._table_id = ""
        self._read: LoadedSnapshot | None = None
        self._committed: Snapshot | None = None

    def newest(self, *, max_staleness_seconds: float | None = None) -> Snapshot:
        """The newest version. One listing tells whether the remembered snapshot still is it.

        Within `max_staleness_seconds` (by default the setting `transaction.cache.expirationSeconds`, 0) of the last listing,
        the cached snapshot is returned without a request, unless this application has committed to the table since. In the
        second half of that time it is refreshed in the background, so that frequent readers never wait for the listing.
        """
        cached = self._from_cache()
        if cached is None:
            snapshot = self.reload()
            self._count_looks(None, snapshot, listed=True)
            return snapshot
        loaded = cached.loaded
        patience = self.settings.cache.expiration_seconds if max_staleness_seconds is None else max_staleness_seconds
        patience_ms, age_ms = patience * 1000, self.now_ms() - cached.listed_ms
        if patience > 0 and age_ms < patience_ms and cached.mark == OWN_COMMITS.mark(self._key):
            if age_ms * 2 >= patience_ms:
                refresh, most = partial(self._refresh, cached), self.settings.cache.refresh_parallelism
                LISTING.submit_once(self.store.url, refresh, parallelism=most)
            self._count_looks(loaded.snapshot, loaded.snapshot, listed=False)
            self._snapshot_of_same_table(loaded)
            return cached.snapshot
        mark = OWN_COMMITS.mark(self._key)
        snapshot = self._remember(reading.advance(self.store, self.bases, loaded), mark)
        self._count_looks(loaded.snapshot, snapshot, listed=True)
        return snapshot

    def fresh(self) -> Snapshot:
        """The newest version as the store has it now, whatever staleness the settings allow."""
        return self.newest(max_staleness_seconds=0)

    def newest_writable(self) -> Snapshot:
        """The newest version in the store; UnsupportedError if this release must not change or delete anything of it."""
        snapshot = self.fresh()
        check_writable(snapshot.header.protocol, path=self.store.url)
        return snapshot

    def reload(self) -> Snapshot:
        """The newest version, read from the start, whatever is remembered."""
        began, mark = self.monotonic(), OWN_COMMITS.mark(self._key)
        loaded = reading.load(self.store, self.bases)
        base, seconds = loaded.snapshot.base, self.monotonic() - began
        kind = "avro-state" if isinstance(base.source, StateFiles) else "checkpoint"
        kind = kind if base.header.version >= 0 else "versions"
        METRICS.observe("load_seconds", seconds, self.store.url, kind)
        text = "loaded version %d of %s from %s (version %d) in %.1f ms"
        logger.info(text, loaded.snapshot.version, self.store.url, kind, base.header.version, seconds * 1000)
        return self._remember(loaded, mark)

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

    def invalidate_cache(self, kind: str | None = None) -> int:
        """Forget everything remembered of this table, or one kind (see `log/cache.py`); returns how many entries went."""
        return self.cache.invalidate(self.store.url, kind=kind)

    def _refresh(self, cached: CachedSnapshot) -> None:
        """Refresh the cached snapshot in the background. An error is logged; the next foreground read raises it."""
        mark = OWN_COMMITS.mark(self._key)
        try:
            loaded = reading.advance(self.store, self.bases, cached.loaded)
        except Exception as failure:  # noqa: BLE001 - nobody waits for this; it is told here
            logger.warning("looking for newer versions of %s in the background failed: %s", self.store.url, failure)
            return
        cost, look = 1_000 * (len(loaded.files) + 1), CachedSnapshot(loaded, self.now_ms(), mark)
        # Unless somebody has looked meanwhile: what they saw is as new, and holds their own commits.
        self.cache.put("snapshots", self.store.url, self.place, look, cost_bytes=cost, instead_of=cached)

    def _count_looks(self, known: Snapshot | None, snapshot: Snapshot, *, listed: bool) -> None:
        if not self.settings.cache.enabled:
            return
        old, new = known.header if known is not None else None, snapshot.header
        looks = {
            "protocol": old is not None and old.protocol == new.protocol,
            "metadata": old is not None and old.metadata == new.metadata,
            "files": known is snapshot,
            "versions_list": not listed,
        }
        for kind, hit in looks.items():
            self.cache.count(kind, self.store.url, hit=hit)

    def _from_cache(self) -> CachedSnapshot | None:
        if not self.settings.cache.enabled:
            return None
        cached: CachedSnapshot | None = self.cache.get("snapshots", self.store.url, self.place)
        return cached

    def count_own_commit(self, committed: CommitResult | None = None) -> None:
        """Make every cached snapshot of the table out of date, in all processes of this application.

        Only the one of this log goes on: with the version that was just written.
        """
        mark = OWN_COMMITS.add(self._key)
        cached = self._from_cache()
        if cached is None or committed is None or committed.written is None:
            return
        followed = cached.followed_by(committed.snapshot, [committed.written], self.now_ms())
        self._put(followed.with_own_commit(committed.snapshot.version, mark))

    def _follow(self, snapshot: Snapshot, versions: Sequence[CommittedVersion]) -> None:
        """Remember versions that were read by name, not from a listing."""
        reading.check_read(self.store, snapshot)
        cached = self._from_cache()
        if cached is not None:
            self._put(cached.followed_by(snapshot, versions, self.now_ms()))

    def _remembered(self) -> tuple[Snapshot, Sequence[CommittedVersion]] | None:
        """The newest version that this process knows of, and those before it that no listing has shown."""
        cached = self._from_cache()
        if cached is None:
            return None
        listed, own = self._snapshot_of_same_table(cached.loaded), cached.loaded.own
        snapshot = cached.snapshot
        if is_shared(snapshot.header.protocol) or is_of_another_engine(snapshot.base):
            return None  # another engine may commit by a state, which only a listing shows
        if snapshot.header.timestamp_ms > max(self.now_ms(), listed.header.timestamp_ms + len(own)) + GRAIN_MS:
            return None  # dated by a clock that was ahead: a listing says when the store received it
        return snapshot, own

    def _as_listed(self, snapshot: Snapshot) -> Snapshot:
        """The same version as others read it, if it is the newest: dated no later than a listing says."""
        newest = self.newest_writable()
        return newest if newest.version == snapshot.version else snapshot

    def _remember(self, loaded: LoadedSnapshot, mark: CommitMark) -> Snapshot:
        """Cache what was read; `mark` was taken before the read began."""
        snapshot = self._snapshot_of_same_table(loaded)
        if self.settings.cache.enabled:
            self._put(CachedSnapshot(loaded, self.now_ms(), mark))
        return snapshot

    def _put(self, cached: CachedSnapshot) -> None:
        self._snapshot_of_same_table(cached.loaded)
        cost = 1_000 * (len(cached.loaded.files) + 1)
        self.cache.put("snapshots", self.store.url, self.place, cached, cost_bytes=cost)

    @cached_property
    def _key(self) -> str:
        return table_key(self.store.url, self.store.local_path(LOG))

    def _snapshot_of_same_table(self, loaded: LoadedSnapshot) -> Snapshot:
        """Rule R15: what was read, if it is of the table that was read before."""
        table_id = loaded.snapshot.metadata.id
        if not is_same_table(self._table_id, table_id):
            raise another_table(self.store.url, self._table_id, table_id)
        self._table_id, self._read = table_id, loaded
        return loaded.snapshot


class CommitLog(SnapshotLog, dict=True):
    """Commits to one table, and does nothing else to it."""

    def commit(
        self, read: Snapshot, proposal: Proposal, *, txn_id: str | None = None, written: Sequence[str] = ()
    ) -> CommitResult:
        """Commit a proposal on the newest snapshot (see `log/commit.py`).

        `written` are splits that were written for it: if it is certain that no version names them, they are deleted.
        """
        try:
            proposal_taking_over = TakeoverProposal(proposal, raises_old=self.settings.checkpoint.format == "avro")
            committed = self._committer.commit(read, proposal_taking_over, txn_id=txn_id or self.new_id())
        except CommitUnknownError:
            self.count_own_commit()
            raise
        except IndexTablesError as error:
            METRICS.count("commit_conflicts_total", self.store.url, by=isinstance(error, ConflictError))
            self.discard([*written, *_vector_files(proposal)], since=read.version)
            raise
        if committed.version is None:
            self.discard([*written, *_vector_files(proposal)], since=read.version)
        if committed.version is not None:
            self._committed = committed.snapshot
            self.count_own_commit(committed)
            self._count(committed)
            self._discard_unused(_vector_files(proposal), committed)
        actions = committed.written.actions if committed.written is not None else ()
        was_ours = names_parquet_splits(read.header.protocol)
        if not was_ours and any(isinstance(a, ProtocolAction) and names_parquet_splits(a) for a in actions):
            logger.warning(_TAKEN_OVER, self.store.url, committed.version)
        return committed

    def _count(self, committed: CommitResult) -> None:
        url, retries = self.store.url, committed.attempts - 1
        METRICS.count("commits_total", url)
        if retries:
            METRICS.count("commit_retries_total", url, by=retries)
            logger.info("version %s of %s was committed after %d retries", committed.version, url, retries)
        for action in committed.written.actions if committed.written is not None else ():
            if isinstance(action, SkipAction):
                METRICS.count("skips_recorded_total", url, action.operation)
                until = datetime.fromtimestamp((action.retry_after or 0) / 1000, UTC)
                text = "skipped %s of %s (%d times) until %s: %s"
                logger.warning(text, action.path, url, action.skip_count, until, action.reason)

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

    def _discard_unused(self, paths: Sequence[str], committed: CommitResult) -> None:
        """Delete vector files of attempts that met others: what landed names only the last one."""
        named = committed.offered.named if committed.offered is not None else frozenset()
        unused = [path for path in paths if path not in named]
        if unused and committed.written is not None:
            try:
                self.store.delete(unused)
            except StorageError as error:
                logger.warning("vector files that nobody needs are left to a purge: %s", error.message)

    @property
    def _committer(self) -> Committer:
        return Committer(
            store=self.store,
            reader=self.reader,
            newest=self.fresh,
            reload=self.reload,
            at_version=self.at_version,
            since=self.since,
            follow=self._follow,
            remembered=self._remembered,
            listed=lambda version: self._read.files.get(version) if self._read is not None else None,
            retry=self.settings.retry,
            files=self.settings.files,
            now_ms=self.now_ms,
            monotonic=self.monotonic,
            rng=self.rng,
            sleep=self.sleep,
        )


class TransactionLog(CommitLog, dict=True):
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
        """The same; then checkpoint and clean up if it is time, unless `keep_up` is False.

        LogGapError if a checkpoint that was due found a version missing, and it still is: nothing is committed.
        """
        if self.upkeep.has_gap:
            self.upkeep.has_gap = False
            self.reload()
        committed = super().commit(read, proposal, txn_id=txn_id, written=written)
        if keep_up and committed.written is not None:
            self._keep_up(committed, read)
        return committed

    def checkpoint(self, *, compact: Compact = Compact.AS_NEEDED) -> CheckpointReport:
        """Checkpoint the newest version. An older protocol is raised first: only newer readers find an Avro state.

        Compacting a version that has a state already makes a version of its own, for states are never rewritten.
        """
        snapshot = self.newest_writable()
        if self._needs_upgrade(snapshot):
            snapshot = self._upgraded(snapshot)
        if compact is Compact.ALL and self.settings.checkpoint.format == "avro":
            snapshot = self._uncompacted(snapshot)
        try:
            report = self._write_checkpoint(snapshot, compact, thorough=True)
        except StorageError as failure:
            raise _write_error(self.store.url, snapshot.version, failure) from failure
        if report.format == AVRO_STATE_FORM:  # others are read whole: by who opens the table next, and not by us
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

    def adopt(self, snapshot: Snapshot, changes: Changes | None = None) -> CheckpointReport:
        """Go on, with a version and a state of it, from a snapshot that was recovered, next to whatever is damaged here."""
        repaired = changes or Changes(Operation.REPAIR, keep_empty=True, parameters={"version": snapshot.version})
        snapshot = commit_after(self._committer, snapshot, repaired, txn_id=self.new_id())
        self.count_own_commit()
        return self._write_checkpoint(snapshot, Compact.ALL, settings=self._avro_checkpoints, thorough=True)

    def _replicate(self, report: CheckpointReport, *, thorough: bool) -> None:
        """Copy a state to its replica, and clean up there. What goes wrong is logged and counted, never raised."""
        if self.replica is None:
            return
        try:
            if report.format != AVRO_STATE_FORM:
                raise CheckpointWriteError(f"A checkpoint as {report.format} is not copied to a replica; a state is.")
            target = self.replica.copy(self.store, report.version, thorough=thorough)
            if (cleanup := self.settings.cleanup).enabled:
                self.replica.clean(target, policy_of(self.settings.retention), cleanup, self.cleaner())
        except Exception as failure:  # noqa: BLE001 - whatever it is: the table is as it should be, its copy is not
            self.upkeep.count_failure(self.store.url, failure, "copied to its replica", "replica_failures_total")

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
                began = self.monotonic()
                report = checkpointer.write(snapshot, compact=compact, only_if_due=only_if_due, thorough=thorough)
                _counted(report, self.store.url, self.monotonic() - began)
                self._replicate(report, thorough=thorough)
                return report
            except SpoiledCheckpointError as spoiled:
                failure = spoiled.failure
            snapshot.files(columns=["path"])  # or it is told here, before anything is written, that they cannot be read
            snapshot = self.commit(snapshot, Changes(Operation.COMPACT, keep_empty=True), keep_up=False).snapshot
            compact = Compact.ALL
        raise CheckpointValidationError(failure.message, **failure.context) from failure

    def verifier(self) -> CheckpointVerifier:
        """A verifier of checkpoints, which has read nothing yet."""
        return CheckpointVerifier.of(self.store, self.settings.read, self.settings.state_read)

    def checkpoint_version(self, snapshot: Snapshot) -> int:
        """The version that a checkpoint of this snapshot would be of: its own, or that of the upgrade it needs first."""
        return snapshot.version + self._needs_upgrade(snapshot)

    def cleaner(self) -> Cleaner:
        """The cleaner of this log."""
        return Cleaner(self.store, self.bases, self.now_ms, self._tagged_versions)

    def _tagged_versions(self) -> frozenset[int]:
        """The versions that have a tag now. Cleaning reads them before each batch; it ends if the table is not writable."""
        return frozenset(self.newest_writable().header.tags.values())

    def _keep_up(self, committed: CommitResult, read: Snapshot) -> None:
        """Rule R8: what goes wrong here is logged and counted, never raised; the next writer does it again."""
        written, snapshot = committed.written, committed.snapshot
        merged = written is not None and written.info.operation == Operation.MERGE
        tidy = merged and self.settings.compaction.after_merge and self.settings.checkpoint.enabled
        # As long as the newest state is another engine's, that engine does not see our versions, and writes beside them.
        # The same holds for a table that this very commit took over (rule V11).
        is_taken_over = names_parquet_splits(snapshot.header.protocol) and not names_parquet_splits(
            read.header.protocol
        )
        is_open_to_others = is_of_another_engine(snapshot.base) or is_taken_over
        closed_to_others = not is_open_to_others or is_shared(snapshot.header.protocol)
        if closed_to_others and not tidy and not self._is_due(snapshot):
            return
        try:
            if self._needs_upgrade(snapshot):
                snapshot = self._upgraded(snapshot)
        except Exception as failure:  # noqa: BLE001 - whatever it is: the commit has landed and must not fail
            self.upkeep.count_failure(self.store.url, failure, "checkpointed")
            self.upkeep.failed_last = True
            return
        checkpoint, cleanup = self.settings.checkpoint, self.settings.cleanup
        due = DueCheckpoint(
            snapshot,
            Compact.DIRTY if tidy else Compact.AS_NEEDED,
            checkpoint if closed_to_others else self._avro_checkpoints,
            only_if_due=closed_to_others and not tidy,
        )
        # A table that another engine may still write to is closed to it at once; and who wants to be told that cleaning
        # failed waits for it.
        waits = not checkpoint.asynchronous or not closed_to_others or cleanup.failure_policy == "fail"
        if self.background is None or waits:
            self._write_due(due)
            return
        self.background.submit(
            self.store.url,
            partial(self._twin()._write_due, due),
            shutdown_timeout_s=checkpoint.shutdown_timeout_ms / 1000,
            workers=checkpoint.async_parallelism,
        )

    def _was_removed(self, snapshot: Snapshot) -> bool:
        """Whether the table of a snapshot is not there any more, or another one is in its place."""
        try:
            check_is_there(self.bases, snapshot)
        except (TableNotFoundError, ConflictError):
            return True
        except IndexTablesError:
            return False
        return False

    def _is_due(self, snapshot: Snapshot) -> bool:
        interval = self.settings.checkpoint.interval
        return self._checkpointer.is_due(snapshot) and self.upkeep.falls_to_us(snapshot, interval, self.now_ms())

    def _write_due(self, due: DueCheckpoint) -> None:
        """Write a checkpoint that a commit made due, and clean up behind it. Nothing is raised."""
        snapshot = due.snapshot
        try:
            check_is_there(self.bases, snapshot)
            snapshot = self._as_listed(snapshot)
            self._write_checkpoint(snapshot, due.compact, settings=due.settings, only_if_due=due.only_if_due)
            self.upkeep.checkpoints += 1
            self.upkeep.failed_last = False
            self.reload()
        except Exception as failure:  # noqa: BLE001 - whatever it is: the commit has landed and must not fail
            if self._was_removed(snapshot):
                logger.info(
                    "version %d of %s gets no checkpoint: the table was removed", snapshot.version, self.store.url
                )
                return
            error = _write_error(self.store.url, snapshot.version, failure)
            self.upkeep.count_failure(self.store.url, error, "checkpointed")
            self.upkeep.failed_last, self.upkeep.has_gap = True, isinstance(failure, LogGapError)
            return
        if self.settings.cleanup.enabled:
            self._clean_up(snapshot.version)

    def _twin(self) -> TransactionLog:
        """A log of the same table for another thread: what it reads and counts is shared, what it shows is not."""
        twin = replace(self, rng=random.Random(), background=None)
        twin._table_id = self._table_id
        return twin

    def _clean_up(self, version: int | None = None) -> None:
        """Clean the log. What goes wrong is told by `UpkeepCounts.cleanup_failure` if `cleanup.failurePolicy` says so."""
        try:
            report = self.cleaner().clean(policy_of(self.settings.retention), settings=self.settings.cleanup)
            if report.expired:
                logger.info("cleaned the log of %s: %s", self.store.url, report.summary())
                logger.debug("cleaned the log of %s: %s", self.store.url, report.to_dict())
            if report.damaged:
                self.heal()
                raise CorruptTableError(f"{report.failures[0]} What it would have to stand for was kept.")
        except Exception as failure:  # noqa: BLE001 - whatever it is: the commit has landed and must not fail
            self.upkeep.count_failure(self.store.url, failure, "cleaned up")
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


def _counted(report: CheckpointReport, url: str, seconds: float) -> None:
    if report.written:
        METRICS.observe("checkpoint_seconds", seconds, url, report.format)
        METRICS.count("checkpoint_entries_total", url, report.format, by=report.num_files)
        text = "created a checkpoint of version %d of %s: %s, %d entries, %d manifests, %d bytes, %.1f ms"
        figures = (report.format, report.num_files, report.num_manifests, report.size_bytes, seconds * 1000)
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
