"""The native scan: the splits of a snapshot are Parquet files, so Spark reads them with its own vectorised reader."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.types import NullType, StructField, StructType

from indextables.spark.columns import quoted
from indextables.spark.file_index import encode_file_list
from indextables.spark.java_classes import java_classes
from indextables.spark.schemas import readable
from indextables.table import Table


def has_file_system(spark: SparkSession, url: str) -> bool:
    """Whether Spark itself can open files at a URL: PySpark from PyPI knows local disks and HDFS, no object store."""
    return bool(java_classes(spark).call("NativeScan", "canRead", spark._jsparkSession, url))


def native_scan(spark: SparkSession, table: Table, files: pa.Table, source: Mapping[str, str]) -> DataFrame:
    """A DataFrame over files of a table's snapshot, planned from the log alone: nothing is listed.

    `source` are the options with which the data source reads the same files, where a query searches them.
    """
    schema = readable(table.metadata.schema_string)
    stored = [field for field in schema if not isinstance(field.dataType, NullType)]
    partitions = table.partition_columns
    classes = java_classes(spark)
    frame = classes.call(
        "NativeScan",
        "dataFrame",
        spark._jsparkSession,
        StructType([field for field in stored if field.name not in partitions]).json(),
        StructType([schema[name] for name in partitions]).json(),
        table.path,
        f"{table.path}, version {table.version}",
        classes.text_map(source),
        encode_file_list(files, table.schema, partitions),
    )
    return in_order(ClassicDataFrame(frame, spark), schema)


def in_order(frame: DataFrame, schema: StructType) -> DataFrame:
    """The columns of a schema in its order; those that hold nothing but nulls are not in the files and are made here."""
    if frame.columns == schema.names:
        return frame
    return frame.select(*[_selected(frame, field) for field in schema])


def _selected(frame: DataFrame, field: StructField) -> Column:
    if isinstance(field.dataType, NullType):
        return f.lit(None).alias(field.name)
    return frame[quoted(field.name)]
