"""The search service: tables over HTTP, as JSON and in the dialect of Elasticsearch.

Its only state is cached tables, so any number of services can serve the same tables. Every request
needs the token: as the first part of the path, as `Authorization: Bearer` or `ApiKey`, or as the
password of `Basic`. This module also starts the explorer for a browser on the same machine.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NoReturn

import msgspec
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from indextables.config import VERSION
from indextables.errors import IndexTablesError, InvalidInputError, NotFoundError, show_value
from indextables.metrics import METRICS
from indextables.web.elastic import ElasticSearch
from indextables.web.explorer import Explorer, Limits
from indextables.web.guard import Guard
from indextables.web.http_answers import (
    PRODUCT,
    READ_ONLY,
    answer_fault,
    answer_refusal,
    elastic_error,
    elastic_failure,
    elastic_info,
    fault_page,
    json_answer,
    own_error,
    refusal_page,
)
from indextables.web.ingestion import Ingest
from indextables.web.json_values import plain_json
from indextables.web.layout import frame, listing
from indextables.web.query_dsl import options, refuse
from indextables.web.svg import element, text
from indextables.web.warehouse import ShownTable, Warehouse
from indextables.web.workers import Application, open_socket, run_application, run_workers
from indextables.web.write_service import WriteService, write_application

_LARGEST = 1 << 20
_MOST_ROWS = 10_000
_SEARCH = (
    "q",
    "where",
    "columns",
    "limit",
    "offset",
    "order_by",
    "snippet",
    "version",
    "search_after",
)
_HARMLESS = {
    *(
        "ignore_unavailable",
        "allow_no_indices",
        "expand_wildcards",
        "max_concurrent_shard_requests",
        "preference",
    ),
    *("pretty", "human", "request_cache", "master_timeout", "error_trace", "local"),
}
"""Elasticsearch parameters that request what the service does anyway."""
_QUERY_KEYS = {"q", "default_operator", "df"}
_SEARCH_KEYS = {
    *(
        "size",
        "from",
        "sort",
        "_source",
        "track_total_hits",
        "typed_keys",
        "rest_total_hits_as_int",
    ),
    *_QUERY_KEYS,
}
_HEADER_KEYS = (
    "index",
    "preference",
    "ignore_unavailable",
    "allow_no_indices",
    "expand_wildcards",
    "request_cache",
)
_DEEPEST = 200
"""Maximum nesting depth of a request body."""


class Service:
    """The routes of the service over the tables of a warehouse."""

    def __init__(self, warehouse: Warehouse, limits: Limits) -> None:
        self.warehouse = warehouse
        self.limits = limits

    def routes(self) -> list[Route]:
        """Return the routes below the access control."""
        own = {
            "/api": self._page,
            "/metrics": self._metrics,
            "/api/openapi.json": self._json_route(_without_arguments(lambda _request: openapi())),
            "/api/tables": self._json_route(
                _without_arguments(
                    lambda _request: {"tables": [t.name for t in self.warehouse.tables()]}
                )
            ),
            "/api/tables/{table}": self._json_route(_without_arguments(self._describe)),
            "/api/tables/{table}/search": self._json_route(self._search),
            "/api/tables/{table}/count": self._json_route(self._count),
            "/api/tables/{table}/aggregate": self._json_route(self._aggregate),
            "/api/tables/{table}/history": self._json_route(self._history),
        }
        elastic = {
            "/": self._elastic(_without_body(lambda _request: elastic_info())),
            "/_cluster/health": self._elastic(
                _without_body(lambda _request: {"cluster_name": "indextables", "status": "green"})
            ),
            "/_cat/indices": self._elastic(_without_body(self._indices, *_CAT)),
            "/_cat/indices/{index}": self._elastic(_without_body(self._indices, *_CAT)),
            "/_msearch": self._elastic(self._msearch, lines=True),
            "/{index}/_msearch": self._elastic(self._msearch, lines=True),
            "/{index}/_search": self._elastic(self._elastic_search),
            "/{index}/_count": self._elastic(self._elastic_count),
            "/{index}/_mapping": self._elastic(_without_body(self._mappings)),
            "/{index}/_field_caps": self._elastic(self._field_caps),
            "/_field_caps": self._elastic(self._field_caps),
            "/_search": self._elastic(self._elastic_search),
            "/_count": self._elastic(self._elastic_count),
            "/_mapping": self._elastic(_without_body(self._mappings)),
            "/{index}": self._elastic(self._about),
            "/{rest:path}": self._elastic(lambda request, _: _refuse_address(request), lines=None),
        }
        return [
            Route(path, handler, methods=["GET", "POST"])
            for path, handler in {**own, **elastic}.items()
        ]

    async def _page(self, _request: Request) -> Response:
        """Return the overview page for a browser."""
        rows = [
            {"address": path, "what": about["get"]["summary"]}
            for path, about in openapi()["paths"].items()
        ]
        content = [element("h1", text("Search service")), listing(rows, caption="Addresses")]
        return HTMLResponse(frame("Search service", *content, up="./"))

    async def _metrics(self, _request: Request) -> Response:
        """Return the metrics of this process for a scraper."""
        return PlainTextResponse(METRICS.prometheus(), media_type="text/plain; version=0.0.4")

    def _json_route(
        self, work: Callable[[Request, Mapping[str, Any]], Any]
    ) -> Callable[[Request], Any]:
        async def handler(request: Request) -> Response:
            try:
                body = await _object(request)
                return json_answer(await self.limits.run(request, lambda: work(request, body)))
            except IndexTablesError as error:
                return own_error(error)

        return handler

    def _elastic(
        self, work: Callable[[Request, Any], Any], *, lines: bool | None = False
    ) -> Callable[[Request], Any]:
        """Wrap the handler of an Elasticsearch route. Its body is an object, a list of `lines`, or
        ignored (None).
        """

        async def handler(request: Request) -> Response:
            try:
                if lines is None:
                    body = None
                else:
                    body = await (_lines(request) if lines else _object(request))
                answer = await self.limits.run(request, lambda: work(request, body))
                return json_answer(answer, headers=PRODUCT)
            except IndexTablesError as error:
                return elastic_failure(error)

        return handler

    def _describe(self, request: Request) -> dict[str, Any]:
        table = self.warehouse.open(request.path_params["table"])
        return {**table.to_dict(), "rows": table.count()}

    def _search(self, request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
        given = _read_arguments(request, body, *_SEARCH)
        table = self.warehouse.open(request.path_params["table"], version=_whole(given, "version"))
        limit, offset = _whole(given, "limit", 10), _whole(given, "offset", 0) or 0
        if limit is None or limit + offset > _MOST_ROWS:
            hint = "Go on page by page with search_after, empty for the first page and then the next of the answer."
            raise InvalidInputError(f"At most {_MOST_ROWS:,} rows are answered.", hint=hint)
        columns = _texts(given, "columns")
        wanted: dict[str, Any] = {
            "where": _text(given, "where"),
            "columns": columns.split(",") if isinstance(columns, str) else columns,
            "limit": limit,
            "order_by": _texts(given, "order_by"),
            "snippet": _text(given, "snippet"),
        }
        query = _text(given, "q") or "*"
        if "search_after" not in given:
            rows = table.search(query, offset=offset, **wanted)
            return {"version": table.version, "rows": _rows(rows)}
        if offset:
            raise InvalidInputError(
                "search_after takes no offset.", hint="Leave out one of the two."
            )
        page = table.search_page(query, search_after=_text(given, "search_after"), **wanted)
        return {"version": page.version, "rows": _rows(page.rows), "next": page.next}

    def _count(self, request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
        given = _read_arguments(request, body, "q", "where", "version")
        table = self.warehouse.open(request.path_params["table"], version=_whole(given, "version"))
        return {
            "version": table.version,
            "count": table.count(query=_text(given, "q"), where=_text(given, "where")),
        }

    def _aggregate(self, request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
        given = _read_arguments(request, body, "q", "where", "version", "aggs")
        spec = given.get("aggs")
        if isinstance(spec, str):
            spec = _decode_json(spec.encode(), "aggs")
        if not isinstance(spec, dict):
            hint = 'Write {"levels": {"terms": {"field": "level"}}}.'
            raise InvalidInputError(
                "aggs must be an object of named aggregations.", hint=hint, key="aggs"
            )
        table = self.warehouse.open(request.path_params["table"], version=_whole(given, "version"))
        rows = table.aggregate(spec, query=_text(given, "q"), where=_text(given, "where"))
        return {"version": table.version, "rows": _rows(rows)}

    def _history(self, request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
        limit = _whole(_read_arguments(request, body, "limit"), "limit", 20)
        return {
            "versions": self.warehouse.open(request.path_params["table"])
            .history(limit=limit)
            .to_pylist()
        }

    def _matching(self, pattern: str) -> list[ShownTable]:
        """Return the tables that match an index pattern: names separated by commas, and `*`."""
        parts = [p.strip() for p in pattern.split(",")]
        return [
            t
            for t in self.warehouse.tables()
            if any(p == "_all" or fnmatchcase(t.name, p) for p in parts)
        ]

    def _open(self, pattern: str) -> ElasticSearch:
        found = self._matching(pattern)
        if not found:
            names = ", ".join(t.name for t in self.warehouse.tables())
            raise NotFoundError(
                f"no such index [{pattern}]", hint=f"The tables are {names}.", index=pattern
            )
        if len(found) > 1:
            names = ", ".join(t.name for t in found)
            hint = f"Name one of {names}."
            raise InvalidInputError(
                f"A search over several tables ({names}) is not supported.", hint=hint
            )
        return ElasticSearch(self.warehouse.open(found[0].name), found[0].name)

    def _one(self, request: Request, parameters: set[str]) -> ElasticSearch:
        _check_parameters(request, parameters)
        return self._open(request.path_params.get("index", "_all"))

    def _about(self, request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
        if request.path_params["index"].startswith("_"):
            _refuse_address(request)
        mappings = _without_body(self._mappings)(request, body)
        return {name: {"aliases": {}, "settings": {}, **about} for name, about in mappings.items()}

    def _elastic_search(self, request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._one(request, _SEARCH_KEYS).search(_with_parameters(request, body))

    def _elastic_count(self, request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
        count = self._one(request, _QUERY_KEYS).count(_with_parameters(request, body))
        return {"count": count, "_shards": _shards()}

    def _msearch(self, request: Request, searches: list[Any]) -> dict[str, Any]:
        _check_parameters(request, {"max_concurrent_searches", "typed_keys"})
        answers = []
        for header, body in zip(searches[::2], searches[1::2], strict=True):
            try:
                index = options(header, _HEADER_KEYS, "the header of a search").get("index")
                if index is None:
                    names = request.path_params.get("index", "_all")
                else:
                    names = index
                if isinstance(names, list) and all(isinstance(name, str) for name in names):
                    names = ",".join(names)
                if not isinstance(names, str):
                    raise InvalidInputError(
                        f"index is not a name: {show_value(names)}.", hint="Name one table."
                    )
                answers.append({**self._open(names).search(body), "status": 200})
            except IndexTablesError as error:
                answers.append(elastic_error(error))
        return {"took": sum(a.get("took", 0) for a in answers), "responses": answers}

    def _mappings(self, request: Request) -> dict[str, Any]:
        pattern = request.path_params.get("index", "_all")
        found = self._matching(pattern)
        if not found:
            self._open(pattern)
        return {
            t.name: {"mappings": ElasticSearch(self.warehouse.open(t.name), t.name).mapping()}
            for t in found
        }

    def _field_caps(self, request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
        _check_parameters(request, {"fields"})
        fields = options(body, ["fields"], "the request").get("fields") or request.query_params.get(
            "fields", "*"
        )
        if isinstance(fields, str):
            patterns = fields.split(",")
        else:
            patterns = fields
        if not isinstance(patterns, list) or not all(
            isinstance(pattern, str) for pattern in patterns
        ):
            raise InvalidInputError(
                f"fields is not a list of names: {show_value(fields)}.",
                hint='Write ["ts", "mess*"].',
            )
        found = self._matching(request.path_params.get("index", "_all"))
        caps: dict[str, dict[str, Any]] = {}
        for shown_table in found:
            table = ElasticSearch(self.warehouse.open(shown_table.name), shown_table.name)
            for name, kinds in table.field_caps(patterns).items():
                caps.setdefault(name, {}).update(kinds)
        return {"indices": [t.name for t in found], "fields": caps}

    def _indices(self, request: Request) -> list[dict[str, str]]:
        if request.query_params.get("format", "json") != "json":
            raise refuse(f"format {request.query_params['format']}", known=["json"])
        rows = []
        for shown_table in self._matching(request.path_params.get("index", "_all")):
            table = self.warehouse.open(shown_table.name)
            size = sum(table.files().column("size").to_pylist())
            common = {
                "health": "green",
                "status": "open",
                "index": shown_table.name,
                "uuid": table.metadata.id,
            }
            rows.append(
                {
                    **common,
                    "pri": "1",
                    "rep": "0",
                    "docs.count": str(table.count()),
                    "store.size": str(size),
                }
            )
        wanted = [name for name in request.query_params.get("h", "").split(",") if name]
        unknown = next((name for name in wanted if rows and name not in rows[0]), None)
        if unknown is not None:
            raise refuse(f"h={unknown}", known=[*rows[0]])
        return [{name: row[name] for name in wanted or row} for row in rows]


_WRITES = {
    "_bulk",
    "_doc",
    "_create",
    "_update",
    "_update_by_query",
    "_delete_by_query",
    "_reindex",
    "_refresh",
    "_close",
}
_PAGES = "Go on page by page with sort and search_after, for as long as you like."
_ANSWERED = (
    "/{index}/_search, /{index}/_count, /_msearch, /{index}/_mapping, /{index}/_field_caps, /_cat/indices, /_cluster/health; "
    "/api lists the addresses of JSON."
)


def _refuse_address(request: Request) -> NoReturn:
    """Return the error for an Elasticsearch address that is not supported."""
    path = request.url.path
    parts = set(path.split("/"))
    if parts & _WRITES:
        hint = READ_ONLY
    else:
        if parts & {"scroll", "_pit"}:
            hint = _PAGES
        else:
            hint = f"Answered: {_ANSWERED}"
    raise NotFoundError(f"{request.method} {path} is not answered here.", hint=hint, address=path)


def _shards() -> dict[str, int]:
    return {"total": 1, "successful": 1, "skipped": 0, "failed": 0}


_CAT = ("format", "h", "v")


def _without_body(
    work: Callable[[Request], Any], *parameters: str
) -> Callable[[Request, Mapping[str, Any]], Any]:
    """Wrap the handler of an Elasticsearch route that accepts no body and only these parameters."""

    def check_and_run(request: Request, body: Mapping[str, Any]) -> Any:
        _check_parameters(request, set(parameters))
        if body:
            raise InvalidInputError(
                f"{request.url.path} takes no body.", hint=READ_ONLY, part=next(iter(body))
            )
        return work(request)

    return check_and_run


def _without_arguments(
    work: Callable[[Request], Any],
) -> Callable[[Request, Mapping[str, Any]], Any]:
    """Wrap the handler of a route without parameters."""

    def check_and_run(request: Request, body: Mapping[str, Any]) -> Any:
        _read_arguments(request, body)
        return work(request)

    return check_and_run


def _with_parameters(request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the URL parameters of a search into its body."""
    merged = dict(body)
    for key in ("size", "from"):
        if key in request.query_params:
            merged[key] = _whole(dict(request.query_params), key)
    if "q" in request.query_params:
        own = ("default_operator", "df")
        given = {
            {"df": "default_field"}.get(k, k): request.query_params[k]
            for k in own
            if k in request.query_params
        }
        merged["query"] = {"query_string": {"query": request.query_params["q"], **given}}
    elif orphan := next(
        (key for key in ("default_operator", "df") if key in request.query_params), None
    ):
        raise InvalidInputError(
            f"The parameter {orphan!r} is about q, which is missing.", hint="Give q as well."
        )
    if "track_total_hits" in request.query_params:
        total = request.query_params["track_total_hits"]
        merged["track_total_hits"] = (
            total == "true" if total in ("true", "false") else _whole({"n": total}, "n")
        )
    if "sort" in request.query_params:
        pairs = (part.partition(":") for part in request.query_params["sort"].split(","))
        merged["sort"] = [{name: order or "asc"} for name, _, order in pairs]
    if "_source" in request.query_params:
        value = request.query_params["_source"]
        merged["_source"] = value == "true" if value in ("true", "false") else value.split(",")
    return merged


def _check_parameters(request: Request, known: set[str]) -> None:
    for key, value in request.query_params.items():
        switched_off = key in ("typed_keys", "rest_total_hits_as_int") and value in ("false", "")
        if key not in _HARMLESS | known or (
            key in ("typed_keys", "rest_total_hits_as_int") and not switched_off
        ):
            if key == "scroll":
                hint = _PAGES
            else:
                hint = f"Known: {', '.join(sorted(known))}."
            raise InvalidInputError(f"The parameter {key!r} is not supported.", hint=hint, part=key)


def _read_arguments(request: Request, body: Mapping[str, Any], *known: str) -> dict[str, Any]:
    found = {**request.query_params, **body}
    unknown = next((key for key in found if key not in known), None)
    if unknown is not None:
        if known:
            hint = f"Known: {', '.join(known)}."
        else:
            hint = "This address takes no arguments."
        raise InvalidInputError(
            f"{show_value(unknown)} is not known here.", hint=hint, part=unknown
        )
    return found


def _text(given: Mapping[str, Any], key: str) -> str | None:
    """Return a text argument, or None if it is missing or empty."""
    value = given.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidInputError(
            f"{key} must be a text, not {show_value(value)}.", hint="Write it in quotes.", key=key
        )
    return value or None


def _texts(given: Mapping[str, Any], key: str) -> str | list[str] | None:
    """Return an argument that is a text or a list of texts, or None if it is missing or empty."""
    value = given.get(key)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value or None
    if isinstance(value, list):
        raise InvalidInputError(
            f"{key} must hold texts, not {show_value(value)}.",
            hint="Write them in quotes.",
            key=key,
        )
    return _text(given, key)


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows as JSON values. Non-finite numbers are texts."""
    rows: list[dict[str, Any]] = plain_json(table.to_pylist(maps_as_pydicts="lossy"))
    return rows


def _whole(given: Mapping[str, Any], key: str, default: int | None = None) -> int | None:
    value = given.get(key)
    if value is None or value == "":
        return default
    if isinstance(value, int | str) and not isinstance(value, bool):
        digits = str(value)
    else:
        digits = ""
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 15):
        message = f"{key}={show_value(value)} is not a whole number from 0 to 999,999,999,999,999."
        raise InvalidInputError(message, hint="Give digits alone.", key=key)
    return int(digits)


async def _body(request: Request) -> bytes:
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        hint = "Send it as it is; clients of Elasticsearch have http_compress=False for that."
        raise InvalidInputError(
            f"A body with Content-Encoding {encoding!r} is not read.", hint=hint
        )
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > _LARGEST:
            raise InvalidInputError(
                f"The request is larger than {_LARGEST:,} bytes.", hint="Ask for less at once."
            )
        parts.append(part)
    return b"".join(parts)


def _decode_json(data: bytes, what: str) -> Any:
    try:
        found = msgspec.json.decode(data)
        too_deep = _is_deeper(found, _DEEPEST)
    except RecursionError:
        too_deep = True
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidInputError(
            f"{what} is no JSON: {error}.", hint="Send a JSON object."
        ) from None
    if too_deep:
        raise InvalidInputError(
            f"{what} is nested deeper than {_DEEPEST} levels.", hint="Make it flatter."
        )
    return found


def _is_deeper(value: Any, levels: int) -> bool:
    """Return whether lists and objects are nested deeper than a number of levels."""
    inside: Iterable[Any] = ()
    if isinstance(value, dict):
        inside = value.values()
    elif isinstance(value, list):
        inside = value
    return levels < 0 or any(
        _is_deeper(item, levels - 1) for item in inside if isinstance(item, dict | list)
    )


async def _object(request: Request) -> dict[str, Any]:
    data = await _body(request)
    found = _decode_json(data, "The body") if data.strip() else {}
    if not isinstance(found, dict):
        raise InvalidInputError("The body must be a JSON object.", hint="Send a JSON object.")
    return found


async def _lines(request: Request) -> list[dict[str, Any]]:
    found = [
        _decode_json(line, "A line") for line in (await _body(request)).splitlines() if line.strip()
    ]
    if len(found) % 2 or not all(isinstance(line, dict) for line in found):
        raise InvalidInputError(
            "_msearch takes pairs of lines: a header and a search.",
            hint="Send both for each search.",
        )
    return found


def openapi() -> dict[str, Any]:
    """Return the OpenAPI description of the JSON API."""
    about = {
        "/api/tables": ("The names of the tables.", ()),
        "/api/tables/{table}": ("What a table is.", ()),
        "/api/tables/{table}/search": (
            "The best rows for a query, or the first by a column.",
            _SEARCH,
        ),
        "/api/tables/{table}/count": ("How many rows match.", ("q", "where", "version")),
        "/api/tables/{table}/aggregate": (
            "Aggregations over all rows that match.",
            ("q", "where", "version", "aggs"),
        ),
        "/api/tables/{table}/history": ("What was committed.", ("limit",)),
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "IndexTables search service", "version": VERSION},
        "paths": {
            path: _operations(path, summary, names) for path, (summary, names) in about.items()
        },
    }


def _operations(path: str, summary: str, names: tuple[str, ...]) -> dict[str, Any]:
    return {
        method: {
            "summary": summary,
            "parameters": list(_parameters(path, names)),
            "responses": {
                "200": {"description": "The answer."},
                "400": {"description": "What is wrong, and the way out."},
            },
        }
        for method in ("get", "post")
    }


def _parameters(path: str, names: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    if "{table}" in path:
        yield {"name": "table", "in": "path", "required": True, "schema": {"type": "string"}}
    for name in names:
        if name in ("limit", "offset", "version"):
            kind = "integer"
        else:
            kind = "string"
        yield {"name": name, "in": "query", "required": False, "schema": {"type": kind}}


LOOPBACK = "127.0.0.1"
_NAMES = {LOOPBACK, "localhost", "[::1]"}
_TOKEN_BYTES = 24


def serve(warehouse: Warehouse, *, port: int, started: Callable[[str], None]) -> None:
    """Serve the explorer to this machine alone until interrupted.

    Args:
        warehouse: The tables.
        port: Where to listen; 0 takes any free port.
        started: Receives the address, which contains a random token.
    """
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    limits = Limits()
    app = application(Explorer(warehouse, limits), token)
    with open_socket(LOOPBACK, port) as opened:
        started(f"http://{LOOPBACK}:{opened.getsockname()[1]}/{token}/")
        run_application(Application(app, limits.close), opened)


def serve_searches(
    warehouse: Warehouse,
    *,
    host: str,
    port: int,
    token: str | None,
    started: Callable[[str, str, str | None], None],
    workers: int = 1,
    writing: Writing | None = None,
) -> None:
    """Run the search service until interrupted.

    Args:
        warehouse: The tables.
        host: The address to listen at.
        port: Where to listen; 0 takes any free port.
        token: The secret of every request; a random one is made if it is missing.
        started: Receives the address, the token and the write token.
        workers: Number of processes that answer requests.
        writing: How rows are accepted; they are not by default.
    """
    secret = token or secrets.token_urlsafe(_TOKEN_BYTES)
    names = frozenset(_NAMES) if host in _NAMES else frozenset[str]()
    if writing is not None:
        writing = replace(writing, token=writing.token or secrets.token_urlsafe(_TOKEN_BYTES))
    make_app = partial(_make_service, warehouse, secret, names, writing)
    with open_socket(host, port) as opened:
        write_token = None if writing is None else writing.token
        started(f"http://{host}:{opened.getsockname()[1]}", secret, write_token)
        if workers > 1:
            run_workers(make_app, opened, workers)
        else:
            run_application(make_app(), opened)


class Writing(Struct, frozen=True):
    """How the service accepts rows."""

    token: str | None
    """The secret of requests that write; a random one is made if it is missing."""
    create: bool = False
    """Whether a table that is missing is created when it is written to."""


def _make_service(
    warehouse: Warehouse, token: str, names: frozenset[str], writing: Writing | None
) -> Application:
    """Return the search service of a process."""
    limits = Limits()
    if writing is None or writing.token is None:
        app = service_application(Service(warehouse, limits), token, names=names)
        return Application(app, limits.close)
    ingest = Ingest(warehouse, create=writing.create)
    write = write_application(WriteService(ingest, limits)), writing.token
    app = service_application(Service(warehouse, limits), token, names=names, write=write)

    def close() -> None:
        ingest.close()
        limits.close()

    return Application(app, close)


def service_application(
    service: Service,
    token: str,
    *,
    names: frozenset[str],
    write: tuple[ASGIApp, str] | None = None,
) -> ASGIApp:
    """Return the search service with access control. `write` is the application of the write token
    and the token.
    """
    failed = {HTTPException: answer_refusal, Exception: answer_fault}
    app = Starlette(routes=[Mount("/", routes=service.routes())], exception_handlers=failed)
    return Guard(app, token, names=names, headers=True, write=write)


def application(explorer: Explorer, token: str, *, names: frozenset[str] = frozenset()) -> ASGIApp:
    """Return the explorer with access control: requests without the token or with another host name
    are refused.
    """
    failed = {HTTPException: refusal_page, Exception: fault_page}
    app = Starlette(routes=[Mount("/", routes=explorer.routes())], exception_handlers=failed)
    return Guard(app, token, names=frozenset(_NAMES | names))
