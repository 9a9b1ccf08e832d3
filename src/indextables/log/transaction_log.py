"""The transaction log of one table: the door through which everything above reads and commits."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from indextables.config.log import CacheSettings, LogReadSettings, RetrySettings, VersionFileSettings
from indextables.errors import VersionNotFoundError
from indextables.log import replay as reading
from indextables.log.cache import CacheStats, LogCache
from indextables.log.commit import Committed, Committer, Proposal
from indextables.log.listing import list_log
from indextables.log.replay import LoadedSnapshot
from indextables.log.version_reader import VersionReader
from indextables.model.snapshot import CommittedVersion, Snapshot
from indextables.storage.store import Store

PROCESS_CACHE = LogCache(CacheSettings().max_bytes)


@dataclass(frozen=True)
class LogSettings:
    """The settings of a log, together."""

    read: LogReadSettings = LogReadSettings()
    retry: RetrySettings = RetrySettings()
    cache: CacheSettings = CacheSettings()
    files: VersionFileSettings = VersionFileSettings()


@dataclass
class TransactionLog:
    """Reads and commits the versions of one table. Clock, ids and randomness can be given for tests."""

    store: Store
    settings: LogSettings = LogSettings()
    cache: LogCache = PROCESS_CACHE
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    new_id: Callable[[], str] = lambda: str(uuid.uuid4())
    rng: random.Random = field(default_factory=random.Random)
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        self.cache.max_bytes = max(self.cache.max_bytes, self.settings.cache.max_bytes)
        remembered = self.cache if self.settings.cache.enabled else None
        self.reader = VersionReader(self.store, remembered, self.settings.read)

    def newest(self, *, max_staleness_seconds: float | None = None) -> Snapshot:
        """The newest version. One listing tells whether the remembered snapshot still is it.

        Within `max_staleness_seconds` (by default the setting `transaction.cache.expirationSeconds`, 0) of the last look,
        the remembered snapshot is returned without asking the store.
        """
        known = self._remembered()
        if known is None:
            return self.reload()
        loaded, looked_ms = known
        patience = self.settings.cache.expiration_seconds if max_staleness_seconds is None else max_staleness_seconds
        if patience > 0 and self.now_ms() - looked_ms < patience * 1000:
            return loaded.snapshot
        return self._remember(reading.advance(self.store, self.reader, loaded))

    def reload(self) -> Snapshot:
        """The newest version, read from the start, whatever is remembered."""
        return self._remember(reading.load(self.store, self.reader))

    def at_version(self, version: int) -> Snapshot:
        """An older version by its number."""
        return reading.load(self.store, self.reader, version=version).snapshot

    def since(self, after: int, until: int) -> Sequence[CommittedVersion]:
        """The versions in (after, until]; VersionNotFoundError if the log no longer holds them all."""
        listing = list_log(self.store, first_version=after + 1)
        missing = listing.missing(after, until)
        if missing:
            raise VersionNotFoundError(f"Version {missing[0]} of {self.store.url} is not in the log any more.")
        return self.reader.read([(v, listing.versions[v]) for v in range(after + 1, until + 1)])

    def commit(self, read: Snapshot, proposal: Proposal, *, txn_id: str | None = None) -> Committed:
        """Commit a proposal on the newest snapshot (see `log/commit.py`)."""
        committer = Committer(
            store=self.store,
            reader=self.reader,
            newest=self.newest,
            reload=self.reload,
            since=self.since,
            retry=self.settings.retry,
            files=self.settings.files,
            now_ms=self.now_ms,
            rng=self.rng,
            sleep=self.sleep,
        )
        committed = committer.commit(read, proposal, txn_id=txn_id or self.new_id())
        if committed.written is not None:
            self._remember_own(committed.written)
        return committed

    def cache_stats(self) -> CacheStats:
        """Hits, misses and what is held of this table."""
        return self.cache.stats(self.store.url)

    def invalidate_cache(self) -> int:
        """Forget everything remembered of this table."""
        return self.cache.invalidate(self.store.url)

    def _remembered(self) -> tuple[LoadedSnapshot, int] | None:
        if not self.settings.cache.enabled:
            return None
        found: tuple[LoadedSnapshot, int] | None = self.cache.get("snapshots", self.store.url, "newest")
        return found

    def _remember_own(self, version: CommittedVersion) -> None:
        known = self._remembered()
        if known is not None and known[0].snapshot.version == version.version - 1 - len(known[0].own):
            self._remember(replace(known[0], own=(*known[0].own, version)))

    def _remember(self, loaded: LoadedSnapshot) -> Snapshot:
        if self.settings.cache.enabled:
            cost = 1_000 * (len(loaded.files) + 1)
            self.cache.put("snapshots", self.store.url, "newest", (loaded, self.now_ms()), cost_bytes=cost)
        return loaded.snapshot
