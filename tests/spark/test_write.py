"""Writing DataFrames: modes, partitions, schema checks, exactly-once, and nothing left behind by
failures.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import indextables.spark as its
from indextables import Table
from indextables.errors import InvalidInputError, SchemaMismatchError, TableExistsError
from tests.spark.compare import assert_same_rows, rows_of


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "table")


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(100).selectExpr(
        "id", "cast(id % 3 as int) as day", "concat('line ', id) as message"
    )


TEXT = {"indexing.typemap.message": "text"}


def splits_on_disk(path: str) -> set[str]:
    return {str(p.relative_to(path)) for p in Path(path).rglob("*.split")}


def live_splits(path: str) -> set[str]:
    return set(Table.open(path).files()["path"].to_pylist())


def test_the_table_is_created_with_its_layout(
    spark: SparkSession, path: str, rows: DataFrame
) -> None:
    version = its.write(
        rows, path, partition_by="day", options={"indexing.typemap.message": "text"}
    )
    table = Table.open(path)
    assert version == table.version == 1
    assert table.partition_columns == ["day"]
    assert table.metadata.configuration == {"indexing.typemap.message": "text"}
    assert table.count(query="message:77") == 1
    assert_same_rows(its.table(spark, path), rows)


def test_arguments_name_the_columns_that_are_searched_by_words_and_parts(
    path: str, rows: DataFrame
) -> None:
    its.write(rows, path, text=["message"], substring=["message"])
    its.write(rows, path, text=["message"])
    table = Table.open(path)
    assert table.count(query="message:77") == 2
    assert table.count(where="message LIKE '%e 7%'") == 22
    with pytest.raises(InvalidInputError, match="text names 'mesage', which is not a column"):
        its.write(rows, f"{path}2", text=["mesage"])
    its.write(rows, f"{path}3")
    with pytest.raises(InvalidInputError, match="indexes it as string"):
        its.write(rows, f"{path}3", text=["message"])
    assert Table.open(f"{path}3").count() == 100


def test_no_mode_appends(spark: SparkSession, path: str, rows: DataFrame) -> None:
    assert its.write(rows, path) == 1
    assert its.write(rows, path) == 2
    assert its.table(spark, path).count() == 200


def test_modes(spark: SparkSession, path: str, rows: DataFrame) -> None:
    assert its.write(rows, path, mode="error") == 1
    for mode in ("error", "errorifexists"):
        with pytest.raises(TableExistsError, match="table"):
            its.write(rows, path, mode=mode)
    assert its.write(rows, path, mode="ignore") is None
    assert its.write(rows.limit(5), path, mode="overwrite") == 2
    assert its.table(spark, path).count() == 5
    assert its.table(spark, path, version=1).count() == 100
    with pytest.raises(InvalidInputError, match="no mode 'upsert'"):
        its.write(rows, path, mode="upsert")


def test_a_part_is_replaced_by_condition_or_by_partition(
    spark: SparkSession, path: str, rows: DataFrame
) -> None:
    its.write(rows, path, partition_by=["day"])
    new = rows.where("day = 1").withColumn("message", f.lit("new"))
    its.write(new.limit(2), path, mode="overwrite", replace_where="day = 1")
    counts = {r["day"]: r["count"] for r in its.table(spark, path).groupBy("day").count().collect()}
    assert counts == {0: 34, 1: 2, 2: 33}
    its.write(
        new.selectExpr("id", "2 as day", "message").limit(1),
        path,
        mode="overwrite",
        dynamic_partition_overwrite=True,
    )
    counts = {r["day"]: r["count"] for r in its.table(spark, path).groupBy("day").count().collect()}
    assert counts == {0: 34, 1: 2, 2: 1}
    with pytest.raises(InvalidInputError, match="do not match"):
        its.write(rows, path, mode="overwrite", replace_where="day = 1")
    assert splits_on_disk(path) >= live_splits(path)
    with pytest.raises(InvalidInputError, match="needs the mode overwrite"):
        its.write(rows, path, replace_where="day = 1")


def test_every_difference_of_the_schema_is_named(path: str, rows: DataFrame) -> None:
    its.write(rows, path)
    bad = rows.selectExpr("cast(id as string) as id", "day", "message", "1 as extra")
    with pytest.raises(SchemaMismatchError, match=r"'id' is string.*'extra'"):
        its.write(bad, path)
    assert splits_on_disk(path) == live_splits(path)


def test_columns_are_added_when_asked(spark: SparkSession, path: str, rows: DataFrame) -> None:
    its.write(rows, path)
    its.write(rows.selectExpr("id", "'x' as added"), path, merge_schema=True)
    frame = its.table(spark, path)
    assert frame.columns == ["id", "day", "message", "added"]
    assert frame.where("added = 'x' and message is null").count() == 100
    assert frame.where("added is null").count() == 100


def test_columns_are_matched_by_name_without_case(
    spark: SparkSession, path: str, rows: DataFrame
) -> None:
    its.write(rows, path)
    its.write(rows.selectExpr("MESSAGE as Message", "ID", "day"), path)
    assert its.table(spark, path).columns == ["id", "day", "message"]
    assert its.table(spark, path).where("message = 'line 5'").count() == 2


def test_partitioning_cannot_be_changed_by_an_append(path: str, rows: DataFrame) -> None:
    its.write(rows, path, partition_by="day")
    with pytest.raises(InvalidInputError, match="partitioned by day, not by id"):
        its.write(rows, path, partition_by="id")


def test_rows_of_a_partition_come_together(path: str, spark: SparkSession, rows: DataFrame) -> None:
    before = spark.conf.get("spark.sql.adaptive.advisoryPartitionSizeInBytes", None)
    its.write(rows.repartition(8), path, partition_by="day")
    assert len(live_splits(path)) == 3
    assert spark.conf.get("spark.sql.adaptive.advisoryPartitionSizeInBytes", None) == before
    its.write(rows.repartition(2), path, options={"write.optimizeWrite.enabled": False})
    assert len(live_splits(path)) == 3 + 2 * 3


def test_many_small_tasks_become_few(path: str, rows: DataFrame) -> None:
    its.write(rows.repartition(30), path)
    assert len(live_splits(path)) <= 2
    its.write(rows.repartition(5), path, options={"write.optimizeWrite.enabled": False})
    assert len(live_splits(path)) >= 6


def test_large_tasks_write_several_splits(path: str, spark: SparkSession) -> None:
    its.write(spark.range(0, 5000, 1, 1), path, options={"write.maxRowsPerSplit": 1000})
    assert len(live_splits(path)) == 5
    assert rows_of(its.table(spark, path).selectExpr("count(distinct id)")) == [("5000",)]


def test_an_empty_frame_makes_an_empty_table(
    spark: SparkSession, path: str, rows: DataFrame
) -> None:
    its.write(rows.where("false"), path, partition_by="day")
    assert its.table(spark, path).collect() == []
    its.write(rows, path)
    its.write(rows.where("false"), path, mode="overwrite")
    assert its.table(spark, path).collect() == []


def test_the_commit_says_who_wrote_what(spark: SparkSession, path: str, rows: DataFrame) -> None:
    its.write(rows, path, user_metadata={"job": "nightly"})
    newest = Table.open(path).history(limit=1).to_pylist()[0]
    assert newest["operation"] == "WRITE"
    assert json.loads(newest["user_metadata"]) == {"job": "nightly"}
    assert (
        json.loads(newest["operation_parameters"])["sparkApplicationId"]
        == spark.sparkContext.applicationId
    )
    assert json.loads(newest["operation_metrics"])["numAddedRecords"] == 100


def test_a_transaction_is_written_once(spark: SparkSession, path: str, rows: DataFrame) -> None:
    assert its.write(rows, path, txn=("job", 7)) == 1
    assert its.write(rows, path, txn=("job", 7)) is None
    assert its.write(rows, path, txn=("job", 6)) is None
    assert its.write(rows, path, txn=("job", 8)) == 2
    assert its.table(spark, path).count() == 200
    assert splits_on_disk(path) == live_splits(path)


@pytest.mark.parametrize("txn", [("a", "b"), ("c", 1.5), ("", 1), "abc"], ids=str)
def test_a_transaction_id_that_is_none_is_refused_before_anything_is_written(
    path: str, rows: DataFrame, txn: Any
) -> None:
    with pytest.raises(InvalidInputError, match="txn"):
        its.write(rows, path, txn=txn)
    assert not Path(path).exists()


def test_only_a_data_frame_is_written(path: str) -> None:
    with pytest.raises(InvalidInputError, match=r"df is a Spark DataFrame, not \[1\] \(list\)"):
        its.write([1], path)  # type: ignore[arg-type]


def test_a_job_that_fails_commits_nothing(spark: SparkSession, path: str, rows: DataFrame) -> None:
    """Its tasks clean up after themselves; one that Spark had not stopped yet may leave a split
    that no log names.
    """
    broken = rows.repartition(4).withColumn(
        "id", f.expr("if(id = 50, raise_error('broken row'), id)").cast("long")
    )
    with pytest.raises(Exception, match="broken row"):
        its.write(broken, path)
    assert not (Path(path) / "_transaction_log").exists()


def test_rows_that_cannot_be_stored_are_refused_as_our_error(
    path: str, spark: SparkSession
) -> None:
    table = Table.create(
        path, schema=pa.schema([pa.field("a", pa.int64(), nullable=False), ("b", pa.int32())])
    )
    frame = spark.sql("select id as a, 1 as b from range(10) union all select null, 2")
    with pytest.raises(InvalidInputError, match=r"'a' holds 1 null"):
        its.write(frame, path)
    assert splits_on_disk(path) == set()
    assert table.refresh().version == 0


def test_settings_of_the_session_reach_the_writer(
    spark: SparkSession, path: str, rows: DataFrame
) -> None:
    spark.conf.set("spark.indextables.indexing.typemap.message", "text")
    spark.conf.set("spark.indextables.write.maxRowsPerSplit", "40")
    try:
        its.write(rows.coalesce(1), path)
        assert len(live_splits(path)) == 3
        its.write(rows.coalesce(1), path, options={"write.maxRowsPerSplit": 10})
        assert len(live_splits(path)) == 13
    finally:
        spark.conf.unset("spark.indextables.indexing.typemap.message")
        spark.conf.unset("spark.indextables.write.maxRowsPerSplit")
    assert Table.open(path).count(query="message:77") == 2


def test_the_table_is_stronger_than_a_default_and_weaker_than_the_session(
    spark: SparkSession, path: str, rows: DataFrame
) -> None:
    def splits_written(**options: object) -> int:
        before = len(live_splits(path))
        its.write(rows.coalesce(1), path, options=options)
        return len(live_splits(path)) - before

    # The type of a column belongs to the table, the size of a split to whoever writes.
    Table.create(
        path, schema=pa.schema([("id", pa.int64()), ("message", pa.string())]), options=TEXT
    )
    rows = rows.select("id", "message")
    key = "spark.indextables.write.maxRowsPerSplit"
    assert splits_written() == 1
    spark.conf.set(key, "50")
    try:
        assert splits_written() == 2
        assert splits_written(**{"write.maxRowsPerSplit": 25}) == 4
        rows.coalesce(1).write.format("indextables").mode("append").save(path)
        assert len(live_splits(path)) == 1 + 2 + 4 + 2
        option = rows.coalesce(1).write.format("indextables").option("write.maxRowsPerSplit", 20)
        option.mode("append").save(path)
        assert len(live_splits(path)) == 9 + 5
    finally:
        spark.conf.unset(key)
    assert Table.open(path).count(query="message:77") == 5


def test_a_column_that_a_write_adds_is_indexed_as_the_write_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    its.write(spark.sql("select 1L as id"), path)
    wider = spark.sql("select 2L as id, 'a gateway timeout' as note")
    its.write(wider, path, merge_schema=True, options={"indexing.typemap.note": "text"})
    its.write(wider, path)
    assert its.search(spark, path, "note:timeout").count() == 2


WRONG_INDEX: dict[str, tuple[dict[str, str], str]] = {
    "default fields that are not there": ({"indexing.defaultSearchFields": "nope"}, "nope"),
    "an index of a partition column": ({"indexing.typemap.day": "text"}, "partition column"),
    "a kind that does not exist": ({"indexing.typemap.message": "txt"}, "txt"),
}
WRITES: dict[str, Callable[[DataFrame, str, dict[str, str]], Any]] = {
    "write": lambda df, path, options: its.write(df, path, partition_by="day", options=options),
    "source": lambda df, path, options: (
        df.write.format("indextables")
        .mode("append")
        .options(partitionColumns="day", **options)
        .save(path)
    ),
}


@pytest.mark.parametrize("way", WRITES)
@pytest.mark.parametrize("wrong", WRONG_INDEX)
def test_a_table_that_cannot_be_made_is_refused_before_a_task_runs(
    tmp_path: Path, path: str, rows: DataFrame, way: str, wrong: str
) -> None:
    options, message = WRONG_INDEX[wrong]
    ran = tmp_path / "a task ran"

    def noted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ran.touch()
        yield from batches

    with pytest.raises(Exception, match=message):
        WRITES[way](rows.mapInArrow(noted, rows.schema), path, options)
    assert not ran.exists()
    assert not Path(path).exists()


def test_default_fields_of_the_session_are_checked_before_a_task_runs(
    spark: SparkSession, path: str, rows: DataFrame
) -> None:
    spark.conf.set("spark.indextables.indexing.defaultSearchFields", "nope")
    try:
        for way in WRITES:
            with pytest.raises(Exception, match="nope"):
                WRITES[way](rows, path, {})
            assert not Path(path).exists()
    finally:
        spark.conf.unset("spark.indextables.indexing.defaultSearchFields")
