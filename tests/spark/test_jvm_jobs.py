"""Jobs that were written for IndexTables for the JVM, on this one: their format names, functions,
statements and quick start.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import indextables.spark as its
from indextables import Table, errors
from indextables.errors import IndexTablesError
from indextables.spark.error_texts import in_sparks_words
from indextables.spark.extension import JVM_EXTENSION
from indextables.spark.source.datasource import FORMATS
from indextables.splits.index.live_indexing import decision_hint
from tests.golden.golden_tables import jvm_table
from tests.spark.programs import run_program
from tests.support.stores import swap_logs

ROWS = [
    (1, "connection timeout on gateway", "ERROR", 5.0, "2023", "01", "2023-01-05 10:00:00"),
    (2, "user login failed", "WARN", 50.0, "2023", "02", "2023-02-05 11:00:00"),
    (3, "login ok", "INFO", 500.0, "2024", "01", "2024-01-05 10:30:00"),
    (4, "gateway timeout again", "ERROR", 70.0, "2024", "01", "2024-01-05 10:45:00"),
]
COLUMNS = (
    "id int, message string, level string, latency double, year string, month string, at string"
)


def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS, COLUMNS).selectExpr("* except(at)", "timestamp(at) as at")


def ids(frame: DataFrame) -> list[int]:
    return sorted(row["id"] for row in frame.collect())


@pytest.mark.parametrize("name", FORMATS)
def test_the_format_is_known_by_each_of_its_names(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    path = str(tmp_path / "t")
    rows(spark).write.format(name).mode("append").option("indexing.typemap.text", "message").save(
        path
    )
    frame = spark.read.format(name).load(path)
    assert ids(frame.filter("latency > 50")) == [3, 4]
    frame.createOrReplaceTempView("by_format")
    assert ids(spark.sql("SELECT * FROM by_format WHERE message TEXTSEARCH 'timeout'")) == [1, 4]
    spark.sql("DROP TABLE IF EXISTS by_using")
    spark.sql(f"CREATE TABLE by_using USING {name} LOCATION '{path}'")
    assert ids(
        spark.sql("SELECT id FROM by_using WHERE message indexquery 'login AND failed'")
    ) == [2]
    spark.sql("DROP TABLE by_using")


WITHOUT_INSTALL = """
import os, sys
from pyspark.sql import SparkSession

os.environ["PYSPARK_PYTHON"] = sys.executable

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
for name in {names!r}:
    spark.createDataFrame([(1, "a")], "id int, text string").write.format(name).mode("append").save("t")
    print(spark.read.format(name).load("t").count())
spark.sql(f"CREATE TEMP VIEW v USING {names[1]} OPTIONS (path 't', query 'text:a')")
print(spark.table("v").count())
"""


def test_each_name_of_the_format_is_known_to_a_session_without_the_extension(
    tmp_path: Path,
) -> None:
    program = WITHOUT_INSTALL.replace("{names!r}", repr(FORMATS)).replace("{names[1]}", FORMATS[1])
    printed = run_program(program, tmp_path)
    assert printed.split() == ["1", "2", "3", "4", "4"]


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
    for name in (
        "tantivy4spark_textsearch",
        "tantivy4spark_indexquery",
        "tantivy4spark_fieldmatch",
    ):
        column, word = ("level", "WARN") if name.endswith("fieldmatch") else ("message", "failed")
        assert found(f"{name}({column}, '{word}')") == [2]
    assert found("tantivy4spark_indexqueryall('failed')") == [2]

    def counts(bucket: str) -> list[tuple[str, int]]:
        grouped = spark.sql(
            f"SELECT string({bucket}) AS b, count(*) AS n FROM logs GROUP BY 1 ORDER BY 1"
        ).collect()
        return [(row["b"], row["n"]) for row in grouped]

    assert counts("indextables_histogram(latency, 100)") == [("0.0", 3), ("500.0", 1)]
    assert [n for _, n in counts("indextables_date_histogram(at, '1h')")] == [1, 1, 2]
    labels = "indextables_range(latency, 'fast', NULL, 10, 'middle', 10, 100, 'slow', 100, NULL)"
    assert counts(labels) == [("fast", 1), ("middle", 2), ("slow", 1)]

    assert spark.sql(f"MERGE SPLITS '{path}' TARGET SIZE 4G").collect()[0]["status"] in (
        "success",
        "no_action",
    )
    purged = spark.sql(f"PURGE INDEXTABLE '{path}' OLDER THAN 7 DAYS DRY RUN").collect()
    assert purged[0]["dry_run"]
    dropped = spark.sql(f"DROP INDEXTABLES PARTITIONS FROM '{path}' WHERE year = '2023'").collect()[
        0
    ]
    assert dropped["status"] == "success"
    assert ids(spark.read.format("tantivy4spark").load(path)) == [3, 4]
    warmed = spark.sql(
        f"PREWARM INDEXTABLES CACHE '{path}' FOR SEGMENTS (TERM_DICT, POSTINGS) ON FIELDS (message)"
    )
    assert warmed.count() >= 1
    for what in (
        "STATE '{}'",
        "TRANSACTION LOG '{}'",
        "DISK CACHE",
        "ENVIRONMENT",
        "STORAGE STATS",
        "PREWARM JOBS",
    ):
        spark.sql(f"DESCRIBE INDEXTABLES {what.format(path)}").collect()
    for statement in (
        "ENABLE INDEXTABLES PROFILER",
        "DESCRIBE INDEXTABLES PROFILER",
        "RESET INDEXTABLES PROFILER CACHE",
    ):
        spark.sql(statement).collect()
    assert spark.sql("DISABLE TANTIVY4SPARK PROFILER").collect()[0]["status"] == "disabled"


def test_rows_are_updated_and_merged_by_a_search_in_a_subquery(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    rows(spark).write.format("tantivy4spark").option("indexing.typemap.text", "message").mode(
        "append"
    ).save(path)
    name, search = f"indextables.`{path}`", "message TEXTSEARCH 'gateway'"
    for statement in (
        f"UPDATE {name} SET level = 'X' WHERE {search}",
        f"MERGE INTO {name} t USING (SELECT 1 AS id) s ON t.id = s.id AND t.{search} WHEN MATCHED THEN DELETE",
    ):
        with pytest.raises(
            Exception, match=r"cannot have a search in its condition.*Search in a subquery"
        ):
            spark.sql(statement)
    spark.sql(f"UPDATE {name} SET level = 'X' WHERE id IN (SELECT id FROM {name} WHERE {search})")
    assert ids(its.table(spark, path).where("level = 'X'")) == [1, 4]
    spark.sql(
        f"MERGE INTO {name} t USING (SELECT id FROM {name} WHERE {search} AND latency > 10) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE"
    )
    assert ids(its.table(spark, path)) == [1, 2, 3]


def test_range_with_the_wrong_number_of_arguments_shows_both_forms(spark: SparkSession) -> None:
    with pytest.raises(Exception, match=r"indextables_range\(value, 'label', low, high, \.\.\.\)"):
        spark.sql("SELECT indextables_range(1.0, 'a', 1)").collect()


def test_partition_columns_that_are_not_those_of_the_table_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
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
        "leave the setting out, or write indextables.Extension" in record.getMessage()
        for record in caplog.records
    )


MODE = "write.optimizeWrite.distributionMode"


@pytest.mark.parametrize("mode", ["hash", "none"])
def test_the_mode_of_distribution_works_wherever_it_is_given(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    paths = [str(tmp_path / name) for name in ("option", "conf", "write", "named", "carried")]
    rows(spark).write.format("tantivy4spark").mode("append").option(MODE, mode).save(paths[0])
    spark.conf.set(f"spark.indextables.{MODE}", mode)
    try:
        rows(spark).write.format("tantivy4spark").mode("append").save(paths[1])
    finally:
        spark.conf.unset(f"spark.indextables.{MODE}")
    by_level = rows(spark).repartition(4, "id")
    its.write(by_level, paths[2], partition_by="level", options={MODE: mode})
    spark.sql("DROP TABLE IF EXISTS distributed")
    spark.sql(
        f"CREATE TABLE distributed (id INT, level STRING) USING tantivy4spark PARTITIONED BY (level) LOCATION '{paths[3]}' "
        f"TBLPROPERTIES ('{MODE}' = '{mode}')"
    )
    spark.sql("INSERT INTO distributed VALUES (1, 'a'), (2, 'a'), (3, 'b'), (4, 'b')")
    assert [Table.open(path).count() for path in paths[:4]] == [4] * 4
    assert Table.open(paths[3]).settings[MODE] == mode
    spark.sql("DROP TABLE distributed")
    one_level = spark.range(0, 400, 1, 4).selectExpr("id", "'x' AS level")
    Table.create(
        paths[4],
        schema=pa.schema({"id": pa.int64(), "level": pa.string()}),
        partition_columns=["level"],
    )
    Table.open(paths[4]).update_metadata(options={MODE: mode})
    its.write(one_level, paths[4])
    assert len(Table.open(paths[4]).files()) == (1 if mode == "hash" else 4)


def test_another_mode_of_distribution_is_refused_by_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    words = r"distributionMode' cannot be 'range'\. Allowed: none \| hash"
    with pytest.raises(Exception, match=words):
        rows(spark).write.format("tantivy4spark").mode("append").option(MODE, "range").save(
            str(tmp_path / "t")
        )
    with pytest.raises(Exception, match=words):
        spark.sql(
            f"CREATE TABLE x (id INT) USING indextables LOCATION '{tmp_path}/u' TBLPROPERTIES ('{MODE}' = 'range')"
        )


def test_keys_without_effect_are_accepted_for_tables_with_names(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    for name in ("idle", "adopted"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(
        f"CREATE TABLE idle (id INT, text STRING, title STRING) USING tantivy4spark OPTIONS ('indexing.fastfields' = 'id', "
        f"'indexing.typemap.text' = 'text,title') LOCATION '{path}' TBLPROPERTIES ('indexing.nonfastfields' = 'text')"
    )
    spark.sql("INSERT INTO idle VALUES (1, 'a b', 'c d')")
    spark.sql("ALTER TABLE idle SET TBLPROPERTIES ('indexing.fastfields' = 'id,text')")
    spark.sql(
        f"CREATE TABLE adopted USING tantivy4spark OPTIONS ('indexing.fastfields' = 'id') LOCATION '{path}'"
    )
    assert ids(
        spark.sql("SELECT id FROM adopted WHERE title indexquery 'c' AND text indexquery 'b'")
    ) == [1]
    assert {
        key for key in Table.open(path).metadata.configuration or {} if "fastfields" in key
    } == set()
    for name in ("idle", "adopted"):
        spark.sql(f"DROP TABLE {name}")


SAID_ONCE = """
import os
os.dup2(1, 2)  # what the processes of Spark say, too
import indextables.spark as its

spark = its.session(master="local[1]", conf={
    "spark.indextables.indexing.fastfields": "id", "spark.indextables.indexing.typemapp.x": "text",
})
rows = spark.range(20)
path = os.path.abspath("t")
for _ in range(2):
    rows.write.format("tantivy4spark").mode("append").option("indexing.nonfastfields", "id").save(path)
    its.write(rows, path)
    assert spark.read.format("tantivy4spark").load(path).where("id > 3").collect()
    assert its.table(spark, path).where("id > 3").count()
"""


def test_lines_about_settings_are_said_once_in_an_application(tmp_path: Path) -> None:
    told = run_program(SAID_ONCE, tmp_path)
    lines = (
        "Setting indexing.fastfields has",
        "Setting indexing.nonfastfields has",
        "indexing.typemapp.x is left out",
    )
    assert [told.count(line) for line in lines] == [1, 1, 1]


READS: dict[str, Callable[[SparkSession, str], DataFrame]] = {
    "its.table": lambda spark, path: its.table(spark, path),
    "load": lambda spark, path: spark.read.format("indextables").load(path),
    "SQL": lambda spark, path: spark.sql(f"SELECT * FROM indextables.`{path}` WHERE id >= 0"),
    "search": lambda spark, path: its.search(spark, path, "NOT message:nothing"),
    "search in SQL": lambda spark, path: spark.sql(
        f"SELECT * FROM indextables.`{path}` WHERE NOT message TEXTSEARCH 'nothing'"
    ),
}


def test_a_missing_split_is_the_same_error_everywhere_and_its_advice_works(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    shutil.copytree(jvm_table("t13_checkpointed").path, path)
    files = Table.open(path).files().to_pylist()
    lost = files[len(files) // 2]
    (Path(path) / lost["path"]).unlink()
    for way, read in READS.items():
        with pytest.raises(
            Exception, match=f"The split {lost['path']} is not in the store"
        ) as caught:
            read(spark, path).collect()
        told = str(caught.value)
        assert "REPAIR INDEXFILES TRANSACTION LOG 'path' AT LOCATION 'another place'" in told, way
        assert "in the place of the table's log, as the report says" in told, way
        assert "case-sensitive" not in told, way
    copy = str(tmp_path / "another place")
    row = spark.sql(f"REPAIR INDEXFILES TRANSACTION LOG '{path}' AT LOCATION '{copy}'").collect()[0]
    assert (row["status"], row["missing_splits"]) == ("success", 1)
    swap_logs(row["message"], keep=tmp_path / "damaged")
    left = sum(file["num_records"] for file in files) - lost["num_records"]
    for way in ("its.table", "load", "SQL"):
        assert len(READS[way](spark, path).collect()) == left, way
    assert Table.open(path).count() == left


HINTS = {
    "rows of two kinds": (
        decision_hint("m"),
        "ALTER TABLE indextables.`path` SET TBLPROPERTIES ('indexing.typemap.m' = 'text')",
    ),
    "settings that go": (
        "Change the setting first: update_metadata(unset=('indexing.maxTokenLength',)).",
        "Change the setting first: ALTER TABLE indextables.`path` UNSET TBLPROPERTIES ('indexing.maxTokenLength').",
    ),
    "a tag": ("Give it up with untag('v1').", "Give it up with UNTAG INDEXTABLES 'path' 'v1'."),
    "a damaged table": (
        errors.CorruptTableError.default_hint,
        "Run VERIFY INDEXTABLES 'path' for the full list of findings, then REPAIR INDEXFILES TRANSACTION LOG 'path'.",
    ),
    "a hole in the log": (
        errors.LogGapError.default_hint,
        "run REPAIR INDEXFILES TRANSACTION LOG 'path': it keeps every",
    ),
}


@pytest.mark.parametrize("case", HINTS)
def test_hints_name_statements_where_there_are_some(case: str) -> None:
    hint, expected = HINTS[case]
    assert expected in in_sparks_words(IndexTablesError("It is so.", hint=hint))
    assert "Table.repair" not in in_sparks_words(IndexTablesError("It is so.", hint=hint))


def test_the_statements_that_hints_name_are_understood(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows(spark).write.format("indextables").mode("append").save(path)
    spark.sql(
        f"ALTER TABLE indextables.`{path}` SET TBLPROPERTIES ('retention.column' = 'at', 'retention.period' = '30 days')"
    )
    assert Table.open(path).metadata.configuration["retention.column"] == "at"  # type: ignore[index]
    spark.sql(
        f"ALTER TABLE indextables.`{path}` UNSET TBLPROPERTIES ('retention.column', 'retention.period')"
    )
    assert "retention.column" not in (Table.open(path).metadata.configuration or {})


def test_settings_of_the_session_say_what_asks_the_index_and_when_a_merge_begins(
    spark: SparkSession, tmp_path: Path
) -> None:
    path, where = str(tmp_path / "t"), "contains(message, 'timeout')"
    conf = {
        "mergeOnWrite.enabled": "true",
        "mergeOnWrite.async.enabled": "false",
        "mergeOnWrite.minSplits": "2",
        "mergeOnWrite.minDiskSpaceGB": "1000000",
        "filter.stringContains.pushdown": "false",
        "indexWriter.threads": "2",
    }
    try:
        for key, value in conf.items():
            spark.conf.set(f"spark.indextables.{key}", value)
        for _ in range(2):
            frame = (
                rows(spark)
                .coalesce(1)
                .write.format("tantivy4spark")
                .mode("append")
                .partitionBy("year")
            )
            frame.option("indexing.substring.message", "true").save(path)
        assert Table.open(path).files().num_rows == 4
        assert {split.answered_by for split in its.explain(spark, path, where=where).splits} == {
            "rows"
        }
        assert ids(spark.read.format("indextables").load(path).filter(where)) == [1, 1, 4, 4]
        # The table was made with these, and carries them: what the session says now counts more.
        for key, value in {
            "mergeOnWrite.minDiskSpaceGB": "0",
            "filter.stringContains.pushdown": "true",
        }.items():
            spark.conf.set(f"spark.indextables.{key}", value)
        asked = its.explain(spark, path, where=where).splits
        assert {split.answered_by for split in asked} == {"3-grams, confirmed by rows"}
        rows(spark).coalesce(1).write.format("tantivy4spark").mode("append").save(path)
        assert Table.open(path).files().num_rows == 2
    finally:
        for key in conf:
            spark.conf.unset(f"spark.indextables.{key}")
    assert ids(spark.read.format("indextables").load(path).filter(where)) == [1, 1, 1, 4, 4, 4]
