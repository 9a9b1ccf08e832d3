"""A stream whose process is killed again and again writes every row, once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table

COMMITS = 60
ROWS = 20
PROGRAM = """
import sys
import indextables.spark as its
spark = its.session(master="local[2]", conf={"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": 2})
rows = its.read_stream(spark, "source", starting_version=0, max_files_per_trigger=1)
trigger = {"availableNow": True} if "finish" in sys.argv else None
print("started", flush=True)
its.write_stream(rows, "target", checkpoint="checkpoint", trigger=trigger).awaitTermination()
"""


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    (folder / "program.py").write_text(PROGRAM)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_", "PYTEST_"))}
    return subprocess.Popen(
        [sys.executable, "program.py", *arguments],
        cwd=folder,
        env=clean,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_twenty_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    source = Table.create(str(tmp_path / "source"), schema=pa.schema([("id", pa.int64())]))
    for n in range(COMMITS):
        source.append(pa.table({"id": list(range(n * ROWS, (n + 1) * ROWS))}))
    rng = random.Random(20)
    batches_between_kills = []
    for _ in range(20):
        before = len(list((tmp_path / "target" / "_transaction_log").glob("*.json")))
        running = start(tmp_path)
        assert running.stdout is not None
        assert running.stdout.readline() == "started\n"
        # Long enough for a batch or two, and never at the same place.
        time.sleep(rng.uniform(0.5, 6))
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        batches_between_kills.append(len(list((tmp_path / "target" / "_transaction_log").glob("*.json"))) - before)
    assert any(batches_between_kills), "the query was never alive long enough to be hit in the middle of its work"
    assert start(tmp_path, "finish").wait() == 0
    table = Table.open(str(tmp_path / "target"))
    assert sorted(table.scan().read_all()["id"].to_pylist()) == list(range(COMMITS * ROWS))
