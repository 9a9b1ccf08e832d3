"""A frame shows the version it was made at; views and catalog tables show the newest."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import indextables.spark as its
from indextables import Table
from tests.spark.programs import run_program

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


def rows(start: int, count: int = 10) -> pa.Table:
    return pa.table(
        {
            "id": list(range(start, start + count)),
            "text": [f"w{i}" for i in range(start, start + count)],
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table.create(str(tmp_path / "t"), schema=SCHEMA)
    made.append(rows(0))
    return made


def loaded(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.format("indextables").load(path)


def with_a_query(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.format("indextables").option("query", "text:w*").load(path)


def native(spark: SparkSession, path: str) -> DataFrame:
    return its.table(spark, path)


def arrow(spark: SparkSession, path: str) -> DataFrame:
    return its.table(spark, path, options={"read.engine": "arrow"})


def found(spark: SparkSession, path: str) -> DataFrame:
    return its.search(spark, path, "text:w*")


@pytest.mark.parametrize("read", [loaded, with_a_query, native, arrow, found])
def test_a_frame_stays_at_its_version(
    spark: SparkSession, table: Table, read: Callable[[SparkSession, str], DataFrame]
) -> None:
    used, unused = read(spark, table.path), read(spark, table.path)
    assert used.count() == 10
    table.append(rows(10))
    assert (used.count(), unused.count()) == (10, 10)
    assert unused.select("text").where("id >= 5").count() == 5
    assert used.join(unused, "id").count() == 10
    assert read(spark, table.path).count() == 20
    table.delete(where="id < 7")
    assert (used.count(), unused.count(), read(spark, table.path).count()) == (10, 10, 13)


@pytest.mark.parametrize("read", [loaded, with_a_query, arrow, found])
def test_a_frame_of_a_table_that_was_created_anew_is_an_error(
    spark: SparkSession, table: Table, read: Callable[[SparkSession, str], DataFrame]
) -> None:
    frame = read(spark, table.path)
    shutil.rmtree(table.path)
    Table.create(table.path, schema=SCHEMA).append(rows(500, 3))
    for use in (frame, frame.select("text")):
        with pytest.raises(Exception, match=r"is another table than the one .* was made for"):
            use.collect()
    assert read(spark, table.path).count() == 3


def test_what_is_damaged_later_does_not_stand_in_the_way_of_a_frame(
    spark: SparkSession, table: Table
) -> None:
    frame = loaded(spark, table.path)
    table.append(rows(10))
    (Path(table.path) / "_transaction_log" / f"{2:020d}.json").write_bytes(b"{")
    assert frame.count() == 10


def test_views_and_catalog_tables_show_the_newest(spark: SparkSession, table: Table) -> None:
    names = {kind: f"{kind}_{uuid4().hex}" for kind in ("view", "global_view", "catalog")}
    spark.sql(f"CREATE TEMP VIEW {names['view']} USING indextables OPTIONS (path '{table.path}')")
    spark.sql(
        f"CREATE GLOBAL TEMP VIEW {names['global_view']} USING indextables OPTIONS (path '{table.path}')"
    )
    spark.sql(f"CREATE TABLE {names['catalog']} USING indextables OPTIONS (path '{table.path}')")
    names["global_view"] = f"global_temp.{names['global_view']}"
    try:
        assert {kind: spark.table(name).count() for kind, name in names.items()} == dict.fromkeys(
            names, 10
        )
        table.append(rows(10))
        spark.sql(f"INSERT INTO {names['view']} SELECT id + 100, text FROM {names['view']}")
        assert {kind: spark.table(name).count() for kind, name in names.items()} == dict.fromkeys(
            names, 40
        )
    finally:
        spark.sql(f"DROP TABLE {names['catalog']}")


def test_the_schema_of_a_frame_pins_no_other_frame(spark: SparkSession, table: Table) -> None:
    schema = loaded(spark, table.path).schema
    table.append(rows(10))
    assert spark.read.format("indextables").schema(schema).load(table.path).count() == 20


def test_a_copy_of_a_frame_carries_no_mark_of_it(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    its.write(loaded(spark, table.path), str(tmp_path / "copy"))
    assert "indextables" not in Table.open(str(tmp_path / "copy")).metadata.schema_string


PLAIN = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
import pyarrow as pa
from pyspark.sql import SparkSession
from indextables import Table
from indextables.spark.sessions import local_defaults

builder = SparkSession.builder.master("local[2]")
for key, value in local_defaults().items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
table = Table.create("t", schema=pa.schema([("id", pa.int64())]))
table.append(pa.table({"id": list(range(10))}))
path = os.path.abspath("t")
frame = spark.read.format("indextables").load(path)
spark.sql(f"CREATE TABLE kept USING indextables OPTIONS (path '{path}')")
table.append(pa.table({"id": list(range(10, 20))}))
print(frame.count(), frame.where("id > 5").count(), spark.read.format("indextables").load(path).count())
print(spark.read.schema(frame.schema).format("indextables").load(path).count(), spark.table("kept").count())
spark.stop()
"""


def test_without_the_extension_too(tmp_path: Path) -> None:
    assert run_program(PLAIN, tmp_path).splitlines() == ["10 4 20", "20 20"]
