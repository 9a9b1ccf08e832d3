"""Searches in the dialect of Elasticsearch, answered by a table: hits, totals, sorts, highlights and aggregations.

    answer = ElasticSearch(table, "logs").search({"query": {"match": {"message": "timeout"}}, "size": 5})

What a request asks for that is not understood is refused by its name. Sort values of times are ISO texts, so that none of
their digits is lost on the way through `search_after`; `_doc` as the second sort numbers rows of one value.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from html import unescape
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables.errors import InvalidInputError
from indextables.inspect.figures import column_figures
from indextables.scan.aggregate.result import aggregate_table
from indextables.scan.aggregate.spec import BUCKETS, METRICS, fixed_micros
from indextables.scan.search import TableSearch
from indextables.scan.task import ScanTask
from indextables.splits.index.mapping import is_text
from indextables.splits.query import tree
from indextables.splits.search.snippets import Snippet, snippets
from indextables.table import Table, planning
from indextables.web.exploration import column_mappings, hit_count
from indextables.web.hit_order import HitOrder, numbers_of, parse_sort
from indextables.web.query_dsl import QueryDsl, options, refuse

MOST_HITS = 10_000
_WHOLE = 1 << 30
_START, _END = "\ue000", "\ue001"
"""Around what matched, until the marks that were asked for take their place: characters of nobody's alphabet."""
_SCORE = "_score"
_BODY = (
    *("query", "size", "from", "sort", "search_after", "aggs", "aggregations", "_source", "fields", "docvalue_fields"),
    *("stored_fields", "script_fields", "highlight", "track_total_hits", "track_scores", "timeout", "version"),
)
_FIXED = {"ms": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86400}


class AggregationNode(Struct, frozen=True):
    """An aggregation: the name it was asked for by, the one it is computed under, and those within it."""

    name: str
    own: str
    kind: str
    given: dict[str, Any]
    inside: tuple[AggregationNode, ...] = ()


class ElasticSearch:
    """Requests over one table."""

    def __init__(self, table: Table, index: str) -> None:
        self.table = table
        self.index = index
        self.dsl = QueryDsl(planning.query_fields(table), now_ms=table._log.now_ms())

    def search(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to `_search`."""
        started = time.perf_counter()
        given = options(body, _BODY, "the request")
        _refuse_filled(given, "script_fields", "stored_fields", "version")
        query = self.dsl.query(given["query"]) if given.get("query") is not None else tree.AllRows()
        size, first = _count(given, "size", 10), _count(given, "from", 0)
        if size + first > MOST_HITS:
            hint = "Go on with search_after."
            raise InvalidInputError(f"from + size is at most {MOST_HITS:,}, not {size + first:,}.", hint=hint)
        order = parse_sort(given.get("sort"), self.dsl.column)
        hits = self._hits(query, given, order, size, first) if size else []
        answer: dict[str, Any] = {
            "took": 0,
            "timed_out": False,
            "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
            "hits": {
                "max_score": max((h["_score"] for h in hits if h["_score"] is not None), default=None),
                "hits": hits,
            },
        }
        if given.get("track_total_hits", True) is not False:
            answer["hits"] = {"total": {"value": hit_count(self.table, query), "relation": "eq"}, **answer["hits"]}
        aggregations = given.get("aggs") or given.get("aggregations")
        if aggregations:
            answer["aggregations"] = self._aggregations(aggregations, query)
        answer["took"] = round((time.perf_counter() - started) * 1000)
        return answer

    def count(self, body: Mapping[str, Any]) -> int:
        """The answer to `_count`."""
        given = options(body, ["query"], "the request")
        return hit_count(
            self.table, self.dsl.query(given["query"]) if given.get("query") is not None else tree.AllRows()
        )

    def mapping(self) -> dict[str, Any]:
        """The columns, as properties."""
        return {"properties": {f.column: {"type": t} for f, t in self._types()}}

    def field_caps(self, patterns: Sequence[str]) -> dict[str, Any]:
        """What can be done with each column."""
        caps = {}
        for figure, kind in self._types():
            if any(fnmatchcase(figure.column, pattern) for pattern in patterns):
                able = kind not in ("text", "object")
                caps[figure.column] = {
                    kind: {"type": kind, "metadata_field": False, "searchable": kind != "object", "aggregatable": able}
                }
        return caps

    def _types(self) -> Iterator[tuple[Any, str]]:
        for figure in column_figures(self.table.inspect):
            yield figure, _field_type(self.table.schema.field(figure.column).type, figure.index)

    def _task(self, query: tree.Query) -> ScanTask:
        return ScanTask(planning.plan_scan(self.table, query=query, columns=()), self.table._log.store)

    def _hits(
        self, query: tree.Query, given: Mapping[str, Any], order: HitOrder, size: int, first: int
    ) -> list[dict[str, Any]]:
        after = given.get("search_after")
        position = None if after is None else order.position(after, self.table.schema)
        source = self._source_columns(given.get("_source", True))
        extra = _field_names(given, self.table.schema.names)
        marked = self._marked_columns(given.get("highlight"), query)
        ordered = [key.column for key in order.keys]
        columns = [n for n in self.table.schema.names if n in {*source, *extra, *marked, *ordered}]
        first_key = ordered[0] if ordered and ordered[0] != _SCORE else None
        plan = planning.plan_scan(self.table, query=query, columns=columns, order_by=first_key)
        score = not ordered or _SCORE in ordered or bool(given.get("track_scores"))
        skipped = first if position is None else first + position.seen
        search = TableSearch.of(plan, limit=size, offset=skipped, score=score, order_by=order.keys)
        rows = replace(search, after=None if position is None else position.end).run(self.table._log.store)
        highlights = self._highlights(rows, query, given.get("highlight"), marked)
        hits: list[dict[str, Any]] = []
        found = rows.to_pylist(maps_as_pydicts="lossy")
        values = order.values(rows)
        numbers = numbers_of(values, position) if order.numbered else []
        for place, row in enumerate(found):
            hits.append(self._hit(row, source, extra))
            if order.keys:
                hits[-1]["sort"] = [*values[place], numbers[place]] if order.numbered else list(values[place])
            if highlights[place]:
                hits[-1]["highlight"] = highlights[place]
        return hits

    def _hit(self, row: Mapping[str, Any], source: Sequence[str], extra: Sequence[str]) -> dict[str, Any]:
        plain = {k: _plain(v) for k, v in row.items() if k != _SCORE}
        content = {name: plain[name] for name in source}
        digest = hashlib.sha1(msgspec.json.encode(plain), usedforsecurity=False)
        hit = {"_index": self.index, "_id": digest.hexdigest()[:20], "_score": row.get(_SCORE), "_source": content}
        if extra:
            fields = {name: row[name] if isinstance(row[name], list) else [row[name]] for name in extra}
            hit["fields"] = {name: [_plain(v) for v in vs] for name, vs in fields.items() if vs != [None]}
        return hit

    def _source_columns(self, source: Any) -> list[str]:
        names: list[str] = self.table.schema.names
        if source is False:
            return []
        if source is True or source is None:
            return names
        if isinstance(source, Mapping):
            given = options(source, ["includes", "excludes", "include", "exclude"], "_source")
            some = given.get("includes", given.get("include")) or ["*"]
            without = given.get("excludes", given.get("exclude")) or []
        else:
            some, without = source, []
        if not all(isinstance(p, str | list) for p in (some, without)):
            raise InvalidInputError(
                f"_source is no list of columns: {source!r}.", hint='Write ["ts", "mess*"], or false.'
            )
        keep, drop = ([p] if isinstance(p, str) else list(p) for p in (some, without))
        return [n for n in names if any(fnmatchcase(n, p) for p in keep) and not any(fnmatchcase(n, p) for p in drop)]

    def _marked_columns(self, highlight: Any, query: tree.Query) -> list[str]:
        if not highlight:
            return []
        searched = set(tree.columns(query))
        patterns = [p for f in _highlight_fields(highlight) for p in f]
        return [
            name
            for name in column_mappings(self.table)
            if name in searched
            and any(fnmatchcase(name, pattern) for pattern in patterns)
            and is_text(self.table.schema.field(name).type)
        ]

    def _highlights(
        self, rows: pa.Table, query: tree.Query, highlight: Any, columns: Sequence[str]
    ) -> list[dict[str, list[str]]]:
        found: list[dict[str, list[str]]] = [{} for _ in range(rows.num_rows)]
        if not columns:
            return found
        known = ["fields", "pre_tags", "post_tags", "fragment_size", "number_of_fragments", "require_field_match"]
        given = options(highlight, known, "highlight")
        before = (given.get("pre_tags") or ["<em>"])[0]
        after = (given.get("post_tags") or ["</em>"])[0]
        length = _WHOLE if given.get("number_of_fragments") == 0 else int(given.get("fragment_size", 100)) or _WHOLE
        mappings = column_mappings(self.table)
        for name in columns:
            texts = snippets(rows.column(name), query, mappings[name], Snippet(name, length, _START, _END)).to_pylist()
            for place, text in enumerate(texts):
                if text is not None and _START in text:
                    found[place][name] = [unescape(text).replace(_START, before).replace(_END, after)]
        return found

    def _aggregations(self, given: Any, query: tree.Query) -> dict[str, Any]:
        nodes, spec = _nodes(given, self.dsl, iter(range(10_000)))
        rows = aggregate_table(self._task(query), spec).to_pylist()
        names = _bucket_names(nodes)
        by_chain = {tuple((n, row[n]) for n in names if row.get(n) is not None): row for row in rows}
        return _answers(nodes, by_chain, ())


def _nodes(given: Any, dsl: QueryDsl, numbers: Iterator[int]) -> tuple[tuple[AggregationNode, ...], dict[str, Any]]:
    """The aggregations of a request, and the specification that computes them under names of our own."""
    if not isinstance(given, Mapping):
        raise InvalidInputError("Aggregations are an object of names.", hint='Write {"levels": {"terms": {...}}}.')
    nodes, spec = [], {}
    for name, entry in given.items():
        body = dict(entry) if isinstance(entry, Mapping) else {}
        below = body.pop("aggs", None) or body.pop("aggregations", None)
        body.pop("meta", None)
        if len(body) != 1:
            raise InvalidInputError(
                f"The aggregation {name!r} needs exactly one kind.", hint=f"Known: {', '.join(BUCKETS + METRICS)}."
            )
        kind, settings = next(iter(body.items()))
        if kind not in (*BUCKETS, *METRICS):
            raise refuse(str(kind), known=[*BUCKETS, *METRICS])
        own = f"a{next(numbers)}"
        inside, inner = _nodes(below, dsl, numbers) if below else ((), {})
        spec[own] = {kind: _settings(kind, settings, dsl, str(name)), **({"aggs": inner} if inner else {})}
        if kind == "terms":  # so that it can be said how many rows have other values
            spec[f"{own}v"] = {"value_count": {"field": spec[own]["terms"]["field"]}}
        nodes.append(AggregationNode(str(name), own, kind, dict(settings), inside))
    return tuple(nodes), spec


_IGNORED = {
    "keyed": (False, None),
    "show_term_doc_count_error": (False,),
    "time_zone": ("UTC", "utc", "Z", "+00:00", None),
}


def _settings(kind: str, given: Any, dsl: QueryDsl, name: str) -> dict[str, Any]:
    """The settings of an aggregation in our words; one that would change the answer and is not known is refused."""
    known = ["field", "size", "order", "min_doc_count", "missing", "interval", "fixed_interval", "calendar_interval"]
    known += ["offset", "ranges", "percents", "extended_bounds", "format", "precision_threshold", *_IGNORED]
    found = options(given, known, f"the aggregation {name!r}")
    for key, harmless in _IGNORED.items():
        if key in found and found.pop(key) not in harmless:
            raise refuse(f"{key} in {name}")
    for key in ("extended_bounds", "format", "precision_threshold"):
        found.pop(key, None)
    found["field"] = dsl.column(found.get("field", ""))
    order = found.get("order")
    if isinstance(order, list) and order:
        order = order[0]
    if isinstance(order, Mapping):
        found["order"] = {{"_term": "_key"}.get(key, key): value for key, value in order.items()}
    if kind == "date_histogram":
        interval = str(found.pop("interval", "")) or None
        if interval is not None:
            found["fixed_interval" if fixed_micros(interval) else "calendar_interval"] = interval
        if found.pop("offset", 0) not in (0, "0", "0s"):
            raise refuse(f"offset in {name}")
        if isinstance(found.get("fixed_interval"), str) and fixed_micros(found["fixed_interval"]) is None:
            raise InvalidInputError(f"{found['fixed_interval']!r} is no interval.", hint="Write 30s, 5m, 1h or 7d.")
    return found


def _bucket_names(nodes: Sequence[AggregationNode]) -> list[str]:
    return [name for node in nodes if node.kind in BUCKETS for name in (node.own, *_bucket_names(node.inside))]


Chain = tuple[tuple[str, Any], ...]


def _answers(nodes: Sequence[AggregationNode], rows: Mapping[Chain, Mapping[str, Any]], chain: Chain) -> dict[str, Any]:
    row = rows.get(chain, {})
    return {node.name: _buckets(node, rows, chain) if node.kind in BUCKETS else _metric(node, row) for node in nodes}


def _metric(node: AggregationNode, row: Mapping[str, Any]) -> dict[str, Any]:
    if node.kind == "percentiles":
        prefix = f"{node.own}.p"
        return {"values": {f"{float(k[len(prefix) :])}": v for k, v in row.items() if k.startswith(prefix)}}
    if node.kind == "stats":
        parts = {part: _number(row.get(f"{node.own}.{part}")) for part in ("count", "min", "max", "avg", "sum")}
        return {**parts, "count": parts["count"] or 0, "sum": parts["sum"] or 0.0}
    value = row.get(node.own)
    if node.kind in ("value_count", "cardinality"):
        return {"value": value or 0}
    shown = {"value": _number(value)}
    return {**shown, "value_as_string": _plain(value)} if isinstance(value, dt.date) else shown


def _buckets(node: AggregationNode, rows: Mapping[Chain, Mapping[str, Any]], chain: Chain) -> dict[str, Any]:
    own = [(c[-1][1], row) for c, row in rows.items() if c[:-1] == chain and c and c[-1][0] == node.own]
    if node.kind == "date_histogram":
        own = _extended(node, own)
    buckets = [
        {**_key(key, node), "doc_count": row["count"], **_answers(node.inside, rows, (*chain, (node.own, key)))}
        for key, row in own
    ]
    if node.kind == "terms":
        return {
            "doc_count_error_upper_bound": 0,
            "sum_other_doc_count": _others(node, rows, chain, own),
            "buckets": buckets,
        }
    return {"buckets": buckets}


def _others(node: AggregationNode, rows: Mapping[Chain, Mapping[str, Any]], chain: Chain, own: Any) -> int:
    """Rows with other values than those shown."""
    row = rows.get(chain, {})
    whole = int(row.get("count" if node.given.get("missing") is not None else f"{node.own}v") or 0)
    return max(0, whole - sum(int(shown["count"]) for _, shown in own))


def _key(key: Any, node: AggregationNode) -> dict[str, Any]:
    if isinstance(key, bool):
        return {"key": int(key), "key_as_string": str(key).lower()}
    if isinstance(key, dt.date):
        millis = _millis(key)
        return {
            "key_as_string": str(millis) if node.given.get("format") == "epoch_millis" else _plain(key),
            "key": millis,
        }
    return {"key": _number(key)}


def _extended(node: AggregationNode, own: list[tuple[Any, Mapping[str, Any]]]) -> list[tuple[Any, Mapping[str, Any]]]:
    """Empty bars before the first and behind the last, where bounds ask for them and bars have one length."""
    bounds = node.given.get("extended_bounds")
    step = fixed_micros(str(node.given.get("fixed_interval") or node.given.get("interval") or ""))
    if not isinstance(bounds, Mapping) or step is None:
        return own
    low, high = (
        int(bounds[k]) * 1000 if str(bounds.get(k, "")).lstrip("-").isdigit() else None for k in ("min", "max")
    )
    if low is None or high is None:
        raise refuse("extended_bounds that are no milliseconds")
    if (high - low) // step > MOST_HITS:
        raise InvalidInputError(
            "extended_bounds would make more than 10,000 buckets.", hint="Choose a longer interval."
        )
    counts = {_millis(key) * 1000: (key, row) for key, row in own}
    first = min([*counts, low // step * step])
    last = max([*counts, high // step * step])
    moments = (
        dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=m) for m in range(first, last + 1, step)
    )
    return [counts.get(_millis(m) * 1000, (m, {"count": 0})) for m in moments]


def _field_names(given: Mapping[str, Any], known: Sequence[str]) -> list[str]:
    names = []
    for key in ("fields", "docvalue_fields"):
        for entry in given.get(key) or []:
            pattern = entry if isinstance(entry, str) else options(entry, ["field", "format"], key).get("field", "")
            names += [name for name in known if fnmatchcase(name, pattern.removesuffix(".keyword"))]
    return list(dict.fromkeys(names))


def _highlight_fields(highlight: Any) -> list[list[str]]:
    fields = highlight.get("fields", {}) if isinstance(highlight, Mapping) else {}
    return [list(f) for f in (fields if isinstance(fields, list) else [fields])]


def _refuse_filled(given: Mapping[str, Any], *keys: str) -> None:
    for key in keys:
        if given.get(key) and given[key] not in (["*"], ["_source"], "*"):
            raise refuse(key)


def _count(given: Mapping[str, Any], key: str, default: int) -> int:
    value = given.get(key, default)
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 15:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidInputError(f"{key} is a whole number from 0 up, not {value!r}.", hint="Leave it out.")
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
    return "object" if index == "json" or pa.types.is_nested(kind) else "keyword"


def _millis(value: dt.date) -> int:
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC)
    moment = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)


def _number(value: Any) -> Any:
    if isinstance(value, dt.date):
        return _millis(value)
    return value if value is None or isinstance(value, int | float | str) else float(value)


def _plain(value: Any) -> Any:
    """A value as JSON has it: times as ISO text in UTC."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, dt.datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return moment.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value != value:
        return None
    return value if isinstance(value, float) else str(value)
