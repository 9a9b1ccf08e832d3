"""The page of a table for a browser on the same machine: the report as the table is now, and a box to search it.

Every user and every program of a machine reaches its loopback, so the address holds a secret that only who started the
server was told. Without it nothing is answered. A web site that has its own name lead here is refused by the `Host` that
the browser sends, and what the page may load or be loaded into is nothing.
"""

from __future__ import annotations

import errno
import secrets
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from indextables.config.indexing import IndexingSettings
from indextables.errors import IndexTablesError, InvalidInputError
from indextables.table import Table
from indextables.web.page import page, section
from indextables.web.report import report_html
from indextables.web.svg import Markup, element, text

LOOPBACK = "127.0.0.1"
_SHOWN = 50
_TOKEN_BYTES = 24
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def serve(table: Table, *, port: int, started: Callable[[str], None]) -> None:
    """Serve until interrupted, to this machine only. `started` is told the address, which nobody can guess."""
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    with _open_server(table, port, token) as server:
        started(f"http://{LOOPBACK}:{server.server_port}/{token}/")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return


def _open_server(table: Table, port: int, token: str) -> ThreadingHTTPServer:
    try:
        return ThreadingHTTPServer((LOOPBACK, port), handler_of(table, token))
    except OSError as error:
        in_use = error.errno == errno.EADDRINUSE
        why = "is in use by another program" if in_use else f"cannot be listened to: {error.strerror}"
        hint = "Choose another port, or 0 for any that is free."
        raise InvalidInputError(f"Port {port} of {LOOPBACK} {why}.", hint=hint, port=port) from None


def handler_of(table: Table, token: str) -> type[BaseHTTPRequestHandler]:
    """What answers requests about a table: `/TOKEN/` with the report, `/TOKEN/search?q=...` with the best matches."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """One page. A name other than this machine's is refused, so that no web site can read the table through it."""
            url = urlsplit(self.path)
            secret, slash, place = url.path.removeprefix("/").partition("/")
            named = (self.headers.get("Host") or "").rpartition(":")[0] in (LOOPBACK, "localhost")
            if not named or not secrets.compare_digest(secret.encode("utf-8", "surrogateescape"), token.encode()):
                self.send_error(HTTPStatus.FORBIDDEN)
            elif slash and not place:
                self._answer(lambda: report_html(table.refresh()).replace("<main>", f"<main>{_box('')}", 1))
            elif place == "search":
                query = parse_qs(url.query).get("q", [""])[0]
                self._answer(lambda: search_page(table.refresh(), query))
            else:
                self.send_error(HTTPStatus.NOT_FOUND)

        def _answer(self, content: Callable[[], str]) -> None:
            try:
                status, markup = HTTPStatus.OK, content()
            except IndexTablesError as error:
                status = HTTPStatus.BAD_REQUEST
                markup = page("Error", _box(""), section("Error", error.message), element("p", text(error.hint)))
            body = markup.encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            for name, value in _HEADERS.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Requests are not printed: the terminal belongs to the command."""

    return Handler


def search_page(table: Table, query: str) -> str:
    """The best matches of a query, marked, with their scores."""
    kinds = table.settings.group(IndexingSettings).typemap
    snippet = next((name for name in table.schema.names if kinds.get(name) == "text"), None)
    matches = table.search(query, limit=_SHOWN, snippet=snippet)
    caption = (
        f"{matches.num_rows:,} of {table.count(query=query):,} matches in version {table.version}, the best first."
    )
    items = [_match(row, snippet) for row in matches.to_pylist()]
    return page(f"{query} - search", _box(query), section("Search", caption, *items))


def _match(row: Mapping[str, Any], snippet_column: str | None) -> Markup:
    """One match: its score and marked passage, then its columns."""
    pieces = [piece for part in str(row.get("_snippet") or "").split("<b>") for piece in part.split("</b>", 1)]
    passages = [element("mark", text(piece)) if n % 2 else text(piece) for n, piece in enumerate(pieces)]
    columns_shown = {"_score", "_snippet", snippet_column if row.get("_snippet") else None}
    other_columns = "  ".join(
        f"{name}={value}" for name, value in row.items() if name not in columns_shown and value is not None
    )
    score = element("b", text(f"{row['_score']:.3f} "))
    return element("p", score, *passages, element("br"), element("small", text(other_columns)))


def _box(query: str) -> Markup:
    field = element("input", name="q", value=query, placeholder="Search", size="60")
    button = element("button", text("Search"))
    home = element("a", text("Report"), href="./")
    return element("form", field, text(" "), button, text(" "), home, action="search", method="get")
