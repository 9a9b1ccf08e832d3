"""Committing a version so that it can be neither lost nor doubled. The second page to read after `model/snapshot.py`.

A commit is one version file, created if absent. The rules (numbers as in the protocol's reference page):

R1  Every version file carries its `txnId`. "Already exists" can mean another writer, our own request that was answered
    twice, or nobody at all; and a lost answer can mean anything. So the file is read back: ours means committed, another's
    means conflict, absent means that nothing is known yet and the same bytes are offered again.
R4  A writer that slept while others committed, checkpointed and cleaned could create a number that was used and deleted.
    Versions are deleted oldest first, so if the predecessor is still there the number was really free; if not, the table
    is read again, and a version that is not part of it is taken back.
R5  Snapshots remember recent txnIds, so even a version file that was cleaned away can be recognised as ours.
R6  After a conflict the table is read again, the commit is checked against what the others did (`model/conflicts.py`),
    planned anew on the newest snapshot, and tried again after a pause with full jitter.
R7  If the outcome cannot be found out, CommitUnknownError says so, and nothing is cleaned up.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
from msgspec import Struct, field

from indextables.config.log import RetrySettings, VersionFileSettings
from indextables.errors import AccessDeniedError, CommitUnknownError, ConflictError, StorageError, VersionNotFoundError
from indextables.log import names
from indextables.log.version_reader import VersionReader
from indextables.model.actions import CommitInfo, LogAction
from indextables.model.conflicts import Conflict, Intent, find_conflict, find_difference
from indextables.model.protocol import check_writable
from indextables.model.snapshot import CommittedVersion, Snapshot, replay
from indextables.storage.store import PutOutcome, Store
from indextables.wire.proven_version import encode_proven

READ_BACKS = 3
AT_ONCE = 3
"""Retries that follow without a pause."""

logger = logging.getLogger(__name__)


class Plan(Struct, frozen=True):
    """What a commit would write on top of a snapshot. No actions: there is nothing to do."""

    actions: Sequence[LogAction]
    info: CommitInfo


class Proposal(Protocol):
    """A change that wants to become a version."""

    @property
    def intent(self) -> Intent:
        """What it wants, as far as others could stand in its way."""
        ...

    def plan(self, snapshot: Snapshot, *, now_ms: int) -> Plan:
        """What it would write on top of a snapshot; called again on a newer one when others were first."""
        ...


class Committed(Struct, frozen=True):
    """What came of a commit. `version` is None if there was nothing to do.

    `written` is the version where this very call created it; None if it was found to have landed before.
    """

    snapshot: Snapshot
    version: int | None
    attempts: int = 1
    written: CommittedVersion | None = None


class _Offer(Struct, frozen=True):
    """A version and the bytes of its file, as offered to the store."""

    version: CommittedVersion
    body: bytes


class Committer(Struct, frozen=True):
    """Commits versions to one table. Clock, ids, randomness and sleep come in from outside."""

    store: Store
    reader: VersionReader
    newest: Callable[[], Snapshot]
    reload: Callable[[], Snapshot]
    since: Callable[[int, int], Sequence[CommittedVersion]]
    retry: RetrySettings = RetrySettings()
    files: VersionFileSettings = VersionFileSettings()
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    rng: random.Random = field(default_factory=random.Random)
    sleep: Callable[[float], None] = time.sleep

    def commit(self, read: Snapshot, proposal: Proposal, *, txn_id: str) -> Committed:
        """Commit a proposal on the newest snapshot; `read` is what the writer had seen when it decided."""
        base = self.newest()
        offer: _Offer | None = None
        outcome = PutOutcome.EXISTS
        for attempt in range(1, self.retry.max_attempts + 1):
            # The same number is offered the same bytes: a request that is still on its way then changes nothing.
            if offer is None or offer.version.version != base.version + 1:
                planned = self._checked(read, base, proposal)
                if not planned.actions:
                    return Committed(base, None, attempt)
                offer = self._offer(base, planned, txn_id)
            try:
                outcome = self._create(offer, txn_id)
                if outcome is PutOutcome.CREATED and self._is_part_of_the_table(base, txn_id):
                    return Committed(replay(base, [offer.version]), offer.version.version, attempt, offer.version)
                if attempt < self.retry.max_attempts:
                    self._pause(attempt)
                    base = self.reload() if outcome is PutOutcome.UNKNOWN else self.newest()
            except StorageError as error:
                if outcome is PutOutcome.EXISTS:
                    raise
                raise self._unknown(offer, txn_id) from error
            landed = self._landed(base, read, txn_id)
            if landed is not None:
                return Committed(base, landed, attempt)
        raise self._unknown(offer, txn_id) if outcome is PutOutcome.UNKNOWN else self._exhausted(base)

    def _checked(self, read: Snapshot, base: Snapshot, proposal: Proposal) -> Plan:
        """R6: the plan on this snapshot, after the protocol and everything committed since `read` were looked at."""
        check_writable(base.header.protocol, path=self.store.url)
        if base.version > read.version:
            found = self._conflict_since(read, base, proposal.intent)
            if found is not None:
                raise self._conflict(found, proposal.intent.operation)
        return proposal.plan(base, now_ms=self.now_ms())

    def _conflict_since(self, read: Snapshot, base: Snapshot, intent: Intent) -> Conflict | None:
        try:
            return find_conflict(intent, read.header.metadata, self.since(read.version, base.version))
        except VersionNotFoundError:
            # The versions in between were cleaned away: compare what they led to instead.
            return find_difference(intent, read, base)

    def _offer(self, base: Snapshot, planned: Plan, txn_id: str) -> _Offer:
        # Times never run backwards in a log, so that a timestamp picks one version.
        timestamp_ms = max(self.now_ms(), base.header.timestamp_ms + 1)
        info = msgspec.structs.replace(planned.info, txn_id=txn_id, timestamp=timestamp_ms)
        actions = (info, *planned.actions)
        version = CommittedVersion(base.version + 1, timestamp_ms, actions)
        body = encode_proven(actions, url=self.store.url, version=version.version, compress=self.files.compress)
        return _Offer(version, body)

    def _create(self, offer: _Offer, txn_id: str) -> PutOutcome:
        """R1: put, and read back whatever is not plainly created. EXISTS here means another writer's file."""
        version = offer.version.version
        for _ in range(READ_BACKS):
            try:
                if self.store.put_if_absent(names.version_path(version), offer.body) is PutOutcome.CREATED:
                    return PutOutcome.CREATED
            except AccessDeniedError:
                raise
            except StorageError as error:
                # A request that failed may still have taken effect: look, as after any other doubtful answer.
                logger.warning("the answer to creating %s was lost: %s", names.version_path(version), error.message)
            try:
                found = self.reader.read_one(version)
            except StorageError:
                # Could not look: this is not absence. The caller pauses and looks again.
                return PutOutcome.UNKNOWN
            if found is not None:
                return PutOutcome.CREATED if found.info.txn_id == txn_id else PutOutcome.EXISTS
        return PutOutcome.UNKNOWN

    def _is_part_of_the_table(self, base: Snapshot, txn_id: str) -> bool:
        """R4: whether the version just created really continues the log; a stray one is taken back."""
        if base.version < 0 or self.store.head(names.version_path(base.version)) is not None:
            return True
        if txn_id in self.reload().header.recent_txn_ids:
            return True
        self.store.delete([names.version_path(base.version + 1)])
        return False

    def _landed(self, base: Snapshot, read: Snapshot, txn_id: str) -> int | None:
        """R5: the version under which this transaction is already part of the table, if it is."""
        if txn_id not in base.header.recent_txn_ids:
            return None
        try:
            versions = self.since(read.version, base.version)
        except VersionNotFoundError:
            return base.version  # it is in, and which version it was is no longer known
        return next((v.version for v in reversed(versions) if v.info.txn_id == txn_id), base.version)

    def _pause(self, attempt: int) -> None:
        # Somebody else's success is no reason to wait at first: each conflict means that the table has moved on.
        if attempt > AT_ONCE:
            ceiling_ms = min(self.retry.max_delay_ms, self.retry.base_delay_ms * 2 ** (attempt - AT_ONCE - 1))
            self.sleep(self.rng.uniform(0, ceiling_ms) / 1000)

    def _conflict(self, found: Conflict, operation: str) -> ConflictError:
        return ConflictError(
            f"{operation} on {self.store.url} conflicts with version {found.version}: {found.reason}.",
            path=self.store.url,
            version=found.version,
            operation=operation,
            retry_helps=found.retry_helps,
        )

    def _exhausted(self, base: Snapshot) -> ConflictError:
        return ConflictError(
            f"Other writers of {self.store.url} were first {self.retry.max_attempts} times, last at version "
            f"{base.version}.",
            hint="Nothing was committed. Try again, with fewer writers or a higher transaction.retry.maxAttempts.",
            path=self.store.url,
            version=base.version,
            retry_helps=True,
        )

    def _unknown(self, offer: _Offer | None, txn_id: str) -> CommitUnknownError:
        version = offer.version.version if offer else None
        return CommitUnknownError(
            f"Whether the commit to {self.store.url} landed as version {version} could not be found out.",
            path=self.store.url,
            version=version,
            txn_id=txn_id,
        )
