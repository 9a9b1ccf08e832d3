"""The statements about what a process remembers of logs, and what a machine keeps of splits."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from indextables import config
from indextables.commands.cursor import StatementCursor, TableReference
from indextables.commands.statement import Clauses, Command, Session, clause, flag, row_schema
from indextables.config.splits import SplitCacheSettings
from indextables.errors import InvalidInputError
from indextables.log.cache import CacheStats
from indextables.log.transaction_log import PROCESS_CACHE
from indextables.splits.read.cache import SplitCache
from indextables.table.handle import open_log


@dataclass(frozen=True)
class DescribeDiskCache(Command):
    """What the local cache of splits holds."""

    leads: ClassVar = {"DESCRIBE INDEXTABLES DISK CACHE": {}}
    columns: ClassVar[pa.Schema] = row_schema("executor s, host s, bytes l, splits l, hits l, misses l, hit_rate d")

    def words(self) -> Iterator[str | None]:
        yield "DESCRIBE INDEXTABLES DISK CACHE"

    def run(self, session: Session) -> pa.Table:
        """Of this machine; hits and misses are this process's."""
        usage = _disk_cache(session).usage()
        reads = usage.hits + usage.misses
        figures = {"bytes": usage.bytes, "splits": usage.splits, "hits": usage.hits, "misses": usage.misses}
        return self.rows([{**_here(), **figures, "hit_rate": usage.hits / reads if reads else 0.0}])


@dataclass(frozen=True)
class FlushDiskCache(Command):
    """Empty the local cache of splits."""

    leads: ClassVar = {"FLUSH INDEXTABLES DISK CACHE": {}}
    columns: ClassVar[pa.Schema] = row_schema("executor s, host s, bytes_freed l, splits_freed l")

    def words(self) -> Iterator[str | None]:
        yield "FLUSH INDEXTABLES DISK CACHE"

    def run(self, session: Session) -> pa.Table:
        """Of this machine."""
        cache = _disk_cache(session)
        splits = cache.usage().splits
        return self.rows([{**_here(), "bytes_freed": cache.clear(), "splits_freed": splits}])


@dataclass(frozen=True)
class FlushSearcherCache(Command):
    """Close the indexes that this process holds open, and forget the columns that it decoded; files stay."""

    leads: ClassVar = {"FLUSH INDEXTABLES SEARCHER CACHE": {}}
    columns: ClassVar[pa.Schema] = row_schema("cache_type s, status s, message s")

    def words(self) -> Iterator[str | None]:
        yield "FLUSH INDEXTABLES SEARCHER CACHE"

    def run(self, session: Session) -> pa.Table:
        """Of this process."""
        _disk_cache(session).close_searchers()
        message = "open indexes and decoded columns of this process are forgotten"
        return self.rows([{"cache_type": "searcher", "status": "success", "message": message}])


@dataclass(frozen=True)
class DescribeLogCache(Command):
    """What the process remembers of one table's log, or of all: how often each kind was asked for and was there."""

    table: TableReference | None = None

    leads: ClassVar = {"DESCRIBE INDEXTABLES LOG CACHE": {}}
    clauses: ClassVar[Clauses] = {"FOR": ("table", StatementCursor.table)}
    columns: ClassVar[pa.Schema] = row_schema("table_path s, kind s, entries l, hits l, misses l, hit_rate d")

    @classmethod
    def usage(cls) -> str:
        return "[FOR 'path']"

    def words(self) -> Iterator[str | None]:
        yield "DESCRIBE INDEXTABLES LOG CACHE"
        yield clause("FOR", self.table)

    def run(self, session: Session) -> pa.Table:
        """A row per table and kind; asks nothing of the store."""
        if self.table is None:
            stats = {url: PROCESS_CACHE.stats(url) for url in PROCESS_CACHE.tables()}
        else:
            log = open_log(session.path(self.table), session.options)
            stats = {log.store.url: log.cache_stats()}
        kinds = ((url, kind, row) for url, one in stats.items() for kind, row in one.to_dict()["kinds"].items())
        return self.rows([{"table_path": url, "kind": kind, **row} for url, kind, row in kinds])


@dataclass(frozen=True)
class InvalidateCache(Command):
    """Forget what the process remembers of one table's log, or of all."""

    table: TableReference | None = None

    everywhere: bool = False

    leads: ClassVar = {"INVALIDATE INDEXTABLES TRANSACTION LOG CACHE": {}, "INVALIDATE TRANSACTION LOG CACHE": {}}
    clauses: ClassVar[Clauses] = {
        "FOR": ("table", StatementCursor.table),
        "GLOBAL": ("everywhere", StatementCursor.presence),
    }
    columns: ClassVar[pa.Schema] = row_schema(
        "table_path s, result s, cache_hits_before l, cache_misses_before l, hit_rate_before s"
    )

    @classmethod
    def usage(cls) -> str:
        return "[FOR 'path' | GLOBAL]"

    def words(self) -> Iterator[str | None]:
        yield "INVALIDATE INDEXTABLES TRANSACTION LOG CACHE"
        yield clause("FOR", self.table)
        yield flag("GLOBAL", self.everywhere)

    def run(self, session: Session) -> pa.Table:
        """Asks nothing of the store: an unreadable table can be forgotten."""
        if self.table is not None and self.everywhere:
            raise InvalidInputError("Either one table or GLOBAL.", hint="Leave one of them out.")
        if self.table is None:
            before, entries, place = PROCESS_CACHE.stats(), PROCESS_CACHE.invalidate(), "all tables"
        else:
            log = open_log(session.path(self.table), session.options)
            before, entries, place = log.cache_stats(), log.invalidate_cache(), log.store.url
        return self.rows([{"table_path": place, "result": f"{entries} entries forgotten", **_figures(before)}])


def _disk_cache(session: Session) -> SplitCache:
    return SplitCache.of(config.resolve(options=session.options).group(SplitCacheSettings))


def _here() -> dict[str, Any]:
    return {"executor": "driver", "host": socket.gethostname()}


def _figures(before: CacheStats) -> dict[str, Any]:
    hits, misses = sum(before.hits.values()), sum(before.misses.values())
    rate = 100 * hits / (hits + misses) if hits + misses else 0.0
    return {"cache_hits_before": hits, "cache_misses_before": misses, "hit_rate_before": f"{rate:.1f} %"}
