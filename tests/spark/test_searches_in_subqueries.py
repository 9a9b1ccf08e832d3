"""Searches in correlated subqueries, over tables with deleted rows: the rows that Spark finds with
LIKE.
"""

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
    spark.sql(
        "INSERT INTO nested.t VALUES (1, 'timeout a', 1), (2, 'fine', 1), (3, 'timeout b', 2), (4, 'timeout', 2)"
    )
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
    f"SELECT id, (SELECT count(*) FILTER (WHERE {TIMEOUT}) FROM nested.t x WHERE x.k = p.k) FROM nested.p",
    f"SELECT id, (SELECT count(*) FILTER (WHERE {TIMEOUT} AND x.id > 1) FROM nested.t x WHERE x.k = p.k AND x.id < 9) "
    "FROM nested.p",
    f"SELECT id, (SELECT sum(CASE WHEN {TIMEOUT} THEN x.id ELSE 0 END) FROM nested.t x WHERE x.k = p.k) FROM nested.p",
    f"SELECT id, (SELECT count(DISTINCT x.id) FILTER (WHERE {TIMEOUT}) FROM nested.t x WHERE x.k = p.k) FROM nested.p",
    f"SELECT id, (SELECT max(x.id) FILTER (WHERE NOT {TIMEOUT}) FROM nested.t x JOIN nested.p y ON x.k = y.k "
    "WHERE x.k = p.k) FROM nested.p",
    f"SELECT y.id FROM nested.t y WHERE y.id = (SELECT max(x.id) FROM nested.t x WHERE x.k = y.k AND {TIMEOUT})",
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_search_in_a_correlated_subquery_finds_what_like_finds(
    spark: SparkSession, query: str
) -> None:
    expected = spark.sql(query.replace(TIMEOUT, "x.m LIKE '%timeout%'")).collect()
    assert sorted(map(repr, spark.sql(query).collect())) == sorted(map(repr, expected))


def test_a_search_of_all_columns_in_a_filtered_aggregation_finds_what_like_finds(
    spark: SparkSession,
) -> None:
    query = "SELECT id, (SELECT count(*) FILTER (WHERE {}) FROM nested.t x WHERE x.k = p.k) AS n FROM nested.p ORDER BY id"
    expected = spark.sql(query.format("x.m LIKE '%timeout%'")).collect()
    assert spark.sql(query.format("* TEXTSEARCH 'timeout'")).collect() == expected


def test_the_place_of_a_row_next_to_a_search_in_a_filtered_aggregation_is_refused(
    spark: SparkSession,
) -> None:
    query = (
        "SELECT id, (SELECT max(x._metadata.row_index) FILTER (WHERE x.m TEXTSEARCH 'timeout') FROM nested.t x "
        "WHERE x.k = p.k) FROM nested.p"
    )
    with pytest.raises(PySparkException, match="INDEXTABLES_UNSUPPORTED"):
        spark.sql(query).collect()
