"""Jobs that were written for the JVM engine, on this one: their format names, functions, statements and quick start."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import indextables.spark as its
from indextables import Table
from indextables.spark.source.datasource import FORMATS
from indextables.spark.sql import JVM_EXTENSION

ROWS = [
    (1, "connection timeout on gateway", "ERROR", 5.0, "2023", "01", "2023-01-05 10:00:00"),
    (2, "user login failed", "WARN", 50.0, "2023", "02", "2023-02-05 11:00:00"),
    (3, "login ok", "INFO", 500.0, "2024", "01", "2024-01-05 10:30:00"),
    (4, "gateway timeout again", "ERROR", 70.0, "2024", "01", "2024-01-05 10:45:00"),
]
COLUMNS = "id int, message string, level string, latency double, year string, month string, at string"


def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS, COLUMNS).selectExpr("* except(at)", "timestamp(at) as at")


def ids(frame: DataFrame) -> list[int]:
    return sorted(row["id"] for row in frame.collect())


@pytest.mark.parametrize("name", FORMATS)
def test_the_format_is_known_by_each_of_its_names(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = str(tmp_path / "t")
    rows(spark).write.format(name).mode("append").option("indexing.typemap.text", "message").save(path)
    frame = spark.read.format(name).load(path)
    assert ids(frame.filter("latency > 50")) == [3, 4]
    frame.createOrReplaceTempView("by_format")
    assert ids(spark.sql("SELECT * FROM by_format WHERE message TEXTSEARCH 'timeout'")) == [1, 4]
    spark.sql("DROP TABLE IF EXISTS by_using")
    spark.sql(f"CREATE TABLE by_using USING {name} LOCATION '{path}'")
    assert ids(spark.sql("SELECT id FROM by_using WHERE message indexquery 'login AND failed'")) == [2]
    spark.sql("DROP TABLE by_using")


def test_the_quick_start_of_the_jvm_engine(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "logs")
    writer = rows(spark).write.format("io.indextables.provider.IndexTablesProvider").mode("append")
    writer = writer.option("spark.indextables.indexing.typemap.text", "message")
    writer = writer.option("spark.indextables.indexing.fastfields", "latency,level")
    writer.partitionBy("year", "month").save(path)
    assert Table.open(path).partition_columns == ["year", "month"]
    frame = spark.read.format("io.indextables.provider.IndexTablesProvider").load(path)
    assert ids(frame.filter((frame.latency > 10) & (frame.level == "ERROR"))) == [4]
    frame.createOrReplaceTempView("logs")

    def found(condition: str) -> list[int]:
        return ids(spark.sql(f"SELECT * FROM logs WHERE {condition}"))

    assert found("message indexquery 'timeout AND gateway'") == [1, 4]
    assert found("message TEXTSEARCH 'login'") == [2, 3]
    assert found("level FIELDMATCH 'WARN'") == [2]
    assert found("_indexall indexquery 'timeout'") == [1, 4]
    assert found("* FIELDMATCH 'ERROR'") == [1, 4]
    assert found("_indexall FIELDMATCH 'WARN' OR id = 3") == [2, 3]
    assert found("* FIELDMATCH 'timeout'") == []
    assert found("id indexquery '[2 TO 3]' AND latency indexquery '>=100'") == [3]
    assert found("message indexquery 'login' AND year = '2024'") == [3]
    for name in ("tantivy4spark_textsearch", "tantivy4spark_indexquery", "tantivy4spark_fieldmatch"):
        column, word = ("level", "WARN") if name.endswith("fieldmatch") else ("message", "failed")
        assert found(f"{name}({column}, '{word}')") == [2]
    assert found("tantivy4spark_indexqueryall('failed')") == [2]

    def counts(bucket: str) -> list[tuple[str, int]]:
        grouped = spark.sql(f"SELECT string({bucket}) AS b, count(*) AS n FROM logs GROUP BY 1 ORDER BY 1").collect()
        return [(row["b"], row["n"]) for row in grouped]

    assert counts("indextables_histogram(latency, 100)") == [("0.0", 3), ("500.0", 1)]
    assert [n for _, n in counts("indextables_date_histogram(at, '1h')")] == [1, 1, 2]
    labels = "indextables_range(latency, 'fast', NULL, 10, 'middle', 10, 100, 'slow', 100, NULL)"
    assert counts(labels) == [("fast", 1), ("middle", 2), ("slow", 1)]

    assert spark.sql(f"MERGE SPLITS '{path}' TARGET SIZE 4G").collect()[0]["status"] in ("success", "no_action")
    purged = spark.sql(f"PURGE INDEXTABLE '{path}' OLDER THAN 7 DAYS DRY RUN").collect()
    assert purged[0]["dry_run"]
    dropped = spark.sql(f"DROP INDEXTABLES PARTITIONS FROM '{path}' WHERE year = '2023'").collect()[0]
    assert dropped["status"] == "success"
    assert ids(spark.read.format("tantivy4spark").load(path)) == [3, 4]
    warmed = spark.sql(f"PREWARM INDEXTABLES CACHE '{path}' FOR SEGMENTS (TERM_DICT, POSTINGS) ON FIELDS (message)")
    assert warmed.count() >= 1
    for what in ("STATE '{}'", "TRANSACTION LOG '{}'", "DISK CACHE", "ENVIRONMENT", "STORAGE STATS", "PREWARM JOBS"):
        spark.sql(f"DESCRIBE INDEXTABLES {what.format(path)}").collect()
    for statement in (
        "ENABLE INDEXTABLES PROFILER",
        "DESCRIBE INDEXTABLES PROFILER",
        "RESET INDEXTABLES PROFILER CACHE",
    ):
        spark.sql(statement).collect()
    assert spark.sql("DISABLE TANTIVY4SPARK PROFILER").collect()[0]["status"] == "disabled"


def test_range_with_the_wrong_number_of_arguments_shows_both_forms(spark: SparkSession) -> None:
    with pytest.raises(Exception, match=r"indextables_range\(value, 'label', low, high, \.\.\.\)"):
        spark.sql("SELECT indextables_range(1.0, 'a', 1)").collect()


def test_partition_columns_that_are_not_those_of_the_table_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows(spark).write.format("indextables").mode("append").partitionBy(["year"]).save(path)
    with pytest.raises(Exception, match="partition"):
        rows(spark).write.format("indextables").mode("append").partitionBy("level").save(path)
    assert Table.open(path).count() == 4


def test_the_other_engines_extension_class_is_answered(
    spark: SparkSession, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = type(spark.conf)
    plain = configuration.get

    def get(self: object, key: str, *default: object) -> object:
        return JVM_EXTENSION if key == "spark.sql.extensions" else plain(self, key, *default)  # type: ignore[arg-type]

    monkeypatch.setattr(configuration, "get", get)
    with caplog.at_level(logging.WARNING):
        its.install(spark)
    assert any(
        "leave the setting out, or write indextables.Extension" in record.getMessage() for record in caplog.records
    )
