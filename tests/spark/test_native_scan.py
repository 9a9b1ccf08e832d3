"""The native scan gives the rows that Spark gives for plain Parquet, and plans from the log alone."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import indextables.spark as its
from indextables import AddAction, Table
from indextables.errors import CorruptTableError, TableNotFoundError, VersionNotFoundError
from tests.spark.compare import assert_same_rows, rows_of
from tests.spark.logs import SCHEMA, Logs, log_rows, make_logs
from tests.support.spark_filters import FILTERS


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    return make_logs(tmp_path_factory.mktemp("native"))


@pytest.fixture(scope="module")
def parquet(spark: SparkSession, logs: Logs) -> DataFrame:
    return spark.read.parquet(logs.parquet)


def scanned_files(frame: DataFrame) -> int:
    """How many files the planned scans read."""
    return len({row[0] for row in frame.selectExpr("_metadata.file_path").collect()})


def planned_partitions(frame: DataFrame) -> int:
    """How many partitions Spark plans before it has read anything."""
    return frame.rdd.getNumPartitions()


def test_all_rows_and_the_schema_of_the_table(
    spark: SparkSession, logs: Logs, parquet: DataFrame
) -> None:
    frame = its.table(spark, logs.path)
    assert frame.columns == SCHEMA.names
    assert [f.dataType for f in frame.schema] == [f.dataType for f in parquet.schema]
    assert_same_rows(frame, parquet)


@pytest.mark.parametrize("condition", FILTERS)
def test_filters_give_what_parquet_gives(
    spark: SparkSession, logs: Logs, parquet: DataFrame, condition: str
) -> None:
    assert_same_rows(its.table(spark, logs.path).where(condition), parquet.where(condition))


def test_spark_reads_the_files_itself(spark: SparkSession, logs: Logs) -> None:
    plan = (
        its.table(spark, logs.path)
        .where("id = 5 and day = '2024-03-09'")
        ._jdf.queryExecution()
        .toString()
    )
    assert "FileScan parquet" in plan
    assert "Batched: true" in plan
    assert "SnapshotFileIndex" in plan
    assert "BatchScan" not in plan


def test_partitions_and_bounds_rule_out_files_before_they_are_opened(
    spark: SparkSession, tmp_path: Path
) -> None:
    logs = make_logs(tmp_path)
    gone = [
        p for p in Table.open(logs.path).files()["path"].to_pylist() if "day=2024-03-09" not in p
    ]
    for path in gone:
        (Path(logs.path) / path).unlink()
    frame = its.table(spark, logs.path).where("day = '2024-03-09'")
    assert (
        frame.count()
        == logs.rows.filter(pa.compute.equal(logs.rows["day"], dt.date(2024, 3, 9))).num_rows
    )
    assert planned_partitions(its.table(spark, logs.path).where("id > 100000")) == 0
    assert planned_partitions(its.table(spark, logs.path).where("level = 'AAA'")) == 0


def test_a_join_prunes_partitions_while_it_runs(
    spark: SparkSession, logs: Logs, parquet: DataFrame
) -> None:
    days = spark.sql(
        "select date'2024-03-09' as day, 'x' as mark union all select date'2024-03-11', 'y'"
    )
    found = its.table(spark, logs.path).join(days.where("mark = 'x'"), "day")
    assert_same_rows(found.select("id"), parquet.join(days.where("mark = 'x'"), "day").select("id"))


def test_older_versions_by_number_and_time(spark: SparkSession, logs: Logs) -> None:
    history = Table.open(logs.path).history()
    when = dict(zip(history["version"].to_pylist(), history["timestamp"].to_pylist(), strict=True))
    assert its.table(spark, logs.path, version=1).count() == 200
    assert its.table(spark, logs.path, timestamp=when[2]).count() == 400
    with pytest.raises(VersionNotFoundError):
        its.table(spark, logs.path, version=77)


def test_a_frame_stays_at_its_version(spark: SparkSession, tmp_path: Path) -> None:
    logs = make_logs(tmp_path, commits=1)
    frame = its.table(spark, logs.path)
    Table.open(logs.path).append(log_rows(50, start=1000))
    assert frame.count() == 200
    assert its.table(spark, logs.path).count() == 250


def test_two_versions_in_one_plan(spark: SparkSession, logs: Logs) -> None:
    old, new = its.table(spark, logs.path, version=1), its.table(spark, logs.path)
    assert new.select("id").exceptAll(old.select("id")).count() == 400
    assert old.where("id = 1").unionAll(new.where("id = 401")).count() == 2


def test_a_cached_frame_answers_for_its_own_snapshot_only(
    spark: SparkSession, tmp_path: Path
) -> None:
    logs = make_logs(tmp_path, commits=2)
    old = its.table(spark, logs.path, version=1).cache()
    try:
        assert old.count() == 200
        assert its.table(spark, logs.path).count() == 400
        assert (
            "InMemoryTableScan"
            in its.table(spark, logs.path, version=1)._jdf.queryExecution().toString()
        )
    finally:
        old.unpersist()


def test_added_columns_are_null_in_old_splits(spark: SparkSession, tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=pa.schema([("a", pa.int32())]))
    table.append(pa.table({"a": pa.array([1], pa.int32())}))
    table.append(pa.table({"a": pa.array([2], pa.int32()), "b": ["x"]}), merge_schema=True)
    frame = its.table(spark, table.path)
    assert rows_of(frame) == [("1", "None"), ("2", "'x'")]
    assert frame.where("b is null").count() == 1
    assert frame.where("b = 'x'").count() == 1


def test_an_empty_table(spark: SparkSession, tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, partition_columns=["day"])
    assert its.table(spark, table.path).where("id = 1").collect() == []


def test_names_that_need_care(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "a b%20c:#d+é"
    names = ["a.b", "with space", "名前", "quote`d", "UPPER", "p=1/x"]
    schema = pa.schema([(name, pa.string()) for name in names])
    table = Table.create(str(folder), schema=schema, partition_columns=["p=1/x"])
    values = ["x/y z%25=:é", "", None, "__HIVE"]
    table.append(
        pa.table({name: ["v"] * 4 if name != "p=1/x" else values for name in names}, schema=schema)
    )
    frame = its.table(spark, str(folder))
    assert frame.columns == names
    assert sorted(str(r[0]) for r in frame.select("`p=1/x`").collect()) == sorted(map(str, values))
    assert frame.where("`p=1/x` = 'x/y z%25=:é' and `a.b` = 'v' and `quote``d` = 'v'").count() == 1
    assert frame.where("`p=1/x` = ''").count() == 1
    assert frame.where("`p=1/x` is null and upper = 'v'").count() == 1


@pytest.mark.parametrize(
    ("kind", "values", "condition", "count"),
    [
        (pa.int8(), [-1, 0, 5], "p = 5", 1),
        (pa.int16(), [-300, 300], "p < 0", 1),
        (pa.int32(), [1, 2], "p >= 2", 1),
        (pa.int64(), [1 << 40, -(1 << 40)], "p > 0", 1),
        (pa.float64(), [1.5, float("nan"), float("-inf")], "p = double('NaN')", 1),
        (pa.float32(), [0.1, 2.5], "p = float('0.1')", 1),
        (pa.bool_(), [True, False], "p", 1),
        (pa.decimal128(20, 3), ["1.500", "-99999999999999999.999"], "p = 1.5BD", 1),
        (pa.date32(), [dt.date(1, 1, 1), dt.date(2024, 2, 29)], "p = date'0001-01-01'", 1),
        (
            pa.timestamp("us", "UTC"),
            [dt.datetime(2024, 3, 10, 7, 0, 0, 1)],
            "p = timestamp'2024-03-10 07:00:00.000001Z'",
            1,
        ),
        (
            pa.timestamp("us"),
            [dt.datetime(2024, 3, 10, 2, 30)],
            "p = timestamp_ntz'2024-03-10 02:30:00'",
            1,
        ),
    ],
    ids=str,
)
def test_partition_values_of_every_type(
    spark: SparkSession,
    tmp_path: Path,
    kind: pa.DataType,
    values: list[object],
    condition: str,
    count: int,
) -> None:
    column = pa.array(values).cast(kind) if pa.types.is_decimal(kind) else pa.array(values, kind)
    rows = pa.table(
        {"p": pa.concat_arrays([column, pa.nulls(1, kind)]), "x": list(range(len(values) + 1))}
    )
    table = Table.create(str(tmp_path / "t"), schema=rows.schema, partition_columns=["p"])
    table.append(rows)
    frame = its.table(spark, table.path)
    assert frame.where(condition).count() == count
    assert frame.where("p is null").count() == 1
    assert rows_of(frame) == rows_of(spark.createDataFrame(rows, frame.schema))


def test_a_size_or_value_that_cannot_be_trusted_is_an_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, partition_columns=["day"])
    with table.transaction(check_splits=False) as tx:
        tx.add(
            AddAction(
                path="day=x/a.split",
                partition_values={"day": "x"},
                size=5,
                stats='{"nullCount":{}}',
            )
        )
    with pytest.raises(CorruptTableError, match=r"a\.split.*'x'.*'day'"):
        its.table(spark, table.path)
    other = Table.create(str(tmp_path / "u"), schema=SCHEMA)
    with other.transaction(check_splits=False) as tx:
        tx.add(AddAction(path="a.split", size=0, stats='{"nullCount":{}}'))
    with pytest.raises(CorruptTableError, match=r"no size for a\.split"):
        its.table(spark, other.path)


def test_no_table_is_said_by_name(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError, match="nothing-here"):
        its.table(spark, str(tmp_path / "nothing-here"))


def test_the_arrow_way_gives_the_same_rows(
    spark: SparkSession, logs: Logs, parquet: DataFrame
) -> None:
    frame = its.table(spark, logs.path, options={"read.engine": "arrow"})
    assert "BatchScan" in frame._jdf.queryExecution().toString()
    assert_same_rows(frame, parquet)


def test_splits_of_other_engines_are_read_beside_ours(
    spark: SparkSession, table_of_another_engine: Table
) -> None:
    table = table_of_another_engine
    before = table.scan().read_all()
    table.append(before.slice(0, 3))
    frame = its.table(spark, table.path)
    assert frame.count() == before.num_rows + 3
    assert_same_rows(frame, spark.createDataFrame(pa.concat_tables([before, before.slice(0, 3)])))


def test_a_zero_is_found_whatever_its_sign(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"id": range(100), "ms": [-0.0] * 50 + [1.5] * 50, "s": [{"x": -0.0}] * 100})
    table = Table.create(str(tmp_path / "t"), schema=rows.schema)
    table.append(rows)
    frame = its.table(spark, table.path)
    assert frame.where("ms = 0.0").count() == 50
    assert frame.where("s.x = 0.0").count() == 100
    assert frame.where("ms in (0.0, 7.0)").count() == 50
    positive = Table.create(str(tmp_path / "positive"), schema=pa.schema([("ms", pa.float64())]))
    positive.append(pa.table({"ms": [0.0] * 50 + [1.5] * 50}))
    frame = its.table(spark, positive.path)
    assert (frame.where("ms = -0.0D").count(), frame.where("ms <= -0.0D").count()) == (50, 50)
