"""How two versions of a table differ: by the log alone, no row is read."""

from __future__ import annotations

from typing import Any

from indextables.model.report import Report
from indextables.table import Table


class Difference(Report, frozen=True):
    """What came and went from one version to another. A merge removes and adds splits but changes no row."""

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
    columns: tuple[dict[str, Any], ...]
    settings: tuple[dict[str, Any], ...]


def difference(older: Table, newer: Table) -> Difference:
    """What it takes to come from one version to another."""
    before, after = _splits(older), _splits(newer)
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
        columns=_changed("column", _types(older), _types(newer)),
        settings=_changed("key", dict(older.metadata.configuration or {}), dict(newer.metadata.configuration or {})),
    )


def _splits(table: Table) -> dict[str, dict[str, Any]]:
    files = table.files().select(["path", "num_records", "size"])
    return {
        path: {"path": path, "rows": rows, "size_bytes": size}
        for path, rows, size in zip(*(column.to_pylist() for column in files.columns), strict=True)
    }


def _types(table: Table) -> dict[str, str]:
    return {f.name: f"{f.type}{'' if f.nullable else ' not null'}" for f in table.schema}


def _changed(what: str, before: dict[str, str], after: dict[str, str]) -> tuple[dict[str, Any], ...]:
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return tuple({what: name, "before": before.get(name), "after": after.get(name)} for name in names)
