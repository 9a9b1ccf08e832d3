"""The statements that look: what a table is, what happened to it, what a process runs with.

Of what a process runs with, a value that could hold a secret is never shown: of environment variables only those named here
are, and of settings all but the secret ones.
"""

from __future__ import annotations

import os
import platform
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

import pyarrow as pa

from indextables import config
from indextables.commands.cursor import StatementCursor
from indextables.commands.statement import WHERE, Clauses, Command, Session, TableCommand, clause, flag, row_schema
from indextables.config.release import VERSION
from indextables.metrics import METRICS, PREFIX
from indextables.model.action_rows import ACTION_ROW_SCHEMA
from indextables.model.predicate import Predicate
from indextables.table.planning import log_actions
from indextables.upkeep.jobs import JOBS

HIDDEN = "<hidden>"
_PACKAGES = ("pyarrow", "numpy", "msgspec", "obstore", "fastavro", "polars", "polars-avro", "tantivy", "pyspark")
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
    """The state the newest version is read from."""

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
    """The actions of the log: since the last checkpoint, or all that are left."""

    include_all: bool = False

    leads: ClassVar = {"DESCRIBE INDEXTABLES TRANSACTION LOG": {}}
    clauses: ClassVar[Clauses] = {"INCLUDE ALL": ("include_all", StatementCursor.presence)}
    columns: ClassVar[pa.Schema] = ACTION_ROW_SCHEMA

    def words(self) -> Iterator[str | None]:
        yield f"DESCRIBE INDEXTABLES TRANSACTION LOG {self.table}"
        yield flag("INCLUDE ALL", self.include_all)

    def run(self, session: Session) -> pa.Table:
        return self.shape(log_actions(session.open(self.table), include_all=self.include_all))


@dataclass(frozen=True)
class DescribeHistory(TableCommand):
    """What was committed, newest first."""

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
    """Splits that an operation could not process."""

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
    """How many bytes each part of each split takes."""

    where: Predicate | None = None

    leads: ClassVar = {"DESCRIBE INDEXTABLES COMPONENT SIZES": {}}
    clauses: ClassVar[Clauses] = WHERE
    columns: ClassVar[pa.Schema] = row_schema("split_path s, partition_values s, component s, field s, size_bytes l")

    def words(self) -> Iterator[str | None]:
        yield f"DESCRIBE INDEXTABLES COMPONENT SIZES {self.table}"
        yield clause("WHERE", self.where)

    def run(self, session: Session) -> pa.Table:
        return self.shape(session.open(self.table).component_sizes(where=self.where))


@dataclass(frozen=True)
class DescribeMergeJobs(Command):
    """The merges that run in the background of this process, and those that ran."""

    leads: ClassVar = {"DESCRIBE INDEXTABLES MERGE JOBS": {}}
    columns: ClassVar[pa.Schema] = row_schema(
        "job_id s, table_path s, status s, total_groups l, completed_groups l, progress_pct d, duration_ms l,"
        "error_message s"
    )

    def words(self) -> Iterator[str | None]:
        yield "DESCRIBE INDEXTABLES MERGE JOBS"

    def run(self, _session: Session) -> pa.Table:
        """Of this process, the latest first."""
        return self.rows(JOBS.rows())


@dataclass(frozen=True)
class DescribeStorageStats(Command):
    """What this process has asked of stores: requests, failures, bytes and time by table and verb."""

    leads: ClassVar = {"DESCRIBE INDEXTABLES STORAGE STATS": {}}
    columns: ClassVar[pa.Schema] = row_schema(
        "table_path s, store s, verb s, requests l, failures l, bytes l, seconds d"
    )

    def words(self) -> Iterator[str | None]:
        yield "DESCRIBE INDEXTABLES STORAGE STATS"

    def run(self, _session: Session) -> pa.Table:
        """Of this process; other processes, such as Spark's workers, count for themselves."""
        columns = {"store_seconds_count": "requests", "store_failures_total": "failures", "store_bytes_total": "bytes"}
        columns["store_seconds_sum"] = "seconds"
        figures: dict[tuple[str, str, str], dict[str, float]] = {}
        for sample in METRICS.samples():
            column = columns.get(sample.name.removeprefix(PREFIX))
            if column is not None:
                key = (sample.labels["table"], sample.labels["store"], sample.labels["verb"])
                figures.setdefault(key, {})[column] = sample.value
        names = ("table_path", "store", "verb")
        return self.rows(
            {
                **dict(zip(names, key, strict=True)),
                **{name: int(values.get(name, 0)) for name in ("requests", "failures", "bytes")},
                "seconds": values.get("seconds", 0.0),
            }
            for key, values in sorted(figures.items())
        )


@dataclass(frozen=True)
class DescribeEnvironment(Command):
    """Settings and versions of the driver and its workers."""

    leads: ClassVar = {"DESCRIBE INDEXTABLES ENVIRONMENT": {}}
    columns: ClassVar[pa.Schema] = row_schema("host s, role s, property_type s, property_name s, property_value s")

    def words(self) -> Iterator[str | None]:
        yield "DESCRIBE INDEXTABLES ENVIRONMENT"

    def run(self, session: Session) -> pa.Table:
        return self.rows(environment(session.options))


def environment(options: Mapping[str, object] | None = None, *, role: str = "driver") -> list[dict[str, Any]]:
    """One row for each thing worth knowing of this process; a Spark worker calls it with a role of its own."""
    host = socket.gethostname()
    sections = [("version", _versions()), ("system", _system()), *_settings(options), ("variable", _variables())]
    return [
        {"host": host, "role": role, "property_type": kind, "property_name": name, "property_value": value}
        for kind, properties in sections
        for name, value in properties
    ]


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
    """What was set, and what is left at its default."""
    settings = config.resolve(options=options)
    values = settings.given()
    yield "setting", [(key, str(value)) for key, value in sorted(values.items())]
    yield "no effect", sorted(settings.without_effect.items())
    defaults = {key: s.default for key, s in config.REGISTRY.settings.items() if key not in values and not s.per_column}
    yield "default", [(key, "" if value is None else str(value)) for key, value in sorted(defaults.items())]


def _variables() -> Iterator[tuple[str, str]]:
    for name in sorted(os.environ):
        if name in _SHOWN_VARIABLES:
            yield name, os.environ[name]
        elif name.startswith(_STORE_VARIABLES):
            yield name, HIDDEN
