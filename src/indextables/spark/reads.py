"""Reading a table as a DataFrame: Spark's own scan where Spark can open the files, the data source elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from indextables.config.spark import SparkReadSettings
from indextables.errors import UnsupportedError
from indextables.spark.foreign import parquet_splits
from indextables.spark.native import has_file_system, in_order, native_scan
from indextables.spark.parquet_paths import can_list_paths, scan_paths
from indextables.spark.schemas import readable
from indextables.spark.session_settings import has_jvm, source_options, with_session
from indextables.spark.source.options import SourceOptions
from indextables.spark.source.reader import Frame
from indextables.spark.source.requests import ReadRequest
from indextables.spark.source_frames import source_frame
from indextables.storage.location import parse_location
from indextables.table import Table

logger = logging.getLogger(__name__)


def table(
    spark: SparkSession,
    path: str,
    *,
    version: int | None = None,
    timestamp: datetime | str | int | None = None,
    options: Mapping[str, object] | None = None,
) -> DataFrame:
    """The rows of a table, of its newest version or an older one. The DataFrame stays at that version.

    Spark reads the splits itself, with its own pushdown and code generation, and nothing is listed. Where Spark has no
    file system for the path, and for splits that other engines wrote, the rows come through the data source instead.
    """
    found = Table.open(path, version=version, timestamp=timestamp, options=with_session(spark, options))
    engine, reason = engine_of(spark, found)
    if engine == "arrow":
        logger.info("%s is read through the data source: %s", found.path, reason)
        return _through_source(spark, found, options)
    files = found.files()
    ours = parquet_splits(found, files)
    rows = _scan(spark, found, files.filter(ours), options, some=pc.all(ours).as_py() is False)
    if pc.all(ours).as_py() is False:
        rows = rows.unionByName(_through_source(spark, found, options, only="foreign"))
    return rows


def engine_of(spark: SparkSession, found: Table) -> tuple[str, str | None]:
    """Who reads the rows of a table, `native` or `arrow`; and if it is not Spark itself, why not."""
    wanted = found.settings.group(SparkReadSettings).engine
    reason = "read.engine is arrow" if wanted == "arrow" else why_not_native(spark, found)
    if wanted == "native" and reason:
        raise UnsupportedError(f"Spark cannot read {found.path} itself: {reason}.", hint="Set read.engine to auto.")
    return ("arrow" if reason else "native"), reason


def why_not_native(spark: SparkSession, found: Table) -> str | None:
    """Why Spark cannot read the table's files itself; None if it can."""
    kind = parse_location(found.path).kind
    if not has_jvm(spark):
        return None if kind == "local" and can_list_paths(found) else "this session has no access to Spark's driver"
    if kind != "local" and _has_own_credentials(found):
        return "its credentials are settings of the table, which Spark's own file systems do not know"
    return None if has_file_system(spark, found.path) else "it has no file system for this kind of URL"


def _through_source(
    spark: SparkSession, found: Table, options: Mapping[str, object] | None, *, only: str | None = None
) -> DataFrame:
    given = source_options(spark, options, {"versionAsOf": found.version, "frame": Frame.of(found), "only": only})
    schema = ReadRequest.parse(SourceOptions.parse(given)).schema(found)
    return in_order(source_frame(spark, found.path, schema, given), readable(found.metadata.schema_string))


def _scan(
    spark: SparkSession, found: Table, files: pa.Table, options: Mapping[str, object] | None, *, some: bool
) -> DataFrame:
    if not has_jvm(spark):
        return scan_paths(spark, found, files)
    only = "parquet" if some else None
    own = {"path": found.path, "versionAsOf": found.version, "frame": Frame.of(found), "only": only}
    return native_scan(spark, found, files, source_options(spark, options, own))


def _has_own_credentials(found: Table) -> bool:
    return any(value == "<hidden>" for value in found.settings.given().values())
