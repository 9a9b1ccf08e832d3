"""Spark over tables of IndexTables for the JVM, and over partition values that folder names cannot
tell apart.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import indextables.spark as its
from indextables import Table
from indextables.model.values import NULL_PARTITION
from indextables.spark.reads import can_list_paths, scan_paths
from tests.golden.golden_tables import jvm_table

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
VALUES: list[str | None] = [None, NULL_PARTITION, "a%2Fb", "a/b", "plain"]


def ways(spark: SparkSession, path: str) -> dict[str, DataFrame]:
    return {"native": its.table(spark, path), "source": spark.read.format("indextables").load(path)}


def copied(name: str, tmp_path: Path) -> str:
    shutil.copytree(jvm_table(name).path, tmp_path / name)
    return str(tmp_path / name)


def values_of(frame: DataFrame, column: str) -> Counter[str | None]:
    return Counter(row[column] for row in frame.select(column).collect())


@pytest.mark.parametrize("step", ["as it is", "appended", "merged"])
def test_partitions_of_the_jvm_engine(spark: SparkSession, tmp_path: Path, step: str) -> None:
    path = copied("t03_partitioned", tmp_path)
    rows = jvm_table("t03_partitioned").expected["rows"]
    times = 1
    if step != "as it is":
        times = 2
        more = its.table(spark, path).withColumn("id", F.col("id") + 10_000)
        its.write(more, path, mode="append")
    if step == "merged":
        Table.open(path).merge(target_size="100M")
    expected = Counter(
        {value: times * count for value, count in Counter(row["region"] for row in rows).items()}
    )
    for way, frame in ways(spark, path).items():
        assert values_of(frame, "region") == expected, way
        for value, count in expected.items():
            matching = frame.where(
                F.col("region").isNull() if value is None else F.col("region") == value
            )
            assert values_of(matching, "region") == {value: count}, (way, value)
    words = sum(times for row in rows if "timeout" in (row["message"] or "").lower().split())
    assert Table.open(path).count(query="message:timeout") == words
    assert its.search(spark, path, "message:timeout").count() == words


@pytest.mark.parametrize("step", ["as it is", "appended", "merged"])
def test_addresses_of_the_jvm_engine(spark: SparkSession, tmp_path: Path, step: str) -> None:
    path = copied("t19_ip", tmp_path)
    times = 1
    if step != "as it is":
        times = 2
        its.table(spark, path).withColumn("id", F.col("id") + 10_000).write.format(
            "indextables"
        ).mode("append").save(path)
    if step == "merged":
        Table.open(path).merge(target_size="100M")
    for way, frame in ways(spark, path).items():
        assert values_of(frame, "v") == {
            "10.0.0.1": 4 * times,
            "2001:db8::1": 4 * times,
            None: 4 * times,
        }, way
        assert frame.where("v = '10.0.0.1'").count() == 4 * times, way
    assert its.search(spark, path, "v:10.0.0.0/8").count() == 4 * times


@pytest.mark.parametrize("step", ["as it is", "appended"])
def test_words_side_by_side_of_the_jvm_engine(
    spark: SparkSession, tmp_path: Path, step: str
) -> None:
    path = copied("t07_merged", tmp_path)
    all_words, any_word = (
        Table.open(path).count(query=f"message:(login {word} full)") for word in ("AND", "OR")
    )
    assert all_words < any_word
    if step == "appended":
        its.write(its.table(spark, path).limit(1).selectExpr("77000L AS id"), path, mode="append")
    assert its.search(spark, path, "message:(login full)").count() == all_words
    source = spark.read.format("indextables")
    assert source.option("query", "message:(login full)").load(path).count() == all_words
    said = source.option("query.defaultOperator", "or").option("query", "message:(login full)")
    assert said.load(path).count() == any_word
    for words, expected in (("login full", all_words), ("login OR full", any_word)):
        found = spark.sql(f"SELECT * FROM indextables.`{path}` WHERE message TEXTSEARCH '{words}'")
        assert found.count() == expected


Row = dict[str, object]


def holds(row: Row, condition: Callable[[int], bool]) -> bool:
    """Whether something is true of a row's number; of none it is not known."""
    value = row["n"]
    return isinstance(value, int) and condition(value)


def raised(row: Row) -> Row:
    return {
        **row,
        "n": int(str(row["n"])) + 1000,
        "message": row["message"] and str(row["message"]).upper(),
    }


CHANGES: dict[str, tuple[str, Callable[[Row], Row | None]]] = {
    "delete": ("DELETE FROM {t} WHERE n > 40", lambda r: None if holds(r, lambda n: n > 40) else r),
    "delete by Spark's functions": (
        "DELETE FROM {t} WHERE abs(n - 27) < 2 OR id IN (SELECT min(id) FROM {t})",
        lambda r: None if holds(r, lambda n: abs(n - 27) < 2) or r["id"] == 0 else r,
    ),
    "update": (
        "UPDATE {t} SET n = n + 1000, message = upper(message) WHERE n % 3 = 0",
        lambda r: raised(r) if holds(r, lambda n: n % 3 == 0) else r,
    ),
    "merge": (
        "MERGE INTO {t} AS t USING (SELECT id, n FROM {t} WHERE n < 20) AS s ON t.id = s.id "
        "WHEN MATCHED AND s.n < 10 THEN DELETE WHEN MATCHED THEN UPDATE SET n = -1",
        lambda r: (
            None
            if holds(r, lambda n: n < 10)
            else {**r, "n": -1}
            if holds(r, lambda n: n < 20)
            else r
        ),
    ),
}


@pytest.mark.parametrize("step", ["as it is", "appended", "some deleted", "written anew"])
@pytest.mark.parametrize("change", CHANGES)
def test_rows_of_the_jvm_engine_change(
    spark: SparkSession, tmp_path: Path, change: str, step: str
) -> None:
    path = copied("t07_merged", tmp_path)
    columns = ["id", "n", "message"]
    if step == "appended":
        its.write(
            its.table(spark, path).where("id < 5").withColumn("id", F.col("id") + 100_000),
            path,
            mode="append",
        )
    if step == "some deleted":
        Table.open(path).delete(where="id = 1 OR id = 8 OR id = 22 OR id = 50")
    options = {"delete.mode": "rewrite"} if step == "written anew" else {}
    before = rows_of(path, columns)
    statement, model = CHANGES[change]
    with settings(spark, options):
        spark.sql(statement.format(t=f"indextables.`{path}`"))
    expected = [after for after in map(model, before) if after is not None]
    assert len(expected) < len(before) or expected != before
    assert content(rows_of(path, columns)) == content(expected)
    for way, frame in ways(spark, path).items():
        assert content([row.asDict() for row in frame.select(*columns).collect()]) == content(
            expected
        ), way
    assert Table.open(path).verify(full=True).findings == ()


@contextmanager
def settings(spark: SparkSession, options: dict[str, str]) -> Iterator[None]:
    for key, value in options.items():
        spark.conf.set(f"spark.indextables.{key}", value)
    try:
        yield
    finally:
        for key in options:
            spark.conf.unset(f"spark.indextables.{key}")


def rows_of(path: str, columns: list[str]) -> list[Row]:
    rows: list[Row] = Table.open(path).scan(columns=columns).read_all().to_pylist()
    return rows


def content(rows: list[Row]) -> list[str]:
    return sorted(str(sorted(row.items())) for row in rows)


def test_partitioned_rows_of_the_jvm_engine_change(spark: SparkSession, tmp_path: Path) -> None:
    path = copied("t03_partitioned", tmp_path)
    before = rows_of(path, ["id", "region"])
    spark.sql(f"DELETE FROM indextables.`{path}` WHERE id % 4 = 1 AND region IS NOT NULL")
    spark.sql(f"UPDATE indextables.`{path}` SET id = id + 100000 WHERE region IS NULL")
    expected = [
        {**row, "id": int(str(row["id"])) + (100_000 if row["region"] is None else 0)}
        for row in before
        if row["region"] is None or int(str(row["id"])) % 4 != 1
    ]
    assert content(rows_of(path, ["id", "region"])) == content(expected)


@pytest.fixture
def both(tmp_path: Path) -> Table:
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, partition_columns=["p"])
    table.append(pa.table({"id": range(len(VALUES)), "p": VALUES}, schema=SCHEMA))
    return table


def check(spark: SparkSession, path: str, left: list[str | None]) -> None:
    for way, frame in ways(spark, path).items():
        assert values_of(frame, "p") == Counter(left), way
        for value in VALUES:
            condition = F.col("p").isNull() if value is None else F.col("p") == value
            assert frame.where(condition).count() == left.count(value), (way, value)
        assert frame.where("p is not null").count() == sum(value is not None for value in left), way


def test_null_and_the_text_that_stands_for_it(spark: SparkSession, both: Table) -> None:
    check(spark, both.path, VALUES)
    listed = scan_paths(spark, both, both.files())
    assert can_list_paths(both)
    assert values_of(listed, "p") == Counter(VALUES)
    assert listed.where(F.col("p") == NULL_PARTITION).count() == 1
    more = spark.createDataFrame(
        [(10 + n, value) for n, value in enumerate(VALUES)], "id long, p string"
    )
    more.write.format("indextables").mode("append").save(both.path)
    its.write(more.withColumn("id", F.col("id") + 10), both.path, mode="append")
    check(spark, both.path, VALUES * 3)


def test_dropping_the_null_partition_leaves_the_text(spark: SparkSession, both: Table) -> None:
    spark.sql(f"DROP INDEXTABLES PARTITIONS FROM '{both.path}' WHERE p IS NULL").collect()
    check(spark, both.path, VALUES[1:])
    spark.sql(
        f"DROP INDEXTABLES PARTITIONS FROM '{both.path}' WHERE p = '{NULL_PARTITION}'"
    ).collect()
    check(spark, both.path, VALUES[2:])


def test_searches_of_all_columns_of_the_jvm_engine(spark: SparkSession, tmp_path: Path) -> None:
    path = copied("t07_merged", tmp_path)
    expected = jvm_table("t07_merged").expected["rows"]
    spark.sql(f"CREATE OR REPLACE TEMP VIEW merged USING indextables OPTIONS (path '{path}')")

    def found(condition: str) -> int:
        return spark.sql(f"SELECT id FROM merged WHERE {condition}").count()

    errors = sum(row["level"] == "ERROR" for row in expected)
    assert (
        found("* FIELDMATCH 'ERROR'")
        == found("_indexall fieldmatch 'ERROR'")
        == found("level FIELDMATCH 'ERROR'")
        == errors
    )
    assert found("* TEXTSEARCH 'ERROR'") == found("message TEXTSEARCH 'ERROR'") != errors
    assert found("NOT * FIELDMATCH 'ERROR'") == len(expected) - errors
    small = sum(row["n"] is not None and 1 <= row["n"] <= 3 for row in expected)
    assert found("n indexquery '[1 TO 3]'") == found("n BETWEEN 1 AND 3") == small > 0
    words = [
        set((row["message"] or "").lower().split()) & {"disk", "full", "timeout"}
        for row in expected
    ]
    two = sum(len(each) >= 2 for each in words)
    assert (
        found("message indexquery '(disk full timeout)~2'")
        == two
        == Table.open(path).count(query="(disk full timeout)~2")
    )
    with pytest.raises(Exception, match=r"Nothing was deleted. Write one DELETE for each column"):
        spark.sql(f"DELETE FROM indextables.`{path}` WHERE * FIELDMATCH 'ERROR'")
    assert Table.open(path).count() == len(expected)
    spark.catalog.dropTempView("merged")
