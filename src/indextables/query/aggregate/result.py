"""Combine the partial aggregations of splits into the result table.

Buckets are ordered (terms by count or key, histograms by key with gaps filled on request) and
limited, with the values of their metrics in further columns.
"""

from __future__ import annotations

import datetime
import json
import zoneinfo
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from indextables.errors import InvalidInputError
from indextables.model.values import decode_value
from indextables.query.aggregate.metric_values import metric_columns, metric_values
from indextables.query.aggregate.spec import (
    COUNT,
    WHICH,
    Aggregations,
    Bucket,
    Field,
    Metric,
    parse_spec,
    renamed,
)
from indextables.query.aggregate.state import (
    Partial,
    Place,
    aggregate_split,
    keyed_rows,
    merged,
    numbered_groups,
)
from indextables.query.task import ScanTask
from indextables.splits.query.tree import AllRows
from indextables.splits.read.table_split import SplitEntry

MAX_FILLED = 100_000
"""Maximum number of buckets a histogram may fill in; more is a mistake in the interval."""


def ordered_buckets(
    table: pa.Table | None, bucket: Bucket, above: tuple[Any, ...]
) -> list[tuple[Any, int]]:
    """Return key and count of the returned buckets, within their parent buckets."""
    if bucket.sources:
        if table is None:
            return []
        return _combined_buckets(_within(table, above), bucket, f"k{len(above)}")
    if table is None:
        buckets = []
    else:
        buckets = _buckets(_within(table, above), bucket, above)
    if bucket.labels is not None:
        counts = dict(buckets)
        return [(number, counts.get(number, 0)) for number in range(len(bucket.labels))]
    if bucket.kind != "terms" and bucket.min_count == 0 and (buckets or bucket.bounds is not None):
        return _fill(buckets, bucket)
    return buckets


def _combined_buckets(table: pa.Table, bucket: Bucket, name: str) -> list[tuple[Any, int]]:
    """Return buckets with composite keys: by count, or by the parts of the key, after a key."""
    pairs = zip(table.column(name).to_pylist(), table.column("n").to_pylist(), strict=True)
    shown = [
        (key_parts(key, bucket), key, count) for key, count in pairs if count >= bucket.min_count
    ]
    shown.sort(
        key=lambda entry: tuple(map(_sortable, entry[0].values())),
        reverse=bucket.by_key and bucket.descending,
    )
    if not bucket.by_key:
        shown.sort(key=lambda entry: entry[2], reverse=bucket.descending)
    if bucket.after is not None:
        after = tuple(_sortable(value) for value in _plain_after(bucket))
        shown = [entry for entry in shown if tuple(map(_sortable, entry[0].values())) > after]
    return [(key, count) for _, key, count in shown[: bucket.size]]


def _plain_after(bucket: Bucket) -> list[Any]:
    """Return the key after which buckets begin, in the types of keys."""
    types = [_key_type(source) for source in bucket.sources]
    return [_plain_key(value, kind) for value, kind in zip(bucket.after or (), types, strict=True)]


def _plain_key(value: Any, kind: pa.DataType) -> Any:
    """Return a value in the form that compares with keys; numbers compare whatever their types."""
    if pa.types.is_float32(kind):
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    is_moment = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    if is_moment:
        return pa.array([value]).cast(kind)[0].as_py()
    return value


def _sortable(value: Any) -> tuple[bool, Any]:
    """Return a sortable form of a part of a key: NaN is greater than every number."""
    is_nan = isinstance(value, float) and value != value
    return is_nan, 0 if is_nan else value


def key_parts(key: str, bucket: Bucket) -> dict[str, Any]:
    """Return the parts of a composite key by name."""
    texts = zip(bucket.sources, json.loads(key), strict=True)
    return {source.name: _part(text, _key_type(source)) for source, text in texts}


def _part(text: str, kind: pa.DataType) -> Any:
    return pa.scalar(decode_value(text, kind), kind).as_py()


def _within(table: pa.Table, above: tuple[Any, ...]) -> pa.Table:
    """Return the rows of a table within the parent buckets."""
    for number, key in enumerate(above[1:], start=1):  # the first key is the same in all rows
        column = table.column(f"k{number}")
        if isinstance(key, float) and key != key:
            same = pc.is_nan(column)
        else:
            same = pc.equal(column, _scalar(key, column.type))
        table = table.filter(same)
    return table


def _buckets(table: pa.Table, bucket: Bucket, above: tuple[Any, ...]) -> list[tuple[Any, int]]:
    name = f"k{len(above)}"
    if bucket.min_count > 1:
        table = table.filter(pc.greater_equal(table.column("n"), bucket.min_count))
    keys = table.column(name)
    if pa.types.is_boolean(keys.type):
        sortable = keys.cast(pa.int8())
    else:
        sortable = keys
    by_key, by_count = (name, _direction(bucket)), ("n", _direction(bucket))
    if bucket.kind != "terms" or bucket.by_key:
        sort = [by_key]
    else:
        sort = [by_count, (name, "ascending")]
    order = pc.sort_indices(pa.table({name: sortable, "n": table.column("n")}), sort_keys=sort)
    if bucket.kind == "terms":
        order = order.slice(0, bucket.size)
    shown = table.take(order)
    return list(zip(shown.column(name).to_pylist(), shown.column("n").to_pylist(), strict=True))


def _direction(bucket: Bucket) -> str:
    if bucket.kind == "terms" and bucket.descending:
        return "descending"
    return "ascending"


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(value, kind)


def _fill(buckets: list[tuple[Any, int]], bucket: Bucket) -> list[tuple[Any, int]]:
    counts = dict(buckets)
    ends = [key for key, _ in (*buckets[:1], *buckets[-1:])] + _keys_of(bucket, bucket.bounds or ())
    steps: list[Any] = []
    for key in _steps(min(ends), max(ends), bucket):
        steps.append(key)
        if len(steps) > MAX_FILLED:
            message = (
                f"{bucket.name!r} would have more than {MAX_FILLED} buckets, most of them empty."
            )
            raise InvalidInputError(
                message,
                hint="Choose a longer interval, or min_doc_count 1.",
                aggregation=bucket.name,
            )
    # Where clocks are changed, an interval may begin where no step leads to: none that has rows is
    # left out.
    return [(key, counts.get(key, 0)) for key in sorted({*steps, *counts})]


def _keys_of(bucket: Bucket, values: Sequence[Any]) -> list[Any]:
    """Return the keys of values of a bucket's field."""
    plain = replace(bucket, field=Field(("value",), bucket.field.element_type))
    keys: list[Any] = keyed_rows(
        pa.table({"value": pa.array(list(values), plain.field.type)}), plain
    )[1].to_pylist()
    return keys


def _steps(first: Any, last: Any, bucket: Bucket) -> Iterator[Any]:
    """Return every key from the first to the last."""
    if bucket.kind == "histogram":
        start = round((first - bucket.offset) / bucket.interval)
        stop = round((last - bucket.offset) / bucket.interval)
        number = type(
            first
        )  # a key of floating point is one also where the interval is a whole number
        yield from (number(n * bucket.interval + bucket.offset) for n in range(start, stop + 1))
        return
    at = first
    while at <= last:
        yield at
        at = _next(at, bucket)


def _next(at: Any, bucket: Bucket) -> Any:
    if bucket.time_zone is not None:
        return _next_in_zone(at, bucket)
    if not bucket.unit:
        return at + datetime.timedelta(microseconds=int(bucket.interval))
    months = {"month": 1, "quarter": 3, "year": 12}.get(bucket.unit)
    if months is None:
        return at + datetime.timedelta(**{f"{bucket.unit}s": 1})
    total = at.year * 12 + at.month - 1 + months
    return at.replace(year=total // 12, month=total % 12 + 1)


def _next_in_zone(at: datetime.datetime, bucket: Bucket) -> datetime.datetime:
    """Return the next interval start in local time; hours and minutes have a fixed length."""
    zone = zoneinfo.ZoneInfo(str(bucket.time_zone))
    plain = replace(bucket, time_zone=None)
    if bucket.unit in ("hour", "minute"):
        return _aware(_next(at.astimezone(datetime.UTC), plain), at)
    shift = datetime.timedelta(microseconds=int(bucket.offset))
    wall = (at - shift).astimezone(zone).replace(tzinfo=None)
    return _aware((_next(wall, plain).replace(tzinfo=zone)).astimezone(datetime.UTC) + shift, at)


def _aware(moment: datetime.datetime, like: datetime.datetime) -> datetime.datetime:
    return moment.astimezone(like.tzinfo)


Row = dict[str, Any]
Key = tuple[Any, ...]
_ROOT: Key = (0,)


def finish(partial: Partial, aggregations: Aggregations) -> pa.Table:
    """Return the result of partial results of all splits."""
    result = _Result(partial)
    rows: list[Row] = []
    if aggregations.metrics:
        rows.append(
            {COUNT: result.count((), _ROOT), **result.metrics(aggregations.metrics, (), _ROOT)}
        )
    for bucket in aggregations.buckets:
        rows += [{WHICH: bucket.name, **row} for row in result.rows(bucket, (), _ROOT, {})]
    names = _result_columns(aggregations)
    return pa.table(
        {name: _array([row.get(name) for row in rows], kind) for name, kind in names.items()}
    )


class _Result:
    """Looks up groups of the partial results by the keys of their buckets."""

    def __init__(self, partial: Partial) -> None:
        self._tables = partial.tables
        self._indexes: dict[Place, dict[Key, int]] = {}
        self._groups: dict[Place, pa.Table] = {}

    def rows(self, bucket: Bucket, place: Place, above: Key, shown: Row) -> Iterator[Row]:
        """Return the rows of a bucket aggregation within its parent buckets, each followed by its
        sub-buckets.
        """
        here = (*place, bucket.name)
        table, labels = self._tables.get(here), bucket.labels
        for key, count in ordered_buckets(table, bucket, above):
            if bucket.sources:
                name = key_parts(key, bucket)
            else:
                name = key if labels is None else labels[key]
            keys, own = (*above, key), {**shown, bucket.name: name}
            yield {**own, COUNT: count, **self.metrics(bucket.inside.metrics, here, keys)}
            for below in bucket.inside.buckets:
                yield from self.rows(below, here, keys, own)

    def count(self, place: Place, keys: Key) -> int:
        """Return how many rows a group has."""
        row = self._find(place, keys)
        if row is None:
            return 0
        return int(row["n"])

    def metrics(self, metrics: tuple[Metric, ...], place: Place, keys: Key) -> Row:
        """Return the metrics of a group."""
        values: Row = {}
        for metric in metrics:
            values |= metric_values(metric, self._find((*place, f"#{metric.name}"), keys))
        return values

    def _find(self, place: Place, keys: Key) -> Row | None:
        """Return the row of a group in its table; for a table of values, all of them as lists."""
        table = self._group(place)
        if table is None:
            return None
        if place not in self._indexes:
            columns = [table.column(f"k{i}").to_pylist() for i in range(len(keys))]
            self._indexes[place] = {
                hashable(key): row for row, key in enumerate(zip(*columns, strict=True))
            }
        row = self._indexes[place].get(hashable(keys))
        if row is None:
            return None
        return {
            name: table.column(name)[row].as_py()
            for name in table.column_names
            if not name.startswith("k")
        }

    def _group(self, place: Place) -> pa.Table | None:
        table = self._tables.get(place)
        value = next(
            (n for n in ("value", "number") if table is not None and n in table.column_names), None
        )
        if table is None or (
            value is None and not any(name.startswith("hit ") for name in table.column_names)
        ):
            return table
        if place not in self._groups:
            keys = [name for name in table.column_names if name.startswith("k")]
            if value is None:
                self._groups[place] = _listed_hits(table, keys)
                return self._groups[place]
            lists = table.group_by(keys, use_threads=False).aggregate(
                [(value, "list"), ("n", "list")]
            )
            self._groups[place] = lists.select([*keys, f"{value}_list", "n_list"]).rename_columns(
                [*keys, value, "n"]
            )
        return self._groups[place]


def _listed_hits(table: pa.Table, keys: list[str]) -> pa.Table:
    """Return the rows of each group as one list, in order."""
    names = [name for name in table.column_names if name.startswith("hit ")]
    rows = (
        table.select(names)
        .rename_columns([name.removeprefix("hit ") for name in names])
        .to_struct_array()
    )
    group = numbered_groups([table.column(key) for key in keys], table.num_rows)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    if isinstance(rows, pa.ChunkedArray):
        joined = rows.combine_chunks()
    else:
        joined = rows
    lists = pa.ListArray.from_arrays(
        pa.array([*starts, len(order)], pa.int32()), joined.take(pa.array(order))
    )
    firsts = pa.array(order[starts])
    return pa.table({**{key: table.column(key).take(firsts) for key in keys}, "hits": lists})


def hashable(key: Key) -> Key:
    """Return a hashable key under which NaN is found again."""
    return tuple("NaN" if isinstance(v, float) and v != v else v for v in key)


def result_schema(aggregations: Aggregations) -> pa.Schema:
    """Return the columns of the result before there is one: sums of whole numbers are int64."""
    columns = _result_columns(aggregations)
    return pa.schema([(name, kind or pa.int64()) for name, kind in columns.items()])


def _result_columns(aggregations: Aggregations) -> dict[str, pa.DataType | None]:
    names = _columns(aggregations)
    if len(aggregations.buckets) + bool(aggregations.metrics) < 2:
        names.pop(WHICH)
    return names


def _columns(aggregations: Aggregations) -> dict[str, pa.DataType | None]:
    names: dict[str, pa.DataType | None] = {
        WHICH: pa.string(),
        **_bucket_columns(aggregations),
        COUNT: pa.int64(),
    }
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
    if bucket.labels is not None:
        return pa.string()
    if bucket.sources:
        return pa.struct([(source.name, _key_type(source)) for source in bucket.sources])
    kind = bucket.field.element_type
    if bucket.kind == "terms" and pa.types.is_string(kind):
        return kind
    plain = replace(bucket, field=Field(("value",), kind))
    return keyed_rows(pa.table({"value": pa.array([], plain.field.type)}), plain)[1].type


def _array(values: list[Any], kind: pa.DataType | None) -> pa.Array:
    """Return a column; integer sums are int64 unless one of them is too large."""
    if kind is not None:
        return pa.array(values, kind)
    fits = all(v is None or -(1 << 63) <= int(v) < 1 << 63 for v in values)
    if fits:
        return pa.array([None if v is None else int(v) for v in values], pa.int64())
    return pa.array(values, pa.decimal128(38, 0))


def aggregate_table(
    task: ScanTask, spec: Mapping[str, Any], json_columns: Iterable[str] = ()
) -> pa.Table:
    """Aggregate over the matching rows of a task; JSON columns have paths."""
    try:
        aggregations = parse_spec(spec, task.plan.names.logical, json_columns)
        return finish(partial_of(task, aggregations), aggregations)
    except (OverflowError, RecursionError, UnicodeError) as error:
        # Numbers and texts of the specification are turned into those of columns in many places.
        message = f"A number, a text or the depth of the aggregation is too large: {error}."
        hint = "Whole numbers have 64 bits, times the years 1 to 9999; nest fewer aggregations."
        raise InvalidInputError(message, hint=hint) from error


def partial_of(task: ScanTask, aggregations: Aggregations) -> Partial:
    """Return the partial result of a task's splits with logical field names. Partial results of
    several tasks add up.
    """
    if not task.plan.names.same:
        aggregations = renamed(aggregations, task.plan.names)
    splits = [task.plan.splits[number] for number in task.find_candidates()]
    return merged(task.in_order(lambda entry: _one(task, entry, aggregations), splits))


def _one(task: ScanTask, entry: SplitEntry, aggregations: Aggregations) -> Partial:
    plan = task.plan
    where = None if entry.certain else plan.where
    return aggregate_split(task.open(entry), aggregations, plan.query or AllRows(), where=where)
