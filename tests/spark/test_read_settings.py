"""Settings of a session that change what Spark reads of other files never change the rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import indextables.spark as its
from indextables import Table
from tests.spark.programs import run_program

IGNORING = ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles")


@contextmanager
def settings(spark: SparkSession, *keys: str, value: str = "true") -> Iterator[None]:
    for key in keys:
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in keys:
            spark.conf.unset(key)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table.create(str(tmp_path / "t"), schema=pa.schema([("id", pa.int64())]))
    for n in range(3):
        made.append(pa.table({"id": list(range(n * 100, n * 100 + 100))}))
    return made


def missing(split: Path) -> None:
    split.unlink()


def emptied(split: Path) -> None:
    split.write_bytes(b"")


def cut(split: Path) -> None:
    split.write_bytes(split.read_bytes()[:200])


def garbled(split: Path) -> None:
    split.write_bytes(b"x" * split.stat().st_size)


def through_spark(spark: SparkSession, path: str) -> DataFrame:
    return its.table(spark, path)


def through_the_source(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.format("indextables").load(path)


@pytest.mark.parametrize("read", [through_spark, through_the_source])
@pytest.mark.parametrize("damage", [missing, emptied, cut, garbled])
def test_a_split_that_is_gone_or_damaged_is_an_error_that_names_it(
    spark: SparkSession,
    table: Table,
    damage: Callable[[Path], None],
    read: Callable[[SparkSession, str], DataFrame],
) -> None:
    before = read(spark, table.path)
    split = sorted(Path(table.path).rglob("*.split"))[1]
    damage(split)
    with settings(spark, *IGNORING):
        for frame in (before, read(spark, table.path)):
            with pytest.raises(Exception, match=split.name):
                frame.collect()


CONNECT = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pathlib import Path
import pyarrow as pa
from pyspark.sql import SparkSession
import indextables.spark as its
from indextables import Table
from indextables.spark.sessions import local_defaults

builder = SparkSession.builder.remote("local[2]")
for key, value in local_defaults().items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
made = Table.create("t", schema=pa.schema([("id", pa.int64())]))
for n in range(3):
    made.append(pa.table({"id": list(range(n * 100, n * 100 + 100))}))
spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
frame = its.table(spark, "t")
print("parquet", "parquet" in frame._explain_string(extended=False), len(frame.collect()))
split = sorted(Path("t").rglob("*.split"))[1]
kept = split.read_bytes()
for damage in (b"x" * len(kept), None):
    split.unlink()
    if damage is not None:
        split.write_bytes(damage)
    source = lambda: spark.read.format("indextables").load(os.path.abspath("t"))
    for made in (lambda: frame, lambda: its.table(spark, "t"), source):
        try:
            print("read", len(made().collect()))
        except Exception as error:
            print("error", split.name in str(error))
    split.write_bytes(kept)
print("whole", len(its.table(spark, "t").collect()))
spark.stop()
"""


def test_over_spark_connect_too(tmp_path: Path) -> None:
    told = run_program(CONNECT, tmp_path).splitlines()
    assert told == ["parquet True 300", *["error True"] * 6, "whole 300"]
