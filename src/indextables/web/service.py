"""The search service: tables over HTTP as JSON, and in the dialect of Elasticsearch that log tools speak.

It holds no state but what is remembered of tables, so any number of them may stand before the same tables. Every request
needs the token: as the first part of the path, or as `Authorization: Bearer`, `ApiKey` or the password of `Basic`.

Here too is the server for a browser on the same machine, and the guard before everything it answers. Every user and every
program of a machine reaches its loopback, so the address holds a secret that only who started the server was told. Without
it nothing is answered. A web site that has its own name lead here is refused by the `Host` that the browser sends, and what
a page may load or be loaded into is what the server itself sends.
"""

from __future__ import annotations

import errno
import secrets
import socket
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, NoReturn

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from indextables.config import VERSION
from indextables.errors import IndexTablesError, InvalidInputError, NotFoundError
from indextables.metrics import METRICS
from indextables.web.elastic import ElasticSearch
from indextables.web.explorer import POLICY, Explorer, Limits, status_of
from indextables.web.layout import frame, listing
from indextables.web.svg import element, text
from indextables.web.warehouse import ShownTable, Warehouse

_LARGEST = 1 << 20
_MOST_ROWS = 10_000
_SEARCH = ("q", "where", "columns", "limit", "offset", "order_by", "snippet", "version", "search_after")
_HARMLESS = {
    *(
        "ignore_unavailable",
        "allow_no_indices",
        "expand_wildcards",
        "max_concurrent_shard_requests",
        "preference",
        "pretty",
    ),
    *("human", "request_cache", "format", "h", "v", "s", "master_timeout", "error_trace", "local", "include_type_name"),
}
"""Parameters of Elasticsearch that ask for what is the case here anyway."""
_QUERY_KEYS = {"q", "default_operator", "df"}
_SEARCH_KEYS = {
    *("size", "from", "sort", "_source", "track_total_hits", "typed_keys", "rest_total_hits_as_int"),
    *_QUERY_KEYS,
}
_PRODUCT = {"X-Elastic-Product": "Elasticsearch"}


class Service:
    """The addresses of the service over the tables of a warehouse."""

    def __init__(self, warehouse: Warehouse, limits: Limits) -> None:
        self.warehouse = warehouse
        self.limits = limits

    def routes(self) -> list[Route]:
        """Every address, below the guard."""
        own = {
            "/api": self._page,
            "/metrics": self._metrics,
            "/api/openapi.json": self._own(lambda _r, _b: openapi()),
            "/api/tables": self._own(lambda _r, _b: {"tables": [t.name for t in self.warehouse.tables()]}),
            "/api/tables/{table}": self._own(lambda r, _b: self._describe(r)),
            "/api/tables/{table}/search": self._own(self._search),
            "/api/tables/{table}/count": self._own(self._count),
            "/api/tables/{table}/aggregate": self._own(self._aggregate),
            "/api/tables/{table}/history": self._own(self._history),
        }
        elastic = {
            "/": self._elastic(lambda _r, _b: _info()),
            "/_cluster/health": self._elastic(lambda _r, _b: {"cluster_name": "indextables", "status": "green"}),
            "/_cat/indices": self._elastic(lambda _r, _b: self._indices()),
            "/_cat/indices/{index}": self._elastic(lambda r, _b: self._indices(r.path_params["index"])),
            "/_msearch": self._elastic(self._msearch, lines=True),
            "/{index}/_msearch": self._elastic(self._msearch, lines=True),
            "/{index}/_search": self._elastic(lambda r, b: self._one(r, _SEARCH_KEYS).search(_with_parameters(r, b))),
            "/{index}/_count": self._elastic(lambda r, b: self._elastic_count(r, b)),
            "/{index}/_mapping": self._elastic(lambda r, _b: self._mappings(r)),
            "/{index}/_field_caps": self._elastic(self._field_caps),
            "/_field_caps": self._elastic(self._field_caps),
            "/_search": self._elastic(lambda r, b: self._one(r, _SEARCH_KEYS).search(_with_parameters(r, b))),
            "/_count": self._elastic(lambda r, b: self._elastic_count(r, b)),
            "/_mapping": self._elastic(lambda r, _b: self._mappings(r)),
            "/{index}": self._elastic(lambda r, _b: self._about(r)),
            "/{rest:path}": self._elastic(lambda r, _b: _no_such_address(r), lines=None),
        }
        return [Route(path, handler, methods=["GET", "POST"]) for path, handler in {**own, **elastic}.items()]

    async def _page(self, _request: Request) -> Response:
        """What can be asked for, for people."""
        rows = [{"address": path, "what": about["get"]["summary"]} for path, about in openapi()["paths"].items()]
        content = [element("h1", text("Search service")), listing(rows, caption="Addresses")]
        return HTMLResponse(frame("Search service", *content, up="./"))

    async def _metrics(self, _request: Request) -> Response:
        """What this process has done, for a scraper."""
        return PlainTextResponse(METRICS.prometheus(), media_type="text/plain; version=0.0.4")

    def _own(self, work: Callable[[Request, Mapping[str, Any]], Any]) -> Callable[[Request], Any]:
        async def handler(request: Request) -> Response:
            try:
                body = await _object(request)
                return _json(await self.limits.run(request, lambda: work(request, body)))
            except IndexTablesError as error:
                return _json({"error": error.to_dict()}, status_of(error))

        return handler

    def _elastic(self, work: Callable[[Request, Any], Any], *, lines: bool | None = False) -> Callable[[Request], Any]:
        """An address of the dialect; its body is an object, or `lines` of them, or (None) is not looked at."""

        async def handler(request: Request) -> Response:
            try:
                body = None if lines is None else await (_lines(request) if lines else _object(request))
                answer = await self.limits.run(request, lambda: work(request, body))
                return _json(answer, headers=_PRODUCT)
            except IndexTablesError as error:
                return _json(_elastic_error(error), status_of(error), headers=_PRODUCT)

        return handler

    def _describe(self, request: Request) -> dict[str, Any]:
        table = self.warehouse.open(request.path_params["table"])
        return {**table.to_dict(), "rows": table.count()}

    def _search(self, request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
        given = _given(request, body, *_SEARCH)
        table = self.warehouse.open(request.path_params["table"], version=_whole(given, "version"))
        limit, offset = _whole(given, "limit", 10), _whole(given, "offset", 0) or 0
        if limit is None or limit + offset > _MOST_ROWS:
            hint = "Go on page by page with search_after, empty for the first page and then the next of the answer."
            raise InvalidInputError(f"At most {_MOST_ROWS:,} rows are answered.", hint=hint)
        columns = given.get("columns")
        wanted: dict[str, Any] = {
            "where": given.get("where") or None,
            "columns": columns.split(",") if isinstance(columns, str) else columns,
            "limit": limit,
            "order_by": given.get("order_by") or None,
            "snippet": given.get("snippet") or None,
        }
        query = given.get("q") or "*"
        if "search_after" not in given:
            rows = table.search(query, offset=offset, **wanted)
            return {"version": table.version, "rows": rows.to_pylist(maps_as_pydicts="lossy")}
        if offset:
            raise InvalidInputError("search_after takes no offset.", hint="Leave out one of the two.")
        page = table.search_page(query, search_after=given["search_after"] or None, **wanted)
        return {"version": page.version, "rows": page.rows.to_pylist(maps_as_pydicts="lossy"), "next": page.next}

    def _count(self, request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
        given = _given(request, body, "q", "where", "version")
        table = self.warehouse.open(request.path_params["table"], version=_whole(given, "version"))
        return {
            "version": table.version,
            "count": table.count(query=given.get("q") or None, where=given.get("where") or None),
        }

    def _aggregate(self, request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
        given = _given(request, body, "q", "where", "version", "aggs")
        spec = given.get("aggs")
        if isinstance(spec, str):
            spec = _decoded(spec.encode(), "aggs")
        table = self.warehouse.open(request.path_params["table"], version=_whole(given, "version"))
        rows = table.aggregate(spec or {}, query=given.get("q") or None, where=given.get("where") or None)
        return {"version": table.version, "rows": rows.to_pylist()}

    def _history(self, request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
        limit = _whole(_given(request, body, "limit"), "limit", 20)
        return {"versions": self.warehouse.open(request.path_params["table"]).history(limit=limit).to_pylist()}

    def _matching(self, pattern: str) -> list[ShownTable]:
        """The tables that an index pattern means: names with commas between them, and `*`."""
        parts = [p.strip() for p in pattern.split(",")]
        return [t for t in self.warehouse.tables() if any(p == "_all" or fnmatchcase(t.name, p) for p in parts)]

    def _open(self, pattern: str) -> ElasticSearch:
        found = self._matching(pattern)
        if not found:
            names = ", ".join(t.name for t in self.warehouse.tables())
            raise NotFoundError(f"no such index [{pattern}]", hint=f"The tables are {names}.", index=pattern)
        if len(found) > 1:
            names = ", ".join(t.name for t in found)
            hint = f"Name one of {names}."
            raise InvalidInputError(f"A search over several tables ({names}) is not supported.", hint=hint)
        return ElasticSearch(self.warehouse.open(found[0].name), found[0].name)

    def _one(self, request: Request, parameters: set[str]) -> ElasticSearch:
        _check_parameters(request, parameters)
        return self._open(request.path_params.get("index", "_all"))

    def _about(self, request: Request) -> dict[str, Any]:
        if request.path_params["index"].startswith("_"):
            _no_such_address(request)
        mappings = self._mappings(request)
        return {name: {"aliases": {}, "settings": {}, **about} for name, about in mappings.items()}

    def _elastic_count(self, request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
        count = self._one(request, _QUERY_KEYS).count(_with_parameters(request, body))
        return {"count": count, "_shards": _shards()}

    def _msearch(self, request: Request, searches: list[Any]) -> dict[str, Any]:
        _check_parameters(request, {"max_concurrent_searches", "typed_keys"})
        answers = []
        for header, body in zip(searches[::2], searches[1::2], strict=True):
            index = header.get("index", request.path_params.get("index", "_all"))
            try:
                name = ",".join(index) if isinstance(index, list) else str(index)
                answers.append({**self._open(name).search(body), "status": 200})
            except IndexTablesError as error:
                answers.append(_elastic_error(error))
        return {"took": sum(a.get("took", 0) for a in answers), "responses": answers}

    def _mappings(self, request: Request) -> dict[str, Any]:
        pattern = request.path_params.get("index", "_all")
        found = self._matching(pattern)
        if not found:
            self._open(pattern)
        return {t.name: {"mappings": ElasticSearch(self.warehouse.open(t.name), t.name).mapping()} for t in found}

    def _field_caps(self, request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
        _check_parameters(request, {"fields", "include_unmapped", "include_empty_fields", "filters"})
        fields = body.get("fields") or request.query_params.get("fields", "*")
        patterns = fields.split(",") if isinstance(fields, str) else [str(f) for f in fields]
        found = self._matching(request.path_params.get("index", "_all"))
        caps: dict[str, dict[str, Any]] = {}
        for shown in found:
            for name, kinds in ElasticSearch(self.warehouse.open(shown.name), shown.name).field_caps(patterns).items():
                caps.setdefault(name, {}).update(kinds)
        return {"indices": [t.name for t in found], "fields": caps}

    def _indices(self, pattern: str = "_all") -> list[dict[str, str]]:
        rows = []
        for shown in self._matching(pattern):
            table = self.warehouse.open(shown.name)
            size = sum(table.files().column("size").to_pylist())
            common = {"health": "green", "status": "open", "index": shown.name, "uuid": table.metadata.id}
            rows.append({**common, "pri": "1", "rep": "0", "docs.count": str(table.count()), "store.size": str(size)})
        return rows


def _info() -> dict[str, Any]:
    return {
        "name": "indextables",
        "cluster_name": "indextables",
        "cluster_uuid": "indextables",
        "version": {"number": "9.0.0", "build_flavor": "default", "lucene_version": "10.0.0", "indextables": VERSION},
        "tagline": "Tables of full-text search indexes",
    }


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
_READ_ONLY = "The service is read only: write with Table.append, indextables append or Spark."
_PAGES = "Go on page by page with sort and search_after, for as long as you like."
_ANSWERED = (
    "/{index}/_search, /{index}/_count, /_msearch, /{index}/_mapping, /{index}/_field_caps, /_cat/indices, /_cluster/health; "
    "/api lists the addresses of JSON."
)


def _no_such_address(request: Request) -> NoReturn:
    """The refusal of an address of Elasticsearch that has no answer here."""
    path = request.url.path
    parts = set(path.split("/"))
    hint = _READ_ONLY if parts & _WRITES else _PAGES if parts & {"scroll", "_pit"} else f"Answered: {_ANSWERED}"
    raise NotFoundError(f"{request.method} {path} is not answered here.", hint=hint, address=path)


def _shards() -> dict[str, int]:
    return {"total": 1, "successful": 1, "skipped": 0, "failed": 0}


def _with_parameters(request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a search with what its address says."""
    merged = dict(body)
    for key in ("size", "from"):
        if key in request.query_params:
            merged[key] = _whole(dict(request.query_params), key)
    if "q" in request.query_params:
        own = ("default_operator", "df")
        given = {{"df": "default_field"}.get(k, k): request.query_params[k] for k in own if k in request.query_params}
        merged["query"] = {"query_string": {"query": request.query_params["q"], **given}}
    if "track_total_hits" in request.query_params:
        merged["track_total_hits"] = request.query_params["track_total_hits"] != "false"
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
        if key not in _HARMLESS | known or (key in ("typed_keys", "rest_total_hits_as_int") and not switched_off):
            hint = _PAGES if key == "scroll" else f"Known: {', '.join(sorted(known))}."
            raise InvalidInputError(f"The parameter {key!r} is not supported.", hint=hint, part=key)


def _given(request: Request, body: Mapping[str, Any], *known: str) -> dict[str, Any]:
    found = {**request.query_params, **body}
    unknown = next((key for key in found if key not in known), None)
    if unknown is not None:
        raise InvalidInputError(f"{unknown!r} is not known here.", hint=f"Known: {', '.join(known)}.", part=unknown)
    return found


def _whole(given: Mapping[str, Any], key: str, default: int | None = None) -> int | None:
    value = given.get(key)
    if value is None or value == "":
        return default
    if isinstance(value, bool) or not str(value).isdigit() or len(str(value)) > 15:
        raise InvalidInputError(f"{key}={value!r} is not a whole number.", hint="Give digits alone.", key=key)
    return int(value)


async def _body(request: Request) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > _LARGEST:
            raise InvalidInputError(f"The request is larger than {_LARGEST:,} bytes.", hint="Ask for less at once.")
        parts.append(part)
    return b"".join(parts)


def _decoded(data: bytes, what: str) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{what} is no JSON: {error}.", hint="Send a JSON object.") from None


async def _object(request: Request) -> dict[str, Any]:
    data = await _body(request)
    found = _decoded(data, "The body") if data.strip() else {}
    if not isinstance(found, dict):
        raise InvalidInputError("The body must be a JSON object.", hint="Send a JSON object.")
    return found


async def _lines(request: Request) -> list[dict[str, Any]]:
    found = [_decoded(line, "A line") for line in (await _body(request)).splitlines() if line.strip()]
    if len(found) % 2 or not all(isinstance(line, dict) for line in found):
        raise InvalidInputError(
            "_msearch takes pairs of lines: a header and a search.", hint="Send both for each search."
        )
    return found


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    content = msgspec.json.encode(value, enc_hook=str)
    return Response(content, status_code=status, media_type="application/json", headers=dict(headers or {}))


def _elastic_error(error: IndexTablesError) -> dict[str, Any]:
    missing = "resource_not_found_exception" if "address" in error.context else "index_not_found_exception"
    kind = missing if isinstance(error, NotFoundError) else "parsing_exception"
    reason = {"type": kind, "reason": f"{error.message.splitlines()[0]} {error.hint}"}
    return {"error": {"root_cause": [reason], **reason}, "status": status_of(error)}


def openapi() -> dict[str, Any]:
    """The JSON addresses, as OpenAPI says it."""
    about = {
        "/api/tables": ("The names of the tables.", ()),
        "/api/tables/{table}": ("What a table is.", ()),
        "/api/tables/{table}/search": ("The best rows for a query, or the first by a column.", _SEARCH),
        "/api/tables/{table}/count": ("How many rows match.", ("q", "where", "version")),
        "/api/tables/{table}/aggregate": ("Aggregations over all rows that match.", ("q", "where", "version", "aggs")),
        "/api/tables/{table}/history": ("What was committed.", ("limit",)),
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "IndexTables search service", "version": VERSION},
        "paths": {path: _operations(path, summary, names) for path, (summary, names) in about.items()},
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
        kind = "integer" if name in ("limit", "offset", "version") else "string"
        yield {"name": name, "in": "query", "required": False, "schema": {"type": kind}}


LOOPBACK = "127.0.0.1"
_NAMES = {LOOPBACK, "localhost", "[::1]"}
_TOKEN_BYTES = 24
_CONNECTIONS = 200
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def serve(warehouse: Warehouse, *, port: int, started: Callable[[str], None]) -> None:
    """Serve until interrupted, to this machine only. `started` is told the address, which nobody can guess."""
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    limits = Limits()
    app = application(Explorer(warehouse, limits), token)
    with listening(LOOPBACK, port) as opened:
        config = uvicorn.Config(
            app, log_level="error", access_log=False, lifespan="off", limit_concurrency=_CONNECTIONS
        )
        started(f"http://{LOOPBACK}:{opened.getsockname()[1]}/{token}/")
        try:
            uvicorn.Server(config).run(sockets=[opened])
        except KeyboardInterrupt:
            return
        finally:
            limits.close()


def serve_searches(
    warehouse: Warehouse, *, host: str, port: int, token: str | None, started: Callable[[str, str], None]
) -> None:
    """The search service until interrupted. `started` is told the address and the token, which is made unless given."""
    secret = token or secrets.token_urlsafe(_TOKEN_BYTES)
    limits = Limits()
    names = frozenset(_NAMES) if host in _NAMES else frozenset[str]()
    app = service_application(Service(warehouse, limits), secret, names=names)
    with listening(host, port) as opened:
        config = uvicorn.Config(
            app, log_level="error", access_log=False, lifespan="off", limit_concurrency=_CONNECTIONS
        )
        started(f"http://{host}:{opened.getsockname()[1]}", secret)
        try:
            uvicorn.Server(config).run(sockets=[opened])
        except KeyboardInterrupt:
            return
        finally:
            limits.close()


def service_application(service: Service, token: str, *, names: frozenset[str]) -> ASGIApp:
    """The search service behind the guard."""
    return Guard(Starlette(routes=[Mount("/", routes=service.routes())]), token, names=names, headers=True)


def application(explorer: Explorer, token: str, *, names: frozenset[str] = frozenset()) -> ASGIApp:
    """The pages behind the guard: who does not know the token, or comes by another name, is told nothing."""
    return Guard(Starlette(routes=[Mount("/", routes=explorer.routes())]), token, names=frozenset(_NAMES | names))


class Guard:
    """Lets through what names this machine and holds the secret as the first part of its path, and takes that off.

    With `headers` the secret may be in the header `Authorization` instead, and questions may be posted; with no `names`
    any name of the machine is right, which is for servers that others reach.
    """

    def __init__(self, app: ASGIApp, token: str, *, names: frozenset[str], headers: bool = False) -> None:
        self._app = app
        self._token = token.encode()
        self._names = names
        self._methods = ("GET", "HEAD", "POST") if headers else ("GET", "HEAD")
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":
            return
        host = Headers(scope=scope).get("host", "")
        name = host.rpartition(":")[0] if ":" in host.rpartition("]")[2] else host
        secret, slash, rest = scope["path"].removeprefix("/").partition("/")
        known = secrets.compare_digest(secret.encode("utf-8", "surrogateescape"), self._token) and bool(slash)
        by_header = self._headers and not known and self._is_authorized(Headers(scope=scope).get("authorization", ""))
        if (self._names and name not in self._names) or not (known or by_header):
            await PlainTextResponse("Forbidden", status_code=403, headers=HEADERS)(scope, receive, send)
            return
        if scope["method"] not in self._methods:
            await self._refuse_method(scope)(scope, receive, send)
            return
        path = scope["path"] if by_header else f"/{rest}"
        inner = {**scope, "path": path, "raw_path": None, "root_path": ""}
        await self._app(inner, receive, _with_headers(send))

    def _refuse_method(self, scope: Scope) -> Response:
        if not self._headers:
            return PlainTextResponse("Only questions are answered.", status_code=405, headers=HEADERS)
        reason = f"{scope['method']} {scope['path']} is not answered here. {_READ_ONLY}"
        error = {"type": "method_not_allowed", "reason": reason}
        return _json({"error": {"root_cause": [error], **error}, "status": 405}, 405, {**HEADERS, **_PRODUCT})

    def _is_authorized(self, header: str) -> bool:
        """Whether a header `Authorization` holds the secret: as Bearer, ApiKey, or the password of Basic."""
        scheme, _, value = header.partition(" ")
        given = value.strip().encode("utf-8", "surrogateescape")
        if scheme.lower() == "basic":
            try:
                given = b64decode(given, validate=True).partition(b":")[2]
            except ValueError:
                return False
        elif scheme.lower() not in ("bearer", "apikey"):
            return False
        return secrets.compare_digest(given, self._token)


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Content-Security-Policy", POLICY)
        await send(message)

    return sent


def listening(host: str, port: int) -> socket.socket:
    """A socket at a port, or an error that says why there is none."""
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
        opened.listen(128)
    except OSError as error:
        opened.close()
        in_use = error.errno == errno.EADDRINUSE
        why = "is in use by another program" if in_use else f"cannot be listened to: {error.strerror}"
        hint = "Choose another port, or 0 for any that is free."
        raise InvalidInputError(f"Port {port} of {host} {why}.", hint=hint, port=port) from None
    return opened
