"""A Spark application of the torture: `python -m tests.torture.spark_driver '{"do": "write",
"folder": ...}'`.

It notes in a journal what it begins and what it was told about it, a line of JSON each, so that
whoever kills it knows what the table may hold. What it writes are batches: a hundred rows of one
part, all there or none.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import indextables.spark as its
from indextables.errors import IndexTablesError
from tests.torture.spark_batches import BATCH, PARTS, after

CONF: dict[str, object] = {
    "spark.driver.memory": "700m",
    "spark.executor.memory": "600m",
    "spark.sql.shuffle.partitions": 2,
    "spark.default.parallelism": 2,
    "spark.ui.enabled": "false",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "200ms",
    "spark.sql.streaming.pollingDelay": "50ms",
}


class Journal:
    """What an application did, line by line; whole lines survive its death."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def note(self, **facts: Any) -> None:
        """Add a line."""
        os.write(self._file, (json.dumps(facts) + "\n").encode())

    def attempt(self, op: dict[str, Any], work: Callable[[], object]) -> None:
        """Note that an operation begins, and how it ended."""
        self.note(begin=op)
        try:
            work()
        except IndexTablesError as error:
            self.note(failed=op, kind=error.kind, error=str(error)[:500])
        except Exception as error:
            self.note(failed=op, kind=type(error).__name__, error=str(error)[:2000])
        else:
            self.note(done=op)


def batch(spark: SparkSession, number: int) -> DataFrame:
    """The rows of a batch, in two partitions."""
    ids = spark.range(number * BATCH, (number + 1) * BATCH, 1, 2)
    return ids.selectExpr(
        "id", f"cast({number % PARTS} as int) as part", "concat('word', id) as text"
    )


def troubled(frame: DataFrame, folder: Path, trouble: str, seed: int) -> DataFrame:
    """The same rows out of tasks of which the first attempts fail, die with their process, or take
    long.
    """

    def through(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        number, attempt = context.partitionId(), context.attemptNumber()
        chosen = random.Random(f"{seed}/{number}").random() < 0.6
        yield from batches
        (folder / "attempts").mkdir(exist_ok=True)
        (folder / "attempts" / f"{time.time_ns()}-{number}-{attempt}").touch()
        if chosen and attempt == 0:
            if trouble == "slow":
                time.sleep(6)
            elif trouble == "fails":
                raise RuntimeError("the torture lets this attempt fail")
            elif trouble == "dies":
                os._exit(9)

    return frame.mapInArrow(through, frame.schema)


class Application:
    """What the torture asks an application to do."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked = asked
        self.folder = Path(asked["folder"])
        self.table = str(self.folder / "table")
        self.rng = random.Random(asked.get("seed", 0))
        self.journal = Journal(self.folder / asked.get("journal", "journal"))
        conf = {**CONF, **asked.get("conf", {})}
        self.spark = its.session(asked["do"], master=asked.get("master", "local[2,4]"), conf=conf)
        self.journal.note(ready=os.getpid())

    def write(self) -> None:
        """Operations without end, or as many as asked for."""
        live: list[int] = list(self.asked.get("live", []))
        number = int(self.asked["next"])
        for _ in range(self.asked.get("count", 1_000_000)):
            verb = self.rng.choice(
                self.asked.get("verbs", ["append", "append", "plain", "replace", "delete", "merge"])
            )
            op: dict[str, Any] = {"verb": verb, "batch": number}
            if verb == "delete":
                op["gone"] = self.rng.choice(live) if live else number
            self.journal.attempt(op, lambda op=op: self.do(op))  # type: ignore[misc]
            live = after(live, op)
            number += 1

    def do(self, op: dict[str, Any]) -> None:
        """One operation."""
        verb, number = op["verb"], op["batch"]
        rows = batch(self.spark, number)
        if self.asked.get("trouble"):
            rows = troubled(rows, self.folder, self.asked["trouble"], number)
        if verb == "append":
            its.write(rows, self.table, partition_by="part")
        elif verb == "plain":
            rows.write.format("indextables").option("partitionColumns", "part").mode("append").save(
                self.table
            )
        elif verb == "replace":
            its.write(
                rows,
                self.table,
                mode="overwrite",
                replace_where=f"part = {number % PARTS}",
                partition_by="part",
            )
        elif verb == "delete":
            low = op["gone"] * BATCH
            its.delete(self.spark, self.table, where=f"id >= {low} and id < {low + BATCH}")
        elif verb == "merge":
            its.merge(self.spark, self.table)
        elif verb in ("overwrite", "error", "ignore"):
            its.write(rows, self.table, mode=verb, partition_by="part")

    def race(self) -> None:
        """One operation as soon as all are ready."""
        batch(self.spark, 0).count()
        start = self.folder / "start"
        while not start.exists():
            time.sleep(0.005)
        op = self.asked["op"]
        self.journal.attempt(op, lambda: self.do(op))

    def stream(self) -> None:
        """Copy a table into another, until killed or until nothing is left."""
        rows = its.read_stream(
            self.spark, str(self.folder / "source"), starting_version=0, max_files_per_trigger=1,
        )  # fmt: skip
        trigger = {"availableNow": True} if self.asked.get("finish") else None
        checkpoint = str(self.folder / self.asked.get("checkpoint", "checkpoint"))
        query = its.write_stream(rows, self.table, checkpoint=checkpoint, trigger=trigger)
        self.journal.attempt(
            {"verb": "stream"}, lambda: query.awaitTermination(self.asked.get("seconds"))
        )
        query.stop()

    def settings(self) -> None:
        """Read a table under settings that change how Spark reads other files."""
        from tests.torture.spark_settings import compare

        compare(self.spark, self.table, self.rng, float(self.asked["seconds"]), self.journal.note)


if __name__ == "__main__":
    told = json.loads(sys.argv[1])
    getattr(Application(told), told["do"])()
