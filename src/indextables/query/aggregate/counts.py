"""Count rows of a split by texts and by intervals of time, on arrays that the process keeps.

The result is the same `Partial` as `state.aggregate_rows` computes from decoded rows. A bucket that
needs more than row counts, or a column without an array, is left to that function.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from indextables.query.aggregate.spec import Aggregations, Bucket
from indextables.splits.read.column_arrays import ColumnArray
from indextables.splits.read.searchable import Rows, Searchable

Codes = npt.NDArray[np.int64]
Counted = dict[tuple[str, ...], pa.Table]
_INTERVALS = {"minute": 60_000_000, "hour": 3_600_000_000, "day": 86_400_000_000}
_FEWEST_CELLS = 1 << 16
"""Codes up to this number are counted in one array even for a few rows."""


class _Level(Struct, frozen=True):
    """The key of each row in one bucket."""

    codes: Codes
    """Position of the key; the position after the last one is no key."""
    keys: pa.Array


def count_rows(split: Searchable, aggregations: Aggregations, rows: Rows | None) -> Counted | None:
    """Return the row counts of every group of some rows (None: all), or None if they need decoded
    columns.
    """
    if not aggregations.buckets or not _is_countable(aggregations):
        return None
    buckets = list(_each_bucket(aggregations))
    columns = [split.column_array(bucket.field.path[0], rows) for bucket in buckets]
    levels: dict[int, _Level] = {}
    for bucket, column in zip(buckets, columns, strict=True):
        if column is None or (column.texts is None) != (bucket.kind != "terms"):
            return None
        levels[id(bucket)] = _level(column, bucket)
    count = split.num_rows if rows is None else len(rows)
    first = pa.array([0], pa.int8())
    found: Counted = {(): pa.table({"k0": first, "n": pa.array([count], pa.int64())})}
    for bucket in aggregations.buckets:
        found.update(_tables(bucket, levels, (), None, ()))
    return found


def _is_countable(aggregations: Aggregations) -> bool:
    return not aggregations.metrics and all(
        _has_plain_key(bucket) and _is_countable(bucket.inside) for bucket in aggregations.buckets
    )


def _has_plain_key(bucket: Bucket) -> bool:
    field = bucket.field
    if bucket.sources or bucket.filters or len(field.path) != 1 or field.is_json:
        return False
    if bucket.kind == "terms":
        return bucket.missing is None and bool(pa.types.is_string(field.type))
    if bucket.kind != "date_histogram" or bucket.time_zone is not None:
        return False
    if not pa.types.is_timestamp(field.type) or field.type.unit != "us":
        return False
    if bucket.unit:
        return bucket.unit in _INTERVALS and not bucket.offset and field.type.tz in (None, "UTC")
    return True


def _each_bucket(aggregations: Aggregations) -> Iterator[Bucket]:
    for bucket in aggregations.buckets:
        yield bucket
        yield from _each_bucket(bucket.inside)


def _level(column: ColumnArray, bucket: Bucket) -> _Level:
    if column.texts is not None:
        return _Level(column.numbers.astype(np.int64), column.texts)
    return _time_level(column, bucket)


def _time_level(column: ColumnArray, bucket: Bucket) -> _Level:
    interval, offset = int(_INTERVALS.get(bucket.unit, bucket.interval)), int(bucket.offset)
    steps = np.floor_divide(column.numbers - offset, interval).astype(np.int64)
    given = steps
    if column.valid is not None:
        given = steps[column.valid]
    if not len(given):
        return _Level(np.zeros(len(steps), np.int64), _time_keys(given, bucket))
    low, high = int(given.min()), int(given.max())
    if high - low <= _most_cells(len(steps)):
        distinct, codes = np.arange(low, high + 1), steps - low
    else:
        distinct, inverse = np.unique(steps, return_inverse=True)
        codes = inverse.astype(np.int64)
    if column.valid is not None:
        codes = np.where(column.valid, codes, len(distinct))
    return _Level(codes, _time_keys(distinct * interval + offset, bucket))


def _time_keys(micros: npt.NDArray[np.int64], bucket: Bucket) -> pa.Array:
    zone = "UTC" if bucket.field.type.tz else None
    return pa.array(micros, pa.int64()).cast(pa.timestamp("us", zone))


def _most_cells(rows: int) -> int:
    return max(_FEWEST_CELLS, 4 * rows)


def _tables(
    bucket: Bucket,
    levels: dict[int, _Level],
    above: tuple[str, ...],
    number: Codes | None,
    parents: Sequence[_Level],
) -> Iterator[tuple[tuple[str, ...], pa.Table]]:
    """Yield the tables of a bucket and of those inside. `number` combines the codes of `parents`."""
    here, level = (*above, bucket.name), levels[id(bucket)]
    path = [*parents, level]
    if number is None:
        number = level.codes
    else:
        number = number * (len(level.keys) + 1) + level.codes
    cells = int(np.prod([float(len(each.keys) + 1) for each in path]))
    if cells <= _most_cells(len(number)):
        counts = np.bincount(number, minlength=cells)
        numbers = np.flatnonzero(counts)
        counts = counts[numbers]
    else:
        numbers, counts = np.unique(number, return_counts=True)
    yield here, _table(numbers, counts, path)
    for inside in bucket.inside.buckets:
        yield from _tables(inside, levels, here, number, path)


def _table(numbers: Codes, counts: Codes, path: Sequence[_Level]) -> pa.Table:
    """Return the counts of combined codes by their keys, without those that lack a key."""
    codes: list[Codes] = []
    left = numbers
    for level in reversed(path):
        left, code = np.divmod(left, len(level.keys) + 1)
        codes.insert(0, code)
    complete = np.ones(len(numbers), np.bool_)
    for code, level in zip(codes, path, strict=True):
        complete &= code < len(level.keys)
    keys = {
        f"k{at}": level.keys.take(pa.array(code[complete]))
        for at, (code, level) in enumerate(zip(codes, path, strict=True), start=1)
    }
    kept = counts[complete]
    first = pa.array(np.zeros(len(kept), np.int8))
    return pa.table({"k0": first, **keys, "n": pa.array(kept, pa.int64())})
