"""Search a table from Spark: rows as a DataFrame, counts and aggregations without reading rows, and
explain.

Counts and aggregations run per split (`on_splits`): each worker gets a part of the plan and returns
one result.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Generic, TypeVar

from msgspec.structs import fields
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from indextables.config.spark import SparkReadSettings
from indextables.inspect.figures import SHOWN_ROWS, ShownRows
from indextables.model.arguments import text, whole_number
from indextables.model.predicate import bound_predicate
from indextables.model.schema import SCORE, normalize, schema_to_json
from indextables.query.aggregate.result import finish, partial_of
from indextables.query.aggregate.spec import parse_spec
from indextables.query.aggregate.state import merged
from indextables.query.explain import ScanReport, SplitReport, scan_report, split_reports
from indextables.query.plan import ScanPlan, json_columns, output_columns, plan_scan
from indextables.query.task import ScanTask
from indextables.spark.executors import choose_locations, executors
from indextables.spark.reads import engine_of
from indextables.spark.schemas import readable
from indextables.spark.settings import check_workers, has_jvm, source_options, with_session
from indextables.spark.source.answers import DRIVER_SPLITS
from indextables.spark.source.datasource import source_frame
from indextables.spark.source.options import ReadRequest, SourceOptions
from indextables.spark.source.reader import Frame, task_groups, worker_store
from indextables.spark.upkeep import on_workers
from indextables.table import Table

Moment = datetime | str | int
T = TypeVar("T")


def search(
    spark: SparkSession,
    path: str,
    query: str,
    *,
    where: str | None = None,
    columns: Sequence[str] | None = None,
    limit: int | None = None,
    score: bool = False,
    snippet: str | None = None,
    version: int | None = None,
    timestamp: Moment | None = None,
    options: Mapping[str, object] | None = None,
) -> DataFrame:
    """Return the rows that match a query: with a `limit` the best by score, otherwise every match.

    Args:
        spark: The session.
        path: A local path or a URL.
        query: Text of the query language.
        where: A condition over typed columns.
        columns: The columns to return.
        limit: The number of best matches to return.
        score: Whether to add `_score` without a limit too.
        snippet: A text column whose marked passage becomes `_snippet`.
        version: An older version.
        timestamp: The time of an older version: a datetime, ISO text or milliseconds.
        options: Settings, over those of the session.

    Returns:
        A DataFrame that stays at its version.

    Raises:
        QuerySyntaxError: The query is wrong.
        InvalidInputError: A column does not exist.

    Example:
        its.search(spark, "/data/logs", "message:timeout", limit=10).show()
    """
    table = Table.open(
        path, version=version, timestamp=timestamp, options=with_session(spark, options)
    )
    max_rows = None if limit is None else whole_number("limit", limit)
    bound_predicate(
        where, table.schema, now_ms=table.handle.log.now_ms(), zone=table.handle.time_zone
    )
    own = {
        "query": text("query", query),
        "where": where,
        "columns": None if columns is None else output_columns(table.schema, columns),
        "limit": max_rows,
        "limitPerTask": True if max_rows is not None else None,
        "score": score or None,
        "snippet": snippet,
        "versionAsOf": table.version,
        "frame": Frame.of(table),
    }
    source = source_options(spark, options, own)
    request = ReadRequest.parse(SourceOptions.parse(source))
    # Everything that can be wrong is found here, where the error is ours and not a trace out of a
    # planner process. The splits are looked for once, when Spark asks for the tasks.
    request.check(table)
    check_workers(spark)
    rows = source_frame(spark, table.path, request.schema(table), source)
    if max_rows is None:
        return rows
    return rows.orderBy(f.col(SCORE).desc()).limit(max_rows)


def display(rows: DataFrame, *, limit: int = SHOWN_ROWS) -> ShownRows:
    """Return the first rows of a DataFrame for a notebook, with the matched words of `_snippet`
    marked.

    Args:
        rows: The result of `its.search`, or any other DataFrame.
        limit: The number of rows to show. One more is read to find out whether there are more.

    Returns:
        An object that notebooks show as a table. As text, words are marked by asterisks.

    Example:
        its.display(its.search(spark, "/data/logs", "timeout", limit=10, snippet="message"))
    """
    most = whole_number("limit", limit, low=1)
    found = rows.limit(most + 1).toArrow()
    return ShownRows(found.slice(0, most), more=found.num_rows > most)


def count(
    spark: SparkSession,
    path: str,
    *,
    query: str | None = None,
    where: str | None = None,
    version: int | None = None,
    timestamp: Moment | None = None,
    options: Mapping[str, object] | None = None,
) -> int:
    """Count the rows, or those that match `query` and `where`.

    Args:
        spark: The session.
        path: A local path or a URL.
        query: Text of the query language.
        where: A condition over typed columns.
        version: An older version.
        timestamp: The time of an older version: a datetime, ISO text or milliseconds.
        options: Settings, over those of the session.

    Returns:
        The count: from the log if possible, otherwise from the index on workers.

    Example:
        its.count(spark, "/data/logs", query="timeout")
    """
    table = Table.open(
        path, version=version, timestamp=timestamp, options=with_session(spark, options)
    )
    plan = plan_scan(table.handle, query=query, where=where, columns=())
    counted_by_log = [
        entry
        for entry in plan.splits
        if query is None and _is_counted(entry.certain or where is None, entry)
    ]
    to_count = plan.with_splits([entry for entry in plan.splits if entry not in counted_by_log])
    if to_count.splits:
        counts = on_splits(spark, to_count, ScanTask.count, _read_settings(table))
    else:
        counts = []
    return sum(entry.num_records or 0 for entry in counted_by_log) + sum(counts)


def aggregate(
    spark: SparkSession,
    path: str,
    spec: Mapping[str, Any],
    *,
    query: str | None = None,
    where: str | None = None,
    version: int | None = None,
    timestamp: Moment | None = None,
    options: Mapping[str, object] | None = None,
) -> DataFrame:
    """Compute aggregations over every matching row on Spark's workers.

    Args:
        spark: The session.
        path: A local path or a URL.
        spec: The aggregations by name, as for `Table.aggregate`.
        query: Text of the query language.
        where: A condition over typed columns.
        version: An older version.
        timestamp: The time of an older version: a datetime, ISO text or milliseconds.
        options: Settings, over those of the session.

    Returns:
        A DataFrame with the exact results.

    Example:
        its.aggregate(spark, "/data/logs", {"levels": {"terms": {"field": "level"}}}).show()
    """
    table = Table.open(
        path, version=version, timestamp=timestamp, options=with_session(spark, options)
    )
    plan = plan_scan(table.handle, query=query, where=where, columns=())
    aggregations = parse_spec(spec, table.schema, json_columns(table.handle))
    parts = on_splits(
        spark, plan, partial(partial_of, aggregations=aggregations), _read_settings(table)
    )
    result = finish(merged(parts), aggregations)
    schema: StructType = readable(schema_to_json(normalize(result.schema)))
    return spark.createDataFrame(result, schema)


def _is_counted(certain: bool, entry: Any) -> bool:
    return certain and entry.num_records is not None


def _read_settings(table: Table) -> SparkReadSettings:
    """Return the settings that divide reads into tasks."""
    return table.settings.group(SparkReadSettings)


def on_splits(
    spark: SparkSession, plan: ScanPlan, work: Callable[[ScanTask], T], read: SparkReadSettings
) -> list[T]:
    """Run work over all splits of a plan, and return one picklable result per group of splits."""
    if len(plan.splits) <= DRIVER_SPLITS:
        return [work(ScanTask(plan))]
    if has_jvm(spark):
        at_once = spark.sparkContext.defaultParallelism
    else:
        at_once = None
    cut = partial(
        task_groups, per_task=read.splits_per_task, most=read.max_splits_per_task, searching=True
    )
    chosen = executors(spark)
    parts: list[bytes] = []
    locations: list[str] = []
    # On a cluster a split goes to the same host each time, which has its index in the local cache
    # by then.
    if chosen:
        places = choose_locations([entry.path for entry in plan.splits], chosen)
    else:
        places = []
    for place in sorted(set(places)) or [""]:
        splits = (
            [entry for entry, own in zip(plan.splits, places, strict=True) if own == place]
            if places
            else plan.splits
        )
        share = at_once and -(-at_once // max(1, len(set(places))))
        groups = [pickle.dumps(plan.with_splits(group)) for group in cut(splits, parallelism=share)]
        parts += groups
        locations += [place] * len(groups) if place else []
    return on_workers(spark, parts, _Work(work), locations=locations)


class _Work(Generic[T]):
    """Work on a part of a plan in a task."""

    def __init__(self, work: Callable[[ScanTask], T]) -> None:
        self._work = work

    def __call__(self, part: bytes) -> T:
        plan: ScanPlan = pickle.loads(part)
        return self._work(ScanTask(plan, worker_store(plan.spec)))


class SparkScanReport(ScanReport, frozen=True):
    """A scan executed by Spark's workers, without its rows."""

    read_by: str = ""
    """Which engine reads the rows, Spark itself or the data source, and why."""


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
    """Run a search or scan without returning its rows, and report what was pruned, opened and read.

    Args:
        spark: The session.
        path: A local path or a URL.
        query: Text of the query language.
        where: A condition over typed columns.
        columns: The columns of the search.
        version: An older version.
        timestamp: The time of an older version: a datetime, ISO text or milliseconds.
        options: Settings, over those of the session.

    Example:
        print(its.explain(spark, "/data/logs", query="timeout"))
    """
    table = Table.open(
        path, version=version, timestamp=timestamp, options=with_session(spark, options)
    )
    plan = plan_scan(table.handle, query=query, where=where, columns=columns)
    parts: list[list[SplitReport]] = on_splits(spark, plan, split_reports, _read_settings(table))
    report = scan_report(plan, [each for part in parts for each in part])
    figures = {field.name: getattr(report, field.name) for field in fields(report)}
    return SparkScanReport(**figures, read_by=_reader(spark, table, searching=query is not None))


def _reader(spark: SparkSession, table: Table, *, searching: bool) -> str:
    if searching:
        return "the data source: a search opens the index"
    engine, reason = engine_of(spark, table)
    if engine == "native":
        return "Spark's own Parquet scan"
    return f"the data source: {reason}"
