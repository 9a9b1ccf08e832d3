"""Our statements in a session: what `spark.sql()` runs when the extension has recognised one.

They run in this process, the one that started Spark's driver, so that they see its caches and its background jobs, and so
that the large ones can put Spark's workers to work.

Planning a read in the process that started the driver, in the form in which Spark keeps what a planner process says.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from pyspark.sql.worker.plan_data_source_read import write_read_func_and_partitions

from indextables.commands import Session, TableName, parse
from indextables.commands.cursor import TableReference
from indextables.errors import IndexTablesError, InvalidInputError
from indextables.spark import upkeep
from indextables.spark.jvm import java_classes
from indextables.spark.schemas import path_in
from indextables.spark.settings import has_jvm, session_settings
from indextables.spark.source.datasource import DefaultSource
from indextables.spark.source.statement_reader import required, spark_columns
from indextables.upkeep.merge import MergeReport
from indextables.upkeep.purge import PurgeReport
from indextables.upkeep.verify import VerifyReport

logger = logging.getLogger(__name__)


def planned_read(schema_json: str, options: Sequence[str]) -> bytes | None:
    """What the tasks of a read do. None if it cannot be planned: Spark then asks a process of its own, and tells why."""
    schema = StructType.fromJson(json.loads(schema_json))
    source = DefaultSource(dict(zip(options[::2], options[1::2], strict=True)))
    told = io.BytesIO()
    try:
        write_read_func_and_partitions(
            told,
            reader=source.reader(schema),
            data_source=source,
            schema=schema,
            max_arrow_batch_size=1,  # for readers that return rows one by one
            binary_as_bytes=True,
        )
    except Exception:
        logger.debug("a read was not planned here", exc_info=True)
        return None
    return told.getvalue()


FAILED = "!"
"""Before the text of an error that the driver shall raise."""


@dataclass(frozen=True)
class WithWorkers(Session):
    """A session whose workers do what can take long."""

    spark: SparkSession | None = None

    def merge(self, table: TableReference, **asked: Any) -> MergeReport:
        where = asked.pop("where", None)
        condition = None if where is None else str(where)
        return upkeep.merge(self._running, self.path(table), where=condition, options=self.options, **asked)

    def purge(self, table: TableReference, **asked: Any) -> PurgeReport:
        return upkeep.purge(self._running, self.path(table), options=self.options, **asked)

    def verify(self, table: TableReference, *, full: bool) -> VerifyReport:
        if not full:
            return super().verify(table, full=False)
        return upkeep.verify(self._running, self.path(table), full=True, options=self.options)

    @property
    def _running(self) -> SparkSession:
        assert self.spark is not None
        return self.spark


def run_statement(spark: SparkSession, sql: str) -> DataFrame:
    """The rows of one of our statements, which has run when this returns."""
    command = required(sql)
    rows = command.run(WithWorkers(session_settings(spark), partial(path_of, spark), spark))
    return spark.createDataFrame(rows, spark_columns(command))


def path_of(spark: SparkSession, name: TableName) -> str:
    """Where the table behind a view or a table of the catalog is."""
    if not has_jvm(spark):
        return path_in_schema(spark, name)
    try:
        return str(java_classes(spark).call("TablePaths", "of", spark._jsparkSession, str(name)))
    except Py4JJavaError as error:
        cause = error.java_exception.getCause() or error.java_exception
        said = str(cause.getMessage()).splitlines()[0]
        hint = "Give the table's path in quotes."
        raise InvalidInputError(f"{name} cannot be used here: {said}", hint=hint, name=".".join(name.parts)) from None


def path_in_schema(spark: SparkSession, name: TableName) -> str:
    """The same as far as a schema tells it, for a session without access to the driver."""
    try:
        found = path_in(spark.table(str(name)).schema)
    except AnalysisException as error:
        found, said = None, str(error).splitlines()[0]
    else:
        said = "it does not say which table it reads."
    if found is not None:
        return found
    hint = "Give the table's path in quotes."
    raise InvalidInputError(f"{name} cannot be used here: {said}", hint=hint, name=".".join(name.parts))


class StatementDriver:
    """Python's end of the extension: the driver calls it with a session and a request (what, statement)."""

    def apply(self, session: Any, request: Any) -> Any:
        """The columns of a statement (as JSON), its rows, or the error that a misspelt one deserves."""
        what, sql = str(request[0]), str(request[1])
        if what == "read":
            return planned_read(sql, [str(text) for text in request[2:]])
        try:
            if what == "columns":
                return spark_columns(required(sql)).json()
            if what == "near miss":
                return None if parse(sql) is None else ""
            return run_statement(SparkSession(SparkContext.getOrCreate(), session), sql)._jdf
        except IndexTablesError as error:
            logger.debug("a statement failed: %s", sql, exc_info=True)
            return str(error) if what == "near miss" else FAILED + str(error)

    class Java:
        """What py4j asks of a class that Java calls."""

        implements = ("java.util.function.BiFunction",)
