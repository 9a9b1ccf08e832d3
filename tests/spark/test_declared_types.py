"""Types in CREATE and ALTER TABLE: what is accepted can be written and read, what cannot is refused
by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import indextables.spark as its
from indextables import Table
from indextables.errors import InvalidInputError, UnsupportedError

REFUSED = {
    "CHAR(3)": "VARCHAR",
    "ARRAY<CHAR(3)>": "VARCHAR",
    "MAP<STRUCT<a: INT>, INT>": "keys of its map",
    "ARRAY<MAP<ARRAY<INT>, INT>>": "keys of its map",
    "STRUCT<>": "struct without fields",
    "ARRAY<STRUCT<x: STRUCT<>>>": "struct without fields",
    "INTERVAL YEAR TO MONTH": "cannot store",
    "GEOMETRY(4326)": "cannot store",
}
"""A type, and words of the error."""


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("declared")
    spark.sql(f"CREATE DATABASE declared LOCATION '{folder}/declared'")
    yield folder
    spark.sql("DROP DATABASE declared CASCADE")


def rows(spark: SparkSession, query: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in spark.sql(query).collect()), key=repr)


@pytest.mark.parametrize("kind", REFUSED)
def test_a_type_that_cannot_be_written_is_refused_where_it_is_declared(
    spark: SparkSession, home: Path, kind: str
) -> None:
    with pytest.raises(PySparkException, match="INDEXTABLES_UNSUPPORTED") as raised:
        spark.sql(f"CREATE TABLE declared.refused (id INT, c {kind}) USING indextables")
    assert (
        "'c'" in str(raised.value)
        and REFUSED[kind] in str(raised.value)
        and "Traceback" not in str(raised.value)
    )
    assert not spark.catalog.tableExists("declared.refused")
    spark.sql("CREATE TABLE IF NOT EXISTS declared.grows (id INT) USING indextables")
    with pytest.raises(PySparkException, match="INDEXTABLES_UNSUPPORTED"):
        spark.sql(f"ALTER TABLE declared.grows ADD COLUMNS (c {kind})")
    assert spark.table("declared.grows").columns == ["id"]


def test_rows_with_a_type_that_cannot_be_written_are_refused_before_a_task_runs(
    spark: SparkSession, home: Path, tmp_path: Path
) -> None:
    for value in ("map(named_struct('a', 1), 2)", "named_struct()"):
        frame = spark.sql(f"SELECT 1 AS id, {value} AS c")
        with pytest.raises(UnsupportedError, match="Column 'c' cannot be stored"):
            its.write(frame, str(tmp_path / "t"))
        with pytest.raises(PySparkException, match="INDEXTABLES_UNSUPPORTED"):
            frame.write.format("indextables").saveAsTable("declared.refused")
        spark.sql("CREATE TABLE IF NOT EXISTS declared.grows (id INT) USING indextables")
        with pytest.raises(UnsupportedError, match="Column 'c' cannot be stored"):
            its.write(frame, f"{home}/declared/grows", merge_schema=True)
    assert not (tmp_path / "t").exists()


def test_a_table_of_python_refuses_the_same_types(tmp_path: Path) -> None:
    keys = pa.map_(pa.struct([("a", pa.int32())]), pa.int32())
    for kind in (keys, pa.list_(keys), pa.struct([]), pa.struct([("x", pa.struct([]))])):
        with pytest.raises(UnsupportedError, match="Column 'c' cannot be stored"):
            Table.create(str(tmp_path / "t"), schema=pa.schema([("id", pa.int32()), ("c", kind)]))
    table = Table.create(str(tmp_path / "t"), schema=pa.schema([("id", pa.int32())]))
    with pytest.raises(UnsupportedError, match="Column 'c' cannot be stored"):
        table.alter.add_column("c", keys)
    assert table.schema.names == ["id"]


def test_the_length_of_a_varchar_is_enforced_by_every_write(
    spark: SparkSession, home: Path
) -> None:
    nested = "n ARRAY<VARCHAR(2)>, m MAP<VARCHAR(2), STRUCT<x: VARCHAR(2)>>"
    spark.sql(f"CREATE TABLE declared.short (id INT, c VARCHAR(3), {nested}) USING indextables")
    spark.sql(
        "INSERT INTO declared.short VALUES (1, 'äöü', array('xy', null), map('ab', named_struct('x', 'yz')))"
    )
    spark.sql(
        "INSERT INTO declared.short VALUES (2, 'ab   ', null, null), (3, null, array(), map())"
    )
    path = f"{home}/declared/short"
    before = rows(spark, "SELECT id, c, length(c) FROM declared.short")
    assert before == [(1, "äöü", 3), (2, "ab ", 3), (3, None, None)]
    for statement in (
        "INSERT INTO declared.short (id, c) VALUES (4, 'abcd')",
        "INSERT INTO declared.short (id, n) VALUES (4, array('abc'))",
        "UPDATE declared.short SET c = 'abcd' WHERE id = 1",
        "UPDATE declared.short SET n = array('abc') WHERE id = 1",
        "UPDATE declared.short SET m = map('a', named_struct('x', 'abc')) WHERE id = 1",
        "MERGE INTO declared.short t USING (SELECT 1 AS id, 'abcd' AS c) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET c = s.c",
        "MERGE INTO declared.short t USING (SELECT 9 AS id, 'abcd' AS c) s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT (id, c) VALUES (s.id, s.c)",
    ):
        with pytest.raises(
            PySparkException,
            match=r"EXCEED_LIMIT_LENGTH|VARCHAR\(\d\), and a value has \d characters",
        ):
            spark.sql(statement)
    frame = spark.createDataFrame([(4, "abcd")], "id INT, c STRING")
    writes: list[Callable[[], Any]] = [
        lambda: frame.write.format("indextables").mode("append").save(path),
        lambda: frame.write.format("indextables").mode("append").saveAsTable("declared.short"),
        lambda: frame.writeTo("declared.short").append(),
    ]
    for write in writes:
        with pytest.raises(
            PySparkException, match=r"EXCEED_LIMIT_LENGTH|VARCHAR\(3\)|CANNOT_FIND_DATA"
        ):
            write()
    with pytest.raises(
        InvalidInputError, match=r"'c' is VARCHAR\(3\), and a value has 4 characters: 'abcd'"
    ):
        its.write(frame, path)
    with pytest.raises(InvalidInputError, match=r"VARCHAR\(3\)"):
        Table.open(path).append([{"id": 4, "c": "abcd"}])
    with pytest.raises(InvalidInputError, match=r"VARCHAR\(2\)"):
        Table.open(path).append([{"id": 4, "m": [("abc", None)]}])
    assert rows(spark, "SELECT id, c, length(c) FROM declared.short") == before
    Table.open(path).append([{"id": 4, "c": "abc    "}])
    spark.sql("UPDATE declared.short SET c = 'z     ' WHERE id = 3")
    assert rows(spark, "SELECT id, c FROM declared.short WHERE id > 2") == [(3, "z  "), (4, "abc")]


def test_describe_shows_the_length_of_a_varchar(spark: SparkSession, home: Path) -> None:
    spark.sql("CREATE TABLE declared.d (c VARCHAR(3), n ARRAY<VARCHAR(2)>) USING indextables")
    described = {row.col_name: row.data_type for row in spark.sql("DESCRIBE declared.d").collect()}
    assert described["c"] == "varchar(3)" and described["n"] == "array<varchar(2)>"


def test_types_of_added_columns_are_kept_as_they_were_declared(
    spark: SparkSession, home: Path
) -> None:
    spark.sql("CREATE TABLE declared.added (id INT) USING indextables")
    spark.sql("ALTER TABLE declared.added ADD COLUMNS (v VARCHAR(2), s STRING COLLATE UTF8_LCASE)")
    spark.sql("INSERT INTO declared.added VALUES (1, 'ab', 'Yes')")
    with pytest.raises(PySparkException, match="EXCEED_LIMIT_LENGTH"):
        spark.sql("INSERT INTO declared.added VALUES (2, 'abc', 'no')")
    assert rows(spark, "SELECT id, v FROM declared.added WHERE s = 'yES'") == [(1, "ab")]


def test_a_column_with_a_collation_compares_as_it_says(spark: SparkSession, home: Path) -> None:
    spark.sql(
        "CREATE TABLE declared.collated (id INT, c STRING COLLATE UTF8_LCASE, m STRING) USING indextables "
        "TBLPROPERTIES ('indexing.typemap.m' = 'text')"
    )
    for number, word in enumerate(["AbC", "b", "ABC", "zz"]):
        spark.sql(f"INSERT INTO declared.collated VALUES ({number}, '{word}', 'w')")
    for condition in ("c = 'abc'", "c < 'B'", "c IN ('aBC')", "m TEXTSEARCH 'w' AND c = 'abc'"):
        assert rows(spark, f"SELECT id FROM declared.collated WHERE {condition}") == [(0,), (2,)], (
            condition
        )
    spark.sql("DELETE FROM declared.collated WHERE c = 'abc'")
    assert rows(spark, "SELECT id FROM declared.collated") == [(1,), (3,)]
    with pytest.raises(PySparkException, match="cannot be a partition column"):
        spark.sql(
            "CREATE TABLE declared.r (id INT, c STRING COLLATE UTF8_LCASE) USING indextables PARTITIONED BY (c)"
        )


def test_an_error_of_the_parser_keeps_its_condition(spark: SparkSession, home: Path) -> None:
    with pytest.raises(PySparkException) as raised:
        spark.sql("CREATE TABLE declared.nanos (id INT, c TIMESTAMP_NTZ(9)) USING indextables")
    assert raised.value.getCondition() in ("FEATURE_NOT_ENABLED", "UNSUPPORTED_DATATYPE")
