"""SQL over Spark Connect where the server does not have the extension: our statements, run in this process.

The extension in a session: our statements and operators in its SQL, scans that are right, its settings for the planner.

DataFrames over the data source, for callers who have opened the table and know which columns a read returns.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any
from weakref import WeakSet

from pyspark import SparkContext
from pyspark.errors import AnalysisException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.types import StructType
from pyspark.sql.udf import _wrap_function

from indextables.commands import parse
from indextables.commands.operators import rewrite_operators
from indextables.errors import UnsupportedError
from indextables.spark.functions import register_bucket_functions, register_table_functions
from indextables.spark.jvm import java_classes
from indextables.spark.settings import has_jvm
from indextables.spark.source.datasource import DefaultSource
from indextables.spark.statements import StatementDriver, run_statement

logger = logging.getLogger(__name__)


def install_in_python(spark: SparkSession) -> None:
    """Make `spark.sql()` of this session run our statements, unless the server does or it has been done before."""
    if getattr(spark.sql, "__func__", None) is None or server_has_extension(spark):
        return
    sparks: Any = spark.sql

    def sql(sqlQuery: str, *args: Any, **kwargs: Any) -> DataFrame:  # noqa: N803
        if parse(sqlQuery) is not None:
            return run_statement(spark, sqlQuery)
        if rewrite_operators(sqlQuery) != sqlQuery:
            raise UnsupportedError(
                "Search operators in SQL need the extension in the Spark Connect server.",
                hint="Search with indextables.spark.search() or the option query, or start the server with the jar that "
                "`indextables jar` builds.",
            )
        result: DataFrame = sparks(sqlQuery, *args, **kwargs)
        return result

    spark.sql = sql  # type: ignore[method-assign]
    logger.warning(
        "This Spark Connect server does not have the IndexTables extension: statements run in this process, search goes "
        "by indextables.spark.search() or the option query, and filters are not pushed into the data source."
    )


def server_has_extension(spark: SparkSession) -> bool:
    """Whether SQL on the server knows our functions. Nothing is run there."""
    try:
        return len(spark.sql("SELECT indexqueryall('x')").schema) == 1
    except AnalysisException:
        return False


_attached: WeakSet[SparkContext] = WeakSet()
"""Where the driver knows how to call this process."""
_knowing: WeakSet[SparkSession] = WeakSet()
"""Sessions that know the data source."""


def install(spark: SparkSession) -> None:
    """Make SQL in the session `spark` know our statements and search operators; once is enough, more often does no harm.

    Sessions that are made from it afterwards (`spark.newSession()`) know them too. Over Spark Connect, where the server
    does not have the extension, the statements run in this process and the operators are refused with the way out.

        its.install(spark); spark.sql("DESCRIBE INDEXTABLES HISTORY '/data/logs'").show()
    """
    register(spark)
    if not has_jvm(spark):
        install_in_python(spark)
        return
    context = spark.sparkContext
    driver = None
    if context not in _attached:
        gateway: Any = context._gateway
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        driver = StatementDriver()
        _attached.add(context)
    java_classes(spark).call("Extension", "install", spark._jsparkSession, driver)


def register(spark: SparkSession) -> None:
    """Make `format("indextables")` and the functions `indextables_...` known to the session `spark`."""
    register_source(spark)
    register_bucket_functions(spark)
    register_table_functions(spark)


def register_source(spark: SparkSession) -> None:
    """Make `format("indextables")` known to a session.

    Spark finds it without this too. But then the session's `spark.indextables.*` settings do not reach its planner.
    """
    if spark in _knowing:
        return
    if not has_jvm(spark):
        spark.dataSource.register(DefaultSource)
        _knowing.add(spark)
        return
    source = _wrap_function(spark.sparkContext, DefaultSource)
    java_classes(spark).call("SessionSource", "register", spark._jsparkSession, source)
    _knowing.add(spark)


def source_frame(spark: SparkSession, path: str, schema: StructType, options: Mapping[str, str]) -> DataFrame:
    """What `spark.read.format("indextables")` returns for these options. Spark need not ask Python for the schema."""
    if not has_jvm(spark):
        return spark.read.format("indextables").options(**options).load(path)
    register_source(spark)
    classes = java_classes(spark)
    told = classes.text_map({**options, "path": path})
    return ClassicDataFrame(classes.call("SourceFrame", "of", spark._jsparkSession, schema.json(), told), spark)
