"""The statements about what a process remembers of logs, and what a machine keeps of splits."""

from __future__ import annotations

import socket
import time
from typing import Any

import pyarrow as pa

from indextables import config
from indextables.commands.results import rows
from indextables.commands.session import Session
from indextables.commands.values import DescribeDiskCache, FlushDiskCache, InvalidateCache, PrewarmCache
from indextables.config.splits import SplitCacheSettings
from indextables.log.cache import CacheStats
from indextables.log.transaction_log import PROCESS_CACHE
from indextables.splits.cache import SplitCache
from indextables.table.handle import open_log


def describe_disk_cache(command: DescribeDiskCache, session: Session) -> pa.Table:
    """DESCRIBE INDEXTABLES DISK CACHE, of this machine; hits and misses are this process's."""
    usage = _disk_cache(session).usage()
    asked = usage.hits + usage.misses
    figures = {"bytes": usage.bytes, "splits": usage.splits, "hits": usage.hits, "misses": usage.misses}
    return rows(command, [{**_here(), **figures, "hit_rate": usage.hits / asked if asked else 0.0}])


def flush_disk_cache(command: FlushDiskCache, session: Session) -> pa.Table:
    """FLUSH INDEXTABLES DISK CACHE, of this machine."""
    cache = _disk_cache(session)
    splits = cache.usage().splits
    return rows(command, [{**_here(), "bytes_freed": cache.clear(), "splits_freed": splits}])


def prewarm_cache(command: PrewarmCache, session: Session) -> pa.Table:
    """PREWARM INDEXTABLES CACHE, on this machine."""
    started = time.monotonic()
    done = session.open(command.table).prewarm(columns=command.fields, where=command.where)
    duration_ms = round((time.monotonic() - started) * 1000)
    figures = {"splits_prewarmed": done.splits, "bytes": done.bytes, "duration_ms": duration_ms}
    return rows(command, [{"host": socket.gethostname(), **figures}])


def invalidate_cache(command: InvalidateCache, session: Session) -> pa.Table:
    """INVALIDATE INDEXTABLES TRANSACTION LOG CACHE. Asks nothing of the store: an unreadable table can be forgotten."""
    if command.table is None:
        before, gone, shown = PROCESS_CACHE.stats(), PROCESS_CACHE.invalidate(), "all tables"
    else:
        log = open_log(session.path(command.table), session.options)
        before, gone, shown = log.cache_stats(), log.invalidate_cache(), log.store.url
    return rows(command, [{"table_path": shown, "result": f"{gone} entries forgotten", **_figures(before)}])


def _disk_cache(session: Session) -> SplitCache:
    return SplitCache.of(config.resolve(options=session.options).group(SplitCacheSettings))


def _here() -> dict[str, Any]:
    return {"executor": "driver", "host": socket.gethostname()}


def _figures(before: CacheStats) -> dict[str, Any]:
    hits, misses = sum(before.hits.values()), sum(before.misses.values())
    rate = 100 * hits / (hits + misses) if hits + misses else 0.0
    return {"cache_hits_before": hits, "cache_misses_before": misses, "hit_rate_before": f"{rate:.1f} %"}
