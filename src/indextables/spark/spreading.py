"""How rows are spread over the tasks of a write: few large splits come out, and every core has work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from indextables.config.spark import SparkWriteSettings
from indextables.spark.columns import quoted
from indextables.spark.session_settings import has_jvm

_MOST_TASKS = 100_000
_TARGET_SIZE = "spark.sql.adaptive.advisoryPartitionSizeInBytes"


@contextmanager
def spread(df: DataFrame, partition_columns: Sequence[str], chosen: SparkWriteSettings) -> Iterator[DataFrame]:
    """The rows in tasks of about the target size, while the block runs."""
    if not chosen.optimize:
        yield df
    elif partition_columns:
        with _together(df, partition_columns, chosen.target_bytes) as rows:
            yield rows
    else:
        yield _in_fewer_tasks(df, chosen.target_bytes)


@contextmanager
def _together(df: DataFrame, partition_columns: Sequence[str], target_bytes: int) -> Iterator[DataFrame]:
    """The rows with those of a partition brought together: else every task writes a small split for every partition.

    Spark knows the sizes only once it has shuffled, and takes the wanted size from the session: it is set there while
    the write runs.
    """
    spark = df.sparkSession
    before = spark.conf.get(_TARGET_SIZE, None)
    spark.conf.set(_TARGET_SIZE, str(target_bytes))
    try:
        yield df.hint("rebalance", *[f.col(quoted(name)) for name in partition_columns])
    finally:
        if before is None:
            spark.conf.unset(_TARGET_SIZE)
        else:
            spark.conf.set(_TARGET_SIZE, before)


def _in_fewer_tasks(df: DataFrame, target_bytes: int) -> DataFrame:
    """The rows without a shuffle, but in no more tasks than their size or the cores ask for.

    Spark's guess of the size errs on the large side, and then there are as many tasks as before.
    """
    spark = df.sparkSession
    if not has_jvm(spark):
        return df
    plan = df._jdf.queryExecution().optimizedPlan()
    most = max(spark.sparkContext.defaultParallelism, -(-int(str(plan.stats().sizeInBytes())) // target_bytes))
    given = _tasks_given(plan)
    if most > _MOST_TASKS or (given is not None and given <= most):
        return df
    return df.coalesce(most)


def _tasks_given(plan: Any) -> int | None:
    """The number of a repartition() or coalesce() that the rows come from, which a further coalesce() would replace."""
    while plan.nodeName() == "Project":
        plan = plan.children().head()
    return int(plan.numPartitions()) if plan.nodeName() == "Repartition" else None
