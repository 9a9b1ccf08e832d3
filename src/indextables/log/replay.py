"""Replay the log: the newest base, then every version after it, without a hole.

An I/O error is never treated as absence. If a listed file is gone, the log was cleaned concurrently
and the reader starts again from a new listing (rule R2). A remaining hole is a LogGapError, never a
shorter table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from indextables.errors import (
    CorruptTableError,
    LogGapError,
    NotFoundError,
    TableNotFoundError,
    VersionNotFoundError,
)
from indextables.log import log_files
from indextables.log.checkpoint.checkpointer import read_pointer
from indextables.log.checkpoint.identity import without_strangers
from indextables.log.checkpoint.state_reader import BaseReader, BaseSearch
from indextables.log.checkpoint.verifier import check_newest_state, descends
from indextables.log.log_files import LogListing, being_dropped, list_log
from indextables.log.versions import bounded_time
from indextables.model.protocol import check_readable
from indextables.model.schema import check_recorded
from indextables.model.snapshot import Base, CommittedVersion, Snapshot, replay
from indextables.storage.store import ObjectInfo, Store

RESTARTS = 5


class LogMovedError(Exception):
    """The log was cleaned while it was read. Never leaves this package."""


class LoadedSnapshot(Struct, frozen=True):
    """A snapshot and the files it was read from, starting with its base, which identify the table
    on later reads.

    `own` are later versions that this process committed itself and need not read back; `latest` is
    their outcome.
    """

    snapshot: Snapshot
    files: Mapping[int, ObjectInfo | None]
    own: tuple[CommittedVersion, ...] = ()
    latest: Snapshot | None = None

    def followed_by(
        self, snapshot: Snapshot, versions: Sequence[CommittedVersion]
    ) -> LoadedSnapshot:
        """Return the same snapshot followed by these versions, or itself if they do not continue
        it.
        """
        at = self.snapshot.version + len(self.own)
        later = [version for version in versions if version.version > at]
        if not later or later[0].version != at + 1 or snapshot.version != at + len(later):
            return self
        return replace(self, own=(*self.own, *later), latest=snapshot)


def load(store: Store, reader: BaseReader, *, version: int | None = None) -> LoadedSnapshot:
    """Load the table at its newest or at an older version."""
    for attempt in range(RESTARTS):
        short = attempt == 0 and version is None and not reader.replays
        listing = _short_listing(store) if short else list_log(store)
        try:
            return _load(store, reader, listing, version, last_try=attempt == RESTARTS - 1)
        except LogMovedError as moved:
            if moved.__cause__ is not None:
                missed = f": {moved.__cause__}"
            else:
                missed = "."
    raise CorruptTableError(
        f"The log of {store.url} changes faster than it can be read{missed}", path=store.url
    )


def _short_listing(store: Store) -> LogListing:
    """List the log from the checkpoint that the pointer names, one page instead of many.

    If the result is empty the pointer was wrong, and the whole log is listed.
    """
    pointer = read_pointer(store)
    if pointer is None:
        return list_log(store)
    listing = list_log(store, first_version=pointer.version)
    is_listed = pointer.version in listing.states or pointer.version in listing.legacy_checkpoints
    if is_listed:
        return listing
    return list_log(store)


def advance(store: Store, reader: BaseReader, loaded: LoadedSnapshot) -> LoadedSnapshot:
    """Return the newest version by one listing from the known base. Anything unexpected causes a
    complete read.
    """
    at = loaded.snapshot.version
    listing = list_log(store, first_version=min(loaded.files))
    if any(_file(listing, version) != info for version, info in loaded.files.items()):
        return load(store, reader)
    if max(listing.states, default=-1) > loaded.snapshot.base.header.version:
        # It may be another engine's, next to versions that are known here.
        check_newest_state(reader, listing)
    newest = listing.newest
    if newest == at:
        if loaded.own:
            return replace(loaded, own=(), latest=None)
        return loaded
    if listing.missing(at, newest):
        return load(store, reader)
    own = {version.version: version for version in loaded.own if version.version <= newest}
    if any(listing.versions[v].size != version.file_bytes for v, version in own.items()):
        return load(store, reader)
    # The last of them was written on top of the others: where it is there, so are they.
    if own and not reader.versions.is_file_of(own[max(own)], listing.versions[max(own)]):
        return load(store, reader)
    version_files = [(v, listing.versions[v]) for v in range(at + 1, newest + 1) if v not in own]
    try:
        own |= {version.version: version for version in reader.versions.read(version_files)}
    except NotFoundError:
        return load(store, reader)
    later = [_bound_time(own[v], listing.versions[v]) for v in range(at + 1, newest + 1)]
    for version in later:
        reader.versions.remember(version, listing.versions[version.version])
    snapshot = replay(loaded.snapshot, later)
    check_read(store, snapshot)
    return LoadedSnapshot(snapshot, _files(listing, snapshot))


def check_read(store: Store, snapshot: Snapshot) -> None:
    """Check that this release supports a table: its protocol and its metadata."""
    check_readable(snapshot.header.protocol, path=store.url)
    _check_metadata(store, snapshot)


def _bound_time(version: CommittedVersion, info: ObjectInfo) -> CommittedVersion:
    """Return one of our own versions as other readers see it: dated no later than the store
    received it.
    """
    timestamp_ms = bounded_time(version.timestamp_ms, info.last_modified_ms)
    if timestamp_ms == version.timestamp_ms:
        return version
    return replace(version, timestamp_ms=timestamp_ms)


def _load(
    store: Store, reader: BaseReader, listing: LogListing, version: int | None, *, last_try: bool
) -> LoadedSnapshot:
    if listing.is_dropped:
        raise being_dropped(store.url)
    if listing.is_empty:
        raise TableNotFoundError(
            f"There is no table at {store.url}: no transaction log found.", path=store.url
        )
    listing = without_strangers(reader, listing)
    until = listing.newest if version is None else version
    if version is not None and not 0 <= version <= listing.newest:
        raise version_not_found(store.url, listing, version)
    search = BaseSearch()
    for base in reader.bases(listing, until=until, search=search):
        missing = listing.missing(base.header.version, until)
        if not missing and descends(reader, base, listing, search):
            return _replay(store, reader, listing, base, until)
    if not last_try:
        raise LogMovedError
    if version is not None:
        raise version_not_found(store.url, listing, version)
    if search.failures:
        raise search.failures[0]
    raise _gap(store.url, missing)


def _replay(
    store: Store, reader: BaseReader, listing: LogListing, base: Base, until: int
) -> LoadedSnapshot:
    version_files = [(v, listing.versions[v]) for v in range(base.header.version + 1, until + 1)]
    check_readable(base.header.protocol, path=store.url)
    try:
        snapshot = replay(base, reader.versions.read(version_files))
    except NotFoundError as error:
        raise LogMovedError from error
    check_readable(snapshot.header.protocol, path=store.url)
    if snapshot.header.metadata is None:
        raise CorruptTableError(
            f"The log of {store.url} holds no metadata up to version {until}.",
            hint="Restore version 0 from a backup, or rebuild the log with Table.repair(path).",
            path=store.url,
            version=until,
        )
    _check_metadata(store, snapshot)
    return LoadedSnapshot(snapshot, _files(listing, snapshot))


def _check_metadata(store: Store, snapshot: Snapshot) -> None:
    try:
        check_recorded(snapshot.metadata.schema_string, snapshot.metadata.partition_columns or ())
    except CorruptTableError as error:
        where = f"version {snapshot.version} of {store.url}"
        context = {**error.context, "path": store.url, "version": snapshot.version}
        hint = "Open an older version by number, or run Table.repair()."
        raise CorruptTableError(f"{error.message} ({where})", hint=hint, **context) from error


def _files(listing: LogListing, snapshot: Snapshot) -> dict[int, ObjectInfo | None]:
    first = max(snapshot.base.header.version, 0)
    return {version: _file(listing, version) for version in range(first, snapshot.version + 1)}


def _file(listing: LogListing, version: int) -> ObjectInfo | None:
    return listing.versions.get(version) or listing.states.get(version)


def readable_versions(listing: LogListing) -> list[int]:
    """Return the versions that the files of a complete listing can reconstruct."""
    starts = {*listing.states, *listing.legacy_checkpoints}
    readable: list[int] = []
    # Only what has a file can be reached; the numbers between may be more than anybody can count.
    for version in sorted({*listing.versions, *starts}):
        continues = version in listing.versions and (
            version == 0 or (bool(readable) and readable[-1] == version - 1)
        )
        if continues or version in starts:
            readable.append(version)
    return readable


def version_not_found(url: str, listing: LogListing, version: int) -> VersionNotFoundError:
    """Return the error for a version that does not, or no longer, exist."""
    readable = readable_versions(listing)
    first, last = (readable[0], readable[-1]) if readable else (None, None)
    if version > listing.newest:
        what = "does not exist yet"
    else:
        what = "is not in the log any more"
    if version < 0:
        what = "does not exist"
    return VersionNotFoundError(
        f"Version {version} of {url} {what}.",
        hint=f"Versions {first} to {last} can be read." if readable else None,
        path=url,
        version=version,
        available=[first, last],
    )


def _gap(url: str, missing: list[int]) -> LogGapError:
    first = missing[0]
    if first:
        before = f"open version {first - 1}, the last before the hole, by number, "
    else:
        before = ""
    missing_file = log_files.version_path(first)
    return LogGapError(
        f"Version {first} of {url} is missing from its log below a higher version ({missing_file}).",
        hint=f"Restore the file from a backup, {before}or run Table.repair(path): it keeps every other version.",
        path=url,
        version=first,
        missing=missing,
    )
