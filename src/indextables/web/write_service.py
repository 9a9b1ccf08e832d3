"""The routes of `indextables serve --write`: requests of log shippers.

They need the write token, which opens nothing else: no route returns rows. Requests that shippers
and clients make when they start are answered as far as they need; templates and policies have no
effect here, and the answer has a header `Warning` that says so.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import Any

import pyarrow as pa
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp

from indextables.errors import IndexTablesError, InvalidInputError, NotFoundError, RefusedError
from indextables.model.schema import TIMESTAMP
from indextables.web.bulk import (
    BulkOperation,
    item_of,
    parse_bulk,
    parse_document,
    positions_by_index,
    refusal_of_error,
    write_status,
)
from indextables.web.documents import Refusal
from indextables.web.elastic import ElasticSearch
from indextables.web.explorer import Limits
from indextables.web.http_answers import (
    PRODUCT,
    answer_fault,
    answer_refusal,
    elastic_error,
    elastic_info,
    json_answer,
)
from indextables.web.ingestion import Ingest, NewTable
from indextables.web.otlp import (
    JSON,
    LOGS,
    PROTOBUF,
    encode_answer,
    encode_failure,
    parse_logs,
)
from indextables.web.table_writer import Outcome, RequestKey

logger = logging.getLogger(__name__)
_HARMLESS = {
    *("refresh", "timeout", "wait_for_active_shards", "filter_path", "pretty", "human"),
    *("error_trace", "master_timeout", "ignore_unavailable", "allow_no_indices"),
    *("expand_wildcards", "include_type_name", "local", "flat_settings", "overwrite", "op_type"),
    *("require_alias", "require_data_stream", "wait_for_status", "verbose", "level", "create"),
}
"""Parameters that request what is done anyway, or less of the answer."""
_KEY = "idempotency-key"
DOCUMENTS = NewTable(pa.schema([("@timestamp", TIMESTAMP), ("message", pa.string())]), ("message",))
"""A table that is created by documents; its other columns follow from them."""


class WriteService:
    """The routes of the write token."""

    def __init__(self, ingest: Ingest, limits: Limits) -> None:
        self.ingest = ingest
        self.limits = limits

    def routes(self) -> list[BaseRoute]:
        """Return the routes below the access control."""
        write = {
            "/_bulk": (self._bulk, ["POST", "PUT"]),
            "/_bulk/": (self._bulk, ["POST", "PUT"]),  # Fluent Bit
            "/{index}/_bulk": (self._bulk, ["POST", "PUT"]),
            "/{index}/_doc": (self._document, ["POST"]),
            "/{index}/_doc/{id}": (self._document, ["POST", "PUT", "DELETE"]),
            "/{index}/_create/{id}": (self._document, ["POST", "PUT"]),
            "/{index}/_update/{id}": (self._document, ["POST"]),
        }
        logs = [
            Route(path, self._logs, methods=["POST"])
            for path in ("/v1/logs", "/otlp/{index}/v1/logs")
        ]
        found = logs + [
            Route(path, _with_errors(work), methods=how) for path, (work, how) in write.items()
        ]
        for path, answer in _STARTUP.items():
            found.append(Route(path, _with_errors(_with_answer(answer)), methods=["GET"]))
        for path in _DEFINITIONS:
            found.append(Route(path, _with_errors(_define), methods=["PUT", "POST"]))
            found.append(Route(path, _with_errors(_missing), methods=["GET"]))
        found += [
            Route("/_refresh", _with_errors(_refresh), methods=["GET", "POST"]),
            Route("/{index}/_refresh", _with_errors(_refresh), methods=["GET", "POST"]),
            Route("/{index}/_mapping", _with_errors(self._about), methods=["GET"]),
            Route("/{index}", _with_errors(self._about), methods=["GET"]),
        ]
        return [*found, Route("/{rest:path}", _with_errors(_unknown), methods=_METHODS)]

    async def _bulk(self, request: Request) -> Response:
        began = time.monotonic()
        _check_parameters(request)
        index = request.path_params.get("index")
        with self.ingest.body() as body:
            data = await body.read(request)
            operations = await self.limits.run(request, lambda: parse_bulk(data, index))
            outcomes = await self._write(request, operations, data)
        items = [
            item_of(operation, outcome, "created", "")
            for operation, outcome in zip(operations, outcomes, strict=True)
        ]
        busy = _common_failure(outcomes)
        if busy is not None:
            raise busy
        answer = {
            "took": round((time.monotonic() - began) * 1000),
            "errors": any("error" in next(iter(item.values())) for item in items),
            "items": items,
        }
        return json_answer(answer, headers=PRODUCT)

    async def _write(
        self, request: Request, operations: list[BulkOperation], data: bytes
    ) -> list[Refusal | IndexTablesError | int | None]:
        """Write operations; return for each of them the version with its row, or why it has none."""
        key = _request_key(request, data)
        outcomes: list[Refusal | IndexTablesError | int | None] = [o.refusal for o in operations]
        answers: list[tuple[list[int], Future[Outcome] | IndexTablesError]] = []
        for index, positions in positions_by_index(operations).items():
            appended = _without_ids(operations, positions, outcomes)
            if not appended:
                continue
            documents = [operations[n].document for n in appended]
            size = len(data) * len(appended) // len(operations)
            try:
                future = self.ingest.submit(index, documents, DOCUMENTS, size=size, key=key)
                answers.append((appended, future))
            except IndexTablesError as error:
                answers.append((appended, error))
        for positions, answer in answers:
            try:
                if isinstance(answer, IndexTablesError):
                    raise answer
                outcome = await self.ingest.wait(answer)
            except IndexTablesError as error:
                for n in positions:
                    outcomes[n] = error
                continue
            for place, n in enumerate(positions):
                outcomes[n] = outcome.refused.get(place, outcome.version)
        return outcomes

    async def _document(self, request: Request) -> Response:
        _check_parameters(request)
        with self.ingest.body() as body:
            data = await body.read(request)
            operation = _single_operation(request, data)
            (outcome,) = await self._write(request, [operation], data)
        if isinstance(outcome, IndexTablesError):
            raise outcome
        (item,) = item_of(operation, outcome, "created", "").values()
        status = item.pop("status")
        if "error" in item:
            reason = item["error"]
            item = {"error": {"root_cause": [reason], **reason}, "status": status}
        return json_answer(item, status, headers=PRODUCT)

    async def _logs(self, request: Request) -> Response:
        """Write log records of OpenTelemetry."""
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        answered_as = JSON if media_type == JSON else PROTOBUF
        try:
            index = request.path_params.get("index") or self._only_table()
            with self.ingest.body() as body:
                data = await body.read(request)
                records = await self.limits.run(request, lambda: parse_logs(data, media_type))
                refused: Mapping[int, Refusal] = {}
                if records:
                    key = _request_key(request, data)
                    future = self.ingest.submit(index, records, LOGS, size=len(data), key=key)
                    refused = (await self.ingest.wait(future)).refused
        except IndexTablesError as error:
            logger.warning("Logs of OpenTelemetry were not written: %s", error)
            content = encode_failure(str(error), answered_as)
            return Response(content, write_status(error), retry_header(error), answered_as)
        why = next(iter(refused.values())).reason if refused else ""
        return Response(encode_answer(len(refused), why, answered_as), 200, None, answered_as)

    def _only_table(self) -> str:
        names = [table.name for table in self.ingest.warehouse.tables()]
        if len(names) == 1:
            return names[0]
        raise NotFoundError(
            f"/v1/logs is for a server of one table, and there are {len(names)}.",
            hint="Name the table in the endpoint: http://host:9200/otlp/TABLE for /otlp/TABLE/v1/logs.",
        )

    async def _about(self, request: Request) -> Response:
        _check_parameters(request)
        name = request.path_params["index"]
        if name.startswith("_"):
            return await _unknown(request)

        def mapping() -> dict[str, Any]:
            table = self.ingest.warehouse.open(name)
            return {name: {"mappings": ElasticSearch(table, name).mapping()}}

        return json_answer(await self.limits.run(request, mapping), headers=PRODUCT)


_METHODS = ["GET", "POST", "PUT", "DELETE"]
_STARTUP: dict[str, dict[str, Any]] = {
    "/": elastic_info(),
    "/_license": {
        "license": {"status": "active", "uid": "indextables", "type": "basic", "mode": "basic"}
    },
    "/_xpack": {"license": {"status": "active", "type": "basic", "mode": "basic"}, "features": {}},
    "/_cluster/health": {"cluster_name": "indextables", "status": "green", "timed_out": False},
}
_DEFINITIONS = (
    "/_ilm/policy/{name}",
    "/_index_template/{name}",
    "/_component_template/{name}",
    "/_template/{name}",
    "/_ingest/pipeline/{name}",
    "/_data_stream/{name}",
)
_NO_EFFECT = '299 indextables "templates, policies and pipelines have no effect: a table has columns and settings of its own"'


def _with_errors(work: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Any]:
    """Wrap a handler: its errors are answered in the format of Elasticsearch."""

    async def handler(request: Request) -> Response:
        try:
            return await work(request)
        except IndexTablesError as error:
            return _failure(error)

    return handler


def _failure(error: IndexTablesError) -> Response:
    status = write_status(error)
    refusal = refusal_of_error(error)
    reason = {"type": refusal.kind, "reason": refusal.reason}
    body = {"error": {"root_cause": [reason], **reason}, "status": status}
    if "address" in error.context:
        body = elastic_error(error)
    return json_answer(body, status, {**PRODUCT, **retry_header(error)})


def retry_header(error: IndexTablesError) -> dict[str, str]:
    """Return the header that asks a client to repeat a request later, for errors that may pass."""
    if write_status(error) not in (429, 503):
        return {}
    return {"Retry-After": str(error.context.get("retry_after", 1))}


def _with_answer(answer: dict[str, Any]) -> Callable[[Request], Awaitable[Response]]:
    async def handler(request: Request) -> Response:
        _check_parameters(request)
        return json_answer(answer, headers=PRODUCT)

    return handler


async def _define(request: Request) -> Response:
    logger.warning("%s %s has no effect here.", request.method, request.url.path)
    return json_answer({"acknowledged": True}, headers={**PRODUCT, "Warning": _NO_EFFECT})


async def _missing(request: Request) -> Response:
    raise NotFoundError(
        f"There is nothing at {request.url.path!r}.",
        hint="A table has columns and settings of its own.",
        address=request.url.path,
    )


async def _refresh(request: Request) -> Response:
    """Answer a refresh: what was acknowledged is committed."""
    _check_parameters(request)
    return json_answer({"_shards": {"total": 1, "successful": 1, "failed": 0}}, headers=PRODUCT)


async def _unknown(request: Request) -> Response:
    raise NotFoundError(
        f"{request.method} {request.url.path} is not answered with the write token.",
        hint="It writes with _bulk, _doc and /v1/logs; searches need the other token.",
        address=request.url.path,
    )


def _check_parameters(request: Request) -> None:
    for key, value in request.query_params.items():
        if key in _HARMLESS or (key == "pipeline" and value == "_none"):
            continue
        raise InvalidInputError(
            f"The parameter {key!r} is not supported.", hint="Leave it out.", part=key
        )


def _request_key(request: Request, data: bytes) -> RequestKey | None:
    text = request.headers.get(_KEY)
    if text is None:
        return None
    return RequestKey.parse(text, data)


def _single_operation(request: Request, data: bytes) -> BulkOperation:
    """Return a request for one document as an operation."""
    index, key = request.path_params["index"], request.path_params.get("id")
    path = request.url.path
    if request.method == "DELETE":
        return BulkOperation("delete", index, key, {})
    if "/_update/" in path:
        kind = "update"
    elif "/_create/" in path or request.query_params.get("op_type") == "create":
        kind = "create"
    else:
        kind = "index"
    document, refusal = parse_document(data)
    return BulkOperation(kind, index, key, document, refusal)


def _without_ids(
    operations: list[BulkOperation],
    positions: list[int],
    outcomes: list[Refusal | IndexTablesError | int | None],
) -> list[int]:
    """Refuse operations by `_id`; return the positions of the others."""
    rest = []
    for n in positions:
        operation = operations[n]
        if operation.id is None and operation.kind in ("index", "create"):
            rest.append(n)
        else:
            outcomes[n] = _no_ids(operation)
    return rest


def _no_ids(operation: BulkOperation) -> Refusal:
    reason = (
        f"{operation.kind} by _id is not supported: rows have no id. Send documents without _id."
    )
    return Refusal("illegal_argument_exception", reason)


def _common_failure(
    outcomes: list[Refusal | IndexTablesError | int | None],
) -> IndexTablesError | None:
    """Return the error that all operations share, if the whole request can be repeated."""
    first = outcomes[0]
    if not isinstance(first, IndexTablesError) or any(o is not first for o in outcomes):
        return None
    if isinstance(first, RefusedError) or write_status(first) in (409, 422, 429, 503):
        return first
    return None


def write_application(service: WriteService) -> ASGIApp:
    """Return the application of the write token."""
    failed = {HTTPException: answer_refusal, Exception: answer_fault}
    return Starlette(routes=[Mount("/", routes=service.routes())], exception_handlers=failed)
