"""When each split was part of the table, as far as the log still tells.

What is said of splits holds for the files of their deletion vectors too. A split must be kept while any version that was
current within the retention period has it. So what counts for a removed split is not how old it is but when it was removed:
the time of the version that did it, by the store's clock. Where the log has holes (it was truncated, or another engine
wrote states only), a split that is in no version before a hole and in none after it may have been removed as late as the
first version after the hole.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from indextables.errors import CorruptTableError, NotFoundError, VersionNotFoundError
from indextables.log.log_files import LogListing, list_log
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import AddAction, RemoveAction
from indextables.model.deletion_vector import REACHED_COLUMNS, listed_paths, vector_path
from indextables.model.snapshot import CommittedVersion, Snapshot

_RESTARTS = 5


class Ending(Struct, frozen=True):
    """The version that removed a split, and when; no time if the store does not say."""

    version: int
    at_ms: int | None


class Timeline(Struct, frozen=True):
    """The splits that are live now, how the others ended, and until when one that left no trace may have been live."""

    live: frozenset[str]
    ended: Mapping[str, Ending]
    untraced: Ending | None = None


def timeline(log: TransactionLog, newest: Snapshot) -> Timeline:
    """What the log tells up to a snapshot. A log that is cleaned while it is read is read again."""
    for _ in range(_RESTARTS):
        try:
            return _timeline(log, newest)
        except NotFoundError:
            continue
    return _timeline(log, newest)


def _timeline(log: TransactionLog, newest: Snapshot) -> Timeline:
    listing = list_log(log.store)
    versions = sorted(
        v for v in {*listing.versions, *listing.states, *listing.legacy_checkpoints} if v <= newest.version
    )
    read = log.reader.read([(v, listing.versions[v]) for v in versions if v in listing.versions])
    walk = _TimelineWalk(log, listing, {version.version: version for version in read})
    for version in versions:
        walk.step(version)
    live = listed_paths(newest.files(columns=REACHED_COLUMNS))
    return Timeline(live, {path: end for path, end in walk.ended.items() if path not in live}, walk.untraced)


class _TimelineWalk:
    """A walk through the versions of the log, oldest first."""

    def __init__(self, log: TransactionLog, listing: LogListing, versions: Mapping[int, CommittedVersion]) -> None:
        self.ended: dict[str, Ending] = {}
        self.untraced: Ending | None = None
        self._log = log
        self._listing = listing
        self._versions = versions
        self._live: set[str] = set()
        self._vectors: dict[str, str] = {}
        """The file of each split's deletion vector; several splits may share one."""
        self._at = -1

    def step(self, version: int) -> None:
        """Go on to a version: by its own actions if it follows the last, else by what is known of it as a whole."""
        if version in self._versions and version == self._at + 1:
            self._apply(self._versions[version])
        elif not self._jump(version):
            return
        self._at = version

    def _apply(self, version: CommittedVersion) -> None:
        before = set(self._vectors.values())
        for action in version.actions:
            if isinstance(action, AddAction):
                self._live.add(action.path)
                self.ended.pop(action.path, None)
                self._vectors.pop(action.path, None)
                if (vector := vector_path(action.deletion_vector)) is not None:
                    self._vectors[action.path] = vector
            elif isinstance(action, RemoveAction):
                self._live.discard(action.path)
                self._vectors.pop(action.path, None)
                self.ended[action.path] = self._ending(version.version)
        self._follow_vectors(before, version.version)

    def _follow_vectors(self, before: set[str], version: int) -> None:
        """End the vector files that a version has left without a split."""
        now = set(self._vectors.values())
        self.ended |= dict.fromkeys(before - now, self._ending(version)) if before - now else {}
        for path in now - before:
            self.ended.pop(path, None)

    def _jump(self, version: int) -> bool:
        """Over a hole in the log; False if the version cannot be read, which makes the hole larger."""
        try:
            files = self._log.at_version(version).files(columns=REACHED_COLUMNS)
        except (VersionNotFoundError, CorruptTableError):
            return False
        paths, before = set(files.column("path").to_pylist()), set(self._vectors.values())
        self.ended |= dict.fromkeys(self._live - paths, self._ending(version))
        self._live = paths
        vectors = zip(files.column("path").to_pylist(), files.column("deletion_vector").to_pylist(), strict=True)
        self._vectors = {path: place for path, text in vectors if (place := vector_path(text)) is not None}
        self._follow_vectors(before, version)
        self.untraced = self._ending(version)
        return True

    def _ending(self, version: int) -> Ending:
        """The time is the store's, not the writer's: a clock that is behind must not make a removal look older."""
        listing = self._listing
        info = listing.versions.get(version) or listing.states.get(version) or listing.legacy_checkpoints[version]
        return Ending(version, info.last_modified_ms)
