"""Rows that deletion vectors name are gone in Spark too, whoever reads; a stream of changes goes on across all of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import indextables.spark as its
from indextables import Table
from indextables.errors import InvalidInputError
from tests.support.rows import ids, rows, table_of


def test_every_way_to_read(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3, each=40, options={"delete.mode": "vector"})
    table.delete(where="id IN (0, 7, 45)")
    table.delete(query="message:retry", where="id < 40")
    expected = ids(table)
    frame = its.table(spark, table.path)
    assert sorted(row.id for row in frame.collect()) == expected
    assert frame.count() == frame.filter("id >= 0").count() == len(expected)
    first = frame.agg({"id": "min"}).first()
    assert first is not None
    assert first[0] == expected[0] == 1
    source = spark.read.format("indextables").load(table.path)
    assert sorted(row.id for row in source.collect()) == expected
    assert sorted(row.id for row in its.search(spark, table.path, "message:disk").collect()) == sorted(
        table.search("message:disk", columns=["id"]).column("id").to_pylist()
    )
    assert its.count(spark, table.path) == its.count(spark, table.path, where="id >= 0") == len(expected)
    assert its.count(spark, table.path, query="message:disk") == table.count(query="message:disk")
    its.delete(spark, table.path, where="id = 100")
    assert its.table(spark, table.path).count() == len(expected) - 1
    assert its.table(spark, table.path, version=3).count() == 120


def test_a_stream_of_changes(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2, each=20, options={"delete.mode": "vector"})
    target, checkpoint = str(tmp_path / "feed"), str(tmp_path / "checkpoint")

    def follow() -> Counter[tuple[str, int, int]]:
        changes = its.read_stream(spark, table.path, read_change_feed=True)
        its.write_stream(changes, target, checkpoint=checkpoint, trigger={"availableNow": True}).awaitTermination()
        told = Table.open(target).scan(columns=["_change_type", "id", "_commit_version"]).read_all().to_pylist()
        return Counter((row["_change_type"], row["id"], row["_commit_version"]) for row in told)

    snapshot = Counter({("insert", i, 2): 1 for i in range(40)})
    assert follow() == snapshot
    table.delete(where="id = 3")
    table.update(set={"level": "'x'"}, where="id = 4")
    table.upsert(rows([5, 70]), on=["id"])
    table.merge()
    table.restore(version=2)
    later = [("delete", 3, 3), ("update_preimage", 4, 4), ("update_postimage", 4, 4)]
    later += [("update_preimage", 5, 5), ("update_postimage", 5, 5), ("insert", 70, 5)]
    seen = follow()
    assert {key for key in seen if key[2] in (3, 4, 5)} == set(later)
    restored = {(kind, row) for kind, row, version in seen if version == 7}
    # Row 5 was written again as it was, so only the others came back and went.
    assert restored == {("insert", 3), ("delete", 4), ("insert", 4), ("delete", 70)}
    with pytest.raises(InvalidInputError, match="neither query nor where"):
        its.read_stream(spark, table.path, read_change_feed=True, where="id = 1")


@pytest.mark.parametrize("mode", ["rewrite", "vector"])
def test_the_feed_tells_of_rows_that_statements_changed_and_of_no_others(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    table = table_of(tmp_path / "t", appends=2, each=10, options={"delete.mode": mode})
    target = f"indextables.`{table.path}`"

    def told(statement: str) -> Counter[tuple[str, int]]:
        spark.sql(statement)
        changes = table.refresh().changes(table.refresh().version).read_all().to_pylist()
        return Counter((row["_change_type"], row["id"]) for row in changes)

    assert told(f"DELETE FROM {target} WHERE id IN (3, 14)") == Counter([("delete", 3), ("delete", 14)])
    assert told(f"UPDATE {target} SET level = 'x' WHERE id = 4") == Counter(
        [("update_preimage", 4), ("update_postimage", 4)]
    )
    source = f"(SELECT id, day, level, message FROM {target} WHERE id = 5 UNION ALL SELECT 90L, 1, 'a', 'b') s"
    assert told(
        f"MERGE INTO {target} t USING {source} ON t.id = s.id WHEN MATCHED THEN UPDATE SET level = 'y' "
        "WHEN NOT MATCHED THEN INSERT (id, level) VALUES (s.id, s.level)"
    ) == Counter([("update_preimage", 5), ("update_postimage", 5), ("insert", 90)])
    assert told(
        f"MERGE INTO {target} t USING (SELECT 6L AS id UNION ALL SELECT 7L) s ON t.id = s.id "
        "WHEN MATCHED AND s.id = 6 THEN DELETE WHEN MATCHED THEN UPDATE SET level = 'z'"
    ) == Counter([("delete", 6), ("delete", 7), ("insert", 7)])
    assert table.refresh().count() == 18
