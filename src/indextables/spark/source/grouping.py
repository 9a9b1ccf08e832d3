"""Splits into tasks: enough of them for each task to be worth starting, few enough for all cores to have work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from indextables.splits.table_split import SplitEntry

SCAN_BYTES = 128 << 20
"""What one task scans, as Spark itself cuts files."""
SEARCH_BYTES = 1 << 30
"""What one task searches: of a split that is searched, only a small part is read."""


def grouped(splits: Sequence[SplitEntry], *, per_task: int, searching: bool) -> Iterator[tuple[SplitEntry, ...]]:
    """The splits of each task, in order. `per_task` 0 goes by size."""
    if per_task:
        for start in range(0, len(splits), per_task):
            yield tuple(splits[start : start + per_task])
        return
    most = SEARCH_BYTES if searching else SCAN_BYTES
    waiting: list[SplitEntry] = []
    size = 0
    for entry in splits:
        if waiting and size + entry.size > most:
            yield tuple(waiting)
            waiting, size = [], 0
        waiting.append(entry)
        size += entry.size
    if waiting:
        yield tuple(waiting)
