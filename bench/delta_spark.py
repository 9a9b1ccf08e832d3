"""MERGE INTO and DELETE by key on a table of one format, in a session of its own; prints the
seconds of each as JSON.

`bench/spark.py` runs it once for our tables and once for Delta's, on the same Parquet files: in a
process each, because the newest delta-spark that has a jar (4.4.0) is made for Spark 4.2 and fails
in 4.3 (NoSuchMethodError: LogicalRDD.<init>). So it must run where this project is not installed,
from the folder above `bench`.

    python -m bench.delta_spark indextables|indexed|delta PARQUET FOLDER
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from bench.process_tree import CpuMeter

MERGES, POINTS = 3, 5
MEMORY = "2g"


def seconds(works: list[Callable[[], Any]]) -> list[float]:
    """How long some pieces of work take: the median by the clock, and of the CPU time of all
    processes of the session.
    """
    times = []
    for work in works:
        start = time.perf_counter()
        with CpuMeter() as meter:
            work()
        times.append((time.perf_counter() - start, meter.seconds))
    return [
        statistics.median(wall for wall, _ in times),
        statistics.median(cpu for _, cpu in times),
    ]


def delta_session() -> Any:
    """A session that knows Delta's tables."""
    from delta import configure_spark_with_delta_pip  # type: ignore[import-not-found]
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", MEMORY)
    builder = builder.config("spark.ui.enabled", "false").config(
        "spark.sql.shuffle.partitions", "2"
    )
    # Delta works its log out in 50 tasks otherwise, which nobody would ask of two cores.
    builder = builder.config("spark.databricks.delta.snapshotPartitions", "2")
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    builder = builder.config(
        "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    )
    return configure_spark_with_delta_pip(builder).getOrCreate()


def our_session() -> Any:
    """A session that knows ours."""
    import indextables.spark as its

    conf = {"spark.driver.memory": MEMORY, "spark.sql.shuffle.partitions": 2}
    return its.session("bench", master="local[2]", conf=conf)


def write(spark: Any, kind: str, rows: Any, path: str) -> None:
    """A table of the rows. Delta marks deleted rows too, as ours does."""
    if kind == "delta":
        spark.conf.set("spark.databricks.delta.properties.defaults.enableDeletionVectors", "true")
        rows.write.format("delta").save(path)
        return
    import indextables.spark as its
    from indextables.cli.demo import OPTIONS

    its.write(
        rows,
        path,
        options=OPTIONS if kind == "indexed" else {"indexing.nonindexed": ",".join(rows.columns)},
    )


def main(kind: str, parquet: str, folder: str) -> dict[str, list[float]]:
    """Seconds of each statement, by the clock and of CPU; a second table has warmed the session up."""
    spark = delta_session() if kind == "delta" else our_session()
    rows = spark.read.parquet(parquet)
    name = "delta" if kind == "delta" else "indextables"
    times: dict[str, list[float]] = {}

    def statements(texts: list[str]) -> list[float]:
        return seconds([lambda text=text: spark.sql(text).collect() for text in texts])  # type: ignore[misc]

    for place, data in (("warm", rows.limit(2000)), ("table", rows)):
        path = f"{folder}/{place}"
        times["write"] = seconds([lambda data=data, path=path: write(spark, kind, data, path)])  # type: ignore[misc]
        merges = []
        for turn in range(MERGES):
            changed = data.where(f"id % 100 = {7 + turn}").withColumn(
                "message", data["message"].substr(2, 1000)
            )
            changed.write.parquet(f"{folder}/{place}-changes-{turn}")
            spark.read.parquet(f"{folder}/{place}-changes-{turn}").createOrReplaceTempView(
                f"{place}_{turn}"
            )
            merges.append(
                f"MERGE INTO {name}.`{path}` t USING {place}_{turn} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
            )
        times["merge"] = statements(merges)
        ids = [row.id for row in data.where("id % 100 = 50").limit(POINTS).collect()]
        times["delete"] = statements(
            [f"DELETE FROM {name}.`{path}` WHERE id = {number}" for number in ids]
        )
        left = spark.sql(
            f"SELECT count(*) AS n, sum(length(message)) AS l FROM {name}.`{path}`"
        ).first()
        assert left.n == data.count() - len(ids), (kind, left.n)
        kept = data.where(f"id not in ({','.join(map(str, ids))})")
        merged = f"length(message) - if(id % 100 between 7 and {6 + MERGES}, 1, 0)"
        assert left.l == kept.selectExpr(f"sum({merged}) AS l").first().l, (kind, left.l)
    spark.stop()
    return times


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
