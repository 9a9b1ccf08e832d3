"""What tasks have done so far, known to the driver even if their job fails."""

from __future__ import annotations

from typing import Any

from pyspark import AccumulatorParam
from pyspark.accumulators import Accumulator
from pyspark.sql import SparkSession

from indextables.spark.session_settings import has_jvm


def gathering(spark: SparkSession) -> Accumulator[list[Any]] | None:
    """A list that tasks add to. None in a Connect session, which has nothing of the kind."""
    return spark.sparkContext.accumulator([], _Lists()) if has_jvm(spark) else None


class _Lists(AccumulatorParam[list[Any]]):
    def zero(self, value: list[Any]) -> list[Any]:  # noqa: ARG002
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:  # noqa: N802
        return [*value1, *value2]
