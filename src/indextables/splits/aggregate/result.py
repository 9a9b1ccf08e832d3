"""Partial results -> the table a user sees: buckets in order, cut to size, with their metrics beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from indextables.splits.aggregate.buckets import ordered_buckets
from indextables.splits.aggregate.keys import keyed_rows
from indextables.splits.aggregate.metrics import metric_columns, metric_values
from indextables.splits.aggregate.spec import COUNT, WHICH, Aggregations, Bucket, Metric
from indextables.splits.aggregate.state import Partial, Place

Row = dict[str, Any]
Key = tuple[Any, ...]
_ROOT: Key = (0,)


def finish(partial: Partial, aggregations: Aggregations) -> pa.Table:
    """The result of partial results that hold every split."""
    result = _Result(partial)
    rows: list[Row] = []
    if aggregations.metrics:
        rows.append({COUNT: result.count((), _ROOT), **result.metrics(aggregations.metrics, (), _ROOT)})
    for bucket in aggregations.buckets:
        rows += [{WHICH: bucket.name, **row} for row in result.rows(bucket, (), _ROOT, {})]
    names = _columns(aggregations)
    if len(aggregations.buckets) + bool(aggregations.metrics) < 2:
        names.pop(WHICH)
    return pa.table({name: _array([row.get(name) for row in rows], kind) for name, kind in names.items()})


class _Result:
    """Looks up groups of the partial results by the keys of their buckets."""

    def __init__(self, partial: Partial) -> None:
        self._tables = partial.tables
        self._indexes: dict[Place, dict[Key, int]] = {}
        self._groups: dict[Place, pa.Table] = {}

    def rows(self, bucket: Bucket, place: Place, above: Key, shown: Row) -> Iterator[Row]:
        """The rows of a bucket aggregation within the buckets above it, each followed by what is inside it."""
        here = (*place, bucket.name)
        table = self._tables.get(here)
        for key, count in ordered_buckets(table, bucket, above):
            name = bucket.ranges[key].key if bucket.kind == "range" else key
            keys, own = (*above, key), {**shown, bucket.name: name}
            yield {**own, COUNT: count, **self.metrics(bucket.inside.metrics, here, keys)}
            for below in bucket.inside.buckets:
                yield from self.rows(below, here, keys, own)

    def count(self, place: Place, keys: Key) -> int:
        """How many rows a group has."""
        found = self._find(place, keys)
        return 0 if found is None else int(found["n"])

    def metrics(self, metrics: tuple[Metric, ...], place: Place, keys: Key) -> Row:
        """The metrics of a group."""
        found: Row = {}
        for metric in metrics:
            found |= metric_values(metric, self._find((*place, f"#{metric.name}"), keys))
        return found

    def _find(self, place: Place, keys: Key) -> Row | None:
        """The one row of a group in its table; of a table of values, all of them as lists."""
        table = self._group(place)
        if table is None:
            return None
        if place not in self._indexes:
            columns = [table.column(f"k{i}").to_pylist() for i in range(len(keys))]
            self._indexes[place] = {hashable(key): row for row, key in enumerate(zip(*columns, strict=True))}
        row = self._indexes[place].get(hashable(keys))
        if row is None:
            return None
        return {name: table.column(name)[row].as_py() for name in table.column_names if not name.startswith("k")}

    def _group(self, place: Place) -> pa.Table | None:
        table = self._tables.get(place)
        if table is None or "value" not in table.column_names:
            return table
        if place not in self._groups:
            keys = [name for name in table.column_names if name.startswith("k")]
            lists = table.group_by(keys, use_threads=False).aggregate([("value", "list"), ("n", "list")])
            self._groups[place] = lists.select([*keys, "value_list", "n_list"]).rename_columns([*keys, "value", "n"])
        return self._groups[place]


def hashable(key: Key) -> Key:
    """A key under which NaN is found again."""
    return tuple("NaN" if isinstance(v, float) and v != v else v for v in key)


def _columns(aggregations: Aggregations) -> dict[str, pa.DataType | None]:
    names: dict[str, pa.DataType | None] = {WHICH: pa.string(), **_bucket_columns(aggregations), COUNT: pa.int64()}
    return names | _metric_columns(aggregations)


def _bucket_columns(aggregations: Aggregations) -> dict[str, pa.DataType | None]:
    names: dict[str, pa.DataType | None] = {}
    for bucket in aggregations.buckets:
        names[bucket.name] = _key_type(bucket)
        names |= _bucket_columns(bucket.inside)
    return names


def _metric_columns(aggregations: Aggregations) -> dict[str, pa.DataType | None]:
    names: dict[str, pa.DataType | None] = {}
    for metric in aggregations.metrics:
        names |= metric_columns(metric)
    for bucket in aggregations.buckets:
        names |= _metric_columns(bucket.inside)
    return names


def _key_type(bucket: Bucket) -> pa.DataType:
    if bucket.kind == "range":
        return pa.string()
    kind = bucket.field.type
    for key in reversed(bucket.field.path[1:]):
        kind = pa.struct([(key, kind)])
    return keyed_rows(pa.table({bucket.field.path[0]: pa.array([], kind)}), bucket)[1].type


def _array(values: list[Any], kind: pa.DataType | None) -> pa.Array:
    """A column; sums of whole numbers are int64 unless one of them is too large for it."""
    if kind is not None:
        return pa.array(values, kind)
    fits = all(v is None or -(1 << 63) <= int(v) < 1 << 63 for v in values)
    return (
        pa.array([None if v is None else int(v) for v in values], pa.int64())
        if fits
        else pa.array(values, pa.decimal128(38, 0))
    )
