"""The specification of aggregations as a tree: frozen, picklable, checked against a schema, all faults in one error.

Lengths of time by which a date histogram groups.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables.errors import IndexTablesError, InvalidInputError
from indextables.model.predicate import Predicate, columns_of
from indextables.model.predicate.where import bound_predicate
from indextables.splits.query.literals import typed_value

_SHORT = {"1m": "minute", "1h": "hour", "1d": "day", "1w": "week", "1M": "month", "1q": "quarter", "1y": "year"}
CALENDAR_UNITS = {**{unit: unit for unit in _SHORT.values()}, **_SHORT}
_MICROS = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}


def fixed_micros(text: str) -> int | None:
    """Microseconds of `500ms`, `30s`, `5m`, `1h` or `7d`; None for anything else."""
    match = re.fullmatch(r"(\d{1,9})(ms|s|m|h|d)", text.strip())
    return int(match[1]) * _MICROS[match[2]] or None if match else None


METRICS = ("stats", "extended_stats", "min", "max", "sum", "avg", "value_count", "cardinality", "percentiles")
BUCKETS = ("terms", "histogram", "date_histogram", "range", "filter", "filters")
COUNT, WHICH = "count", "aggregation"
"""Columns of every result, which no aggregation may be called."""
DEFAULT_PERCENTS = (1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0)
_OPTIONS = {
    "terms": {"field", "size", "order", "min_doc_count", "missing"},
    "histogram": {"field", "interval", "offset", "min_doc_count", "extended_bounds"},
    "date_histogram": {"field", "fixed_interval", "calendar_interval", "offset", "min_doc_count", "extended_bounds"},
    "range": {"field", "ranges"},
    "filter": {"where"},
    "filters": {"filters"},
    "percentiles": {"field", "percents"},
}


class Field(Struct, frozen=True):
    """A column, or a field inside a struct column, with its type."""

    path: tuple[str, ...]
    type: pa.DataType


class Metric(Struct, frozen=True):
    """A number (or a few) computed from the values of a field."""

    name: str
    kind: str
    field: Field
    percents: tuple[float, ...] = ()


class RangeBucket(Struct, frozen=True):
    """Values from a bound, which is included, to a bound, which is not; None is open."""

    key: str
    low: Any
    high: Any


class FilterBucket(Struct, frozen=True):
    """Rows for which a bound condition is true."""

    key: str
    where: Predicate


class Bucket(Struct, frozen=True):
    """Rows grouped by a key that is derived from a field, or by the conditions they meet."""

    name: str
    kind: str
    field: Field
    inside: Aggregations
    size: int = 10
    by_key: bool = False
    descending: bool = True
    min_count: int = 1
    missing: Any = None
    interval: float | int = 1
    offset: float | int = 0
    unit: str = ""
    ranges: tuple[RangeBucket, ...] = ()
    filters: tuple[FilterBucket, ...] = ()
    more_fields: tuple[Field, ...] = ()
    """What conditions look at besides the field."""
    bounds: tuple[Any, Any] | None = None
    """Values that a histogram reaches at least."""

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The keys of buckets that are numbered and always shown; None for kinds whose keys come from the rows."""
        return tuple([span.key for span in self.ranges] + [part.key for part in self.filters]) or None


class Aggregations(Struct, frozen=True):
    """What is computed for one group of rows."""

    metrics: tuple[Metric, ...] = ()
    buckets: tuple[Bucket, ...] = ()


def with_paths(aggregations: Aggregations, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> Aggregations:
    """The same aggregations of other fields."""
    return Aggregations(
        tuple(replace(m, field=replace(m.field, path=change(m.field.path))) for m in aggregations.metrics),
        tuple(
            replace(b, field=replace(b.field, path=change(b.field.path)), inside=with_paths(b.inside, change))
            for b in aggregations.buckets
        ),
    )


def parse_spec(spec: Mapping[str, Any], schema: pa.Schema) -> Aggregations:
    """The tree of a specification, or one error that lists every fault and what is known."""
    faults: list[str] = []
    aggregations = _aggregations(spec, schema, faults, "")
    names = [name for name, _ in _names(aggregations)]
    faults += [f"No aggregation can be called {n!r}." for n in names if n in (COUNT, WHICH, "") or "." in n]
    faults += [f"The name {name!r} is used twice." for name in sorted({n for n in names if names.count(n) > 1})]
    if faults:
        hint = f"Known: {', '.join((*BUCKETS, *METRICS))}. Columns: {', '.join(schema.names)}."
        message = f"The aggregations have {len(faults)} fault(s): {' '.join(faults)}"
        raise InvalidInputError(message, hint=hint, faults=faults, columns=schema.names)
    return aggregations


def fields_of(aggregations: Aggregations) -> Iterator[Field]:
    """Every field that is looked at."""
    for metric in aggregations.metrics:
        yield metric.field
    for bucket in aggregations.buckets:
        yield bucket.field
        yield from bucket.more_fields
        yield from fields_of(bucket.inside)


def _names(aggregations: Aggregations) -> Iterator[tuple[str, Metric | Bucket]]:
    yield from ((m.name, m) for m in aggregations.metrics)
    for bucket in aggregations.buckets:
        yield bucket.name, bucket
        yield from _names(bucket.inside)


def _aggregations(spec: Any, schema: pa.Schema, faults: list[str], place: str) -> Aggregations:
    metrics: list[Metric] = []
    buckets: list[Bucket] = []
    if not isinstance(spec, Mapping) or not spec:
        faults.append(f"{place or 'The specification'} must be a mapping of names to aggregations.")
        return Aggregations()
    for name, entry in spec.items():
        here = f"{place}{name}"
        inside = {k: v for k, v in entry.items() if k in ("aggs", "aggregations")} if isinstance(entry, Mapping) else {}
        kinds = [k for k in entry if k not in inside] if isinstance(entry, Mapping) else []
        if len(kinds) != 1 or kinds[0] not in (*BUCKETS, *METRICS) or not isinstance(entry[kinds[0]], Mapping):
            faults.append(f"{here!r} must hold exactly one known aggregation with its options, not {entry!r}.")
            continue
        kind, options = kinds[0], entry[kinds[0]]
        unknown = set(options) - _OPTIONS.get(kind, {"field"})
        faults += [f"{here!r} has the option {option!r}, which {kind} does not know." for option in sorted(unknown)]
        if kind in ("filter", "filters"):
            below = [_aggregations(v, schema, faults, f"{here}.") for v in inside.values()]
            buckets += _filters(str(name), options, below[0] if below else Aggregations(), schema, faults)
            continue
        field = _field(options.get("field"), schema, faults, here)
        if field is None or (fault := _type_fault(kind, field, here)):
            faults += [] if field is None else [fault]
        elif kind in METRICS:
            faults += [f"{here!r} is a metric and cannot hold other aggregations."] if inside else []
            metrics.append(Metric(str(name), kind, field, _percents(options, faults, here)))
        else:
            below = [_aggregations(v, schema, faults, f"{here}.") for v in inside.values()]
            nested = below[0] if below else Aggregations()
            buckets += _bucket(str(name), kind, field, options, nested, faults)
    return Aggregations(tuple(metrics), tuple(buckets))


def _filters(
    name: str, options: Mapping[str, Any], inside: Aggregations, schema: pa.Schema, faults: list[str]
) -> list[Bucket]:
    """A bucket for each condition, unless one of them has a fault."""
    given = {name: options["where"]} if "where" in options else options.get("filters")
    if not isinstance(given, Mapping) or not given:
        faults.append(f'{name!r} needs conditions: {{"where": "n > 5"}}, or {{"filters": {{"big": "n > 5"}}}}.')
        return []
    parts: list[FilterBucket] = []
    for key, where in given.items():
        try:
            bound = bound_predicate(where, schema)
        except IndexTablesError as e:
            faults.append(f"{name!r}: the condition of {key!r} cannot be read: {e.message}")
            return []
        names = () if bound is None else columns_of(bound)
        if bound is None or not names:
            faults.append(f"{name!r}: the condition of {key!r} looks at no column.")
            return []
        parts.append(FilterBucket(str(key), bound))
    columns = dict.fromkeys(column for part in parts for column in columns_of(part.where))
    fields = tuple(Field((column,), schema.field(column).type) for column in columns)
    return [Bucket(name, "filters", fields[0], inside, filters=tuple(parts), more_fields=fields, min_count=0)]


def _field(name: Any, schema: pa.Schema, faults: list[str], here: str) -> Field | None:
    if not isinstance(name, str) or not name:
        faults.append(f"{here!r} needs a field.")
        return None
    if name in schema.names:
        return Field((name,), schema.field(name).type)
    path = tuple(name.split("."))
    kind: Any = pa.struct(list(schema))
    for key in path:
        index = kind.get_field_index(key) if pa.types.is_struct(kind) else -1
        if index < 0:
            faults.append(f"{here!r} names the field {name!r}, which does not exist.")
            return None
        kind = kind.field(index).type
    return Field(path, kind)


def _type_fault(kind: str, field: Field, here: str) -> str:
    what = field.type
    numeric = pa.types.is_integer(what) or pa.types.is_floating(what) or pa.types.is_decimal(what)
    moment = pa.types.is_date(what) or pa.types.is_timestamp(what)
    if kind == "terms" and pa.types.is_list(what) and not pa.types.is_nested(what.value_type):
        return ""  # a row counts for each of its values
    if pa.types.is_nested(what) or pa.types.is_null(what):
        return f"{here!r}: {'.'.join(field.path)!r} is {what}, which cannot be aggregated."
    needs_number = kind in ("stats", "extended_stats", "sum", "avg", "percentiles", "histogram")
    if (needs_number and not numeric) or (kind == "range" and not (numeric or moment)):
        return f"{here!r}: {kind} needs numbers, and {'.'.join(field.path)!r} is {what}."
    if kind == "date_histogram" and not moment:
        return f"{here!r}: date_histogram needs dates or times, and {'.'.join(field.path)!r} is {what}."
    return ""


def _percents(options: Mapping[str, Any], faults: list[str], here: str) -> tuple[float, ...]:
    percents = options.get("percents", DEFAULT_PERCENTS)
    if (
        not isinstance(percents, list | tuple)
        or not all(_is_number(p) and 0 <= p <= 100 for p in percents)
        or not percents
    ):
        faults.append(f"{here!r}: percents must be numbers from 0 to 100, not {percents!r}.")
        return ()
    return tuple(float(p) for p in percents)


def _bucket(
    name: str, kind: str, field: Field, options: Mapping[str, Any], inside: Aggregations, faults: list[str]
) -> list[Bucket]:
    """The bucket, unless its options have faults."""
    # Empty intervals between full ones are shown unless asked otherwise: a gap in a chart is a finding.
    arguments: dict[str, Any] = {"min_count": options.get("min_doc_count", 1 if kind == "terms" else 0)}
    own_faults: list[str] = []
    if not _is_count(arguments["min_count"]):
        own_faults.append(f"min_doc_count must be a number from 0 up, not {arguments['min_count']!r}.")
    if kind == "terms":
        arguments |= _terms(options, field, own_faults)
    elif kind == "histogram":
        arguments |= {"interval": options.get("interval"), "offset": options.get("offset", 0)}
        if not _is_number(arguments["interval"]) or arguments["interval"] <= 0 or not _is_number(arguments["offset"]):
            own_faults.append("interval must be a number above 0, and offset a number.")
    elif kind == "date_histogram":
        arguments |= _date_interval(options, own_faults)
        arguments["offset"] = _time_offset(options.get("offset", 0), own_faults)
    else:
        arguments |= {"ranges": _ranges(options.get("ranges"), field, own_faults), "min_count": 0}
    if "extended_bounds" in options:
        arguments["bounds"] = _bounds(options["extended_bounds"], field, own_faults)
    faults += [f"{name!r}: {fault}" for fault in own_faults]
    return [] if own_faults else [Bucket(name, kind, field, inside, **arguments)]


def _terms(options: Mapping[str, Any], field: Field, faults: list[str]) -> dict[str, Any]:
    size, order, missing = options.get("size", 10), options.get("order", {"_count": "desc"}), options.get("missing")
    if not _is_count(size) or size == 0:
        faults.append(f"size must be a number from 1 up, not {size!r}.")
    if not isinstance(order, Mapping) or list(order) not in (["_count"], ["_key"]) or _direction(order) is None:
        faults.append(f'order must be {{"_count": "desc"}} or {{"_key": "asc"}}, not {order!r}.')
        return {}
    if missing is not None and pa.types.is_list(field.type):
        faults.append("missing is not for a field of lists.")
    elif missing is not None:
        missing = _typed(missing, field, faults)
    return {"size": size, "by_key": "_key" in order, "descending": _direction(order) == "desc", "missing": missing}


def _direction(order: Mapping[str, Any]) -> str | None:
    word = str(next(iter(order.values()))).lower()
    return word if word in ("asc", "desc") else None


def _date_interval(options: Mapping[str, Any], faults: list[str]) -> dict[str, Any]:
    names = [k for k in ("fixed_interval", "calendar_interval") if k in options]
    value = str(options[names[0]]) if len(names) == 1 else ""
    if names == ["calendar_interval"] and value in CALENDAR_UNITS:
        return {"unit": CALENDAR_UNITS[value]}
    micros = fixed_micros(value) if names == ["fixed_interval"] else None
    if micros is None:
        units = ", ".join(dict.fromkeys(CALENDAR_UNITS.values()))
        faults.append(f"give either fixed_interval (30s, 5m, 1h, 7d) or calendar_interval ({units}).")
        return {}
    return {"interval": micros}


def _time_offset(value: Any, faults: list[str]) -> int:
    """Microseconds by which intervals start later (`6h`) or earlier (`-1h`)."""
    text = str(value).strip()
    micros = 0 if text in ("0", "") else fixed_micros(text.lstrip("+-"))
    if micros is None:
        faults.append(f"offset must be a length of time such as 6h or -30m, not {value!r}.")
        return 0
    return -micros if text.startswith("-") else micros


def _bounds(value: Any, field: Field, faults: list[str]) -> tuple[Any, Any] | None:
    if not isinstance(value, Mapping) or set(value) != {"min", "max"}:
        faults.append(f'extended_bounds must be {{"min": ..., "max": ...}}, not {value!r}.')
        return None
    low, high = (_typed(value[end], field, faults) for end in ("min", "max"))
    return low, high


def _ranges(entries: Any, field: Field, faults: list[str]) -> tuple[RangeBucket, ...]:
    ranges = []
    for entry in entries if isinstance(entries, list | tuple) else []:
        if not isinstance(entry, Mapping) or set(entry) - {"from", "to", "key"}:
            faults.append(f"a range is a mapping of from, to and key, not {entry!r}.")
            continue
        low, high = entry.get("from"), entry.get("to")
        key = str(entry.get("key") or f"{'*' if low is None else low}-{'*' if high is None else high}")
        typed = [None if v is None else _typed(v, field, faults) for v in (low, high)]
        ranges.append(RangeBucket(key, *typed))
    if not ranges:
        faults.append("ranges must be a list of at least one range.")
    return tuple(ranges)


def _typed(value: Any, field: Field, faults: list[str]) -> Any:
    try:
        return typed_value(value if isinstance(value, str) else _plain(value), field.type)
    except ValueError as e:
        faults.append(f"{e}.")
        return None


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(getattr(value, "isoformat", lambda: value)())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
