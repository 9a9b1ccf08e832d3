"""`make bench-spark`: tables in Spark against plain Parquet of the same rows.

ROWS (5,000,000), REPEAT (11) and PLANNED_FILES (100,000) make it smaller.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import indextables.spark as its
from bench.process_tree import CpuMeter
from bench.report import Report, timed_ms
from indextables import AddAction, Table
from indextables.cli.demo import OPTIONS, SCHEMA, log_lines

ROWS = int(os.environ.get("ROWS", "5000000"))
FILES = 16
REPEAT = int(os.environ.get("REPEAT", "11"))
PLANNED_FILES = int(os.environ.get("PLANNED_FILES", "100000"))
WORD = "deadlock"
"""One row in 120 has it: every row group is touched, whoever looks for it."""


def plain_parquet(folder: Path, rows: int) -> None:
    """The rows as Parquet files, as a pipeline would find them."""
    folder.mkdir()
    per_file = -(-rows // FILES)
    for n in range(FILES):
        with pq.ParquetWriter(
            folder / f"part-{n:02}.parquet", SCHEMA, compression="zstd"
        ) as writer:
            for batch in log_lines(per_file, seed=n):
                writer.write_batch(batch)


def measured(work: Callable[[], Any]) -> tuple[float, float]:
    """Wall and CPU seconds of a piece of work, over this process and everything it has started."""
    start = time.perf_counter()
    with CpuMeter() as meter:
        work()
    return time.perf_counter() - start, meter.seconds


def by_turns(ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[float, float]:
    """The median times of both, in milliseconds, by turns: the JVM gets quicker with every run, and
    the machine varies.
    """
    times: list[tuple[float, float]] = []
    for _ in range(REPEAT):
        second = timed_ms(theirs, repeat=1)
        times.append((timed_ms(ours, repeat=1), second))
    return statistics.median(t for t, _ in times), statistics.median(t for _, t in times)


def without_result(frame: DataFrame) -> None:
    """Carry a query out, rows and all, and leave the rows where they are."""
    frame.write.format("noop").mode("overwrite").save()


def writing(report: Report, rows: DataFrame, root: Path) -> str:
    """Writing with an index against writing plain Parquet, and against the split writer in one
    process.
    """
    count = rows.count()
    rows.limit(1000).write.parquet(str(root / "warm"))
    its.write(rows.limit(1000), str(root / "warm-ours"), options=OPTIONS)
    _, their_cpu = measured(lambda: rows.write.parquet(str(root / "theirs")))
    wall, cpu = measured(lambda: its.write(rows, str(root / "ours"), options=OPTIONS))
    report.add("write, CPU", cpu, "s", peer="df.write.parquet", theirs=their_cpu, at_most=4.5)
    # As many rows as a task of the write above has: an index that outgrows the writer's memory is
    # merged at the end.
    sample = pa.Table.from_batches(
        log_lines(count // rows.sparkSession.sparkContext.defaultParallelism)
    )
    alone = Table.create(str(root / "alone"), schema=SCHEMA, options=OPTIONS)
    # This process alone: a worker of Spark's that ends meanwhile would take its time out of the
    # sum.
    before = time.process_time()
    alone.append(sample)
    one = time.process_time() - before
    report.add("write, rows/s", count / wall, "rows/s")
    # By CPU on both sides: a machine that has other work to do would be blamed on Spark otherwise.
    report.add(
        "write, rows per second of a core",
        count / cpu,
        "rows/s",
        peer="split writer",
        theirs=sample.num_rows / one,
        at_least=0.8,
    )
    return str(root / "ours")


def reading(report: Report, spark: SparkSession, plain: DataFrame, path: str) -> None:
    """Scans, search and counts."""
    table = its.table(spark, path)
    for what, ask, goal in (
        ("full scan", lambda d: d.selectExpr("sum(hash(*))").collect(), 1.0),
        ("sum of a column", lambda d: d.selectExpr("sum(latency_ms)").collect(), 0.9),
    ):
        mine, theirs = by_turns(partial(ask, table), partial(ask, plain))
        report.add(
            f"{what}, speed",
            1000 / mine,
            "1/s",
            peer="spark.read.parquet",
            theirs=1000 / theirs,
            at_least=goal,
        )
    line = plain.where("message like '%, request %'").orderBy("ts").first()
    assert line is not None
    searching(report, spark, plain, path, "selective search", line.message.split()[-1], at_least=20)
    searching(report, spark, plain, path, "search of a common word", WORD, at_least=1)
    small_answers(report, spark, table)
    best = timed_ms(
        lambda: its.search(spark, path, "message:timeout", limit=10).collect(), repeat=15
    )
    report.add("best 10 of a word", best, "ms")
    mine, theirs = by_turns(partial(its.count, spark, path), plain.count)
    report.add(
        "count, speed",
        1000 / mine,
        "1/s",
        peer="spark.read.parquet",
        theirs=1000 / theirs,
        at_least=50,
    )


SMALL_ANSWERS = {
    "count under a search": "SELECT count(*) FROM bench WHERE message TEXTSEARCH '{}'",
    "LIMIT 10 under a search": "SELECT * FROM bench WHERE message TEXTSEARCH '{}' LIMIT 10",
    "GROUP BY under a search": "SELECT level, count(*) FROM bench WHERE message TEXTSEARCH '{}' GROUP BY level",
    "histogram under a search": "SELECT date_trunc('hour', ts), count(*) FROM bench WHERE message TEXTSEARCH '{}' GROUP BY 1",
    "newest 10 under a search": "SELECT ts, message FROM bench WHERE message TEXTSEARCH '{}' ORDER BY ts DESC LIMIT 10",
}


def small_answers(report: Report, spark: SparkSession, table: DataFrame) -> None:
    """Questions with small answers, against a job of Spark's that does nothing; each is asked anew,
    as SQL.
    """
    table.createOrReplaceTempView("bench")

    def empty() -> None:
        spark.range(0, 2, 1, 2).selectExpr("count(id)").collect()

    def answered(sql: str) -> None:
        spark.sql(sql).collect()

    empty()
    for what, statement in SMALL_ANSWERS.items():
        first = timed_ms(partial(answered, statement.format(WORD)), repeat=1)
        mine, theirs = by_turns(partial(answered, statement.format(WORD)), empty)
        report.add(
            what, mine, "ms", peer="empty job", theirs=theirs, at_most=2, note={"first ms": first}
        )


def searching(
    report: Report,
    spark: SparkSession,
    plain: DataFrame,
    path: str,
    what: str,
    word: str,
    at_least: float | None = None,
) -> None:
    """All rows that hold a word, against a look at every row."""
    like = plain.where(f"contains(message, '{word}')")
    hits = its.search(spark, path, f"message:{word}")
    assert 0 < hits.count() == like.count()
    mine, theirs = by_turns(partial(without_result, hits), partial(without_result, like))
    report.add(
        f"{what}, speed",
        1000 / mine,
        "1/s",
        peer="contains()",
        theirs=1000 / theirs,
        at_least=at_least,
    )


def planning(report: Report, spark: SparkSession, root: Path) -> None:
    """A table of many files, planned from its log. The files themselves do not exist."""
    table = Table.create(str(root / "many"), schema=SCHEMA, partition_columns=["day"])
    with table.transaction(check_splits=False) as tx:
        for n in range(PLANNED_FILES):
            day = f"2026-{n % 12 + 1:02}-{n % 28 + 1:02}"
            bounds = {"message": f"m{n:06}", "latency_ms": str(n), "level": "ERROR"}
            tx.add(
                AddAction(
                    path=f"day={day}/splits/{n}.split",
                    partition_values={"day": day},
                    size=1000 + n,
                    num_records=10,
                    min_values=bounds,
                    max_values=bounds,
                    stats='{"numRecords":10,"nullCount":{"message":0}}',
                )
            )

    def plan() -> None:
        frame = its.table(spark, table.path).where("day = '2026-03-03' and latency_ms < 5000")
        assert frame.rdd.getNumPartitions() >= 0

    plan()
    report.add(
        f"plan table() over {PLANNED_FILES:,} files",
        timed_ms(plan, repeat=3),
        "ms",
        at_most=3000,
        absolute=True,
    )


DELTA = ("delta-spark==4.4.0", "pyspark==4.2.0")
"""The newest delta-spark that has a jar, and the newest Spark that it works with; Spark fetches the
jar itself.
"""


def delta_python() -> str:
    """An interpreter that has delta-spark with the Spark that it is made for: `DELTA_PYTHON`, or
    one made here once.
    """
    given = os.environ.get("DELTA_PYTHON")
    if given:
        return given
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = caches / "indextables" / "-".join(DELTA)
    if not (folder / "complete").exists():
        venv.create(folder, with_pip=True)
        command = [str(folder / "bin" / "pip"), "install", "-q", *DELTA]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=1800)
        (folder / "complete").touch()
    return str(folder / "bin" / "python")


def changing(report: Report, parquet: Path, root: Path) -> None:
    """MERGE INTO of one row in a hundred, and DELETE of one row, beside Delta; each format in a
    process of its own.
    """

    def run(python: str, kind: str) -> dict[str, list[float]]:
        clean = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("SPARK_", "PYSPARK_"))
        }
        command = [python, "-m", "bench.delta_spark", kind, str(parquet), str(root / kind)]
        place = Path(__file__).parent.parent
        ended = subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=900, env=clean, cwd=place
        )
        times: dict[str, list[float]] = json.loads(ended.stdout.splitlines()[-1])
        return times

    ours, indexed = run(sys.executable, "indextables"), run(sys.executable, "indexed")
    theirs: dict[str, list[float]] = {}
    try:
        theirs = run(delta_python(), "delta")
    except (OSError, subprocess.SubprocessError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1]
        print(f"delta-spark is not available: {reason}")
    for what, key in (("MERGE INTO of 1 % of the rows", "merge"), ("DELETE of one row", "delete")):
        for measure, place in (("speed", 0), ("speed (CPU)", 1)):
            speed = 60 / theirs[key][place] if theirs else None
            mine = 60 / ours[key][place]
            report.add(
                f"{what}, no index, {measure}",
                mine,
                "1/min",
                peer="delta-spark",
                theirs=speed,
                at_least=1.0,
            )
        for measure, place in (("", 0), (" (CPU)", 1)):
            cost = ours[key][place]
            report.add(
                f"{what}, with the index{measure}",
                indexed[key][place],
                "s",
                peer="no index",
                theirs=cost,
            )


def keyed(spark: SparkSession, plain: Path, root: Path) -> Path:
    """The rows with a key, in as many files."""
    rows = spark.read.parquet(str(plain)).selectExpr("monotonically_increasing_id() AS id", "*")
    rows.write.parquet(str(root / "keyed"))
    return root / "keyed"


def main() -> None:
    """Run everything, or `ONLY=changing`."""
    report = Report("spark", {"rows": ROWS, "repeated": REPEAT, "planned files": PLANNED_FILES})
    root = Path(tempfile.mkdtemp())
    try:
        with report.part("make the rows"):
            plain_parquet(root / "plain", ROWS)
        spark = its.session("bench", conf={"spark.python.unix.domain.socket.enabled": True})
        parquet = keyed(spark, root / "plain", root)
        if os.environ.get("ONLY") == "changing":
            spark.stop()
            with report.part("change"):
                changing(report, parquet, root)
            return
        with report.part("plan"):
            planning(report, spark, root)
        with report.part("write"):
            path = writing(report, spark.read.parquet(str(root / "plain")), root)
        with report.part("read"):
            reading(report, spark, spark.read.parquet(str(root / "theirs")), path)
        spark.stop()
        with report.part("change"):
            changing(report, parquet, root)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    report.finish()


if __name__ == "__main__":
    main()
