"""Functions of SQL that put values into buckets, for GROUP BY: ordinary expressions of Spark, known by name.

indextables_histogram(latency_ms, 100)                  the lower end of the value's interval, a double
indextables_date_histogram(at, '1h')                    the beginning of the moment's interval, a timestamp
indextables_range(latency_ms, array(10, 100, 1000))     '*-10', '10-100', '100-1000' or '1000-*'

They say what `aggregate()` says for the same interval; null and NaN are in no bucket. Moments are cut in the session's
time zone, as all of Spark's functions do it (over Connect: in that of the moment of registration); `aggregate()` cuts
them in UTC.
"""

from __future__ import annotations

from msgspec import Struct
from pyspark.sql import SparkSession

from indextables.spark.java_classes import java_classes
from indextables.spark.session_settings import has_jvm


class Parameter(Struct, frozen=True):
    """A parameter of a function, with its type and what it is if it is not given."""

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
        """The statement that makes the function in a session without access to the driver."""
        listed = ", ".join(map(str, self.parameters))
        return f"CREATE OR REPLACE TEMPORARY FUNCTION {self.name}({listed}) RETURNS {self.returns} RETURN {self.body}"


# The remainder and not the quotient decides: 1.0 / 0.1 is 10, but 1.0 lies in the interval that begins at 0.9.
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
_MICROS = (
    f"{_LENGTH} * CASE {_UNIT} WHEN 'ms' THEN 1000L WHEN 's' THEN 1000000L WHEN 'm' THEN 60000000L ELSE 3600000000L END"
)
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
    """Make the functions known to a session."""
    for function in (HISTOGRAM, DATE_HISTOGRAM, RANGE):
        if not has_jvm(spark):
            spark.sql(function.create_statement())
            continue
        names = ",".join(parameter.name for parameter in function.parameters)
        defaults = ",".join(parameter.default for parameter in function.parameters)
        java_classes(spark).call(
            "BucketFunction", "register", spark._jsparkSession, function.name, names, defaults, function.body
        )
