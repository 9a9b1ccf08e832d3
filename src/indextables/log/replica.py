"""Copies of the states of tables at another location, and which of them can be trusted.

A replica is a folder with a folder for each table, named by the table's id, which holds its states
and their manifests under the names in the log. It is written after the checkpoint and read only by
repairs. A repair verifies it: checksums and counts must match, it must be of the same table, its
transactions must agree with the remaining versions, and no version between it and the newest one
may be missing.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from indextables.config.log import CleanupSettings, LogReadSettings, StateReadSettings
from indextables.errors import (
    BadFileError,
    CheckpointWriteError,
    NotFoundError,
    RefusedError,
    UnavailableError,
    UnsupportedError,
)
from indextables.log import log_files
from indextables.log.checkpoint.state_reader import BaseReader
from indextables.log.checkpoint.verifier import CheckpointVerifier
from indextables.log.cleaning import Cleaner
from indextables.log.log_files import LogListing, list_log
from indextables.log.versions import VersionReader
from indextables.metrics import METRICS
from indextables.model.actions import MetadataAction
from indextables.model.conflicts import is_same_table
from indextables.model.retention import RetentionPolicy
from indextables.model.snapshot import Base, CommittedVersion, Snapshot, replay
from indextables.storage.store import PutOutcome, Store
from indextables.wire.avro import read_container
from indextables.wire.state import decode_state

logger = logging.getLogger(__name__)
_PLAIN_ID = re.compile(r"[0-9A-Za-z-]{1,64}")


def folder_of(table_id: str) -> str:
    """Return the folder of a table in a replica. An id that is not a plain name is hashed."""
    if _PLAIN_ID.fullmatch(table_id):
        return table_id
    return hashlib.sha256(table_id.encode()).hexdigest()


class RecoveredSnapshot(Struct, frozen=True):
    """The newest version of a table from its replica, and whether the remaining log shows that they
    belong together.
    """

    url: str
    snapshot: Snapshot
    is_known: bool


class Replica(Struct, frozen=True):
    """A location with copies of states. `open` opens it or a folder of it with the caller's
    settings.
    """

    url: str
    open: Callable[[str], Store]

    def folder(self, name: str) -> Store:
        """Return the store of one table in it."""
        return self.open(f"{self.url.rstrip('/')}/{name}")

    def copy(self, source: Store, version: int, *, thorough: bool = False) -> Store:
        """Copy the state of a version and its missing manifests, and return the location.

        `thorough` also reads existing copies and replaces damaged ones.
        """
        path = log_files.state_path(version)
        body = source.get(path)
        state = decode_state(body, path=path)
        if state.metadata is None:
            raise CheckpointWriteError(
                f"{path} does not name its table.", path=path, version=version
            )
        target = self.folder(folder_of(state.metadata.id))
        sizes = {
            info.path: info.size
            for info in target.list(log_files.LOG)
            if info.path.endswith(".avro")
        }
        for manifest in state.manifests:
            name = log_files.manifest_path(manifest.path, path)
            is_there = name in sizes and sizes[name] == manifest.size_bytes
            if is_there and not (thorough and _is_damaged(target, name)):
                continue
            data = source.get(name)
            if read_container(data, path=name).rows != manifest.num_entries:
                raise BadFileError(
                    f"{name} does not hold {manifest.num_entries} entries.", path=name
                )
            target.put(name, data)
            METRICS.count("replica_bytes_total", source.url, by=len(data))
        # The state comes last: one that is there has all its manifests.
        outcome = target.put_if_absent(path, body)
        if outcome is PutOutcome.CREATED:
            METRICS.count("replica_bytes_total", source.url, by=len(body))
        elif target.head(path) is None:
            raise UnavailableError(
                f"Whether {path} was copied to {target.url} could not be found out.", path=path
            )
        elif _is_damaged(target, path):
            target.put(path, body)
        elif target.get(path) != body:
            raise CheckpointWriteError(
                f"{target.url} holds another state of version {version}: a copy of this table, which has the same id, has "
                "its replica there too, or this table was brought back to an older version.",
                hint="Give each copy of a table a replica of its own, or delete that folder: the next checkpoint fills it.",
                path=path,
                version=version,
            )
        return target

    def clean(
        self, target: Store, policy: RetentionPolicy, settings: CleanupSettings, original: Cleaner
    ) -> None:
        """Delete expired copies, by the retention, clock and tags of the log's cleaner."""
        versions = original.bases.versions
        bases = BaseReader(
            VersionReader(target, versions.cache, versions.settings), original.bases.settings
        )
        report = replace(original, store=target, bases=bases).clean(policy, settings=settings)
        if report.failures:
            raise UnavailableError(
                f"Cleaning the replica at {target.url}: {report.failures[0]}", path=target.url
            )

    def recover(
        self, versions: VersionReader, reading: LogReadSettings, state_reading: StateReadSettings
    ) -> list[RecoveredSnapshot]:
        """Return the newest version of the table whose log `versions` reads, from each folder that
        can be its replica.

        There is one, unless the remaining log does not identify its table. Raises RefusedError if
        there is none.
        """
        listing = list_log(versions.store)
        ids = _table_ids(versions, state_reading, listing)
        folders = sorted(
            {
                info.path.partition("/")[0]
                for info in self.open(self.url).list()
                if _is_state(info.path)
            }
        )
        own = [
            folder
            for folder in folders
            if not ids or folder in {folder_of(table_id) for table_id in ids}
        ]
        if not own:
            if folders:
                there = f"of other tables: {', '.join(folders[:5])}"
            else:
                there = "empty"
            raise _refusal(
                self.url,
                versions,
                f"it is {there}",
                f"The table is {', '.join(sorted(ids)) or 'not known'}.",
            )
        recovered, failures = [], []
        for folder in own:
            store = self.folder(folder)
            try:
                base = _newest_base(store, reading, state_reading)
                if folder_of(_id_of(base)) != folder:
                    raise _refusal(store.url, versions, f"it is of another table: {_id_of(base)}")
                matches = _check_transactions(store.url, base, versions, listing)
                snapshot = _replay_after(store.url, base, versions, listing)
                recovered.append(RecoveredSnapshot(store.url, snapshot, bool(ids) or matches))
            except RefusedError as failure:
                failures.append(failure)
        if not recovered:
            raise failures[0]
        return recovered


def _is_damaged(store: Store, path: str) -> bool:
    try:
        read_container(store.get(path), path=path)
    except BadFileError:
        return True
    return False


def _is_state(path: str) -> bool:
    return log_files.state_version_of(path.partition("/")[2]) is not None


def _id_of(base: Base) -> str:
    if base.header.metadata is not None:
        return base.header.metadata.id
    return ""


def _table_ids(
    versions: VersionReader, reading: StateReadSettings, listing: LogListing
) -> frozenset[str]:
    """Return the table ids in the remaining log: in its first version, and in readable states."""
    first = _readable_version(versions, listing, 0)
    ids = {
        a.id for a in (first.actions if first is not None else ()) if isinstance(a, MetadataAction)
    }
    reader = BaseReader(versions, reading)
    for number, info in listing.states.items():
        try:
            metadata = reader.read_state(number, info).metadata
        except (BadFileError, UnsupportedError, NotFoundError):
            continue
        ids |= {metadata.id} if metadata is not None else set()
    return frozenset(ids)


def _readable_version(
    versions: VersionReader, listing: LogListing, number: int
) -> CommittedVersion | None:
    if number not in listing.versions:
        return None
    try:
        return versions.read([(number, listing.versions[number])])[0]
    except (BadFileError, UnsupportedError, NotFoundError):
        return None


def _newest_base(store: Store, reading: LogReadSettings, state_reading: StateReadSettings) -> Base:
    """Return the newest state of a replica after verifying every byte of it."""
    verifier, listing = CheckpointVerifier.of(store, reading, state_reading), list_log(store)
    reasons = []
    for version in sorted(listing.states, reverse=True):
        info = listing.states[version]
        failure = verifier.failure(version, info, None)
        if failure is None:
            return verifier.bases.standalone(version, info)
        logger.warning("the replica at %s: %s", store.url, failure.message)
        reasons.append(failure.message)
    raise RefusedError(
        f"The replica at {store.url} is not used: {reasons[0] if reasons else 'it holds no state.'}",
        path=store.url,
    )


def _check_transactions(url: str, base: Base, versions: VersionReader, listing: LogListing) -> bool:
    """Return whether a version that the state covers still exists with the expected transaction.
    Raises RefusedError if it differs.
    """
    txn_ids, at = base.header.recent_txn_ids, base.header.version
    matches = False
    for number in sorted(v for v in listing.versions if at - len(txn_ids) < v <= at):
        version = _readable_version(versions, listing, number)
        txn_id = version.info.txn_id if version is not None else None
        if txn_id is not None and txn_id not in txn_ids:
            why = f"it has another history: the transaction {txn_id} of version {number} is not in its state of {at}"
            raise _refusal(url, versions, why)
        matches = matches or txn_id is not None
    return matches


def _replay_after(url: str, base: Base, versions: VersionReader, listing: LogListing) -> Snapshot:
    """Return the outcome of the versions after a state. Raises RefusedError if one is missing."""
    at, newest = base.header.version, max(listing.newest, base.header.version)
    missing = listing.missing(at, newest)
    if missing:
        why = f"it is older than the table: it ends at version {at}, and version {missing[0]} of {newest} is lost"
        raise _refusal(url, versions, why)
    snapshot = replay(
        base, versions.read([(v, listing.versions[v]) for v in range(at + 1, newest + 1)])
    )
    if not is_same_table(_id_of(base), snapshot.metadata.id):
        raise _refusal(
            url,
            versions,
            f"it is of another table: {_id_of(base)}, and the log goes on as {snapshot.metadata.id}",
        )
    return snapshot


def _refusal(url: str, versions: VersionReader, why: str, more: str = "") -> RefusedError:
    place = versions.store.url
    return RefusedError(
        f"The replica at {url} is not used for {place}: {why}. {more}".rstrip(),
        hint="Name the replica of this table. Nothing was changed. Table.repair(path, at='another place') copies what can be "
        "read, and where the whole log is lost Table.repair(path) rebuilds it from the splits.",
        path=place,
        replica=url,
    )
