"""Logs of OpenTelemetry (OTLP/HTTP) as rows: one row per log record.

| column | from |
|---|---|
| `timestamp`, `observed_timestamp` | the times of the record, cut to microseconds |
| `severity_text`, `severity_number`, `event_name` | the record |
| `service_name` | the attribute `service.name` of the resource |
| `body` | the text of the body; another body as JSON |
| `attributes`, `resource_attributes`, `scope_attributes` | JSON |
| `scope_name`, `scope_version` | the instrumentation scope |
| `trace_id`, `span_id`, `trace_flags` | the record, ids as lower-case hex |

JSON and protobuf bodies give the same rows. Messages of protobuf and the structs of JSON have the
same attribute names, so that one conversion reads both.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Struct, field

from indextables.errors import InvalidInputError, UnsupportedError
from indextables.model.schema import TIMESTAMP
from indextables.web.ingestion import NewTable

PROTOBUF, JSON = "application/x-protobuf", "application/json"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TEXT = pa.string()
_JSON_COLUMNS = ("attributes", "resource_attributes", "scope_attributes")
LOGS = NewTable(
    pa.schema(
        [
            ("timestamp", TIMESTAMP),
            ("observed_timestamp", TIMESTAMP),
            ("severity_text", _TEXT),
            ("severity_number", pa.int32()),
            ("service_name", _TEXT),
            ("body", _TEXT),
            ("attributes", _TEXT),
            ("resource_attributes", _TEXT),
            ("scope_name", _TEXT),
            ("scope_version", _TEXT),
            ("scope_attributes", _TEXT),
            ("event_name", _TEXT),
            ("trace_id", _TEXT),
            ("span_id", _TEXT),
            ("trace_flags", pa.int64()),
        ]
    ),
    ("body",),
    {f"indexing.typemap.{name}": "json" for name in _JSON_COLUMNS},
)
"""The table that holds log records."""


class _Value(Struct, rename="camel"):
    """A value of any kind; the one that is set counts."""

    string_value: str | None = None
    bool_value: bool | None = None
    int_value: int | None = None
    double_value: float | str | None = None
    bytes_value: str | None = None
    array_value: _Values | None = None
    kvlist_value: _Pairs | None = None

    def WhichOneof(self, _name: str) -> str | None:  # noqa: N802 - as protobuf has it
        """Return the name of the field that is set."""
        names = self.__struct_fields__
        return next((name for name in names if getattr(self, name) is not None), None)


class _Values(Struct, rename="camel"):
    values: list[_Value] = field(default_factory=list)


class _Pair(Struct, rename="camel"):
    key: str
    value: _Value = field(default_factory=_Value)


class _Pairs(Struct, rename="camel"):
    values: list[_Pair] = field(default_factory=list)


class _Record(Struct, rename="camel"):
    time_unix_nano: int = 0
    observed_time_unix_nano: int = 0
    severity_number: int = 0
    severity_text: str = ""
    body: _Value = field(default_factory=_Value)
    attributes: list[_Pair] = field(default_factory=list)
    flags: int = 0
    trace_id: str = ""
    span_id: str = ""
    event_name: str = ""


class _Scope(Struct, rename="camel"):
    name: str = ""
    version: str = ""
    attributes: list[_Pair] = field(default_factory=list)


class _ScopeLogs(Struct, rename="camel"):
    scope: _Scope = field(default_factory=_Scope)
    log_records: list[_Record] = field(default_factory=list)


class _Resource(Struct, rename="camel"):
    attributes: list[_Pair] = field(default_factory=list)


class _ResourceLogs(Struct, rename="camel"):
    resource: _Resource = field(default_factory=_Resource)
    scope_logs: list[_ScopeLogs] = field(default_factory=list)


class _Request(Struct, rename="camel"):
    resource_logs: list[_ResourceLogs] = field(default_factory=list)


def parse_logs(data: bytes, media_type: str) -> list[dict[str, Any]]:
    """Return the log records of a request as documents.

    Raises:
        InvalidInputError: The body is not a request of that type.
        UnsupportedError: It is protobuf, and the extra `otlp` is not installed.
    """
    if media_type == PROTOBUF:
        return list(_rows(_parse_protobuf(data)))
    if media_type != JSON:
        raise InvalidInputError(
            f"A body of type {media_type!r} is not read.",
            hint=f"Send {PROTOBUF} or {JSON}.",
            status=415,
        )
    try:
        request = msgspec.json.decode(data, type=_Request, strict=False)
        return list(_rows(request))
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError) as error:
        raise InvalidInputError(
            f"The body is not a request of logs: {error}.", hint="Send OTLP as JSON."
        ) from None


def _parse_protobuf(data: bytes) -> Any:
    messages = _protobuf("opentelemetry.proto.collector.logs.v1.logs_service_pb2")
    request = messages.ExportLogsServiceRequest()
    try:
        request.ParseFromString(data)
    except _protobuf("google.protobuf.message").DecodeError as error:
        raise InvalidInputError(
            f"The body is not a request of logs: {error}.", hint="Send OTLP as protobuf."
        ) from None
    return request


def _protobuf(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise UnsupportedError(
            "OTLP as protobuf needs the package opentelemetry-proto.",
            hint="Run pip install 'indextables[otlp]' on the server, or set the exporter to http/json.",
            status=415,
        ) from None


def _rows(request: Any) -> Iterator[dict[str, Any]]:
    for resource_logs in request.resource_logs:
        resource = _attributes(resource_logs.resource.attributes)
        service = resource.get("service.name")
        for scope_logs in resource_logs.scope_logs:
            scope = scope_logs.scope
            common = {
                "service_name": service if isinstance(service, str) else None,
                "resource_attributes": resource or None,
                "scope_name": scope.name or None,
                "scope_version": scope.version or None,
                "scope_attributes": _attributes(scope.attributes) or None,
            }
            for record in scope_logs.log_records:
                yield {**common, **_record(record)}


def _record(record: Any) -> dict[str, Any]:
    body = _plain(record.body)
    if body is not None and not isinstance(body, str):
        body = msgspec.json.encode(body).decode()
    return {
        "timestamp": _time(record.time_unix_nano or record.observed_time_unix_nano),
        "observed_timestamp": _time(record.observed_time_unix_nano),
        "severity_text": record.severity_text or None,
        "severity_number": record.severity_number or None,
        "body": body,
        "attributes": _attributes(record.attributes) or None,
        "event_name": record.event_name or None,
        "trace_id": _hex(record.trace_id),
        "span_id": _hex(record.span_id),
        "trace_flags": record.flags or None,
    }


def _time(nanoseconds: int) -> datetime | None:
    """Return a time, or None for 0 and for times that no column holds."""
    if not nanoseconds:
        return None
    return _EPOCH + timedelta(microseconds=nanoseconds // 1_000)


def _hex(identifier: str | bytes) -> str | None:
    if isinstance(identifier, bytes):
        return identifier.hex() or None
    return identifier.lower() or None


def _attributes(pairs: Iterable[Any]) -> dict[str, Any]:
    return {pair.key: _plain(pair.value) for pair in pairs}


def _plain(value: Any) -> Any:
    """Return a value of OTLP as JSON has it."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    found = getattr(value, kind)
    if kind == "array_value":
        return [_plain(item) for item in found.values]
    if kind == "kvlist_value":
        return _attributes(found.values)
    if kind == "bytes_value":
        if isinstance(found, str):
            found = b64decode(found, validate=True)
        return b64encode(found).decode()
    if kind == "double_value":
        number = float(found)
        return number if number - number == 0 else str(number)
    return found


def encode_answer(refused: int, why: str, media_type: str) -> bytes:
    """Return the answer to a request whose records were written, or all but some."""
    if media_type == JSON:
        if not refused:
            return b"{}"
        about = {"rejectedLogRecords": str(refused), "errorMessage": why}
        return msgspec.json.encode({"partialSuccess": about})
    messages = _protobuf("opentelemetry.proto.collector.logs.v1.logs_service_pb2")
    answer = messages.ExportLogsServiceResponse()
    if refused:
        answer.partial_success.rejected_log_records = refused
        answer.partial_success.error_message = why
    encoded: bytes = answer.SerializeToString()
    return encoded


def encode_failure(why: str, media_type: str) -> bytes:
    """Return the answer to a request that failed, a `google.rpc.Status`."""
    if media_type == JSON:
        return msgspec.json.encode({"code": 3, "message": why})
    status = _protobuf("google.rpc.status_pb2").Status(code=3, message=why)
    encoded: bytes = status.SerializeToString()
    return encoded
