"""Commit versions to one table, so that no acknowledged version is lost or committed twice.

Read this after `model/snapshot.py`. A commit is one version file, created if absent. Its actions
come from `log/transaction.py`, its bytes from `wire/version_file.py`, and `model/conflicts.py`
decides what conflicts.

R1   Every version has a `txnId`; after a doubtful answer the file is read back and compared. R1
Ours: committed. Another's: conflict. Absent: the same bytes are put again. R4   A version counts
only if its predecessor is the file that was listed: its number was never used. R5   Snapshots keep
recent txnIds, so that a version whose file was cleaned away is recognised. R6   After a conflict:
read the newest snapshot, check what was committed since, plan again, retry. R6   Retries take turns
on a local disk (`Turn`), and elsewhere pause with full jitter. R6   After a lost race the next
version files (n+1, n+2, ...) are probed; the log is not listed. R6   A first attempt starts from
the cached snapshot; a refusal always comes from a listing. R7   An outcome that cannot be found out
raises CommitUnknownError, and nothing is deleted. R13  Any other error means that the commit did
not land and never will. R14  Splits of a failed commit are deleted once the versions since are read
and none names them. R15  A version created in another table, or after another version than planned,
is deleted again. R20  A commit is acknowledged only if every version since the checkpoint exists
(LogGapError).

One attempt, from left to right:

    Proposal --plan--> Plan --encode--> _Candidate --put_if_absent--> _Put ---> CommitResult
       ^ on a _Basis (snapshot)                                         |
       +------------------------- _CommitState <------- lost or unknown +
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

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
from indextables.log.context import LogContext
from indextables.log.log_files import list_log
from indextables.log.proposal import Plan, Proposal, TakeoverProposal
from indextables.log.snapshots import Snapshots
from indextables.log.transaction import Changes
from indextables.log.versions import VersionReader, md5_of
from indextables.metrics import METRICS
from indextables.model.actions import MetadataAction, ProtocolAction, SkipAction
from indextables.model.conflicts import (
    Conflict,
    Intent,
    another_table,
    descends,
    find_conflict,
    find_difference,
    is_same_table,
)
from indextables.model.protocol import check_writable, is_shared, names_parquet_splits
from indextables.model.schema_registry import record_mappings, without_registry
from indextables.model.snapshot import CommittedVersion, Snapshot, replay
from indextables.storage.local import Turn
from indextables.storage.store import PutOutcome, is_same_object
from indextables.wire.version_file import encode_verified

READ_BACKS = 3
AT_ONCE = 3
"""Number of retries without a pause."""
UNDECIDED = 10
"""How often a version of unknown fate is put, before the outcome of the commit is called unknown."""
MOST_FOLLOWED = 32
"""How many versions are probed one by one after a lost race, before the log is listed and read in
parallel.
"""
AHEAD_MS = 60_000
"""How far in the future a version may be dated before a listing must tell when the store received
it.
"""
_TAKEN_OVER = (
    "%s was another engine's table until now. Version %d raises its protocol: from here on it can be read and written by "
    "this package alone, because the other engine reads neither its splits nor its version files, and is refused. Older "
    "versions can still be opened by their number."
)

logger = logging.getLogger(__name__)


class CommitResult(Struct, frozen=True):
    """The outcome of a commit. `version` is None if there was nothing to do.

    `written` is the version if this call created it; None if an earlier request had created it.
    `offered` is its content in either case: the file may have been cleaned away by now.
    """

    snapshot: Snapshot
    version: int | None
    attempts: int = 1
    written: CommittedVersion | None = None
    offered: CommittedVersion | None = None


class _Basis(Struct, frozen=True):
    """What a commit builds on: a snapshot, and its last versions, which were read by name after the
    log was listed.
    """

    snapshot: Snapshot
    followed: tuple[CommittedVersion, ...] = ()

    @property
    def listed_version(self) -> int:
        """The last version that a listing showed."""
        return self.snapshot.version - len(self.followed)


class _Candidate(Struct, frozen=True):
    """A version and the bytes of its file, as they are put to the store."""

    version: CommittedVersion
    body: bytes

    @property
    def number(self) -> int:
        return self.version.version

    @property
    def txn_id(self) -> str:
        return self.version.info.txn_id or ""


class _Put(Struct, frozen=True):
    """What putting a candidate led to. `winner` is the version of another writer that has its
    number.
    """

    outcome: PutOutcome
    winner: CommittedVersion | None = None


class _CommitState(Struct, frozen=True):
    """Where a commit stands between two attempts. Without a candidate there is nothing to commit."""

    basis: _Basis
    candidate: _Candidate | None
    attempts: int = 0
    """The attempts made so far."""
    undecided: int = 0
    """After how many of them the fate of the candidate was unknown."""
    is_in_doubt: bool = False
    """Whether the candidate may be, or become, part of the table."""


class Committer:
    """Commits proposals to one table."""

    def __init__(self, context: LogContext, snapshots: Snapshots) -> None:
        self.context = context
        self.snapshots = snapshots
        self.reader = snapshots.reader
        self.last_committed: Snapshot | None = None
        """The snapshot of the last version that was committed here."""

    def commit(
        self,
        read: Snapshot,
        proposal: Proposal,
        *,
        txn_id: str | None = None,
        written: Sequence[str] = (),
    ) -> CommitResult:
        """Commit a proposal on the newest snapshot.

        Args:
            read: The snapshot on which the writer decided what to do.
            proposal: What to commit.
            txn_id: The id of the transaction; a new one by default.
            written: Splits that were written for the proposal. They are deleted if it is certain
                that no version names them.

        Raises:
            ConflictError: Another writer has committed something that conflicts; nothing was
                committed.
            CommitUnknownError: The outcome could not be found out.
        """
        taking_over = TakeoverProposal(
            proposal, raises_old=self.context.settings.checkpoint.format == "avro"
        )
        files = (*written, *_vector_files(proposal))
        try:
            committed = self._commit(read, taking_over, txn_id or self.context.new_id())
        except CommitUnknownError:
            self.snapshots.count_own_commit()
            raise
        except IndexTablesError as error:
            METRICS.count(
                "commit_conflicts_total",
                self.context.store.url,
                by=isinstance(error, ConflictError),
            )
            self.discard(files, since=read.version)
            raise
        if committed.version is None:
            self.discard(files, since=read.version)
            return committed
        self.last_committed = committed.snapshot
        self.snapshots.count_own_commit(committed.snapshot, committed.written)
        self._discard_unused(_vector_files(proposal), committed)
        self._report(committed, read)
        return committed

    def commit_after(self, snapshot: Snapshot, proposal: Proposal) -> Snapshot:
        """Commit the version after a snapshot that the log no longer leads to; once, and only if
        its number is free.

        A writer that still has the table in memory may be about to commit the same number: one of
        the two is refused.
        """
        url = self.context.store.url
        check_writable(snapshot.header.protocol, path=url)
        planned = proposal.plan(snapshot, now_ms=self.context.now_ms())
        candidate = self._encode(snapshot, planned, self.context.new_id())
        outcome = self._put(candidate).outcome
        if outcome is PutOutcome.UNKNOWN:
            raise self._unknown(candidate)
        if outcome is PutOutcome.EXISTS:
            raise ConflictError(
                f"Version {candidate.number} of {url} was committed concurrently.", path=url
            )
        self.snapshots.count_own_commit()
        return replay(snapshot, [candidate.version])

    def discard(self, paths: Sequence[str], *, since: int) -> bool:
        """R14: delete splits of a commit that failed, if no version names them; return whether they
        were deleted.

        All versions since the one that was read must be there, as the store has them now. In any
        doubt the splits stay: a purge deletes what no version names.
        """
        if not paths:
            return True
        store = self.context.store
        try:
            newest = self.snapshots.reload()
            later = self.snapshots.since(since, newest.version)
            named = sorted({path for version in later for path in version.named_files} & set(paths))
            if named or newest.version < since:
                logger.warning(
                    "splits of a write to %s stay; the table may name %s",
                    store.url,
                    (named or paths)[0],
                )
                return False
            store.delete(paths)
        except TableNotFoundError:
            store.delete(paths)  # where there is no table, no version names them
        except IndexTablesError as doubt:
            logger.warning(
                "splits of a write to %s are left to a purge: %s", store.url, doubt.message
            )
            return False
        return True

    def _commit(self, read: Snapshot, proposal: Proposal, txn_id: str) -> CommitResult:
        began = self.context.monotonic()
        turn = Turn(self.context.store.local_path(log_files.LOG))
        try:
            state = self._start(read, proposal, txn_id)
            while state.candidate is not None:
                following = self._attempt(state, state.candidate, turn)
                if isinstance(following, CommitResult):
                    return following
                self._check_limits(following, state.candidate, began)
                state = self._prepare(following, state.candidate, read, proposal)
            return CommitResult(state.basis.snapshot, None, state.attempts + 1)
        finally:
            turn.give_back()

    def _start(self, read: Snapshot, proposal: Proposal, txn_id: str) -> _CommitState:
        """R6: plan on what is cached of the table, else on what a listing shows."""
        try:
            basis = self._cached_basis(read)
            if basis is not None:
                planned = self._plan(read, basis, proposal)
            else:
                planned = None
            if basis is not None and planned is not None and planned.actions:
                return _CommitState(basis, self._encode(basis.snapshot, planned, txn_id))
        except IndexTablesError as doubt:
            logger.debug(
                "the log of %s is listed before a commit: %s", self.context.store.url, doubt.message
            )
        basis = _Basis(self.snapshots.fresh())
        planned = self._plan(read, basis, proposal)
        if planned.actions:
            candidate = self._encode(basis.snapshot, planned, txn_id)
        else:
            candidate = None
        return _CommitState(basis, candidate)

    def _attempt(
        self, state: _CommitState, candidate: _Candidate, turn: Turn
    ) -> CommitResult | _CommitState:
        """Put the candidate, and find out what became of it."""
        attempts = state.attempts + 1
        try:
            put = self._put(candidate)
        except IndexTablesError as error:
            if not state.is_in_doubt or isinstance(error, CommitUnknownError):
                raise
            raise self._unknown(candidate) from error
        is_ours = put.outcome is PutOutcome.CREATED
        try:
            if is_ours and self._continues_log(state.basis, candidate):
                snapshot = replay(state.basis.snapshot, [candidate.version])
                return CommitResult(
                    snapshot, snapshot.version, attempts, candidate.version, candidate.version
                )
            if is_ours:
                self._refuse_other_table(candidate, state.basis.snapshot)
            if not turn.take():
                self._pause(attempts)
            basis = self._next_basis(state.basis, put)
            version = self._find_landed_version(basis.snapshot, candidate)
            if version is None and is_ours:
                delete_version(self.reader, candidate.number, candidate.txn_id)
        except _OtherTableError as error:
            raise error.conflict from None
        except (LogGapError, TableNotFoundError):
            if put.outcome is PutOutcome.UNKNOWN:
                raise self._unknown(candidate) from None
            if is_ours:
                delete_version(self.reader, candidate.number, candidate.txn_id)
            raise
        except IndexTablesError as error:
            if put.outcome is PutOutcome.EXISTS or isinstance(error, CommitUnknownError):
                raise
            raise self._unknown(candidate) from error
        if version is not None:
            written = candidate.version if is_ours else None
            return CommitResult(basis.snapshot, version, attempts, written, candidate.version)
        is_in_doubt = (
            put.outcome is PutOutcome.UNKNOWN and basis.snapshot.version < candidate.number
        )
        return _CommitState(basis, candidate, attempts, state.undecided + is_in_doubt, is_in_doubt)

    def _check_limits(self, state: _CommitState, candidate: _Candidate, began: float) -> None:
        """Give up after too many attempts, or too long a time."""
        retry, seconds = self.context.settings.retry, self.context.monotonic() - began
        is_exhausted = (
            state.attempts >= retry.max_attempts or seconds * 1000 >= retry.max_elapsed_ms
        )
        if state.undecided < UNDECIDED and not is_exhausted:
            return
        if state.is_in_doubt:
            raise self._unknown(candidate)
        raise _exhaustion_error(
            self.context.store.url, state.basis.snapshot, state.attempts, seconds
        )

    def _prepare(
        self, state: _CommitState, candidate: _Candidate, read: Snapshot, proposal: Proposal
    ) -> _CommitState:
        """Plan the next attempt. A number that is still free gets the same bytes again: a request
        that is still on its way then changes nothing.
        """
        basis = state.basis
        if candidate.number == basis.snapshot.version + 1:
            return state
        planned = self._plan(read, basis, proposal)
        if planned.actions:
            following = self._encode(basis.snapshot, planned, candidate.txn_id)
        else:
            following = None
        return msgspec.structs.replace(state, candidate=following)

    def _plan(self, read: Snapshot, basis: _Basis, proposal: Proposal) -> Plan:
        """R6: plan on a snapshot, after checking the protocol and everything committed since
        `read`.
        """
        base, url = basis.snapshot, self.context.store.url
        check_writable(base.header.protocol, path=url)
        if base.version < read.version:
            raise _replaced_log_error(url, read, base)
        if not is_same_table(read.metadata.id, base.metadata.id):
            raise another_table(url, read.metadata.id, base.metadata.id)
        if not descends(base, read):
            raise _replaced_log_error(url, read, base)
        if base.version > read.version:
            conflict = self._find_conflict(read, basis, proposal.intent)
            if conflict is not None:
                raise _conflict_error(url, conflict, proposal.intent.operation)
        return proposal.plan(base, now_ms=self.context.now_ms())

    def _find_conflict(self, read: Snapshot, basis: _Basis, intent: Intent) -> Conflict | None:
        listed = basis.listed_version
        try:
            if read.version < listed:
                older = self.snapshots.since(read.version, listed)
            else:
                older = ()
        except VersionNotFoundError:
            # The versions in between were cleaned away: compare what they led to instead.
            return find_difference(intent, read, basis.snapshot)
        followed = (version for version in basis.followed if version.version > read.version)
        return find_conflict(intent, read.header.metadata, [*older, *followed])

    def _encode(self, base: Snapshot, planned: Plan, txn_id: str) -> _Candidate:
        # Times never run backwards in a log, so that a timestamp picks one version.
        timestamp_ms = max(self.context.now_ms(), base.header.timestamp_ms + 1)
        info = msgspec.structs.replace(planned.info, txn_id=txn_id, timestamp=timestamp_ms)
        protocol = next(
            (a for a in planned.actions if isinstance(a, ProtocolAction)), base.header.protocol
        )
        actions = (info, *record_mappings(planned.actions, base.metadata, protocol))
        version = CommittedVersion(base.version + 1, timestamp_ms, actions)
        files = self.context.settings.files
        body = encode_verified(
            actions,
            url=self.context.store.url,
            version=version.version,
            compress=files.compress,
            jvm_layout=files.jvm_layout,
        )
        return _Candidate(
            msgspec.structs.replace(version, file_bytes=len(body), file_md5=md5_of(body)), body
        )

    def _put(self, candidate: _Candidate) -> _Put:
        """R1: put, and read back whatever is not plainly created. EXISTS here means the file of
        another writer.
        """
        path = log_files.version_path(candidate.number)
        for again in range(READ_BACKS):
            try:
                if self.context.store.put_if_absent(path, candidate.body) is PutOutcome.CREATED:
                    return _Put(PutOutcome.CREATED)
            except (AccessDeniedError, StorageFullError) as error:
                # Refused for certain; but an earlier request may still be on its way.
                if again:
                    raise self._unknown(candidate) from error
                raise
            except StorageError as error:
                # A request that failed may still have taken effect: read it back, as after any
                # other doubtful answer.
                logger.warning("the answer to creating %s was lost: %s", path, error.message)
            try:
                existing = self.reader.read_one(candidate.number)
            except (StorageError, CorruptTableError) as error:
                # An I/O error is neither absence nor the file of another writer. The caller pauses
                # and tries again.
                logger.warning("%s could not be read back: %s", path, error.message)
                return _Put(PutOutcome.UNKNOWN)
            if existing is not None and existing.info.txn_id == candidate.txn_id:
                return _Put(PutOutcome.CREATED)
            if existing is not None:
                return _Put(PutOutcome.EXISTS, existing)
        return _Put(PutOutcome.UNKNOWN)

    def _is_unchanged(self, listed_version: int) -> bool:
        """R4: return whether the file of a version is still the one that was listed."""
        if listed_version < 0:
            return True
        listed = self.snapshots.listed_file(listed_version)
        info = self.context.store.head(log_files.version_path(listed_version))
        return info is not None and (listed is None or is_same_object(info, listed))

    def _continues_log(self, basis: _Basis, candidate: _Candidate) -> bool:
        """R4 and R20: return whether a candidate that was created continues the log that was read,
        without a hole.
        """
        listed_version, checkpoint = basis.listed_version, basis.snapshot.base.header.version
        if listed_version < 0:
            return True
        found = log_files.list_versions(
            self.context.store, min(checkpoint + 1, listed_version), candidate.number
        )
        if not found.keys() >= set(range(checkpoint + 1, candidate.number)):
            return False
        info, listed = found.get(listed_version), self.snapshots.listed_file(listed_version)
        return info is not None and (listed is None or is_same_object(info, listed))

    def _cached_basis(self, read: Snapshot) -> _Basis | None:
        """R6: return what is cached of the table, if its last version exists; None where only a
        listing can tell.
        """
        cached = self.snapshots.find_followed()
        if cached is None or cached[0].version < read.version or len(cached[1]) >= MOST_FOLLOWED:
            return None
        snapshot, followed = cached
        if followed:
            exists = self.reader.is_file_of(followed[-1])
        else:
            exists = self._is_unchanged(snapshot.version)
        if exists:
            return _Basis(snapshot, tuple(followed))
        return None

    def _next_basis(self, basis: _Basis, put: _Put) -> _Basis:
        """Return what the next attempt builds on: probed by name after a lost race, else as a
        listing shows it.
        """
        if put.winner is not None:
            probed = self._probe_next_versions(basis, put.winner)
        else:
            probed = None
        if probed is not None:
            return probed
        if put.outcome is PutOutcome.EXISTS:
            return _Basis(self.snapshots.fresh())
        return _Basis(self.snapshots.reload())

    def _probe_next_versions(self, basis: _Basis, winner: CommittedVersion) -> _Basis | None:
        """R6: read the versions after a lost race by their names; None where only a listing can
        tell.
        """
        base = basis.snapshot
        if is_shared(base.header.protocol) or base.version < 0:
            return None
        later = [winner]
        try:
            while (another := self.reader.read_one(later[-1].version + 1)) is not None:
                later.append(another)
                if len(later) == MOST_FOLLOWED:
                    return None
            latest_ms = self.context.now_ms() + AHEAD_MS
            if any(version.timestamp_ms > latest_ms for version in later):
                return None  # dated by a clock that is ahead: a listing says when the store received it
            if not self._is_unchanged(basis.listed_version):
                return None
            snapshot = replay(base, later)
            self.snapshots.follow(snapshot, later)
        except (StorageError, CorruptTableError, UnsupportedError):
            return None  # the read from a listing, which follows, reports it
        return _Basis(snapshot, (*basis.followed, *later))

    def _refuse_other_table(self, candidate: _Candidate, base: Snapshot) -> None:
        """R15: delete a candidate that was created in a table which replaced the one that was read,
        and raise.
        """
        store = self.context.store
        listing = list_log(store)
        before = max(
            (v for v in (*listing.versions, *listing.states) if v < candidate.number), default=None
        )
        if before is None or listing.newest > candidate.number:
            return
        try:
            existing = self.snapshots.at_version(before)
        except VersionNotFoundError:
            return
        if not is_same_table(base.metadata.id, existing.metadata.id):
            conflict = another_table(store.url, base.metadata.id, existing.metadata.id)
        elif before < base.version or not descends(existing, base):
            conflict = _replaced_log_error(store.url, base, existing)
        else:
            return
        delete_version(self.reader, candidate.number, candidate.txn_id)
        raise _OtherTableError(conflict)

    def _find_landed_version(self, newest: Snapshot, candidate: _Candidate) -> int | None:
        """R13: return the version under which the candidate is part of the table, or None if it
        surely is not.

        A version has at most one id, so a list of n ids reaches back over n versions at least.
        Beyond that the splits decide: where the table is as the candidate wants it, it landed. What
        was merged since decides nothing.
        """
        number, txn_ids = candidate.number, newest.header.recent_txn_ids
        if candidate.txn_id in txn_ids:
            return number
        if newest.version - number < len(txn_ids) or newest.version < number:
            return None
        if _is_in(newest, candidate.version):
            return number
        existing = self.reader.read_one(number)
        is_of_another = existing is not None and existing.info.txn_id != candidate.txn_id
        if is_of_another and self.context.store.head(log_files.version_path(number - 1)):
            return None  # the number was never free
        raise self._unknown(candidate)

    def _pause(self, attempts: int) -> None:
        # The success of another writer is no reason to wait at first: each conflict means that the
        # table has moved on.
        if attempts > AT_ONCE:
            retry = self.context.settings.retry
            ceiling_ms = min(
                retry.max_delay_ms, retry.base_delay_ms * 2 ** (attempts - AT_ONCE - 1)
            )
            self.context.sleep(self.context.rng.uniform(0, ceiling_ms) / 1000)

    def _unknown(self, candidate: _Candidate) -> CommitUnknownError:
        url = self.context.store.url
        return CommitUnknownError(
            f"Whether the commit to {url} landed as version {candidate.number} could not be found out.",
            path=url,
            version=candidate.number,
            txn_id=candidate.txn_id,
        )

    def _discard_unused(self, paths: Sequence[str], committed: CommitResult) -> None:
        """Delete vector files of attempts that lost a race: the committed version names only those
        of the last one.
        """
        if committed.offered is not None:
            named = committed.offered.named_files
        else:
            named = frozenset()
        unused = [path for path in paths if path not in named]
        if unused and committed.written is not None:
            try:
                self.context.store.delete(unused)
            except StorageError as error:
                logger.warning(
                    "unused vector files of %s are left to a purge: %s",
                    self.context.store.url,
                    error.message,
                )

    def _report(self, committed: CommitResult, read: Snapshot) -> None:
        """Count and log what was committed."""
        url, retries = self.context.store.url, committed.attempts - 1
        METRICS.count("commits_total", url)
        if retries:
            METRICS.count("commit_retries_total", url, by=retries)
            logger.info(
                "version %s of %s was committed after %d retries", committed.version, url, retries
            )
        if committed.written is not None:
            actions = committed.written.actions
        else:
            actions = ()
        was_ours = names_parquet_splits(read.header.protocol)
        for action in actions:
            if isinstance(action, SkipAction):
                METRICS.count("skips_recorded_total", url, action.operation)
                until = datetime.fromtimestamp((action.retry_after or 0) / 1000, UTC)
                text = "skipped %s of %s (%d times) until %s: %s"
                logger.warning(text, action.path, url, action.skip_count, until, action.reason)
            elif (
                isinstance(action, ProtocolAction) and names_parquet_splits(action) and not was_ours
            ):
                logger.warning(_TAKEN_OVER, url, committed.version)


def _vector_files(proposal: Proposal) -> Sequence[str]:
    """Return the files of deletion vectors that were written for a proposal, in all attempts."""
    writer = proposal.writer if isinstance(proposal, Changes) else None
    if writer is not None:
        return tuple(writer.written)
    return ()


def delete_version(reader: VersionReader, version: int, txn_id: str) -> None:
    """Delete a version that was created and is not part of the table, if its file is still the one
    of this transaction.

    Another table may have been created at this path since, with a version of the same number.
    """
    existing = reader.read_one(version)
    if existing is not None and existing.info.txn_id == txn_id:
        reader.store.delete([log_files.version_path(version)])


def _conflict_error(url: str, conflict: Conflict, operation: str) -> ConflictError:
    return ConflictError(
        f"{operation} on {url} conflicts with version {conflict.version}: {conflict.reason}.",
        path=url,
        version=conflict.version,
        operation=operation,
        retry_helps=conflict.retry_helps,
    )


def _replaced_log_error(url: str, read: Snapshot, base: Snapshot) -> ConflictError:
    if base.version < read.version:
        newest = f"{base.version}"
    else:
        newest = f"{base.version}, which does not come from it"
    return ConflictError(
        f"{url} was read at version {read.version}, and now its newest is {newest}: its log was replaced.",
        hint="Nothing was committed. Open the table again with Table.open(path) and repeat the operation.",
        path=url,
        version=base.version,
        retry_helps=False,
    )


def _exhaustion_error(url: str, base: Snapshot, attempts: int, seconds: float) -> ConflictError:
    return ConflictError(
        f"Other writers of {url} were first {attempts} times in {seconds:.1f} s, last at version {base.version}.",
        hint="Nothing was committed. Try again, with fewer writers, or with higher transaction.retry.maxElapsedMs and "
        "transaction.retry.maxAttempts.",
        path=url,
        version=base.version,
        attempts=attempts,
        retry_helps=True,
    )


class _OtherTableError(Exception):
    """A version was created in another table and deleted again; never leaves this module."""

    def __init__(self, conflict: ConflictError) -> None:
        super().__init__(conflict.message)
        self.conflict = conflict


def _is_in(newest: Snapshot, version: CommittedVersion) -> bool:
    """Return whether a table has what a version adds, and nothing of what it removes."""
    if not version.added_paths:
        return False
    files = newest.files(columns=["path", "deletion_vector"])
    live = dict(
        zip(
            files.column("path").to_pylist(),
            files.column("deletion_vector").to_pylist(),
            strict=True,
        )
    )
    metadata = next((a for a in reversed(version.actions) if isinstance(a, MetadataAction)), None)
    same_metadata = metadata is None or without_registry(metadata) == without_registry(
        newest.metadata
    )
    added = all(path in live and live[path] == vector for path, vector in version.vectors.items())
    return (
        same_metadata and added and not (version.removed_paths - version.added_paths) & live.keys()
    )
