"""Random SQL over a table returns the rows that the same SQL returns over plain Parquet."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from indextables import Table
from tests.spark.compare import rows_of
from tests.spark.logs import Logs, make_logs
from tests.spark.random_sql import Queries

SEARCH = re.compile(r"\[(\w+):(\w+)\]")
WORD_IN_TEXT = r"coalesce(array_contains(split(\1.message, ' '), '\2'), false)"
"""A search is never null: where there is no text, it does not match."""


@pytest.fixture(scope="module")
def logs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logs]:
    """A table in which some rows are deleted by deletion vectors, and its remaining rows as
    Parquet.
    """
    made = make_logs(tmp_path_factory.mktemp("random_sql"))
    deleted = ", ".join(str(number) for number in range(0, 600, 13))
    Table.open(made.path).delete(where=f"id IN ({deleted})")
    spark.read.parquet(made.parquet).where("id % 13 <> 0").createOrReplaceTempView("plain_logs")
    spark.sql(f"CREATE TABLE random_logs USING indextables LOCATION '{made.path}'")
    yield made
    spark.sql("DROP TABLE random_logs")
    spark.catalog.dropTempView("plain_logs")


def difference(spark: SparkSession, logs: Logs, seed: int) -> str | None:
    """Run a query by name or by path; return what is wrong with its rows, if anything is."""
    rng = random.Random(seed)
    query = Queries(rng).query()
    table = rng.choice(["random_logs", f"indextables.`{logs.path}`"])
    ours = SEARCH.sub(r"\1.message TEXTSEARCH '\2'", query).replace("{t}", table)
    plain = SEARCH.sub(WORD_IN_TEXT, query).replace("{t}", "plain_logs")
    expected = rows_of(spark.sql(plain))
    try:
        returned = rows_of(spark.sql(ours))
    except PySparkException as error:
        return f"query {seed}: {ours}\n    raised {str(error)[:300]}"
    if returned != expected:
        return f"query {seed}: {ours}\n    returned {len(returned)} rows, Parquet {len(expected)}"
    return None


def check(spark: SparkSession, logs: Logs, seeds: range) -> None:
    differences = [found for seed in seeds if (found := difference(spark, logs, seed))]
    assert not differences, "\n".join([f"{len(differences)} queries differ", *differences])


def test_a_few_random_queries_return_the_rows_of_parquet(spark: SparkSession, logs: Logs) -> None:
    check(spark, logs, range(30))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_600_random_queries_return_the_rows_of_parquet(spark: SparkSession, logs: Logs) -> None:
    check(spark, logs, range(5000, 5600))
