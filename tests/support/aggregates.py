"""Rows to aggregate, and their aggregation without an engine."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import math
import pickle
import random
from typing import Any

import pyarrow as pa
import pytest

from indextables.query.aggregate.result import finish
from indextables.query.aggregate.spec import parse_spec
from indextables.query.aggregate.state import aggregate_rows, merged

SCHEMA = pa.schema(
    [
        ("level", pa.string()),
        ("n", pa.int64()),
        ("f", pa.float64()),
        ("price", pa.decimal128(9, 2)),
        ("ts", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("ok", pa.bool_()),
        ("st", pa.struct([("x", pa.int32())])),
        ("tags", pa.list_(pa.string())),
    ]
)

Row = dict[str, Any]


def make_rows(count: int) -> list[Row]:
    rng = random.Random(count)
    start = dt.datetime(2023, 12, 31, 22, tzinfo=dt.UTC)

    def row() -> Row:
        return {
            "level": rng.choice(["INFO", "WARN", "ERROR", "x y"]),
            "n": rng.choice([rng.randint(-50, 50), 2**62]),
            "f": rng.choice([rng.uniform(-5, 5), math.nan, 0.0, -0.0]),
            "price": decimal.Decimal(rng.randint(-500, 500)) / 100,
            "ts": start + dt.timedelta(minutes=rng.randint(0, 60 * 24 * 70)),
            "day": dt.date(2024, 1, 1) + dt.timedelta(days=rng.randint(0, 400)),
            "ok": rng.random() < 0.5,
            "st": {"x": rng.randint(0, 3)},
            "tags": ["a"],
        }

    return [{k: None if rng.random() < 0.1 else v for k, v in row().items()} for _ in range(count)]


ROWS = make_rows(700)


def aggregate(spec: dict[str, Any], rows: list[Row] = ROWS) -> list[Row]:
    """The result of some uneven divisions of the rows, which must all be the same."""
    tree = parse_spec(spec, SCHEMA)
    assert pickle.loads(pickle.dumps(tree)) == tree
    found: list[list[Row]] = []
    for cuts in ([], [1, 2, 300], [699]):
        edges = [0, *cuts, len(rows)]
        tables = [pa.Table.from_pylist(rows[a:b], SCHEMA) for a, b in itertools.pairwise(edges)]
        partials = [pickle.loads(pickle.dumps(aggregate_rows(table, tree))) for table in tables]
        found.append(finish(merged(partials), tree).to_pylist())
    first = found[0]
    for other in found[1:]:
        assert [list(r) for r in other] == [list(r) for r in first]
        for one, two in zip(first, other, strict=True):
            assert all(same(one[name], two[name]) for name in one), (one, two)
    return first


def same(one: Any, other: Any) -> bool:
    """Equal, or a sum that was added up in another order."""
    return bool(
        one == pytest.approx(other, nan_ok=True) if isinstance(one, float) else one == other
    )


def values(name: str, rows: list[Row] = ROWS) -> list[Any]:
    return [r[name] for r in rows if r[name] is not None]
