"""A session that caches snapshots reads what it wrote itself at once, through every entry point."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import indextables.spark as its
from indextables import Table

KEY = "spark.indextables.transaction.cache.expirationSeconds"


@pytest.fixture
def caching(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set(KEY, "300")
    yield spark
    spark.conf.unset(KEY)


def counts(spark: SparkSession, path: str) -> set[int]:
    """The number of rows as each way of reading returns it."""
    return {
        spark.read.format("indextables").load(path).count(),
        len(spark.read.format("indextables").load(path).collect()),
        spark.sql(f"SELECT id FROM indextables.`{path}`").count(),
        its.table(spark, path).count(),
        Table.open(path, options={"transaction.cache.expirationSeconds": 300}).count(),
    }


def test_every_reader_of_a_session_sees_each_write_at_once(
    caching: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    its.write(caching.range(20), path)
    assert counts(caching, path) == {20}
    caching.range(20, 25).write.format("indextables").mode("append").save(path)
    assert counts(caching, path) == {25}
    caching.range(3).write.format("indextables").mode("overwrite").save(path)
    assert counts(caching, path) == {3}
    its.write(caching.range(3, 5), path, mode="append")
    assert counts(caching, path) == {5}
    caching.sql(f"DELETE FROM indextables.`{path}` WHERE id = 1")
    assert counts(caching, path) == {4}
    Table.open(path).delete(where="id = 2")
    assert counts(caching, path) == {3}
    caching.sql(f"RESTORE INDEXTABLES '{path}' TO VERSION 1")
    assert counts(caching, path) == {20}
