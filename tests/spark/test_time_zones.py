"""Days and times in conditions are those of the session's time zone, through whichever door they
come.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import indextables.spark as its
from indextables import Table

START = dt.datetime(2026, 3, 7, tzinfo=dt.UTC)
CONDITIONS = (
    "ts >= '2026-03-08' AND ts < '2026-03-09'",
    "ts >= timestamp '2026-03-08 00:00:00' AND ts < date '2026-03-09'",
    "ts = '2026-03-08 02:30:00'",
    "ts > '2026-03-08 00:00:00Z'",
    "wall >= '2026-03-08' AND wall < timestamp '2026-03-09 00:00:00'",
    "day >= timestamp '2026-03-08 00:00:00'",
    "day = '2026-03-08' OR ts < '2026-03-07 12:00:00'",
    "ts IN ('2026-03-08', '2026-03-08 12:00:00+01:00')",
    "wall >= '2026-03-08 00:00:00Z' AND wall < '2026-03-09'",
    "day = '2026-03-08 00:00:00Z'",
    "day = CAST(timestamp '2026-03-07 22:00:00' AS DATE)",
    "timestamp '2026-03-08 00:00:00' < date '2026-03-08' OR id < 5",
)


@pytest.fixture(params=["America/New_York", "Asia/Kolkata", "+02:00", "PST"])
def zone(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", str(before))


@pytest.fixture
def path(tmp_path: Path) -> str:
    hours = [START + dt.timedelta(minutes=30 * n) for n in range(150)]
    schema = pa.schema(
        {
            "id": pa.int64(),
            "ts": pa.timestamp("us", "UTC"),
            "wall": pa.timestamp("us"),
            "day": pa.date32(),
        }
    )
    plain = [hour.replace(tzinfo=None) for hour in hours]
    rows = {"id": range(150), "ts": hours, "wall": plain, "day": [hour.date() for hour in plain]}
    table = Table.create(str(tmp_path / "t"), schema=schema)
    table.append(pa.table(rows, schema=schema))
    return str(table.path)


def test_conditions_as_text_are_understood_as_spark_does(
    spark: SparkSession, zone: str, path: str
) -> None:
    rows = spark.read.format("indextables").load(path).localCheckpoint()
    for where in CONDITIONS:
        expected = sorted(row.id for row in rows.where(where).collect())
        assert (
            sorted(row.id for row in its.table(spark, path).where(where).collect()) == expected
        ), where
        assert (
            sorted(row.id for row in its.search(spark, path, "", where=where).collect()) == expected
        ), where
        option = spark.read.format("indextables").option("where", where).load(path)
        assert sorted(row.id for row in option.collect()) == expected, where
        assert its.count(spark, path, where=where) == len(expected), where
        assert its.delete(spark, path, where=where, dry_run=True).deleted_rows == len(expected), (
            where
        )
        assert Table.open(path, options={"condition.timeZone": zone}).count(where=where) == len(
            expected
        ), where


def test_rows_are_deleted_and_replaced_by_the_days_of_the_session(
    spark: SparkSession, zone: str, path: str
) -> None:
    where, other = (
        "ts >= '2026-03-08' AND ts < '2026-03-09'",
        "ts >= '2026-03-07 12:00:00' AND ts < '2026-03-08'",
    )
    rows = its.table(spark, path).localCheckpoint()
    left = sorted(row.id for row in rows.where(f"NOT ({where}) AND NOT ({other})").collect())
    its.delete(spark, path, where=where)
    replacing = rows.where(other).limit(1)
    replacing.write.format("indextables").mode("overwrite").option("replaceWhere", other).save(path)
    (kept,) = (row.id for row in its.table(spark, path).where(other).collect())
    assert sorted(row.id for row in its.table(spark, path).collect()) == sorted([*left, kept])


def test_an_older_version_by_its_moment(spark: SparkSession, zone: str, path: str) -> None:
    table = Table.open(path)
    made = next(
        row["timestamp"] for row in table.history().to_pylist() if row["version"] == table.version
    )
    table.delete(where="id > 10")
    shown = spark.sql(
        f"SELECT timestamp '{made.astimezone(dt.UTC).isoformat(sep=' ')}' AS made"
    ).selectExpr("date_format(made, 'yyyy-MM-dd HH:mm:ss.SSS') AS made")
    (moment,) = (row.made for row in shown.collect())
    assert (
        spark.read.format("indextables").option("timestampAsOf", moment).load(path).count() == 150
    )
    assert spark.read.format("indextables").load(path).count() == 11


@pytest.mark.parametrize(
    "literal", ["'2026-03-08'", "TIMESTAMP '2026-03-08 00:00:00'", "DATE '2026-03-08'"]
)
def test_partitions_by_moments(
    spark: SparkSession, zone: str, literal: str, tmp_path: Path
) -> None:
    other = "SELECT 2, timestamp '2026-03-08 00:00:00Z'"
    frame = spark.sql(f"SELECT 1 AS id, timestamp '2026-03-08 00:00:00' AS ts UNION ALL {other}")
    its.write(frame, str(tmp_path / "t"), partition_by=["ts"])
    spark.sql(f"DROP INDEXTABLES PARTITIONS FROM '{tmp_path / 't'}' WHERE ts = {literal}")
    assert [row.id for row in its.table(spark, str(tmp_path / "t")).collect()] == [2]
