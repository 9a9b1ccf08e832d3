"""Groups that are counted on arrays in memory are those of the decoded rows."""

from __future__ import annotations

import datetime
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table
from indextables.config.splits import SplitCacheSettings
from indextables.query.aggregate import state
from indextables.splits.read.cache import SplitCache

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("level", pa.string()),
        ("host", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
        ("at", pa.timestamp("us")),
        ("message", pa.string()),
    ]
)
NESTED = {
    "levels": {
        "terms": {"field": "level"},
        "aggs": {
            "days": {
                "date_histogram": {"field": "ts", "calendar_interval": "day", "min_doc_count": 1},
                "aggs": {"hosts": {"terms": {"field": "host", "size": 5}}},
            }
        },
    }
}
SPECS: dict[str, dict[str, Any]] = {
    "terms": {"levels": {"terms": {"field": "level"}}},
    "two": {"levels": {"terms": {"field": "level"}}, "hosts": {"terms": {"field": "host"}}},
    "hours": {"hours": {"date_histogram": {"field": "ts", "fixed_interval": "1h"}}},
    "offset": {
        "hours": {"date_histogram": {"field": "at", "fixed_interval": "7m", "offset": "90s"}}
    },
    "minutes": {"m": {"date_histogram": {"field": "at", "calendar_interval": "minute"}}},
    "nested": NESTED,
}


def _rows(count: int, seed: int) -> pa.Table:
    chance = random.Random(seed)
    start = datetime.datetime(1969, 12, 30, tzinfo=datetime.UTC)

    def moment() -> datetime.datetime | None:
        if chance.random() < 0.1:
            return None
        return start + datetime.timedelta(seconds=chance.randrange(400_000))

    levels = [chance.choice(["INFO", "WARN", "ÄRGER", "", None]) for _ in range(count)]
    hosts = [f"host-{chance.randrange(100)}" for _ in range(count)]
    times, naive = [moment() for _ in range(count)], [moment() for _ in range(count)]
    return pa.table(
        {
            "id": range(count),
            "level": levels,
            "host": hosts,
            "ts": times,
            "at": [None if time is None else time.replace(tzinfo=None) for time in naive],
            "message": [chance.choice(["disk full", "disk", "login"]) for _ in range(count)],
        },
        schema=SCHEMA,
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Two splits whose dictionaries differ; one has deleted rows."""
    made = Table.create(
        str(tmp_path_factory.mktemp("counts") / "t"),
        schema=SCHEMA,
        options={"indexing.typemap.message": "text"},
    )
    made.append(_rows(3_000, 1))
    made.append(_rows(500, 2))
    made.delete(where="id >= 100 AND id < 400")
    return made


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("query", [None, "message:login", "message:full AND id:7"])
def test_repeated_aggregations_agree_with_the_first(
    table: Table, monkeypatch: pytest.MonkeyPatch, name: str, query: str | None
) -> None:
    spec = SPECS[name]
    SplitCache.default().pages.clear()
    with monkeypatch.context() as patched:
        patched.setattr(state, "count_rows", lambda *_: None)
        expected = table.aggregate(spec, query=query).to_pylist()
    assert [table.aggregate(spec, query=query).to_pylist() for _ in range(3)] == [expected] * 3


def test_a_repeated_aggregation_decodes_no_rows(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    SplitCache.default().pages.clear()
    expected = table.aggregate(NESTED).to_pylist()
    assert table.aggregate(NESTED).to_pylist() == expected

    def refuse(*_: object) -> None:
        raise AssertionError("rows are decoded")

    monkeypatch.setattr(state, "aggregate_rows", refuse)
    assert table.aggregate(NESTED).to_pylist() == expected


def test_arrays_take_no_more_memory_than_the_cache_may(tmp_path: Path) -> None:
    options: dict[str, object] = {"cache.memory.maxSize": 1_000}
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, options=options)
    table.append(_rows(500, 3))
    small = Table.open(table.path, options=options)
    answers = [small.aggregate(SPECS["terms"]).to_pylist() for _ in range(3)]
    assert answers == [answers[0]] * 3
    kept = SplitCache.of(small.handle.search_settings.group(SplitCacheSettings)).pages
    assert kept.max_bytes == 1_000
    assert not [key for key in kept._values if isinstance(key, tuple) and "array" in key]
