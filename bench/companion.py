"""A companion of a Delta table next to a table with the same rows, and DuckDB over the same files.

CPU time of this process, median of some runs. `make bench-companion ROWS=1000000`.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from indextables import Table

ROWS = int(os.environ.get("ROWS", "400000"))
FILES = 8
REPEAT = int(os.environ.get("REPEAT", "7"))
COLUMNS = ["id", "message"]


def rows(number: int, rng: random.Random) -> pa.Table:
    """The rows of one file: eight words of a log line, one of 120 with `timeout`, and a hex id."""
    words = [f"w{n:04}" for n in range(2000)]
    count = ROWS // FILES
    messages = []
    for _ in range(count):
        text = " ".join(rng.choices(words, k=7))
        mark = " timeout" if rng.random() < 0.008 else ""
        messages.append(f"{text}{mark} {rng.getrandbits(64):016x}")
    return pa.table(
        {
            "id": pa.array(range(number * count, (number + 1) * count), pa.int64()),
            "level": [rng.choice(["INFO", "WARN", "ERROR"]) for _ in range(count)],
            "service": [f"s{rng.randint(0, 40)}" for _ in range(count)],
            "status": pa.array([rng.randint(200, 599) for _ in range(count)], pa.int64()),
            "message": messages,
        }
    )


def cpu_ms(run: Callable[[], Any]) -> tuple[float, Any]:
    """Median CPU time of a call in milliseconds, and its result."""
    times, result = [], None
    for _ in range(REPEAT):
        began = time.process_time()
        result = run()
        times.append(time.process_time() - began)
    return round(sorted(times)[len(times) // 2] * 1000, 1), result


def size(folder: str, suffix: str) -> int:
    """Bytes of the files of a kind."""
    return sum(path.stat().st_size for path in Path(folder).rglob(f"*{suffix}"))


def measure(folder: str) -> None:
    """Print bytes, build CPU and the CPU of questions."""
    rng = random.Random(1)
    source, index, own = (f"{folder}/{name}" for name in ("source", "index", "own"))
    parts = [rows(number, rng) for number in range(FILES)]
    for part in parts:
        write_deltalake(source, part, mode="append")
    began = time.process_time()
    options = {"companion.targetInputSize": 1}
    companion = Table.companion(index, source=source, text=["message"], options=options)
    companion.sync()
    middle = time.process_time()
    table = Table.create(own, schema=parts[0].schema, text=["message"])
    for part in parts:
        table.append(part)
    ended = time.process_time()
    sizes = size(source, ".parquet"), size(index, ".split"), size(own, ".split")
    print(f"rows {ROWS}; bytes of source, companion, table: {sizes}")
    print(
        f"build, CPU us per row: companion {(middle - began) / ROWS * 1e6:.1f}, "
        f"table {(ended - middle) / ROWS * 1e6:.1f}"
    )
    session = duckdb.connect()
    session.execute("SET threads = 1")
    files = f"read_parquet('{source}/*.parquet') WHERE message LIKE '%timeout%'"
    questions: dict[str, Callable[[], Any]] = {
        "count, companion": lambda: companion.count(query="timeout"),
        "count, opened at the newest version": lambda: Table.open(index).count(query="timeout"),
        "count, table": lambda: table.count(query="timeout"),
        "count, DuckDB": lambda: session.sql(f"SELECT count(*) FROM {files}").fetchall()[0][0],
        "top 10, companion": lambda: len(companion.search("timeout", limit=10, columns=COLUMNS)),
        "top 10, table": lambda: len(table.search("timeout", limit=10, columns=COLUMNS)),
        "any 10, DuckDB": lambda: len(
            session.sql(f"SELECT id, message FROM {files} LIMIT 10").fetchall()
        ),
        "all hits, companion": lambda: len(companion.search("timeout", columns=COLUMNS)),
        "all hits, table": lambda: len(table.search("timeout", columns=COLUMNS)),
        "all hits, DuckDB": lambda: len(session.sql(f"SELECT id, message FROM {files}").fetchall()),
        "sync with nothing to do": lambda: companion.sync().status,
        "the source's log alone": lambda: DeltaTable(source).version(),
    }
    for name, ask in questions.items():
        print(f"{name:38} {cpu_ms(ask)[0]:8} ms")
    write_deltalake(source, parts[0], mode="append")
    behind = companion.refresh()
    print(f"{'count, one file behind':38} {cpu_ms(lambda: behind.count(query='timeout'))[0]:8} ms")


if __name__ == "__main__":
    scratch = tempfile.mkdtemp(prefix="bench-companion-")
    try:
        measure(scratch)
    finally:
        shutil.rmtree(scratch)
