"""Clustering: which splits a sorted merge combines, and how well the splits of a table are
separated.

Splits are ordered by their bounds of the first sort column. Overlapping ones are merged and cut
again; a split that overlaps with none and is large enough stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import asdict

from indextables.errors import InvalidInputError
from indextables.model.column_ranges import ColumnRange, FileRanges
from indextables.model.predicate.tree import Column
from indextables.model.schema import find_column
from indextables.splits.write.merge import check_sortable

FAN = 10
"""Number of target sizes sorted at once: a group produces this many adjacent splits."""
Extent = tuple[Any, Any] | None
"""Minimum and maximum of a column in a split; None if unknown."""


def sort_columns(schema: pa.Schema, order_by: str | Sequence[str]) -> tuple[str, ...]:
    """Return the sort columns in the schema's spelling."""
    columns: list[str] = []
    for text in names_of(order_by):
        name, _, direction = text.rpartition(" ")
        if name and direction.lower() == "desc" and text not in schema.names:
            raise InvalidInputError(
                f"A sorted merge sorts upwards; {text!r} cannot be served.",
                hint=f"Give {name!r}: splits that are sorted upwards are as good for the newest as for the oldest.",
                order_by=text,
            )
        column = find_column(schema, text)
        check_sortable(schema, column)
        if column in columns:
            raise InvalidInputError(f"Column {column!r} is named twice to sort by.", column=column)
        columns.append(column)
    return tuple(columns)


def names_of(order_by: str | Sequence[str]) -> list[str]:
    """Return the sort columns as a list. A trailing `asc` has no effect."""
    given = [order_by] if isinstance(order_by, str) else list(order_by)
    return [str(text).strip().removesuffix(" asc") for text in given]


def extents(
    files: pa.Table, column: str, schema: pa.Schema, partition_columns: Sequence[str]
) -> dict[str, Extent]:
    """Return the bounds of a column in each split by path."""
    ranges = _range(files, column, schema, partition_columns)
    paths, lows, highs = (
        files.column("path").to_pylist(),
        ranges.low.to_pylist(),
        ranges.high.to_pylist(),
    )
    known = zip(paths, lows, highs, strict=True)
    return {path: None if low is None or high is None else (low, high) for path, low, high in known}


def _range(
    files: pa.Table, column: str, schema: pa.Schema, partition_columns: Sequence[str]
) -> ColumnRange:
    return FileRanges(files, partition_columns).range_of(
        Column((column,), schema.field(column).type), nulls=True
    )


class Extended(Struct, frozen=True):
    """A split's size, rows, bounds, and whether it is large enough, for grouping."""

    size: int
    rows: int
    extent: Extent
    is_large: bool


def pack_groups(
    splits: Sequence[Extended],
    *,
    target_bytes: int,
    limit_bytes: int,
    limit_splits: int,
    limit_rows: int,
) -> Iterator[list[int]]:
    """Return groups of splits by number, in the order of their bounds.

    A group ends at the target size if the next split begins after it, or at the size limit. A large
    split without overlap is in no group. Small splits without bounds come last.
    """
    known = sorted(
        (n for n, s in enumerate(splits) if s.extent is not None),
        key=lambda n: (*_ends(splits[n]), n),
    )
    unknown = [n for n, s in enumerate(splits) if s.extent is None and not s.is_large]
    group: list[int] = []
    size = rows = 0
    for component in [*_components(splits, known), *([n] for n in unknown)]:
        settled = len(component) == 1 and splits[component[0]].is_large
        if group and (settled or size >= target_bytes):
            yield group
            group, size, rows = [], 0, 0
        for number in () if settled else component:
            split = splits[number]
            full = (
                size + split.size > limit_bytes
                or rows + split.rows > limit_rows
                or len(group) >= limit_splits
            )
            if group and full:
                yield group
                group, size, rows = [], 0, 0
            group.append(number)
            size += split.size
            rows += split.rows
    if group:
        yield group


def _components(splits: Sequence[Extended], order: Sequence[int]) -> Iterator[list[int]]:
    """Return runs of splits in which each overlaps with an earlier one. Touching is not
    overlapping.
    """
    run: list[int] = []
    high: Any = None
    for number in order:
        low, top = _ends(splits[number])
        if run and not low < high:
            yield run
            run, high = [], None
        run.append(number)
        high = top if high is None else max(high, top)
    if run:
        yield run


def _ends(split: Extended) -> tuple[Any, Any]:
    assert split.extent is not None
    return split.extent


class Separation(Struct, frozen=True):
    """How well splits are separated by a column.

    `depth` is the mean, over all splits with bounds, of how many of them may hold a value of a
    split's range: 1 is perfect, the number of splits the worst. `alone` is the number of splits
    without overlap.
    """

    column: str
    splits: int
    without_bounds: int
    alone: int
    depth: float
    max_depth: int


def separation(
    files: pa.Table, column: str, schema: pa.Schema, partition_columns: Sequence[str]
) -> Separation:
    """Return the separation of a file list by a column. Partitions are separate."""
    ranges = _range(files, column, schema, partition_columns)
    usable = pc.and_(pc.is_valid(ranges.low), pc.is_valid(ranges.high)).to_numpy(
        zero_copy_only=False
    )
    parts: dict[tuple[Any, ...], list[int]] = {}
    for number, values in enumerate(files.column("partition_values").to_pylist()):
        if usable[number]:
            parts.setdefault(tuple(sorted(values or [])), []).append(number)
    depths = [depth for numbers in parts.values() for depth in _depths(ranges, numbers)]
    return Separation(
        column=column,
        splits=files.num_rows,
        without_bounds=int((~usable).sum()),
        alone=sum(1 for depth in depths if depth == 1),
        depth=round(sum(depths) / len(depths), 2) if depths else 0.0,
        max_depth=max(depths, default=0),
    )


def _depths(ranges: ColumnRange, numbers: Sequence[int]) -> list[int]:
    """Return for each split of a partition the number of splits that overlap with it, itself
    included.
    """
    chosen = pa.array(numbers)
    lows, highs = ranges.low.take(chosen), ranges.high.take(chosen)
    places = pa.concat_arrays([lows, highs]).dictionary_encode()
    order = pc.sort_indices(places.dictionary)
    rank = np.empty(len(order), np.int64)
    rank[order.to_numpy()] = np.arange(len(order))
    ranks = rank[places.indices.to_numpy()]
    low, high = ranks[: len(numbers)], ranks[len(numbers) :]
    # Others end before, or begin behind. Ranges of one and the same value do both, and are counted
    # once.
    before = np.searchsorted(np.sort(high), low, side="right")
    behind = len(numbers) - np.searchsorted(np.sort(low), high, side="left")
    points = np.bincount(low[low == high], minlength=len(rank))
    depth = len(numbers) - before - behind + np.where(low == high, points[low] + 1, 0)
    return [int(d) for d in depth]


def overview(
    files: pa.Table, columns: Sequence[str], schema: pa.Schema, partition_columns: Sequence[str]
) -> list[Mapping[str, Any]]:
    """Return the separation by several columns as plain values."""
    found = [separation(files, column, schema, partition_columns) for column in columns]
    return [asdict(one) for one in found]
