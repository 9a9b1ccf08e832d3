"""Streams from and to a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from indextables.spark.settings import has_jvm, session_of, session_settings, source_options
from indextables.spark.source.datasource import register_source
from indextables.spark.source.options import SourceOptions
from indextables.spark.source.stream_reader import StreamOptions
from indextables.table import Table


def read_stream(
    spark: SparkSession,
    path: str,
    *,
    query: str | None = None,
    where: str | None = None,
    starting_version: int | str | None = None,
    max_files_per_trigger: int | None = None,
    ignore_changes: bool = False,
    read_change_feed: bool = False,
    options: Mapping[str, object] | None = None,
) -> DataFrame:
    """The rows of a table that match `query` and `where`, and then those that are appended to it.

    `starting_version` leaves out what was there before that version (`latest`: everything that is there now); one
    that the table has not reached is an error. `max_files_per_trigger` limits a batch. Rows that are taken away from
    the table end the stream with an error, unless `ignore_changes` is set. With `read_change_feed` every row that
    comes or goes is told, with `_change_type`, `_commit_version` and `_commit_timestamp` beside it; it takes no
    conditions. `spark` is the session and `path` the place of the table; `options` are settings, over those of the
    session.

        its.read_stream(spark, "/data/logs", query="level:ERROR", starting_version="latest")
    """
    own = {
        "query": query,
        "where": where,
        "startingVersion": starting_version,
        "maxFilesPerTrigger": max_files_per_trigger,
        "ignoreChanges": ignore_changes or None,
        "readChangeFeed": read_change_feed or None,
    }
    source = source_options(spark, options, own)
    source_settings = SourceOptions.parse({**session_settings(spark), **source})
    table = Table.open(path, options=source_settings.settings)
    StreamOptions.parse(source_settings).check(table)
    if has_jvm(spark):
        register_source(spark)
    return spark.readStream.format("indextables").options(**source).load(table.path)


def write_stream(
    df: DataFrame,
    path: str,
    *,
    checkpoint: str,
    mode: str = "append",
    partition_by: str | Sequence[str] | None = None,
    merge_schema: bool = False,
    trigger: Mapping[str, Any] | None = None,
    query_name: str | None = None,
    options: Mapping[str, object] | None = None,
) -> StreamingQuery:
    """Start a query that writes a stream, `df`, to the table at `path`, each batch exactly once.

    `checkpoint` is the folder where Spark keeps its progress; `mode` and `partition_by`, `merge_schema` and `options`
    are as for `write`; `trigger` is what `DataStreamWriter.trigger` takes, such as `{"availableNow": True}` or
    `{"processingTime": "10 seconds"}`; `query_name` is the query's name in Spark.

        its.write_stream(df, "/data/logs", checkpoint="/data/logs-progress").awaitTermination()
    """
    spark = session_of(df)
    names = [partition_by] if isinstance(partition_by, str) else partition_by
    own = {
        "partitionColumns": list(names) if names else None,
        "mergeSchema": merge_schema or None,
        "checkpointLocation": checkpoint,
    }
    if has_jvm(spark):
        register_source(spark)
    writer = df.writeStream.format("indextables").outputMode(mode).options(**source_options(spark, options, own))
    if trigger:
        writer = writer.trigger(**trigger)
    if query_name:
        writer = writer.queryName(query_name)
    return writer.start(path)
