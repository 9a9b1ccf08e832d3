"""Whether a state descends from the versions that it claims to cover.

Another engine reads states only and commits by writing one: beside a version of ours it would write a state of the same
number that knows nothing of it, and the rows of that version would be gone for everybody. So a state is held against the
version files of the table before it is used. A state of ours names the transaction of its own version; one of another
engine does not, and must hold what the newest version that changed files added.

A state of ours whose own version file is gone or cannot be read is taken at its word, and so is a version file without a
transaction. No writer commits by a checkpoint in an older form: one that does not name the transaction of its version, and
a state of another table, is simply damage, and is passed over (rule S10).
"""

from __future__ import annotations

from msgspec import Struct

from indextables.errors import BadFileError, CorruptTableError, NotFoundError, UnsupportedError
from indextables.log import log_files
from indextables.log.checkpoint.state_files import StateFiles
from indextables.log.checkpoint.state_reader import BaseReader, BaseSearch
from indextables.log.log_files import LogListing, list_log
from indextables.model.actions import AddAction, MetadataAction, RemoveAction
from indextables.model.conflicts import is_same_table
from indextables.model.snapshot import Base, CommittedVersion


class _CheckedFiles(Struct, frozen=True):
    """What a check looked at; the same files need no second look."""

    state: object
    version: object


def is_of_another_engine(base: Base) -> bool:
    """Whether a base is a state that we did not write: ours name the transactions that led to them."""
    return isinstance(base.source, StateFiles) and not base.source.state.txn_ids


def descends(reader: BaseReader, base: Base, listing: LogListing, search: BaseSearch | None = None) -> bool:
    """Whether a base can be used; False for one that is damaged, which is reported. CorruptTableError as `check_descent`."""
    try:
        check_descent(reader, base, listing)
    except BadFileError as failure:
        reader.report(failure)
        if search is not None:
            search.failures.append(failure)
        return False
    return True


def check_descent(reader: BaseReader, base: Base, listing: LogListing) -> None:
    """CorruptTableError if a base is a state that leaves out a version it claims to cover; BadFileError if it is another
    table's.
    """
    if not isinstance(base.source, StateFiles):
        _check_checkpoint(reader, base, listing)
        return
    if not is_of_another_engine(base):
        _check_own(reader, base, listing)
        return
    full = listing if not listing.first_version else list_log(reader.versions.store)
    for number in sorted((v for v in full.versions if 1 <= v <= base.header.version), reverse=True):
        version = _version(reader, full, number)
        if version is None:
            return
        if version.added or version.removed:
            _check_version(reader, full, base, version)
            return


def check_newest_state(reader: BaseReader, listing: LogListing) -> None:
    """The same for the newest state of a listing, if it can be read."""
    newest = max(listing.states)
    base = next(reader.bases(LogListing({}, listing.states, {}), until=newest))
    if base.header.version == newest:
        descends(reader, base, listing)


def _check_own(reader: BaseReader, base: Base, listing: LogListing) -> None:
    assert isinstance(base.source, StateFiles)
    number = base.header.version
    info = listing.versions.get(number)
    files = _CheckedFiles(base.source.state_file, info)
    if info is None or _is_checked(reader, files):
        return
    version = _version(reader, listing, number)
    txn_id = version.info.txn_id if version is not None else None
    if txn_id is not None and txn_id not in base.source.state.txn_ids:
        if _is_of_another_table(reader, base):
            raise _of_another_table(base.source.state_file.path, number, txn_id)
        raise _foreign_to(reader, base, number, f"the transaction {txn_id} of that version is not in it")
    _remember(reader, files)


def _check_checkpoint(reader: BaseReader, base: Base, listing: LogListing) -> None:
    number = base.header.version
    checkpoint, info = listing.legacy_checkpoints.get(number), listing.versions.get(number)
    files = _CheckedFiles(checkpoint, info)
    # Other writers do not name transactions in their checkpoints.
    if checkpoint is None or info is None or not base.header.recent_txn_ids or _is_checked(reader, files):
        return
    version = _version(reader, listing, number)
    txn_id = version.info.txn_id if version is not None else None
    if txn_id is not None and txn_id not in base.header.recent_txn_ids:
        raise _of_another_table(checkpoint.path, number, txn_id)
    _remember(reader, files)


def _is_of_another_table(reader: BaseReader, base: Base) -> bool:
    """Whether the first version, or else another state, has another id than a state that does not fit its version."""
    full = list_log(reader.versions.store)
    first = _version(reader, full, 0) if 0 in full.versions else None
    ids = [a.id for a in (first.actions if first is not None else ()) if isinstance(a, MetadataAction)]
    others = (v for v in sorted(full.states) if v != base.header.version and not ids)
    for number in others:
        try:
            metadata = reader.read_state(number, full.states[number]).metadata
        except (BadFileError, UnsupportedError, NotFoundError):
            continue
        ids += [metadata.id] if metadata is not None else []
    own = base.header.metadata
    return own is not None and bool(ids) and not is_same_table(own.id, ids[0])


def _of_another_table(path: str, number: int, txn_id: str) -> BadFileError:
    return BadFileError(
        f"{path} is of another table: the transaction {txn_id} of version {number} is not in it.",
        path=path,
        version=number,
    )


def _check_version(reader: BaseReader, full: LogListing, base: Base, version: CommittedVersion) -> None:
    """A version against the first state that covers it; later states may have removed what it added."""
    first = min((s for s in full.states if s >= version.version), default=base.header.version)
    if first != base.header.version:
        alone = LogListing({}, {s: i for s, i in full.states.items() if s <= first}, {})
        earlier = next(reader.bases(alone, until=first))
        base = earlier if earlier.header.version == first else base
    assert isinstance(base.source, StateFiles)
    if not is_of_another_engine(base):
        _check_own(reader, base, full)
        return
    files = _CheckedFiles(base.source.state_file, full.versions[version.version])
    if _is_checked(reader, files):
        return
    held = set(base.source.files(columns=["path"]).column("path").to_pylist())
    added, gone = _outcome(version)
    for paths, what in ((added - held, "lacks {}, which that version added"), (gone & held, "has {}, removed there")):
        if paths:
            more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
            raise _foreign_to(reader, base, version.version, "it " + what.format(min(paths) + more))
    _remember(reader, files)


def _outcome(version: CommittedVersion) -> tuple[set[str], set[str]]:
    """The paths that are live, and that are gone, after a version; the last action on a path counts."""
    last = {a.path: isinstance(a, AddAction) for a in version.actions if isinstance(a, AddAction | RemoveAction)}
    return {path for path, live in last.items() if live}, {path for path, live in last.items() if not live}


def _version(reader: BaseReader, listing: LogListing, number: int) -> CommittedVersion | None:
    """A version file, or None if it cannot be read: what it says is covered, and nobody needs it to read the table."""
    try:
        return reader.versions.read([(number, listing.versions[number])])[0]
    except (BadFileError, UnsupportedError, NotFoundError):
        return None


def _foreign_to(reader: BaseReader, base: Base, number: int, why: str) -> CorruptTableError:
    assert isinstance(base.source, StateFiles)
    url, state, version = reader.versions.store.url, base.source.state_file.path, log_files.version_path(number)
    return CorruptTableError(
        f"{state} of {url} does not descend from {version}: {why}. Two engines have written this table by turns, each "
        "without the other's rows.",
        hint=f"Nothing was deleted. Version {number - 1}, by number, is the table before both. Move {version} and later "
        "versions out of the log to go on with the other side, and append the rows of the splits that they add again: "
        "those are Parquet files.",
        path=state,
        version=number,
        version_file=version,
    )


def _is_checked(reader: BaseReader, files: _CheckedFiles) -> bool:
    cache, url = reader.versions.cache, reader.versions.store.url
    return cache is not None and cache.get("reports", url, files) is not None


def _remember(reader: BaseReader, files: _CheckedFiles) -> None:
    if reader.versions.cache is not None:
        reader.versions.cache.put("reports", reader.versions.store.url, files, True, cost_bytes=200)
