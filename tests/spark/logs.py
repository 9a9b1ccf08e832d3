"""A small table of log lines, written without Spark, and the same rows as plain Parquet."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from indextables import Table

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.date32()),
        ("level", pa.string()),
        ("message", pa.string()),
        ("ms", pa.float64()),
        ("at", pa.timestamp("us", tz="UTC")),
    ]
)
OPTIONS = {
    "indexing.typemap.message": "text",
    "retention.column": "at",
    "retention.period": "36500 days",
}
WORDS = ["timeout", "gateway", "disk", "login", "payment", "retry", "cache", "zürich", "用户"]
LEVELS = ["ERROR", "WARN", "INFO", None]


@dataclass(frozen=True)
class Logs:
    """Where the table is, where its Parquet twin is, and the rows of both."""

    path: str
    parquet: str
    rows: pa.Table


def log_rows(count: int, *, start: int = 0, seed: int = 1) -> pa.Table:
    """Random log lines with nulls, NaN and several partitions."""
    rng = random.Random(seed * 1_000_003 + start)
    ids = range(start, start + count)
    first = dt.datetime(2024, 3, 9, 22, tzinfo=dt.UTC)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "day": [dt.date(2024, 3, 8 + i % 4) if i % 11 else None for i in ids],
            "level": [rng.choice(LEVELS) for _ in ids],
            "message": [
                " ".join(rng.choices(WORDS, k=4)) if rng.random() > 0.05 else None for _ in ids
            ],
            "ms": [
                rng.choice([float("nan"), None, rng.random() * 100, -0.0, float("inf")])
                for _ in ids
            ],
            "at": [first + dt.timedelta(minutes=7 * i) for i in ids],
        },
        schema=SCHEMA,
    )


def make_logs(folder: Path, *, commits: int = 3, rows: int = 200) -> Logs:
    """A table of several commits, partitioned by day."""
    path = folder / "logs"
    table = Table.create(str(path), schema=SCHEMA, partition_columns=["day"], options=OPTIONS)
    parts = [log_rows(rows, start=n * rows) for n in range(commits)]
    for part in parts:
        table.append(part)
    everything = pa.concat_tables(parts)
    # Spark itself loses rows where a float column has statistics and holds NaN, or has a dictionary
    # and holds -0.0.
    safe = [name for name in SCHEMA.names if name != "ms"]
    pq.write_table(everything, folder / "rows.parquet", write_statistics=safe, use_dictionary=safe)
    return Logs(str(path), str(folder / "rows.parquet"), everything)
