"""What a table is, in one report; and what its partitions hold."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import asdict

from indextables.model.report import Report
from indextables.table import Table

PARTITIONS = pa.schema(
    [
        pa.field("partition", pa.map_(pa.string(), pa.string())),
        pa.field("splits", pa.int64()),
        pa.field("rows", pa.int64()),
        pa.field("size_bytes", pa.int64()),
    ]
)


class Description(Report, frozen=True):
    """A table at a version."""

    path: str
    version: int
    id: str
    name: str | None
    description: str | None
    rows: int
    splits: int
    size_bytes: int
    partition_columns: str
    protocol: str
    columns: tuple[dict[str, Any], ...]
    settings: tuple[dict[str, Any], ...]


def described(table: Table) -> Description:
    """What a table is. The rows are counted from the log alone."""
    files = table.files()
    return Description(
        path=table.path,
        version=table.version,
        id=table.metadata.id,
        name=table.metadata.name,
        description=table.metadata.description,
        rows=table.count(),
        splits=files.num_rows,
        size_bytes=pc.sum(files.column("size")).as_py() or 0,
        partition_columns=", ".join(table.partition_columns),
        protocol=f"reader {table.protocol.min_reader_version}, writer {table.protocol.min_writer_version}",
        columns=tuple(asdict(column) for column in table.column_figures()),
        settings=tuple({"key": k, "value": v} for k, v in table.settings.given().items()),
    )


def partitions_of(table: Table) -> pa.Table:
    """Each partition with its splits, rows and bytes; a table that is not partitioned is one partition."""
    names = table.partition_columns
    return pa.Table.from_pylist(
        [
            {"partition": list(zip(names, figure.values, strict=True)), "splits": figure.splits}
            | {"rows": figure.rows, "size_bytes": figure.size_bytes}
            for figure in table.partition_figures()
        ],
        schema=PARTITIONS,
    )
