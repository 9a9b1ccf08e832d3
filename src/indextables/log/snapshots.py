"""Snapshots of one table: the newest version, older versions, and the newest one that this process
has cached.

A snapshot is cached with the time of its last listing and with the number of commits that this
application had made to the table by then (`log/own_commits.py`). The cached snapshot follows the
commits of this process without a listing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cached_property, partial

from msgspec import Struct
from msgspec.structs import replace

from indextables.errors import NotFoundError, VersionNotFoundError
from indextables.log import replay as reading
from indextables.log.cache import CacheStats, bounds_of
from indextables.log.checkpoint.state_files import StateFiles
from indextables.log.checkpoint.state_reader import BaseReader
from indextables.log.checkpoint.verifier import is_of_another_engine
from indextables.log.context import LogContext
from indextables.log.log_files import LOG, list_log
from indextables.log.own_commits import OWN_COMMITS, CommitMark, table_key
from indextables.log.replay import LoadedSnapshot
from indextables.log.versions import GRAIN_MS, VersionReader
from indextables.metrics import METRICS
from indextables.model.conflicts import another_table, is_same_table
from indextables.model.protocol import check_writable, is_shared
from indextables.model.snapshot import CommittedVersion, Snapshot
from indextables.pools import LISTING
from indextables.storage.store import ObjectInfo

logger = logging.getLogger(__name__)


class CachedSnapshot(Struct, frozen=True):
    """A cached snapshot, when it was last compared with the store, and which of our commits it
    contains.
    """

    loaded: LoadedSnapshot
    listed_ms: int
    mark: CommitMark

    @property
    def snapshot(self) -> Snapshot:
        """The newest version that this process knows."""
        return self.loaded.latest or self.loaded.snapshot

    def followed_by(
        self, snapshot: Snapshot, versions: Sequence[CommittedVersion], now_ms: int
    ) -> CachedSnapshot:
        """Return the same with later versions that were read or written by name at this time."""
        return replace(self, loaded=self.loaded.followed_by(snapshot, versions), listed_ms=now_ms)

    def with_own_commit(self, version: int, mark: CommitMark) -> CachedSnapshot:
        """Return the same after a commit of this process. If it lacks a commit it keeps its old
        mark and is outdated.
        """
        is_complete = self.snapshot.version >= version and mark == self.mark.following
        if is_complete:
            return replace(self, mark=mark)
        return self


class Snapshots:
    """Reads and caches the snapshots of one table.

    The table is identified by its id once it was read (rule R15): from then on another table at its
    path is a ConflictError.
    """

    def __init__(self, context: LogContext, *, table_id: str = "") -> None:
        settings, cache = context.settings, context.cache
        cache.max_bytes = max(cache.max_bytes, settings.cache.max_bytes)
        bounds = bounds_of(settings.cache)
        if bounds is not None:
            cache.set_bounds(bounds)
        self.context = context
        self.reader = VersionReader(
            context.store, cache if settings.cache.enabled else None, settings.read
        )
        self.bases = BaseReader(self.reader, settings.state_read, not settings.checkpoint.enabled)
        self.table_id = table_id
        self._read: LoadedSnapshot | None = None

    def newest(self, *, max_staleness_seconds: float | None = None) -> Snapshot:
        """Return the newest version. One listing shows whether the cached snapshot still is it.

        Within `max_staleness_seconds` (by default the setting
        `transaction.cache.expirationSeconds`, 0) of the last listing, the cached snapshot is
        returned without a request, unless this application has committed to the table since. In the
        second half of that time it is refreshed in the background, so that frequent readers never
        wait for the listing.
        """
        context, cached = self.context, self.find_cached()
        if cached is None:
            snapshot = self.reload()
            self._count_reads(None, snapshot, listed=True)
            return snapshot
        loaded = cached.loaded
        patience_s = max_staleness_seconds
        if patience_s is None:
            patience_s = context.settings.cache.expiration_seconds
        patience_ms, age_ms = patience_s * 1000, context.now_ms() - cached.listed_ms
        if patience_ms > 0 and age_ms < patience_ms and cached.mark == OWN_COMMITS.mark(self._key):
            if age_ms * 2 >= patience_ms:
                refresh, most = (
                    partial(self.refresh, cached),
                    context.settings.cache.refresh_parallelism,
                )
                LISTING.submit_once(context.store.url, refresh, parallelism=most)
            self._count_reads(loaded.snapshot, loaded.snapshot, listed=False)
            self._check_table(loaded)
            return cached.snapshot
        mark = OWN_COMMITS.mark(self._key)
        snapshot = self._remember(reading.advance(context.store, self.bases, loaded), mark)
        self._count_reads(loaded.snapshot, snapshot, listed=True)
        return snapshot

    def fresh(self) -> Snapshot:
        """Return the newest version as the store has it now, whatever staleness the settings allow."""
        return self.newest(max_staleness_seconds=0)

    def newest_writable(self) -> Snapshot:
        """Return the newest version in the store; UnsupportedError if this release must not change
        anything of it.
        """
        snapshot = self.fresh()
        check_writable(snapshot.header.protocol, path=self.context.store.url)
        return snapshot

    def reload(self) -> Snapshot:
        """Read the newest version from the start, whatever is cached."""
        context = self.context
        url, began, mark = context.store.url, context.monotonic(), OWN_COMMITS.mark(self._key)
        loaded = reading.load(context.store, self.bases)
        base, seconds = loaded.snapshot.base, context.monotonic() - began
        kind = "versions"
        if base.header.version >= 0:
            if isinstance(base.source, StateFiles):
                kind = "avro-state"
            else:
                kind = "checkpoint"
        METRICS.observe("load_seconds", seconds, url, kind)
        text = "loaded version %d of %s from %s (version %d) in %.1f ms"
        logger.info(text, loaded.snapshot.version, url, kind, base.header.version, seconds * 1000)
        return self._remember(loaded, mark)

    def at_version(self, version: int) -> Snapshot:
        """Read an older version by its number."""
        return reading.load(self.context.store, self.bases, version=version).snapshot

    def since(self, after: int, until: int) -> Sequence[CommittedVersion]:
        """Read the versions in (after, until]; VersionNotFoundError if the log no longer holds them
        all.
        """
        url = self.context.store.url
        listing = list_log(self.context.store, first_version=after + 1)
        missing = listing.missing(after, until)
        if missing:
            raise VersionNotFoundError(f"Version {missing[0]} of {url} is not in the log any more.")
        try:
            return self.reader.read([(v, listing.versions[v]) for v in range(after + 1, until + 1)])
        except NotFoundError as error:
            message = f"The versions {after + 1} to {until} of {url} were cleaned away while they were read."
            raise VersionNotFoundError(message) from error

    def read_as_listed(self, snapshot: Snapshot) -> Snapshot:
        """Return the same version as other readers see it, if it is the newest: dated no later than
        a listing says.
        """
        newest = self.newest_writable()
        if newest.version == snapshot.version:
            return newest
        return snapshot

    def listed_file(self, version: int) -> ObjectInfo | None:
        """Return the file from which a version of the newest snapshot was read, as a listing showed
        it.
        """
        if self._read is not None:
            return self._read.files.get(version)
        return None

    def find_followed(self) -> tuple[Snapshot, Sequence[CommittedVersion]] | None:
        """Return the cached snapshot and its last versions that no listing has shown; None where
        only a listing can tell.
        """
        cached = self.find_cached()
        if cached is None:
            return None
        self._check_table(cached.loaded)
        listed, own, snapshot = cached.loaded.snapshot, cached.loaded.own, cached.snapshot
        if is_shared(snapshot.header.protocol) or is_of_another_engine(snapshot.base):
            return None  # another engine may commit by a state, which only a listing shows
        if (
            snapshot.header.timestamp_ms
            > max(self.context.now_ms(), listed.header.timestamp_ms + len(own)) + GRAIN_MS
        ):
            return (
                None  # dated by a clock that was ahead: a listing says when the store received it
            )
        return snapshot, own

    def follow(self, snapshot: Snapshot, versions: Sequence[CommittedVersion]) -> None:
        """Check and cache a snapshot whose last versions were read by name, not from a listing."""
        reading.check_read(self.context.store, snapshot)
        cached = self.find_cached()
        if cached is not None:
            self._put(cached.followed_by(snapshot, versions, self.context.now_ms()))

    def count_own_commit(
        self, snapshot: Snapshot | None = None, written: CommittedVersion | None = None
    ) -> None:
        """Make every cached snapshot of the table out of date, in all processes of this
        application.

        Only the one of this log stays current: it continues with the version that was just written.
        """
        mark = OWN_COMMITS.add(self._key)
        cached = self.find_cached()
        if cached is None or snapshot is None or written is None:
            return
        followed = cached.followed_by(snapshot, [written], self.context.now_ms())
        self._put(followed.with_own_commit(snapshot.version, mark))

    def cache_stats(self) -> CacheStats:
        """Return hits, misses and what is held of this table."""
        return self.context.cache.stats(self.context.store.url)

    def invalidate_cache(self, kind: str | None = None) -> int:
        """Forget everything that is cached of this table, or one kind; return how many entries
        went.
        """
        return self.context.cache.invalidate(self.context.store.url, kind=kind)

    def find_cached(self) -> CachedSnapshot | None:
        """Return what the cache holds of this table at this place."""
        context = self.context
        if not context.settings.cache.enabled:
            return None
        cached: CachedSnapshot | None = context.cache.get(
            "snapshots", context.store.url, context.place
        )
        return cached

    def refresh(self, cached: CachedSnapshot) -> None:
        """Refresh the cached snapshot in the background. An error is logged; the next foreground
        read raises it.
        """
        context, mark = self.context, OWN_COMMITS.mark(self._key)
        try:
            loaded = reading.advance(context.store, self.bases, cached.loaded)
        except Exception as failure:  # noqa: BLE001 - no caller waits for this: the log is the only place to report it
            logger.warning(
                "refreshing the cached snapshot of %s failed: %s", context.store.url, failure
            )
            return
        cost, refreshed = (
            1_000 * (len(loaded.files) + 1),
            CachedSnapshot(loaded, context.now_ms(), mark),
        )
        # A snapshot that was cached in between is at least as new, and holds the commits of this
        # process: it stays.
        context.cache.put(
            "snapshots",
            context.store.url,
            context.place,
            refreshed,
            cost_bytes=cost,
            instead_of=cached,
        )

    def _count_reads(self, before: Snapshot | None, snapshot: Snapshot, *, listed: bool) -> None:
        if not self.context.settings.cache.enabled:
            return
        old, new = before.header if before is not None else None, snapshot.header
        hits = {
            "protocol": old is not None and old.protocol == new.protocol,
            "metadata": old is not None and old.metadata == new.metadata,
            "files": before is snapshot,
            "versions_list": not listed,
        }
        for kind, hit in hits.items():
            self.context.cache.count(kind, self.context.store.url, hit=hit)

    def _remember(self, loaded: LoadedSnapshot, mark: CommitMark) -> Snapshot:
        """Cache a read; `mark` was taken before the read began."""
        if self.context.settings.cache.enabled:
            self._put(CachedSnapshot(loaded, self.context.now_ms(), mark))
        else:
            self._check_table(loaded)
        return loaded.snapshot

    def _put(self, cached: CachedSnapshot) -> None:
        context = self.context
        self._check_table(cached.loaded)
        cost = 1_000 * (len(cached.loaded.files) + 1)
        context.cache.put("snapshots", context.store.url, context.place, cached, cost_bytes=cost)

    @cached_property
    def _key(self) -> str:
        return table_key(self.context.store.url, self.context.store.local_path(LOG))

    def _check_table(self, loaded: LoadedSnapshot) -> None:
        """Rule R15: raise ConflictError unless this is the table that was read before; then
        remember it as read.
        """
        table_id = loaded.snapshot.metadata.id
        if not is_same_table(self.table_id, table_id):
            raise another_table(self.context.store.url, self.table_id, table_id)
        self.table_id, self._read = table_id, loaded
