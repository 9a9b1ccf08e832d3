"""Requests that write documents in the dialect of Elasticsearch: `_bulk`, `_doc`, `_create`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from indextables.errors import IndexTablesError, InvalidInputError, show_value
from indextables.web.documents import Document, Refusal, unfit
from indextables.web.explorer import status_of

OPERATIONS = ("index", "create", "update", "delete")
_IGNORED = {"_type", "require_data_stream", "list_executed_pipelines", "retry_on_conflict"}
"""Keys of an operation that ask for what is done anyway."""


class BulkOperation(Struct, frozen=True):
    """One line of a bulk request with its document."""

    kind: str
    index: str
    id: str | None
    document: Document
    refusal: Refusal | None = None
    """Why it cannot be written, whatever the table is like."""


def parse_bulk(data: bytes, index: str | None) -> list[BulkOperation]:
    """Parse the lines of a bulk request.

    Args:
        data: The body.
        index: The index of the address, for operations that name none.

    Raises:
        InvalidInputError: A line is not an operation, or a document is missing.
    """
    operations: list[BulkOperation] = []
    lines = iter(data.split(b"\n"))
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        kind, about = _parse_action(line, len(operations) + 1)
        document: Any = {}
        refusal = _refusal_of(about)
        if kind != "delete":
            source = next(lines, b"")
            if not source.strip():
                raise InvalidInputError(
                    f"The operation {kind!r} of line {number} has no document.",
                    hint="Write the document in the next line, and a line feed after the last one.",
                )
            document, wrong = parse_document(source)
            refusal = refusal or wrong
        name = about.get("_index", index)
        if not isinstance(name, str) or not name:
            raise InvalidInputError(
                f"The operation {kind!r} of line {number} names no index.",
                hint='Write {"index": {"_index": "table"}}, or name the table in the address.',
            )
        key = about.get("_id")
        operations.append(
            BulkOperation(kind, name, None if key is None else str(key), document, refusal)
        )
    if not operations:
        raise InvalidInputError("The request has no operation.", hint="Send pairs of lines.")
    return operations


def _parse_action(line: bytes, number: int) -> tuple[str, Mapping[str, Any]]:
    try:
        action = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidInputError(
            f"The line of operation {number} is no JSON: {error}.", hint=_PAIRS
        ) from None
    if not isinstance(action, dict) or len(action) != 1:
        raise InvalidInputError(
            f"Operation {number} is not an object with one key: {show_value(action)}.", hint=_PAIRS
        )
    ((kind, about),) = action.items()
    if kind not in OPERATIONS or not isinstance(about, dict):
        raise InvalidInputError(
            f"Operation {number} is {show_value(kind)}, which is none of {', '.join(OPERATIONS)}.",
            hint=_PAIRS,
        )
    return kind, about


_PAIRS = 'Send pairs of lines: {"create": {}} and a document.'


def parse_document(line: bytes) -> tuple[Document, Refusal | None]:
    """Return a document, or why it cannot be read."""
    try:
        document = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return {}, unfit(f"The document is no JSON: {error}.")
    if not isinstance(document, dict):
        return {}, unfit(f"The document is no object: {show_value(document)}.")
    return document, None


def _refusal_of(about: Mapping[str, Any]) -> Refusal | None:
    for key, value in about.items():
        is_known = key in ("_index", "_id") or key in _IGNORED
        if not is_known and value not in (None, False, "", {}):
            return Refusal("illegal_argument_exception", f"{key} of an operation is not supported.")
    return None


def item_of(
    operation: BulkOperation,
    outcome: Refusal | IndexTablesError | int | None,
    result: str,
    key: str,
) -> dict[str, Any]:
    """Return the answer to one operation.

    Args:
        operation: The operation.
        outcome: The version with its row, or why it has none.
        result: What was done, in the words of Elasticsearch.
        key: The `_id` of the document; empty if the table has no column for it.
    """
    about: dict[str, Any] = {"_index": operation.index, "_id": key}
    if isinstance(outcome, IndexTablesError):
        outcome = refusal_of_error(outcome)
    if isinstance(outcome, Refusal):
        error = {"type": outcome.kind, "reason": outcome.reason}
        return {operation.kind: {**about, "status": outcome.status, "error": error}}
    status = {"created": 201, "not_found": 404}.get(result, 200)
    about |= {"_version": 1, "result": result, "_seq_no": outcome or 0, "_primary_term": 1}
    shards = {"total": 1, "successful": 1, "failed": 0}
    return {operation.kind: {**about, "_shards": shards, "status": status}}


def refusal_of_error(error: IndexTablesError) -> Refusal:
    """Return an error of a whole table as the refusal of each of its documents."""
    status = write_status(error)
    kinds = {404: "index_not_found_exception", 429: "es_rejected_execution_exception"}
    if status >= 500:
        kind = "unavailable_shards_exception"
    else:
        kind = kinds.get(status, "illegal_argument_exception")
    return Refusal(kind, str(error), status)


def write_status(error: IndexTablesError) -> int:
    """Return the status of a request that failed: 503 for what a repetition may mend."""
    status = error.context.get("status")
    if isinstance(status, int):
        return status
    status = status_of(error)
    return 503 if status in (500, 502) else status


def positions_by_index(operations: Sequence[BulkOperation]) -> dict[str, list[int]]:
    """Return the positions of the operations that can be written, by the name of their table."""
    found: dict[str, list[int]] = {}
    for number, operation in enumerate(operations):
        if operation.refusal is None:
            found.setdefault(operation.index, []).append(number)
    return found
