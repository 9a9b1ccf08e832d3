"""Columns of vectors in tables that Spark writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import indextables.spark as its
from indextables import Table


def test_spark_writes_vectors_of_the_declared_dimension(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    spark.sql(
        f"CREATE TABLE indextables.`{path}` (id BIGINT, v ARRAY<FLOAT>) "
        "OPTIONS ('indexing.vectorDimension.v' = '2', 'indexing.vectorMetric.v' = 'l2')"
    )
    rows = [(1, [1.0, 0.0]), (2, [0.0, 1.0]), (3, None)]
    its.write(spark.createDataFrame(rows, "id long, v array<float>"), path)
    spark.sql(f"INSERT INTO indextables.`{path}` VALUES (4, array(0.5, 0.5))")
    spark.sql(f"UPDATE indextables.`{path}` SET v = array(0.0, 9.0) WHERE id = 2")
    wrong = spark.createDataFrame([(5, [1.0, 2.0, 3.0])], "id long, v array<float>")
    for write in (
        lambda: its.write(wrong, path),
        lambda: spark.sql(f"INSERT INTO indextables.`{path}` VALUES (5, array(1.0))"),
        lambda: spark.sql(f"UPDATE indextables.`{path}` SET v = array(1.0) WHERE id = 1"),
    ):
        with pytest.raises(Exception, match="holds vectors of 2 finite numbers"):
            write()
    found = Table.open(path).search(vector={"v": [0.0, 8.0]}, limit=5, columns=["id"])
    assert found["id"].to_pylist() == [2, 4, 1]
    assert found["_distance"].to_pylist() == pytest.approx([1.0, 7.516648, 8.062258])


def test_a_table_with_substring_columns_can_be_updated(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    its.write(
        spark.createDataFrame([(1, "ab-12")], "id long, code string"), path, substring=["code"]
    )
    spark.sql(f"UPDATE indextables.`{path}` SET code = 'cd-34' WHERE id = 1")
    assert Table.open(path).count(where="code LIKE '%d-3%'") == 1
