"""Statements about cached logs and splits, and statements that prewarm splits, at once or as
background jobs of this process.
"""

from __future__ import annotations

import socket
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import pyarrow as pa

from indextables import config
from indextables.commands.statement import (
    WHERE,
    Clauses,
    Command,
    Session,
    StatementCursor,
    TableCommand,
    TableName,
    TableReference,
    clause,
    flag,
    quote_text,
    row_schema,
)
from indextables.config.splits import SplitCacheSettings
from indextables.errors import IndexTablesError, InvalidInputError, NotFoundError, StorageError
from indextables.handle import open_log
from indextables.log.cache import PROCESS_CACHE, CacheStats
from indextables.metrics import PREFIX, Sample
from indextables.model.predicate import Predicate
from indextables.model.schema import find_column
from indextables.splits.read.cache import SplitCache
from indextables.table import Table


@dataclass(frozen=True)
class DescribeDiskCache(Command):
    """Describe the local cache of splits."""

    leads: ClassVar = {"DESCRIBE INDEXTABLES DISK CACHE": {}}
    columns: ClassVar[pa.Schema] = row_schema(
        "executor s, host s, bytes l, splits l, hits l, misses l, hit_rate d"
    )

    def words(self) -> Iterator[str | None]:
        yield "DESCRIBE INDEXTABLES DISK CACHE"

    def run(self, session: Session) -> pa.Table:
        """Return a row for the driver and for each executor, which counts for its processes."""
        return self.rows(
            {"executor": executor, "host": host, **figures}
            for executor, host, figures in session.on_every_executor(
                partial(describe_disk_cache, _cache_settings(session))
            )
        )


@dataclass(frozen=True)
class FlushDiskCache(Command):
    """Empty the local cache of splits."""

    leads: ClassVar = {"FLUSH INDEXTABLES DISK CACHE": {}}
    columns: ClassVar[pa.Schema] = row_schema("executor s, host s, bytes_freed l, splits_freed l")

    def words(self) -> Iterator[str | None]:
        yield "FLUSH INDEXTABLES DISK CACHE"

    def run(self, session: Session) -> pa.Table:
        """Empty the caches of the driver and of each executor, a row for each."""
        return self.rows(
            {"executor": executor, "host": host, **figures}
            for executor, host, figures in session.on_every_executor(
                partial(flush_disk_cache, _cache_settings(session))
            )
        )


@dataclass(frozen=True)
class FlushSearcherCache(Command):
    """Close the open indexes of this process and drop its decoded columns; files stay."""

    leads: ClassVar = {"FLUSH INDEXTABLES SEARCHER CACHE": {}}
    columns: ClassVar[pa.Schema] = row_schema("cache_type s, status s, message s")

    def words(self) -> Iterator[str | None]:
        yield "FLUSH INDEXTABLES SEARCHER CACHE"

    def run(self, session: Session) -> pa.Table:
        """Close the indexes of this process."""
        SplitCache.of(_cache_settings(session)).close_searchers()
        message = "open indexes and decoded columns of this process are forgotten"
        return self.rows([{"cache_type": "searcher", "status": "success", "message": message}])


@dataclass(frozen=True)
class DescribeLogCache(Command):
    """Describe the cached log of one or all tables: lookups and hits per kind."""

    table: TableReference | None = None

    leads: ClassVar = {"DESCRIBE INDEXTABLES LOG CACHE": {}}
    clauses: ClassVar[Clauses] = {"FOR": ("table", StatementCursor.table)}
    columns: ClassVar[pa.Schema] = row_schema(
        "table_path s, kind s, entries l, hits l, misses l, hit_rate d"
    )

    @classmethod
    def usage(cls) -> str:
        return "[FOR 'path']"

    def words(self) -> Iterator[str | None]:
        yield "DESCRIBE INDEXTABLES LOG CACHE"
        yield clause("FOR", self.table)

    def run(self, session: Session) -> pa.Table:
        """Return a row per table and kind without a request to the store."""
        if self.table is None:
            stats = {url: PROCESS_CACHE.stats(url) for url in PROCESS_CACHE.tables()}
        else:
            log = open_log(session.path(self.table), session.options)
            stats = {log.store.url: log.cache_stats()}
        kinds = (
            (url, kind, row)
            for url, one in stats.items()
            for kind, row in one.to_dict()["kinds"].items()
        )
        return self.rows([{"table_path": url, "kind": kind, **row} for url, kind, row in kinds])


@dataclass(frozen=True)
class InvalidateCache(Command):
    """Clear the cached log of one or all tables."""

    table: TableReference | None = None

    everywhere: bool = False

    leads: ClassVar = {
        "INVALIDATE INDEXTABLES TRANSACTION LOG CACHE": {},
        "INVALIDATE TRANSACTION LOG CACHE": {},
    }
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
        """Clear the cache without a request to the store, so that an unreadable table can be
        cleared.
        """
        if self.table is not None and self.everywhere:
            raise InvalidInputError("Either one table or GLOBAL.", hint="Leave one of them out.")
        if self.table is None:
            before, entries, place = PROCESS_CACHE.stats(), PROCESS_CACHE.invalidate(), "all tables"
        else:
            log = open_log(session.path(self.table), session.options)
            before, entries, place = log.cache_stats(), log.invalidate_cache(), log.store.url
        return self.rows(
            [{"table_path": place, "result": f"{entries} entries forgotten", **_figures(before)}]
        )


def _cache_settings(session: Session) -> SplitCacheSettings:
    return config.resolve(options=session.options).group(SplitCacheSettings)


def describe_disk_cache(settings: SplitCacheSettings, samples: list[Sample]) -> dict[str, Any]:
    """Return what the disk cache of this machine holds, and how often processes found something in
    it.
    """
    usage = SplitCache.of(settings).usage()
    counts = {"hits": 0, "misses": 0}
    for sample in samples:
        name = sample.name.removeprefix(f"{PREFIX}split_cache_").removesuffix("_total")
        if name in counts and sample.labels["directory"] == usage.directory:
            counts[name] += int(sample.value)
    reads = sum(counts.values())
    rate = counts["hits"] / reads if reads else 0.0
    return {"bytes": usage.bytes, "splits": usage.splits, **counts, "hit_rate": rate}


def flush_disk_cache(settings: SplitCacheSettings, _samples: list[Sample]) -> dict[str, Any]:
    """Empty the disk cache of this machine."""
    cache = SplitCache.of(settings)
    splits = cache.usage().splits
    return {"bytes_freed": cache.clear(), "splits_freed": splits}


def _figures(before: CacheStats) -> dict[str, Any]:
    hits, misses = sum(before.hits.values()), sum(before.misses.values())
    rate = 100 * hits / (hits + misses) if hits + misses else 0.0
    return {
        "cache_hits_before": hits,
        "cache_misses_before": misses,
        "hit_rate_before": f"{rate:.1f} %",
    }


SEGMENTS = ("TERM_DICT", "FAST_FIELD", "POSTINGS", "POSITIONS", "FIELD_NORM", "DOC_STORE")
"""Parts of an index in IndexTables for the JVM."""
RUNNING, COMPLETED, FAILED = "running", "completed", "failed"
_KEPT_JOBS = 1000


@dataclass(frozen=True)
class PrewarmJob:
    """A table that is prewarmed in the background."""

    job_id: str
    table_path: str
    started_ms: int
    status: str = RUNNING
    splits_prewarmed: int = 0
    bytes: int = 0
    duration_ms: int = 0
    message: str = ""


class PrewarmJobs:
    """The prewarm jobs of this process, at most the newest thousand."""

    def __init__(self) -> None:
        self._jobs: dict[str, PrewarmJob] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()

    def start(self, command: PrewarmCache, session: Session) -> PrewarmJob:
        """Start a prewarm in a daemon thread."""
        job = PrewarmJob(
            uuid.uuid4().hex[:12], session.path(command.table), int(time.time() * 1000)
        )
        thread = threading.Thread(
            target=self._run,
            args=(job, command, session),
            name=f"prewarm-{job.job_id}",
            daemon=True,
        )
        with self._lock:
            self._jobs[job.job_id] = job
            self._threads[job.job_id] = thread
            while len(self._jobs) > _KEPT_JOBS:
                oldest = next(iter(self._jobs))
                self._jobs.pop(oldest)
                self._threads.pop(oldest, None)
        thread.start()
        return job

    def _run(self, job: PrewarmJob, command: PrewarmCache, session: Session) -> None:
        started = time.monotonic()
        try:
            fetched = [figures for _, _, figures in command.fetch(session)]
            ended = replace(
                job,
                status=COMPLETED,
                splits_prewarmed=sum(figures["splits_prewarmed"] for figures in fetched),
                bytes=sum(figures["bytes"] for figures in fetched),
                message=fetched[0]["message"],
            )
        except (IndexTablesError, OSError) as error:
            ended = replace(job, status=FAILED, message=str(error))
        with self._lock:
            self._jobs[job.job_id] = replace(
                ended, duration_ms=round((time.monotonic() - started) * 1000)
            )

    def all(self) -> list[PrewarmJob]:
        """Return every job in the order of their start."""
        with self._lock:
            return [*self._jobs.values()]

    def wait(self, jobs: list[PrewarmJob], seconds: float) -> None:
        """Wait until jobs have ended, or for the timeout."""
        deadline = time.monotonic() + seconds
        for job in jobs:
            thread = self._threads.get(job.job_id)
            if thread is not None:
                thread.join(max(0.0, deadline - time.monotonic()))


JOBS = PrewarmJobs()


def read_segments(cursor: StatementCursor) -> tuple[str, ...]:
    """Parse parts of an index in parentheses. An unknown one is an error at its position."""
    start = cursor.token
    names = tuple(name.upper() for name in cursor.names())
    unknown = [name for name in names if name not in SEGMENTS]
    if unknown:
        cursor.refuse(
            start, f"there is no segment {unknown[0]}", hint=f"Segments: {', '.join(SEGMENTS)}."
        )
    return names


def read_parallelism(cursor: StatementCursor) -> int:
    """Parse `OF n`."""
    cursor.choose(["OF"])
    return cursor.count()


@dataclass(frozen=True)
class PrewarmCache(TableCommand):
    """Fetch splits, or the indexes of some of their columns, into the local cache."""

    fields: tuple[str, ...] = ()
    where: Predicate | None = None
    segments: tuple[str, ...] = ()
    parallelism: int | None = None
    in_background: bool = False

    leads: ClassVar = {"PREWARM INDEXTABLES CACHE": {}}
    clauses: ClassVar[Clauses] = {
        "FOR SEGMENTS": ("segments", read_segments),
        "ON FIELDS": ("fields", StatementCursor.names),
        "WITH PERWORKER PARALLELISM": ("parallelism", read_parallelism),
        **WHERE,
        "ASYNC MODE": ("in_background", StatementCursor.presence),
    }
    columns: ClassVar[pa.Schema] = row_schema(
        "host s, splits_prewarmed i, bytes l, duration_ms l, job_id s, message s"
    )

    @classmethod
    def usage(cls) -> str:
        return (
            "'path' [FOR SEGMENTS (TERM_DICT, ...)] [ON FIELDS (a, b)] [WITH PERWORKER PARALLELISM OF n] "
            "[WHERE condition] [ASYNC MODE]"
        )

    def words(self) -> Iterator[str | None]:
        yield f"PREWARM INDEXTABLES CACHE {self.table}"
        yield f"FOR SEGMENTS ({', '.join(self.segments)})" if self.segments else None
        yield (
            f"ON FIELDS ({', '.join(str(TableName((f,))) for f in self.fields)})"
            if self.fields
            else None
        )
        yield clause("WITH PERWORKER PARALLELISM OF", self.parallelism)
        yield clause("WHERE", self.where)
        yield flag("ASYNC MODE", self.in_background)

    def run(self, session: Session) -> pa.Table:
        """Prewarm on the driver and every executor. Only whole indexes of columns are fetched."""
        if not self.in_background:
            return self.rows(
                {"host": host, **figures, "job_id": None}
                for _, host, figures in self.fetch(session)
            )
        # Errors that are known at once are raised instead of failing a job.
        schema = session.open(self.table).schema
        for name in self.fields:
            find_column(schema, name)
        job = JOBS.start(self, session)
        message = f"DESCRIBE INDEXTABLES PREWARM JOBS shows the state of job {job.job_id}."
        figures = {
            "splits_prewarmed": 0,
            "bytes": 0,
            "duration_ms": 0,
            "job_id": job.job_id,
            "message": message,
        }
        return self.rows([{"host": socket.gethostname(), **figures}])

    def fetch(self, session: Session) -> list[tuple[str, str, dict[str, Any]]]:
        """Fetch into the cache of the driver and of every executor, and count what each fetched."""
        options = {
            **session.options,
            **({"read.remoteParallelism": self.parallelism} if self.parallelism else {}),
        }
        table = session.open(self.table)  # an error about the table is raised here, not in a task
        condition = None if self.where is None else str(self.where)
        work = partial(
            prewarm_table,
            table.path,
            table.version,
            options,
            self.fields,
            condition,
            bool(self.segments),
        )
        return session.on_every_executor(work)


def prewarm_table(
    path: str,
    version: int,
    options: Mapping[str, object],
    fields: tuple[str, ...],
    where: str | None,
    segments: bool,
    _samples: list[Sample],
) -> dict[str, Any]:
    """Fetch indexes of one version of a table into the cache of this machine, and count what was
    fetched.
    """
    started = time.monotonic()
    report = Table.open(path, version=version, options=options).prewarm(columns=fields, where=where)
    duration_ms = round((time.monotonic() - started) * 1000)
    if segments:
        note = "The whole index of each column is fetched, not only these segments."
    else:
        note = ""
    message = " ".join(part for part in (note if report.splits else "", report.message) if part)
    return {
        "splits_prewarmed": report.splits,
        "bytes": report.bytes,
        "duration_ms": duration_ms,
        "message": message,
    }


_JOB_COLUMNS = row_schema(
    "job_id s, table_path s, status s, splits_prewarmed l, bytes l, duration_ms l, started_ms l, message s"
)


def _row(job: PrewarmJob) -> dict[str, Any]:
    return {name: getattr(job, name) for name in _JOB_COLUMNS.names}


@dataclass(frozen=True)
class DescribePrewarmJobs(Command):
    """Describe the background prewarm jobs of this process."""

    leads: ClassVar = {"DESCRIBE INDEXTABLES PREWARM JOBS": {}}
    columns: ClassVar[pa.Schema] = _JOB_COLUMNS

    def words(self) -> Iterator[str | None]:
        yield "DESCRIBE INDEXTABLES PREWARM JOBS"

    def run(self, session: Session) -> pa.Table:  # noqa: ARG002 (the process has the jobs)
        return self.rows(map(_row, JOBS.all()))


@dataclass(frozen=True)
class WaitForPrewarmJobs(Command):
    """Wait until background jobs have ended: all, those of a table, or one."""

    table: TableReference | None = None
    job_id: str | None = None
    timeout_seconds: int = 3600

    leads: ClassVar = {"WAIT FOR INDEXTABLES PREWARM JOBS": {}}
    clauses: ClassVar[Clauses] = {
        "JOB": ("job_id", lambda cursor: str(cursor.string("the id of a job in quotes").value)),
        "TIMEOUT": ("timeout_seconds", StatementCursor.count),
    }
    columns: ClassVar[pa.Schema] = _JOB_COLUMNS

    @classmethod
    def usage(cls) -> str:
        return "['path' | JOB 'id'] [TIMEOUT seconds]"

    @classmethod
    def read(cls, cursor: StatementCursor, fields: Mapping[str, Any]) -> Self:
        if cursor.ends() or any(cursor.follows(c) for c in cls.clauses):
            table = None
        else:
            table = cursor.table(before=cls.clauses)
        return cls(table=table, **fields, **cursor.clauses(cls.clauses))

    def words(self) -> Iterator[str | None]:
        yield "WAIT FOR INDEXTABLES PREWARM JOBS"
        yield None if self.table is None else str(self.table)
        yield None if self.job_id is None else f"JOB {quote_text(self.job_id)}"
        yield f"TIMEOUT {self.timeout_seconds}"

    def run(self, session: Session) -> pa.Table:
        """Return a row for each ended job. A job that exceeds the timeout is an error, and
        continues.
        """
        jobs = self._choose(session)
        JOBS.wait(jobs, self.timeout_seconds)
        ids = {job.job_id for job in jobs}
        ended = [job for job in JOBS.all() if job.job_id in ids]
        running = [job.job_id for job in ended if job.status == RUNNING]
        if running:
            message = f"Prewarm jobs that have not ended after {self.timeout_seconds} seconds: {', '.join(running)}."
            raise StorageError(message, hint="They go on; wait again, with a longer TIMEOUT.")
        return self.rows(map(_row, ended))

    def _choose(self, session: Session) -> list[PrewarmJob]:
        jobs = JOBS.all()
        if self.job_id is not None:
            jobs = [job for job in jobs if job.job_id == self.job_id]
            if not jobs:
                hint = "DESCRIBE INDEXTABLES PREWARM JOBS lists the jobs of this process."
                raise NotFoundError(
                    f"There is no prewarm job {self.job_id!r} in this process.", hint=hint
                )
        if self.table is not None:
            path = session.path(self.table)
            jobs = [job for job in jobs if job.table_path == path]
        return jobs
