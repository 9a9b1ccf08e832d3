"""What a process remembers of logs: immutable files by their identity, and the newest snapshot of
each table.

Five kinds are called as the specification calls them, and have their figures whether or not
anything is held:

    protocol, metadata   of the newest snapshot; a hit if a read of the table did not have to load
    or change it files                its list of live files; a hit if nothing was committed since
    versions_list        which versions there are; a hit if the store was not asked (a stale answer
    was allowed) versions             version files by their identity

The others are what these are kept in: the newest snapshot of each table, states, manifests,
checkpoints of older forms.

A version file, a manifest or a state never changes, so it is kept by path, size, time of
modification and the store's tag: a table that was deleted and re-created at the same path is never
mistaken for the old one. The least recently used goes first.

A kind may have bounds of its own: how many entries of it are held, and for how long after they were
read.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from msgspec import Struct

from indextables.config.log import CacheSettings
from indextables.errors import InvalidInputError
from indextables.metrics import METRICS

_HELD_IN = {
    "protocol": ("snapshots", "states", "checkpoints"),
    "metadata": ("snapshots", "states", "checkpoints"),
    "files": ("snapshots", "manifests", "checkpoints"),
    "versions_list": ("snapshots",),
    "versions": ("versions",),
}
"""The specification's kinds, and the entries that must be removed to forget one of them."""
KINDS = (*_HELD_IN, "snapshots", "states", "manifests", "checkpoints", "reports")


class KindBounds(Struct, frozen=True):
    """Limits per kind of entry (count, time to live). 0 means unlimited. A kind of the
    specification limits the entries it is stored in.
    """

    max_entries: Mapping[str, int] = {}
    """For manifests, the number of tables that have some: those of one table are needed together.
    """
    max_age_s: Mapping[str, float] = {}

    def over(self, others: KindBounds) -> KindBounds:
        """Return these limits, completed by others for unlimited kinds."""
        return KindBounds(
            {**others.max_entries, **self.max_entries}, {**others.max_age_s, **self.max_age_s}
        )

    def ages(self) -> dict[str, float]:
        """Return the shortest time to live for each kind of entry."""
        ages: dict[str, float] = {}
        for kind, age in self.max_age_s.items():
            for held in _HELD_IN.get(kind, (kind,)) if age else ():
                ages[held] = min(age, ages.get(held, age))
        return ages

    def counts(self) -> dict[str, int]:
        """Return the maximum number of entries of each limited kind."""
        return {kind: most for kind, most in self.max_entries.items() if most}


def bounds_of(settings: CacheSettings) -> KindBounds | None:
    """Return the limits per kind in the settings, or None if there are none."""
    entries = {
        "versions": settings.version_capacity,
        "snapshots": settings.snapshot_capacity,
        "manifests": settings.file_list_capacity,
    }
    ages_ms = {
        "versions": settings.version_ttl_ms,
        "metadata": settings.metadata_ttl_ms,
        "files": settings.file_list_ttl_ms,
    }
    given = {kind: most for kind, most in entries.items() if most is not None}
    ages = {kind: ms / 1000 for kind, ms in ages_ms.items() if ms is not None}
    if given or ages:
        return KindBounds(given, ages)
    return None


class CacheStats(Struct, frozen=True):
    """Hits, misses and content per kind of entry."""

    hits: dict[str, int]
    misses: dict[str, int]
    entries: dict[str, int]
    held_bytes: int

    def hit_rate(self, kind: str) -> float:
        """Return the share of lookups of this kind answered from memory; 0 before the first."""
        hits, misses = self.hits.get(kind, 0), self.misses.get(kind, 0)
        if hits + misses:
            return hits / (hits + misses)
        return 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, one row per kind."""
        kinds = sorted({*_HELD_IN, *self.hits, *self.misses, *self.entries})
        return {
            "held_bytes": self.held_bytes,
            "kinds": {
                k: {
                    "hits": self.hits.get(k, 0),
                    "misses": self.misses.get(k, 0),
                    "entries": self.entries.get(k, 0),
                    "hit_rate": self.hit_rate(k),
                }
                for k in kinds
            },
        }


class LogCache:
    """A size-limited, thread-safe cache of immutable values. Keys are (kind, table, identity)."""

    def __init__(self, max_bytes: int, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`max_bytes` limits all kinds together; `monotonic` is the clock for the age of entries."""
        self.max_bytes = max_bytes
        self._monotonic = monotonic
        self._held: OrderedDict[tuple[str, str, Hashable], tuple[Any, int, float]] = OrderedDict()
        self._bytes = 0
        self._entries: Counter[str] = Counter()
        self._bounds = KindBounds()
        self._most: Mapping[str, int] = {}
        self._ages: Mapping[str, float] = {}
        self._sweep_at = 0.0
        self._hits: Counter[tuple[str, str]] = Counter()
        self._misses: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def get(self, kind: str, table: str, identity: Hashable) -> Any | None:
        """Return the cached value, or None."""
        key = (kind, table, identity)
        with self._lock:
            self._forget_expired()
            entry = self._held.get(key)
            if entry is not None and self._is_expired(key, self._monotonic()):
                self._forget(key)
                entry = None
            if entry is None:
                self._misses[kind, table] += 1
                return None
            self._hits[kind, table] += 1
            self._held.move_to_end(key)
            return entry[0]

    def count(self, kind: str, table: str, *, hit: bool) -> None:
        """Count a lookup of a kind that is stored within another."""
        with self._lock:
            (self._hits if hit else self._misses)[kind, table] += 1

    def put(
        self,
        kind: str,
        table: str,
        identity: Hashable,
        value: Any,
        *,
        cost_bytes: int,
        instead_of: Any | None = None,
    ) -> None:
        """Cache a value with its approximate size, only as a replacement of another value if that
        is given.
        """
        key = (kind, table, identity)
        with self._lock:
            self._forget_expired()
            before = self._held.get(key)
            if instead_of is not None and (before is None or before[0] is not instead_of):
                return
            self._forget(key)
            if cost_bytes > self.max_bytes:
                return
            # What takes the place of another builds upon it, and is as old: a snapshot that newer
            # versions were added to.
            self._held[key] = (
                value,
                cost_bytes,
                self._monotonic() if before is None else before[2],
            )
            self._bytes += cost_bytes
            self._entries[kind] += 1
            while self._bytes > self.max_bytes:
                self._forget(next(iter(self._held)))
            self._keep_most(kind)

    def set_bounds(self, bounds: KindBounds) -> None:
        """Set limits per kind, replacing earlier ones for these kinds."""
        with self._lock:
            self._bounds = bounds.over(self._bounds)
            self._most, self._ages = self._bounds.counts(), self._bounds.ages()
            self._sweep_at = 0.0
            for kind in self._most:
                self._keep_most(kind)

    def invalidate(self, table: str | None = None, *, kind: str | None = None) -> int:
        """Remove the entries of one or all tables, of one kind if it is given. Returns the number
        of removed entries.

        Entries that a kind is stored in are removed with it, so that the next read goes to the
        store.
        """
        if kind is not None and kind not in KINDS:
            raise InvalidInputError(
                f"The log cache has no kind {kind!r}.", hint=f"One of {', '.join(sorted(KINDS))}."
            )
        kinds = KINDS if kind is None else _HELD_IN.get(kind, (kind,))
        with self._lock:
            gone = [key for key in self._held if table in (None, key[1]) and key[0] in kinds]
            for key in gone:
                self._forget(key)
            return len(gone)

    def stats(self, table: str | None = None) -> CacheStats:
        """Return the figures since the process began, of one table if it is given."""
        with self._lock:
            self._sweep_at = 0.0
            self._forget_expired()
            held = {
                key: cost for key, (_, cost, _) in self._held.items() if table in (None, key[1])
            }
            entries = Counter(kind for kind, _, _ in held)
            hits, misses = _of_table(self._hits, table), _of_table(self._misses, table)
            return CacheStats(hits, misses, dict(entries), sum(held.values()))

    def tables(self) -> list[str]:
        """Return the tables that were looked up since the process began."""
        with self._lock:
            return sorted({table for _, table in (*self._hits, *self._misses)})

    def figures(self) -> list[tuple[str, tuple[str, ...], float]]:
        """Return hits and misses by table and kind, for the metrics of the process."""
        with self._lock:
            counts = (
                ("log_cache_hits_total", dict(self._hits)),
                ("log_cache_misses_total", dict(self._misses)),
            )
        return [
            (name, (table, kind), n)
            for name, counter in counts
            for (kind, table), n in counter.items()
        ]

    def renew_lock(self) -> None:
        """Replace the lock in a forked child and clear the cache, because a thread of the parent
        may hold the lock.
        """
        self._lock = threading.Lock()
        self._held.clear()
        self._entries.clear()
        self._bytes = 0

    def _keep_most(self, kind: str) -> None:
        """Remove the least recently used entries of a kind above its limit."""
        most = self._most.get(kind)
        if most is None or self._entries[kind] <= most:
            return
        held = [key for key in self._held if key[0] == kind]
        if kind == "manifests":
            recent = list(dict.fromkeys(key[1] for key in reversed(held)))
            old = [key for key in held if key[1] in recent[most:]]
        else:
            old = held[: len(held) - most]
        for key in old:
            self._forget(key)

    def _is_expired(self, key: tuple[str, str, Hashable], now: float) -> bool:
        age = self._ages.get(key[0])
        return age is not None and now - self._held[key][2] >= age

    def _forget_expired(self) -> None:
        """Remove every expired entry, whether it is looked up again or not; at most twice in the
        shortest time to live.
        """
        now = self._monotonic()
        if not self._ages or now < self._sweep_at:
            return
        self._sweep_at = now + min(self._ages.values()) / 2
        for key in [key for key in self._held if self._is_expired(key, now)]:
            self._forget(key)

    def _forget(self, key: tuple[str, str, Hashable]) -> None:
        entry = self._held.pop(key, None)
        if entry is not None:
            self._bytes -= entry[1]
            self._entries[key[0]] -= 1


def _of_table(counts: Counter[tuple[str, str]], table: str | None) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for (kind, owner), count in counts.items():
        if table in (None, owner):
            sums[kind] += count
    return dict(sums)


PROCESS_CACHE = LogCache(0)
"""The cache of this process. Its bound is the highest that a log of this process was opened with."""
os.register_at_fork(after_in_child=PROCESS_CACHE.renew_lock)
METRICS.collectors.append(PROCESS_CACHE.figures)
