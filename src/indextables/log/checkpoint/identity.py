"""Check that a checkpoint, or a snapshot that a writer holds, belongs to the table that is at its
path now.

A table can be removed and created again, or its log replaced by an older copy, while a process
sleeps. That process may then write a state of a version that this table never had. Three checks
keep the two tables apart:

| check | made by | compares |
| --- | --- | --- |
| `check_is_there` | the writer of a checkpoint, before and after it creates the file | the
    transaction of the version file |
| `uncovered_failure` | the reader of a checkpoint without its version file | transactions around
    it, then the table id |
| `without_strangers` | every reader of a listing | the same, for checkpoints above the newest
    version file |

States and checkpoints of older releases and of other engines may name neither a transaction nor a
table. They are compared by what they contain, and used if nothing contradicts them.
"""

from __future__ import annotations

from msgspec.structs import replace

from indextables.errors import (
    BadFileError,
    ConflictError,
    NotFoundError,
    TableNotFoundError,
    UnsupportedError,
)
from indextables.log.checkpoint.state_files import StateFiles
from indextables.log.checkpoint.state_reader import BaseReader
from indextables.log.log_files import DROPPED, LogListing, being_dropped, list_log
from indextables.model.actions import MetadataAction
from indextables.model.conflicts import is_same_table
from indextables.model.snapshot import Base, CommittedVersion, Header, Snapshot
from indextables.storage.store import ObjectInfo


def check_is_there(reader: BaseReader, snapshot: Snapshot) -> None:
    """Raise unless the version that a snapshot shows is part of the log now.

    Raises:
        TableNotFoundError: The log is empty.
        ConflictError: The log holds another version of this number, or does not lead to this
            version.
    """
    header = snapshot.header
    if reader.versions.store.head(DROPPED) is not None:
        raise being_dropped(reader.versions.store.url)
    existing = reader.versions.read_one(snapshot.version)
    if existing is not None:
        if _is_transaction_of(existing.info.txn_id or None, header):
            return
        raise _replacement_error(reader, snapshot)
    listing = list_log(reader.versions.store)
    if _is_read_from(listing, snapshot):
        return
    if not listing.versions:
        raise removal_error(reader.versions.store.url)
    if not _is_covered(reader, listing, header):
        raise _replacement_error(reader, snapshot)


def removal_error(url: str) -> TableNotFoundError:
    """Return the error for a table whose log was removed while a process held it."""
    return TableNotFoundError(f"There is no table at {url} any more: it was removed.", path=url)


def uncovered_failure(reader: BaseReader, base: Base, listing: LogListing) -> BadFileError | None:
    """Return why a checkpoint without its version file belongs to another table, or None.

    The newest version file below it must be one of its ancestors. Without one, the next state with
    a version file must descend from it. If the recorded transactions do not reach that far, the
    table ids must agree.
    """
    if not listing.first_version:
        full = listing
    else:
        full = list_log(reader.versions.store)
    number, txn_ids = base.header.version, base.header.recent_txn_ids
    lower = max((v for v in full.versions if v < number), default=-1)
    if lower >= 0 and lower > number - len(txn_ids):
        version = readable_version(reader, full, lower)
        txn_id = version.info.txn_id if version is not None else None
        if txn_id is not None:
            if txn_id in txn_ids:
                return None
            return of_another_table(_path(base, full), lower, txn_id)
    if txn_ids and _is_left_out(reader, full, base):
        return of_another_table(_path(base, full), number, txn_ids[-1])
    if is_of_another_table(reader, base, full):
        return of_another_table(_path(base, full), number)
    return None


def without_strangers(reader: BaseReader, listing: LogListing) -> LogListing:
    """Return the listing without the checkpoints above its newest version file that belong to
    another table.

    They would make the log look longer. Each is reported once.
    """
    top = max(listing.versions, default=-1)
    for number in sorted(
        {v for v in (*listing.states, *listing.legacy_checkpoints) if v > top}, reverse=True
    ):
        if top < 0:
            break
        base = _base_at(reader, listing, number)
        if base is not None:
            failure = uncovered_failure(reader, base, listing)
        else:
            failure = None
        if failure is None:
            break
        reader.report(failure)
        listing = replace(
            listing,
            states={v: info for v, info in listing.states.items() if v != number},
            legacy_checkpoints={
                v: info for v, info in listing.legacy_checkpoints.items() if v != number
            },
        )
    return listing


def is_of_another_table(reader: BaseReader, base: Base, full: LogListing) -> bool:
    """Return whether the first version, or a state with its version file, has another table id than
    a checkpoint.
    """
    own = base.header.metadata
    if own is None:
        return False
    if 0 in full.versions:
        first = readable_version(reader, full, 0)
    else:
        first = None
    ids = [
        a.id for a in (first.actions if first is not None else ()) if isinstance(a, MetadataAction)
    ]
    for number in sorted(v for v in full.states if v != base.header.version and v in full.versions):
        if ids:
            break
        try:
            metadata = reader.read_state(number, full.states[number]).metadata
        except (BadFileError, UnsupportedError, NotFoundError):
            continue
        ids += [metadata.id] if metadata is not None else []
    return bool(ids) and not is_same_table(own.id, ids[0])


def of_another_table(path: str, number: int, txn_id: str | None = None) -> BadFileError:
    """Return the failure of a checkpoint that does not belong to the versions of this log."""
    if txn_id is None:
        why = "its table id is another one"
    else:
        why = f"transaction {txn_id} (version {number}) is not part of both"
    return BadFileError(
        f"{path} is of another table than the versions of this log: {why}.",
        path=path,
        version=number,
    )


def readable_version(
    reader: BaseReader, listing: LogListing, number: int
) -> CommittedVersion | None:
    """Return a version file of a listing, or None if it cannot be read."""
    try:
        return reader.versions.read([(number, listing.versions[number])])[0]
    except (BadFileError, UnsupportedError, NotFoundError):
        return None


def _is_transaction_of(txn_id: str | None, header: Header) -> bool:
    """Return whether a version file is the one of a header. A header from an older release's state
    has no exact id.
    """
    return txn_id == header.txn_id or (header.txn_id is None and txn_id in header.recent_txn_ids)


def _is_read_from(listing: LogListing, snapshot: Snapshot) -> bool:
    """Return whether the snapshot was read from a checkpoint of its version that is still the same
    file.
    """
    base = snapshot.base
    if base.header.version != snapshot.version:
        return False
    if isinstance(base.source, StateFiles):
        return listing.states.get(snapshot.version) == base.source.state_file
    return snapshot.version in listing.legacy_checkpoints


def _is_covered(reader: BaseReader, listing: LogListing, header: Header) -> bool:
    """Return whether the newest checkpoint descends from the version of a header, so that the
    version was cleaned.
    """
    own = without_strangers(reader, listing)
    base = next(reader.bases(own, until=own.newest))
    txn_id = header.txn_id or next(reversed(header.recent_txn_ids), None)
    return base.header.version >= header.version and txn_id in base.header.recent_txn_ids


def _is_left_out(reader: BaseReader, full: LogListing, base: Base) -> bool:
    """Return whether the next state with a version file should list the newest transaction of a
    base and does not.
    """
    number = base.header.version
    for later in sorted(v for v in full.states if v > number and v in full.versions):
        try:
            known = reader.read_state(later, full.states[later]).txn_ids
        except (BadFileError, UnsupportedError, NotFoundError):
            continue
        return later - number < len(known) and base.header.recent_txn_ids[-1] not in known
    return False


def _base_at(reader: BaseReader, listing: LogListing, number: int) -> Base | None:
    """Return the checkpoint of a version, or None if it cannot be read."""
    states = {v: info for v, info in listing.states.items() if v <= number}
    checkpoints = {v: info for v, info in listing.legacy_checkpoints.items() if v == number}
    base = next(reader.bases(LogListing({}, states, checkpoints), until=number))
    if base.header.version == number:
        return base
    return None


def _path(base: Base, listing: LogListing) -> str:
    if isinstance(base.source, StateFiles):
        return base.source.state_file.path
    info: ObjectInfo = listing.legacy_checkpoints[base.header.version]
    return info.path


def _replacement_error(reader: BaseReader, snapshot: Snapshot) -> ConflictError:
    url = reader.versions.store.url
    return ConflictError(
        f"Version {snapshot.version} of {url} is not the one that was read: the table was removed and created again, or its "
        "log was replaced.",
        hint="Open the table again with Table.open(path). Nothing was written.",
        path=url,
        version=snapshot.version,
        retry_helps=False,
    )
