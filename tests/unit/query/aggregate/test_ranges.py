"""Range aggregations: any bounds, very many of them, and what is refused."""

from __future__ import annotations

import datetime as dt
import random
import time

import pyarrow as pa
import pytest

from indextables.errors import InvalidInputError
from indextables.query.aggregate.result import finish
from indextables.query.aggregate.spec import parse_spec
from indextables.query.aggregate.state import aggregate_rows
from tests.support.aggregates import ROWS, SCHEMA, aggregate, values


@pytest.mark.parametrize("field", ["n", "f", "price", "ts", "day"])
def test_random_ranges_hold_the_values_from_their_lower_to_below_their_upper_bound(
    field: str,
) -> None:
    present = [v for v in values(field) if v == v]
    rng = random.Random(field)
    for _ in range(20):
        pairs = [
            tuple(None if rng.random() < 0.2 else rng.choice(present) for _ in range(2))
            for _ in range(rng.randint(1, 9))
        ]
        ranges = [
            {
                "key": str(number),
                **{k: v for k, v in (("from", low), ("to", high)) if v is not None},
            }
            for number, (low, high) in enumerate(pairs)
        ]
        found = aggregate(
            {
                "r": {
                    "range": {"field": field, "ranges": ranges},
                    "aggs": {"m": {"min": {"field": field}}},
                }
            }
        )
        for row, (low, high) in zip(found, pairs, strict=True):
            inside = [
                v for v in present if (low is None or v >= low) and (high is None or v < high)
            ]
            assert (row["count"], row["m"]) == (len(inside), min(inside, default=None))


def test_a_bound_between_two_values_of_the_column_is_not_rounded() -> None:
    ranges = [{"from": 0.5, "to": 2.5, "key": "n"}]
    numbers = values("n")
    found = aggregate({"r": {"range": {"field": "n", "ranges": ranges}}})
    assert found[0]["count"] == sum(0.5 <= v < 2.5 for v in numbers)
    noon = [{"from": "2024-06-01T12:00:00", "key": "day"}]
    found = aggregate({"r": {"range": {"field": "day", "ranges": noon}}})
    assert found[0]["count"] == sum(v > dt.date(2024, 6, 1) for v in values("day"))


@pytest.mark.parametrize("width", [1, 500])
def test_a_hundred_thousand_ranges_are_counted_in_seconds(width: int) -> None:
    ranges = [{"from": number, "to": number + width} for number in range(-50, 100_000)]
    tree = parse_spec({"r": {"range": {"field": "n", "ranges": ranges}}}, SCHEMA)
    table = pa.Table.from_pylist(ROWS, SCHEMA)
    started = time.process_time()
    found = finish(aggregate_rows(table, tree), tree)
    assert time.process_time() - started < 10
    inside = sum(1 for v in values("n") for low in range(-50, 51) if low <= v < low + width)
    assert sum(found.column("count").to_pylist()) == inside


def test_more_than_a_thousand_ranges_around_one_value_are_refused() -> None:
    ranges = [{"from": -number} for number in range(1_001)]
    with pytest.raises(InvalidInputError, match=r"more than 1,000 of the ranges overlap"):
        parse_spec({"r": {"range": {"field": "n", "ranges": ranges}}}, SCHEMA)
    parse_spec({"r": {"range": {"field": "n", "ranges": ranges[1:]}}}, SCHEMA)


def test_many_faults_are_counted_and_the_first_ones_are_shown() -> None:
    spec = {f"a{n}": {"sum": {"field": "nope"}} for n in range(5_000)}
    with pytest.raises(InvalidInputError, match=r"5000 fault\(s\).* And 4980 more\.") as refused:
        parse_spec(spec, SCHEMA)
    assert len(refused.value.message) < 5_000


def test_rows_of_a_group_show_each_of_their_columns_once() -> None:
    with pytest.raises(InvalidInputError, match=r"name each column once"):
        parse_spec({"h": {"top_hits": {"sort": "n", "columns": ["n", "n"]}}}, SCHEMA)
