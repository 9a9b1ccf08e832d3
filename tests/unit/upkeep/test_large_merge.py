"""A merge as it is in life: hundreds of splits, a hundred queries before and after."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table
from indextables.cli.log_lines import OPTIONS, SCHEMA, log_lines

WORDS = ("timeout", "deadlock", "request", "session", "order", "queue", "disk", "cache", "payment", "refused")
LEVELS = ("DEBUG", "INFO", "WARN", "ERROR")
QUERIES = [
    *(f"message:{word}" for word in WORDS),
    *(f"message:{word} AND level:{level}" for word in WORDS for level in LEVELS),
    *(f"message:{one} OR message:{other}" for one, other in pairwise(WORDS)),
    *(f"NOT message:{word}" for word in WORDS),
    *(f"service:{service} AND message:{word}" for service in ("auth", "billing", "search") for word in WORDS[:7]),
    *('message:"slow query"', 'message:"completed with"', "client_ip:10.0.0.0\\/8", "message:dead*", "host:host-01*"),
    *(f"level:{level}" for level in LEVELS),
    "latency_ms:[10 TO 20]",
]


@pytest.mark.slow
def test_two_hundred_splits(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, options=OPTIONS)
    for batch in log_lines(1_000_000, days=1, batch_rows=5_000):
        table.append(pa.Table.from_batches([batch]))
    assert len(QUERIES) == 100
    before = [table.count(query=query) for query in QUERIES]
    rows = (
        table.scan(columns=["ts", "latency_ms", "message"])
        .read_all()
        .sort_by([("ts", "ascending"), ("message", "ascending")])
    )
    target = sum(table.files().column("size").to_pylist()) // 4
    report = table.merge(target_size=target)
    assert report.merged_files == 200
    fresh = Table.open(table.path)
    assert [fresh.count(query=query) for query in QUERIES] == before
    again = (
        fresh.scan(columns=["ts", "latency_ms", "message"])
        .read_all()
        .sort_by([("ts", "ascending"), ("message", "ascending")])
    )
    assert again.equals(rows)
    for file in fresh.files().to_pylist()[:-1]:
        assert 0.6 * target < file["size"] <= target, "sizes are near the target"
        assert set(dict(file["min_values"])) >= {"ts", "level", "service", "host", "status", "latency_ms", "message"}
        assert file["num_records"] > 0
        assert file["time_range_start"] < file["time_range_end"]
        assert '"nullCount"' in file["stats"]
    assert fresh.verify(full=True).findings == ()
