"""Elasticsearch search requests over a table: hits, totals, sorts, highlights and aggregations.

    answer = ElasticSearch(table, "logs").search({"query": {"match": {"message": "timeout"}},
        "size": 5})

A part of a request that is not supported is refused by name. Every accepted part has its effect.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from html import unescape
from typing import Any

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables.errors import InvalidInputError, show_value
from indextables.inspect.figures import column_figures
from indextables.query.aggregate.result import aggregate_table
from indextables.query.aggregate.spec import fixed_micros
from indextables.query.plan import plan_scan, query_fields
from indextables.query.search import TableSearch
from indextables.query.task import ScanTask
from indextables.splits.index.mapping import is_text
from indextables.splits.query import tree
from indextables.splits.search.snippets import Snippet, snippets
from indextables.table import Table
from indextables.web.elastic_aggregations import AggregationRequest
from indextables.web.exploration import column_mappings, hit_count
from indextables.web.hit_order import HitOrder, HitPosition, numbers_of, parse_sort
from indextables.web.json_values import float_value
from indextables.web.query_dsl import QueryDsl, options, refuse
from indextables.web.time_formats import TimeFormat, iso_text

MOST_HITS = 10_000
_WHOLE = 1 << 30
_START, _END = "\ue000", "\ue001"
"""Placeholders around a match until the requested tags replace them: private-use characters that no
text contains.
"""
_SCORE = "_score"
_BODY = (
    *(
        "query",
        "size",
        "from",
        "sort",
        "search_after",
        "aggs",
        "aggregations",
        "_source",
        "fields",
        "docvalue_fields",
    ),
    *(
        "stored_fields",
        "script_fields",
        "highlight",
        "track_total_hits",
        "track_scores",
        "timeout",
        "version",
    ),
)
_HIGHLIGHT = (
    "pre_tags",
    "post_tags",
    "fragment_size",
    "number_of_fragments",
    "require_field_match",
)


class HitField(Struct, frozen=True):
    """A column of `fields`: its name in the response, and the format of its times."""

    label: str
    column: str
    format: TimeFormat | None = None


class HighlightStyle(Struct, frozen=True):
    """The tags around a match in a column, and the length of its fragment."""

    before: str = "<em>"
    after: str = "</em>"
    length: int = 100

    @classmethod
    def parse(cls, given: Mapping[str, Any], where: str) -> HighlightStyle:
        """Parse the options of one highlight."""
        if given.get("require_field_match", True) is not True:
            raise refuse(
                f"require_field_match {show_value(given['require_field_match'])} in {where}",
                known=["true"],
            )
        fragments, length = (
            _count(given, "number_of_fragments", 1),
            _count(given, "fragment_size", 100),
        )
        if fragments > 1:
            raise refuse(f"number_of_fragments {fragments} in {where}", known=["0", "1"])
        before, after = _tag(given.get("pre_tags"), "<em>"), _tag(given.get("post_tags"), "</em>")
        return cls(before, after, min(length, _WHOLE) if fragments and length else _WHOLE)


class HighlightRequest(Struct, frozen=True):
    """The column patterns to highlight, each with its style."""

    fields: tuple[tuple[str, HighlightStyle], ...]

    @classmethod
    def parse(cls, given: Any) -> HighlightRequest:
        """Parse a `highlight` object. Options of a column take precedence over the common ones."""
        found = options(given, ["fields", *_HIGHLIGHT], "highlight")
        entries = found.pop("fields", {})
        fields: list[tuple[str, HighlightStyle]] = []
        for entry in entries if isinstance(entries, list) else [entries]:
            if not isinstance(entry, Mapping):
                raise InvalidInputError(
                    "fields of highlight must be an object.", hint='Write {"message": {}}.'
                )
            for name, own in entry.items():
                merged = {**found, **options(own, _HIGHLIGHT, f"highlight of {name!r}")}
                fields.append((str(name), HighlightStyle.parse(merged, f"highlight of {name}")))
        HighlightStyle.parse(found, "highlight")
        return cls(tuple(fields))


def _tag(tags: Any, default: str) -> str:
    """Return the first of several tags: a fragment has one kind of mark."""
    if tags is None:
        return default
    if not isinstance(tags, list) or not tags or not all(isinstance(tag, str) for tag in tags):
        raise InvalidInputError(
            f"Tags of a highlight are a list of texts, not {show_value(tags)}.",
            hint='Write ["<b>"].',
        )
    return str(tags[0])


class HitRequest(Struct, frozen=True):
    """The columns and the order of the hits."""

    order: HitOrder
    position: HitPosition | None
    source: tuple[str, ...] | None
    fields: tuple[HitField, ...]
    highlight: HighlightRequest | None
    track_scores: bool


class ElasticSearch:
    """Elasticsearch requests over one table."""

    def __init__(self, table: Table, index: str) -> None:
        self.table = table
        self.index = index
        self.dsl = QueryDsl(query_fields(table.handle), now_ms=table.handle.log.now_ms())

    def search(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Answer `_search`."""
        started = time.perf_counter()
        given = options(body, _BODY, "the request")
        _check_plain_keys(given)
        aggregations = self._aggregations(given)
        if given.get("query") is not None:
            query = self.dsl.query(given["query"])
        else:
            query = tree.AllRows()
        size, first = _count(given, "size", 10), _count(given, "from", 0)
        if size + first > MOST_HITS:
            hint = "Go on with search_after."
            raise InvalidInputError(
                f"from + size is at most {MOST_HITS:,}, not {size + first:,}.", hint=hint
            )
        wanted = self._hit_request(given)
        hits = self._hits(query, wanted, size, first) if size else []
        answer: dict[str, Any] = {
            "took": 0,
            "timed_out": False,
            "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
            "hits": {
                "max_score": max(
                    (h["_score"] for h in hits if h["_score"] is not None), default=None
                ),
                "hits": hits,
            },
        }
        if given.get("track_total_hits", True) is not False:
            answer["hits"] = {
                "total": {"value": hit_count(self.table, query), "relation": "eq"},
                **answer["hits"],
            }
        if aggregations is not None:
            rows = aggregate_table(self._task(query), aggregations.spec).to_pylist()
            answer["aggregations"] = aggregations.answer(rows)
        answer["took"] = round((time.perf_counter() - started) * 1000)
        return answer

    def count(self, body: Mapping[str, Any]) -> int:
        """Answer `_count`."""
        given = options(body, ["query"], "the request")
        return hit_count(
            self.table,
            self.dsl.query(given["query"]) if given.get("query") is not None else tree.AllRows(),
        )

    def mapping(self) -> dict[str, Any]:
        """Return the columns as mapping properties."""
        return {"properties": {f.column: {"type": t} for f, t in self._types()}}

    def field_caps(self, patterns: Sequence[str]) -> dict[str, Any]:
        """Return the capabilities of each column."""
        caps = {}
        for figure, kind in self._types():
            if any(fnmatchcase(figure.column, pattern) for pattern in patterns):
                able = kind not in ("text", "object")
                caps[figure.column] = {
                    kind: {
                        "type": kind,
                        "metadata_field": False,
                        "searchable": kind != "object",
                        "aggregatable": able,
                    }
                }
        return caps

    def _types(self) -> Iterator[tuple[Any, str]]:
        for figure in column_figures(self.table.inspect):
            yield figure, _field_type(self.table.schema.field(figure.column).type, figure.index)

    def _task(self, query: tree.Query) -> ScanTask:
        return ScanTask(
            plan_scan(self.table.handle, query=query, columns=()), self.table.handle.log.store
        )

    def _hit_request(self, given: Mapping[str, Any]) -> HitRequest:
        """Parse the columns and the order of the hits. They are validated even if the request
        returns no hits.
        """
        order, after = parse_sort(given.get("sort"), self.dsl.column), given.get("search_after")
        return HitRequest(
            order,
            None if after is None else order.position(after, self.table.schema),
            self._source_columns(given.get("_source", True)),
            self._fields(given),
            None if given.get("highlight") is None else HighlightRequest.parse(given["highlight"]),
            bool(given.get("track_scores")),
        )

    def _hits(
        self, query: tree.Query, wanted: HitRequest, size: int, first: int
    ) -> list[dict[str, Any]]:
        order, position = wanted.order, wanted.position
        marked = self._marked_columns(wanted.highlight, query)
        ordered = [key.column for key in order.keys]
        needed = {
            *(wanted.source or ()),
            *(field.column for field in wanted.fields),
            *marked,
            *ordered,
        }
        columns = [name for name in self.table.schema.names if name in needed]
        if ordered and ordered[0] != _SCORE:
            first_key = ordered[0]
        else:
            first_key = None
        plan = plan_scan(self.table.handle, query=query, columns=columns, order_by=first_key)
        score = not ordered or _SCORE in ordered or wanted.track_scores
        skipped = first if position is None else first + position.seen
        search = TableSearch.of(plan, limit=size, offset=skipped, score=score, order_by=order.keys)
        search = replace(search, after=None if position is None else position.end)
        rows, locations = search.locate(self.table.handle.log.store)
        highlights = self._highlights(rows, query, wanted.highlight, marked)
        hits: list[dict[str, Any]] = []
        values = order.values(rows)
        numbers = numbers_of(values, position) if order.numbered else []
        for place, row in enumerate(rows.to_pylist(maps_as_pydicts="lossy")):
            hits.append(self._hit(row, wanted, locations[place]))
            if order.keys:
                hits[-1]["sort"] = (
                    [*values[place], numbers[place]] if order.numbered else list(values[place])
                )
            if highlights[place]:
                hits[-1]["highlight"] = highlights[place]
        return hits

    def _hit(
        self, row: Mapping[str, Any], wanted: HitRequest, location: tuple[str, int]
    ) -> dict[str, Any]:
        """Return a row as a hit.

        Its `_id` is made of the split and the row number. It is unique, and changes if the row
        moves to another split.
        """
        digest = hashlib.sha1("\0".join(map(str, location)).encode(), usedforsecurity=False)
        hit: dict[str, Any] = {
            "_index": self.index,
            "_id": digest.hexdigest()[:20],
            "_score": row.get(_SCORE),
        }
        if wanted.source is not None:
            hit["_source"] = {name: _plain(row[name]) for name in wanted.source}
        shown_fields = {
            field.label: _field_values(row[field.column], field.format) for field in wanted.fields
        }
        shown_fields = {label: values for label, values in shown_fields.items() if values}
        if shown_fields:
            return {**hit, "fields": shown_fields}
        return hit

    def _fields(self, given: Mapping[str, Any]) -> tuple[HitField, ...]:
        """Parse the columns of `fields` and `docvalue_fields`."""
        found: dict[str, HitField] = {}
        for key in ("fields", "docvalue_fields"):
            entries = given.get(key)
            for entry in (
                entries if isinstance(entries, list) else [] if entries is None else [entries]
            ):
                if isinstance(entry, str):
                    body = {"field": entry}
                else:
                    body = options(entry, ["field", "format"], f"{key}")
                pattern = body.get("field")
                if not isinstance(pattern, str):
                    raise InvalidInputError(
                        f"{key} has {show_value(entry)}, which names no column.",
                        hint='Write ["ts"].',
                    )
                names = [n for n in self.table.schema.names if fnmatchcase(n, pattern)]
                if not names and not _is_pattern(pattern):
                    names = [self.dsl.column(pattern)]
                for name in names:
                    label = name if _is_pattern(pattern) else pattern
                    found[label] = HitField(
                        label, name, self._time_format(body.get("format"), name, key)
                    )
        return tuple(found.values())

    def _time_format(self, pattern: Any, column: str, key: str) -> TimeFormat | None:
        if pattern is None:
            return None
        kind = self.table.schema.field(column).type
        if not pa.types.is_timestamp(kind) and not pa.types.is_date(kind):
            raise refuse(f"format of {column}, which holds no times,")
        return TimeFormat.parse(pattern, f"format of {column} in {key}")

    def _aggregations(self, given: Mapping[str, Any]) -> AggregationRequest | None:
        named = [key for key in ("aggs", "aggregations") if given.get(key) is not None]
        if len(named) > 1:
            raise InvalidInputError(
                "The request has aggs and aggregations.", hint="Leave out one of the two."
            )
        if not named or given[named[0]] == {}:
            return None
        return AggregationRequest.parse(given[named[0]], self.dsl)

    def _source_columns(self, source: Any) -> tuple[str, ...] | None:
        """Return the columns that `_source` selects, or None for hits without `_source`."""
        names: list[str] = self.table.schema.names
        if source is False or source == "false":
            return None
        if source is True or source is None or source == "true":
            return tuple(names)
        keep: Any = source
        drop: Any = []
        if isinstance(source, Mapping):
            given = options(source, ["includes", "excludes", "include", "exclude"], "_source")
            for word in ("include", "exclude"):
                if word in given and f"{word}s" in given:
                    raise refuse(f"{word} next to {word}s in _source")
            keep = given.get("includes", given.get("include")) or ["*"]
            drop = given.get("excludes", given.get("exclude")) or []
        some, without = ([p] if isinstance(p, str) else p for p in (keep, drop))
        if not all(
            isinstance(part, list) and all(isinstance(p, str) for p in part)
            for part in (some, without)
        ):
            hint = 'Write ["ts", "mess*"], or false.'
            raise InvalidInputError(
                f"_source is no list of columns: {show_value(source)}.", hint=hint
            )
        for pattern in (*some, *without):
            if not _is_pattern(pattern) and pattern not in names:
                self.dsl.column(pattern)
        return tuple(n for n in names if _matches(n, some) and not _matches(n, without))

    def _marked_columns(self, highlight: HighlightRequest | None, query: tree.Query) -> list[str]:
        if highlight is None:
            return []
        searched = set(tree.columns(query))
        return [
            name
            for name in column_mappings(self.table)
            if name in searched
            and _matches(name, [pattern for pattern, _ in highlight.fields])
            and is_text(self.table.schema.field(name).type)
        ]

    def _highlights(
        self,
        rows: pa.Table,
        query: tree.Query,
        highlight: HighlightRequest | None,
        columns: Sequence[str],
    ) -> list[dict[str, list[str]]]:
        found: list[dict[str, list[str]]] = [{} for _ in range(rows.num_rows)]
        mappings = column_mappings(self.table)
        for name in columns:
            assert highlight is not None
            style = next(style for pattern, style in highlight.fields if fnmatchcase(name, pattern))
            snippet = Snippet(name, style.length, _START, _END)
            texts = snippets(rows.column(name), query, mappings[name], snippet).to_pylist()
            for place, text in enumerate(texts):
                if text is not None and _START in text:
                    found[place][name] = [
                        unescape(text).replace(_START, style.before).replace(_END, style.after)
                    ]
        return found


def _check_plain_keys(given: Mapping[str, Any]) -> None:
    """Refuse values of plain keys that request something the response cannot contain."""
    for key in ("script_fields", "stored_fields", "version"):
        if given.get(key) and given[key] not in (["*"], ["_source"], "*"):
            raise refuse(key)
    total, scores, timeout = (
        given.get(key) for key in ("track_total_hits", "track_scores", "timeout")
    )
    faults = {
        "track_total_hits is true, false or a number": total is not None
        and (not isinstance(total, int) or total < 0),
        "track_scores is true or false": scores is not None and not isinstance(scores, bool),
        "timeout is a length of time such as 10s": timeout is not None
        and fixed_micros(str(timeout)) is None,
    }
    fault = next((message for message, is_fault in faults.items() if is_fault), None)
    if fault is not None:
        value = given[fault.partition(" ")[0]]
        raise InvalidInputError(f"{fault}, not {show_value(value)}.", hint="Leave it out.")


def _is_pattern(name: str) -> bool:
    return any(sign in name for sign in "*?[")


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(
        fnmatchcase(name, pattern.removesuffix(".keyword")) or name == pattern
        for pattern in patterns
    )


def _field_values(value: Any, time_format: TimeFormat | None) -> list[Any]:
    """Return the values of a field of a hit as a list."""
    values = value if isinstance(value, list) else [value]
    if time_format is None:
        return [_plain(item) for item in values if item is not None]
    return [time_format.text(item) for item in values if item is not None]


def _count(given: Mapping[str, Any], key: str, default: int) -> int:
    value = given.get(key, default)
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 15:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidInputError(
            f"{key} is a whole number from 0 up, not {value!r}.", hint="Leave it out."
        )
    return value


def _field_type(kind: pa.DataType, index: str) -> str:
    if index in ("text", "ip"):
        return index
    for test, name in (
        (pa.types.is_boolean, "boolean"),
        (pa.types.is_integer, "long"),
        (pa.types.is_floating, "double"),
        (pa.types.is_decimal, "double"),
        (pa.types.is_date, "date"),
        (pa.types.is_timestamp, "date"),
    ):
        if test(kind):
            return name
    if index == "json" or pa.types.is_nested(kind):
        return "object"
    return "keyword"


def _plain(value: Any) -> Any:
    """Return a value as JSON: times as ISO text in UTC, non-finite numbers as text."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return float_value(value)
    if isinstance(value, dt.date):
        return iso_text(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return str(value)
