"""A Spark Connect session: no access to the driver, and the same rows."""

from __future__ import annotations

import pytest

from tests.spark.programs import run_program

pytestmark = pytest.mark.xdist_group("connect")

PROGRAM = """
import logging, os, sys
from pathlib import Path
import pyarrow as pa
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
import indextables.spark as its
from indextables import Table
from indextables.errors import SchemaMismatchError, UnsupportedError
from indextables.spark.sessions import local_defaults

builder = SparkSession.builder.remote("local[2]")
for key, value in local_defaults().items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)
said = []
logging.getLogger("indextables").addHandler(type("Kept", (logging.Handler,), {"emit": lambda self, r: said.append(r)})())
its.install(spark)
its.install(spark)
print("said", [r.getMessage().split(":")[0] for r in said])

rows = spark.range(100).selectExpr("id", "cast(id % 3 as int) as day", "concat('line ', id) as line")
its.write(rows, "t", partition_by="day", options={"indexing.typemap.line": "text"})
rows.limit(10).write.format("indextables").mode("append").save(os.path.abspath("t"))
print("written", Table.open("t").count(), Table.open("t").partition_columns)
try:
    its.write(rows.selectExpr("'x' as id"), "t")
except SchemaMismatchError as error:
    print("refused", error.kind)

frame = its.table(spark, "t")
print("native", frame.count(), frame.where("day = 1 and id < 50").count(), frame.columns)
print("parquet", "Scan parquet" in frame._explain_string(extended=False))
arrow = its.table(spark, "t", options={"read.engine": "arrow"})
print("arrow", arrow.count(), arrow.where("day = 1 and id < 50").count())
print("old", its.table(spark, "t", version=1).count())
found = its.search(spark, "t", "line:42").select("id").collect()
print("search", found[0].id, its.search(spark, "t", "line:line", limit=3).count())
spark.conf.set("spark.indextables.read.splitsPerTask", "1")
print("count", its.count(spark, "t", query="line:7"), its.count(spark, "t"))
print("terms", its.aggregate(spark, "t", {"days": {"terms": {"field": "day"}}}).count())
print("source", spark.read.format("indextables").option("query", "line:42").load(os.path.abspath("t")).count())
print("functions", spark.sql(f"select id from indextables_search('{os.path.abspath('t')}', 'line:42')").collect()[0].id,
    spark.sql("select indextables_histogram(17, 5), indextables_range(7, array(5, 10))").collect()[0][1])
spark.read.format("indextables").load(os.path.abspath("t")).createOrReplaceTempView("v")
state = spark.sql("describe indextables state v").collect()[0]
print("state", state.num_files == Table.open("t").files().num_rows > 3)
merged = spark.sql(f"MERGE SPLITS '{os.path.abspath('t')}' TARGET SIZE 100M").collect()[0]
print("merged by SQL", merged.status, Table.open("t").files().num_rows)
try:
    spark.sql("select * from v where line TEXTSEARCH '42'")
except UnsupportedError as error:
    print("operators", error)
print("plain", spark.sql("select count(*) as n from v").collect()[0].n)
its.write(rows.limit(10), "t")
merged = its.merge(spark, "t", target_size="1G")
print("merged", merged.merged_files > 3, Table.open("t").files().num_rows, its.verify(spark, "t").healthy)
print("deleted", its.delete(spark, "t", where="id < 10").deleted_rows, its.count(spark, "t"))
print("purged", its.purge(spark, "t", dry_run=True).dry_run, its.explain(spark, "t", query="line:42").rows_matched)
print("==")

made = Table.create("damaged", schema=pa.schema([("id", pa.int64())]))
for n in range(3):
    made.append(pa.table({"id": list(range(n * 100, n * 100 + 100))}))
spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
frame = its.table(spark, "damaged")
print("parquet", "parquet" in frame._explain_string(extended=False), len(frame.collect()))
split = sorted(Path("damaged").rglob("*.split"))[1]
kept = split.read_bytes()
for damage in (b"x" * len(kept), None):
    split.unlink()
    if damage is not None:
        split.write_bytes(damage)
    source = lambda: spark.read.format("indextables").load(os.path.abspath("damaged"))
    for made in (lambda: frame, lambda: its.table(spark, "damaged"), source):
        try:
            print("read", len(made().collect()))
        except Exception as error:
            print("error", split.name in str(error))
    split.write_bytes(kept)
print("whole", len(its.table(spark, "damaged").collect()))
spark.stop()
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """What the parts of the program print; one session is enough for them."""
    parts = run_program(PROGRAM, tmp_path_factory.mktemp("connect")).split("==\n")
    return [part.splitlines() for part in parts]


def test_reads_writes_and_search(told: list[list[str]]) -> None:
    assert told[0] == [
        "said ['This Spark Connect server does not have the IndexTables extension']",
        "written 110 ['day']",
        "refused schema_mismatch",
        "native 110 20 ['id', 'day', 'line']",
        "parquet True",
        "arrow 110 20",
        "old 100",
        "search 42 3",
        "count 2 110",
        "terms 3",
        "source 1",
        "functions 42 5-10",
        "state True",
        "merged by SQL success 3",
        "operators Search operators in SQL need the extension in the Spark Connect server. Search with "
        "indextables.spark.search() or the option query, or start the server with the jar that `indextables jar` builds.",
        "plain 110",
        "merged True 3 True",
        "deleted 30 90",
        "purged True 1",
    ]


def test_a_damaged_split_is_an_error_whatever_spark_is_told_to_ignore(told: list[list[str]]) -> None:
    assert told[1] == ["parquet True 300", *["error True"] * 6, "whole 300"]
