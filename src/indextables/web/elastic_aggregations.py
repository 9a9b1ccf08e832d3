"""Elasticsearch aggregations: translate a request to `Table.aggregate`, and its result to a
response.

Every accepted setting has its effect; any other setting is refused by name.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables.errors import InvalidInputError, show_value
from indextables.model.relative_times import parse_moment
from indextables.query.aggregate.result import hashable
from indextables.query.aggregate.spec import fixed_micros
from indextables.web.json_values import float_value
from indextables.web.query_dsl import QueryDsl, options, refuse
from indextables.web.time_formats import TimeFormat, iso_text, millis_of

MOST_AGGREGATIONS = 1_000
_DEEPEST = 20
_SETTINGS: dict[str, tuple[str, ...]] = {
    "terms": (
        "field",
        "size",
        "order",
        "min_doc_count",
        "missing",
        "format",
        "show_term_doc_count_error",
    ),
    "histogram": ("field", "interval", "offset", "min_doc_count", "extended_bounds", "keyed"),
    "date_histogram": (
        *(
            "field",
            "interval",
            "fixed_interval",
            "calendar_interval",
            "offset",
            "min_doc_count",
            "extended_bounds",
        ),
        *("format", "time_zone", "keyed"),
    ),
    "range": ("field", "ranges", "keyed"),
    "stats": ("field",),
    "extended_stats": ("field",),
    "min": ("field", "format"),
    "max": ("field", "format"),
    "sum": ("field",),
    "avg": ("field",),
    "value_count": ("field",),
    "cardinality": ("field", "precision_threshold"),
    "percentiles": ("field", "percents", "keyed"),
}
_BUCKETS = ("terms", "histogram", "date_histogram", "range")
_STATS = ("count", "min", "max", "avg", "sum")
_UTC = ("UTC", "Z", "+00:00")


class AggregationNode(Struct, frozen=True):
    """An aggregation of a request, the name it is computed under, and its sub-aggregations."""

    name: str
    own: str
    kind: str
    settings: dict[str, Any]
    meta: Any = None
    format: TimeFormat | None = None
    inside: tuple[AggregationNode, ...] = ()


class AggregationRequest(Struct, frozen=True):
    """The aggregations of a request, and the specification that computes them under generated
    names.
    """

    nodes: tuple[AggregationNode, ...]
    spec: dict[str, Any]

    @classmethod
    def parse(cls, given: Any, dsl: QueryDsl) -> AggregationRequest:
        """Parse the object `aggs` of a request."""
        nodes, spec = _nodes(given, dsl, count(), 0)
        return cls(nodes, spec)

    def answer(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Build the response from the rows of the specification's result."""
        return _Answer(self.nodes, rows).answers(self.nodes, ())


def _nodes(
    given: Any, dsl: QueryDsl, numbers: Iterator[int], depth: int
) -> tuple[tuple[AggregationNode, ...], dict[str, Any]]:
    if not isinstance(given, Mapping):
        raise InvalidInputError(
            "Aggregations are an object of names.", hint='Write {"levels": {"terms": {...}}}.'
        )
    if depth > _DEEPEST:
        raise InvalidInputError(
            f"Aggregations are nested deeper than {_DEEPEST} times.", hint="Make them flatter."
        )
    nodes, spec = [], {}
    for name, entry in given.items():
        body = dict(entry) if isinstance(entry, Mapping) else {}
        inner_keys = [key for key in ("aggs", "aggregations") if key in body]
        inner = [body.pop(key) for key in inner_keys]
        meta = body.pop("meta", None)
        if len(body) != 1 or len(inner) > 1:
            message = (
                f"The aggregation {show_value(name)} needs exactly one kind, and its aggs once."
            )
            raise InvalidInputError(message, hint=f"Known: {', '.join(_SETTINGS)}.")
        kind, settings = next(iter(body.items()))
        if kind not in _SETTINGS:
            raise refuse(str(kind), known=list(_SETTINGS))
        if meta is not None and not isinstance(meta, Mapping):
            raise InvalidInputError(
                f"meta of {show_value(name)} must be an object.", hint='Write {"any": "thing"}.'
            )
        if inner and kind not in _BUCKETS:
            raise refuse(f"{inner_keys[0]} in {name}, which is {kind},")
        number = next(numbers)
        if number >= MOST_AGGREGATIONS:
            message = f"A request has at most {MOST_AGGREGATIONS:,} aggregations."
            raise InvalidInputError(message, hint="Ask for them in several requests.")
        inside, below = (
            _nodes(inner[0], dsl, numbers, depth + 1) if inner and inner[0] else ((), {})
        )
        found = options(settings, _SETTINGS[kind], f"the aggregation {name!r}")
        node = AggregationNode(str(name), f"a{number}", kind, found, meta, None, inside)
        own, time_format = _own_settings(node, dsl)
        spec[node.own] = {kind: own, **({"aggs": below} if below else {})}
        if kind == "terms":  # for the number of rows with other values
            spec[f"{node.own}v"] = {"value_count": {"field": own["field"]}}
        nodes.append(replace(node, format=time_format))
    return tuple(nodes), spec


def _own_settings(node: AggregationNode, dsl: QueryDsl) -> tuple[dict[str, Any], TimeFormat | None]:
    """Translate the settings of one aggregation to `Table.aggregate`, and return them with the
    format of its times.
    """
    own, name = dict(node.settings), node.name
    own["field"] = dsl.column(own.get("field", ""))
    kind = dsl.fields.schema.field(own["field"]).type
    is_time = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    pattern = own.pop("format", None)
    if pattern is not None and not is_time:
        raise refuse(f"format in {name}, whose field holds no times,")
    if pattern is None:
        time_format = None
    else:
        time_format = TimeFormat.parse(pattern, f"format in {name}")
    for key in ("keyed", "show_term_doc_count_error"):
        value = own.pop(key, False)
        if not isinstance(value, bool) or (value and key != "keyed"):
            raise refuse(f"{key} {show_value(value)} in {name}")
    threshold = own.pop("precision_threshold", 0)  # the count is exact, whatever the threshold
    if not isinstance(threshold, int) or isinstance(threshold, bool) or threshold < 0:
        raise refuse(f"precision_threshold {show_value(threshold)} in {name}")
    if node.kind == "terms":
        if own.get("min_doc_count", 1) == 0:
            raise refuse(f"min_doc_count 0 in {name}", known=["min_doc_count 1"])
        if "order" in own:
            own["order"] = _terms_order(own["order"], name)
    if node.kind == "date_histogram":
        _set_interval(own, name)
    if "extended_bounds" in own:
        own["extended_bounds"] = _bounds(own["extended_bounds"], dsl, name, is_time=is_time)
    if node.kind == "range":
        own["ranges"] = [{**span, "key": f"r{at}"} for at, span in enumerate(_ranges(node))]
    return own, time_format


def _terms_order(order: Any, name: str) -> dict[str, Any]:
    """Parse the order of buckets. Ties are ordered by key."""
    entries = order if isinstance(order, list) else [order]
    if not entries or not all(isinstance(entry, Mapping) and len(entry) == 1 for entry in entries):
        raise InvalidInputError(
            f"order in {name!r} is not understood.", hint='Write {"_count": "desc"}.'
        )
    first, *others = (
        {{"_term": "_key"}.get(key, str(key)): value for key, value in e.items()} for e in entries
    )
    if any(other != {"_key": "asc"} for other in others) or (others and "_count" not in first):
        raise refuse(f"a second order in {name}", known=['{"_key": "asc"}'])
    return first


def _set_interval(own: dict[str, Any], name: str) -> None:
    if own.pop("time_zone", "UTC") not in _UTC:
        raise refuse(f"time_zone in {name}", known=["UTC"])
    interval = own.pop("interval", None)
    if interval is not None:
        own["fixed_interval" if fixed_micros(str(interval)) else "calendar_interval"] = str(
            interval
        )
    fixed = own.get("fixed_interval")
    if fixed is not None and fixed_micros(str(fixed)) is None:
        raise InvalidInputError(
            f"{show_value(fixed)} is no interval.", hint="Write 30s, 5m, 1h or 7d."
        )


def _bounds(value: Any, dsl: QueryDsl, name: str, *, is_time: bool) -> dict[str, Any]:
    """Parse the bounds of a histogram: numbers, or times in milliseconds since 1970 or as text."""
    given = options(value, ["min", "max"], f"extended_bounds of {name!r}")
    if set(given) != {"min", "max"}:
        raise InvalidInputError(
            f"extended_bounds of {name!r} need min and max.", hint='Write {"min": 0, "max": 9}.'
        )
    return {
        end: _moment_text(bound, dsl, name) if is_time else bound for end, bound in given.items()
    }


def _moment_text(value: Any, dsl: QueryDsl, name: str) -> str:
    text = str(value)
    try:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError(value)
        if text.lstrip("-").isascii() and text.lstrip("-").isdigit():
            moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=int(text))
        else:
            moment = parse_moment(text, dsl.now)
    except (ValueError, OverflowError):
        hint = "Write milliseconds since 1970, or a time such as 2026-11-01T12:00:00Z or now-1d."
        raise InvalidInputError(
            f"{show_value(value)} in extended_bounds of {name!r} is not a time.", hint=hint
        ) from None
    return moment.isoformat()


def _ranges(node: AggregationNode) -> list[dict[str, Any]]:
    """Return the ranges ordered by lower bound, then by upper bound."""
    given = node.settings.get("ranges")
    if not isinstance(given, list) or not given:
        message = f"The aggregation {node.name!r} needs a list of ranges."
        raise InvalidInputError(message, hint='Write [{"to": 10}, {"from": 10}].')
    spans = []
    for entry in given:
        span = options(entry, ["from", "to", "key"], f"a range of {node.name!r}")
        for end in ("from", "to"):
            value = span.get(end, 0)
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, int | float)
            ):
                raise refuse(f"{end} {show_value(value)} of a range in {node.name}")
        spans.append(span)

    def place(span: Mapping[str, Any]) -> tuple[float, float]:
        low, high = span.get("from"), span.get("to")
        return -math.inf if low is None else low, math.inf if high is None else high

    return sorted(spans, key=place)


Chain = tuple[tuple[str, Any], ...]


class _Answer:
    """The rows of a result, grouped by their buckets."""

    def __init__(self, nodes: Sequence[AggregationNode], rows: Sequence[Mapping[str, Any]]) -> None:
        names = _bucket_names(nodes)
        self._rows: dict[Chain, Mapping[str, Any]] = {}
        self._below: dict[tuple[Chain, str], list[tuple[Any, Mapping[str, Any]]]] = {}
        for row in rows:
            present = [(name, row[name]) for name in names if row.get(name) is not None]
            chain: Chain = tuple(
                zip((n for n, _ in present), hashable(tuple(k for _, k in present)), strict=True)
            )
            self._rows[chain] = row
            if chain:
                self._below.setdefault((chain[:-1], chain[-1][0]), []).append((present[-1][1], row))

    def answers(self, nodes: Sequence[AggregationNode], chain: Chain) -> dict[str, Any]:
        """Build the responses of the aggregations within a chain of buckets."""
        row = self._rows.get(chain, {})
        found = {}
        for node in nodes:
            if node.kind in _BUCKETS:
                answer = self._buckets(node, chain)
            else:
                answer = _metric(node, row)
            found[node.name] = answer if node.meta is None else {"meta": node.meta, **answer}
        return found

    def _buckets(self, node: AggregationNode, chain: Chain) -> dict[str, Any]:
        own = self._below.get((chain, node.own), [])
        spans = _ranges(node) if node.kind == "range" else []
        buckets: list[dict[str, Any]] = []
        for key, row in own:
            if spans:
                shown_key = _span(spans[int(key[1:])])
            else:
                shown_key = _key(key, node)
            here = (*chain, (node.own, hashable((key,))[0]))
            buckets.append(
                {**shown_key, "doc_count": row["count"], **self.answers(node.inside, here)}
            )
        if node.settings.get("keyed"):
            names = [str(bucket.get("key_as_string", bucket["key"])) for bucket in buckets]
            return {"buckets": dict(zip(names, buckets, strict=True))}
        if node.kind != "terms":
            return {"buckets": buckets}
        others = self._others(node, chain, own)
        return {"doc_count_error_upper_bound": 0, "sum_other_doc_count": others, "buckets": buckets}

    def _others(
        self, node: AggregationNode, chain: Chain, own: Sequence[tuple[Any, Mapping[str, Any]]]
    ) -> int:
        """Return the number of rows whose values are not among the returned buckets."""
        row = self._rows.get(chain, {})
        whole = int(
            row.get("count" if node.settings.get("missing") is not None else f"{node.own}v") or 0
        )
        return max(0, whole - sum(int(row["count"]) for _, row in own))


def _bucket_names(nodes: Sequence[AggregationNode]) -> list[str]:
    return [
        name
        for node in nodes
        if node.kind in _BUCKETS
        for name in (node.own, *_bucket_names(node.inside))
    ]


def _metric(node: AggregationNode, row: Mapping[str, Any]) -> dict[str, Any]:
    if node.kind == "percentiles":
        prefix = f"{node.own}.p"
        values = {
            float(k[len(prefix) :]): _number(v) for k, v in row.items() if k.startswith(prefix)
        }
        if node.settings.get("keyed") is False:
            return {
                "values": [{"key": percent, "value": value} for percent, value in values.items()]
            }
        return {"values": {str(percent): value for percent, value in values.items()}}
    if node.kind in ("stats", "extended_stats"):
        parts = {part: _number(row.get(f"{node.own}.{part}")) for part in _STATS}
        parts |= {"count": parts["count"] or 0, "sum": parts["sum"] or 0.0}
        if node.kind == "stats":
            return parts
        return {**parts, **_spread(node, row, parts)}
    value = row.get(node.own)
    if node.kind in ("value_count", "cardinality"):
        return {"value": value or 0}
    found = {"value": _number(value)}
    if isinstance(value, dt.date):
        return {**found, "value_as_string": _time_text(value, node)}
    return found


def _spread(
    node: AggregationNode, row: Mapping[str, Any], stats: Mapping[str, Any]
) -> dict[str, Any]:
    """Return variance and standard deviation, of the values as a population and as a sample."""
    number, mean = stats["count"], row.get(f"{node.own}.avg")
    squares, variance = (row.get(f"{node.own}.{part}") for part in ("sum_of_squares", "variance"))
    if variance is None or number < 2:
        sampled = None
    else:
        sampled = variance * number / (number - 1)
    deviation, sample = (None if v is None else math.sqrt(v) for v in (variance, sampled))

    def deviation_bound(spread: float | None, factor: int) -> Any:
        if spread is None or mean is None:
            return None
        return _number(mean + factor * spread)

    population = {"upper": deviation_bound(deviation, 2), "lower": deviation_bound(deviation, -2)}
    bounds = {
        **population,
        **{f"{end}_population": value for end, value in population.items()},
        "upper_sampling": deviation_bound(sample, 2),
        "lower_sampling": deviation_bound(sample, -2),
    }
    return {
        "sum_of_squares": _number(squares),
        "variance": _number(variance),
        "variance_population": _number(variance),
        "variance_sampling": _number(sampled),
        "std_deviation": _number(deviation),
        "std_deviation_population": _number(deviation),
        "std_deviation_sampling": _number(sample),
        "std_deviation_bounds": bounds,
    }


def _key(key: Any, node: AggregationNode) -> dict[str, Any]:
    if isinstance(key, bool):
        return {"key": int(key), "key_as_string": str(key).lower()}
    if isinstance(key, dt.date):
        return {"key_as_string": _time_text(key, node), "key": millis_of(key)}
    return {"key": _number(key)}


def _span(span: Mapping[str, Any]) -> dict[str, Any]:
    """Return the bucket of a range: its key and its bounds."""
    bounds = {end: span[end] for end in ("from", "to") if span.get(end) is not None}
    low, high = (bounds.get(end, "*") for end in ("from", "to"))
    return {"key": str(span.get("key") or f"{low}-{high}"), **bounds}


def _time_text(value: dt.date, node: AggregationNode) -> str:
    return str(iso_text(value) if node.format is None else node.format.text(value))


def _number(value: Any) -> Any:
    if isinstance(value, dt.date):
        return millis_of(value)
    if isinstance(value, float):
        return float_value(value)
    if value is None or isinstance(value, int | str):
        return value
    return float(value)
