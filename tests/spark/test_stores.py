"""Tables in an object store that Spark itself cannot open, and settings on their way to every
process.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import indextables.spark as its
from indextables import Table
from indextables.errors import UnknownOptionError, UnsupportedError
from indextables.spark.settings import known_settings
from indextables.spark.source.options import SourceOptions
from tests.spark.compare import assert_same_rows
from tests.spark.logs import OPTIONS, Logs, make_logs
from tests.spark.programs import run_program
from tests.support.places import StorePlace
from tests.support.servers import ServerUnavailableError, hadoop_aws_jars


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    return make_logs(tmp_path_factory.mktemp("stores"), commits=1)


@pytest.fixture
def session_store(spark: SparkSession, s3_place: StorePlace) -> Iterator[StorePlace]:
    """An S3 place whose credentials are settings of the session."""
    for key, value in s3_place.options.items():
        spark.conf.set(f"spark.indextables.{key}", value)
    yield s3_place
    for key in s3_place.options:
        spark.conf.unset(f"spark.indextables.{key}")


def secrets_of(place: StorePlace) -> list[str]:
    return [
        value for key, value in place.options.items() if key in ("aws.secretKey", "aws.accessKey")
    ]


def plans(frame: DataFrame) -> str:
    """Everything that Spark would show of a query: its plans, and what its web page and its event
    log are given.
    """
    execution = frame._jdf.queryExecution()
    jvm = frame.sparkSession._jvm
    assert jvm is not None
    modes = ("simple", "extended", "codegen", "cost", "formatted")
    shown = [
        execution.explainString(jvm.org.apache.spark.sql.execution.ExplainMode.fromString(m))
        for m in modes
    ]
    return "\n".join(
        [
            *shown,
            execution.toString(),
            execution.analyzed().treeString(),
            execution.logical().toJSON(),
        ]
    )


def test_the_arrow_scan_takes_over(
    spark: SparkSession, session_store: StorePlace, logs: Logs
) -> None:
    rows = spark.read.parquet(logs.parquet)
    its.write(rows, session_store.url, partition_by="day", options=OPTIONS)
    frame = its.table(spark, session_store.url, options={"read.driverSplits": 0})
    assert "BatchScan" in frame._jdf.queryExecution().toString()
    assert_same_rows(frame, rows)
    assert_same_rows(
        frame.where("day = '2024-03-09'").select("id"),
        rows.where("day = '2024-03-09'").select("id"),
    )
    hits = its.search(spark, session_store.url, "message:disk", limit=5)
    assert hits.count() == 5
    assert its.count(spark, session_store.url, query="message:disk") == Table.open(logs.path).count(
        query="message:disk"
    )
    with pytest.raises(UnsupportedError, match="Spark cannot read"):
        its.table(spark, session_store.url, options={"read.engine": "native"})


def test_session_settings_reach_planner_writer_and_tasks(
    spark: SparkSession, session_store: StorePlace
) -> None:
    spark.range(10).write.format("indextables").mode("append").save(session_store.url)
    frame = spark.read.format("indextables").load(session_store.url)
    assert frame.count() == 10
    for secret in secrets_of(session_store):
        assert secret not in plans(frame)
        assert secret not in repr(frame)


def test_an_option_is_stronger_than_the_session(
    spark: SparkSession, session_store: StorePlace, s3_place: StorePlace
) -> None:
    spark.range(10).write.format("indextables").mode("append").save(session_store.url)
    spark.conf.set("spark.indextables.aws.endpoint", "http://127.0.0.1:1")
    endpoint = s3_place.options["aws.endpoint"]
    assert (
        spark.read.format("indextables")
        .option("aws.endpoint", endpoint)
        .load(session_store.url)
        .count()
        == 10
    )
    named = spark.read.format("indextables").option("spark.indextables.aws.endpoint", endpoint)
    assert named.load(session_store.url).count() == 10


def test_secrets_given_as_options_are_not_shown(spark: SparkSession, s3_place: StorePlace) -> None:
    its.write(spark.range(10), s3_place.url, options=s3_place.options)
    frame = its.table(spark, s3_place.url, options=s3_place.options)
    assert frame.count() == 10
    for secret in secrets_of(s3_place):
        assert secret not in plans(frame)
    stored = "".join(
        str(a)
        for v in Table.open(s3_place.url, options=s3_place.options).history().to_pylist()
        for a in v.values()
    )
    assert not any(secret in stored for secret in secrets_of(s3_place))


def test_a_setting_that_does_not_exist_is_an_error_as_an_option_and_a_warning_in_a_conf(
    spark: SparkSession, logs: Logs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(UnknownOptionError, match=r"read\.splitPerTask"):
        its.table(spark, logs.path, options={"read.splitPerTask": 1})
    spark.conf.set("spark.indextables.write.maxRowPerSplit", "5")
    try:
        its.write(spark.range(3), str(tmp_path / "t"))
        assert "write.maxRowPerSplit is left out. There is no setting" in caplog.text
        assert "Did you mean 'write.maxRowsPerSplit'" in caplog.text
        with pytest.raises(Exception, match=r"(?i)write\.maxRowPerSplit"):
            writer = (
                spark.range(3)
                .write.format("indextables")
                .option("spark.indextables.write.maxRowPerSplit", "5")
            )
            writer.mode("append").save(str(tmp_path / "t"))
        spark.range(3).write.format("indextables").mode("append").save(str(tmp_path / "t"))
    finally:
        spark.conf.unset("spark.indextables.write.maxRowPerSplit")
    assert its.table(spark, str(tmp_path / "t")).count() == 6


def test_what_spark_knows_of_a_store_is_known_to_us() -> None:
    s3 = {
        "spark.hadoop.fs.s3a.access.key": "a",
        "spark.hadoop.fs.s3a.secret.key": "b",
        "spark.hadoop.fs.s3a.endpoint": "127.0.0.1:9000",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }
    ours = {
        "aws.accessKey": "a",
        "aws.secretKey": "b",
        "aws.endpoint": "http://127.0.0.1:9000",
        "aws.allowHttp": "true",
    }
    assert known_settings(s3) == ours
    own = {"spark.indextables.aws.accessKey": "c"}
    assert known_settings({**s3, **own}) == own, "two halves of two credentials"
    azure = {
        "spark.hadoop.fs.azure.account.key.shop.dfs.core.windows.net": "k",
        "spark.hadoop.fs.gs.block.size": "1",
    }
    assert known_settings(azure) == {"azure.accountKey": "k", "azure.accountName": "shop"}
    two = {**azure, "spark.hadoop.fs.azure.account.key.other.dfs.core.windows.net": "l"}
    assert known_settings(two) == {}
    assert SourceOptions.parse({"path": "s3a://b/t", **s3}).settings == ours


S3A = """
import indextables.spark as its
from indextables import Table
place, options, jars = {place!r}, {options!r}, {jars!r}
spark = its.session(master="local[2]", conf={{
    "spark.driver.extraClassPath": jars, "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": 2,
    "spark.hadoop.fs.s3a.endpoint": options["aws.endpoint"], "spark.hadoop.fs.s3a.endpoint.region": options["aws.region"],
    "spark.hadoop.fs.s3a.access.key": options["aws.accessKey"], "spark.hadoop.fs.s3a.secret.key": options["aws.secretKey"],
    "spark.hadoop.fs.s3a.path.style.access": "true",
}})
rows = spark.range(0, 100, 1, 2).selectExpr("id", "'row ' || id as message", "id % 2 as day")
its.write(rows, "s3a://" + place, partition_by="day", options={{"indexing.typemap.message": "text"}})
for scheme in ("s3a", "s3"):
    frame = its.table(spark, scheme + "://" + place)
    print(scheme, "FileScan parquet" in frame._jdf.queryExecution().toString(), frame.where("day = 1").count())
    print(its.search(spark, scheme + "://" + place, "message:42").collect()[0].id, its.count(spark, scheme + "://" + place))
    print(spark.sql(f"SELECT id FROM indextables.`{{scheme}}://{{place}}` WHERE message TEXTSEARCH '7'").collect()[0].id)
print(*spark.sql(f"DELETE FROM indextables.`s3a://{{place}}` WHERE id < 10").first())
print(*spark.sql(f"MERGE INTO indextables.`s3://{{place}}` t USING (SELECT 99L AS id) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET message = 'merged'").first())
other = its.table(spark, "s3a://" + place, options={{**options, "aws.secretKey": "another"}})
print("FileScan parquet" in other._jdf.queryExecution().toString())
table = Table.open("s3://" + place, options=options)
print(table.count(), table.count(query="message:merged"), table.verify(full=True).healthy)
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_spark_reads_s3_itself_where_it_has_a_file_system(
    s3_place: StorePlace, tmp_path: Path
) -> None:
    try:
        jars = hadoop_aws_jars()
    except ServerUnavailableError as error:
        pytest.skip(str(error))
    place = s3_place.url.removeprefix("s3://")
    program = S3A.format(place=place, options=dict(s3_place.options), jars=":".join(map(str, jars)))
    assert run_program(program, tmp_path).splitlines() == [
        "s3a True 50",
        "42 100",
        "7",
        "s3 True 50",
        "42 100",
        "7",
        "10 0 10 0",
        "1 1 0 0",
        "False",
        "90 1 True",
    ]
