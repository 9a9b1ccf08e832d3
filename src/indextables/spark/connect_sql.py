"""SQL over Spark Connect where the server does not have the extension: our statements, run in this process."""

from __future__ import annotations

import logging
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from indextables.commands import parse
from indextables.commands.operators import rewrite_operators
from indextables.errors import UnsupportedError
from indextables.spark.statements import run_statement

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
