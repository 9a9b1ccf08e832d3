"""Settings of a session that change what Spark reads of other files never change the rows of a
table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import indextables.spark as its
from indextables import Table

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
