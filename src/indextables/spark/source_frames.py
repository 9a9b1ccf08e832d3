"""DataFrames over the data source, for callers who have opened the table and know which columns a read returns."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.types import StructType

from indextables.spark.extension import register_source
from indextables.spark.java_classes import java_classes
from indextables.spark.session_settings import has_jvm


def source_frame(spark: SparkSession, path: str, schema: StructType, options: Mapping[str, str]) -> DataFrame:
    """What `spark.read.format("indextables")` returns for these options. Spark need not ask Python for the schema."""
    if not has_jvm(spark):
        return spark.read.format("indextables").options(**options).load(path)
    register_source(spark)
    classes = java_classes(spark)
    told = classes.text_map({**options, "path": path})
    return ClassicDataFrame(classes.call("SourceFrame", "of", spark._jsparkSession, schema.json(), told), spark)
