"""Which bucket a row belongs to: the key of each row under a bucket aggregation, in Arrow and numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.scan.aggregate.spec import Bucket, Field
from indextables.splits.index.mapping import is_text
from indextables.splits.index.values import plain_texts


def values_of(table: pa.Table, field: Field) -> pa.Array:
    """The values of a field as one plain array; -0.0 is 0.0, so that they are one value."""
    values = table.column(field.path[0])
    if len(field.path) > 1:
        values = pc.struct_field(values, list(field.path[1:]))
    if is_text(values.type):
        return plain_texts(values)
    joined = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_dictionary(joined.type):
        joined = joined.dictionary_decode()
    return pc.add(joined, pa.scalar(0.0, joined.type)) if pa.types.is_floating(joined.type) else joined


def without_nan(values: pa.Array) -> pa.Array:
    """Floating point values where NaN is null."""
    if not pa.types.is_floating(values.type):
        return values
    return pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)


def keyed_rows(table: pa.Table, bucket: Bucket) -> tuple[pa.Array, pa.Array]:
    """The rows that fall into a bucket, and the key of each. A row may fall into several ranges."""
    values = values_of(table, bucket.field)
    if bucket.kind == "range":
        return _range_keys(without_nan(values), bucket)
    if bucket.kind == "terms":
        keys = values if bucket.missing is None else pc.fill_null(values, pa.scalar(bucket.missing, values.type))
    elif bucket.kind == "histogram":
        keys = _number_keys(without_nan(values), bucket)
    else:
        keys = _time_keys(values, bucket)
    rows = pa.array(np.flatnonzero(pc.is_valid(keys)))
    return rows, keys.take(rows)


def _number_keys(values: pa.Array, bucket: Bucket) -> pa.Array:
    whole = isinstance(bucket.interval, int) and isinstance(bucket.offset, int) and pa.types.is_integer(values.type)
    kind = pa.int64() if whole else pa.float64()
    numbers = values.cast(kind, safe=whole)
    given = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    finite = np.isfinite(given) if not whole else np.ones(len(given), np.bool_)
    low = np.floor_divide(np.where(finite, given, 0) - bucket.offset, bucket.interval)
    keys = pa.array(low * bucket.interval + bucket.offset, kind)
    return pc.if_else(pc.and_(numbers.is_valid(), pa.array(finite)), keys, pa.scalar(None, kind))


def _time_keys(values: pa.Array, bucket: Bucket) -> pa.Array:
    if bucket.unit:
        return pc.floor_temporal(values, unit=bucket.unit, week_starts_monday=True)
    moment = pa.timestamp("us", "UTC" if pa.types.is_timestamp(values.type) and values.type.tz else None)
    micros = values.cast(moment, safe=False).cast(pa.int64())
    low = np.floor_divide(micros.fill_null(0).to_numpy(zero_copy_only=False), bucket.interval) * int(bucket.interval)
    return pc.if_else(micros.is_valid(), pa.array(low, pa.int64()), pa.scalar(None, pa.int64())).cast(moment)


def _range_keys(values: pa.Array, bucket: Bucket) -> tuple[pa.Array, pa.Array]:
    rows, keys = [], []
    for number, found in enumerate(bucket.ranges):
        inside = np.flatnonzero(_inside(values, found.low, found.high))
        rows.append(inside)
        keys.append(np.full(len(inside), number, np.int64))
    return pa.array(np.concatenate(rows), pa.int64()), pa.array(np.concatenate(keys), pa.int64())


def _inside(values: pa.Array, low: Any, high: Any) -> Any:
    found = pc.is_valid(values)
    for bound, compare in ((low, pc.greater_equal), (high, pc.less)):
        if bound is not None:
            scalar = _scalar(bound, values.type)
            found = pc.and_(found, pc.fill_null(compare(values, scalar), False))
    return np.asarray(found)


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """A bound in a type that compares with the column's without rounding."""
    if pa.types.is_timestamp(kind) and kind.tz and value.tzinfo is None:
        return pa.scalar(value, pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    return pa.scalar(value)
