"""Who plans a read: the process that started the driver, and Spark's own where that one cannot. The
rows are the same.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import indextables.spark as its
from indextables.spark import extension
from indextables.spark.extension import plan_read
from tests.spark.compare import assert_same_rows
from tests.spark.logs import Logs, make_logs

READS: dict[str, Callable[[SparkSession, str], DataFrame]] = {
    "search": lambda spark, path: its.search(spark, path, "message:gateway"),
    "best": lambda spark, path: its.search(spark, path, "message:gateway", limit=5).drop("message"),
    "filtered": lambda spark, path: (
        its.search(spark, path, "message:gateway").where("id > 100").select("id")
    ),
    "format": lambda spark, path: (
        spark.read.format("indextables").option("query", "gateway").load(path)
    ),
    "sql": lambda spark, path: its.table(spark, path).where("textsearch(message, 'gateway')"),
}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    return make_logs(tmp_path_factory.mktemp("planning"))


@pytest.mark.parametrize("read", READS)
def test_a_read_is_planned_here_and_by_spark_alike(
    spark: SparkSession, logs: Logs, read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[bool] = []

    def here(schema: str, options: Mapping[str, str]) -> bytes | None:
        told = plan_read(schema, options)
        planned.append(told is not None)
        return told

    monkeypatch.setattr(extension, "plan_read", here)
    ours = READS[read](spark, logs.path).collect()
    assert planned == [True]
    assert ours
    monkeypatch.setattr(extension, "plan_read", lambda *_: None)
    assert_same_rows(spark.createDataFrame(ours), READS[read](spark, logs.path))


def test_a_frame_is_planned_for_the_version_it_was_made_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    its.write(
        spark.createDataFrame([("a one",)], "message string"),
        path,
        options={"indexing.typemap.message": "text"},
    )
    frame = its.search(spark, path, "message:a")
    its.write(spark.createDataFrame([("a two",)], "message string"), path)
    assert [row.message for row in frame.collect()] == ["a one"]
    assert its.search(spark, path, "message:a").count() == 2


def test_a_relative_path_is_spark_s_wherever_python_has_gone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started_in = Path(spark.sparkContext._jvm.java.lang.System.getProperty("user.dir"))  # type: ignore[union-attr]
    here, there = started_in / f"t-{tmp_path.name}", tmp_path / f"t-{tmp_path.name}"
    try:
        its.write(spark.createDataFrame([("here",)], "message string"), str(here))
        its.write(spark.createDataFrame([("there",)], "message string"), str(there))
        monkeypatch.chdir(tmp_path)
        frame = spark.read.format("indextables").load(here.name)
        assert [row.message for row in frame.collect()] == ["here"]
        spark.sql(
            f"CREATE OR REPLACE TEMP VIEW relative USING indextables OPTIONS (path '{here.name}')"
        )
        assert [row.message for row in spark.table("relative").collect()] == ["here"]
        spark.sql("CHECKPOINT INDEXTABLE relative")
        assert list(here.glob("_transaction_log/state-v*")) and not list(
            there.glob("_transaction_log/state-v*")
        )
    finally:
        shutil.rmtree(here, ignore_errors=True)


def test_what_cannot_be_planned_is_told_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    its.write(spark.createDataFrame([("a",)], "message string"), path)
    frame = its.search(spark, path, "message:a")
    shutil.rmtree(path)
    with pytest.raises(Exception, match="There is no table at") as raised:
        frame.collect()
    assert path in str(raised.value)
