"""What a table is at a version, and how two versions of it differ, as reports. By the log alone: no
row is read.
"""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc
from msgspec.structs import asdict

from indextables.inspect.figures import column_figures
from indextables.model.report import Report
from indextables.table.table import Table


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
    tags: tuple[dict[str, Any], ...] = ()
    """Versions that have a name."""
    clustering: tuple[dict[str, Any], ...] = ()
    """How well splits are separated, by the columns that merges sort by, or by every column with
    bounds.
    """


def describe_table(table: Table) -> Description:
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
        columns=tuple(asdict(column) for column in column_figures(table.inspect)),
        settings=tuple({"key": k, "value": v} for k, v in table.settings.given().items()),
        tags=tuple({"tag": name, "version": version} for name, version in table.tags().items()),
        clustering=tuple(table.inspect.clustering().to_pylist()) if files.num_rows > 1 else (),
    )


class Difference(Report, frozen=True):
    """What came and went from one version to another. A merge removes and adds splits but changes
    no row.
    """

    path: str
    from_version: int
    to_version: int
    rows_before: int
    rows_after: int
    splits_before: int
    splits_after: int
    size_bytes_before: int
    size_bytes_after: int
    added: tuple[dict[str, Any], ...]
    removed: tuple[dict[str, Any], ...]
    masked: tuple[dict[str, Any], ...]
    """Splits that both versions have, of which other rows are deleted."""
    columns: tuple[dict[str, Any], ...]
    settings: tuple[dict[str, Any], ...]


def difference(older: Table, newer: Table) -> Difference:
    """What it takes to come from one version to another."""
    before, after = _splits(older), _splits(newer)
    vectors_before, vectors_after = _vectors(older), _vectors(newer)
    return Difference(
        path=newer.path,
        from_version=older.version,
        to_version=newer.version,
        rows_before=older.count(),
        rows_after=newer.count(),
        splits_before=len(before),
        splits_after=len(after),
        size_bytes_before=sum(row["size_bytes"] for row in before.values()),
        size_bytes_after=sum(row["size_bytes"] for row in after.values()),
        added=tuple(row for path, row in after.items() if path not in before),
        removed=tuple(row for path, row in before.items() if path not in after),
        masked=tuple(
            {"path": path, "rows_before": before[path]["rows"], "rows_after": row["rows"]}
            for path, row in after.items()
            if path in before and vectors_after[path] != vectors_before[path]
        ),
        columns=_list_changes("column", _types(older), _types(newer)),
        settings=_list_changes(
            "key",
            dict(older.metadata.configuration or {}),
            dict(newer.metadata.configuration or {}),
        ),
    )


def _splits(table: Table) -> dict[str, dict[str, Any]]:
    files = table.files().select(["path", "num_records", "size"])
    return {
        path: {"path": path, "rows": rows, "size_bytes": size}
        for path, rows, size in zip(*(column.to_pylist() for column in files.columns), strict=True)
    }


def _vectors(table: Table) -> dict[str, str | None]:
    files = table.files()
    return dict(
        zip(
            files.column("path").to_pylist(),
            files.column("deletion_vector").to_pylist(),
            strict=True,
        )
    )


def _types(table: Table) -> dict[str, str]:
    return {f.name: f"{f.type}{'' if f.nullable else ' not null'}" for f in table.schema}


def _list_changes(
    what: str, before: dict[str, str], after: dict[str, str]
) -> tuple[dict[str, Any], ...]:
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return tuple(
        {what: name, "before": before.get(name), "after": after.get(name)} for name in names
    )
