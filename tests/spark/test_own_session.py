"""What needs a session of its own: tasks that are repeated, and what Spark keeps of secrets."""

from __future__ import annotations

from pathlib import Path

from tests.spark.programs import run_program

RETRIES = """
import os
from pathlib import Path
from pyspark import TaskContext
import indextables.spark as its
from indextables import Table

os.mkdir("events")
spark = its.session(master="local[2,3]", conf={
    "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": 2,
    "spark.indextables.azure.accountKey": "hunter1", "spark.indextables.gcp.serviceAccountKey": "hunter2",
    "spark.eventLog.enabled": True, "spark.eventLog.dir": Path("events").absolute().as_uri(),
    "spark.eventLog.compress": False,
})

def fails_at_first(batches):
    for batch in batches:
        yield batch
    if TaskContext.get().attemptNumber() == 0:
        raise OSError("the first attempt fails")

rows = spark.range(0, 1000, 1, 2).mapInArrow(fails_at_first, "id long")
small = {"write.maxRowsPerSplit": "100"}
its.write(rows, "one", options=small)
rows.write.format("indextables").options(**small).mode("append").save(os.path.abspath("two"))
for name in ("one", "two"):
    table = Table.open(name)
    ids = table.scan().read_all()["id"].to_pylist()
    live = set(table.files()["path"].to_pylist())
    there = {str(p.relative_to(name)) for p in Path(name).rglob("*.split")}
    print(name, table.version, sorted(ids) == list(range(1000)), len(live), len(there - live))

frame = spark.read.format("indextables").option("azure.connectionString", "hunter3").load(os.path.abspath("one"))
print("read", frame.count(), its.count(spark, "one"))
java = spark.sparkContext._gateway.proc.pid
print("command line", b"hunter" in Path(f"/proc/{java}/cmdline").read_bytes() if os.path.isdir("/proc") else False)
print("settings", its.table(spark, "one").count(), spark.conf.get("spark.indextables.azure.accountKey"))
spark.stop()
print("event log", any(b"hunter" in p.read_bytes() for p in Path("events").rglob("*") if p.is_file()))
"""


def test_repeated_tasks_write_nothing_twice_and_secrets_stay_secret(tmp_path: Path) -> None:
    told = run_program(RETRIES, tmp_path)
    assert told.splitlines() == [
        "one 1 True 10 0",
        "two 1 True 10 0",
        "read 1000 1000",
        "command line False",
        "settings 1000 hunter1",
        "event log False",
    ]
