"""The data source as a session knows it, and DataFrames over it.

Callers who have opened a table know which columns a read returns, so that Spark need not ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakSet

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.types import StructType
from pyspark.sql.udf import _wrap_function

from indextables.spark.jvm import java_classes
from indextables.spark.settings import has_jvm
from indextables.spark.source.datasource import DefaultSource

_sessions_with_source: WeakSet[SparkSession] = WeakSet()
"""Sessions that know the data source."""


def register_source(spark: SparkSession) -> None:
    """Make `format("indextables")` known to a session.

    Spark finds it without this too. But then the session's `spark.indextables.*` settings do not reach its planner.
    """
    if spark in _sessions_with_source:
        return
    if not has_jvm(spark):
        spark.dataSource.register(DefaultSource)
        _sessions_with_source.add(spark)
        return
    source = _wrap_function(spark.sparkContext, DefaultSource)
    java_classes(spark).call("SessionSource", "register", spark._jsparkSession, source)
    _sessions_with_source.add(spark)


def source_frame(spark: SparkSession, path: str, schema: StructType, options: Mapping[str, str]) -> DataFrame:
    """What `spark.read.format("indextables")` returns for these options. Spark need not ask Python for the schema."""
    if not has_jvm(spark):
        return spark.read.format("indextables").options(**options).load(path)
    register_source(spark)
    classes = java_classes(spark)
    texts = classes.text_map({**options, "path": path})
    return ClassicDataFrame(classes.call("SourceFrame", "of", spark._jsparkSession, schema.json(), texts), spark)
