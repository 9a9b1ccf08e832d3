"""Small tables with real rows, for tests of what happens to rows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from indextables import Table

ROWS = pa.schema(
    [("id", pa.int64()), ("day", pa.int32()), ("level", pa.string()), ("message", pa.string())]
)
WORDS = ("disk", "full", "timeout", "login", "failed", "retry", "host", "cache")
TEXT = {"indexing.typemap.message": "text"}


def rows(ids: Iterable[int], *, day: int | None = None) -> pa.Table:
    """A row per id; what it says follows from the id."""
    listed = list(ids)
    return pa.table(
        {
            "id": listed,
            "day": pa.array([i % 3 if day is None else day for i in listed], pa.int32()),
            "level": [("INFO", "WARN", "ERROR")[i % 3] for i in listed],
            "message": [f"{WORDS[i % 8]} {WORDS[i // 8 % 8]} n{i}" for i in listed],
        },
        schema=ROWS,
    )


def table_of(
    path: Path | str,
    *,
    appends: int = 0,
    each: int = 10,
    partitioned: bool = False,
    options: dict[str, object] | None = None,
) -> Table:
    """A table of some appends of consecutive ids."""
    columns = ["day"] if partitioned else []
    table = Table.create(
        str(path), schema=ROWS, partition_columns=columns, options={**TEXT, **(options or {})}
    )
    for n in range(appends):
        table.append(rows(range(n * each, (n + 1) * each)))
    return table


def ids(table: Table, *, where: str | None = None) -> list[int]:
    """The ids of a table's rows, sorted; a row that stands twice is there twice."""
    found: list[int] = table.scan(where=where, columns=["id"]).read_all().column("id").to_pylist()
    return sorted(found)
