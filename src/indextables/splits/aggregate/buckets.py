"""The buckets of one aggregation in their order: terms by count or key, histograms by key with gaps filled on demand."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import InvalidInputError
from indextables.splits.aggregate.spec import Bucket

MAX_FILLED = 100_000
"""Most buckets a histogram may fill in; more is a mistake in the interval."""


def ordered_buckets(table: pa.Table | None, bucket: Bucket, above: tuple[Any, ...]) -> list[tuple[Any, int]]:
    """Key and count of the buckets that are shown, within the buckets above them."""
    found = [] if table is None else _buckets(table, bucket, above)
    if bucket.kind == "range":
        counts = dict(found)
        return [(number, counts.get(number, 0)) for number in range(len(bucket.ranges))]
    if bucket.kind != "terms" and bucket.min_count == 0 and found:
        return _filled(found, bucket)
    return found


def _buckets(table: pa.Table, bucket: Bucket, above: tuple[Any, ...]) -> list[tuple[Any, int]]:
    for number, key in enumerate(above):
        column = table.column(f"k{number}")
        same = (
            pc.is_nan(column) if isinstance(key, float) and key != key else pc.equal(column, _scalar(key, column.type))
        )
        table = table.filter(same)
    name = f"k{len(above)}"
    if bucket.min_count > 1:
        table = table.filter(pc.greater_equal(table.column("n"), bucket.min_count))
    keys = table.column(name)
    sortable = keys.cast(pa.int8()) if pa.types.is_boolean(keys.type) else keys
    by_key, by_count = (name, _direction(bucket)), ("n", _direction(bucket))
    sort = [by_key] if bucket.kind != "terms" or bucket.by_key else [by_count, (name, "ascending")]
    order = pc.sort_indices(pa.table({name: sortable, "n": table.column("n")}), sort_keys=sort)
    if bucket.kind == "terms":
        order = order.slice(0, bucket.size)
    shown = table.take(order)
    return list(zip(shown.column(name).to_pylist(), shown.column("n").to_pylist(), strict=True))


def _direction(bucket: Bucket) -> str:
    return "descending" if bucket.kind == "terms" and bucket.descending else "ascending"


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(value, kind)


def _filled(found: list[tuple[Any, int]], bucket: Bucket) -> list[tuple[Any, int]]:
    counts = dict(found)
    filled = []
    for key in _steps(found[0][0], found[-1][0], bucket):
        filled.append((key, counts.get(key, 0)))
        if len(filled) > MAX_FILLED:
            message = f"{bucket.name!r} would have more than {MAX_FILLED} buckets, most of them empty."
            raise InvalidInputError(
                message, hint="Choose a longer interval, or min_doc_count 1.", aggregation=bucket.name
            )
    return filled


def _steps(first: Any, last: Any, bucket: Bucket) -> Iterator[Any]:
    """Every key from the first to the last."""
    if bucket.kind == "histogram":
        start = round((first - bucket.offset) / bucket.interval)
        stop = round((last - bucket.offset) / bucket.interval)
        yield from (n * bucket.interval + bucket.offset for n in range(start, stop + 1))
        return
    at = first
    while at <= last:
        yield at
        at = _next(at, bucket)


def _next(at: Any, bucket: Bucket) -> Any:
    if not bucket.unit:
        return at + datetime.timedelta(microseconds=int(bucket.interval))
    months = {"month": 1, "quarter": 3, "year": 12}.get(bucket.unit)
    if months is None:
        return at + datetime.timedelta(**{f"{bucket.unit}s": 1})
    total = at.year * 12 + at.month - 1 + months
    return at.replace(year=total // 12, month=total % 12 + 1)
