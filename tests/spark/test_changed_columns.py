"""Columns that were renamed, dropped, widened and added, in Spark: its scan, the source, searches,
writes, streams.
"""

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
    """A table whose names went round: `b` is what was `a`, `a` what was `b`; an older split lacks
    what came later.
    """
    payload = pa.struct([("user", pa.string()), ("n", pa.int32())])
    schema = pa.schema(
        [
            ("id", pa.int32()),
            ("a", pa.string()),
            ("b", pa.string()),
            ("p", payload),
            ("gone", pa.int32()),
        ]
    )
    table = Table.create(
        str(path),
        schema=schema,
        options={"indexing.typemap.a": "text", "indexing.typemap.p": "json"},
    )
    old = [
        {"id": n, "a": f"timeout {n}", "b": f"b{n}", "p": {"user": "bob", "n": n}, "gone": n}
        for n in range(3)
    ]
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
    plan = (
        native.where("b LIKE '%timeout%' AND id >= 1")
        ._jdf.queryExecution()
        .executedPlan()
        .toString()
    )
    assert "FileScan" in plan.replace(" ", "").replace("Scanparquet", "FileScan")
    assert native.where("id >= 1 AND a = 'b2'").count() == 1
    assert native.where("gone = 'none'").count() == 3
    assert native.where("p.name = 'al'").select("p.zip").collect()[0][0] == "1000"
    source = spark.read.format("indextables").load(path)
    assert rows(source) == expected
    assert source.where("a = 'b2'").count() == 1
    native.createOrReplaceTempView("changed_columns")
    found = spark.sql(
        "SELECT id FROM changed_columns WHERE b TEXTSEARCH 'timeout' AND id < 2"
    ).collect()
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
    query = (
        stream.writeStream.format("memory").queryName("followed").trigger(availableNow=True).start()
    )
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
        return dict(
            json.loads(catalog.answer("alter", {"path": table.path, "changes": changes}, {}))
        )

    assert asked(added)["version"] == 1
    assert Table.open(table.path).schema.names == ["id", "a", "b"]
    dropped = [{"change": "DeleteColumn", "column": [name]} for name in ("a", "nothing")]
    assert "nothing" in asked(dropped)["message"]
    assert (
        asked([{**each, "column": [name]} for each, name in zip(dropped, "ab", strict=True)])[
            "version"
        ]
        == 2
    )
    assert Table.open(table.path).schema.names == ["id"]


def test_what_is_pushed_into_the_source_speaks_of_the_names_of_today(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Limits, orders and aggregates that the scan does itself, over columns whose names went round."""
    path = changed(tmp_path / "t").path
    options = f"OPTIONS (path '{path}', `read.driverSplits` '0')"
    spark.sql(f"CREATE OR REPLACE TEMP VIEW pushed USING indextables {options}")
    limited = spark.sql("SELECT id, p FROM pushed WHERE id < 2 LIMIT 2")
    assert rows(limited) == [{"id": n, "p": {"name": "bob", "n": n, "zip": None}} for n in (0, 1)]
    assert (
        rows(spark.sql("SELECT p.name AS name FROM pushed WHERE b TEXTSEARCH 'timeout' LIMIT 5"))
        == [{"name": "bob"}] * 3
    )
    first = spark.sql("SELECT a FROM pushed WHERE b TEXTSEARCH 'timeout' ORDER BY a DESC LIMIT 2")
    assert "order=" in str(first._jdf.queryExecution().executedPlan())
    assert [row.a for row in first.collect()] == ["b2", "b1"]
    # `gone` held numbers once; those of today are texts.
    latest = spark.sql("SELECT id, gone FROM pushed ORDER BY gone, id LIMIT 2").collect()
    assert [tuple(row) for row in latest] == [(0, "none"), (1, "none")]
    totals = "SELECT min(a), max(b), count(gone), sum(id) FROM pushed WHERE b TEXTSEARCH 'timeout'"
    aggregated = spark.sql(totals)
    assert "aggregation=" in str(aggregated._jdf.queryExecution().executedPlan())
    assert [tuple(row) for row in aggregated.collect()] == [("b0", "timeout 2", 3, 3)]
    groups = spark.sql(
        "SELECT a, count(*), max(gone) FROM pushed WHERE b TEXTSEARCH 'timeout' GROUP BY a"
    ).collect()
    assert sorted(tuple(row) for row in groups) == [(f"b{n}", 1, "none") for n in range(3)]


def test_a_name_that_came_back_has_no_nulls_of_its_former_self(
    spark: SparkSession, tmp_path: Path
) -> None:
    """`n` was never null; the column of that name that came back is null in the rows of before."""
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64())])
    table = Table.create(str(tmp_path / "t"), schema=schema)
    table.append(pa.table({"id": [1, 2, 3], "n": [30, 20, 10]}, schema=schema))
    table.alter.drop_column("n")
    table.alter.add_column("n", pa.int64())
    table = table.refresh()
    table.append(pa.table({"id": [4, 5], "n": [7, 8]}, schema=schema))
    spark.sql(f"CREATE OR REPLACE TEMP VIEW back USING indextables OPTIONS (path '{table.path}')")
    for order, ids in (
        ("n", {1, 2, 3}),
        ("n NULLS LAST", {4, 5}),
        ("n DESC", {5, 4}),
        ("n DESC NULLS FIRST", {1, 2, 3}),
    ):
        found = [
            row.id for row in spark.sql(f"SELECT id FROM back ORDER BY {order} LIMIT 2").collect()
        ]
        assert len(found) == 2 and set(found) <= ids, order


def test_writes_name_the_columns_of_today(spark: SparkSession, tmp_path: Path) -> None:
    path = changed(tmp_path / "t").path
    more = spark.createDataFrame(
        [("b20", 20, "timeout twenty", ("al", 2, "z"), "here")],
        "a string, id long, b string, p struct<name string, n int, zip string>, gone string",
    )
    more.write.format("indextables").mode("append").save(path)
    spark.sql(
        f"INSERT INTO indextables.`{path}` BY NAME SELECT 'late' AS gone, 30L AS id, 'timeout thirty' AS b, 'b30' AS a, "
        "named_struct('name', 'cy', 'n', 3, 'zip', 'y') AS p"
    )
    its.update(spark, path, set={"a": "upper(a)"}, where="id = 20")
    written = rows(its.table(spark, path).where("id >= 20"))
    assert written == [
        {
            "id": 20,
            "a": "B20",
            "b": "timeout twenty",
            "p": {"name": "al", "n": 2, "zip": "z"},
            "gone": "here",
        },
        {
            "id": 30,
            "a": "b30",
            "b": "timeout thirty",
            "p": {"name": "cy", "n": 3, "zip": "y"},
            "gone": "late",
        },
    ]
    assert Table.open(path).search("b:thirty AND p.name:cy", columns=["gone"]).column(
        "gone"
    ).to_pylist() == ["late"]
    assert its.verify(spark, path, full=True).healthy
