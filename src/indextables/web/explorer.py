"""The explorer application: the routes of its pages and the limits of each request.

Only GET requests are answered, and no page calls a verb that changes a table. A request runs in a
thread of a small pool. Hits have a pool of their own, so that facets, exports and checks never
delay them. A request that exceeds its time limit, or whose client has disconnected, ends between
two splits.

Hits can be exported as CSV, JSON lines or Parquet. Exports are streamed, so their size is not
limited.
"""

from __future__ import annotations

import asyncio
import contextvars
import io
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.resources import files
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from msgspec import Struct
from msgspec.structs import replace
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from indextables.errors import (
    AccessDeniedError,
    IndexTablesError,
    InvalidInputError,
    NotFoundError,
    QuerySyntaxError,
    RefusedError,
    StorageError,
)
from indextables.metrics import METRICS
from indextables.query.search_pages import PageToken
from indextables.query.task import ENOUGH, ScanTask
from indextables.table import Table
from indextables.web import search_page as search_pages
from indextables.web import table_pages
from indextables.web.exploration import TableView, View, completions
from indextables.web.layout import problem, summary
from indextables.web.report import report_html
from indextables.web.svg import Markup
from indextables.web.warehouse import Warehouse


class ExportFormat(Struct, frozen=True):
    """A format of exported rows, with its file extension and content type."""

    suffix: str
    media_type: str
    encode: Callable[[pa.Schema, Iterator[pa.RecordBatch]], Iterator[bytes]]


def export(exploration: TableView, kind: str) -> tuple[ExportFormat, Iterator[bytes]]:
    """Return the format, and the bytes of every hit in the chosen columns, in the order of the
    table.
    """
    if kind not in FORMATS:
        hint = f"The formats are {', '.join(FORMATS)}."
        raise InvalidInputError(f"There is no export as {kind!r}.", hint=hint, format=kind)
    task: ScanTask = exploration.task(exploration.chosen_columns)
    schema = task.plan.output_schema
    return FORMATS[kind], FORMATS[kind].encode(schema, task.batches())


def _csv(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    """Write CSV. Nested values are written as JSON."""
    flat = pa.schema([pa.field(f.name, pa.string() if _is_odd(f.type) else f.type) for f in schema])
    sink = io.BytesIO()
    with pacsv.CSVWriter(sink, flat) as writer:
        yield from _take_bytes(sink)
        for batch in batches:
            writer.write_batch(_flat(batch, flat))
            yield from _take_bytes(sink)


def _is_odd(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    )


def _flat(batch: pa.RecordBatch, flat: pa.Schema) -> pa.RecordBatch:
    columns = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if _is_odd(field.type):
            texts = [
                None if v is None else _json(v).decode()
                for v in column.to_pylist(maps_as_pydicts="lossy")
            ]
            column = pa.array(texts, pa.string())
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=flat)


def _json_lines(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:  # noqa: ARG001
    for batch in batches:
        rows = batch.to_pylist(maps_as_pydicts="lossy")
        if rows:
            yield b"".join(_json(row) + b"\n" for row in rows)


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=str)


def _parquet(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    sink = _Growing()
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for batch in batches:
            if batch.num_rows:
                writer.write_batch(batch)
            yield from sink.take()
    yield from sink.take()


class _Growing(io.RawIOBase):
    """A write-only file whose bytes are removed while it grows. It keeps its write position."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._at = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Buffer bytes until `take` removes them."""
        part = bytes(data)
        self._parts.append(part)
        self._at += len(part)
        return len(part)

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._at

    def take(self) -> Iterator[bytes]:
        """Remove and return the bytes written since the last call."""
        parts, self._parts = self._parts, []
        if parts:
            yield b"".join(parts)


def _take_bytes(sink: io.BytesIO) -> Iterator[bytes]:
    part = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    if part:
        yield part


FORMATS = {
    "csv": ExportFormat("csv", "text/csv; charset=utf-8", _csv),
    "jsonl": ExportFormat("jsonl", "application/x-ndjson", _json_lines),
    "parquet": ExportFormat("parquet", "application/vnd.apache.parquet", _parquet),
}


T = TypeVar("T")
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
_ASSETS = {
    "explorer.css": "text/css",
    "explorer.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


_QUICK_SECONDS = 0.2
"""Seconds between two checks whether the client is still connected."""


class Limits:
    """Limits of concurrent requests and of their duration, separate for fast and slow requests."""

    def __init__(self, *, quick: int = 8, slow: int = 2, seconds: float = 30.0) -> None:
        self.seconds = seconds
        self._pools = {
            "quick": ThreadPoolExecutor(quick, thread_name_prefix="indextables-quick"),
            "slow": ThreadPoolExecutor(slow, thread_name_prefix="indextables-slow"),
        }

    async def run(self, request: Request, work: Callable[[], T], *, slow: bool = False) -> T:
        """Run work in a thread and return its result.

        Raises RefusedError if it exceeds the time limit or if the client has disconnected.
        """
        gone = [False]
        check = partial(_check, time.monotonic() + self.seconds, self.seconds, gone)
        context = contextvars.copy_context()
        context.run(ENOUGH.set, check)

        def run_started() -> T:
            check()
            return work()

        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(
            self._pools["slow" if slow else "quick"], context.run, run_started
        )
        done, _ = await asyncio.wait((future,), timeout=_QUICK_SECONDS)
        if done:  # too short for a client to disconnect
            return future.result()
        watch = asyncio.create_task(_watch(request, gone))
        try:
            return await asyncio.wait_for(asyncio.shield(future), self.seconds - _QUICK_SECONDS)
        except TimeoutError:
            future.add_done_callback(lambda done: done.exception())
            raise _too_long(self.seconds) from None
        finally:
            gone[0] = True  # ends the watch even if `is_disconnected` swallows the cancellation
            watch.cancel()

    def close(self) -> None:
        """Stop the threads when their work is done."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)


def _check(deadline: float, seconds: float, gone: list[bool]) -> None:
    if gone[0]:
        raise RefusedError(
            "The client disconnected before the response was ready.", hint="Repeat the request."
        )
    if time.monotonic() > deadline:
        raise _too_long(seconds)


def _too_long(seconds: float) -> RefusedError:
    hint = "Narrow it: a condition on a partition or a time, a column for each word, no leading wildcard."
    return RefusedError(
        f"This took longer than {seconds:g} seconds and was ended.", hint=hint, seconds=seconds
    )


async def _watch(request: Request, gone: list[bool]) -> None:
    while not gone[0]:
        gone[0] = await request.is_disconnected()
        await asyncio.sleep(0.2)


class Explorer:
    """The pages over the tables of a warehouse."""

    def __init__(self, warehouse: Warehouse, limits: Limits) -> None:
        self.warehouse = warehouse
        self.limits = limits
        self._assets = {
            name: files("indextables.web").joinpath("assets", name).read_bytes() for name in _ASSETS
        }

    def routes(self) -> list[Route]:
        """Return the routes below the secret path."""
        pages = {
            "schema": table_pages.schema_page,
            "partitions": table_pages.partitions_page,
            "files": table_pages.files_page,
            "history": table_pages.history_page,
            "upkeep": table_pages.upkeep_page,
        }
        parts = {
            "histogram": lambda e: search_pages.histogram_part(e.histogram(), e.view),
            "facets": lambda e: search_pages.facets_part(e.facets(), e.view, e.wide_columns),
            "versions": lambda e: search_pages.versions_part(e.table, e.view),
            "count": lambda e: search_pages.count_part(e.count()),
            "cost": lambda e: search_pages.cost_part(e.steps()),
        }
        return [
            Route("/", self.home),
            Route("/metrics", self.metrics),
            Route("/assets/{name}", self.asset),
            Route("/t/{table}/search", self.search),
            Route("/t/{table}/live", self.live),
            Route("/t/{table}/completions", self.completions),
            Route("/t/{table}/facet", self.facet),
            Route("/t/{table}/export", self.export),
            Route("/t/{table}/report", self.report),
            *(
                Route(f"/t/{{table}}/{name}", partial(self.page, make))
                for name, make in pages.items()
            ),
            *(
                Route(f"/t/{{table}}/{name}", partial(self.part, make))
                for name, make in parts.items()
            ),
        ]

    async def metrics(self, _request: Request) -> Response:
        """Return the metrics of this process in the format that Prometheus scrapes."""
        return PlainTextResponse(METRICS.prometheus(), media_type="text/plain; version=0.0.4")

    async def asset(self, request: Request) -> Response:
        """Return a static file: style, script or icon."""
        name = request.path_params["name"]
        if name not in _ASSETS:
            raise HTTPException(404)
        return Response(self._assets[name], media_type=_ASSETS[name])

    async def home(self, request: Request) -> Response:
        """List the tables, or redirect to the only one."""
        shown = await self.limits.run(request, self.warehouse.tables)
        if len(shown) == 1:
            return RedirectResponse(f"t/{quote(shown[0].name, safe='')}/search", status_code=302)
        return await self._answer(request, lambda: table_pages.home_page(self.warehouse), up="")

    async def search(self, request: Request) -> Response:
        """Return the search page. An error of the query is shown at its position and the choices
        are kept.
        """
        return await self._answer(request, lambda: self._search(request))

    def _search(self, request: Request) -> Markup | tuple[Markup, int]:
        view, name = View.of(request.query_params.multi_items()), request.path_params["table"]
        table = self.warehouse.open(name, version=view.version)
        try:
            if view.after and (version := PageToken.parse(view.after).version) != table.version:
                view = replace(
                    view, version=version
                )  # a page goes on in the version that the first one was of
                table = self.warehouse.open(name, version=version)
            exploration = TableView(table, view)
            hits = exploration.page()
            if not view.panels:
                return search_pages.search_page(name, table, view, exploration, hits)
            parts, count = _panels(exploration), exploration.count()
            return search_pages.search_page(
                name, table, view, exploration, hits, parts=parts, count=count
            )
        except InvalidInputError as error:
            if isinstance(error, QuerySyntaxError) and "query" not in error.context:
                of = view.where
            else:
                of = view.query
            return search_pages.error_page(name, table, view, error, of=of), 400

    async def part(self, make: Callable[[TableView], Markup], request: Request) -> Response:
        """Return one part of the search page. The page requests it after the hits are shown."""
        slow = not request.url.path.endswith(("/count", "/versions"))

        def work() -> Markup:
            view = View.of(request.query_params.multi_items())
            return make(
                TableView(
                    self.warehouse.open(request.path_params["table"], version=view.version), view
                )
            )

        return await self._answer(request, work, slow=slow, alone=True)

    async def live(self, request: Request) -> Response:
        """Return the hit count of a query, or its error with the position, while the query is
        typed.
        """

        def work() -> dict[str, Any]:
            view = View.of(request.query_params.multi_items())
            table = self.warehouse.open(request.path_params["table"], version=view.version)
            try:
                return {"count": TableView(table, view).count()}
            except InvalidInputError as error:
                return {
                    "message": f"{summary(error)} {error.hint}",
                    "position": error.context.get("position"),
                }

        return await self._json(request, work)

    async def facet(self, request: Request) -> Response:
        """Return the most frequent values of one column. The page requests them when the facet is
        opened.
        """

        def work() -> Markup:
            parameters = request.query_params.multi_items()
            view = View.of(pair for pair in parameters if pair[0] != "facet")
            exploration = TableView(
                self.warehouse.open(request.path_params["table"], version=view.version), view
            )
            return search_pages.values_part(
                exploration.facet(request.query_params.get("facet", "")), view
            )

        return await self._answer(request, work, slow=True, alone=True)

    async def completions(self, request: Request) -> Response:
        """Return the completions of the search box."""

        def work() -> dict[str, Any]:
            table = self.warehouse.open(request.path_params["table"])
            return {
                "completions": list(completions(table, request.query_params.get("q", "")[:2000]))
            }

        return await self._json(request, work)

    async def export(self, request: Request) -> Response:
        """Export every hit as a file."""
        name = request.path_params["table"]

        def work() -> tuple[Any, Iterator[bytes]]:
            view = View.of(request.query_params.multi_items())
            exploration = TableView(self.warehouse.open(name, version=view.version), view)
            return export(exploration, request.query_params.get("format", "csv"))

        try:
            form, parts = await self.limits.run(request, work)
        except IndexTablesError as error:
            return self._answer_error(error, up="../../", name=name)
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}.{form.suffix}"
        }
        return StreamingResponse(
            self._stream(request, parts), media_type=form.media_type, headers=headers
        )

    async def _stream(self, request: Request, parts: Iterator[bytes]) -> AsyncIterator[bytes]:
        """Stream the parts of a file, each within the time limit of a request."""
        end = object()
        while True:
            part = await self.limits.run(request, partial(next, parts, end), slow=True)
            if part is end:
                return
            assert isinstance(part, bytes)
            yield part

    async def report(self, request: Request) -> Response:
        """Return the self-contained report page."""
        name = request.path_params["table"]

        def work() -> Markup:
            return Markup(report_html(self.warehouse.open(name)))

        answer = await self._answer(request, work, slow=True)
        answer.headers["Content-Security-Policy"] = (
            REPORT_POLICY if answer.status_code == 200 else POLICY
        )
        return answer

    async def page(
        self, make: Callable[[str, Table, dict[str, str]], Markup], request: Request
    ) -> Response:
        """Return a page about the table itself."""
        name, parameters = request.path_params["table"], dict(request.query_params)
        return await self._answer(
            request, lambda: make(name, self.warehouse.open(name), parameters), slow=True
        )

    async def _answer(
        self,
        request: Request,
        work: Callable[[], Markup | tuple[Markup, int]],
        *,
        slow: bool = False,
        up: str = "../../",
        alone: bool = False,
    ) -> Response:
        try:
            made = await self.limits.run(request, work, slow=slow)
        except IndexTablesError as error:
            if alone:
                return HTMLResponse(problem(error), status_code=status_of(error))
            return self._answer_error(error, up=up, name=request.path_params.get("table"))
        markup, status = made if isinstance(made, tuple) else (made, 200)
        return HTMLResponse(markup, status_code=status)

    def _answer_error(self, error: IndexTablesError, *, up: str, name: str | None) -> Response:
        known = None if isinstance(error, NotFoundError) else name
        return HTMLResponse(
            table_pages.error_page(error, up=up, name=known), status_code=status_of(error)
        )

    async def _json(self, request: Request, work: Callable[[], dict[str, Any]]) -> Response:
        try:
            return JSONResponse(await self.limits.run(request, work))
        except IndexTablesError as error:
            return JSONResponse(
                {"message": f"{summary(error)} {error.hint}"}, status_code=status_of(error)
            )


def _panels(exploration: TableView) -> list[Markup]:
    view = exploration.view
    histogram = search_pages.histogram_part(exploration.histogram(), view)
    return [
        histogram,
        search_pages.facets_part(exploration.facets(), view, exploration.wide_columns),
    ]


def status_of(error: IndexTablesError) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, NotFoundError):
        return 404
    if isinstance(error, RefusedError):
        return 503
    if isinstance(error, AccessDeniedError):
        return 403
    if isinstance(error, InvalidInputError):
        return 400
    if isinstance(error, StorageError):
        return 502
    return 500
