"""Rows change on Spark's workers: the driver receives one line for each split, whatever the number
and the width of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import indextables.spark as its
from indextables import Table
from indextables.errors import ConflictError, IndexTablesError
from indextables.model.deletion_vector import vector_path

ROWS = 60_000
SMALL = "256k"
"""What tasks may return to the driver: a fraction of the row numbers of `ROWS` rows."""


@contextmanager
def driver_takes(spark: SparkSession, size: str) -> Iterator[None]:
    """Let jobs fail whose tasks return more bytes than that to the driver."""
    conf: Any = spark.sparkContext._jsc.sc().conf()
    conf.set("spark.driver.maxResultSize", size)
    try:
        yield
    finally:
        conf.remove("spark.driver.maxResultSize")


def numbers(path: Path, *, mode: str, splits: int = 2) -> Table:
    """A table of `ROWS` rows in some splits, with ids that count up."""
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64())])
    table = Table.create(str(path), schema=schema, options={"delete.mode": mode})
    each = ROWS // splits
    for split in range(splits):
        ids = range(split * each, (split + 1) * each)
        table.append(pa.table({"id": ids, "n": [0] * each}, schema=schema))
    return table


def ids(table: Table, where: str) -> list[int]:
    return sorted(table.refresh().scan(columns=["id"], where=where).read_all()["id"].to_pylist())


def files(path: str) -> set[str]:
    return {
        str(file.relative_to(path))
        for kind in ("*.split", "*.vec")
        for file in Path(path).rglob(kind)
    }


def named(table: Table) -> set[str]:
    """The files that the newest version names."""
    rows = table.refresh().files().select(["path", "deletion_vector"]).to_pylist()
    return {
        path for row in rows for path in (row["path"], vector_path(row["deletion_vector"])) if path
    }


def test_the_driver_takes_more_bytes_than_it_may_without_the_limit(spark: SparkSession) -> None:
    """The limit of these tests works."""
    with driver_takes(spark, SMALL), pytest.raises(Exception, match="maxResultSize"):
        spark.range(ROWS).toArrow()


@pytest.mark.parametrize("mode", ["vector", "rewrite"])
def test_rows_that_are_deleted_do_not_come_to_the_driver(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    table = numbers(tmp_path / "t", mode=mode)
    with driver_takes(spark, SMALL):
        done = spark.sql(f"DELETE FROM indextables.`{table.path}` WHERE id % 3 != 0").collect()[0]
    assert done.num_deleted_rows == ROWS * 2 // 3
    assert ids(table, "true") == list(range(0, ROWS, 3))
    assert files(table.path) >= named(table)


def test_rows_that_are_updated_do_not_come_to_the_driver(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = numbers(tmp_path / "t", mode="vector")
    with driver_takes(spark, SMALL):
        done = spark.sql(
            f"UPDATE indextables.`{table.path}` SET n = id WHERE id % 2 = 0"
        ).collect()[0]
    assert done.num_updated_rows == ROWS // 2
    assert ids(table, "n > 0") == list(range(2, ROWS, 2))
    assert table.refresh().count() == ROWS
    assert {path for path in files(table.path) if path.endswith(".vec")} <= named(table)


def test_rows_of_a_merge_do_not_come_to_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    """Matched rows, rows without a match on either side, and a source with rows of 16 KB that is
    larger than a broadcast.
    """
    schema = pa.schema([("id", pa.int64()), ("body", pa.binary())])
    table = Table.create(str(tmp_path / "t"), schema=schema, options={"delete.mode": "vector"})
    table.append(pa.table({"id": range(ROWS), "body": [b"old"] * ROWS}, schema=schema))
    wide = "unhex(array_join(transform(sequence(1, 256), i -> sha2(concat(id, '-', i), 512)), ''))"
    source = spark.range(ROWS - 1200, ROWS + 1200, 1, 4).selectExpr("id", f"{wide} AS body")
    with driver_takes(spark, "1m"):
        merge = its.merge_into(source, table.path, on="target.id = source.id")
        report = (
            merge.when_matched_update_all()
            .when_not_matched_insert_all()
            .when_not_matched_by_source_delete(condition="target.id % 2 = 0")
            .execute()
        )
    deleted = (ROWS - 1200) // 2
    assert (report.updated_rows, report.inserted_rows, report.deleted_rows) == (1200, 1200, deleted)
    assert table.refresh().count() == ROWS + 1200 - deleted
    assert ids(table, "body != X'6f6c64'") == list(range(ROWS - 1200, ROWS + 1200))


def test_deleting_everything_reads_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = numbers(tmp_path / "t", mode="vector")
    table.delete(where="id < 10")
    for split in Path(table.path).rglob("*.split"):
        split.unlink()
    done = spark.sql(f"DELETE FROM indextables.`{table.path}`").collect()[0]
    assert done.num_deleted_rows == ROWS - 10
    assert table.refresh().count() == 0
    assert table.history()["operation"][0].as_py() == "DELETE"


def test_a_statement_that_fails_leaves_no_files(spark: SparkSession, tmp_path: Path) -> None:
    """The vector of one split cannot be written after another split was rewritten."""
    table = numbers(tmp_path / "t", mode="vector")
    table.update_metadata(options={"delete.maxVectorShare": "0.5"})
    before, version = files(table.path), table.refresh().version
    blocked = Path(table.path) / "vectors"
    blocked.write_text("not a folder")
    half = ROWS // 2
    condition = f"id < {half - 10} OR (id >= {half} AND id % 5 = 0)"
    for statement in (
        f"DELETE FROM indextables.`{table.path}`",
        f"UPDATE indextables.`{table.path}` SET n = 1",
    ):
        with pytest.raises(Exception, match="vectors"):
            spark.sql(f"{statement} WHERE {condition}")
        assert files(table.path) == before and table.refresh().version == version
    blocked.unlink()
    spark.sql(f"DELETE FROM indextables.`{table.path}` WHERE {condition}")
    assert table.refresh().count() == ROWS - (half - 10) - half // 5


def test_a_merge_that_meets_rows_twice_leaves_no_files(spark: SparkSession, tmp_path: Path) -> None:
    table = numbers(tmp_path / "t", mode="vector")
    before = files(table.path)
    source = spark.range(ROWS).union(spark.range(5))
    merge = its.merge_into(source, table.path, on="target.id = source.id").when_matched_update(
        set={"n": "7"}
    )
    with pytest.raises(IndexTablesError, match=r"^5 rows"):
        merge.execute()
    assert files(table.path) == before
    deleting = its.merge_into(source, table.path, on="target.id = source.id").when_matched_delete()
    assert deleting.execute().deleted_rows == ROWS


def test_deletions_of_different_rows_at_the_same_time_are_united(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = numbers(tmp_path / "t", mode="vector", splits=1)

    def merge(every: int) -> Any:
        source: DataFrame = spark.range(0, ROWS, every)
        return its.merge_into(source, table.path, on="target.id = source.id").when_matched_update(
            set={"n": "7"}
        )

    first, second = merge(5), merge(5)
    Table.open(table.path).delete(where="id = 1 OR id = 11 OR id = 21")
    first.execute()
    assert ids(table, "n = 7") == list(range(0, ROWS, 5))
    assert table.refresh().count() == ROWS - 3
    # The worker's vector lacks the rows of the other writer: the one that is committed has both,
    # and it is the only file.
    assert {path for path in files(table.path) if path.endswith(".vec")} == {
        path for path in named(table) if path.endswith(".vec")
    }
    before = files(table.path)
    with pytest.raises(ConflictError, match="one of these rows was deleted"):
        second.execute()
    assert files(table.path) == before


def test_a_delete_by_a_search_writes_its_vectors_on_workers(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = pa.schema([("id", pa.int64()), ("m", pa.string())])
    options = {"delete.mode": "vector", "indexing.typemap.m": "text"}
    table = Table.create(str(tmp_path / "t"), schema=schema, options=options)
    for split in range(2):
        words = ["gone" if number % 3 else "stays" for number in range(20_000)]
        table.append(
            pa.table({"id": range(split * 20_000, (split + 1) * 20_000), "m": words}, schema=schema)
        )
    with driver_takes(spark, "4k"):
        report = its.delete(spark, table.path, query="m:gone")
    assert report.splits_masked == 2 and table.refresh().count() == 2 * 6667
    assert files(table.path) == named(table)
