"""MERGE INTO and DELETE by key on a table of one format, in a session of its own; prints the seconds of each as JSON.

`bench/spark.py` runs it once for our tables and once for Delta's, on the same Parquet files: in a process each, because the
newest delta-spark (4.4.0) is made for Spark 4.2 and fails in 4.3 (NoSuchMethodError: LogicalRDD.<init>). So it must run
without this project.

    python bench/delta_spark.py indextables|indexed|delta PARQUET FOLDER
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

POINTS = 5
MEMORY = "2g"


def seconds(work: Callable[[], Any]) -> float:
    """How long it takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def delta_session() -> Any:
    """A session that knows Delta's tables."""
    from delta import configure_spark_with_delta_pip  # type: ignore[import-not-found]
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", MEMORY)
    builder = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
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

    its.write(rows, path, options=OPTIONS if kind == "indexed" else {"indexing.nonindexed": ",".join(rows.columns)})


def main(kind: str, parquet: str, folder: str) -> dict[str, float]:
    """The seconds of each statement; a second table has warmed the session up."""
    spark = delta_session() if kind == "delta" else our_session()
    rows = spark.read.parquet(parquet)
    name = "delta" if kind == "delta" else "indextables"
    times: dict[str, float] = {}
    for place, data in (("warm", rows.limit(2000)), ("table", rows)):
        path = f"{folder}/{place}"
        times["write"] = seconds(lambda data=data, path=path: write(spark, kind, data, path))  # type: ignore[misc]
        changed = data.where("id % 100 = 7").withColumn("message", data["message"].substr(2, 1000))
        changed.write.mode("overwrite").parquet(f"{folder}/{place}-changes")
        spark.read.parquet(f"{folder}/{place}-changes").createOrReplaceTempView("changes")
        merge = f"MERGE INTO {name}.`{path}` t USING changes s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
        times["merge"] = seconds(lambda sql=merge: spark.sql(sql).collect())  # type: ignore[misc]
        ids = [row.id for row in data.where("id % 100 = 8").limit(POINTS).collect()]
        deletes = [f"DELETE FROM {name}.`{path}` WHERE id = {number}" for number in ids]
        times["delete"] = statistics.median(seconds(lambda sql=sql: spark.sql(sql).collect()) for sql in deletes)  # type: ignore[misc]
        left = spark.sql(f"SELECT count(*) AS n FROM {name}.`{path}`").first().n
        assert left == data.count() - len(ids), (kind, left)
    spark.stop()
    return times


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
