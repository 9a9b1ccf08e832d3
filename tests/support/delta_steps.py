"""Steps of users of Delta tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from indextables.spark.compat import SPARK

Rows = list[tuple[Any, ...]]

Call = Callable[[SparkSession], Any]


@dataclass(frozen=True)
class Step:
    """One thing that somebody types, and what comes of it."""

    does: str | Call
    returns: Rows | None = None
    """Its rows, in any order."""
    then: tuple[str, Rows] | None = None
    """A query, and its rows, in any order."""
    says: Sequence[str] = field(default=())
    """Words of the error that it raises."""
    since: tuple[int, int] = (4, 0)
    """The first Spark that can do it; an older one must refuse it."""


def rows_of(result: Any) -> Rows:
    rows = (
        result.collect()
        if isinstance(result, DataFrame)
        else result
        if isinstance(result, list)
        else []
    )
    return sorted((tuple(row) for row in rows), key=repr)


def run(spark: SparkSession, step: Step, names: dict[str, str]) -> None:
    def text(sql: str) -> str:
        for name, value in names.items():
            sql = sql.replace("{" + name + "}", value)
        return sql

    def act() -> Any:
        return rows_of(
            spark.sql(text(step.does)) if isinstance(step.does, str) else step.does(spark)
        )

    if step.since > SPARK:
        with pytest.raises(PySparkException):
            pytest.fail(f"{step.does} returned {act()}")
        return
    if step.says:
        with pytest.raises(PySparkException) as raised:
            pytest.fail(f"{step.does} returned {act()}")
        message = str(raised.value)
        assert "Traceback" not in message, message
        assert raised.value.getCondition(), message
        for words in step.says:
            assert text(words) in message, message
        return
    returned = act()
    if step.returns is not None:
        assert returned == sorted(step.returns, key=repr)
    if step.then is not None:
        query, rows = step.then
        assert rows_of(spark.sql(text(query))) == sorted(rows, key=repr)


def frame(spark: SparkSession, *ids: int, word: str = "row") -> DataFrame:
    rows = [(number, f"{word} {number}") for number in ids]
    return spark.createDataFrame(rows, "id BIGINT, message STRING")
