"""Rows that deletion vectors name are gone in Spark too, whoever reads; a stream of changes goes on
across all of it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

import indextables.spark as its
from indextables import Table
from indextables.errors import BadFileError, InvalidInputError
from indextables.storage.vector_files import _known
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
    assert sorted(
        row.id for row in its.search(spark, table.path, "message:disk").collect()
    ) == sorted(table.search("message:disk", columns=["id"]).column("id").to_pylist())
    assert (
        its.count(spark, table.path)
        == its.count(spark, table.path, where="id >= 0")
        == len(expected)
    )
    assert its.count(spark, table.path, query="message:disk") == table.count(query="message:disk")
    its.delete(spark, table.path, where="id = 100")
    assert its.table(spark, table.path).count() == len(expected) - 1
    assert its.table(spark, table.path, version=3).count() == 120


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan())


def answers(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


QUERIES = [
    "SELECT * FROM {t}",
    "SELECT id FROM {t} WHERE id BETWEEN 5 AND 50",
    "SELECT count(*), count(level), min(id), max(id), sum(id) FROM {t}",
    "SELECT count(*) FROM {t} WHERE id > 1000",
    "SELECT level, count(*), max(message) FROM {t} GROUP BY level",
    "SELECT a.id FROM {t} a JOIN {t} b ON a.id = b.id + 1 WHERE b.level = 'INFO'",
    "SELECT id FROM {t} WHERE id IN (SELECT max(id) FROM {t})",
    "SELECT id FROM {t} ORDER BY id LIMIT 4",
    "SELECT id, message FROM {t} WHERE message LIKE '%disk%' OR id = 7",
    "SELECT message, count(*) FROM {t} TABLESAMPLE (100 PERCENT) GROUP BY 1",
    "SELECT DISTINCT day FROM {t}",
]


@pytest.mark.parametrize("partitioned", [False, True])
def test_sparks_own_scan_leaves_deleted_rows_out(
    spark: SparkSession, tmp_path: Path, partitioned: bool
) -> None:
    """Every reader of Spark: whole and cut files, row by row and in batches, compiled and
    interpreted.
    """
    table = table_of(
        tmp_path / "t",
        appends=3,
        each=40,
        partitioned=partitioned,
        options={"delete.mode": "vector"},
    )
    table.delete(where="id IN (0, 7, 45, 119)")
    table.delete(query="message:retry", where="id < 40")
    assert pc.any(pc.is_valid(table.files()["deletion_vector"])).as_py()
    living = spark.createDataFrame(table.scan().read_all())
    living.createOrReplaceTempView("living")
    its.table(spark, table.path).createOrReplaceTempView("masked")
    settings = [
        {},
        {"spark.sql.files.maxPartitionBytes": "2000", "spark.sql.files.openCostInBytes": "1"},
        {"spark.sql.parquet.enableVectorizedReader": "false"},
        {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
    ]
    for conf in settings:
        for key, value in conf.items():
            spark.conf.set(key, value)
        for query in QUERIES if not conf else QUERIES[:3]:
            expected = answers(spark.sql(query.format(t="living")))
            assert answers(spark.sql(query.format(t="masked"))) == expected, (query, conf)
            named = spark.sql(query.format(t=f"indextables.`{table.path}`"))
            assert answers(named) == expected, (query, conf)
        for key in conf:
            spark.conf.unset(key)
    scan = plan_of(spark.sql("SELECT id FROM masked WHERE id > 3"))
    assert "FileScan parquet" in scan and "GreaterThan(id,3)" in scan and "BatchScan" not in scan, (
        scan
    )
    assert "ReadSchema: struct<id:" in scan
    asked = ("id", "_metadata.row_index", "_metadata.file_name", "_metadata.file_size")
    places = its.table(spark, table.path).select(*asked).collect()
    assert sorted(row.id for row in places) == ids(table)
    sizes = {row["path"].rsplit("/", 1)[-1]: row["size"] for row in table.files().to_pylist()}
    assert {row.file_name: row.file_size for row in places} == sizes
    assert spark.table("masked").columns == table.schema.names


def test_searches_over_a_scan_with_deleted_rows(spark: SparkSession, tmp_path: Path) -> None:
    """The index knows the vectors itself: a search takes the place of the scan, wherever it stands."""
    table = table_of(tmp_path / "t", appends=2, each=40, options={"delete.mode": "vector"})
    table.delete(where="id IN (1, 2, 45)")
    living = set(ids(table))
    found = set(table.search("message:disk", columns=["id"]).column("id").to_pylist())
    its.table(spark, table.path).createOrReplaceTempView("masked")
    for name in ("masked", f"indextables.`{table.path}`"):

        def ask(query: str, name: str = name) -> list[tuple[object, ...]]:
            return answers(spark.sql(query.format(t=name)))

        assert {
            row[0] for row in ask("SELECT id FROM {t} WHERE message TEXTSEARCH 'disk'")
        } == found
        assert ask(
            "SELECT count(*) FILTER (WHERE message TEXTSEARCH 'disk'), count(*) FROM {t}"
        ) == [(len(found), len(living))]
        assert {
            row[0] for row in ask("SELECT id FROM {t} WHERE NOT message TEXTSEARCH 'disk'")
        } == living - found
        joined = ask(
            "SELECT a.id FROM {t} a JOIN {t} b ON a.id = b.id WHERE a.message TEXTSEARCH 'disk'"
        )
        assert {row[0] for row in joined} == found


def test_another_version_is_another_scan_and_what_is_cached_knows_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = table_of(tmp_path / "t", appends=1, each=40, options={"delete.mode": "vector"})
    before = its.table(spark, table.path)
    table.delete(where="id = 3")
    once = its.table(spark, table.path).cache()
    assert once.count() == 39
    table.delete(where="id = 4")
    assert its.table(spark, table.path).count() == 38
    assert (before.count(), once.count()) == (40, 39)
    assert "InMemoryTableScan" in plan_of(its.table(spark, table.path, version=table.version - 1))
    once.unpersist()
    twice = its.table(spark, table.path)
    joined = twice.join(its.table(spark, table.path), "id").collect()
    assert sorted(row.id for row in joined) == ids(table.refresh())


def test_a_vector_that_is_gone_is_an_error_and_never_all_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = table_of(tmp_path / "t", appends=1, each=2000, options={"delete.mode": "vector"})
    table.delete(query="message:disk OR message:cache")
    frame = its.table(spark, table.path)
    vectors = list((tmp_path / "t").rglob("vectors-*"))
    count = frame.count()
    assert vectors and count == len(ids(table))
    for path in vectors:
        path.unlink()
    assert frame.count() == count  # what was read stays read
    _known.clear()
    with pytest.raises(BadFileError, match="gone"):
        its.table(spark, table.path)


def test_a_stream_of_changes(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2, each=20, options={"delete.mode": "vector"})
    target, checkpoint = str(tmp_path / "feed"), str(tmp_path / "checkpoint")

    def follow() -> Counter[tuple[str, int, int]]:
        changes = its.read_stream(spark, table.path, read_change_feed=True)
        its.write_stream(
            changes, target, checkpoint=checkpoint, trigger={"availableNow": True}
        ).awaitTermination()
        told = (
            Table.open(target)
            .scan(columns=["_change_type", "id", "_commit_version"])
            .read_all()
            .to_pylist()
        )
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

    assert told(f"DELETE FROM {target} WHERE id IN (3, 14)") == Counter(
        [("delete", 3), ("delete", 14)]
    )
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


def test_versions_by_their_tags(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2, each=10)
    spark.sql(f"TAG INDEXTABLES '{table.path}' VERSION 1 AS 'release-7'")
    name = f"indextables.`{table.path}`"
    assert spark.sql(f"SELECT count(*) FROM {name} VERSION AS OF 'release-7'").collect()[0][0] == 10
    assert its.table(spark, table.path, version="release-7").count() == 10
    with pytest.raises(Exception, match="no tag 'release-8'"):
        spark.sql(f"SELECT count(*) FROM {name} VERSION AS OF 'release-8'").collect()
    spark.sql(f"UNTAG INDEXTABLES '{table.path}' 'release-7'")
    assert table.refresh().tags() == {}
