"""The data source `format("indextables")`: the class that Spark loads, and DataFrames and streams
over it.

The class converts options to a reader or a writer. Callers with an open table pass the columns of a
read, so that Spark does not ask for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakSet

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType
from pyspark.sql.udf import _wrap_function

from indextables.config.registry import share_folder
from indextables.spark.compat import register_with_server
from indextables.spark.data_frame_writer import accept_partition_columns
from indextables.spark.error_texts import plain_errors
from indextables.spark.jvm import java_classes
from indextables.spark.schemas import FRAME_KEY, arrow_schema, with_metadata
from indextables.spark.settings import (
    has_jvm,
    session_of,
    session_settings,
    source_options,
    with_session,
)
from indextables.spark.source.aggregate_reader import AggregateReader
from indextables.spark.source.options import ReadRequest, SourceOptions
from indextables.spark.source.reader import Frame, TableReader, open_table
from indextables.spark.source.stream_reader import (
    FEED_FIELDS,
    ChangeReader,
    StreamOptions,
    TableStreamReader,
)
from indextables.spark.source.writer import TableStreamWriter, TableWriter, plan_source_write
from indextables.storage.location import parse_location
from indextables.table import Table
from indextables.table.frame_writer import index_settings


class DefaultSource(DataSource):
    """`spark.read.format("indextables")`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "indextables"

    _frame: Frame | None = None

    @plain_errors
    def schema(self) -> StructType:
        """Return the columns of a read. Spark keeps this object for the frame, which stays at this
        version.
        """
        options = self._parse()
        table = open_table(options, options.required_path())
        self._frame = Frame.of(table)
        schema = ReadRequest.parse(options).schema(table)
        if options.flag("readChangeFeed"):
            schema = StructType([*schema, *FEED_FIELDS])
        if options.text("frame") == Frame.NEW:
            schema = with_metadata(schema, FRAME_KEY, str(self._frame))
        return schema

    @plain_errors
    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read."""
        options = self._parse()
        if options.flag("readChangeFeed"):
            return ChangeReader(options, schema, self._frame)
        if options.text("aggregate") is not None:
            return AggregateReader(options, schema, self._frame)
        return TableReader(options, schema, self._frame)

    @plain_errors
    def writer(self, schema: StructType, overwrite: bool) -> TableWriter:
        """A batch write."""
        return TableWriter(plan_source_write(self._parse(), schema, overwrite=overwrite))

    @plain_errors
    def streamReader(self, schema: StructType) -> TableStreamReader:  # noqa: N802
        """A stream of what is appended to a table."""
        return TableStreamReader(self._parse(), schema)

    @plain_errors
    def streamWriter(self, schema: StructType, overwrite: bool) -> TableStreamWriter:  # noqa: N802
        """A stream into a table, each batch once."""
        options = self._parse()
        checkpoint = self.options.get("checkpointLocation")
        plan = plan_source_write(options, schema, overwrite=overwrite, streaming=True)
        return TableStreamWriter(
            plan, None if checkpoint is None else parse_location(checkpoint).url
        )

    def _parse(self) -> SourceOptions:
        return SourceOptions.parse(self.options)


FORMATS = (
    "indextables",
    "tantivy4spark",
    "io.indextables.provider.IndexTablesProvider",
    "io.indextables.spark.core.IndexTables4SparkTableProvider",
)
"""Names of the format: ours, and those that jobs for IndexTables for the JVM have."""
_sessions_with_source: WeakSet[SparkSession] = WeakSet()
"""Sessions in which the data source is registered."""


def register_source(spark: SparkSession) -> None:
    """Register `format("indextables")` in a session.

    Spark also finds it without registration, but then the session's `spark.indextables.*` settings
    do not reach its planner.
    """
    if spark in _sessions_with_source:
        return
    if not has_jvm(spark):
        register_with_server(spark, DefaultSource)
        _sessions_with_source.add(spark)
        return
    accept_partition_columns(FORMATS)
    source = _wrap_function(spark.sparkContext, DefaultSource)
    classes = java_classes(spark)
    classes.call("SessionSource", "register", spark._jsparkSession, source)
    share_folder(
        classes.call("SessionSource", "sharedFolder")
    )  # what one process has warned of, others need not
    _sessions_with_source.add(spark)


def source_frame(
    spark: SparkSession, path: str, schema: StructType, options: Mapping[str, str]
) -> DataFrame:
    """Return what `spark.read.format("indextables")` returns for these options, without asking
    Python for the schema.
    """
    if not has_jvm(spark):
        return spark.read.format("indextables").options(**options).load(path)
    register_source(spark)
    classes = java_classes(spark)
    texts = classes.text_map({**options, "path": path})
    return ClassicDataFrame(
        classes.call("SourceFrame", "of", spark._jsparkSession, schema.json(), texts), spark
    )


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
    """Return the matching rows of a table as a stream, followed by the rows that are appended to
    it.

    Args:
        spark: The session.
        path: A local path or a URL.
        query: Text of the query language.
        where: A condition over typed columns.
        starting_version: The first version to read; "latest" skips existing rows.
        max_files_per_trigger: The number of splits per batch.
        ignore_changes: Whether the stream continues after rows were removed; otherwise that is an
            error.
        read_change_feed: Whether to return changes with `_change_type`, `_commit_version` and
            `_commit_timestamp`; not with conditions.
        options: Settings, over those of the session.

    Example:
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
    text: Sequence[str] = (),
    substring: Sequence[str] = (),
    partition_by: str | Sequence[str] | None = None,
    merge_schema: bool = False,
    trigger: Mapping[str, Any] | None = None,
    query_name: str | None = None,
    options: Mapping[str, object] | None = None,
) -> StreamingQuery:
    """Start a query that writes a stream to a table, each batch exactly once.

    Args:
        df: The stream.
        path: A local path or a URL.
        checkpoint: The folder in which Spark stores the progress of the query.
        mode: As for `write`.
        text: As for `write`.
        substring: As for `write`.
        partition_by: As for `write`.
        merge_schema: As for `write`.
        trigger: Arguments of `DataStreamWriter.trigger`, such as `{"availableNow": True}`.
        query_name: The name of the query in Spark.
        options: Settings, over those of the session.

    Returns:
        The running query.

    Example:
        its.write_stream(df, "/data/logs", checkpoint="/data/logs-progress").awaitTermination()
    """
    spark = session_of(df)
    if text or substring:
        schema, settings = arrow_schema(df.schema), with_session(spark, options)
        index = index_settings(path, schema, settings, text=text, substring=substring)
        options = {**(options or {}), **{key: index[key] for key in index if key not in settings}}
    names = [partition_by] if isinstance(partition_by, str) else partition_by
    own = {
        "partitionColumns": list(names) if names else None,
        "mergeSchema": merge_schema or None,
        "checkpointLocation": checkpoint,
    }
    if has_jvm(spark):
        register_source(spark)
    writer = (
        df.writeStream.format("indextables")
        .outputMode(mode)
        .options(**source_options(spark, options, own))
    )
    if trigger:
        writer = writer.trigger(**trigger)
    if query_name:
        writer = writer.queryName(query_name)
    return writer.start(path)
