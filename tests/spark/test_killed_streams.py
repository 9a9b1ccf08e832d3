"""A stream whose process is killed again and again writes every row, once."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table

KILLS = 20
COMMITS = 3
"""So many commits come before every kill, of so many rows:"""
ROWS = 20
PROGRAM = """
import sys
import indextables.spark as its
spark = its.session(master="local[2]", conf={"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": 2})
rows = its.read_stream(spark, "source", starting_version=0, max_files_per_trigger=1)
trigger = {"availableNow": True} if "finish" in sys.argv else None
its.write_stream(rows, "target", checkpoint="checkpoint", trigger=trigger).awaitTermination()
"""


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    (folder / "program.py").write_text(PROGRAM)
    clean = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_", "PYTEST_"))
    }
    return subprocess.Popen(
        [sys.executable, "program.py", *arguments],
        cwd=folder,
        env=clean,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


# What appears on disk in the course of one batch, in this order; the query is killed at any of
# these places.
PLACES = ("checkpoint/offsets", "target/splits", "target/_transaction_log", "checkpoint/commits")


def files_in(folder: Path) -> int:
    return len(list(folder.iterdir())) if folder.exists() else 0


def kill_when_something_appears(running: subprocess.Popen[str], folder: Path, delay: float) -> None:
    """Kill a query, and the JVM with it, a moment after the next file appears in a folder."""
    before = files_in(folder)
    while files_in(folder) == before:
        assert running.poll() is None, "the query ended by itself"
        time.sleep(0.002)
    time.sleep(delay)
    os.killpg(running.pid, signal.SIGKILL)


def without_half_an_offset(checkpoint: Path) -> None:
    """Do what Spark says when a query was killed while it wrote its very first offset: delete the
    checkpoint.

    Spark 4.3 refuses to start from it. No batch has run by then.
    """
    offsets = checkpoint / "offsets"
    if offsets.exists() and not any(file.name.isdigit() for file in offsets.iterdir()):
        shutil.rmtree(checkpoint)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twenty_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    source = Table.create(str(tmp_path / "source"), schema=pa.schema([("id", pa.int64())]))
    rng = random.Random(20)
    for kill in range(KILLS):
        # There is always something left to do, however much the query did before it was killed.
        for n in range(kill * COMMITS, (kill + 1) * COMMITS):
            source.append(pa.table({"id": list(range(n * ROWS, (n + 1) * ROWS))}))
        without_half_an_offset(tmp_path / "checkpoint")
        with start(tmp_path) as running:
            kill_when_something_appears(
                running, tmp_path / PLACES[kill % 4], rng.choice([0, 0, 0.01, 0.1, 1.0])
            )
    assert Table.open(str(tmp_path / "target")).count() > 0
    without_half_an_offset(tmp_path / "checkpoint")
    with start(tmp_path, "finish") as running:
        assert running.wait() == 0
    table = Table.open(str(tmp_path / "target"))
    assert sorted(table.scan().read_all()["id"].to_pylist()) == list(range(KILLS * COMMITS * ROWS))
