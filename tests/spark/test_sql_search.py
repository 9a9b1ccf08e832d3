"""Search operators in SQL: over the data source and over Spark's own scan, in every corner of a
query.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import indextables.spark as its
from indextables import Table
from tests.spark.compare import assert_same_rows
from tests.spark.logs import Logs, make_logs

HAS_TIMEOUT = "array_contains(split(message, ' '), 'timeout')"
HAS_DISK = "array_contains(split(message, ' '), 'disk')"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    return make_logs(tmp_path_factory.mktemp("search"))


@pytest.fixture(scope="module", params=["source", "native"], autouse=True)
def view(request: pytest.FixtureRequest, spark: SparkSession, logs: Logs) -> Iterator[str]:
    """The table as view `t`: read by the data source, or by Spark itself; its Parquet twin as view
    `plain`.
    """
    if request.param == "source":
        spark.sql(f"CREATE OR REPLACE TEMP VIEW t USING indextables OPTIONS (path '{logs.path}')")
    else:
        its.table(spark, logs.path).createOrReplaceTempView("t")
    spark.read.parquet(logs.parquet).createOrReplaceTempView("plain")
    yield str(request.param)
    spark.catalog.dropTempView("t")
    spark.catalog.dropTempView("plain")


@pytest.mark.parametrize(
    ("query", "plain"),
    [
        (
            "SELECT * FROM t WHERE message TEXTSEARCH 'timeout'",
            f"SELECT * FROM plain WHERE {HAS_TIMEOUT}",
        ),
        (
            "SELECT id FROM t WHERE message indexquery 'timeout'",
            f"SELECT id FROM plain WHERE {HAS_TIMEOUT}",
        ),
        (
            "SELECT id FROM t WHERE indexquery(message, 'timeout')",
            f"SELECT id FROM plain WHERE {HAS_TIMEOUT}",
        ),
        (
            "SELECT count(*) FROM t WHERE * TEXTSEARCH 'timeout'",
            f"SELECT count(*) FROM plain WHERE {HAS_TIMEOUT}",
        ),
        (
            "SELECT id FROM t WHERE _indexall indexquery 'timeout'",
            f"SELECT id FROM plain WHERE {HAS_TIMEOUT}",
        ),
        (
            "SELECT id FROM t WHERE indexqueryall('message:timeout OR level:ERROR')",
            f"SELECT id FROM plain WHERE {HAS_TIMEOUT} OR level = 'ERROR'",
        ),
        (
            "SELECT level, count(*), min(at) FROM t WHERE message TEXTSEARCH 'timeout AND disk' AND ms > 10 "
            "AND level FIELDMATCH 'ERROR' GROUP BY level",
            f"SELECT level, count(*), min(at) FROM plain WHERE {HAS_TIMEOUT} AND {HAS_DISK} AND ms > 10 "
            "AND level = 'ERROR' GROUP BY level",
        ),
        (
            "WITH c AS (SELECT * FROM t WHERE message TEXTSEARCH 'timeout') SELECT c.id, d.level FROM c JOIN t d "
            "ON c.id = d.id AND d.message TEXTSEARCH 'disk' WHERE c.level = 'WARN'",
            f"SELECT id, level FROM plain WHERE {HAS_TIMEOUT} AND {HAS_DISK} AND level = 'WARN'",
        ),
        (
            "SELECT id FROM t a WHERE a.id IN (SELECT id FROM t WHERE message TEXTSEARCH 'timeout') AND EXISTS "
            "(SELECT 1 FROM t b WHERE b.id = a.id AND b.message TEXTSEARCH 'disk')",
            f"SELECT id FROM plain WHERE {HAS_TIMEOUT} AND {HAS_DISK}",
        ),
        (
            "SELECT id FROM t WHERE message TEXTSEARCH 'timeout' UNION ALL SELECT id FROM t WHERE message TEXTSEARCH 'disk'",
            f"SELECT id FROM plain WHERE {HAS_TIMEOUT} UNION ALL SELECT id FROM plain WHERE {HAS_DISK}",
        ),
        (
            "SELECT * FROM (SELECT id, message AS m FROM t ORDER BY id) WHERE m TEXTSEARCH 'timeout'",
            f"SELECT id, message AS m FROM plain WHERE {HAS_TIMEOUT}",
        ),
        (
            "SELECT p.id FROM plain p LEFT JOIN t ON p.id = t.id AND t.message TEXTSEARCH 'timeout' WHERE t.id IS NULL",
            f"SELECT id FROM plain WHERE NOT coalesce({HAS_TIMEOUT}, false)",
        ),
        (
            "SELECT t.id FROM t JOIN plain p ON t.message = p.message AND t.id = p.id WHERE t.message TEXTSEARCH 'timeout'",
            f"SELECT id FROM plain WHERE {HAS_TIMEOUT}",
        ),
        (
            "SELECT id FROM t WHERE message TEXTSEARCH 'timeout' /* and not this: */ AND message <> 'a TEXTSEARCH ''b'''",
            f"SELECT id FROM plain WHERE {HAS_TIMEOUT}",
        ),
    ],
)
def test_searches_find_what_plain_sql_finds(spark: SparkSession, query: str, plain: str) -> None:
    assert_same_rows(spark.sql(query), spark.sql(plain))


def test_the_dataframe_api(spark: SparkSession) -> None:
    wanted = spark.table("plain").where(HAS_TIMEOUT).select("id")
    table = spark.table("t")
    assert_same_rows(table.where("message TEXTSEARCH 'timeout'").select("id"), wanted)
    assert_same_rows(
        table.select("id", "message").filter(f.expr("message indexquery 'timeout'")).select("id"),
        wanted,
    )
    assert_same_rows(
        spark.sql("SELECT id FROM t WHERE message TEXTSEARCH :q", args={"q": "timeout"}), wanted
    )
    assert_same_rows(
        spark.sql("SELECT id FROM t WHERE message TEXTSEARCH ?", args=["timeout"]), wanted
    )


def test_a_view_over_a_search(spark: SparkSession) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW found AS SELECT id, day, level FROM t WHERE message TEXTSEARCH 'timeout'"
    )
    wanted = (
        spark.table("plain")
        .where(f"{HAS_TIMEOUT} and level = 'ERROR' and day > '2024-03-09'")
        .select("id")
    )
    assert_same_rows(
        spark.sql("SELECT id FROM found WHERE level = 'ERROR' AND day > '2024-03-09'"), wanted
    )


def test_a_cached_search(spark: SparkSession) -> None:
    found = spark.table("t").where("message TEXTSEARCH 'timeout'").cache()
    try:
        assert found.count() == spark.table("plain").where(HAS_TIMEOUT).count()
        assert (
            spark.table("t").where("message TEXTSEARCH 'disk'").count()
            == spark.table("plain").where(HAS_DISK).count()
        )
        again = spark.sql("SELECT * FROM t WHERE message TEXTSEARCH 'timeout'")
        assert "InMemoryTableScan" in again._jdf.queryExecution().toString()
    finally:
        found.unpersist()


def test_only_what_is_wanted_is_read(spark: SparkSession) -> None:
    spark.conf.set("spark.indextables.read.driverSplits", "0")
    frame = spark.sql(
        "SELECT at FROM t WHERE message TEXTSEARCH 'timeout' AND day = '2024-03-09' AND level LIKE 'E%'"
    )
    plan = frame._jdf.queryExecution().executedPlan().toString()
    spark.conf.unset("spark.indextables.read.driverSplits")
    assert 'searches=[["textsearch","message","timeout"]]' in plan
    assert '["STARTS_WITH",{"column":["level"]}' in plan
    scanned = plan[plan.index("BatchScan") :].split("]")[0]
    # The scan applies the filters itself, so their columns need not leave it.
    assert "at#" in scanned and not any(
        column in scanned for column in ("day#", "level#", "message#")
    )


def test_splits_of_both_kinds_are_searched_once(
    spark: SparkSession, table_of_another_engine: Table, view: str
) -> None:
    table = table_of_another_engine
    table.append(table.scan().read_all().slice(0, 3))
    text = next(
        name for name in table.schema.names if pa.types.is_string(table.schema.field(name).type)
    )
    frame = (
        spark.read.format("indextables").load(table.path)
        if view == "source"
        else its.table(spark, table.path)
    )
    everything: DataFrame = frame.where(f"{text} indexquery '*'")
    assert everything.count() == table.count(query=f"{text}:*")
