"""Partitions by name: a specification means its typed value, and one that matches nothing is an
error.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

VALUES = {
    "timestamp": (
        "TIMESTAMP",
        ["TIMESTAMP'2024-03-10 07:30:00.123456Z'", "TIMESTAMP'2024-01-01 00:00:00'"],
        ["TIMESTAMP'2024-03-10 07:30:00.123456Z'", "'2024-01-01 00:00:00'"],
    ),
    "timestamp_ntz": (
        "TIMESTAMP_NTZ",
        ["TIMESTAMP_NTZ'2024-01-01 00:00:00.5'"],
        ["'2024-01-01 00:00:00.500'"],
    ),
    "date": ("DATE", ["DATE'2024-01-01'", "DATE'0001-01-01'"], ["'2024-1-1'", "DATE'0001-01-01'"]),
    "decimal": ("DECIMAL(10,2)", ["1.50", "-2.50"], ["1.5", "'-2.50'"]),
    "large_decimal": ("DECIMAL(38,18)", ["12345678901234567890.5"], ["12345678901234567890.50"]),
    "double": (
        "DOUBLE",
        ["1.5D", "-0.0D", "1e10D", "double('NaN')"],
        ["'1.50'", "0.0", "'1E10'", "'NaN'"],
    ),
    "float": ("FLOAT", ["1.1", "3.4e38"], ["1.1", "'3.4E38'"]),
    "boolean": ("BOOLEAN", ["true", "false"], ["'TRUE'", "false"]),
    "byte": ("TINYINT", ["1", "-2"], ["'01'", "-2"]),
    "long": ("BIGINT", ["9223372036854775807"], ["'9223372036854775807'"]),
    "string": ("STRING", ["'02'", "'x y/=%'", "''"], ["'02'", "'x y/=%'"]),
}
"""A type, values of rows, and specifications of partitions in the same order."""


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("partitions")
    spark.sql(f"CREATE DATABASE parts LOCATION '{folder}/parts'")
    yield folder
    spark.sql("DROP DATABASE parts CASCADE")


def ids(spark: SparkSession, table: str) -> list[int]:
    return sorted(row.id for row in spark.table(table).select("id").collect())


@pytest.mark.parametrize("kind", VALUES)
def test_a_partition_is_dropped_by_its_typed_value(
    spark: SparkSession, home: Path, kind: str
) -> None:
    table = f"parts.by_{kind}"
    type_, values, specifications = VALUES[kind]
    spark.sql(
        f"CREATE TABLE {table} (id INT, part {type_}) USING indextables PARTITIONED BY (part)"
    )
    rows = ", ".join(f"({number}, {value})" for number, value in enumerate([*values, "null"]))
    spark.sql(f"INSERT INTO {table} VALUES {rows}")
    left = ids(spark, table)
    for number, specification in enumerate(specifications):
        spark.sql(f"ALTER TABLE {table} DROP PARTITION (part = {specification})")
        left.remove(number)
        assert ids(spark, table) == left, specification
        for again in (
            "ALTER TABLE {t} DROP PARTITION (part = {s})",
            "TRUNCATE TABLE {t} PARTITION (part = {s})",
        ):
            with pytest.raises(PySparkException, match="PARTITIONS_NOT_FOUND"):
                spark.sql(again.format(t=table, s=specification))
        spark.sql(f"ALTER TABLE {table} DROP IF EXISTS PARTITION (part = {specification})")
        assert ids(spark, table) == left
    spark.sql(f"TRUNCATE TABLE {table} PARTITION (part = null)")
    left.remove(len(values))
    assert ids(spark, table) == left


def test_several_partitions_of_several_columns_go_in_one_version(
    spark: SparkSession, home: Path
) -> None:
    spark.sql(
        "CREATE TABLE parts.two (id INT, y INT, t TIMESTAMP) USING indextables PARTITIONED BY (y, t)"
    )
    spark.sql(
        "INSERT INTO parts.two SELECT CAST(id AS INT), CAST(id % 3 AS INT), "
        "TIMESTAMP'2024-01-01 00:00:00' + make_interval(0, 0, 0, CAST(id AS INT)) FROM range(6)"
    )
    first, last = (
        "PARTITION (y = 1, t = '2024-01-02 00:00:00')",
        "PARTITION (y = 2, t = '2024-01-06 00:00:00')",
    )
    with pytest.raises(PySparkException, match="PARTITIONS_NOT_FOUND"):
        spark.sql(
            f"ALTER TABLE parts.two DROP {first}, PARTITION (y = 7, t = '2024-01-06 00:00:00')"
        )
    assert ids(spark, "parts.two") == [0, 1, 2, 3, 4, 5]
    spark.sql(f"ALTER TABLE parts.two DROP {first}, {last}")
    assert ids(spark, "parts.two") == [0, 2, 3, 4]
    assert spark.sql("DESCRIBE HISTORY parts.two").count() == 3
    spark.sql("TRUNCATE TABLE parts.two PARTITION (y = 0)")
    assert ids(spark, "parts.two") == [2, 4]
    with pytest.raises(PySparkException, match=r"INDEXTABLES_INVALID_INPUT.*SHOW PARTITIONS"):
        spark.sql("TRUNCATE TABLE parts.two PARTITION (y = 0)")


def test_partitions_of_a_renamed_column_are_listed_and_dropped(
    spark: SparkSession, home: Path
) -> None:
    spark.sql(
        "CREATE TABLE parts.renamed (id INT, day DATE) USING indextables PARTITIONED BY (day)"
    )
    spark.sql("INSERT INTO parts.renamed VALUES (1, DATE'2024-01-01'), (2, DATE'2024-01-02')")
    spark.sql("ALTER TABLE parts.renamed RENAME COLUMN day TO `date of`")
    listed = [row[0] for row in spark.sql("SHOW PARTITIONS parts.renamed").collect()]
    assert listed == ["date of=2024-01-01", "date of=2024-01-02"]
    spark.sql("ALTER TABLE parts.renamed DROP PARTITION (`date of` = '2024-01-01')")
    assert ids(spark, "parts.renamed") == [2]


def test_a_filter_on_a_float_next_to_a_search_compares_floats(
    spark: SparkSession, home: Path
) -> None:
    spark.sql(
        "CREATE TABLE parts.floats (id INT, m STRING, v FLOAT) USING indextables "
        "TBLPROPERTIES ('indexing.typemap.m' = 'text')"
    )
    spark.sql("INSERT INTO parts.floats VALUES (1, 'x', 2.1), (2, 'x', 0.5), (3, 'y', 2.1)")
    found = spark.sql(
        "SELECT id FROM parts.floats WHERE m TEXTSEARCH 'x' AND v = CAST(2.1 AS FLOAT)"
    )
    assert [row.id for row in found.collect()] == [1]
