"""`partitionBy` and `insertInto` of Spark's DataFrameWriter, which the data source alone does not see."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.classic.column import _to_seq
from pyspark.sql.readwriter import DataFrameWriter


def _activate_session(spark: SparkSession) -> None:
    """Set the session of this thread, in which Spark searches for a data source. A new Python thread
    has no session.
    """
    jvm: Any = spark._jvm
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    if sessions.getActiveSession().isEmpty():
        sessions.setActiveSession(spark._jsparkSession)


def accept_partition_columns(formats: Collection[str]) -> None:
    """Make `partitionBy` of `save` and the options of `insertInto` reach the data source.

    Spark compares the columns of `partitionBy` with those of the data source before it calls it,
    and a data source in Python cannot declare any, so Spark refuses every such write. Writes to
    table names (`saveAsTable`) use a catalog and are not affected.

    Without a format `insertInto` drops the options of the writer for tables of the session catalog:
    an overwrite with `partitionOverwriteMode=dynamic` would replace the whole table. With a format
    of version 2 Spark keeps them; tables of its own are written as before.
    """
    if hasattr(DataFrameWriter.save, "accepts_partition_columns"):
        return
    set_format, set_columns, plain_save = (
        DataFrameWriter.format,
        DataFrameWriter.partitionBy,
        DataFrameWriter.save,
    )
    plain_insert = DataFrameWriter.insertInto

    def format(self: DataFrameWriter, source: str) -> DataFrameWriter:  # noqa: A001
        vars(self)["_format"] = source
        return set_format(self, source)

    def partition_by(self: DataFrameWriter, *cols: Any) -> DataFrameWriter:
        if len(cols) == 1 and isinstance(cols[0], list | tuple):
            listed = cols[0]
        else:
            listed = cols
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
            (partitionBy,)
            if isinstance(partitionBy, str)
            else partitionBy or vars(self).get("_partition_columns")
        )
        ours = str(source).lower() in {name.lower() for name in formats}
        if ours:
            _activate_session(self._spark)
        if ours and columns:
            vars(self)["_jwrite"] = self._jwrite.partitionBy(_to_seq(self._spark._sc, []))
            options = {"partitionColumns": ",".join(columns), **options}
            partitionBy = None  # noqa: N806
        plain_save(self, path, format, mode, partitionBy, **options)

    def insert_into(self: DataFrameWriter, tableName: str, overwrite: bool | None = None) -> None:  # noqa: N803
        state = self._spark._jsparkSession.sessionState()
        is_view = state.catalog().isTempView(state.sqlParser().parseMultipartIdentifier(tableName))
        if not vars(self).get("_format") and not is_view:
            vars(self)["_jwrite"] = self._jwrite.format("indextables")
        plain_insert(self, tableName, overwrite)

    vars(save)["accepts_partition_columns"] = True
    methods = {
        "format": format,
        "partitionBy": partition_by,
        "save": save,
        "insertInto": insert_into,
    }
    for name, method in methods.items():
        method.__doc__ = getattr(DataFrameWriter, name).__doc__
        setattr(DataFrameWriter, name, method)
