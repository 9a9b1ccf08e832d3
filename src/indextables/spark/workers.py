"""Work on the splits of a table, spread over Spark's workers: each gets a part of the plan and sends back one result."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from indextables.config.splits import SparkReadSettings
from indextables.scan.plan import ScanPlan
from indextables.scan.task import ScanTask
from indextables.spark.settings import check_workers, has_jvm
from indextables.spark.source.answers import DRIVER_SPLITS
from indextables.spark.source.reader import task_groups, worker_store

T = TypeVar("T")


def on_splits(spark: SparkSession, plan: ScanPlan, work: Callable[[ScanTask], T], read: SparkReadSettings) -> list[T]:
    """The work's results over all splits of a plan, one per group of splits. They must be picklable."""
    if len(plan.splits) <= DRIVER_SPLITS:
        return [work(ScanTask(plan))]
    at_once = spark.sparkContext.defaultParallelism if has_jvm(spark) else None
    per_task, most = read.splits_per_task, read.max_splits_per_task
    groups = task_groups(plan.splits, per_task=per_task, most=most, searching=True, parallelism=at_once)
    parts = [plan.with_splits(group) for group in groups]
    return on_workers(spark, [pickle.dumps(part) for part in parts], _Work(work))


class _Work(Generic[T]):
    """Work on a part of a plan, as a task does it."""

    def __init__(self, work: Callable[[ScanTask], T]) -> None:
        self._work = work

    def __call__(self, part: bytes) -> T:
        plan: ScanPlan = pickle.loads(part)
        return self._work(ScanTask(plan, worker_store(plan.spec)))


def on_workers(spark: SparkSession, parts: Sequence[bytes], work: Callable[[bytes], T]) -> list[T]:
    """The work's result for each part, in order, each in a task of its own."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = batch.column(0).to_pylist()
            results = [pickle.dumps(work(parts[number])) for number in numbers]
            yield pa.record_batch([pa.array(numbers, pa.int64()), pa.array(results, pa.binary())], ["part", "result"])

    if not parts:
        return []
    check_workers(spark)
    rows = spark.range(0, len(parts), 1, len(parts)).mapInArrow(run, "part long, result binary").collect()
    return [pickle.loads(bytes(row["result"])) for row in sorted(rows, key=lambda row: int(row["part"]))]
