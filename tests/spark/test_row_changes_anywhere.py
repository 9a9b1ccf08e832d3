"""DELETE, UPDATE and MERGE INTO wherever SQL lets them stand: after WITH, under EXPLAIN, in
scripts.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f

Rows = list[tuple[int, str, int]]
ROWS: Rows = [(1, "a", 10), (2, "b", 20), (3, "c", 30)]


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("anywhere")
    spark.conf.set("spark.sql.scripting.enabled", "true")  # off by default in Spark 4.0
    spark.sql(f"CREATE DATABASE anywhere LOCATION '{folder}/anywhere'")
    spark.sql("CREATE TABLE anywhere.t (id INT, c STRING, n INT) USING indextables")
    yield folder
    spark.sql("DROP DATABASE anywhere CASCADE")


@pytest.fixture(autouse=True)
def table(spark: SparkSession, home: Path) -> None:
    spark.sql("INSERT OVERWRITE anywhere.t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)")


def content(spark: SparkSession) -> Rows:
    return sorted((row.id, row.c, row.n) for row in spark.table("anywhere.t").collect())


def newest(spark: SparkSession, table: str) -> Row:
    return spark.sql(f"DESCRIBE HISTORY {table}").collect()[0]


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
def test_a_row_change_is_carried_out_wherever_it_stands(
    spark: SparkSession, statement: str, rows: Rows
) -> None:
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
def test_explain_shows_a_row_change_and_does_not_run_it(
    spark: SparkSession, mode: str, statement: str
) -> None:
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


@pytest.mark.parametrize("name", ["anywhere.t", "indextables.`{home}/anywhere/t`"])
def test_merge_into_of_a_frame_changes_the_rows(spark: SparkSession, home: Path, name: str) -> None:
    source = spark.createDataFrame(
        [(1, "m", 5), (2, "gone", 0), (9, "i", 6)], "id INT, c STRING, n INT"
    ).alias("s")
    target = name.format(home=home)
    (
        source.mergeInto(target, f.expr(f"{target}.id = s.id"))
        .whenMatched(f.expr("s.n = 0"))
        .delete()
        .whenMatched()
        .updateAll()
        .whenNotMatched()
        .insertAll()
        .whenNotMatchedBySource()
        .update({"c": f.lit("rest")})
        .merge()
    )
    assert content(spark) == [(1, "m", 5), (3, "rest", 30), (9, "i", 6)]


def test_merge_into_of_a_frame_names_a_column_that_is_not_there(spark: SparkSession) -> None:
    source = spark.createDataFrame([(1,)], "id INT").alias("s")
    merge = (
        source.mergeInto("anywhere.t", f.expr("t.id = s.id"))
        .whenMatched()
        .update({"nope": f.lit(1)})
    )
    with pytest.raises(PySparkException, match=r"UNRESOLVED_COLUMN.*nope"):
        merge.merge()
    assert content(spark) == ROWS


def test_merge_into_of_a_frame_works_in_a_session_that_ran_queries_before(
    spark: SparkSession, home: Path
) -> None:
    program = f"""
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f
import indextables.spark as its

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
assert spark.range(3).count() == 3
its.install(spark)
its.write(spark.range(3), "{home}/late")
source = spark.createDataFrame([(1,), (7,)], "id LONG").alias("s")
source.mergeInto("indextables.`{home}/late`", f.expr("indextables.`{home}/late`.id = s.id")).whenMatched().delete().merge()
print(sorted(row.id for row in its.table(spark, "{home}/late").collect()))
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert run.stdout.strip() == "[0, 2]", run.stderr[-2000:]


OURS = [
    "MERGE SPLITS '{path}'",
    "OPTIMIZE anywhere.t",
    "PURGE INDEXTABLE '{path}' DRY RUN",
    "DESCRIBE INDEXTABLES STATE '{path}'",
    "DESCRIBE HISTORY anywhere.t",
    "CHECKPOINT INDEXTABLES '{path}'",
]


@pytest.mark.parametrize("statement", OURS)
def test_a_statement_of_ours_runs_in_a_script(
    spark: SparkSession, home: Path, statement: str
) -> None:
    statement = statement.format(path=home / "anywhere" / "t")
    # As of every command of Spark, no rows come out of a script.
    spark.sql(f"BEGIN DECLARE i INT = 0; WHILE i < 1 DO {statement}; SET i = i + 1; END WHILE; END")
    rows = spark.sql(
        f"BEGIN IF 1 = 1 THEN {statement}; END IF; SELECT count(*) AS n FROM anywhere.t; END"
    ).collect()
    assert rows[0].n == 3
    wrong = statement.replace("anywhere.t", "anywhere.gone").replace("anywhere/t", "anywhere/gone")
    with pytest.raises(PySparkException, match="INDEXTABLES_TABLE_NOT_FOUND"):
        spark.sql(f"BEGIN SELECT 1; {wrong}; END")


@pytest.mark.parametrize("statement", OURS)
def test_explain_names_a_statement_of_ours_and_does_not_run_it(
    spark: SparkSession, home: Path, statement: str
) -> None:
    version = newest(spark, "anywhere.t").version
    plan = spark.sql(
        f"EXPLAIN EXTENDED {statement.format(path=home / 'anywhere' / 't')}"
    ).collect()[0][0]
    assert "IndexTables" in plan and "Error" not in plan
    assert newest(spark, "anywhere.t").version == version


def test_a_script_keeps_up_the_table_that_it_has_made(spark: SparkSession) -> None:
    spark.sql(
        "BEGIN CREATE TABLE anywhere.kept (id INT) USING indextables; INSERT INTO anywhere.kept VALUES (1); "
        "INSERT INTO anywhere.kept VALUES (2); OPTIMIZE anywhere.kept; END"
    )
    assert newest(spark, "anywhere.kept").operation == "MERGE"


def test_a_wrong_statement_in_a_script_is_an_error_of_ours(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="INDEXTABLES_"):
        spark.sql("BEGIN SELECT 1; MERGE SPLITS '/no/such/table' NONSENSE 5; END")
    with pytest.raises(PySparkException, match="INDEXTABLES_TABLE_NOT_FOUND"):
        spark.sql("BEGIN MERGE SPLITS '/no/such/table'; END")


def test_a_script_of_spark_alone_is_left_to_spark(spark: SparkSession) -> None:
    rows = spark.sql(
        "BEGIN DECLARE v INT = 2; IF v > 1 THEN SELECT 'OPTIMIZE t; VACUUM t' AS x; END IF; END"
    ).collect()
    assert rows[0].x == "OPTIMIZE t; VACUUM t"
