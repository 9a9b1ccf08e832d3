"""A Spark Connect server without the jar: it has the Python package and nothing else of ours, and
gives the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.programs import run_program
from tests.support.connect_servers import connect_server

pytestmark = [pytest.mark.xdist_group("connect"), pytest.mark.timeout(900)]

PROGRAM = """
import logging, os, sys
from pathlib import Path
import pyarrow as pa
from pyspark.sql import SparkSession
import indextables.spark as its
from indextables import Table
from indextables.errors import SchemaMismatchError, UnsupportedError

spark = SparkSession.builder.getOrCreate()
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
fresh = SparkSession.builder.create()
path = os.path.abspath("t")
print("its.sql", its.sql(fresh, f"DESCRIBE INDEXTABLES HISTORY '{path}' LIMIT 1").collect()[0].operation)
print("its.sql", its.sql(fresh, "SELECT :n + 1", {"n": 41}).collect()[0][0])
for sql in ("SELECT * FROM {t}", "UPDATE {t} SET id = 1", "DELETE FROM v WHERE id = 1", "SELECT textsearch(line, 'x') FROM v",
            "SELECT * FROM v WHERE line INDEXQUERY 'x'", "CREATE OR REPLACE TABLE n (id INT) USING indextables",
            "RESTORE TABLE v TO VERSION AS OF 1", "DESCRIBE HISTORY v LIMIT 1"):
    try:
        its.sql(spark, sql.replace("{t}", f"indextables.`{path}`"))
    except UnsupportedError as error:
        print(sql.split(" ")[0], type(error.__cause__).__name__, error.hint.split(". ")[0])
try:
    its.sql(spark, "SELECT nothing FROM nowhere")
except Exception as error:
    print("Spark's", error.getCondition())
try:
    its.update(spark, "t", set={"id": "1"})
except UnsupportedError as error:
    print("update", error.hint)
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


SOURCE = """
import json, os, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
path = os.path.abspath("t")
rows = spark.range(100).selectExpr("id", "cast(id % 3 as int) as day", "concat('line ', id) as line")

def write(frame, mode, **options):
    frame.write.format("indextables").mode(mode).options(**options).save(path)

def read(**options):
    return spark.read.format("indextables").options(**options).load(path)

def days():
    return [row["count"] for row in read().groupBy("day").count().orderBy("day").collect()]

write(rows, "append", partitionColumns="day", text="line")
write(rows.limit(9), "append")
print("append", days())
print("query", [row.id for row in read(query="line:42").collect()], read(query="line", limit="2").columns)
print("where", read(where="day = 1 and id < 50", columns="id,line").columns, read(where="day = 1 and id < 50").count())
print("limit", read(limit="5").count(), "version", read(versionAsOf="1").count())
spec = json.dumps({"days": {"terms": {"field": "day"}, "aggs": {"ids": {"stats": {"field": "id"}}}}})
aggregated = read(aggregate=spec, where="id < 10")
print("aggregate", [(row.days, row["count"], row["ids.sum"]) for row in aggregated.orderBy("days").collect()])
write(rows.where("day = 1").limit(3), "overwrite", partitionOverwriteMode="dynamic")
print("dynamic", days())
write(rows.where("day = 2").limit(4), "overwrite", replaceWhere="day = 2")
print("replaceWhere", days())
changes = read(readChangeFeed="true", startingVersion="3")
print("feed", sorted((row._change_type, row["count"]) for row in changes.groupBy("_change_type").count().collect()))
write(rows.limit(6), "overwrite")
print("overwrite", days())
spark.sql(f"CREATE TEMPORARY VIEW v USING indextables OPTIONS (path '{path}', query 'line:(1 OR 2)')")
spark.sql(f"CREATE TEMPORARY VIEW w USING indextables OPTIONS (path '{path}')")
spark.sql("INSERT INTO w VALUES (1000, 7, 'a line more')")
print("views", [row[0] for row in spark.sql("SELECT id FROM v ORDER BY id").collect()], read().count())

def stream(target, **options):
    frame = spark.readStream.format("indextables").options(**options).load(path)
    query = frame.writeStream.format("indextables").option("checkpointLocation", target + "-progress")
    query = query.trigger(availableNow=True).start(target)
    assert query.awaitTermination(200) and query.exception() is None
    return spark.read.format("indextables").load(target).count()

target = os.path.abspath("copy")
print("stream", stream(target, query="line:line"))
for wrong in ({"querry": "x"}, {"query": "line:("}, {"aggregate": "{"}, {"aggregate": spec, "limit": "3"}):
    try:
        read(**wrong).collect()
    except Exception as error:
        print("error", error.getCondition(), str(error).partition("indextables.errors.")[2].partition(":")[0])
print("package", "indextables" in sys.modules)
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("server")) as address:
        yield address


@pytest.fixture(scope="module")
def told(address: str, tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """What the parts of the program print; one session is enough for them."""
    parts = run_program(
        PROGRAM, tmp_path_factory.mktemp("connect"), environ={"SPARK_REMOTE": address}, timeout=800
    ).split("==\n")
    return [part.splitlines() for part in parts]


def test_the_data_source_alone_reads_writes_and_streams(address: str, tmp_path: Path) -> None:
    """The client has PySpark and nothing of ours."""
    assert run_program(
        SOURCE, tmp_path, environ={"SPARK_REMOTE": address}, timeout=800
    ).splitlines() == [
        "append [37, 36, 36]",
        "query [42] ['id', 'day', 'line', '_score']",
        "where ['id', 'line'] 20",
        "limit 5 version 100",
        "aggregate [(0, 7, 27), (1, 6, 24), (2, 6, 30)]",
        "dynamic [37, 3, 36]",
        "replaceWhere [37, 3, 4]",
        "feed [('delete', 72), ('insert', 7)]",
        "overwrite [2, 2, 2]",
        "views [1, 2] 7",
        "stream 7",
        "error PYTHON_DATA_SOURCE_ERROR UnknownOptionError",
        "error PYTHON_DATA_SOURCE_ERROR QuerySyntaxError",
        "error PYTHON_DATA_SOURCE_ERROR InvalidInputError",
        "error PYTHON_DATA_SOURCE_ERROR InvalidInputError",
        "package False",
    ]


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
        "its.sql MERGE",
        "its.sql 42",
        "SELECT AnalysisException Read and append through a view: CREATE TEMPORARY VIEW v USING indextables OPTIONS "
        "(path '...'); search with its option query or with indextables.spark.search()",
        "UPDATE AnalysisException Update with Table.open(path).update(set=..., where=...)",
        "DELETE AnalysisException Delete with indextables.spark.delete(spark, path, where=...)",
        "SELECT AnalysisException Read and append through a view: CREATE TEMPORARY VIEW v USING indextables OPTIONS "
        "(path '...'); search with its option query or with indextables.spark.search()",
        "SELECT NoneType Search with indextables.spark.search() or the option query, or start the server with the jar that "
        "`indextables jar` builds.",
        "CREATE NoneType Write with indextables.spark.write(df, path), then CREATE TEMPORARY VIEW v USING indextables "
        "OPTIONS (path '...')",
        "RESTORE ParseException Write RESTORE INDEXTABLES '/path' TO VERSION n",
        "DESCRIBE ParseException Write DESCRIBE INDEXTABLES HISTORY '/path'",
        "Spark's TABLE_OR_VIEW_NOT_FOUND",
        "update Use Table.delete, Table.update and Table.upsert.",
        "merged True 3 True",
        "deleted 30 90",
        "purged True 1",
    ]


def test_a_damaged_split_is_an_error_whatever_spark_is_told_to_ignore(
    told: list[list[str]],
) -> None:
    assert told[1] == ["parquet True 300", *["error True"] * 6, "whole 300"]
