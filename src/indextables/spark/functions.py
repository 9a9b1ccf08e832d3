"""Functions of SQL that put values into buckets, for GROUP BY: ordinary expressions of Spark, known
by name.

indextables_histogram(latency_ms, 100)                  the lower end of the value's interval, a
double indextables_date_histogram(at, '1h')                    the beginning of the moment's
interval, a timestamp indextables_range(latency_ms, array(10, 100, 1000))     '*-10', '10-100',
'100-1000' or '1000-*' indextables_range(latency_ms, 'low', NULL, 10, 'high', 10, NULL)    the label
of the first range that holds the value

They say what `aggregate()` says for the same interval; null and NaN are in no bucket. Moments are
cut in the session's time zone, as all of Spark's functions do it (over Connect: in that of the
moment of registration); `aggregate()` cuts them in UTC.

Tables as functions of SQL, for sessions that know nothing else of us:

SELECT * FROM indextables_search('/data/logs', 'message:timeout', where => "day = '2026-11-15'",
limit => 10) SELECT * FROM indextables_history('/data/logs') SELECT path, size FROM
indextables_files('/data/logs', where => "day = '2026-11-15'") SELECT * FROM
indextables_state('/data/logs')

A function's rows are made in one task. Large results are for `search()` and for
`format("indextables")`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import signature
from typing import Any, TypeVar, cast

import pyarrow as pa
from msgspec import Struct
from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf
from pyspark.sql.types import StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult, UserDefinedTableFunction

from indextables.commands import Session, TablePath
from indextables.commands.describe import DescribeState
from indextables.errors import InvalidInputError
from indextables.log.history import HISTORY_SCHEMA
from indextables.model.file_list import FILE_SCHEMA
from indextables.model.schema import normalize, schema_to_json
from indextables.spark.jvm import java_classes
from indextables.spark.schemas import readable
from indextables.spark.settings import bare, has_jvm, known_settings, session_settings
from indextables.spark.source.options import ReadRequest, parse_names
from indextables.spark.source.writer import task_properties
from indextables.table import Table


class Parameter(Struct, frozen=True):
    """A parameter of a function with its type and default."""

    name: str
    type: str
    default: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.type}" + (f" DEFAULT {self.default}" if self.default else "")


class BucketFunction(Struct, frozen=True):
    """A function as an expression over its parameters."""

    name: str
    parameters: tuple[Parameter, ...]
    returns: str
    body: str

    def create_statement(self) -> str:
        """Return the statement that creates the function in a session without access to the driver."""
        parameters = ", ".join(map(str, self.parameters))
        return f"CREATE OR REPLACE TEMPORARY FUNCTION {self.name}({parameters}) RETURNS {self.returns} RETURN {self.body}"


# The remainder and not the quotient decides: 1.0 / 0.1 is 10, but 1.0 lies in the interval that
# begins at 0.9.
HISTOGRAM = BucketFunction(
    "indextables_histogram",
    (Parameter("value", "DOUBLE"), Parameter("step", "DOUBLE"), Parameter("start", "DOUBLE", "0")),
    "DOUBLE",
    """CASE
  WHEN NOT coalesce(double(step) > 0 AND double(step) < double('Infinity'), false)
    THEN raise_error('indextables_histogram: the interval must be a number above 0')
  WHEN double(value) IS NULL OR isnan(double(value)) OR abs(double(value)) = double('Infinity') THEN NULL
  ELSE (
    rint(((double(value) - double(start)) - (double(value) - double(start)) % double(step)) / double(step))
    - IF((double(value) - double(start)) % double(step) < 0, 1, 0)
  ) * double(step) + double(start)
END""",
)

_FIXED = "'^([0-9]{1,9})(ms|s|m|h|d)$'"
_LENGTH = f"try_cast(regexp_extract(step, {_FIXED}, 1) AS BIGINT)"
_UNIT = f"regexp_extract(step, {_FIXED}, 2)"
_MICROS = f"{_LENGTH} * CASE {_UNIT} WHEN 'ms' THEN 1000L WHEN 's' THEN 1000000L WHEN 'm' THEN 60000000L ELSE 3600000000L END"
_MOMENT = "cast(value AS TIMESTAMP)"
_DAY = f"to_date({_MOMENT})"
_LOCAL = f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', cast({_MOMENT} AS TIMESTAMP_NTZ))"
_CALENDAR = "\n".join(
    f"  WHEN step IN ('{unit}', '{short}') THEN cast(trunc({_DAY}, '{unit.upper()}') AS TIMESTAMP)"
    for unit, short in (("week", "1w"), ("month", "1M"), ("quarter", "1q"), ("year", "1y"))
)

DATE_HISTOGRAM = BucketFunction(
    "indextables_date_histogram",
    (Parameter("value", "TIMESTAMP"), Parameter("step", "STRING")),
    "TIMESTAMP",
    f"""CASE
  WHEN step IN ('minute', 'hour', 'day') THEN date_trunc(step, {_MOMENT})
{_CALENDAR}
  WHEN NOT coalesce({_LENGTH} > 0, false)
    THEN raise_error('indextables_date_histogram: the interval must be such as 30s, 5m, 1h, 7d, week or month')
  WHEN {_UNIT} = 'd'
    THEN cast(date_from_unix_date(unix_date({_DAY}) - pmod(unix_date({_DAY}), int({_LENGTH}))) AS TIMESTAMP)
  ELSE timestamp_micros(unix_micros({_MOMENT}) - pmod({_LOCAL}, {_MICROS}))
END""",
)

_NUMBERS = "transform(cast(bounds AS ARRAY<STRING>), b -> double(b))"
RANGE = BucketFunction(
    "indextables_range",
    (Parameter("value", "DOUBLE"), Parameter("bounds", "ARRAY<STRING>")),
    "STRING",
    f"""CASE
  WHEN NOT coalesce(size({_NUMBERS}) > 0 AND {_NUMBERS} = array_sort({_NUMBERS}), false)
    THEN raise_error('indextables_range: the bounds must be numbers in ascending order')
  WHEN double(value) IS NULL OR isnan(double(value)) THEN NULL
  ELSE concat(
    coalesce(try_element_at(filter(cast(bounds AS ARRAY<STRING>), b -> double(b) <= double(value)), -1), '*'), '-',
    coalesce(try_element_at(filter(cast(bounds AS ARRAY<STRING>), b -> double(b) > double(value)), 1), '*'))
END""",
)


def register_bucket_functions(spark: SparkSession) -> None:
    """Register the bucket functions in a session."""
    for function in (HISTOGRAM, DATE_HISTOGRAM, RANGE):
        if not has_jvm(spark):
            spark.sql(function.create_statement())
            continue
        names = ",".join(parameter.name for parameter in function.parameters)
        defaults = ",".join(parameter.default for parameter in function.parameters)
        java_classes(spark).call(
            "BucketFunction",
            "register",
            spark._jsparkSession,
            function.name,
            names,
            defaults,
            function.body,
        )


T = TypeVar("T")


def search_rows(
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
    """Return the rows that match a query."""
    table = Table.open(path, version=version, options=options)
    return table.search(
        query, where=where, columns=names(columns), limit=limit, score=score, snippet=snippet
    )


def search_columns(
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
    """Return the columns of a search. An invalid query is an error before anything runs."""
    table = Table.open(path, version=version, options=options)
    request = ReadRequest(query, where, names(columns), limit, False, score, snippet)
    request.check(table)
    return request.schema(table)


def history_rows(options: Mapping[str, object], path: str, *, limit: int | None = None) -> pa.Table:
    """Return the versions of a table, the newest first."""
    return Table.open(path, options=options).history(limit=limit)


def file_rows(
    options: Mapping[str, object],
    path: str,
    *,
    where: str | None = None,
    version: int | None = None,
) -> pa.Table:
    """Return the live splits of a table."""
    return (
        Table.open(path, version=version, options=options)
        .files(where=where)
        .select(FILE_SCHEMA.names)
    )


def state_rows(options: Mapping[str, object], path: str) -> pa.Table:
    """Return the state of a table's log as one row."""
    return DescribeState(TablePath(path)).run(Session(options))


FIXED: Mapping[str, tuple[Callable[..., pa.Table], pa.Schema]] = {
    "indextables_history": (history_rows, HISTORY_SCHEMA),
    "indextables_files": (file_rows, FILE_SCHEMA),
    "indextables_state": (state_rows, DescribeState.columns),
}
"""The functions with a fixed result schema."""
SEARCH = "indextables_search"


def register_table_functions(spark: SparkSession) -> None:
    """Register the table functions in a session.

    The process that determines the columns of a search does not receive the session's settings, so
    the current ones are captured.
    """
    settings = {bare(key): value for key, value in session_settings(spark).items()}
    functions = {
        name: udtf(fixed_function(name, rows), returnType=spark_schema(s))
        for name, (rows, s) in FIXED.items()
    }
    functions[SEARCH] = udtf(search_function(settings))
    for name, function in functions.items():
        spark.udtf.register(name, cast(UserDefinedTableFunction, function))


# `eval` and `analyze` take whatever the SQL says: `call_function` holds it against the function's
# own parameters, so that a wrong call is told with those that there are.


def fixed_function(name: str, rows: Callable[..., pa.Table]) -> type:
    """Return the class that Spark calls for the rows of a function."""

    class TableFunction:
        """A table function, instantiated for every call."""

        def eval(self, *args: Any, **kwargs: Any) -> Iterator[tuple[Any, ...]]:
            """The rows."""
            yield from plain_rows(call_function(name, rows, task_settings(), args, kwargs))

    return TableFunction


def search_function(settings: Mapping[str, str]) -> type:
    """Return the class that Spark calls for the columns and rows of a search."""

    class SearchFunction:
        """A search, instantiated for every call."""

        @staticmethod
        def analyze(*args: AnalyzeArgument, **kwargs: AnalyzeArgument) -> AnalyzeResult:
            """Return the columns, which must not depend on a row."""
            if not all(argument.isConstantExpression for argument in (*args, *kwargs.values())):
                hint = "Join with search() or format('indextables') instead."
                raise InvalidInputError(f"The arguments of {SEARCH} must be constants.", hint=hint)
            named = {key: argument.value for key, argument in kwargs.items()}
            return AnalyzeResult(
                call_function(SEARCH, search_columns, settings, [a.value for a in args], named)
            )

        def eval(self, *args: Any, **kwargs: Any) -> Iterator[tuple[Any, ...]]:
            """The rows."""
            yield from plain_rows(
                call_function(SEARCH, search_rows, {**settings, **task_settings()}, args, kwargs)
            )

    return SearchFunction


def call_function(
    name: str,
    function: Callable[..., T],
    settings: Mapping[str, str],
    positional: Sequence[Any],
    named: Mapping[str, Any],
) -> T:
    """Call a function. Unknown arguments are an error that lists the known ones."""
    parameters = list(signature(function).parameters.values())[1:]
    try:
        signature(function).bind(settings, *positional, **named)
    except TypeError as error:
        usage = [p.name if p.kind is not p.KEYWORD_ONLY else f"{p.name} => ..." for p in parameters]
        hint = f"Write {name}({', '.join(usage)})."
        raise InvalidInputError(
            f"{name} was called with wrong arguments: {error}.", hint=hint
        ) from None
    return function(
        settings, *positional, **{key: value for key, value in named.items() if value is not None}
    )


def names(columns: str | list[str] | None) -> tuple[str, ...] | None:
    """Return columns given as a list or as comma-separated text."""
    if columns is None:
        return None
    if isinstance(columns, str):
        return parse_names(columns)
    return tuple(columns)


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the columns of a result as a Spark schema."""
    return readable(schema_to_json(normalize(schema)))


def plain_rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Return the rows as Python values."""
    for batch in table.to_batches():
        yield from zip(
            *(column.to_pylist(maps_as_pydicts="strict") for column in batch.columns), strict=True
        )


def task_settings() -> dict[str, str]:
    """Return the session's settings in a task."""
    return {bare(key): value for key, value in known_settings(task_properties()).items()}
