"""The data source as a session knows it, and DataFrames over it.

Callers who have opened a table know which columns a read returns, so that Spark need not ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakSet

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.column import _to_seq
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.readwriter import DataFrameWriter
from pyspark.sql.types import StructType
from pyspark.sql.udf import _wrap_function

from indextables.spark.jvm import java_classes
from indextables.spark.settings import has_jvm
from indextables.spark.source.datasource import DefaultSource

FORMATS = (
    "indextables",
    "tantivy4spark",
    "io.indextables.provider.IndexTablesProvider",
    "io.indextables.spark.core.IndexTables4SparkTableProvider",
)
"""Names of the format: ours, and those that jobs for the JVM engine have."""
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
    accept_partition_columns()
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


def accept_partition_columns() -> None:
    """Make `df.write.format("indextables").partitionBy("day").save(path)` say the option `partitionColumns`.

    Spark compares the columns of `partitionBy` with those of the data source before it asks it anything, and a data source
    in Python can tell it none; so every such write was refused. Names of tables (`saveAsTable`) go by a catalog, as before.
    """
    if hasattr(DataFrameWriter.save, "accepts_partition_columns"):
        return
    set_format, set_columns, plain_save = DataFrameWriter.format, DataFrameWriter.partitionBy, DataFrameWriter.save

    def format(self: DataFrameWriter, source: str) -> DataFrameWriter:  # noqa: A001
        vars(self)["_format"] = source
        return set_format(self, source)

    def partition_by(self: DataFrameWriter, *cols: Any) -> DataFrameWriter:
        listed = cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols
        vars(self)["_partition_columns"] = tuple(listed)
        return set_columns(self, *cols)

    def save(
        self: DataFrameWriter,
        path: str | None = None,
        format: str | None = None,  # noqa: A002
        mode: str | None = None,
        partitionBy: Any = None,  # noqa: N803
        **options: Any,
    ) -> None:
        source = format or vars(self).get("_format", "")
        columns = (
            (partitionBy,) if isinstance(partitionBy, str) else partitionBy or vars(self).get("_partition_columns")
        )
        if columns and str(source).lower() in {name.lower() for name in FORMATS}:
            vars(self)["_jwrite"] = self._jwrite.partitionBy(_to_seq(self._spark._sc, []))
            options = {"partitionColumns": ",".join(columns), **options}
            partitionBy = None  # noqa: N806
        plain_save(self, path, format, mode, partitionBy, **options)

    vars(save)["accepts_partition_columns"] = True
    for name, method in (("format", format), ("partitionBy", partition_by), ("save", save)):
        method.__doc__ = getattr(DataFrameWriter, name).__doc__
        setattr(DataFrameWriter, name, method)
