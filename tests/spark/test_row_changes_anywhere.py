"""DELETE, UPDATE and MERGE INTO wherever SQL lets them stand: after WITH, under EXPLAIN, in scripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

Rows = list[tuple[int, str, int]]
ROWS: Rows = [(1, "a", 10), (2, "b", 20), (3, "c", 30)]


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("anywhere")
    spark.sql(f"CREATE DATABASE anywhere LOCATION '{folder}/anywhere'")
    spark.sql("CREATE TABLE anywhere.t (id INT, c STRING, n INT) USING indextables")
    yield folder
    spark.sql("DROP DATABASE anywhere CASCADE")


@pytest.fixture(autouse=True)
def table(spark: SparkSession, home: Path) -> None:
    spark.sql("INSERT OVERWRITE anywhere.t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)")


def content(spark: SparkSession) -> Rows:
    return sorted((row.id, row.c, row.n) for row in spark.table("anywhere.t").collect())


STATEMENTS: list[tuple[str, Rows]] = [
    ("WITH s AS (SELECT 1 AS id) DELETE FROM anywhere.t WHERE id IN (SELECT id FROM s)", ROWS[1:]),
    (
        "WITH s AS (SELECT 2 AS id) UPDATE anywhere.t SET c = 'w' WHERE id = (SELECT max(id) FROM s)",
        [ROWS[0], (2, "w", 20), ROWS[2]],
    ),
    (
        "WITH s AS (SELECT 1 AS id, 'm' AS c, 5 AS n UNION ALL SELECT 9, 'i', 6) "
        "MERGE INTO anywhere.t t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        [(1, "m", 5), *ROWS[1:], (9, "i", 6)],
    ),
    (
        "WITH one AS (SELECT 1 AS id), s AS (SELECT * FROM one) "
        "MERGE INTO anywhere.t t USING s AS x ON t.id = x.id WHEN MATCHED THEN DELETE",
        ROWS[1:],
    ),
    (
        "BEGIN DELETE FROM anywhere.t WHERE id = 1; UPDATE anywhere.t SET c = 's' WHERE id = 2; "
        "MERGE INTO anywhere.t t USING (SELECT 7 AS id, 'n' AS c, 1 AS n) s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT *; END",
        [(2, "s", 20), ROWS[2], (7, "n", 1)],
    ),
    ("BEGIN DECLARE v INT = 2; DELETE FROM anywhere.t WHERE id = v; END", [ROWS[0], ROWS[2]]),
    (
        "BEGIN DECLARE i INT = 0; WHILE i < 2 DO UPDATE anywhere.t SET n = n + 1 WHERE id > 1; SET i = i + 1; "
        "END WHILE; END",
        [ROWS[0], (2, "b", 22), (3, "c", 32)],
    ),
    (
        "BEGIN IF (SELECT count(*) FROM anywhere.t) > 2 THEN WITH s AS (SELECT 3 AS id) DELETE FROM anywhere.t "
        "WHERE id IN (SELECT id FROM s); END IF; END",
        ROWS[:2],
    ),
    ("EXECUTE IMMEDIATE 'DELETE FROM anywhere.t WHERE id = ?' USING 1", ROWS[1:]),
]


@pytest.mark.parametrize(("statement", "rows"), STATEMENTS, ids=[sql[:40] for sql, _ in STATEMENTS])
def test_a_row_change_is_carried_out_wherever_it_stands(spark: SparkSession, statement: str, rows: Rows) -> None:
    spark.sql(statement)
    assert content(spark) == rows


def test_a_script_changes_rows_of_the_table_that_it_has_made(spark: SparkSession) -> None:
    spark.sql(
        "BEGIN CREATE TABLE anywhere.made (id INT) USING indextables; INSERT INTO anywhere.made VALUES (1), (2); "
        "DELETE FROM anywhere.made WHERE id = 1; END"
    )
    assert [row.id for row in spark.table("anywhere.made").collect()] == [2]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM anywhere.t WHERE id = 1",
        "UPDATE anywhere.t SET c = 'x'",
        "MERGE INTO anywhere.t t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "WITH s AS (SELECT 1 AS id) DELETE FROM anywhere.t WHERE id IN (SELECT id FROM s)",
    ],
)
@pytest.mark.parametrize("mode", ["", "EXTENDED", "FORMATTED"])
def test_explain_shows_a_row_change_and_does_not_run_it(spark: SparkSession, mode: str, statement: str) -> None:
    plan = spark.sql(f"EXPLAIN {mode} {statement}").collect()[0][0]
    assert "IndexTables" in plan and "Error occurred" not in plan
    assert content(spark) == ROWS


def test_a_row_change_on_a_table_of_another_format_is_left_to_spark(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE IF NOT EXISTS anywhere.plain (id INT) USING parquet")
    for statement in (
        "WITH s AS (SELECT 1 AS id) DELETE FROM anywhere.plain WHERE id IN (SELECT id FROM s)",
        "BEGIN DELETE FROM anywhere.plain WHERE id = 1; END",
    ):
        with pytest.raises(PySparkException, match=r"UNSUPPORTED_FEATURE\.TABLE_OPERATION"):
            spark.sql(statement)


def test_an_error_in_a_script_keeps_its_class(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="INDEXTABLES_TABLE_NOT_FOUND"):
        spark.sql("BEGIN SELECT * FROM indextables.`/no/such/table`; END")


def test_merge_into_of_a_frame_is_refused_with_what_to_write(spark: SparkSession) -> None:
    spark.createDataFrame([(1, "m", 1)], "id INT, c STRING, n INT").createOrReplaceTempView("changed_rows")
    source = spark.table("changed_rows").alias("s")
    with pytest.raises(PySparkException, match=r"INDEXTABLES_UNSUPPORTED.*Write MERGE INTO"):
        source.mergeInto("anywhere.t", f.expr("t.id = s.id")).whenMatched().delete().merge()
    assert content(spark) == ROWS
