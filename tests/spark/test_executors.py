"""Two executors with a disk cache of their own each, as on two hosts: what they keep of a table in
an object store.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from indextables.spark.executors import Executor, choose_locations
from tests.spark.programs import run_program
from tests.support.places import StorePlace

PROGRAM = """
import indextables.spark as its

spark = its.session("executors", master="local-cluster[2,1,700]", conf={{
    "spark.executor.memory": "600m", "spark.driver.memory": "700m", "spark.pyspark.python": {python!r},
    "spark.locality.wait": "30s", **{{f"spark.indextables.{{key}}": value for key, value in {options!r}.items()}},
}})
path = {path!r}
rows = spark.range(0, 6000, 1, 12).selectExpr("id", "concat('line ', id % 7) as message")
its.write(rows, path, text=["message"], options={{"write.optimizeWrite.enabled": "false"}})

def rows_of(statement):
    return [row.asDict() for row in spark.sql(statement).collect()]

def asked():
    rows = rows_of("DESCRIBE INDEXTABLES STORAGE STATS")
    return {{(r["executor"], r["verb"]): r["requests"] for r in rows if r["executor"] != "driver"}}

for row in rows_of(f"PREWARM INDEXTABLES CACHE '{{path}}'"):
    print("warmed", row["splits_prewarmed"], row["bytes"] > 0)
for row in rows_of("DESCRIBE INDEXTABLES DISK CACHE"):
    print("cache", row["executor"], row["splits"])
before = asked()
print("executors", sorted({{executor for executor, _ in before}}))
print("found", its.count(spark, path, query="message:3"))
print("read", asked() == before, flush=True)
for row in rows_of("FLUSH INDEXTABLES DISK CACHE"):
    print("flushed", row["executor"], row["splits_freed"])
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_prewarmed_executors_read_nothing_from_the_store(
    s3_place: StorePlace, tmp_path: Path
) -> None:
    """The interpreter of the workers gives each executor a folder for its cache."""
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nmkdir -p "$PWD/tmp"\nexport TMPDIR="$PWD/tmp"\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    program = PROGRAM.format(python=str(python), options=s3_place.options, path=s3_place.url)
    (tmp_path / "driver").mkdir()
    lines = run_program(
        program, tmp_path, environ={"TMPDIR": str(tmp_path / "driver")}, timeout=800
    ).splitlines()
    assert lines == [
        *["warmed 12 True"] * 3,
        *[f"cache {executor} 12" for executor in ("driver", "0", "1")],
        "executors ['0', '1']",
        "found 857",
        "read True",
        *[f"flushed {executor} 12" for executor in ("driver", "0", "1")],
    ]


def test_a_split_prefers_one_host_and_keeps_it_when_others_come() -> None:
    paths = [f"splits/split-{number}.split" for number in range(400)]
    two = [Executor("0", "a"), Executor("1", "a"), Executor("2", "b")]
    before = choose_locations(paths, two)
    after = choose_locations(paths, [*two, Executor("3", "c")])
    assert set(before) == {"a", "b"} and set(after) == {"a", "b", "c"}
    assert all(new in (old, "c") for old, new in zip(before, after, strict=True))
    assert min(after.count(host) for host in "abc") > 80
    one_host = choose_locations(paths, two[:2])
    assert set(one_host) == {"executor_a_0", "executor_a_1"}
