"""Every type that Spark has comes back as it was written, through every way of writing and reading."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import indextables.spark as its
from indextables.errors import UnsupportedError
from tests.spark.compare import rows_of

VALUES = {
    "a_byte": ["cast(-128 as byte)", "cast(127 as byte)"],
    "a_short": ["cast(-32768 as short)", "cast(1 as short)"],
    "an_int": ["-2147483648", "7"],
    "a_long": ["9223372036854775807L", "0L"],
    "a_float": ["float('NaN')", "float('-Infinity')"],
    "a_double": ["double('NaN')", "-0.0D"],
    "a_decimal": [
        "cast('12345678901234567890.123456789012345678' as decimal(38,18))",
        "cast(0 as decimal(38,18))",
    ],
    "a_small_decimal": ["-99999BD", "1BD"],
    "a_boolean": ["true", "false"],
    "a_string": ["''", "'zürich \\U0001F600 \\n'"],
    "a_binary": ["X''", "X'00FF10'"],
    "a_date": ["date'0001-01-01'", "date'9999-12-31'"],
    "a_timestamp": ["timestamp'2024-03-10 07:30:00.123456Z'", "timestamp'1900-01-01 00:00:00Z'"],
    "a_local_time": [
        "timestamp_ntz'2024-03-10 02:30:00.000001'",
        "timestamp_ntz'1582-10-15 00:00:00'",
    ],
    "an_interval": ["interval '1 02:03:04.000005' day to second", "interval '-1' day"],
    "an_array": ["array(1, null, 3)", "array()"],
    "a_map": ["map('k', array(1.5D, null))", "map()"],
    "a_struct": [
        "named_struct('x', 1, 'inner', named_struct('ts', timestamp'2024-01-01 00:00:00Z', 'l', array(date'2024-01-01')))",
        "named_struct('x', null, 'inner', null)",
    ],
    "an_array_of_structs": ["array(named_struct('a', X'01', 'b', map('q', 1)), null)", "array()"],
    "a_variant": ['parse_json(\'{"a": [1, "x", null]}\')', "parse_json('3')"],
    "nothing_at_all": ["null", "null"],
    "with.dot and space": ["'x'", "'y'"],
    "名前": ["1", "2"],
    "CamelCase": ["'a'", "'b'"],
}


@pytest.fixture(scope="module")
def every_type(spark: SparkSession) -> DataFrame:
    """Two rows of values and one of nulls."""
    first, second = (", ".join(f"{v[i]} as `{name}`" for name, v in VALUES.items()) for i in (0, 1))
    return spark.sql(
        f"select {first} union all select {second} union all select {', '.join('null' for _ in VALUES)}"
    )


def test_write_and_native_scan(spark: SparkSession, every_type: DataFrame, tmp_path: Path) -> None:
    its.write(every_type, str(tmp_path / "t"))
    frame = its.table(spark, str(tmp_path / "t"))
    assert frame.dtypes == every_type.dtypes
    assert rows_of(frame) == rows_of(every_type)


def test_data_source_both_ways(spark: SparkSession, every_type: DataFrame, tmp_path: Path) -> None:
    every_type.write.format("indextables").mode("append").save(str(tmp_path / "t"))
    frame = spark.read.format("indextables").load(str(tmp_path / "t"))
    assert frame.dtypes == every_type.dtypes
    assert rows_of(frame) == rows_of(every_type)
    again = its.write(frame, str(tmp_path / "u"))
    assert again == 1
    assert rows_of(its.table(spark, str(tmp_path / "u"))) == rows_of(every_type)


def test_char_and_varchar(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(
        "create or replace temporary view padded as select cast('ab' as char(5)) c, cast('cd' as varchar(9)) v"
    )
    its.write(spark.table("padded"), str(tmp_path / "t"))
    frame = its.table(spark, str(tmp_path / "t"))
    assert rows_of(frame) == rows_of(spark.table("padded"))
    assert rows_of(spark.read.format("indextables").load(str(tmp_path / "t"))) == rows_of(frame)


def test_time_of_day(spark: SparkSession, tmp_path: Path) -> None:
    """Spark knows the type, but does not cast to it yet."""
    given = spark.sql("select time'12:34:56.123456' as t")
    its.write(given, str(tmp_path / "t"))
    assert its.table(spark, str(tmp_path / "t")).dtypes == given.dtypes
    assert rows_of(its.table(spark, str(tmp_path / "t"))) == rows_of(given)
    assert rows_of(spark.read.format("indextables").load(str(tmp_path / "t"))) == rows_of(given)


def test_a_type_that_cannot_be_kept_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"'years'.*interval year"):
        its.write(spark.sql("select interval '1' year as years"), str(tmp_path / "t"))
    assert not (tmp_path / "t").exists()
