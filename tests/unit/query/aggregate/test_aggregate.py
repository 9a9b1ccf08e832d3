"""Aggregations: against plain Python over the same rows, in any division into splits."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import json
import math
import pickle
import random
import statistics
import zoneinfo
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from indextables import Table
from indextables.config.indexing import IndexingSettings
from indextables.errors import InvalidInputError
from indextables.query.aggregate.result import finish
from indextables.query.aggregate.spec import parse_spec
from indextables.query.aggregate.state import aggregate_rows, aggregate_split, merged
from indextables.splits.query.fields import QueryFields
from indextables.splits.query.parser import parse
from tests.support.aggregates import ROWS, SCHEMA, Row, aggregate, values
from tests.unit.splits.plain_split import make_split


def test_terms_are_the_most_frequent_values() -> None:
    expected = sorted(Counter(values("level")).items(), key=lambda e: (-e[1], e[0]))
    assert aggregate({"by": {"terms": {"field": "level"}}}) == [
        {"by": k, "count": n} for k, n in expected
    ]
    assert aggregate({"by": {"terms": {"field": "level", "size": 2}}}) == [
        {"by": k, "count": n} for k, n in expected[:2]
    ]
    by_key = aggregate({"by": {"terms": {"field": "level", "order": {"_key": "asc"}}}})
    assert [r["by"] for r in by_key] == sorted(k for k, _ in expected)
    few = aggregate(
        {
            "by": {
                "terms": {
                    "field": "level",
                    "order": {"_count": "asc"},
                    "min_doc_count": expected[1][1],
                }
            }
        }
    )
    assert [r["by"] for r in few] == [expected[1][0], expected[0][0]]
    missing = aggregate({"by": {"terms": {"field": "level", "missing": "-"}}})
    assert {r["by"]: r["count"] for r in missing}["-"] == len(ROWS) - len(values("level"))


def test_terms_of_every_type() -> None:
    for name, kind in (
        ("n", int),
        ("ok", bool),
        ("day", dt.date),
        ("price", decimal.Decimal),
        ("ts", dt.datetime),
    ):
        found = aggregate({"by": {"terms": {"field": name, "size": 10_000}}})
        assert {r["by"]: r["count"] for r in found} == Counter(values(name)), kind
    floats = aggregate({"by": {"terms": {"field": "f", "size": 2}}})
    nan = sum(1 for v in values("f") if math.isnan(v))
    zero = sum(1 for v in values("f") if v == 0)
    assert sorted(r["count"] for r in floats) == sorted([nan, zero])
    inner = aggregate({"by": {"terms": {"field": "st.x"}}})
    assert {r["by"]: r["count"] for r in inner} == Counter(s["x"] for s in values("st"))


def test_metrics_stand_in_one_row() -> None:
    (found,) = aggregate(
        {
            "n": {"stats": {"field": "n"}},
            "f": {"stats": {"field": "f"}},
            "price": {"sum": {"field": "price"}},
            "first": {"min": {"field": "ts"}},
            "last": {"max": {"field": "level"}},
            "some": {"value_count": {"field": "ok"}},
            "levels": {"cardinality": {"field": "level"}},
            "different": {"cardinality": {"field": "f"}},
            "mean": {"avg": {"field": "n"}},
        }
    )
    numbers, floats = values("n"), [v for v in values("f") if not math.isnan(v)]
    assert found["count"] == len(ROWS)
    assert (found["n.count"], found["n.min"], found["n.max"]) == (
        len(numbers),
        min(numbers),
        max(numbers),
    )
    assert found["n.sum"] == decimal.Decimal(sum(numbers))
    assert found["n.avg"] == found["mean"] == pytest.approx(sum(numbers) / len(numbers))
    assert (found["f.count"], found["f.min"]) == (len(floats), min(floats))
    assert found["f.sum"] == pytest.approx(math.fsum(floats))
    assert found["price"] == sum(values("price"))
    assert (found["first"], found["last"], found["some"]) == (
        min(values("ts")),
        "x y",
        len(values("ok")),
    )
    assert found["levels"] == 4
    assert found["different"] == len(set(floats)) + 1


def test_a_sum_of_whole_numbers_is_one_unless_it_is_too_large() -> None:
    small = [{**r, "n": 3} for r in ROWS]
    tree = parse_spec({"s": {"sum": {"field": "n"}}}, SCHEMA)
    table = finish(aggregate_rows(pa.Table.from_pylist(small, SCHEMA), tree), tree)
    assert (table.schema.field("s").type, table["s"].to_pylist()) == (pa.int64(), [2100])


def test_percentiles_are_exact() -> None:
    percents = [0, 12.5, 50, 99, 100]
    (found,) = aggregate({"p": {"percentiles": {"field": "f", "percents": percents}}})
    floats = [v for v in values("f") if not math.isnan(v)]
    expected = np.percentile(floats, percents)
    assert [found[f"p.p{p:g}"] for p in percents] == pytest.approx(list(expected))
    assert found["p.p50"] == pytest.approx(statistics.median(floats))


def test_histograms() -> None:
    whole = aggregate(
        {"h": {"histogram": {"field": "n", "interval": 20, "offset": 5, "min_doc_count": 1}}}
    )
    assert {r["h"]: r["count"] for r in whole} == Counter(
        (v - 5) // 20 * 20 + 5 for v in values("n")
    )
    assert [r["h"] for r in whole] == sorted(r["h"] for r in whole)
    halves = aggregate({"h": {"histogram": {"field": "f", "interval": 0.5, "min_doc_count": 1}}})
    assert {r["h"]: r["count"] for r in halves} == Counter(
        math.floor(v / 0.5) * 0.5 for v in values("f") if not math.isnan(v)
    )
    sparse = [{**ROWS[0], "n": v} for v in (0, 1, 31)]
    filled = aggregate({"h": {"histogram": {"field": "n", "interval": 10}}}, sparse)
    assert [(r["h"], r["count"]) for r in filled] == [(0, 2), (10, 0), (20, 0), (30, 1)]
    with pytest.raises(InvalidInputError, match="more than 100000 buckets"):
        aggregate({"h": {"histogram": {"field": "n", "interval": 1, "min_doc_count": 0}}})


def test_date_histograms() -> None:
    hours = aggregate(
        {"h": {"date_histogram": {"field": "ts", "fixed_interval": "6h", "min_doc_count": 1}}}
    )
    assert {r["h"]: r["count"] for r in hours} == Counter(
        v.replace(hour=v.hour // 6 * 6, minute=0) for v in values("ts")
    )
    months = aggregate({"m": {"date_histogram": {"field": "day", "calendar_interval": "month"}}})
    assert {r["m"]: r["count"] for r in months} == Counter(v.replace(day=1) for v in values("day"))
    weeks = aggregate({"w": {"date_histogram": {"field": "ts", "calendar_interval": "week"}}})
    assert all(r["w"].weekday() == 0 for r in weeks)
    apart = [{**ROWS[0], "day": dt.date(2023, 11, 5)}, {**ROWS[0], "day": dt.date(2024, 2, 9)}]
    for interval, count in (("month", 4), ("quarter", 2), ("year", 2), ("day", 97)):
        spec = {"m": {"date_histogram": {"field": "day", "calendar_interval": interval}}}
        assert len(aggregate(spec, apart)) == count


def test_ranges_may_overlap_and_empty_ones_stay() -> None:
    ranges = [
        {"to": 0},
        {"from": -10, "to": 10, "key": "near"},
        {"from": 100, "to": 200},
        {"from": 10},
    ]
    found = aggregate({"r": {"range": {"field": "n", "ranges": ranges}}})
    numbers = values("n")
    assert [(r["r"], r["count"]) for r in found] == [
        ("*-0", sum(v < 0 for v in numbers)),
        ("near", sum(-10 <= v < 10 for v in numbers)),
        ("100-200", 0),
        ("10-*", sum(v >= 10 for v in numbers)),
    ]
    days = aggregate({"r": {"range": {"field": "day", "ranges": [{"from": "2024-06-01"}]}}})
    assert days[0]["count"] == sum(v >= dt.date(2024, 6, 1) for v in values("day"))


def test_buckets_inside_buckets_follow_their_bucket() -> None:
    found = aggregate(
        {
            "by": {
                "terms": {"field": "level", "size": 2},
                "aggs": {
                    "n": {"max": {"field": "n"}},
                    "ok": {
                        "terms": {"field": "ok"},
                        "aggs": {"p": {"percentiles": {"field": "f", "percents": [50]}}},
                    },
                },
            }
        }
    )
    assert len(found) == 6
    for row in found:
        same = [r for r in ROWS if r["level"] == row["by"] and row["ok"] in (None, r["ok"])]
        assert row["count"] == len(same)
        if row["ok"] is None:
            assert row["n"] == max(values("n", same))
            assert row["p.p50"] is None
        else:
            assert row["p.p50"] == pytest.approx(
                statistics.median(v for v in values("f", same) if not math.isnan(v))
            )


def test_several_at_the_top_are_told_apart() -> None:
    found = aggregate(
        {
            "a": {"terms": {"field": "ok"}},
            "b": {"terms": {"field": "level", "size": 1}},
            "m": {"min": {"field": "n"}},
        }
    )
    assert [r["aggregation"] for r in found] == [None, "a", "a", "b"]
    assert found[0]["m"] == min(values("n"))


def test_nothing_matched() -> None:
    spec = {
        "by": {"terms": {"field": "level"}},
        "s": {"stats": {"field": "n"}},
        "c": {"cardinality": {"field": "ok"}},
    }
    (row,) = aggregate(spec, [])
    assert (row["count"], row["s.count"], row["c"], row["s.min"]) == (0, 0, 0, None)
    tree = parse_spec({"by": {"terms": {"field": "day"}}}, SCHEMA)
    assert finish(merged([]), tree).schema == pa.schema(
        [("by", pa.date32()), ("count", pa.int64())]
    )


def test_over_the_rows_of_a_search(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(ROWS, SCHEMA)
    split = make_split(table, IndexingSettings(), tmp_path / "index")
    tree = parse_spec({"by": {"terms": {"field": "ok"}}}, SCHEMA)
    query = parse("level:ERROR", QueryFields(SCHEMA, split.mapping))
    found = finish(aggregate_split(split, tree, query), tree)
    assert {r["by"]: r["count"] for r in found.to_pylist()} == Counter(
        r["ok"] for r in ROWS if r["level"] == "ERROR" and r["ok"] is not None
    )
    assert split.columns_read == [("ok",)]


def test_one_error_lists_every_fault() -> None:
    spec = {
        "a": {"foo": {}},
        "b": {"terms": {"field": "nothing"}},
        "c": {"stats": {"field": "level"}},
        "d": {"terms": {"field": "level", "size": 0, "colour": 1, "order": {"x": "y"}}},
        "e": {"histogram": {"field": "n"}},
        "f": {"date_histogram": {"field": "ts", "fixed_interval": "1 month"}},
        "g": {"range": {"field": "n", "ranges": [{"from": "x"}]}},
        "h": {"percentiles": {"field": "n", "percents": [101]}},
        "i": {"sum": {"field": "tags"}},
        "j": {"min": {"field": "n"}, "aggs": {"k": {"min": {"field": "n"}}}},
        "count": {"min": {"field": "n"}},
    }
    with pytest.raises(InvalidInputError) as caught:
        parse_spec(spec, SCHEMA)
    for fault in (
        "'a' must hold exactly one known aggregation",
        "'b' names the field 'nothing'",
        "'c': stats needs numbers",
        "option 'colour'",
        "size must be a number from 1 up",
        "order must be",
        "interval must be a number above 0",
        "give either fixed_interval",
        "'x' is not a number",
        "percents must be numbers from 0 to 100",
        "'tags' is list",
        "'j' is a metric and cannot hold",
        "No aggregation can be called 'count'",
    ):
        assert fault in str(caught.value), fault
    with pytest.raises(InvalidInputError, match="must be a mapping"):
        parse_spec({}, SCHEMA)
    with pytest.raises(InvalidInputError, match="used twice"):
        parse_spec(
            {"a": {"terms": {"field": "ok"}, "aggs": {"a": {"min": {"field": "n"}}}}}, SCHEMA
        )


def test_extended_stats_tell_the_spread() -> None:
    (found,) = aggregate({"s": {"extended_stats": {"field": "f"}}})
    floats = [v for v in values("f") if not math.isnan(v)]
    assert found["s.count"] == len(floats)
    assert found["s.variance"] == pytest.approx(statistics.pvariance(floats))
    assert found["s.std_deviation"] == pytest.approx(statistics.pstdev(floats))
    assert found["s.sum_of_squares"] == pytest.approx(sum(v * v for v in floats))
    (none,) = aggregate({"s": {"extended_stats": {"field": "f"}}}, [{**ROWS[0], "f": None}])
    assert (none["s.count"], none["s.variance"]) == (0, None)


def test_filters_count_the_rows_that_meet_a_condition() -> None:
    spec = {
        "which": {
            "filters": {
                "filters": {"small": "n < 0", "any": "n IS NOT NULL", "none": "n = 123456789"}
            },
            "aggs": {"top": {"max": {"field": "n"}}},
        }
    }
    found = aggregate(spec)
    numbers = values("n")
    small = [v for v in numbers if v < 0]
    assert [(r["which"], r["count"], r["top"]) for r in found] == [
        ("small", len(small), max(small)),
        ("any", len(numbers), max(numbers)),
        ("none", 0, None),
    ]
    (one,) = aggregate({"small": {"filter": {"where": "n < 0"}}})
    assert (one["small"], one["count"]) == ("small", len(small))
    wrong: list[dict[str, Any]] = [
        {"filter": {"where": "nothing > 5"}},
        {"filters": {"filters": {}}},
        {"filter": {"where": "TRUE"}},
    ]
    for entry in wrong:
        with pytest.raises(InvalidInputError, match="fault"):
            aggregate({"x": entry})


def test_histograms_reach_their_bounds_and_may_start_elsewhere() -> None:
    two = [
        {**ROWS[0], "n": 12, "day": dt.date(2024, 1, 3)},
        {**ROWS[0], "n": 31, "day": dt.date(2024, 1, 4)},
    ]
    spec: dict[str, Any] = {"field": "n", "interval": 10, "extended_bounds": {"min": -5, "max": 45}}
    assert [(r["h"], r["count"]) for r in aggregate({"h": {"histogram": spec}}, two)] == [
        (-10, 0),
        (0, 0),
        (10, 1),
        (20, 0),
        (30, 1),
        (40, 0),
    ]
    spec = {
        "field": "day",
        "calendar_interval": "day",
        "extended_bounds": {"min": "2024-01-02", "max": "2024-01-05"},
    }
    days = aggregate({"d": {"date_histogram": spec}}, two)
    assert [(r["d"].day, r["count"]) for r in days] == [(2, 0), (3, 1), (4, 1), (5, 0)]
    moments = [
        {**ROWS[0], "ts": dt.datetime(2024, 1, 3, hour, tzinfo=dt.UTC)} for hour in (1, 5, 6, 23)
    ]
    for interval in ({"fixed_interval": "1d"}, {"calendar_interval": "day"}):
        found = aggregate(
            {"d": {"date_histogram": {"field": "ts", "offset": "6h", **interval}}}, moments
        )
        assert [(r["d"].day, r["d"].hour, r["count"]) for r in found] == [(2, 6, 2), (3, 6, 2)]
    with pytest.raises(InvalidInputError, match="offset must be"):
        aggregate({"d": {"date_histogram": {"field": "ts", "offset": "x", "fixed_interval": "1d"}}})
    with pytest.raises(InvalidInputError, match="extended_bounds must be"):
        aggregate({"h": {"histogram": {"field": "n", "interval": 1, "extended_bounds": [1, 2]}}})


def test_terms_of_a_list_count_a_row_once_for_each_of_its_values() -> None:
    schema = pa.schema([("tags", pa.list_(pa.string())), ("n", pa.int64())])
    rows = [
        {"tags": ["a", "b", "a"], "n": 1},
        {"tags": ["b", None], "n": 5},
        {"tags": [], "n": 7},
        {"tags": None, "n": 9},
    ]
    tree = parse_spec(
        {"t": {"terms": {"field": "tags"}, "aggs": {"n": {"sum": {"field": "n"}}}}}, schema
    )
    halves = [
        aggregate_rows(pa.Table.from_pylist(part, schema), tree) for part in (rows[:1], rows[1:])
    ]
    found = finish(merged(halves), tree).to_pylist()
    assert [(r["t"], r["count"], r["n"]) for r in found] == [("b", 2, 6), ("a", 1, 1)]
    with pytest.raises(InvalidInputError, match="missing is not for"):
        parse_spec({"t": {"terms": {"field": "tags", "missing": "x"}}}, schema)


def test_metrics_of_values_none_of_which_is_a_number(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=pa.schema([("x", pa.float64())]))
    table.append(pa.table({"x": [math.nan, None]}))
    answer = table.aggregate(
        {"n": {"value_count": {"field": "x"}}, "mean": {"avg": {"field": "x"}}}
    ).to_pylist()
    assert [(row["n"], row["mean"]) for row in answer] == [(1, None)]


BIG = 1 << 63
NANS = np.array([0x7FF8 << 48, 0xFFF8 << 48, (0x7FF8 << 48) + 1], np.uint64).view(np.float64)
"""NaN of Python, of a division on x86, and one with a payload."""


def _numbers_of_all_kinds(path: Path) -> Table:
    table = Table.create(str(path), schema=pa.schema([("u", pa.uint64()), ("f", pa.float64())]))
    whole = pa.array([1, BIG - 1, BIG, BIG + 5, 2 * BIG - 1], pa.uint64())
    table.append(pa.table({"u": whole, "f": [1.0, 2.0, math.nan, None, math.inf]}))
    table.append(pa.table({"u": pa.array([BIG, None], pa.uint64()), "f": [math.nan, -math.inf]}))
    return table


def _pages(table: Table, *names: str) -> list[tuple[Any, ...]]:
    """The keys and counts of a composite aggregation, one page after another of one bucket each."""
    composite: dict[str, Any] = {
        "sources": [{name: {"terms": {"field": name}}} for name in names],
        "size": 1,
    }
    rows: list[tuple[Any, ...]] = []
    while page := table.aggregate({"by": {"composite": composite}}).to_pylist():
        rows += [(*row["by"].values(), row["count"]) for row in page]
        composite["after"] = page[-1]["by"]
        assert len(rows) < 20
    return rows


def test_pages_go_on_behind_large_whole_numbers(tmp_path: Path) -> None:
    pages = _pages(_numbers_of_all_kinds(tmp_path / "t"), "u")
    assert pages == [(1, 1), (BIG - 1, 1), (BIG, 2), (BIG + 5, 1), (2 * BIG - 1, 1)]


def test_pages_go_on_behind_nan_and_infinity(tmp_path: Path) -> None:
    table = _numbers_of_all_kinds(tmp_path / "t")
    assert list(map(repr, _pages(table, "f"))) == [
        "(-inf, 1)",
        "(1.0, 1)",
        "(2.0, 1)",
        "(inf, 1)",
        "(nan, 2)",
    ]
    both = [(repr(f), int(u), count) for f, u, count in _pages(table, "f", "u")]
    assert both == [("1.0", 1, 1), ("2.0", BIG - 1, 1), ("inf", 2 * BIG - 1, 1), ("nan", BIG, 2)]


def test_a_histogram_of_large_whole_numbers_fills_its_gaps(tmp_path: Path) -> None:
    table = _numbers_of_all_kinds(tmp_path / "t")
    rows = table.aggregate({"h": {"histogram": {"field": "u", "interval": 1 << 62}}}).to_pylist()
    assert [(row["h"], row["count"]) for row in rows[:3]] == [(0.0, 1), (2.0**62, 0), (2.0**63, 4)]


def test_nan_is_one_value_whatever_its_bits(tmp_path: Path) -> None:
    schema = pa.schema([("f", pa.float64()), ("many", pa.list_(pa.float64()))])
    table = Table.create(str(tmp_path / "t"), schema=schema)
    for some in (NANS, NANS[1:]):
        table.append(pa.table({"f": some, "many": [[value] for value in some]}, schema))
    for name in schema.names:
        inside = {"n": {"value_count": {"field": "f"}}}
        (row,) = table.aggregate({"by": {"terms": {"field": name}, "aggs": inside}}).to_pylist()
        assert (repr(row["by"]), row["count"], row["n"]) == ("nan", 5, 5)
        assert table.aggregate({"different": {"cardinality": {"field": name}}})[
            "different"
        ].to_pylist() == [1]


def test_nan_counts_as_a_value_and_is_measured_by_nothing(tmp_path: Path) -> None:
    table = Table.create(
        str(tmp_path / "t"), schema=pa.schema([("g", pa.string()), ("f", pa.float64())])
    )
    table.append(pa.table({"g": ["a", "a", "b"], "f": [1.0, math.nan, math.nan]}))
    table.append(pa.table({"g": ["a", "b", "a"], "f": [3.0, None, -math.nan]}))
    inside = {
        kind: {kind: {"field": "f"}}
        for kind in ("value_count", "stats", "min", "max", "sum", "avg")
    }
    rows = table.aggregate(
        {"g": {"terms": {"field": "g", "order": {"_key": "asc"}}, "aggs": inside}}
    ).to_pylist()
    assert [(row["count"], row["value_count"], row["stats.count"]) for row in rows] == [
        (4, 4, 2),
        (2, 1, 0),
    ]
    a, b = rows
    for part, value in {"min": 1.0, "max": 3.0, "sum": 4.0, "avg": 2.0}.items():
        assert (a[f"stats.{part}"], a[part]) == (value, value)
        assert (b[f"stats.{part}"], b[part]) == (None, None)


# Keys of several parts, hits, documents, lists, zones: over a table of three splits, against plain
# Python.

DOCUMENTS = pa.schema(
    [
        ("id", pa.int64()),
        ("level", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
        ("nums", pa.list_(pa.float64())),
        ("payload", pa.string()),
    ]
)


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Table:
    rng = random.Random(4)
    start = dt.datetime(2026, 3, 27, tzinfo=dt.UTC)
    rows = [
        {
            "id": number,
            "level": rng.choice(["INFO", "WARN", "ERROR", None]),
            "ts": start + dt.timedelta(minutes=rng.randrange(4 * 24 * 60)),
            "nums": rng.choice([None, [], [1.0, 1.0], [rng.randrange(30), 2.5], [rng.random()]]),
            "payload": rng.choice(
                [
                    None,
                    "no json",
                    json.dumps(
                        {
                            "user": {
                                "id": rng.randrange(4),
                                "tag": rng.choice(["a", "b", ["a", "c"], 7]),
                            }
                        }
                    ),
                ]
            ),
        }
        for number in range(300)
    ]
    options = {"indexing.typemap.payload": "json", "write.maxRowsPerSplit": 100}
    table = Table.create(
        str(tmp_path_factory.mktemp("documents") / "t"), schema=DOCUMENTS, options=options
    )
    table.append(pa.Table.from_pylist(rows, DOCUMENTS))
    return table


def stored(table: Table) -> list[Row]:
    rows: list[Row] = table.scan().read_all().to_pylist()
    return rows


def user(row: Row) -> Row:
    found: Row = (
        json.loads(row["payload"])["user"] if (row["payload"] or "").startswith("{") else {}
    )
    return found


def test_multi_terms_count_combinations(documents: Table) -> None:
    spec = {
        "pair": {
            "multi_terms": {"terms": [{"field": "level"}, {"field": "payload.user.id"}], "size": 5}
        }
    }
    found = [
        (row["pair"]["level"], row["pair"]["payload.user.id"], row["count"])
        for row in documents.aggregate(spec).to_pylist()
    ]
    counts = Counter(
        (r["level"], str(user(r)["id"])) for r in stored(documents) if r["level"] and user(r)
    )
    assert found == [
        (*key, n) for key, n in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:5]
    ]


def test_a_composite_is_read_page_by_page(documents: Table) -> None:
    sources = [
        {"day": {"date_histogram": {"field": "ts", "calendar_interval": "day"}}},
        {"level": {"terms": {"field": "level"}}},
    ]
    found: list[tuple[Any, ...]] = []
    after = None
    while True:
        options = {"sources": sources, "size": 4} | ({} if after is None else {"after": after})
        spec = {"part": {"composite": options, "aggs": {"top": {"max": {"field": "id"}}}}}
        page = documents.aggregate(spec).to_pylist()
        found += [
            (row["part"]["day"], row["part"]["level"], row["count"], row["top"]) for row in page
        ]
        if len(page) < 4:
            break
        after = page[-1]["part"]
    groups: dict[tuple[Any, str], list[int]] = {}
    for row in stored(documents):
        if row["level"]:
            day = row["ts"].replace(hour=0, minute=0, second=0)
            groups.setdefault((day, row["level"]), []).append(row["id"])
    assert found == [(*key, len(ids), max(ids)) for key, ids in sorted(groups.items())]


def test_top_hits_are_the_first_rows_of_a_bucket(documents: Table) -> None:
    hits = {"top_hits": {"sort": ["-ts", "id"], "columns": ["id", "ts"], "size": 2}}
    found = documents.aggregate(
        {"level": {"terms": {"field": "level"}, "aggs": {"newest": hits}}}
    ).to_pylist()
    for row in found:
        inside = [r for r in stored(documents) if r["level"] == row["level"]]
        inside.sort(key=lambda r: (-r["ts"].timestamp(), r["id"]))
        assert row["newest"] == [{"id": r["id"], "ts": r["ts"]} for r in inside[:2]]
    alone = documents.aggregate(
        {"newest": {"top_hits": {"sort": [{"ts": "desc"}], "columns": ["ts"], "size": 1}}}
    )
    assert alone.to_pylist()[0]["newest"] == [{"ts": max(r["ts"] for r in stored(documents))}]


def test_a_row_counts_for_each_of_its_values(documents: Table) -> None:
    rows, spec = stored(documents), {"tag": {"terms": {"field": "payload.user.tag"}}}
    tags = Counter(
        str(tag)
        for r in rows
        if user(r)
        for tag in (user(r)["tag"] if isinstance(user(r)["tag"], list) else [user(r)["tag"]])
    )
    assert {row["tag"]: row["count"] for row in documents.aggregate(spec).to_pylist()} == dict(tags)
    numbers = [n for r in rows for n in r["nums"] or []]
    measured = documents.aggregate(
        {"n": {"stats": {"field": "nums"}}, "u": {"avg": {"field": "payload.user.id"}}}
    ).to_pylist()[0]
    assert (measured["n.count"], measured["n.min"], measured["n.max"]) == (
        len(numbers),
        min(numbers),
        max(numbers),
    )
    assert measured["n.sum"] == pytest.approx(sum(numbers))
    ids = [user(r)["id"] for r in rows if user(r)]
    assert measured["u"] == pytest.approx(sum(ids) / len(ids))
    bars = documents.aggregate(
        {"bar": {"histogram": {"field": "nums", "interval": 5, "min_doc_count": 1}}}
    ).to_pylist()
    expected = Counter(key for r in rows for key in {n // 5 * 5 for n in r["nums"] or []})
    assert {row["bar"]: row["count"] for row in bars} == dict(expected)
    by_user = documents.aggregate(
        {"bar": {"histogram": {"field": "payload.user.id", "interval": 2}}}
    ).to_pylist()
    assert {row["bar"]: row["count"] for row in by_user} == dict(
        Counter(float(i // 2 * 2) for i in ids)
    )


@pytest.mark.parametrize("unit", ["hour", "day", "week", "month"])
def test_the_days_of_a_zone_are_those_of_its_clocks(documents: Table, unit: str) -> None:
    # In Berlin the 29th of March 2026 has 23 hours.
    zone = zoneinfo.ZoneInfo("Europe/Berlin")
    spec = {
        "bar": {
            "date_histogram": {
                "field": "ts",
                "calendar_interval": unit,
                "time_zone": "Europe/Berlin",
            }
        }
    }

    def start(moment: dt.datetime) -> dt.datetime:
        wall = moment.astimezone(zone).replace(tzinfo=None, minute=0, second=0)
        if unit == "hour":
            return moment.replace(minute=0, second=0)
        wall = wall.replace(hour=0)
        wall = (
            wall - dt.timedelta(days=wall.weekday())
            if unit == "week"
            else wall.replace(day=1)
            if unit == "month"
            else wall
        )
        return wall.replace(tzinfo=zone).astimezone(dt.UTC)

    found = {
        row["bar"].astimezone(dt.UTC): row["count"] for row in documents.aggregate(spec).to_pylist()
    }
    expected = Counter(start(row["ts"]) for row in stored(documents))
    assert {key: n for key, n in found.items() if n} == dict(expected)
    if unit == "day":
        steps = {b - a for a, b in itertools.pairwise(found)}
        assert steps == {dt.timedelta(hours=24), dt.timedelta(hours=23)}


def test_new_aggregations_refuse_what_makes_no_sense(documents: Table) -> None:
    faults: list[tuple[Row, str]] = [
        ({"a": {"top_hits": {"columns": ["id"]}}}, "needs a sort"),
        ({"a": {"top_hits": {"sort": "nothing desc"}}}, "'nothing', which does not exist"),
        ({"a": {"top_hits": {"sort": "nums"}}}, "cannot be sorted by 'nums'"),
        ({"a": {"top_hits": {"sort": "ts", "size": 0}}}, "size must be a number from 1 to 1000"),
        ({"a": {"multi_terms": {"terms": [{"field": "level"}]}}}, 'multi_terms needs "terms"'),
        (
            {"a": {"composite": {"sources": [{"b": {"range": {"field": "id"}}}]}}},
            "is no part of composite",
        ),
        (
            {
                "a": {
                    "composite": {"sources": [{"b": {"terms": {"field": "id"}}}], "after": {"c": 1}}
                }
            },
            "after must have a value",
        ),
        (
            {"a": {"composite": {"sources": [{"b": {"terms": {"field": "id", "order": "desc"}}}]}}},
            "ascending order",
        ),
        ({"a": {"terms": {"field": "level.word"}}}, "'level.word', which does not exist"),
        (
            {"a": {"date_histogram": {"field": "ts", "fixed_interval": "1d", "time_zone": "UTC"}}},
            "goes with calendar_interval",
        ),
        (
            {
                "a": {
                    "date_histogram": {
                        "field": "ts",
                        "calendar_interval": "day",
                        "time_zone": "Moon",
                    }
                }
            },
            "a name such as Europe",
        ),
    ]
    for spec, fault in faults:
        with pytest.raises(InvalidInputError) as caught:
            documents.aggregate(spec)
        assert fault in caught.value.message


def test_percentiles_of_very_many_values_are_near() -> None:
    rng = np.random.default_rng(3)
    values = rng.lognormal(size=400_000)
    schema = pa.schema([("f", pa.float64()), ("g", pa.string())])
    spec = parse_spec(
        {"p": {"percentiles": {"field": "f", "percents": [0, 0.1, 1, 50, 99, 99.9, 100]}}}, schema
    )
    groups = pa.array(["x"] * len(values))
    parts = [
        aggregate_rows(pa.table({"f": part, "g": groups[: len(part)]}), spec)
        for part in np.array_split(values, 3)
    ]
    total = merged(pickle.loads(pickle.dumps(parts)))
    assert max(table.num_rows for table in total.tables.values()) < 150_000
    row = finish(total, spec).to_pylist()[0]
    values.sort()
    for percent, tolerance in (
        (0, 0),
        (0.1, 0.0002),
        (1, 0.0005),
        (50, 0.002),
        (99, 0.0005),
        (99.9, 0.0002),
        (100, 0),
    ):
        rank = np.searchsorted(values, row[f"p.p{percent:g}"], side="left") / (len(values) - 1)
        assert abs(rank - percent / 100) <= tolerance + 1e-5, percent


def test_filters_and_documents_follow_renamed_columns(tmp_path: Path) -> None:
    table = Table.create(
        str(tmp_path / "t"), schema=DOCUMENTS, options={"indexing.typemap.payload": "json"}
    )
    table.append(
        pa.Table.from_pylist(
            [{"id": 1, "level": "A", "payload": '{"k": "v"}'}, {"id": 2, "level": "B"}], DOCUMENTS
        )
    )
    table.alter.rename_column("level", "lv")
    table.alter.rename_column("payload", "doc")
    assert table.aggregate({"f": {"filters": {"filters": {"a": "lv = 'A'"}}}}).to_pylist() == [
        {"f": "a", "count": 1}
    ]
    assert table.aggregate({"t": {"terms": {"field": "doc.k"}}}).to_pylist() == [
        {"t": "v", "count": 1}
    ]
    hits: Row = {"h": {"top_hits": {"sort": "id", "columns": ["lv"], "size": 1}}}
    assert table.aggregate(hits).to_pylist()[0]["h"] == [{"lv": "A"}]


@pytest.mark.parametrize(
    "spec",
    [
        {"histogram": {"field": "n", "interval": 10, "min_doc_count": 1}},
        {"histogram": {"field": "n", "interval": 2**70}},
        {"terms": {"field": "n", "missing": 2**80}},
        {"range": {"field": "n", "ranges": [{"to": 2**80}]}},
    ],
)
def test_numbers_that_do_not_fit_are_an_error_of_ours(tmp_path: Path, spec: dict[str, Any]) -> None:
    table = Table.create(str(tmp_path / "t"), schema=pa.schema([("n", pa.int64())]))
    table.append(pa.table({"n": [-(2**63), 5]}))
    with pytest.raises(InvalidInputError, match="too large"):
        table.aggregate({"k": spec})
