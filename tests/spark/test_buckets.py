"""Buckets in GROUP BY: the keys and counts that `Table.aggregate` has for the same buckets."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from indextables import Table

RNG = random.Random(3)
SPECIAL = [float("nan"), float("inf"), None, -0.0, 1.0, 0.3, -0.7, 1e6]
ROWS = pa.table(
    {
        "n": pa.array([RNG.choice([None, RNG.randint(-50, 50)]) for _ in range(300)], pa.int64()),
        "x": pa.array([RNG.choice([*SPECIAL, RNG.uniform(-20, 20)]) for _ in range(300)], pa.float64()),
        "at": pa.array([RNG.randint(-(10**15), 2 * 10**15) for _ in range(300)], pa.int64()).cast(
            pa.timestamp("us", "UTC")
        ),
    }
)
BUCKETS: list[tuple[str, Mapping[str, Any]]] = [
    ("indextables_histogram(n, 7)", {"histogram": {"field": "n", "interval": 7}}),
    ("indextables_histogram(n, 10, 3)", {"histogram": {"field": "n", "interval": 10, "offset": 3}}),
    ("indextables_histogram(x, 0.1)", {"histogram": {"field": "x", "interval": 0.1}}),
    ("indextables_histogram(x, 5, -1.5)", {"histogram": {"field": "x", "interval": 5, "offset": -1.5}}),
    *[
        (f"indextables_date_histogram(at, '{text}')", {"date_histogram": {"field": "at", "fixed_interval": text}})
        for text in ("36h", "7d")
    ],
    *[
        (f"indextables_date_histogram(at, '{unit}')", {"date_histogram": {"field": "at", "calendar_interval": unit}})
        for unit in ("hour", "day", "week", "month", "quarter", "year")
    ],
    (
        "indextables_range(x, -5, 0.5, 10)",
        {
            "range": {
                "field": "x",
                "ranges": [{"to": -5}, {"from": -5, "to": 0.5}, {"from": 0.5, "to": 10}, {"from": 10}],
            }
        },
    ),
]


def test_buckets_are_those_of_aggregate(spark: SparkSession, tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=ROWS.schema)
    table.append(ROWS)
    rows = spark.createDataFrame(ROWS)
    keys = rows.selectExpr(*(f"{call} as k{n}" for n, (call, _) in enumerate(BUCKETS))).toArrow()
    for n, (call, spec) in enumerate(BUCKETS):
        wanted = {row["b"]: row["count"] for row in table.aggregate({"b": spec}).to_pylist() if row["count"]}
        found = keys[f"k{n}"].drop_null().value_counts().to_pylist()
        assert {row["values"]: row["counts"] for row in found} == wanted, call


def test_buckets_in_group_by(spark: SparkSession) -> None:
    frame = spark.sql("SELECT indextables_histogram(id, 4) AS low, count(*) AS n FROM range(10) GROUP BY 1 ORDER BY 1")
    assert [tuple(row) for row in frame.collect()] == [(0, 4), (4, 4), (8, 2)]
    days = spark.sql("SELECT indextables_date_histogram(date'2024-05-31', 'month') = timestamp'2024-05-01 00:00:00Z'")
    assert days.collect()[0][0] is True


@pytest.mark.parametrize(
    "call",
    [
        "indextables_histogram(id, 0)",
        "indextables_histogram(id)",
        "indextables_date_histogram(current_timestamp(), 'fortnight')",
        "indextables_range(id, 5, 3)",
        "indextables_range(id, id)",
    ],
)
def test_wrong_calls_are_explained(spark: SparkSession, call: str) -> None:
    with pytest.raises(Exception, match="Write indextables_"):
        spark.sql(f"SELECT {call} FROM range(3)").collect()
