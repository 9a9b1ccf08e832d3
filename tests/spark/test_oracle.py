"""Random programs over a table give what they give over the same rows in plain Parquet."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import DataFrame, SparkSession

import indextables.spark as its
from tests.spark.compare import rows_of
from tests.spark.logs import Logs, make_logs
from tests.spark.random_programs import Pair, Programs


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    return make_logs(tmp_path_factory.mktemp("oracle"))


def programs(spark: SparkSession, logs: Logs, seed: int) -> Programs:
    rng = random.Random(seed)
    plain = spark.read.parquet(logs.parquet)

    def ours() -> DataFrame:
        if rng.random() < 0.7:
            return its.table(spark, logs.path)
        return spark.read.format("indextables").load(logs.path)

    def searches(word: str) -> Pair:
        return (
            its.search(spark, logs.path, f'message:"{word}"'),
            plain.where(f"array_contains(split(message, ' '), '{word}')"),
        )

    return Programs(rng, lambda: (ours(), plain), searches)


def check(spark: SparkSession, logs: Logs, seeds: range) -> None:
    rows = 0
    for seed in seeds:
        found, wanted = programs(spark, logs, seed).program()
        given = rows_of(found)
        assert given == rows_of(wanted), (
            f"program {seed}:\n{found._jdf.queryExecution().toString()}"
        )
        rows += len(given)
    assert rows > len(seeds), "the programs find hardly anything"


def test_a_few_random_programs(spark: SparkSession, logs: Logs) -> None:
    check(spark, logs, range(24))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_three_hundred_random_programs(spark: SparkSession, logs: Logs) -> None:
    check(spark, logs, range(1000, 1300))
