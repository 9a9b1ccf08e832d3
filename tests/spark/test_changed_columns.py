"""Columns that were renamed, dropped, widened and added, in Spark: its scan, the source, searches, writes, streams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import indextables.spark as its
from indextables import Table
from indextables.spark import catalog


def changed(path: Path) -> Table:
    """A table whose names went round: `b` is what was `a`, `a` what was `b`; an older split lacks what came later."""
    payload = pa.struct([("user", pa.string()), ("n", pa.int32())])
    schema = pa.schema(
        [("id", pa.int32()), ("a", pa.string()), ("b", pa.string()), ("p", payload), ("gone", pa.int32())]
    )
    table = Table.create(str(path), schema=schema, options={"indexing.typemap.a": "text", "indexing.typemap.p": "json"})
    old = [{"id": n, "a": f"timeout {n}", "b": f"b{n}", "p": {"user": "bob", "n": n}, "gone": n} for n in range(3)]
    table.append(pa.Table.from_pylist(old, schema=schema))
    for before, after in (("a", "x"), ("b", "a"), ("x", "b")):
        table.alter.rename_column(before, after)
    table.alter.rename_column("p.user", "name")
    table.alter.drop_column("gone")
    table.alter.add_column("gone", pa.string(), default="none")
    table.alter.add_column("p.zip", pa.string())
    table.alter.widen_column("id", pa.int64())
    return table


def rows(frame: DataFrame) -> list[dict[str, object]]:
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=lambda row: str(row))


def test_every_way_of_reading_and_writing(spark: SparkSession, tmp_path: Path) -> None:
    table = changed(tmp_path / "t")
    path = table.path
    more = spark.createDataFrame(
        [(10, "b10", "timeout ten", ("al", 1, "1000"), "here")],
        "id long, a string, b string, p struct<name string, n int, zip string>, gone string",
    )
    its.write(more, path)
    table = table.refresh()
    expected = sorted(table.scan().read_all().to_pylist(), key=lambda row: str(row))
    assert len(expected) == 4
    assert (
        expected[0]
        == {
            "id": 0,
            "a": "b0",
            "b": "timeout 0",
            "gone": "none",
            "p": {"name": "bob", "n": 0, "zip": None},
        }
        or expected[0]["id"] == 10
    )
    native = its.table(spark, path)
    assert native.columns == table.schema.names
    assert rows(native) == expected
    plan = native.where("b LIKE '%timeout%' AND id >= 1")._jdf.queryExecution().executedPlan().toString()
    assert "FileScan" in plan.replace(" ", "").replace("Scanparquet", "FileScan")
    assert native.where("id >= 1 AND a = 'b2'").count() == 1
    assert native.where("gone = 'none'").count() == 3
    assert native.where("p.name = 'al'").select("p.zip").collect()[0][0] == "1000"
    source = spark.read.format("indextables").load(path)
    assert rows(source) == expected
    assert source.where("a = 'b2'").count() == 1
    native.createOrReplaceTempView("changed_columns")
    found = spark.sql("SELECT id FROM changed_columns WHERE b TEXTSEARCH 'timeout' AND id < 2").collect()
    assert sorted(row.id for row in found) == [0, 1]
    found = spark.sql("SELECT a FROM changed_columns WHERE b INDEXQUERY 'b:ten'").collect()
    assert [row.a for row in found] == ["b10"]
    assert its.search(spark, path, "b:ten", columns=["a"]).collect()[0].a == "b10"
    assert its.search(spark, path, "p.name:bob", limit=2, snippet="b").count() == 2
    assert its.count(spark, path, query="b:timeout", where="a = 'b1'") == 1
    terms = its.aggregate(spark, path, {"n": {"terms": {"field": "p.name"}}}).collect()
    assert {row["n"]: row["count"] for row in terms} == {"bob": 3, "al": 1}
    assert rows(its.table(spark, path, version=1))[0]["gone"] == 0
    stream = its.read_stream(spark, path, where="a = 'b2'").select("id", "b")
    query = stream.writeStream.format("memory").queryName("followed").trigger(availableNow=True).start()
    query.awaitTermination()
    assert [tuple(row) for row in spark.table("followed").collect()] == [(2, "timeout 2")]


def test_several_columns_of_a_statement_are_one_version(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=pa.schema([("id", pa.int64())]))
    added = [
        {"change": "AddColumn", "column": [name], "type": '"string"', "comment": comment}
        | {"position": None, "default": None, "nullable": True}
        for name, comment in (("a", None), ("b", "second"))
    ]

    def asked(changes: list[dict[str, Any]]) -> dict[str, Any]:
        return dict(json.loads(catalog.answer("alter", json.dumps({"path": table.path, "changes": changes}), {})))

    assert asked(added)["version"] == 1
    assert Table.open(table.path).schema.names == ["id", "a", "b"]
    dropped = [{"change": "DeleteColumn", "column": [name]} for name in ("a", "nothing")]
    assert "nothing" in asked(dropped)["message"]
    assert asked([{**each, "column": [name]} for each, name in zip(dropped, "ab", strict=True)])["version"] == 2
    assert Table.open(table.path).schema.names == ["id"]
