"""Read version files, from the cache or in parallel from the store; and the store's clock.

Ages and the order of times are measured by the store's clock. Only a newly written file shows the
store's time: a cleaner writes one (`_transaction_log/_clock`) before it deletes anything. If both
clocks differ by more than five minutes it deletes nothing and reports it, because it cannot know
which clock is wrong.

The time in a version is bounded by the time of its file: a writer with a clock in the future dates
its commits no later than the store received them, and does not move later ones.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Struct

from indextables.config.log import LogReadSettings
from indextables.errors import (
    BadFileError,
    InvalidInputError,
    NotFoundError,
    RefusedError,
    UnavailableError,
)
from indextables.log import log_files
from indextables.log.cache import LogCache
from indextables.model.actions import AddAction, CommitInfo, LogAction, RemoveAction, SkipAction
from indextables.model.protocol import check_readable
from indextables.model.snapshot import CommittedVersion
from indextables.pools import VERSIONS
from indextables.storage.location import inside
from indextables.storage.store import ObjectInfo, Store
from indextables.wire import version_file

MOST_SKEW_MS = 5 * 60_000
"""Maximum difference between the clocks of this machine and the store before a cleaner stops."""
GRAIN_MS = 1_000
"""Resolution of store times: a recorded time may be later than its file's by this much."""


class StoreClock(Struct, frozen=True):
    """The store's clock. `now_ms` is this machine's clock."""

    store: Store
    now_ms: Callable[[], int]

    def tell(self) -> int:
        """Return the store's time (ms since 1970). Raises RefusedError if this machine's clock is
        far off.

        A store without times is assumed to agree: no file in it has an age, so none expires.
        """
        before_ms = self.now_ms()
        self.store.put(log_files.CLOCK, b"")
        after_ms = self.now_ms()
        written = self.store.head(log_files.CLOCK)
        if written is None or written.last_modified_ms is None:
            return before_ms
        self._check(before_ms, after_ms, written.last_modified_ms)
        return written.last_modified_ms

    def _check(self, before_ms: int, after_ms: int, store_ms: int) -> None:
        """Compare the file's time with this machine's clock before and after the write, so that a
        slow request is not skew.
        """
        ahead_ms, behind_ms = before_ms - store_ms, store_ms - after_ms
        if max(ahead_ms, behind_ms) <= MOST_SKEW_MS:
            return
        way = "ahead of" if ahead_ms > 0 else "behind"
        raise RefusedError(
            f"The clock of this machine is {_span(max(ahead_ms, behind_ms))} {way} that of {self.store.url}: nothing was "
            "deleted, because ages cannot be determined.",
            hint="Set this machine's clock (or the store's), and run it again.",
            path=self.store.url,
            skew_ms=ahead_ms if ahead_ms > 0 else -behind_ms,
        )


def bounded_time(recorded_ms: int | None, file_ms: int | None) -> int:
    """Return the time that a file records, but no later than the store received it; the store's if
    it records none.
    """
    if recorded_ms is None or not 0 < recorded_ms <= _LAST_MS:
        return file_ms or 0
    if file_ms is None:
        return recorded_ms
    return min(recorded_ms, file_ms + GRAIN_MS)


_LAST_MS = 253_402_300_799_999
"""The end of the year 9999, the last that the calendar supports. Later values are not times."""


def _span(ms: int) -> str:
    minutes = ms / 60_000
    if minutes < 120:
        return f"{minutes:.0f} minutes"
    if minutes < 48 * 60:
        return f"{minutes / 60:.1f} hours"
    return f"{minutes / 1440:.1f} days"


_PARSED_SIZE = 12
"""Approximate ratio of a parsed version's memory to its compressed size, for the cache limit."""


class VersionReader(Struct, frozen=True):
    """Reads the version files of one table."""

    store: Store
    cache: LogCache | None
    settings: LogReadSettings

    def read(self, files: Sequence[tuple[int, ObjectInfo]]) -> list[CommittedVersion]:
        """Read these versions in the given order. A deleted file is NotFoundError."""
        cached = [self._from_cache(version, info) for version, info in files]
        missing = [pair for pair, version in zip(files, cached, strict=True) if version is None]
        try:
            fetched = iter(self._fetch_all(missing))
        except BadFileError:
            self._refuse_newer_protocols(files)
            raise
        return [version if version is not None else next(fetched) for version in cached]

    def _refuse_newer_protocols(self, files: Sequence[tuple[int, ObjectInfo]]) -> None:
        """Raise UnsupportedError if one of these versions requires a newer release, for which the
        files may be valid.
        """
        for _, info in files:
            for protocol in version_file.protocols_in(self.store.get(info.path), path=info.path):
                check_readable(protocol, path=self.store.url)

    def read_one(self, version: int) -> CommittedVersion | None:
        """Read one version that no listing contained yet; None if it does not exist."""
        try:
            data = self.store.get(log_files.version_path(version))
        except NotFoundError:
            return None
        return decode_version(self.store.url, version, data, file_ms=None)

    def is_file_of(self, version: CommittedVersion, info: ObjectInfo | None = None) -> bool:
        """Return whether the file of a version is still the one that was read or written, by a
        listing or by its bytes.

        After a log was replaced by an older copy, other writers have used the same numbers, and
        file sizes may be equal.
        """
        if info is not None and (info.size != version.file_bytes or info.tag == version.file_md5):
            return info.size == version.file_bytes
        try:
            return (
                md5_of(self.store.get(log_files.version_path(version.version))) == version.file_md5
            )
        except NotFoundError:
            return False

    def remember(self, version: CommittedVersion, info: ObjectInfo) -> None:
        """Cache a version whose file was listed: one that was read, or that this process wrote."""
        if self.cache is not None:
            self.cache.put(
                "versions", self.store.url, info, version, cost_bytes=info.size * _PARSED_SIZE
            )

    def _from_cache(self, version: int, info: ObjectInfo) -> CommittedVersion | None:
        if self.cache:
            cached = self.cache.get("versions", self.store.url, info)
        else:
            cached = None
        if isinstance(cached, CommittedVersion) and cached.version == version:
            return cached
        return None

    def _fetch_all(self, files: Sequence[tuple[int, ObjectInfo]]) -> list[CommittedVersion]:
        # Local files are read fastest one after the other, however many: threads only contend for
        # the interpreter (600 files: 15 ms of CPU one by one, 28 by eight threads).
        if (
            not files
            or self.settings.parallelism < 2
            or self.store.local_path(log_files.LOG) is not None
        ):
            return list(self._one_by_one(files))
        try:
            fetched = VERSIONS.each(
                lambda pair: self._fetch(*pair),
                files,
                parallelism=self.settings.parallelism,
                timeout_s=self.settings.timeout_seconds,
            )
            return list(fetched)
        except TimeoutError as error:
            raise self._too_slow(len(files)) from error

    def _one_by_one(self, files: Sequence[tuple[int, ObjectInfo]]) -> Iterator[CommittedVersion]:
        deadline = time.monotonic() + self.settings.timeout_seconds
        for version, info in files:
            yield self._fetch(version, info)
            if time.monotonic() > deadline:
                raise self._too_slow(len(files))

    def _too_slow(self, count: int) -> UnavailableError:
        return UnavailableError(
            f"Reading {count} version files of {self.store.url} took longer than {self.settings.timeout_seconds} s.",
            hint="Raise checkpoint.read.timeoutSeconds or checkpoint.parallelism, or checkpoint the table.",
            path=self.store.url,
        )

    def _fetch(self, version: int, info: ObjectInfo) -> CommittedVersion:
        data = self.store.get(info.path)
        read = decode_version(self.store.url, version, data, file_ms=info.last_modified_ms)
        self.remember(read, info)
        return read


def decode_version(
    root: str, version: int, data: bytes, *, file_ms: int | None
) -> CommittedVersion:
    """Decode a version file. The version's time is that of its commitInfo, but no later than the
    file's.
    """
    path = log_files.version_path(version)
    try:
        actions = tuple(_relative(root, action) for action in version_file.decode(data, path=path))
    except InvalidInputError as error:
        raise BadFileError(
            f"{path} names a file that is not the table's: {error.message}", path=path
        ) from error
    info = next((a for a in actions if isinstance(a, CommitInfo)), None)
    timestamp_ms = bounded_time(info.timestamp if info is not None else None, file_ms)
    return CommittedVersion(version, timestamp_ms, actions, len(data), md5_of(data))


def md5_of(data: bytes) -> str:
    """Return the MD5 of a version file, which S3 calls the object's tag, to tell files of equal
    size apart.
    """
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _relative(root: str, action: LogAction) -> LogAction:
    """Return the action with its path relative to the table: older writers recorded absolute ones."""
    if not isinstance(action, AddAction | RemoveAction | SkipAction):
        return action
    if _is_plainly_inside(action.path):
        return action
    path = inside(root, action.path)
    if path == action.path:
        return action
    return msgspec.structs.replace(action, path=path)


def _is_plainly_inside(path: str) -> bool:
    """Return whether a path is obviously relative and harmless; other paths are checked in detail."""
    irregular = "//" in path or "/." in path or ":" in path or path[-1:] == "/"
    return not irregular and path[:1].isalnum() and path.isprintable()
