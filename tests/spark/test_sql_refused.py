"""Searches that cannot be done are refused, and mistakes in them explained; what only looks like
one is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException
from pyspark.sql import SparkSession

import indextables.spark as its
from indextables import Table
from tests.spark.logs import Logs, make_logs

NOT_PUSHED = "A search must be on a column"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    return make_logs(tmp_path_factory.mktemp("refused"), commits=1)


@pytest.fixture(scope="module", autouse=True)
def views(spark: SparkSession, logs: Logs) -> Iterator[None]:
    """The table as view `t`, as Spark reads it itself as view `n`, and its Parquet twin as view
    `plain`.
    """
    spark.sql(f"CREATE OR REPLACE TEMP VIEW t USING indextables OPTIONS (path '{logs.path}')")
    its.table(spark, logs.path).createOrReplaceTempView("n")
    spark.read.parquet(logs.parquet).createOrReplaceTempView("plain")
    yield
    for name in ("t", "n", "plain"):
        spark.catalog.dropTempView(name)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM (SELECT upper(message) AS m FROM t LIMIT 5) WHERE m TEXTSEARCH 'timeout' OR m = 'x'",
        "SELECT * FROM n JOIN t ON n.id = t.id WHERE * TEXTSEARCH 'timeout' OR n.id = 1",
        "SELECT textsearch(max(message), 'timeout') FROM n",
        "SELECT * FROM plain WHERE message TEXTSEARCH 'timeout'",
        "SELECT * FROM plain WHERE * TEXTSEARCH 'timeout'",
        "SELECT * FROM VALUES ('timeout'), (null) AS v(message) WHERE message TEXTSEARCH 'timeout'",
        "SELECT * FROM t WHERE textsearch(upper(message), 'timeout')",
        "SELECT * FROM t JOIN plain p ON t.id = p.id AND p.message TEXTSEARCH 'timeout'",
        "SELECT level FROM t GROUP BY level HAVING max(message) IS NOT NULL AND indexqueryall('x')",
        "SELECT * FROM t WHERE indexquery(message, null)",
    ],
)
def test_a_search_that_cannot_be_done_is_refused(spark: SparkSession, query: str) -> None:
    with pytest.raises(Exception, match=NOT_PUSHED):
        spark.sql(query).collect()


def test_a_search_knows_the_files_of_its_rows(spark: SparkSession, logs: Logs) -> None:
    timeouts = its.table(spark, logs.path).where("message TEXTSEARCH 'timeout'")
    names = {row[0] for row in timeouts.selectExpr("_metadata.file_name").collect()}
    assert names and names <= {
        path.rpartition("/")[2] for path in Table.open(logs.path).files()["path"].to_pylist()
    }


def test_a_search_above_a_limit_is_refused(spark: SparkSession, logs: Logs) -> None:
    best = (
        spark.read.format("indextables")
        .option("query", "message:disk")
        .option("limit", "5")
        .load(logs.path)
    )
    with pytest.raises(Exception, match=NOT_PUSHED):
        best.where("message TEXTSEARCH 'timeout'").collect()


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("message TEXTSEARCH 'timeout AND ('", "QuerySyntaxError"),
        ("level TEXTSEARCH 'ERROR'", "Write level FIELDMATCH"),
        ("message FIELDMATCH 'timeout'", "Write message TEXTSEARCH"),
        ("* TEXTSEARCH 'nothing:x'", "nothing"),
    ],
)
def test_mistakes_in_a_search_are_explained(spark: SparkSession, condition: str, said: str) -> None:
    with pytest.raises(AnalysisException, match=said):
        spark.sql(f"SELECT * FROM t WHERE {condition}").collect()


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (
            "message indexquery 5",
            "indexquery needs a text in quotes on its right, and there is '5'",
        ),
        ("message TextSearch null", "Write message TextSearch 'words'"),
        ("t.message indexquery level", r"indexquery\(t.message, concat"),
        ("level = 'x' AND message indexquery concat('di', 'sk')", r"indexquery\(message, concat"),
        ("message TEXTSEARCH 'a' OR * FIELDMATCH 5", r"fieldmatchall\(concat"),
    ],
)
def test_an_operator_without_a_text_is_explained(
    spark: SparkSession, condition: str, said: str
) -> None:
    with pytest.raises(IllegalArgumentException, match=said):
        spark.sql(f"SELECT * FROM t WHERE {condition}")
    with pytest.raises(IllegalArgumentException, match=said):
        spark.table("t").where(condition)


@pytest.mark.parametrize(
    ("condition", "operator"),
    [
        ("message TEXTSERCH 'timeout'", "TEXTSEARCH"),
        ("t.message TextSaerch 'timeout'", "TEXTSEARCH"),
        ("level FIELDMACH 'ERROR' AND id > 3", "FIELDMATCH"),
        ("id > 3 AND message indexqery :words", "INDEXQUERY"),
        ("* TEXT_SEARCH 'timeout'", "TEXTSEARCH"),
        ("message TEXT SEARCH 'timeout'", "TEXTSEARCH"),
        ("message TEXTSEARCH 'timeout' OR level FIELD MATCH 'ERROR'", "FIELDMATCH"),
        ("NOT message TEXTSEACH 'timeout'", "TEXTSEARCH"),
        ("(CASE WHEN message TEXTSEACH 'timeout' THEN 1 END) = 1", "TEXTSEARCH"),
    ],
)
def test_a_misspelt_operator_is_named_with_the_right_one(
    spark: SparkSession, condition: str, operator: str
) -> None:
    with pytest.raises(IllegalArgumentException, match=f"Write .* {operator} ") as raised:
        spark.sql(f"SELECT * FROM t WHERE {condition}")
    assert raised.value.getCondition() == "INDEXTABLES_QUERY_SYNTAX"
    with pytest.raises(IllegalArgumentException, match=operator):
        spark.table("t").where(condition)


def test_a_mistake_elsewhere_stays_sparks(spark: SparkSession) -> None:
    for sql in (
        "SELECT id FROM t indexquery WHERE id = = 5",
        "SELEC id indexquery 5",
        "SELECT id FROM t WHERE message LIEK 'x'",
        "SELECT id FROM t WHERE message search 'x'",
        "SELECT id textserch FROM t WHERE id = = 'x'",
    ):
        with pytest.raises(ParseException):
            spark.sql(sql)
    assert spark.sql("SELECT id textsearch FROM t indexquery LIMIT 1").columns == ["textsearch"]


@pytest.mark.parametrize(
    "call", ["textsearch(message)", "indexqueryall('a', 'b')", "indexquery(message, level)"]
)
def test_wrong_calls_are_explained(spark: SparkSession, call: str) -> None:
    with pytest.raises(Exception, match="takes"):
        spark.sql(f"SELECT * FROM t WHERE {call}").collect()


def test_strings_comments_and_quoted_names_are_left_alone(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 'col TEXTSEARCH ''x''', 1 AS `col TEXTSEARCH 'x'` -- indexquery")
    assert frame.columns[1] == "col TEXTSEARCH 'x'"
    assert "TEXTSEARCH" in frame.collect()[0][0]
    assert spark.sql("SELECT /* col TEXTSEARCH 'x' */ 1 AS textsearch").columns == ["textsearch"]
