"""A split is a Parquet file: four engines read the same rows from the very same file, without
knowing of us.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from indextables import Table
from tests.spark.compare import rows_of
from tests.spark.logs import OPTIONS, SCHEMA, log_rows
from tests.support.splits import small_pages


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The only split of a table of some row groups."""
    path = tmp_path_factory.mktemp("parquet") / "t"
    with small_pages(1_000, group_rows=8_192):
        Table.create(str(path), schema=SCHEMA, options=OPTIONS).append(log_rows(20_000))
    (found,) = path.rglob("*.split")
    return str(found)


def test_pyarrow_polars_duckdb_and_spark_read_the_same_rows(
    spark: SparkSession, split: str
) -> None:
    expected = log_rows(20_000)
    assert pq.ParquetFile(split).num_row_groups > 1
    assert _same(pq.read_table(split), expected)
    assert _same(pl.read_parquet(split).to_arrow().cast(SCHEMA), expected)
    assert _same(duckdb.from_parquet(split).order("id").to_arrow_table().cast(SCHEMA), expected)
    assert rows_of(spark.read.parquet(split)) == rows_of(spark.createDataFrame(expected))


def test_their_filters_find_what_a_search_finds(spark: SparkSession, split: str) -> None:
    table = Table.open(str(Path(split).parents[1]))
    searched = sorted(
        table.search("level:ERROR", where="ms > 50", columns=["id"]).column("id").to_pylist()
    )
    assert 0 < len(searched) < 20_000
    condition = "level = 'ERROR' and ms > 50"
    assert (
        sorted(r.id for r in spark.read.parquet(split).where(condition).select("id").collect())
        == searched
    )
    by_duckdb = duckdb.execute(
        f"select id from read_parquet('{split}') where {condition} order by id"
    ).fetchall()
    assert [row[0] for row in by_duckdb] == searched


def _same(found: pa.Table, expected: pa.Table) -> bool:
    """Equal rows, with NaN equal to NaN."""
    return str(found.to_pylist()) == str(expected.to_pylist())
