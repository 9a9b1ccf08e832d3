"""Logs of OpenTelemetry: by the exporter of the official SDK, and as JSON."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource

from indextables import Table
from tests.web.serving import WRITE, Served, serve

AUTHORIZED = {"Authorization": f"Bearer {WRITE}"}
REQUEST: dict[str, Any] = {
    "resourceLogs": [
        {
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "cart"}}]},
            "scopeLogs": [
                {
                    "scope": {"name": "lib", "version": "2"},
                    "logRecords": [
                        {
                            "timeUnixNano": "1763590200123456789",
                            "observedTimeUnixNano": 1763590201000000000,
                            "severityNumber": 9,
                            "severityText": "INFO",
                            "body": {"stringValue": "payment gateway timeout"},
                            "attributes": [
                                {"key": "n", "value": {"intValue": "5"}},
                                {"key": "odd", "value": {"doubleValue": "NaN"}},
                                {
                                    "key": "list",
                                    "value": {"arrayValue": {"values": [{"boolValue": True}]}},
                                },
                            ],
                            "traceId": "5B8EFFF798038103D269B633813FC60C",
                            "spanId": "EEE19B7EC3C1B174",
                            "aFieldOfTheFuture": 1,
                        },
                        {
                            "body": {
                                "kvlistValue": {
                                    "values": [{"key": "k", "value": {"bytesValue": "AAE="}}]
                                }
                            }
                        },
                    ],
                }
            ],
        }
    ]
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("otlp")


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    with serve(str(folder), create=True) as running:
        yield running


def post(served: Served, table: str, content: bytes, **headers: str) -> httpx.Response:
    address = f"{served.address}/otlp/{table}/v1/logs"
    return httpx.post(address, content=content, headers={**AUTHORIZED, **headers}, timeout=60)


def post_json(served: Served, table: str, body: Any) -> httpx.Response:
    content = json.dumps(body).encode()
    return post(served, table, content, **{"Content-Type": "application/json"})


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_exporter_of_the_sdk_writes(
    folder: Path, served: Served, compression: Compression
) -> None:
    name = f"sdk-{compression.value}"
    exporter = OTLPLogExporter(
        f"{served.address}/otlp/{name}/v1/logs", headers=AUTHORIZED, compression=compression
    )
    provider = LoggerProvider(Resource.create({"service.name": "checkout"}))
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    logger = logging.Logger("shop")
    logger.addHandler(LoggingHandler(logger_provider=provider))
    logger.error("gateway %s timed out", "eu-1", extra={"order": 17})
    logger.warning("disk almost full")
    provider.shutdown()
    rows = Table.open(str(folder / name))
    (row,) = rows.search("body:gateway").to_pylist()
    assert row["service_name"] == "checkout" and row["severity_text"] == "ERROR"
    assert row["severity_number"] == 17 and row["timestamp"] is not None
    assert json.loads(row["attributes"])["order"] == 17 and rows.count() == 2
    assert rows.count(query="attributes.order:17") == 1


def test_json_becomes_the_same_rows(folder: Path, served: Served) -> None:
    answer = post_json(served, "json", REQUEST)
    assert answer.status_code == 200 and answer.json() == {}
    assert answer.headers["content-type"].startswith("application/json")
    first, second = Table.open(str(folder / "json")).head().to_pylist()
    assert first["timestamp"].isoformat() == "2025-11-19T22:10:00.123456+00:00"
    assert first["trace_id"] == "5b8efff798038103d269b633813fc60c"
    assert first["span_id"] == "eee19b7ec3c1b174" and first["service_name"] == "cart"
    assert json.loads(first["attributes"]) == {"n": 5, "odd": "nan", "list": [True]}
    assert json.loads(second["body"]) == {"k": "AAE="} and second["timestamp"] is None
    assert first["scope_name"] == "lib" and json.loads(first["resource_attributes"])


def test_wrong_requests_are_not_to_be_repeated(served: Served, folder: Path) -> None:
    protobuf = {"Content-Type": "application/x-protobuf"}
    as_json = {"Content-Type": "application/json"}
    for content, headers, status in (
        (b"\xff\xff\xff", protobuf, 400),
        (b"{", as_json, 400),
        (b"[]", as_json, 400),
        (b'{"resourceLogs": 5}', as_json, 400),
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (gzip.compress(b"{}")[:-3], {**as_json, "Content-Encoding": "gzip"}, 400),
    ):
        answer = post(served, "wrong", content, **headers)
        assert answer.status_code == status and "retry-after" not in answer.headers
        assert answer.content
    empty = ExportLogsServiceRequest().SerializeToString()
    answer = post(served, "wrong", empty, **protobuf)
    assert answer.status_code == 200
    assert not (folder / "wrong").exists()


def test_refused_records_are_counted(served: Served, folder: Path) -> None:
    assert post_json(served, "partial", REQUEST).json() == {}
    Table.open(str(folder / "partial")).update_metadata(options={"ingest.schema": "strict"})
    Table.open(str(folder / "partial")).alter.drop_column("trace_id")
    partial = post_json(served, "partial", REQUEST).json()["partialSuccess"]
    assert partial["rejectedLogRecords"] == "1" and "trace_id" in partial["errorMessage"]
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add()
    record.trace_id, record.body.string_value = b"\x01" * 16, "x"
    protobuf = {"Content-Type": "application/x-protobuf"}
    answer = post(served, "partial", request.SerializeToString(), **protobuf)
    parsed = ExportLogsServiceResponse.FromString(answer.content)
    assert parsed.partial_success.rejected_log_records == 1
    assert Table.open(str(folder / "partial")).count() == 3


def test_a_busy_server_asks_to_repeat(folder: Path) -> None:
    many = {"resourceLogs": REQUEST["resourceLogs"] * 10}
    size = len(json.dumps(many))
    options = {"ingest.maxQueuedBytes": 2 * size, "ingest.maxDelayMs": 500}
    with serve(str(folder), options=options, create=True) as small, ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: post_json(small, "busy", many), range(6)))
    busy = [answer for answer in answers if answer.status_code == 429]
    assert busy and all(int(answer.headers["retry-after"]) >= 1 for answer in busy)
    assert Table.open(str(folder / "busy")).count() == 20 * (6 - len(busy))


def test_one_table_needs_no_name(tmp_path: Path) -> None:
    where = str(tmp_path / "only")
    with serve(str(tmp_path), create=True) as running:
        assert post_json(running, "only", REQUEST).status_code == 200
    content = json.dumps(REQUEST).encode()
    headers = {**AUTHORIZED, "Content-Type": "application/json"}
    with serve(where) as running:
        address = f"{running.address}/v1/logs"
        assert httpx.post(address, content=content, headers=headers).status_code == 200
        assert httpx.post(address, content=content).status_code == 401
    assert Table.open(where).count() == 4
