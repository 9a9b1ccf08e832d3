"""A merge as it is in life: hundreds of splits, a hundred queries before and after."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table
from indextables.cli.demo import OPTIONS, SCHEMA, log_lines

WORDS = (
    "timeout",
    "deadlock",
    "request",
    "session",
    "order",
    "queue",
    "disk",
    "cache",
    "payment",
    "refused",
)
LEVELS = ("DEBUG", "INFO", "WARN", "ERROR")
QUERIES = [
    *(f"message:{word}" for word in WORDS),
    *(f"message:{word} AND level:{level}" for word in WORDS for level in LEVELS),
    *(f"message:{one} OR message:{other}" for one, other in pairwise(WORDS)),
    *(f"NOT message:{word}" for word in WORDS),
    *(
        f"service:{service} AND message:{word}"
        for service in ("auth", "billing", "search")
        for word in WORDS[:7]
    ),
    *(
        'message:"slow query"',
        'message:"completed with"',
        "client_ip:10.0.0.0\\/8",
        "message:dead*",
        "host:host-01*",
    ),
    *(f"level:{level}" for level in LEVELS),
    "latency_ms:[10 TO 20]",
]


def all_rows(table: Table) -> pa.Table:
    found = table.scan(columns=["ts", "latency_ms", "message"]).read_all()
    return found.sort_by([("ts", "ascending"), ("message", "ascending")])


def check_merge(path: Path, *, splits: int, rows_per_split: int, groups: int) -> None:
    table = Table.create(str(path), schema=SCHEMA, options=OPTIONS)
    for batch in log_lines(splits * rows_per_split, days=1, batch_rows=rows_per_split):
        table.append(pa.Table.from_batches([batch]))
    assert len(QUERIES) == 100
    counts, rows = [table.count(query=query) for query in QUERIES], all_rows(table)
    best = [
        table.search(query, limit=20, order_by="ts", columns=["ts", "message"])
        for query in QUERIES[:10]
    ]
    assert sum(1 for count in counts if count) > 60, "most queries find something"
    sizes = table.files().column("size").to_pylist()
    target = sum(sizes) // groups + max(sizes)
    report = table.merge(target_size=target)
    assert report.merged_files == splits
    fresh = Table.open(table.path)
    assert [fresh.count(query=query) for query in QUERIES] == counts
    again = [
        fresh.search(query, limit=20, order_by="ts", columns=["ts", "message"])
        for query in QUERIES[:10]
    ]
    assert [found.column("ts") for found in again] == [found.column("ts") for found in best]
    assert all_rows(fresh).equals(rows)
    for file in fresh.files().to_pylist()[:-1]:
        assert 0.6 * target < file["size"] <= target, "sizes are near the target"
        assert set(dict(file["min_values"])) >= {
            "ts",
            "level",
            "service",
            "host",
            "status",
            "latency_ms",
            "message",
        }
        assert file["num_records"] > 0
        assert file["time_range_start"] < file["time_range_end"]
        assert '"nullCount"' in file["stats"]
    assert fresh.verify(full=True).findings == ()


def test_some_splits(tmp_path: Path) -> None:
    check_merge(tmp_path / "t", splits=16, rows_per_split=2_000, groups=2)


@pytest.mark.slow
def test_two_hundred_splits(tmp_path: Path) -> None:
    check_merge(tmp_path / "t", splits=200, rows_per_split=5_000, groups=4)
