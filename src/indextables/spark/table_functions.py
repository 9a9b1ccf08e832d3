"""Tables as functions of SQL, for sessions that know nothing else of us:

SELECT * FROM indextables_search('/data/logs', 'message:timeout', where => "day = '2026-11-15'", limit => 10)
SELECT * FROM indextables_history('/data/logs')
SELECT path, size FROM indextables_files('/data/logs', where => "day = '2026-11-15'")
SELECT * FROM indextables_state('/data/logs')

A function's rows are made in one task. Large results are for `search()` and for `format("indextables")`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import signature
from typing import Any, TypeVar, cast

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf
from pyspark.sql.types import StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult, UserDefinedTableFunction

from indextables.commands import RESULTS, Session, TablePath, execute
from indextables.commands.values import DescribeState
from indextables.config import PREFIX
from indextables.errors import InvalidInputError
from indextables.log.history import HISTORY_SCHEMA
from indextables.model.files import FILE_SCHEMA
from indextables.model.schema import normalize, schema_to_json
from indextables.spark.schemas import readable
from indextables.spark.session_settings import bare, session_settings
from indextables.spark.source.options import parse_names
from indextables.spark.source.requests import ReadRequest
from indextables.spark.source.task_settings import task_properties
from indextables.table import Table

T = TypeVar("T")


def found_rows(
    options: Mapping[str, object],
    path: str,
    query: str,
    *,
    columns: str | list[str] | None = None,
    where: str | None = None,
    limit: int | None = None,
    score: bool = False,
    snippet: str | None = None,
    version: int | None = None,
) -> pa.Table:
    """The rows that match a query."""
    table = Table.open(path, version=version, options=options)
    return table.search(query, where=where, columns=names(columns), limit=limit, score=score, snippet=snippet)


def found_columns(
    options: Mapping[str, object],
    path: str,
    query: str,
    *,
    columns: str | list[str] | None = None,
    where: str | None = None,
    limit: int | None = None,
    score: bool = False,
    snippet: str | None = None,
    version: int | None = None,
) -> StructType:
    """The columns of these rows; a query that cannot be understood is an error before anything runs."""
    table = Table.open(path, version=version, options=options)
    request = ReadRequest(query, where, names(columns), limit, False, score, snippet)
    schema = request.schema(table)
    request.plan(table, None)
    request.search(table, schema.names)
    return schema


def history_rows(options: Mapping[str, object], path: str, *, limit: int | None = None) -> pa.Table:
    """The versions of a table, the newest first."""
    return Table.open(path, options=options).history(limit=limit)


def file_rows(
    options: Mapping[str, object], path: str, *, where: str | None = None, version: int | None = None
) -> pa.Table:
    """The live splits of a table."""
    return Table.open(path, version=version, options=options).files(where=where).select(FILE_SCHEMA.names)


def state_rows(options: Mapping[str, object], path: str) -> pa.Table:
    """The state of a table's log, one row."""
    return execute(DescribeState(TablePath(path)), session=Session(options))


FIXED: Mapping[str, tuple[Callable[..., pa.Table], pa.Schema]] = {
    "indextables_history": (history_rows, HISTORY_SCHEMA),
    "indextables_files": (file_rows, FILE_SCHEMA),
    "indextables_state": (state_rows, RESULTS[DescribeState]),
}
"""The functions whose columns are always the same."""
SEARCH = "indextables_search"


def register_table_functions(spark: SparkSession) -> None:
    """Make the functions known to a session.

    The process that finds out the columns of a search is not told the session's settings: it goes by those of now.
    """
    settings = {bare(key): value for key, value in session_settings(spark).items()}
    made = {name: udtf(fixed_function(name, rows), returnType=spark_schema(s)) for name, (rows, s) in FIXED.items()}
    made[SEARCH] = udtf(search_function(settings))
    for name, function in made.items():
        spark.udtf.register(name, cast(UserDefinedTableFunction, function))


def fixed_function(name: str, rows: Callable[..., pa.Table]) -> type:
    """The class that Spark asks for the rows of a function."""

    class TableFunction:
        """A table, made anew for every call."""

        def eval(self, *args: Any, **kwargs: Any) -> Iterator[tuple[Any, ...]]:
            """The rows."""
            yield from plain_rows(called(name, rows, task_settings(), args, kwargs))

    return TableFunction


def search_function(settings: Mapping[str, str]) -> type:
    """The class that Spark asks for the columns and the rows of a search."""

    class SearchFunction:
        """A search, made anew for every call."""

        @staticmethod
        def analyze(*args: AnalyzeArgument, **kwargs: AnalyzeArgument) -> AnalyzeResult:
            """The columns, which must not depend on a row."""
            if not all(argument.isConstantExpression for argument in (*args, *kwargs.values())):
                hint = "Join with search() or format('indextables') instead."
                raise InvalidInputError(f"The arguments of {SEARCH} must be constants.", hint=hint)
            named = {key: argument.value for key, argument in kwargs.items()}
            return AnalyzeResult(called(SEARCH, found_columns, settings, [a.value for a in args], named))

        def eval(self, *args: Any, **kwargs: Any) -> Iterator[tuple[Any, ...]]:
            """The rows."""
            yield from plain_rows(called(SEARCH, found_rows, {**settings, **task_settings()}, args, kwargs))

    return SearchFunction


def called(
    name: str, function: Callable[..., T], settings: Mapping[str, str], given: Sequence[Any], named: Mapping[str, Any]
) -> T:
    """Call a function; arguments that it does not have are an error that shows those it has."""
    parameters = list(signature(function).parameters.values())[1:]
    try:
        signature(function).bind(settings, *given, **named)
    except TypeError as error:
        shown = [p.name if p.kind is not p.KEYWORD_ONLY else f"{p.name} => ..." for p in parameters]
        hint = f"Write {name}({', '.join(shown)})."
        raise InvalidInputError(f"{name} was called with wrong arguments: {error}.", hint=hint) from None
    return function(settings, *given, **{key: value for key, value in named.items() if value is not None})


def names(columns: str | list[str] | None) -> tuple[str, ...] | None:
    """Columns as a list, or as text with commas."""
    if columns is None:
        return None
    return parse_names(columns) if isinstance(columns, str) else tuple(columns)


def spark_schema(schema: pa.Schema) -> StructType:
    """The columns of a result as Spark knows them."""
    return readable(schema_to_json(normalize(schema)))


def plain_rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """The rows as Python values."""
    for batch in table.to_batches():
        yield from zip(*(column.to_pylist(maps_as_pydicts="strict") for column in batch.columns), strict=True)


def task_settings() -> dict[str, str]:
    """The session's settings as a task sees them."""
    return {bare(key): value for key, value in task_properties().items() if key.lower().startswith(PREFIX)}
