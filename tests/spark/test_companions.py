"""Companions in Spark: every way to read gives the rows of the source, also those not indexed yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from indextables import Table
from indextables import spark as its
from tests.support.delta_tables import HandDelta

COLUMNS = (("id", "long"), ("message", "string"), ("level", "string"))


def rows(word: str, *ids: int) -> list[dict[str, Any]]:
    return [{"id": n, "message": f"{word} n{n}", "level": "AB"[n % 2]} for n in ids]


@pytest.fixture
def followed(tmp_path: Path) -> tuple[Table, HandDelta]:
    """A companion whose source has rows deleted by a vector and a file that is not indexed."""
    delta = HandDelta.create(tmp_path / "events", COLUMNS, maps_columns=True)
    delta.append(rows("alpha", *range(10)))
    delta.append(rows("beta", *range(10, 20)))
    made = Table.companion(str(tmp_path / "index"), source=str(delta.root), text=["message"])
    made.sync()
    delta.delete_by_vector(next(iter(delta.live)), [1, 2])
    delta.append(rows("alpha", 20, 21))
    return made.refresh(), delta


FOUND = [0, *range(3, 10), 20, 21]


def test_every_way_to_read_gives_the_rows_of_the_source(
    spark: SparkSession, followed: tuple[Table, HandDelta]
) -> None:
    made, _ = followed
    path = made.path
    loaded = spark.read.format("indextables").load(path)
    assert loaded.count() == 20
    assert sorted(r.id for r in loaded.where("level = 'A'").collect()) == [
        n for n in [0, *range(3, 22)] if n % 2 == 0
    ]
    assert sorted(r.id for r in its.search(spark, path, "alpha").collect()) == FOUND
    assert its.count(spark, path, query="alpha") == len(FOUND)
    assert its.table(spark, path).count() == 20
    assert its.table(spark, path, at=2).count() == 20
    loaded.createOrReplaceTempView("followed")
    found = spark.sql("SELECT id FROM followed WHERE message TEXTSEARCH 'alpha' ORDER BY id")
    assert [r.id for r in found.collect()] == FOUND
    grouped = spark.sql(
        "SELECT level, count(*) AS n FROM followed WHERE message TEXTSEARCH 'alpha' GROUP BY level"
    )
    assert {r.level: r.n for r in grouped.collect()} == {"A": 5, "B": 5}
    levels = its.aggregate(spark, path, {"l": {"terms": {"field": "level"}}}, query="alpha")
    assert sum(r["count"] for r in levels.collect()) == len(FOUND)


def test_a_frame_stays_at_the_version_of_the_source(
    spark: SparkSession, followed: tuple[Table, HandDelta]
) -> None:
    made, delta = followed
    frame = its.search(spark, made.path, "alpha")
    delta.append(rows("alpha", 30))
    assert sorted(r.id for r in frame.collect()) == FOUND
    assert its.count(spark, made.path, query="alpha") == len(FOUND) + 1


def test_writes_and_streams_are_refused_with_the_way_out(
    spark: SparkSession, followed: tuple[Table, HandDelta]
) -> None:
    made, _ = followed
    frame = spark.read.format("indextables").load(made.path)
    with pytest.raises(PySparkException, match="rows of the source"):
        frame.limit(1).write.format("indextables").mode("append").save(made.path)
    with pytest.raises(PySparkException, match="rows of the source"):
        spark.sql(f"DELETE FROM indextables.`{made.path}` WHERE id = 1")
    changes = spark.read.format("indextables").option("readChangeFeed", "true")
    with pytest.raises(PySparkException, match="do not change rows"):
        changes.option("startingVersion", 0).load(made.path).collect()
