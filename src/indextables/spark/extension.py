"""The extension in a session: our statements and operators in its SQL, scans that are right, its settings for the planner."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession
from pyspark.sql.udf import _wrap_function

from indextables.spark.bucket_functions import register_bucket_functions
from indextables.spark.connect_sql import install_in_python
from indextables.spark.java_classes import java_classes
from indextables.spark.session_settings import has_jvm
from indextables.spark.source.datasource import DefaultSource
from indextables.spark.statements import StatementDriver
from indextables.spark.table_functions import register_table_functions

_attached: WeakSet[SparkContext] = WeakSet()
"""Where the driver knows how to call this process."""
_knowing: WeakSet[SparkSession] = WeakSet()
"""Sessions that know the data source."""


def install(spark: SparkSession) -> None:
    """Make SQL in a session know our statements and search operators; once is enough, more often does no harm.

    Sessions that are made from it afterwards (`spark.newSession()`) know them too. Over Spark Connect, where the server
    does not have the extension, the statements run in this process and the operators are refused with the way out.
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
    """Make `format("indextables")` and the functions `indextables_...` known to a session."""
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
