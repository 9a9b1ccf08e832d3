"""HTTP responses of the service and the explorer: JSON, and errors as JSON of either dialect or as
a page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from indextables.config import VERSION
from indextables.errors import IndexTablesError, NotFoundError, show_value
from indextables.web.explorer import status_of
from indextables.web.layout import frame, problem, summary
from indextables.web.svg import element, text

PRODUCT = {"X-Elastic-Product": "Elasticsearch"}
READ_ONLY = "The service is read only: write with Table.append, indextables append or Spark."


def json_answer(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a value as a JSON response."""
    content = msgspec.json.encode(value, enc_hook=str)
    return Response(
        content, status_code=status, media_type="application/json", headers=dict(headers or {})
    )


def own_error(error: IndexTablesError, status: int | None = None) -> Response:
    """Return an error in the format of the JSON API."""
    return json_answer({"error": error.to_dict()}, status or status_of(error))


def elastic_failure(error: IndexTablesError) -> Response:
    """Return an error in the format of Elasticsearch."""
    return json_answer(elastic_error(error), status_of(error), headers=PRODUCT)


def elastic_error(error: IndexTablesError) -> dict[str, Any]:
    """Return an error as the object that Elasticsearch clients parse."""
    if "address" in error.context:
        missing = "resource_not_found_exception"
    else:
        missing = "index_not_found_exception"
    if isinstance(error, NotFoundError):
        kind = missing
    else:
        kind = "parsing_exception"
    reason = {"type": kind, "reason": f"{summary(error)} {error.hint}"}
    return {"error": {"root_cause": [reason], **reason}, "status": status_of(error)}


def elastic_info() -> dict[str, Any]:
    """Return what clients of Elasticsearch read first: the version whose dialect is spoken."""
    return {
        "name": "indextables",
        "cluster_name": "indextables",
        "cluster_uuid": "indextables",
        "version": {
            "number": "9.0.0",
            "build_flavor": "default",
            "lucene_version": "10.0.0",
            "indextables": VERSION,
        },
        "tagline": "Tables of full-text search indexes",
    }


async def answer_refusal(request: Request, error: Exception) -> Response:
    """Return the response of the service to a request without a route."""
    return elastic_failure(_unknown_address(request, error))


async def answer_fault(_request: Request, error: Exception) -> Response:
    """Return the response of the service to an internal error. The server logs its traceback."""
    return own_error(_fault(error), 500)


async def refusal_page(request: Request, error: Exception) -> Response:
    """Return the page of the explorer for a request without a route."""
    refused = _unknown_address(request, error)
    return _page_of(
        request, refused, error.status_code if isinstance(error, HTTPException) else 404
    )


async def fault_page(request: Request, error: Exception) -> Response:
    """Return the page of the explorer for an internal error. The server logs its traceback."""
    return _page_of(request, _fault(error), 500)


def _page_of(request: Request, error: IndexTablesError, status: int) -> Response:
    up = "../" * (request.url.path.count("/") - 1)
    title = "Page not found" if status == 404 else "No answer"
    content = [
        element("h1", text(title)),
        problem(error),
        element("p", element("a", text("All tables"), href=up or "./")),
    ]
    return HTMLResponse(frame(title, *content, up=up), status_code=status)


def _unknown_address(request: Request, error: Exception) -> NotFoundError:
    if isinstance(error, HTTPException) and error.headers:
        allowed = error.headers.get("Allow")
    else:
        allowed = None
    path = request.url.path
    if allowed is None:
        message = f"There is nothing at {show_value(path)}."
    else:
        message = f"{path} is not for {request.method}."
    if allowed is None:
        hint = "Check the address."
    else:
        hint = f"It is for {allowed}."
    return NotFoundError(message, hint=hint, address=path)


def _fault(error: Exception) -> IndexTablesError:
    hint = "The log of the server has the details; please report them."
    return IndexTablesError(f"The server failed with {type(error).__name__}.", hint=hint)
