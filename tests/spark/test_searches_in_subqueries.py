"""Searches in correlated subqueries, over tables with deleted rows: the rows that Spark finds with LIKE."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("nested")
    spark.sql(f"CREATE DATABASE nested LOCATION '{folder}/nested'")
    spark.sql(
        "CREATE TABLE nested.t (id INT, m STRING, k INT) USING indextables "
        "TBLPROPERTIES ('indexing.typemap.m' = 'text', 'delete.mode' = 'vector')"
    )
    spark.sql("INSERT INTO nested.t VALUES (1, 'timeout a', 1), (2, 'fine', 1), (3, 'timeout b', 2), (4, 'timeout', 2)")
    spark.sql("DELETE FROM nested.t WHERE id = 4")
    spark.sql("CREATE TABLE nested.p (id INT, k INT) USING parquet")
    spark.sql("INSERT INTO nested.p VALUES (1, 1), (2, 2), (3, 3)")
    yield folder
    spark.sql("DROP DATABASE nested CASCADE")


TIMEOUT = "x.m TEXTSEARCH 'timeout'"
QUERIES = [
    f"SELECT id FROM nested.t x WHERE EXISTS (SELECT 1 FROM nested.p WHERE p.k = x.k AND {TIMEOUT})",
    f"SELECT id FROM nested.t x WHERE NOT EXISTS (SELECT 1 FROM nested.p WHERE p.k = x.k AND {TIMEOUT})",
    f"SELECT id FROM nested.t x WHERE k IN (SELECT k FROM nested.p WHERE p.id < 3 AND ({TIMEOUT} OR p.id = 2))",
    f"SELECT id, EXISTS (SELECT 1 FROM nested.p WHERE p.k = x.k AND {TIMEOUT}) FROM nested.t x",
    f"SELECT id FROM nested.p WHERE EXISTS (SELECT 1 FROM nested.t x WHERE x.k = p.k AND {TIMEOUT})",
    f"SELECT id FROM nested.p WHERE NOT EXISTS (SELECT 1 FROM nested.t x WHERE x.k = p.k AND {TIMEOUT})",
    f"SELECT id, (SELECT count(*) FROM nested.t x WHERE x.k = p.k AND {TIMEOUT}) FROM nested.p",
    f"SELECT id, (SELECT max(x.id) FROM nested.t x WHERE x.k = p.k AND NOT {TIMEOUT}) FROM nested.p",
    f"SELECT y.id FROM nested.t y WHERE y.id = (SELECT max(x.id) FROM nested.t x WHERE x.k = y.k AND {TIMEOUT})",
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_search_in_a_correlated_subquery_finds_what_like_finds(spark: SparkSession, query: str) -> None:
    expected = spark.sql(query.replace(TIMEOUT, "x.m LIKE '%timeout%'")).collect()
    assert sorted(map(repr, spark.sql(query).collect())) == sorted(map(repr, expected))


def test_a_search_that_a_masked_scan_cannot_answer_is_refused(spark: SparkSession) -> None:
    query = (
        "SELECT id, (SELECT count(*) FILTER (WHERE x.m TEXTSEARCH 'timeout') FROM nested.t x WHERE x.k = p.k) "
        "FROM nested.p ORDER BY id"
    )
    with pytest.raises(PySparkException) as refused:
        spark.sql(query).collect()
    assert (refused.value.getCondition() or "").startswith("INDEXTABLES_"), refused.value
