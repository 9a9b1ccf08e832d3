"""Read-only statements: what a table is, its history, and the environment of a process.

Values that could be secrets are never shown: only named environment variables are listed, and all
settings except secret ones.
"""

from __future__ import annotations

import os
import platform
import re
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any, ClassVar

import pyarrow as pa

from indextables import config
from indextables.commands.statement import (
    WHERE,
    Clauses,
    Command,
    Session,
    StatementCursor,
    TableCommand,
    clause,
    flag,
    row_schema,
)
from indextables.config import VERSION
from indextables.config.splits import SplitCacheSettings
from indextables.log.cache import PROCESS_CACHE
from indextables.log.history import ACTION_ROW_SCHEMA, log_action_rows
from indextables.metrics import PREFIX, PROFILER, SKIPPED, Sample
from indextables.model.predicate import Predicate
from indextables.operations.jobs import JOBS
from indextables.splits.read.cache import SplitCache

HIDDEN = "<hidden>"
_PACKAGES = (
    "pyarrow",
    "numpy",
    "msgspec",
    "obstore",
    "fastavro",
    "polars",
    "polars-avro",
    "tantivy",
    "pyspark",
)
_EXTRA = re.compile(r"extra == ['\"]([\w-]+)")
_REQUIREMENT_NAME = re.compile(r"[\w.-]+")
_STORE_VARIABLES = ("AWS_", "AZURE_", "GOOGLE_", "GCP_")
_SHOWN_VARIABLES = (
    "AWS_DEFAULT_REGION",
    "AWS_PROFILE",
    "AWS_REGION",
    "AZURE_STORAGE_ACCOUNT_NAME",
    "JAVA_HOME",
    "PYSPARK_PYTHON",
    "SPARK_HOME",
)


@dataclass(frozen=True)
class DescribeState(TableCommand):
    """Describe the state that the newest version is read from."""

    leads: ClassVar = {"DESCRIBE INDEXTABLES STATE": {}}
    columns: ClassVar[pa.Schema] = row_schema(
        "table_path s, format s, version l, latest_version l, num_files l, num_manifests l, num_tombstones l,"
        "tombstone_ratio d, total_bytes l, needs_compaction b, num_skipped l, protocol_version i"
    )

    def words(self) -> Iterator[str | None]:
        yield f"DESCRIBE INDEXTABLES STATE {self.table}"

    def run(self, session: Session) -> pa.Table:
        return self.report_row(session.open(self.table).state())


@dataclass(frozen=True)
class DescribeTransactionLog(TableCommand):
    """List the actions of the log since the last checkpoint, or all remaining ones."""

    include_all: bool = False

    leads: ClassVar = {"DESCRIBE INDEXTABLES TRANSACTION LOG": {}}
    clauses: ClassVar[Clauses] = {"INCLUDE ALL": ("include_all", StatementCursor.presence)}
    columns: ClassVar[pa.Schema] = ACTION_ROW_SCHEMA

    def words(self) -> Iterator[str | None]:
        yield f"DESCRIBE INDEXTABLES TRANSACTION LOG {self.table}"
        yield flag("INCLUDE ALL", self.include_all)

    def run(self, session: Session) -> pa.Table:
        return self.shape(
            log_action_rows(session.open(self.table).handle.log, include_all=self.include_all)
        )


@dataclass(frozen=True)
class DescribeHistory(TableCommand):
    """List the commits, newest first."""

    limit: int | None = None

    leads: ClassVar = {"DESCRIBE INDEXTABLES HISTORY": {}}
    clauses: ClassVar[Clauses] = {"LIMIT": ("limit", StatementCursor.whole_number)}
    columns: ClassVar[pa.Schema] = row_schema(
        "version l, timestamp ts, operation s, operation_parameters s, operation_metrics s, user_metadata s,"
        "engine_info s, is_readable b, tags s"
    )

    def words(self) -> Iterator[str | None]:
        yield f"DESCRIBE INDEXTABLES HISTORY {self.table}"
        yield clause("LIMIT", self.limit)

    def run(self, session: Session) -> pa.Table:
        return self.shape(session.open(self.table).history(limit=self.limit))


@dataclass(frozen=True)
class DescribeSkippedFiles(TableCommand):
    """List splits that an operation could not process."""

    leads: ClassVar = {"DESCRIBE INDEXTABLES SKIPPED FILES": {}}
    columns: ClassVar[pa.Schema] = row_schema(
        "path s, reason s, operation s, skip_count i, skipped_at ts, retry_after ts, in_cooldown b"
    )

    def words(self) -> Iterator[str | None]:
        yield f"DESCRIBE INDEXTABLES SKIPPED FILES {self.table}"

    def run(self, session: Session) -> pa.Table:
        return self.shape(session.open(self.table).skipped_files())


@dataclass(frozen=True)
class DescribeComponentSizes(TableCommand):
    """List the bytes of each part of each split."""

    where: Predicate | None = None

    leads: ClassVar = {"DESCRIBE INDEXTABLES COMPONENT SIZES": {}}
    clauses: ClassVar[Clauses] = WHERE
    columns: ClassVar[pa.Schema] = row_schema(
        "split_path s, partition_values s, component s, field s, size_bytes l"
    )

    def words(self) -> Iterator[str | None]:
        yield f"DESCRIBE INDEXTABLES COMPONENT SIZES {self.table}"
        yield clause("WHERE", self.where)

    def run(self, session: Session) -> pa.Table:
        return self.shape(session.open(self.table).component_sizes(where=self.where))


@dataclass(frozen=True)
class DescribeMergeJobs(Command):
    """List the running and finished background merges of this process."""

    leads: ClassVar = {"DESCRIBE INDEXTABLES MERGE JOBS": {}}
    columns: ClassVar[pa.Schema] = row_schema(
        "job_id s, table_path s, status s, total_groups l, completed_groups l, progress_pct d, duration_ms l,"
        "error_message s"
    )

    def words(self) -> Iterator[str | None]:
        yield "DESCRIBE INDEXTABLES MERGE JOBS"

    def run(self, _session: Session) -> pa.Table:
        """Return the jobs of this process, the latest first."""
        return self.rows(JOBS.rows())


@dataclass(frozen=True)
class DescribeStorageStats(Command):
    """Describe the store requests of the driver and of executors, by table and verb."""

    leads: ClassVar = {"DESCRIBE INDEXTABLES STORAGE STATS": {}}
    columns: ClassVar[pa.Schema] = row_schema(
        "table_path s, store s, verb s, requests l, failures l, bytes l, seconds d, executor s, host s"
    )

    def words(self) -> Iterator[str | None]:
        yield "DESCRIBE INDEXTABLES STORAGE STATS"

    def run(self, session: Session) -> pa.Table:
        """Return a row per executor, table and verb. An executor counts for its processes."""
        return self.rows(
            {**row, "executor": executor, "host": host}
            for executor, host, rows in session.on_every_executor(store_requests)
            for row in rows
        )


def store_requests(samples: list[Sample]) -> list[dict[str, Any]]:
    """Return the requests to stores among the metrics of a process, or of several."""
    columns = {
        "store_seconds_count": "requests",
        "store_failures_total": "failures",
        "store_bytes_total": "bytes",
    }
    columns["store_seconds_sum"] = "seconds"
    figures: dict[tuple[str, str, str], dict[str, float]] = {}
    for sample in samples:
        column = columns.get(sample.name.removeprefix(PREFIX))
        if column is not None:
            key = (sample.labels["table"], sample.labels["store"], sample.labels["verb"])
            figures.setdefault(key, {})[column] = sample.value
    return [
        {
            **dict(zip(("table_path", "store", "verb"), key, strict=True)),
            **{name: int(values.get(name, 0)) for name in ("requests", "failures", "bytes")},
            "seconds": values.get("seconds", 0.0),
        }
        for key, values in sorted(figures.items())
    ]


@dataclass(frozen=True)
class SwitchProfiler(Command):
    """Start or stop profiling of searches."""

    on: bool

    leads: ClassVar = {
        "ENABLE INDEXTABLES PROFILER": {"on": True},
        "DISABLE INDEXTABLES PROFILER": {"on": False},
    }
    columns: ClassVar[pa.Schema] = row_schema("status s, host_count i, message s")

    def words(self) -> Iterator[str | None]:
        yield f"{'ENABLE' if self.on else 'DISABLE'} INDEXTABLES PROFILER"

    def run(self, _session: Session) -> pa.Table:
        """Switch the profiler of this process; Spark tasks run in other processes, which are not
        profiled.
        """
        if self.on:
            PROFILER.enable()
            row = {
                "status": "enabled",
                "message": "What this process does is measured from now on.",
            }
        else:
            PROFILER.disable()
            row = {
                "status": "disabled",
                "message": "Nothing is measured any more; what was measured stays.",
            }
        return self.rows([{**row, "host_count": 0}])


@dataclass(frozen=True)
class DescribeProfiler(Command):
    """Describe the time spent in scans and searches of this process since profiling started."""

    reset: bool
    """Whether the counters are reset afterwards."""

    leads: ClassVar = {
        "DESCRIBE INDEXTABLES PROFILER": {"reset": False},
        "RESET INDEXTABLES PROFILER": {"reset": True},
    }
    columns: ClassVar[pa.Schema] = row_schema(
        "section s, category s, calls l, total_ms d, avg_us d, min_us d, max_us d"
    )

    def words(self) -> Iterator[str | None]:
        yield f"{'RESET' if self.reset else 'DESCRIBE'} INDEXTABLES PROFILER"

    def run(self, _session: Session) -> pa.Table:
        """Return a row per section; `read_rows` is included in `test_rows` where rows are tested."""
        if self.reset:
            sections = PROFILER.reset()
        else:
            sections = PROFILER.sections()
        return self.rows(
            {
                "section": name,
                "category": _CATEGORIES.get(name, "search"),
                "calls": section.calls,
                "total_ms": section.seconds * 1e3,
                "avg_us": section.seconds * 1e6 / section.calls,
                "min_us": section.shortest * 1e6,
                "max_us": section.longest * 1e6,
            }
            for name, section in sections.items()
        )


_CATEGORIES = {"plan_scan": "planning", "read_rows": "doc_retrieval", "test_rows": "doc_retrieval"}


@dataclass(frozen=True)
class DescribeProfilerCache(Command):
    """Describe how often lookups were answered from memory or from the disk cache."""

    reset: bool

    leads: ClassVar = {
        "DESCRIBE INDEXTABLES PROFILER CACHE": {"reset": False},
        "RESET INDEXTABLES PROFILER CACHE": {"reset": True},
    }
    columns: ClassVar[pa.Schema] = row_schema("cache s, hits l, misses l, hit_rate d")

    def words(self) -> Iterator[str | None]:
        yield f"{'RESET' if self.reset else 'DESCRIBE'} INDEXTABLES PROFILER CACHE"

    def run(self, session: Session) -> pa.Table:
        """Report on this process since its start or the last RESET."""
        log = PROCESS_CACHE.stats()
        disk = SplitCache.of(
            config.resolve(options=session.options).group(SplitCacheSettings)
        ).usage()
        counted = {
            f"log_{kind}": (log.hits.get(kind, 0), log.misses.get(kind, 0))
            for kind in {*log.hits, *log.misses}
        }
        counted["split_parts_on_disk"] = (disk.hits, disk.misses)
        rows = []
        for name, (hits, misses) in sorted(counted.items()):
            before = _cache_marks.get(name, (0, 0))
            hit, missed = max(hits - before[0], 0), max(misses - before[1], 0)
            if hit + missed:
                rows.append(
                    {"cache": name, "hits": hit, "misses": missed, "hit_rate": hit / (hit + missed)}
                )
        if self.reset:
            _cache_marks.update(counted)
        return self.rows(rows)


_cache_marks: dict[str, tuple[int, int]] = {}
"""Cache counters at the last RESET; other readers see the total counters."""


@dataclass(frozen=True)
class DescribeDataSkipping(Command):
    """Describe how many splits were pruned by scans and searches of this process, and why."""

    leads: ClassVar = {"DESCRIBE INDEXTABLES DATA SKIPPING STATS": {}}
    columns: ClassVar[pa.Schema] = row_schema("metric_type s, metric_name s, metric_value s")

    def words(self) -> Iterator[str | None]:
        yield "DESCRIBE INDEXTABLES DATA SKIPPING STATS"

    def run(self, _session: Session) -> pa.Table:
        """Report since the start of the process or the last flush."""

        def share(part: int, of: int) -> str:
            if of:
                return f"{100 * part / of:.1f}%"
            return "0.0%"

        kept = SKIPPED.considered - SKIPPED.by_partition
        figures = {
            "total_files_considered": str(SKIPPED.considered),
            "partition_pruned_files": str(SKIPPED.by_partition),
            "data_skipped_files": str(SKIPPED.by_statistics),
            "final_files_scanned": str(SKIPPED.left),
            "partition_skip_rate": share(SKIPPED.by_partition, SKIPPED.considered),
            "data_skip_rate": share(SKIPPED.by_statistics, kept),
            "total_skip_rate": share(SKIPPED.considered - SKIPPED.left, SKIPPED.considered),
        }
        return self.rows(
            {"metric_type": "data_skipping", "metric_name": name, "metric_value": value}
            for name, value in figures.items()
        )


@dataclass(frozen=True)
class FlushDataSkipping(Command):
    """Reset the counters of skipped splits; `caches` also clears cached logs and opened splits."""

    caches: bool

    leads: ClassVar = {
        "FLUSH INDEXTABLES DATA SKIPPING STATS": {"caches": False},
        "INVALIDATE INDEXTABLES DATA SKIPPING CACHE": {"caches": True},
    }
    columns: ClassVar[pa.Schema] = row_schema("status s, message s")

    def words(self) -> Iterator[str | None]:
        yield f"{'INVALIDATE' if self.caches else 'FLUSH'} INDEXTABLES DATA SKIPPING {'CACHE' if self.caches else 'STATS'}"

    def run(self, session: Session) -> pa.Table:
        """Close the indexes of this process."""
        SKIPPED.reset()
        message = "The counters of skipped splits were reset."
        if self.caches:
            entries = PROCESS_CACHE.invalidate()
            SplitCache.of(
                config.resolve(options=session.options).group(SplitCacheSettings)
            ).close_searchers()
            message = f"{message} {entries} remembered entries of logs and all opened splits are forgotten."
        return self.rows([{"status": "success", "message": message}])


@dataclass(frozen=True)
class DescribeEnvironment(Command):
    """Describe this process: versions, extras, what this Spark can do, and settings."""

    leads: ClassVar = {"DESCRIBE INDEXTABLES ENVIRONMENT": {}}
    columns: ClassVar[pa.Schema] = row_schema(
        "host s, role s, property_type s, property_name s, property_value s"
    )

    def words(self) -> Iterator[str | None]:
        yield "DESCRIBE INDEXTABLES ENVIRONMENT"

    def run(self, session: Session) -> pa.Table:
        place = {"host": socket.gethostname(), "role": "driver"}
        sections = [
            *describe_installation(session),
            *_settings(session.options),
            ("variable", _variables()),
        ]
        return self.rows(
            [
                {**place, "property_type": kind, "property_name": name, "property_value": value}
                for kind, properties in sections
                for name, value in properties
            ]
        )


def describe_installation(session: Session) -> Iterator[tuple[str, Iterable[tuple[str, str]]]]:
    """Return what is installed and what works with it: kinds of properties, names and values."""
    yield "version", [*_versions(), *session.engine_versions().items()]
    yield "system", _system()
    yield "extra", _extras()
    yield "capability", sorted(session.capabilities().items())


def _extras() -> Iterator[tuple[str, str]]:
    """Yield each extra of the package, and what of it is not installed."""
    missing: dict[str, list[str]] = {}
    for requirement in requires("indextables") or ():
        name, _, marker = requirement.partition(";")
        extra = _EXTRA.search(marker)
        package = _REQUIREMENT_NAME.match(name)
        if extra is None or package is None:
            continue
        absent = missing.setdefault(extra[1], [])
        try:
            version(package[0])
        except PackageNotFoundError:
            absent.append(package[0])
    for extra_name, packages in missing.items():
        if packages:
            value = f"needs {', '.join(packages)}: pip install 'indextables[{extra_name}]'"
        else:
            value = "installed"
        yield extra_name, value


def _versions() -> Iterator[tuple[str, str]]:
    yield "indextables", VERSION
    yield "python", platform.python_version()
    for package in _PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            continue


def _system() -> Iterator[tuple[str, str]]:
    yield "platform", platform.platform()
    yield "cpus", str(os.cpu_count())
    yield "executable", sys.executable
    yield "process", str(os.getpid())


def _settings(options: Mapping[str, object] | None) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Return the settings with their values or defaults."""
    settings = config.resolve(options=options)
    values = settings.given()
    yield "setting", [(key, str(value)) for key, value in sorted(values.items())]
    yield "no effect", sorted(settings.without_effect.items())
    defaults = {
        key: s.default
        for key, s in config.REGISTRY.settings.items()
        if key not in values and not s.per_column
    }
    yield (
        "default",
        [(key, "" if value is None else str(value)) for key, value in sorted(defaults.items())],
    )


def _variables() -> Iterator[tuple[str, str]]:
    for name in sorted(os.environ):
        if name in _SHOWN_VARIABLES:
            yield name, os.environ[name]
        elif name.startswith(_STORE_VARIABLES):
            yield name, HIDDEN
