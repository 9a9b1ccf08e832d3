"""The transaction log of one table: the entry point through which every layer above reads and
commits.

It delegates to its parts: `Snapshots` reads, `Committer` commits, `LogMaintenance` checkpoints and
cleans.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from indextables.errors import IndexTablesError
from indextables.log.cache import CacheStats
from indextables.log.checkpoint.checkpointer import CheckpointQueue, CheckpointReport
from indextables.log.checkpoint.state_writer import Compact
from indextables.log.checkpoint.verifier import CheckpointVerifier
from indextables.log.cleaning import Cleaner
from indextables.log.commit import CommitResult, Committer
from indextables.log.context import LogContext, LogSettings
from indextables.log.maintenance import LogMaintenance, UpkeepCounts
from indextables.log.proposal import Proposal
from indextables.log.replica import Replica
from indextables.log.snapshots import Snapshots
from indextables.log.transaction import Changes
from indextables.model.snapshot import CommittedVersion, Snapshot
from indextables.storage.store import Store

logger = logging.getLogger(__name__)


class TransactionLog:
    """The log of one table: read, committed to, checkpointed and cleaned."""

    def __init__(self, context: LogContext) -> None:
        self.context = context
        self.cache = context.cache
        self.new_id = context.new_id
        self.snapshots = Snapshots(context)
        self.reader, self.bases = self.snapshots.reader, self.snapshots.bases
        self.committer = Committer(context, self.snapshots)
        self.upkeep = UpkeepCounts()
        self.maintenance = LogMaintenance(context, self.snapshots, self.committer, self.upkeep)

    @property
    def store(self) -> Store:
        """The table's location."""
        return self.context.store

    @property
    def settings(self) -> LogSettings:
        """The settings in force; a table replaces them when its metadata changes."""
        return self.context.settings

    @settings.setter
    def settings(self, settings: LogSettings) -> None:
        self.context.settings = settings

    @property
    def background(self) -> CheckpointQueue | None:
        """Where due checkpoints are written in the background; None: by the commit that makes them
        due.
        """
        return self.context.background

    @property
    def replica(self) -> Replica | None:
        """Where states are copied to."""
        return self.context.replica

    def now_ms(self) -> int:
        """Return the time by this machine's clock."""
        return self.context.now_ms()

    def newest(self, *, max_staleness_seconds: float | None = None) -> Snapshot:
        """Return the newest version, or the cached one as long as the settings allow (see
        `Snapshots.newest`).
        """
        return self.snapshots.newest(max_staleness_seconds=max_staleness_seconds)

    def fresh(self) -> Snapshot:
        """Return the newest version as the store has it now, whatever staleness the settings allow."""
        return self.snapshots.fresh()

    def newest_writable(self) -> Snapshot:
        """Return the newest version in the store; UnsupportedError if this release must not change
        anything of it.
        """
        return self.snapshots.newest_writable()

    def reload(self) -> Snapshot:
        """Read the newest version from the start, whatever is cached."""
        return self.snapshots.reload()

    def at_version(self, version: int) -> Snapshot:
        """Read an older version by its number."""
        return self.snapshots.at_version(version)

    def since(self, after: int, until: int) -> Sequence[CommittedVersion]:
        """Read the versions in (after, until]; VersionNotFoundError if the log no longer holds them
        all.
        """
        return self.snapshots.since(after, until)

    def cache_stats(self) -> CacheStats:
        """Return hits, misses and what is held of this table."""
        return self.snapshots.cache_stats()

    def invalidate_cache(self, kind: str | None = None) -> int:
        """Forget everything that is cached of this table, or one kind; return how many entries
        went.
        """
        return self.snapshots.invalidate_cache(kind)

    def count_own_commit(self) -> None:
        """Make every cached snapshot of the table out of date, in all processes of this
        application.
        """
        self.snapshots.count_own_commit()

    def commit(
        self,
        read: Snapshot,
        proposal: Proposal,
        *,
        txn_id: str | None = None,
        written: Sequence[str] = (),
        keep_up: bool = True,
    ) -> CommitResult:
        """Commit a proposal (see `Committer.commit`); then checkpoint and clean up if it is time
        and `keep_up` allows it.

        LogGapError if a due checkpoint found a version missing, and it still is: nothing is
        committed.
        """
        if self.upkeep.has_gap:
            self.upkeep.has_gap = False
            self.reload()
        committed = self.committer.commit(read, proposal, txn_id=txn_id, written=written)
        if keep_up and committed.written is not None:
            self.maintenance.follow_up(committed, read)
        return committed

    def after_commit(self) -> Snapshot:
        """Return the newest version; where it cannot be read, the one that was committed here last.

        Rule R8: a commit that landed is not reported as failed because a read after it failed.
        """
        try:
            return self.fresh()
        except IndexTablesError as failure:
            if self.committer.last_committed is None:
                raise
            logger.warning(
                "%s was committed, but its newest version cannot be read: %s",
                self.store.url,
                failure.message,
            )
            return self.committer.last_committed

    def discard(self, paths: Sequence[str], *, since: int) -> bool:
        """Delete splits of a write that was planned on a version and failed, if no version names
        them (rule R14).
        """
        return self.committer.discard(paths, since=since)

    def checkpoint(self, *, compact: Compact = Compact.AS_NEEDED) -> CheckpointReport:
        """Checkpoint the newest version (see `LogMaintenance.checkpoint`)."""
        return self.maintenance.checkpoint(compact=compact)

    def checkpoint_version(self, snapshot: Snapshot) -> int:
        """Return the version that a checkpoint of this snapshot would have."""
        return self.maintenance.checkpoint_version(snapshot)

    def damage(self) -> IndexTablesError | None:
        """Return what is wrong with the newest checkpoint, read from the store; None if it can be
        trusted.
        """
        return self.maintenance.find_damage()

    def heal(self) -> IndexTablesError | None:
        """Write the newest checkpoint again if it is damaged; return what was wrong with it."""
        return self.maintenance.heal()

    def adopt(self, snapshot: Snapshot, changes: Changes | None = None) -> CheckpointReport:
        """Continue from a recovered snapshot with a new version and its state, next to the damaged
        files.
        """
        return self.maintenance.adopt(snapshot, changes)

    def verifier(self) -> CheckpointVerifier:
        """Return a verifier of checkpoints, which has read nothing yet."""
        return self.maintenance.verifier()

    def cleaner(self) -> Cleaner:
        """Return the cleaner of this log."""
        return self.maintenance.cleaner()
