"""Looking at splits instead of their rows: what their bytes are spent on, and fetching their indexes ahead of a search."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from indextables.errors import InvalidInputError
from indextables.model.report import Report
from indextables.scan.task import ScanTask
from indextables.splits.format.source import open_source
from indextables.splits.read.table_split import SplitEntry
from indextables.splits.write.describe import component_sizes

COMPONENT_SCHEMA = pa.schema(
    [
        pa.field("split_path", pa.string(), nullable=False),
        pa.field("partition_values", pa.string()),
        pa.field("component", pa.string(), nullable=False),
        pa.field("field", pa.string()),
        pa.field("size_bytes", pa.int64(), nullable=False),
    ]
)


class Prewarmed(Report, frozen=True):
    """What was fetched into the local cache."""

    splits: int
    bytes: int


def sizes_of_components(task: ScanTask) -> pa.Table:
    """The components of every split of a plan, a row each; partition values are JSON."""

    def look(entry: SplitEntry) -> list[tuple[str, str, str, str | None, int]]:
        source = open_source(task.store, entry.path, size=entry.size)
        values = msgspec.json.encode(entry.partition_values).decode()
        components = component_sizes(source, footer_start=entry.footer_start)
        names = task.plan.names
        return [
            (
                entry.path,
                values,
                size.component,
                None if size.field is None else names.shown(size.field),
                size.size_bytes,
            )
            for size in components
        ]

    rows = [dict(zip(COMPONENT_SCHEMA.names, row, strict=True)) for rows in task.each(look) for row in rows]
    return pa.Table.from_pylist(rows, schema=COMPONENT_SCHEMA)


def prewarm(task: ScanTask, columns: Sequence[str]) -> Prewarmed:
    """Fetch the indexes of these columns (of all, where none is named) of every split of a plan into the local cache.

    A split without an index has nothing to fetch; a column that none of the splits has indexed is an error.
    """

    def fetch(entry: SplitEntry) -> tuple[set[str], int]:
        split = task.open_alone(entry)
        fields = {column.name: column.field for column in split.mapping.indexed} if split.indexed else {}
        indexed = [name for name in columns or fields if name in fields]
        if indexed:
            with split.open_index([fields[name] for name in indexed], positions=True, norms=True):
                pass  # it is fetched by opening
        return set(indexed), split.stats.bytes

    results = list(task.each(fetch))
    missing = set(columns) - {name for names, _ in results for name in names} if results else set()
    if missing:
        raise InvalidInputError(
            f"No split of {task.store.url} has an index of {', '.join(map(repr, sorted(missing)))}.",
            hint="Name columns that are indexed, or leave ON FIELDS out for all of them.",
            columns=sorted(missing),
        )
    return Prewarmed(sum(bool(names) for names, _ in results), sum(count for _, count in results))
