"""A query's words about partitions, numbers and times keep splits closed that cannot match."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table

DAYS = [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]

MEANINGS: dict[str, Callable[[int], bool]] = {
    "timeout": lambda n: n % 2 == 1,
    "timeout AND day:2026-01-02": lambda n: n % 4 == 3,
    "timeout AND id:>=100": lambda n: n % 2 == 1 and n >= 100,
    "day:2026-01-02 AND id:>=100": lambda n: n % 4 > 1 and n >= 100,
    "id:5 OR id:7": lambda n: n in (5, 7),
    "id:5 OR timeout": lambda n: n % 2 == 1,
    "-id:>=0": lambda _: False,
    "level:ERROR AND id:[20 TO 30]": lambda n: n % 3 == 0 and 20 <= n <= 30,
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    schema = pa.schema(
        [("id", pa.int64()), ("message", pa.string()), ("level", pa.string()), ("day", pa.date32())]
    )
    options = {"indexing.typemap.message": "text"}
    made = Table.create(
        str(tmp_path / "t"), schema=schema, partition_columns=["day"], options=options
    )
    for start in (0, 100):
        numbers = range(start, start + 100)
        made.append(
            pa.table(
                {
                    "id": numbers,
                    "message": [f"timeout {n}" if n % 2 else f"login {n}" for n in numbers],
                    "level": ["ERROR" if n % 3 == 0 else None for n in numbers],
                    "day": pa.array([DAYS[n % 4 // 2] for n in numbers]),
                },
                schema=schema,
            )
        )
    return made


@pytest.mark.parametrize(
    ("query", "opened", "by_partition", "by_statistics"),
    [
        ("timeout", 4, 0, 0),
        ("timeout AND day:2026-01-02", 2, 2, 0),
        ("timeout AND id:>=100", 2, 0, 2),
        ("day:2026-01-02 AND id:>=100", 1, 2, 1),
        ("id:5 OR id:7", 2, 0, 2),
        ("id:5 OR timeout", 4, 0, 0),
        ("-id:>=0", 4, 0, 0),
        ("level:ERROR AND id:[20 TO 30]", 2, 0, 2),
    ],
)
def test_splits_that_a_query_rules_out_stay_closed(
    table: Table, query: str, opened: int, by_partition: int, by_statistics: int
) -> None:
    report = table.explain(query=query)
    assert (
        report.splits_opened,
        report.splits_pruned_by_partition,
        report.splits_skipped_by_statistics,
    ) == (
        opened,
        by_partition,
        by_statistics,
    )
    found = sorted(table.search(query, columns=["id"])["id"].to_pylist())
    assert found == [n for n in range(200) if MEANINGS[query](n)]
    assert table.count(query=query) == report.rows_matched == len(found)


def test_explain_says_who_answered(table: Table) -> None:
    assert {s.answered_by for s in table.explain(query="timeout").splits} == {"index"}
    assert {s.answered_by for s in table.explain(query="timeout AND id:<150").splits} == {
        "index, confirmed by rows"
    }
    assert {s.answered_by for s in table.explain(query="id:<50").splits} == {"rows"}


def test_best_rows_and_aggregates_through_the_table(table: Table) -> None:
    best = table.search("timeout AND 7", limit=3, columns=["id"], snippet="message")
    assert best["id"].to_pylist() == [7]
    assert best["_snippet"].to_pylist() == ["<b>timeout</b> <b>7</b>"]
    assert best["_score"][0].as_py() > 0
    spec = {"by_day": {"terms": {"field": "day"}, "aggs": {"id": {"stats": {"field": "id"}}}}}
    rows = table.aggregate(spec, query="timeout").to_pylist()
    assert [(r["by_day"], r["count"], r["id.max"]) for r in rows] == [
        (DAYS[0], 50, 197),
        (DAYS[1], 50, 199),
    ]
