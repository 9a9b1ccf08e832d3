"""Parse the specification of aggregations to a tree: frozen, picklable, checked against a schema,
with all faults in one error.

A date histogram groups by a fixed interval or by the calendar.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables.errors import IndexTablesError, InvalidInputError
from indextables.model.column_names import ColumnNames
from indextables.model.predicate import Predicate, bound_predicate, columns_of
from indextables.model.values import micros_of, parse_float
from indextables.splits.index.values import normal_key
from indextables.splits.query.terms import typed_value

_SHORT = {
    "1m": "minute",
    "1h": "hour",
    "1d": "day",
    "1w": "week",
    "1M": "month",
    "1q": "quarter",
    "1y": "year",
}
CALENDAR_UNITS = {**{unit: unit for unit in _SHORT.values()}, **_SHORT}
_MICROS = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}


def fixed_micros(text: str) -> int | None:
    """Return the microseconds of `500ms`, `30s`, `5m`, `1h` or `7d`, or None."""
    match = re.fullmatch(r"(\d{1,9})(ms|s|m|h|d)", text.strip())
    if match:
        return int(match[1]) * _MICROS[match[2]] or None
    return None


METRICS = (
    "stats",
    "extended_stats",
    "min",
    "max",
    "sum",
    "avg",
    "value_count",
    "cardinality",
    "percentiles",
    "top_hits",
)
BUCKETS = (
    "terms",
    "histogram",
    "date_histogram",
    "range",
    "filter",
    "filters",
    "multi_terms",
    "composite",
)
_NUMBERS = ("stats", "extended_stats", "sum", "avg", "percentiles", "histogram")
COUNT, WHICH = "count", "aggregation"
"""Columns of every result. Aggregations cannot have these names."""
DEFAULT_PERCENTS = (1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0)
_OPTIONS = {
    "terms": {"field", "size", "order", "min_doc_count", "missing"},
    "histogram": {"field", "interval", "offset", "min_doc_count", "extended_bounds"},
    "date_histogram": {
        "field",
        "fixed_interval",
        "calendar_interval",
        "offset",
        "time_zone",
        "min_doc_count",
        "extended_bounds",
    },
    "range": {"field", "ranges"},
    "filter": {"where"},
    "filters": {"filters"},
    "multi_terms": {"terms", "size", "order", "min_doc_count"},
    "composite": {"sources", "size", "after"},
    "percentiles": {"field", "percents"},
    "top_hits": {"columns", "sort", "size"},
}
MAX_HITS = 1_000
MAX_OVERLAPPING = 1_000
"""Maximum number of ranges of one aggregation that overlap at a value."""
_SHOWN_FAULTS = 20


class Field(Struct, frozen=True):
    """A column, or a field inside a struct column, with its type."""

    path: tuple[str, ...]
    type: pa.DataType
    is_json: bool = False
    """Whether it is a path of a JSON column: a list of its texts, or of its numbers."""

    @property
    def element_type(self) -> pa.DataType:
        """Return the type of one value, where a row may have several."""
        if pa.types.is_list(self.type):
            return self.type.value_type
        return self.type

    def renamed(self, names: ColumnNames) -> Field:
        """Return the same field with physical names."""
        if self.is_json:
            below = names.document_path(
                self.path[0], [normal_key(key) for key in self.path[1:]], normal_key
            )
            return replace(self, path=(names.column(self.path[0]), *below))
        return replace(self, path=names.path(self.path))


class Metric(Struct, frozen=True):
    """One or several numbers computed from the values of a field."""

    name: str
    kind: str
    field: Field
    percents: tuple[float, ...] = ()
    hits: tuple[Field, ...] = ()
    """The columns that `top_hits` returns."""
    labels: tuple[str, ...] = ()
    """Logical names of those columns."""
    sort: tuple[tuple[Field, bool], ...] = ()
    """Sort order of those rows, with direction."""
    size: int = 3


class RangeBucket(Struct, frozen=True):
    """Values from a bound (inclusive) to a bound (exclusive); None is open."""

    key: str
    low: Any
    high: Any


class FilterBucket(Struct, frozen=True):
    """Rows for which a bound condition is true."""

    key: str
    where: Predicate


class Bucket(Struct, frozen=True):
    """Rows grouped by a key that is derived from a field, or by conditions."""

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
    """Additional columns of conditions."""
    bounds: tuple[Any, Any] | None = None
    """Values that a histogram includes at least."""
    time_zone: str | None = None
    sources: tuple[Bucket, ...] = ()
    """The parts of a composite key."""
    after: tuple[Any, ...] | None = None
    """The key after which the buckets of a composite begin."""

    @property
    def labels(self) -> tuple[str, ...] | None:
        """Return the keys of buckets that are numbered and always returned; None if keys come from
        the rows.
        """
        return (
            tuple([span.key for span in self.ranges] + [part.key for part in self.filters]) or None
        )


class Aggregations(Struct, frozen=True):
    """The aggregations of one group of rows."""

    metrics: tuple[Metric, ...] = ()
    buckets: tuple[Bucket, ...] = ()


def renamed(aggregations: Aggregations, names: ColumnNames) -> Aggregations:
    """Return the same aggregations with physical column names."""
    metrics = (
        replace(
            metric,
            field=metric.field.renamed(names),
            hits=tuple(field.renamed(names) for field in metric.hits),
            sort=tuple((field.renamed(names), down) for field, down in metric.sort),
        )
        for metric in aggregations.metrics
    )
    return Aggregations(
        tuple(metrics), tuple(_renamed_bucket(bucket, names) for bucket in aggregations.buckets)
    )


def _renamed_bucket(bucket: Bucket, names: ColumnNames) -> Bucket:
    return replace(
        bucket,
        field=bucket.field.renamed(names),
        inside=renamed(bucket.inside, names),
        more_fields=tuple(field.renamed(names) for field in bucket.more_fields),
        filters=tuple(replace(part, where=names.predicate(part.where)) for part in bucket.filters),
        sources=tuple(_renamed_bucket(source, names) for source in bucket.sources),
    )


class AggregatedColumns(Struct, frozen=True):
    """The columns that a specification can name."""

    schema: pa.Schema
    json: frozenset[str] = frozenset()
    """Columns whose texts are JSON documents with paths."""


def parse_spec(
    spec: Mapping[str, Any], schema: pa.Schema, json_columns: Iterable[str] = ()
) -> Aggregations:
    """Parse a specification. Raises one error that lists every fault and the known names."""
    faults: list[str] = []
    aggregations = _aggregations(
        spec, AggregatedColumns(schema, frozenset(json_columns)), faults, ""
    )
    names = [name for name, _ in _names(aggregations)]
    faults += [
        f"No aggregation can be called {n!r}." for n in names if n in (COUNT, WHICH, "") or "." in n
    ]
    faults += [
        f"The name {name!r} is used twice."
        for name, times in sorted(Counter(names).items())
        if times > 1
    ]
    if faults:
        hint = f"Known: {', '.join((*BUCKETS, *METRICS))}. Columns: {', '.join(schema.names)}."
        message = (
            f"The aggregations have {len(faults)} fault(s): {' '.join(faults[:_SHOWN_FAULTS])}"
        )
        message += (
            f" And {len(faults) - _SHOWN_FAULTS} more." if len(faults) > _SHOWN_FAULTS else ""
        )
        raise InvalidInputError(message, hint=hint, faults=faults, columns=schema.names)
    return aggregations


def fields_of(aggregations: Aggregations) -> Iterator[Field]:
    """Return every field that is used."""
    for metric in aggregations.metrics:
        yield metric.field
        yield from metric.hits
        yield from (field for field, _ in metric.sort)
    for bucket in aggregations.buckets:
        yield bucket.field
        yield from bucket.more_fields
        yield from (source.field for source in bucket.sources)
        yield from fields_of(bucket.inside)


def _names(aggregations: Aggregations) -> Iterator[tuple[str, Metric | Bucket]]:
    yield from ((m.name, m) for m in aggregations.metrics)
    for bucket in aggregations.buckets:
        yield bucket.name, bucket
        yield from _names(bucket.inside)


def _aggregations(
    spec: Any, columns: AggregatedColumns, faults: list[str], place: str
) -> Aggregations:
    metrics: list[Metric] = []
    buckets: list[Bucket] = []
    if not isinstance(spec, Mapping) or not spec:
        faults.append(f"{place or 'The specification'} must be a mapping of names to aggregations.")
        return Aggregations()
    for name, entry in spec.items():
        here = f"{place}{name}"
        if isinstance(entry, Mapping):
            inside = {k: v for k, v in entry.items() if k in ("aggs", "aggregations")}
        else:
            inside = {}
        if isinstance(entry, Mapping):
            kinds = [k for k in entry if k not in inside]
        else:
            kinds = []
        if (
            len(kinds) != 1
            or kinds[0] not in (*BUCKETS, *METRICS)
            or not isinstance(entry[kinds[0]], Mapping)
        ):
            faults.append(
                f"{here!r} must hold exactly one known aggregation with its options, not {entry!r}."
            )
            continue
        kind, options = kinds[0], entry[kinds[0]]
        unknown = set(options) - _OPTIONS.get(kind, {"field"})
        faults += [
            f"{here!r} has the option {option!r}, which {kind} does not know."
            for option in sorted(unknown)
        ]
        if kind in METRICS:
            faults += (
                [f"{here!r} is a metric and cannot hold other aggregations."] if inside else []
            )
            metrics += _metric(str(name), kind, options, columns, faults, here)
            continue
        below = [_aggregations(v, columns, faults, f"{here}.") for v in inside.values()]
        buckets += _any_bucket(
            str(name), kind, options, below[0] if below else Aggregations(), columns, faults, here
        )
    return Aggregations(tuple(metrics), tuple(buckets))


def _metric(
    name: str,
    kind: str,
    options: Mapping[str, Any],
    columns: AggregatedColumns,
    faults: list[str],
    here: str,
) -> list[Metric]:
    if kind == "top_hits":
        return _top_hits(name, options, columns, faults, here)
    field = _field(options.get("field"), kind, columns, faults, here)
    if field is None:
        return []
    fault = _type_fault(kind, field, here)
    if fault:
        faults.append(fault)
        return []
    return [Metric(name, kind, field, _percents(options, faults, here))]


def _any_bucket(
    name: str,
    kind: str,
    options: Mapping[str, Any],
    inside: Aggregations,
    columns: AggregatedColumns,
    faults: list[str],
    here: str,
) -> list[Bucket]:
    """Return a bucket of any kind, or None if its options have faults."""
    if kind in ("filter", "filters"):
        return _filters(name, options, inside, columns.schema, faults)
    if kind in ("multi_terms", "composite"):
        return _composite(name, kind, options, inside, columns, faults)
    field = _field(options.get("field"), kind, columns, faults, here)
    if field is None:
        return []
    fault = _type_fault(kind, field, here)
    if fault:
        faults.append(fault)
        return []
    return _bucket(name, kind, field, options, inside, faults)


def _top_hits(
    name: str, options: Mapping[str, Any], columns: AggregatedColumns, faults: list[str], here: str
) -> list[Metric]:
    """Parse `top_hits`: the first rows of a group by an order."""
    schema = columns.schema
    shown, sort, size = (
        options.get("columns", schema.names),
        options.get("sort"),
        options.get("size", 3),
    )
    before = len(faults)
    if (
        not isinstance(shown, list | tuple)
        or not shown
        or any(column not in schema.names for column in shown)
    ):
        faults.append(f"{here!r}: columns must be a list of columns, not {shown!r}.")
    elif len(set(shown)) < len(shown):
        faults.append(f"{here!r}: columns must name each column once, not {shown!r}.")
    if not _is_count(size) or not 0 < size <= MAX_HITS:
        faults.append(f"{here!r}: size must be a number from 1 to {MAX_HITS}, not {size!r}.")
    orders: list[tuple[Field, bool]] = []
    for text in [sort] if isinstance(sort, str) else sort if isinstance(sort, list | tuple) else []:
        if isinstance(text, Mapping):
            word = _sort_text(text)
        else:
            word = str(text)
        column, _, direction = (
            word.rpartition(" ") if word.lower().endswith((" asc", " desc")) else (word, "", "")
        )
        down = direction.lower() == "desc" or column.startswith("-")
        field = _field(column.removeprefix("-").strip(), "top_hits", columns, faults, here)
        if field is None:
            continue
        if pa.types.is_nested(field.type):
            faults.append(f"{here!r}: rows cannot be sorted by {column!r}, which is {field.type}.")
        orders.append((field, down))
    if not orders and len(faults) == before:
        faults.append(f'{here!r} needs a sort, such as "ts desc" or ["level", "-ts"].')
    if len(faults) > before:
        return []
    fields = tuple(Field((column,), schema.field(column).type) for column in shown)
    return [
        Metric(
            name,
            "top_hits",
            orders[0][0],
            hits=fields,
            labels=tuple(shown),
            sort=tuple(orders),
            size=size,
        )
    ]


def _sort_text(entry: Mapping[str, Any]) -> str:
    """Return `{"ts": "desc"}` and `{"ts": {"order": "desc"}}` as a text."""
    name, how = next(iter(entry.items()), ("", ""))
    return f"{name} {how.get('order', 'asc') if isinstance(how, Mapping) else how}"


def _composite(
    name: str,
    kind: str,
    options: Mapping[str, Any],
    inside: Aggregations,
    columns: AggregatedColumns,
    faults: list[str],
) -> list[Bucket]:
    """Parse `composite`: a bucket for each combination of the keys of several sources."""
    own: list[str] = []
    sources = [
        bucket
        for part, source, given in _sources(kind, options, own)
        for bucket in _any_bucket(part, source, given, Aggregations(), columns, own, part)
    ]
    twice = [
        source.name
        for n, source in enumerate(sources)
        if source.name in [s.name for s in sources[:n]]
    ]
    own += [f"the part {part!r} is there twice." for part in twice]
    arguments: dict[str, Any] = {"min_count": options.get("min_doc_count", 1)}
    if not _is_count(arguments["min_count"]):
        own.append(f"min_doc_count must be a number from 0 up, not {arguments['min_count']!r}.")
    if kind == "multi_terms" and sources:
        arguments |= _terms(
            {k: v for k, v in options.items() if k in ("size", "order")}, sources[0].field, own
        )
    elif not _is_count(options.get("size", 10)) or options.get("size", 10) == 0:
        own.append(f"size must be a number from 1 up, not {options['size']!r}.")
    else:
        arguments |= {"size": options.get("size", 10), "by_key": True, "descending": False}
    after = options.get("after")
    if after is not None and not own:
        if not isinstance(after, Mapping) or set(after) != {source.name for source in sources}:
            own.append(f"after must have a value for each of the sources, not {after!r}.")
        else:
            arguments["after"] = tuple(
                _after(after[source.name], source, own) for source in sources
            )
    faults += [f"{name!r}: {fault}" for fault in own]
    if own:
        return []
    return [Bucket(name, kind, sources[0].field, inside, sources=tuple(sources), **arguments)]


def _after(value: Any, source: Bucket, faults: list[str]) -> Any:
    """Parse a part of the previous page's last key."""
    if source.kind == "histogram":
        if not _is_number(value):
            faults.append(f"after has {value!r} for {source.name!r}, which is no number.")
        return value
    kind = source.field.element_type
    if pa.types.is_floating(kind) and isinstance(value, float | str):
        try:
            return parse_float(
                str(value)
            )  # NaN and the infinite ones are keys too, and JSON has them as text
        except ValueError:
            pass
    return _parse_value(value, replace(source.field, type=kind), faults)


def _sources(
    kind: str, options: Mapping[str, Any], faults: list[str]
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Return name, kind and options of each part of a composite key."""
    given = options.get("terms" if kind == "multi_terms" else "sources")
    if not isinstance(given, list | tuple) or len(given) < (2 if kind == "multi_terms" else 1):
        several, one = (
            '"terms": [{"field": "a"}, {"field": "b"}]',
            '"sources": [{"a": {"terms": {"field": "a"}}}]',
        )
        faults.append(f"{kind} needs {several if kind == 'multi_terms' else one}.")
        return
    for entry in given:
        if kind == "multi_terms" and isinstance(entry, Mapping) and set(entry) == {"field"}:
            yield str(entry["field"]), "terms", entry
            continue
        if isinstance(entry, Mapping) and len(entry) == 1:
            named = next(iter(entry.items()))
        else:
            named = ("", None)
        if isinstance(named[1], Mapping) and len(named[1]) == 1:
            inner = next(iter(named[1].items()))
        else:
            inner = ("", None)
        if (
            kind == "multi_terms"
            or inner[0] not in ("terms", "histogram", "date_histogram")
            or not isinstance(inner[1], Mapping)
        ):
            faults.append(f"{entry!r} is no part of {kind}.")
            continue
        unknown = set(inner[1]) - (_OPTIONS[inner[0]] | {"order"})
        faults.extend(
            f"{named[0]!r} has the option {option!r}, which {inner[0]} does not know."
            for option in sorted(unknown)
        )
        order = str(inner[1].get("order", "asc")).lower()
        if order != "asc":
            faults.append(f"{named[0]!r}: the parts of a composite are in ascending order.")
        yield str(named[0]), inner[0], {k: v for k, v in inner[1].items() if k != "order"}


def _filters(
    name: str,
    options: Mapping[str, Any],
    inside: Aggregations,
    schema: pa.Schema,
    faults: list[str],
) -> list[Bucket]:
    """Parse `filters`: a bucket for each condition, or None if one of them has a fault."""
    given = {name: options["where"]} if "where" in options else options.get("filters")
    if not isinstance(given, Mapping) or not given:
        faults.append(
            f'{name!r} needs conditions: {{"where": "n > 5"}}, or {{"filters": {{"big": "n > 5"}}}}.'
        )
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
            faults.append(f"{name!r}: the condition of {key!r} uses no column.")
            return []
        parts.append(FilterBucket(str(key), bound))
    columns = dict.fromkeys(column for part in parts for column in columns_of(part.where))
    fields = tuple(Field((column,), schema.field(column).type) for column in columns)
    return [
        Bucket(
            name,
            "filters",
            fields[0],
            inside,
            filters=tuple(parts),
            more_fields=fields,
            min_count=0,
        )
    ]


def _field(
    name: Any, kind: str, columns: AggregatedColumns, faults: list[str], here: str
) -> Field | None:
    schema = columns.schema
    if not isinstance(name, str) or not name:
        faults.append(f"{here!r} needs a field.")
        return None
    if name in schema.names:
        return Field((name,), schema.field(name).type)
    path = tuple(name.split("."))
    column = next(
        (
            ".".join(path[:n])
            for n in range(len(path) - 1, 0, -1)
            if ".".join(path[:n]) in schema.names
        ),
        "",
    )
    below = path[column.count(".") + 1 :]
    what: Any = schema.field(column).type if column else pa.null()
    for number, key in enumerate(below):
        if pa.types.is_struct(what):
            index = what.get_field_index(key)
        else:
            index = -1
        if index < 0 and column in columns.json and (number or not pa.types.is_struct(what)):
            # A document may hold anything: texts are grouped, numbers are measured.
            if kind in (*_NUMBERS, "min", "max", "range"):
                values = pa.float64()
            else:
                values = pa.string()
            return Field((column, *below), pa.list_(values), is_json=True)
        if index < 0:
            faults.append(f"{here!r} names the field {name!r}, which does not exist.")
            return None
        what = what.field(index).type
    if not column:
        faults.append(f"{here!r} names the field {name!r}, which does not exist.")
        return None
    return Field((column, *below), what)


def _type_fault(kind: str, field: Field, here: str) -> str:
    what = field.element_type  # a row counts for each of its values
    numeric = pa.types.is_integer(what) or pa.types.is_floating(what) or pa.types.is_decimal(what)
    moment = pa.types.is_date(what) or pa.types.is_timestamp(what)
    if pa.types.is_nested(what) or pa.types.is_null(what):
        return f"{here!r}: {'.'.join(field.path)!r} is {field.type}, which cannot be aggregated."
    if (kind in _NUMBERS and not numeric) or (kind == "range" and not (numeric or moment)):
        return f"{here!r}: {kind} needs numbers, and {'.'.join(field.path)!r} is {field.type}."
    if kind == "date_histogram" and not moment:
        return f"{here!r}: date_histogram needs dates or times, and {'.'.join(field.path)!r} is {field.type}."
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
    name: str,
    kind: str,
    field: Field,
    options: Mapping[str, Any],
    inside: Aggregations,
    faults: list[str],
) -> list[Bucket]:
    """Return the bucket, or None if its options have faults."""
    # Empty intervals between full ones are shown unless asked otherwise: a gap in a chart is a
    # finding.
    arguments: dict[str, Any] = {
        "min_count": options.get("min_doc_count", 1 if kind == "terms" else 0)
    }
    own_faults: list[str] = []
    if not _is_count(arguments["min_count"]):
        own_faults.append(
            f"min_doc_count must be a number from 0 up, not {arguments['min_count']!r}."
        )
    if kind == "terms":
        arguments |= _terms(options, field, own_faults)
    elif kind == "histogram":
        arguments |= {"interval": options.get("interval"), "offset": options.get("offset", 0)}
        if (
            not _is_number(arguments["interval"])
            or arguments["interval"] <= 0
            or not _is_number(arguments["offset"])
        ):
            own_faults.append("interval must be a number above 0, and offset a number.")
    elif kind == "date_histogram":
        arguments |= _date_interval(options, own_faults)
        arguments["offset"] = _time_offset(options.get("offset", 0), own_faults)
        arguments["time_zone"] = _time_zone(options, field, own_faults)
    else:
        arguments |= {"ranges": _ranges(options.get("ranges"), field, own_faults), "min_count": 0}
    if "extended_bounds" in options:
        arguments["bounds"] = _bounds(options["extended_bounds"], field, own_faults)
    faults += [f"{name!r}: {fault}" for fault in own_faults]
    if own_faults:
        return []
    return [Bucket(name, kind, field, inside, **arguments)]


def _terms(options: Mapping[str, Any], field: Field, faults: list[str]) -> dict[str, Any]:
    size, order, missing = (
        options.get("size", 10),
        options.get("order", {"_count": "desc"}),
        options.get("missing"),
    )
    if not _is_count(size) or size == 0:
        faults.append(f"size must be a number from 1 up, not {size!r}.")
    if (
        not isinstance(order, Mapping)
        or list(order) not in (["_count"], ["_key"])
        or _direction(order) is None
    ):
        faults.append(f'order must be {{"_count": "desc"}} or {{"_key": "asc"}}, not {order!r}.')
        return {}
    if missing is not None and pa.types.is_list(field.type):
        faults.append("missing is not for a field of lists.")
    elif missing is not None:
        missing = _parse_value(missing, field, faults)
    return {
        "size": size,
        "by_key": "_key" in order,
        "descending": _direction(order) == "desc",
        "missing": missing,
    }


def _direction(order: Mapping[str, Any]) -> str | None:
    word = str(next(iter(order.values()))).lower()
    if word in ("asc", "desc"):
        return word
    return None


def _date_interval(options: Mapping[str, Any], faults: list[str]) -> dict[str, Any]:
    names = [k for k in ("fixed_interval", "calendar_interval") if k in options]
    value = str(options[names[0]]) if len(names) == 1 else ""
    if names == ["calendar_interval"] and value in CALENDAR_UNITS:
        return {"unit": CALENDAR_UNITS[value]}
    if names == ["fixed_interval"]:
        micros = fixed_micros(value)
    else:
        micros = None
    if micros is None:
        units = ", ".join(dict.fromkeys(CALENDAR_UNITS.values()))
        faults.append(
            f"give either fixed_interval (30s, 5m, 1h, 7d) or calendar_interval ({units})."
        )
        return {}
    return {"interval": micros}


def _time_zone(options: Mapping[str, Any], field: Field, faults: list[str]) -> str | None:
    """Return the time zone of days, weeks and months. A fixed interval begins at `offset`."""
    zone = options.get("time_zone")
    if zone is None:
        return None
    kind = field.element_type
    if "calendar_interval" not in options:
        faults.append("time_zone goes with calendar_interval; a fixed_interval is moved by offset.")
    elif not pa.types.is_timestamp(kind) or kind.tz is None:
        faults.append(
            f"time_zone needs times with a zone, and {'.'.join(field.path)!r} is {field.type}."
        )
    else:
        try:
            zoneinfo.ZoneInfo(zone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, TypeError, OSError):
            faults.append(f"time_zone must be a name such as Europe/Berlin or UTC, not {zone!r}.")
    return str(zone)


def _time_offset(value: Any, faults: list[str]) -> int:
    """Return the microseconds by which intervals start later (`6h`) or earlier (`-1h`)."""
    text = str(value).strip()
    micros = 0 if text in ("0", "") else fixed_micros(text.lstrip("+-"))
    if micros is None:
        faults.append(f"offset must be a length of time such as 6h or -30m, not {value!r}.")
        return 0
    if text.startswith("-"):
        return -micros
    return micros


def _bounds(value: Any, field: Field, faults: list[str]) -> tuple[Any, Any] | None:
    if not isinstance(value, Mapping) or set(value) != {"min", "max"}:
        faults.append(f'extended_bounds must be {{"min": ..., "max": ...}}, not {value!r}.')
        return None
    low, high = (_parse_value(value[end], field, faults) for end in ("min", "max"))
    return low, high


def _ranges(entries: Any, field: Field, faults: list[str]) -> tuple[RangeBucket, ...]:
    ranges = []
    for entry in entries if isinstance(entries, list | tuple) else []:
        if not isinstance(entry, Mapping) or set(entry) - {"from", "to", "key"}:
            faults.append(f"a range is a mapping of from, to and key, not {entry!r}.")
            continue
        low, high = entry.get("from"), entry.get("to")
        key = str(
            entry.get("key") or f"{'*' if low is None else low}-{'*' if high is None else high}"
        )
        typed = [None if v is None else _parse_value(v, field, faults) for v in (low, high)]
        ranges.append(RangeBucket(key, *typed))
    if not ranges:
        faults.append("ranges must be a list of at least one range.")
    elif not faults and _overlapping(ranges) > MAX_OVERLAPPING:
        faults.append(f"more than {MAX_OVERLAPPING:,} of the ranges overlap each other.")
    return tuple(ranges)


def _overlapping(ranges: Sequence[RangeBucket]) -> int:
    """Return the maximum number of ranges that overlap at a value."""
    bounds = (
        [span.low for span in ranges if span.low is not None],
        [span.high for span in ranges if span.high is not None],
    )
    opened, closed = (sorted(map(_comparable, ends)) for ends in bounds)
    count = most = len(ranges) - len(opened)
    for number, low in enumerate(opened):
        count = len(ranges) - len(opened) + number + 1 - bisect_right(closed, low)
        most = max(most, count)
    return most


def _comparable(bound: Any) -> Any:
    """Return a bound of any column as a number."""
    if isinstance(bound, datetime.date):
        return micros_of(bound)
    return bound


def _parse_value(value: Any, field: Field, faults: list[str]) -> Any:
    try:
        return typed_value(value if isinstance(value, str) else _plain(value), field.element_type)
    except ValueError as e:
        faults.append(f"{e}.")
        return None


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(getattr(value, "isoformat", lambda: value)())


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
