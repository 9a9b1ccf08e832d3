"""Committing: a version file is written to the store so that it can be neither lost nor doubled (`Committer`).

The second page to read after `model/snapshot.py`. A commit is one version file, created if absent; its bytes are made by
`wire/version_file.py`, what stands in it is gathered by `log/transaction.py`. The rules, numbered as in the reference:

R1  Every version file carries its `txnId`. "Already exists" can mean another writer, our own request that was answered
    twice, or nobody at all; and a lost answer can mean anything. So the file is read back: ours means committed, another's
    means conflict, absent means that nothing is known yet and the same bytes are offered again.
R4  A writer that slept while others committed, checkpointed and cleaned could create a number that was used and deleted.
    Versions are deleted oldest first, so if the predecessor is still there the number was really free; if not, the table
    is read again, and a version that is not part of it is taken back.
R5  Snapshots remember recent txnIds, so even a version file that was cleaned away can be recognised as ours. The list is
    bounded: it proves that a commit did not land only where it reaches back to the version that was offered (R13).
R6  After a conflict the table is read again, the commit is checked against what the others did (`model/conflicts.py`),
    planned anew on the newest snapshot, and tried again: on a local disk in turn (`Turn`), elsewhere, and where the turn
    does not come, after a pause with full jitter. Who just lost a race reads the next versions by their names until there
    is none, instead of listing the log. They continue the table that was listed if the version that was listed last is
    still the same file after they were read: a table made in its place would have another of that number. Where it is
    not, or another engine may commit by a state, the log is listed. Who remembers the table begins there without a
    listing, if the last version of it is still there: if others have gone on, the next number is taken, and that is a
    lost race like any other. What it has to refuse it refuses on what a listing shows.
R7  If the outcome cannot be found out, CommitUnknownError says so, and nothing is cleaned up.
R13 Every other error means that the commit did not land and never will: whatever goes wrong while a version that was
    offered may be part of the table (a damaged read, a table that has become too new) makes the outcome unknown.
R14 What was written for a commit that failed is deleted only after the versions since were read and none names it.
R15 A table is known by its id, and a version of it by its transaction: a log that was put back to an older one has been
    continued with the same numbers. A version that was created in another table of the same path, or on another version
    than it was planned on, is taken back; one that another writer created there is not, though it has the same number.
R20 A commit is acknowledged only if every version between the checkpoint that the table is read from and the new one is
    there. Otherwise the new one is taken back and LogGapError names the version that is missing.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct, field

from indextables.config.log import RetrySettings, VersionFileSettings
from indextables.errors import (
    AccessDeniedError,
    CommitUnknownError,
    ConflictError,
    CorruptTableError,
    IndexTablesError,
    LogGapError,
    StorageError,
    StorageFullError,
    TableNotFoundError,
    UnsupportedError,
    VersionNotFoundError,
)
from indextables.log import log_files
from indextables.log.log_files import list_log
from indextables.log.proposal import Plan, Proposal
from indextables.log.versions import VersionReader, md5_of
from indextables.model.actions import MetadataAction, ProtocolAction
from indextables.model.conflicts import (
    Conflict,
    Intent,
    another_table,
    descends,
    find_conflict,
    find_difference,
    is_same_table,
)
from indextables.model.protocol import (
    check_writable,
    is_shared,
)
from indextables.model.schema_registry import recorded, without_registry
from indextables.model.snapshot import CommittedVersion, Snapshot, replay
from indextables.storage.local import Turn
from indextables.storage.store import ObjectInfo, PutOutcome, Store, is_same_object
from indextables.wire.version_file import encode_verified

READ_BACKS = 3
AT_ONCE = 3
"""Retries that follow without a pause."""
UNDECIDED = 10
"""How often a version is offered whose fate the store does not tell, before the outcome is called unknown."""

MOST_FOLLOWED = 32
"""So many versions are read one by one after a lost race; whoever is further behind lists the log and reads several at a
time."""
AHEAD_MS = 60_000
"""How far in the future a version may be dated for it to be taken at its word."""

logger = logging.getLogger(__name__)


class CommitResult(Struct, frozen=True):
    """What came of a commit. `version` is None if there was nothing to do.

    `written` is the version where this very call created it; None if it was found to have landed before. `offered` is
    what the version says in either case: its file may have been cleaned away by now.
    """

    snapshot: Snapshot
    version: int | None
    attempts: int = 1
    written: CommittedVersion | None = None
    offered: CommittedVersion | None = None


class _Ground(Struct, frozen=True):
    """What a commit builds on: a snapshot, and the versions in it that were read by name after the log was listed."""

    snapshot: Snapshot
    followed: tuple[CommittedVersion, ...] = ()

    @property
    def listed_version(self) -> int:
        """The last version of it that a listing showed."""
        return self.snapshot.version - len(self.followed)


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
    at_version: Callable[[int], Snapshot]
    since: Callable[[int, int], Sequence[CommittedVersion]]
    follow: Callable[[Snapshot, Sequence[CommittedVersion]], None]
    """Checks a snapshot whose last versions were read by name, and remembers them."""
    listed: Callable[[int], ObjectInfo | None]
    """The file that the newest snapshot's version was read from, as a listing showed it."""
    remembered: Callable[[], tuple[Snapshot, Sequence[CommittedVersion]] | None]
    """What this process knows of the table: a snapshot, and its last versions that no listing has shown yet.

    None where only a listing can tell.
    """
    retry: RetrySettings = RetrySettings()
    files: VersionFileSettings = VersionFileSettings()
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    monotonic: Callable[[], float] = time.monotonic
    rng: random.Random = field(default_factory=random.Random)
    sleep: Callable[[float], None] = time.sleep

    def commit(self, read: Snapshot, proposal: Proposal, *, txn_id: str) -> CommitResult:
        """Commit a proposal on the newest snapshot; `read` is what the writer had seen when it decided."""
        turn = Turn(self.store.local_path(log_files.LOG))
        try:
            return self._commit(read, proposal, turn, txn_id=txn_id)
        finally:
            turn.give_back()

    def _commit(self, read: Snapshot, proposal: Proposal, turn: Turn, *, txn_id: str) -> CommitResult:
        began = self.monotonic()
        ground, planned = self._first_ground(read, proposal)
        offer: _Offer | None = None
        doubtful = False  # whether a version that was offered may be, or become, part of the table
        attempt, undecided = 0, 0
        while True:
            attempt += 1
            base = ground.snapshot
            # The same number is offered the same bytes: a request that is still on its way then changes nothing.
            if offer is None or offer.version.version != base.version + 1:
                planned = planned if attempt == 1 else self._checked(read, ground, proposal)
                if not planned.actions:
                    return CommitResult(base, None, attempt)
                offer = self._offer(base, planned, txn_id)
            try:
                outcome, winner = self._create(offer, txn_id)
                doubtful = outcome is not PutOutcome.EXISTS
                if outcome is PutOutcome.CREATED and self._is_part_of_the_table(
                    ground.listed_version, base.base.header.version, offer.version.version
                ):
                    snapshot = replay(base, [offer.version])
                    return CommitResult(snapshot, snapshot.version, attempt, offer.version, offer.version)
                if outcome is PutOutcome.CREATED:
                    _leave_another_table(self, offer, base, txn_id)
                if not turn.take():
                    self._pause(attempt)
                ground = _next_ground(self, ground, winner) or _Ground(self.reload() if doubtful else self.newest())
                base = ground.snapshot
                version = self._landed_version(base, offer, txn_id)
                if version is not None:
                    ours = outcome is PutOutcome.CREATED
                    return CommitResult(base, version, attempt, offer.version if ours else None, offer.version)
                if outcome is PutOutcome.CREATED:
                    take_back(self.reader, offer.version.version, txn_id)
            except _OtherTableError as error:
                raise error.conflict from None
            except (LogGapError, TableNotFoundError):
                if outcome is PutOutcome.UNKNOWN:
                    raise self._unknown(offer, txn_id) from None
                if outcome is PutOutcome.CREATED:
                    take_back(self.reader, offer.version.version, txn_id)
                raise
            except IndexTablesError as error:
                if not doubtful or isinstance(error, CommitUnknownError):
                    raise
                raise self._unknown(offer, txn_id) from error
            doubtful = outcome is PutOutcome.UNKNOWN and base.version < offer.version.version
            undecided += doubtful
            seconds = self.monotonic() - began
            if (
                undecided >= UNDECIDED
                or attempt >= self.retry.max_attempts
                or seconds * 1000 >= self.retry.max_elapsed_ms
            ):
                raise self._unknown(offer, txn_id) if doubtful else _exhausted(self.store.url, base, attempt, seconds)

    def discard(self, paths: Sequence[str], *, since: int) -> bool:
        """R14: delete splits of a commit that failed, if no version names them; returns whether they were deleted.

        What was committed since the version that was read must all be there to be looked at, as the store has it now. In
        any doubt the splits stay: a purge deletes what nobody names.
        """
        if not paths:
            return True
        try:
            newest = self.reload()
            later = self.since(since, newest.version)
            named = sorted({path for version in later for path in version.named} & set(paths))
            if named or newest.version < since:
                logger.warning(
                    "splits of a write to %s stay; the table may name %s", self.store.url, (named or paths)[0]
                )
                return False
            self.store.delete(paths)
        except TableNotFoundError:
            self.store.delete(paths)  # where there is no table, no version names them
        except IndexTablesError as doubt:
            logger.warning("splits that nobody may need are left to a purge of %s: %s", self.store.url, doubt.message)
            return False
        return True

    def _first_ground(self, read: Snapshot, proposal: Proposal) -> tuple[_Ground, Plan]:
        """R6: where a commit begins, and its plan there."""
        try:
            ground = _remembered_ground(self, read)
            planned = self._checked(read, ground, proposal) if ground is not None else None
            if ground is not None and planned is not None and planned.actions:
                return ground, planned
        except IndexTablesError as doubt:
            logger.debug("the log of %s is listed before a commit: %s", self.store.url, doubt.message)
        ground = _Ground(self.newest())
        return ground, self._checked(read, ground, proposal)

    def _checked(self, read: Snapshot, ground: _Ground, proposal: Proposal) -> Plan:
        """R6: the plan on this snapshot, after the protocol and everything committed since `read` were looked at."""
        base = ground.snapshot
        check_writable(base.header.protocol, path=self.store.url)
        if base.version < read.version:
            raise _went_back(self.store.url, read, base)
        if not is_same_table(read.metadata.id, base.metadata.id):
            raise another_table(self.store.url, read.metadata.id, base.metadata.id)
        if not descends(base, read):
            raise _went_back(self.store.url, read, base)
        if base.version > read.version:
            conflict = self._conflict_since(read, ground, proposal.intent)
            if conflict is not None:
                raise _conflict(self.store.url, conflict, proposal.intent.operation)
        return proposal.plan(base, now_ms=self.now_ms())

    def _conflict_since(self, read: Snapshot, ground: _Ground, intent: Intent) -> Conflict | None:
        listed = ground.listed_version
        try:
            older = self.since(read.version, listed) if read.version < listed else ()
        except VersionNotFoundError:
            # The versions in between were cleaned away: compare what they led to instead.
            return find_difference(intent, read, ground.snapshot)
        followed = (version for version in ground.followed if version.version > read.version)
        return find_conflict(intent, read.header.metadata, [*older, *followed])

    def _offer(self, base: Snapshot, planned: Plan, txn_id: str) -> _Offer:
        # Times never run backwards in a log, so that a timestamp picks one version.
        timestamp_ms = max(self.now_ms(), base.header.timestamp_ms + 1)
        info = msgspec.structs.replace(planned.info, txn_id=txn_id, timestamp=timestamp_ms)
        protocol = next((a for a in planned.actions if isinstance(a, ProtocolAction)), base.header.protocol)
        actions = (info, *recorded(planned.actions, base.metadata, protocol))
        version = CommittedVersion(base.version + 1, timestamp_ms, actions)
        body = encode_verified(
            actions,
            url=self.store.url,
            version=version.version,
            compress=self.files.compress,
            jvm_layout=self.files.jvm_layout,
        )
        return _Offer(msgspec.structs.replace(version, file_bytes=len(body), file_md5=md5_of(body)), body)

    def _create(self, offer: _Offer, txn_id: str) -> tuple[PutOutcome, CommittedVersion | None]:
        """R1: put, and read back whatever is not plainly created. EXISTS here means another writer's file, which is given."""
        version = offer.version.version
        for again in range(READ_BACKS):
            try:
                if self.store.put_if_absent(log_files.version_path(version), offer.body) is PutOutcome.CREATED:
                    return PutOutcome.CREATED, None
            except (AccessDeniedError, StorageFullError) as error:
                # Refused for certain; but an earlier request may still be on its way.
                if again:
                    raise self._unknown(offer, txn_id) from error
                raise
            except StorageError as error:
                # A request that failed may still have taken effect: look, as after any other doubtful answer.
                logger.warning("the answer to creating %s was lost: %s", log_files.version_path(version), error.message)
            try:
                existing = self.reader.read_one(version)
            except (StorageError, CorruptTableError) as error:
                # Could not look: this is neither absence nor another's file. The caller pauses and looks again.
                logger.warning("%s could not be read back: %s", log_files.version_path(version), error.message)
                return PutOutcome.UNKNOWN, None
            if existing is not None and existing.info.txn_id == txn_id:
                return PutOutcome.CREATED, None
            if existing is not None:
                return PutOutcome.EXISTS, existing
        return PutOutcome.UNKNOWN, None

    def _is_part_of_the_table(self, listed_version: int, after: int | None = None, until: int = 0) -> bool:
        """R4: whether what follows a version that was listed plainly continues the log that was read.

        Cleaners delete versions oldest first: where this one is still there, none of the numbers that follow it was used
        before. With `after` and `until` every version between them must be there too: one that was deleted by hand, or lost,
        would make all that follow it unreadable.
        """
        if listed_version < 0:
            return True
        read = self.listed(listed_version)
        if after is None:
            info = self.store.head(log_files.version_path(listed_version))
        else:
            found = log_files.list_versions(self.store, min(after + 1, listed_version), until)
            if any(number not in found for number in range(after + 1, until)):
                return False
            info = found.get(listed_version)
        return info is not None and (read is None or is_same_object(info, read))

    def _landed_version(self, newest: Snapshot, offer: _Offer, txn_id: str) -> int | None:
        """R13: the version under which this transaction is part of the table, or None if it surely is not.

        A version has at most one id, so a list of n ids reaches back over n versions at least. Beyond that the splits
        tell: where the table is as the transaction wants it, it landed. What others have merged meanwhile tells nothing.
        """
        version, txn_ids = offer.version.version, newest.header.recent_txn_ids
        if txn_id in txn_ids:
            return version
        if newest.version - version < len(txn_ids) or newest.version < version:
            return None
        if _is_in(newest, offer.version):
            return version
        existing = self.reader.read_one(version)
        if (
            existing is not None
            and existing.info.txn_id != txn_id
            and self.store.head(log_files.version_path(version - 1))
        ):
            return None  # the number was never free
        raise self._unknown(offer, txn_id)

    def _pause(self, attempt: int) -> None:
        # Somebody else's success is no reason to wait at first: each conflict means that the table has moved on.
        if attempt > AT_ONCE:
            ceiling_ms = min(self.retry.max_delay_ms, self.retry.base_delay_ms * 2 ** (attempt - AT_ONCE - 1))
            self.sleep(self.rng.uniform(0, ceiling_ms) / 1000)

    def _unknown(self, offer: _Offer | None, txn_id: str) -> CommitUnknownError:
        version = offer.version.version if offer else None
        return CommitUnknownError(
            f"Whether the commit to {self.store.url} landed as version {version} could not be found out.",
            path=self.store.url,
            version=version,
            txn_id=txn_id,
        )


def _remembered_ground(committer: Committer, read: Snapshot) -> _Ground | None:
    """What is remembered of the table, if its last version is there; None where only a listing can tell."""
    remembered = committer.remembered()
    if remembered is None or remembered[0].version < read.version or len(remembered[1]) >= MOST_FOLLOWED:
        return None
    snapshot, followed = remembered
    if followed:
        is_there = committer.reader.is_file_of(followed[-1])
    else:
        is_there = committer._is_part_of_the_table(snapshot.version)
    return _Ground(snapshot, tuple(followed)) if is_there else None


def _next_ground(committer: Committer, ground: _Ground, winner: CommittedVersion | None) -> _Ground | None:
    """R6: the newest version after a lost race, without a listing; None where only a listing can tell."""
    base = ground.snapshot
    if winner is None or is_shared(base.header.protocol) or base.version < 0:
        return None
    later = [winner]
    try:
        while (another := committer.reader.read_one(later[-1].version + 1)) is not None:
            later.append(another)
            if len(later) == MOST_FOLLOWED:
                return None
        latest_ms = committer.now_ms() + AHEAD_MS
        if any(version.timestamp_ms > latest_ms for version in later):
            return None  # dated by a clock that is ahead: a listing says when the store received it
        if not committer._is_part_of_the_table(ground.listed_version):
            return None
        snapshot = replay(base, later)
        committer.follow(snapshot, later)
    except (StorageError, CorruptTableError, UnsupportedError):
        return None  # told by who reads the table from its listing
    return _Ground(snapshot, (*ground.followed, *later))


def _leave_another_table(committer: Committer, offer: _Offer, base: Snapshot, txn_id: str) -> None:
    """R15: take back a version that was created in another table, which has the place of the one that was read."""
    listing = list_log(committer.store)
    version = offer.version.version
    before = max((v for v in (*listing.versions, *listing.states) if v < version), default=None)
    if before is None or listing.newest > version:
        return
    try:
        there = committer.at_version(before)
    except VersionNotFoundError:
        return
    if not is_same_table(base.metadata.id, there.metadata.id):
        take_back(committer.reader, version, txn_id)
        raise _OtherTableError(another_table(committer.store.url, base.metadata.id, there.metadata.id))
    if before < base.version or not descends(there, base):
        take_back(committer.reader, version, txn_id)
        raise _OtherTableError(_went_back(committer.store.url, base, there))


def commit_after(committer: Committer, snapshot: Snapshot, proposal: Proposal, *, txn_id: str) -> Snapshot:
    """Commit the version after a snapshot that the log does not lead to any more; once, and only if nobody has.

    A writer that still holds the table in memory may be about to commit the same number: one of the two is refused.
    """
    url = committer.store.url
    check_writable(snapshot.header.protocol, path=url)
    offer = committer._offer(snapshot, proposal.plan(snapshot, now_ms=committer.now_ms()), txn_id)
    outcome, _ = committer._create(offer, txn_id)
    if outcome is PutOutcome.UNKNOWN:
        raise committer._unknown(offer, txn_id)
    if outcome is PutOutcome.EXISTS:
        raise ConflictError(f"Version {offer.version.version} of {url} was committed meanwhile.", path=url)
    return replay(snapshot, [offer.version])


def _conflict(url: str, conflict: Conflict, operation: str) -> ConflictError:
    return ConflictError(
        f"{operation} on {url} conflicts with version {conflict.version}: {conflict.reason}.",
        path=url,
        version=conflict.version,
        operation=operation,
        retry_helps=conflict.retry_helps,
    )


def _went_back(url: str, read: Snapshot, base: Snapshot) -> ConflictError:
    newest = f"{base.version}" if base.version < read.version else f"{base.version}, which does not come from it"
    return ConflictError(
        f"{url} was read at version {read.version}, and now its newest is {newest}: its log was replaced.",
        hint="Nothing was committed. Open the table anew with Table.open(path) and repeat the operation.",
        path=url,
        version=base.version,
        retry_helps=False,
    )


def _exhausted(url: str, base: Snapshot, attempts: int, seconds: float) -> ConflictError:
    return ConflictError(
        f"Other writers of {url} were first {attempts} times in {seconds:.1f} s, last at version {base.version}.",
        hint="Nothing was committed. Try again, with fewer writers, or with higher transaction.retry.maxElapsedMs and "
        "transaction.retry.maxAttempts.",
        path=url,
        version=base.version,
        attempts=attempts,
        retry_helps=True,
    )


def take_back(reader: VersionReader, version: int, txn_id: str) -> None:
    """Delete a version that was created and is no part of the table, if the file of this number is still that one.

    Whoever slept since may find another's: the table was removed with the version in it, and made anew up to its number.
    """
    existing = reader.read_one(version)
    if existing is not None and existing.info.txn_id == txn_id:
        reader.store.delete([log_files.version_path(version)])


class _OtherTableError(Exception):
    """A version was created in another table and taken back; never leaves this module."""

    def __init__(self, conflict: ConflictError) -> None:
        super().__init__(conflict.message)
        self.conflict = conflict


def _is_in(newest: Snapshot, version: CommittedVersion) -> bool:
    """Whether a table is as a version wants it: it has what the version adds, and nothing of what it removes."""
    if not version.added:
        return False
    files = newest.files(columns=["path", "deletion_vector"])
    live = dict(zip(files.column("path").to_pylist(), files.column("deletion_vector").to_pylist(), strict=True))
    metadata = next((a for a in reversed(version.actions) if isinstance(a, MetadataAction)), None)
    same_metadata = metadata is None or without_registry(metadata) == without_registry(newest.metadata)
    added = all(path in live and live[path] == vector for path, vector in version.vectors.items())
    return same_metadata and added and not (version.removed - version.added) & live.keys()
