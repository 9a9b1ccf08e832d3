"""What a scan or search of a table does in Spark, in numbers, and who reads the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec.structs import fields
from pyspark.sql import SparkSession

from indextables.config.spark import SparkReadSettings
from indextables.scan.explain import ScanReport, SplitReport, scan_report, split_reports
from indextables.spark.reads import engine_of
from indextables.spark.session_settings import with_session
from indextables.spark.workers import on_splits
from indextables.table import Table


class SparkScanReport(ScanReport, frozen=True):
    """A scan that was carried out by Spark's workers, without its rows."""

    read_by: str = ""
    """Who reads the rows: Spark itself, or the package through the data source; with the reason."""


def explain(
    spark: SparkSession,
    path: str,
    *,
    query: str | None = None,
    where: str | None = None,
    columns: Sequence[str] | None = None,
    version: int | None = None,
    timestamp: datetime | str | int | None = None,
    options: Mapping[str, object] | None = None,
) -> SparkScanReport:
    """Carry out a search or scan without its rows, and say what was pruned, opened, matched and read, and by whom."""
    found = Table.open(path, version=version, timestamp=timestamp, options=with_session(spark, options))
    plan = found.plan_scan(query=query, where=where, columns=columns)
    per_task = found.settings.group(SparkReadSettings).splits_per_task
    parts: list[list[SplitReport]] = on_splits(spark, plan, split_reports, per_task=per_task)
    report = scan_report(plan, [each for part in parts for each in part])
    told = {field.name: getattr(report, field.name) for field in fields(report)}
    return SparkScanReport(**told, read_by=_reader(spark, found, searching=query is not None))


def _reader(spark: SparkSession, found: Table, *, searching: bool) -> str:
    if searching:
        return "the data source: a search opens the index"
    engine, reason = engine_of(spark, found)
    return "Spark's own Parquet scan" if engine == "native" else f"the data source: {reason}"
