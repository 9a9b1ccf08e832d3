"""The same file lists as a table of ours, of delta-rs and of pyiceberg."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from indextables import AddAction, Table

COLUMNS = [f"c{n}" for n in range(8)]
SCHEMA = pa.schema([("day", pa.string()), *((c, pa.int64()) for c in COLUMNS)])


def entry(n: int, *, partitions: int = 100) -> dict[str, Any]:
    """One file: its partition and its bounds follow from its number."""
    low = {c: n * 10 + i for i, c in enumerate(COLUMNS)}
    high = {c: v + 9 for c, v in low.items()}
    return {
        "path": f"day={n % partitions:04d}/splits/split-{n:032x}.split",
        "day": f"{n % partitions:04d}",
        "low": low,
        "high": high,
    }


def ours(n: int, *, partitions: int = 100) -> AddAction:
    """The file as our action."""
    e = entry(n, partitions=partitions)
    return AddAction(
        path=e["path"],
        partition_values={"day": e["day"]},
        size=1_000_000,
        modification_time=1,
        num_records=1_000,
        min_values={c: str(v) for c, v in e["low"].items()},
        max_values={c: str(v) for c, v in e["high"].items()},
    )


def create_ours(
    path: Path, commits: Sequence[Sequence[int]], *, options: dict[str, object] | None = None
) -> Table:
    """A table with these commits of these files."""
    table = Table.create(str(path), schema=SCHEMA, partition_columns=["day"], options=options)
    for numbers in commits:
        with table.transaction(check_splits=False) as tx:
            for n in numbers:
                tx.add(ours(n))
    return table


def delta_action(n: int) -> Any:
    """The file as delta-rs takes it."""
    from deltalake.transaction import AddAction as DeltaAdd

    e = entry(n)
    stats = json.dumps(
        {
            "numRecords": 1000,
            "minValues": e["low"],
            "maxValues": e["high"],
            "nullCount": dict.fromkeys(COLUMNS, 0),
        }
    )
    return DeltaAdd(
        e["path"].replace(".split", ".parquet"), 1_000_000, {"day": e["day"]}, 1, True, stats
    )


def create_delta(path: Path, commits: Sequence[Sequence[int]]) -> None:
    """The Delta table, its log written as delta-rs writes it."""
    from deltalake import Schema
    from deltalake.transaction import create_table_with_add_actions

    create_table_with_add_actions(
        str(path),
        Schema.from_arrow(SCHEMA),
        [delta_action(n) for n in commits[0]],
        partition_by=["day"],
    )
    log = path / "_delta_log"
    for version, numbers in enumerate(commits[1:], 1):
        lines = [json.dumps({"commitInfo": {"timestamp": version, "operation": "WRITE"}})]
        for n in numbers:
            a = delta_action(n)
            add = {
                "path": a.path,
                "partitionValues": a.partition_values,
                "size": a.size,
                "modificationTime": 1,
                "dataChange": True,
                "stats": a.stats,
            }
            lines.append(json.dumps({"add": add}))
        (log / f"{version:020d}.json").write_text("\n".join(lines) + "\n")


def create_iceberg(path: Path, files: int) -> Any:
    """An Iceberg table with the files in a few commits, in an SQLite catalog."""
    from pyiceberg.catalog.sql import SqlCatalog

    path.mkdir(parents=True)
    catalog = SqlCatalog("bench", uri=f"sqlite:///{path}/catalog.db", warehouse=f"file://{path}")
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", schema=SCHEMA)
    step = 25_000
    for start in range(0, files, step):
        append_iceberg(table, range(start, min(files, start + step)))
    return table


def append_iceberg(table: Any, numbers: Sequence[int]) -> None:
    """One Iceberg commit of data files."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    with table.transaction() as tx, tx.update_snapshot().fast_append() as update:
        for n in numbers:
            update.append_data_file(
                DataFile.from_args(
                    content=DataFileContent.DATA,
                    file_path=f"{table.location()}/data/{uuid.UUID(int=n)}.parquet",
                    file_format=FileFormat.PARQUET,
                    partition=Record(),
                    record_count=1_000,
                    file_size_in_bytes=1_000_000,
                )
            )
