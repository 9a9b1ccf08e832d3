"""The native scan without access to the driver (Spark Connect): `spark.read.parquet` over the paths of the splits.

Spark then takes the partition values from the folder names, so this way is open only where these say exactly what the log
says; and it lists every path, which it does in a job of its own above a threshold that is raised here.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import NullType, StructType

from indextables.spark.native import in_order
from indextables.spark.schemas import readable
from indextables.storage.partitions import partition_folder
from indextables.storage.paths import join
from indextables.table import Table

OWN_WAYS = {
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
"""How splits are read whatever the session says of other files: as `NativeScan.java` does."""
_LISTING_THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"


def can_list_paths(table: Table) -> bool:
    """Whether every folder says what the log says: null and empty text share a folder, and others may use none."""
    columns = table.partition_columns
    if not columns:
        return True
    files = table.files().select(["path", "partition_values"])
    return all(
        _is_told_by_folder(row["path"], dict(row["partition_values"] or []), columns) for row in files.to_pylist()
    )


def _is_told_by_folder(path: str, values: dict[str, str | None], columns: list[str]) -> bool:
    ordered = {name: values.get(name) for name in columns}
    return "" not in ordered.values() and path.startswith(partition_folder(ordered) + "/")


def scan_paths(spark: SparkSession, table: Table, files: pa.Table) -> DataFrame:
    """A DataFrame over files of a snapshot."""
    schema = readable(table.metadata.schema_string)
    stored = StructType([field for field in schema if not isinstance(field.dataType, NullType)])
    paths = [join(table.path, path) for path in files["path"].to_pylist()]
    if not paths:
        return spark.createDataFrame([], schema)
    if len(paths) > int(spark.conf.get(_LISTING_THRESHOLD) or 0):
        # A Connect session plans anew at each use of the DataFrame, so the threshold has to stay raised.
        spark.conf.set(_LISTING_THRESHOLD, str(len(paths)))
    reader = spark.read.schema(stored).option("basePath", table.path).options(**OWN_WAYS)
    return in_order(reader.parquet(*paths), schema)
