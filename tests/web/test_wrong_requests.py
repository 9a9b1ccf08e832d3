"""Requests to the service that are wrong: each is refused by the name of what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from indextables import Table
from indextables.web.explorer import Limits
from indextables.web.service import Service, service_application
from indextables.web.warehouse import Warehouse

TOKEN = "the-token-of-these-tests"
ROWS = 20


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    schema = pa.schema([("id", pa.int64()), ("message", pa.string())])
    folder = tmp_path_factory.mktemp("served")
    made = Table.create(
        str(folder / "logs"), schema=schema, options={"indexing.typemap.message": "text"}
    )
    made.append([{"id": n, "message": f"disk {n}"} for n in range(ROWS)])
    return made


@pytest.fixture(scope="module")
def app(table: Table) -> Iterator[Any]:
    limits = Limits()
    warehouse = Warehouse([str(Path(table.path).parent)], max_staleness=0)
    yield service_application(Service(warehouse, limits), TOKEN, names=frozenset())
    limits.close()


@pytest.mark.parametrize("digits", ["²", "١", "１", "1e3", "-1", "9" * 30, "1.0", "\x00", " "])
@pytest.mark.parametrize("key", ["limit", "offset", "version", "size", "from"])
def test_what_is_no_number_is_refused_wherever_one_is_given(
    app: Any, key: str, digits: str
) -> None:
    client = TestClient(
        app, headers={"Authorization": f"Bearer {TOKEN}"}, raise_server_exceptions=False
    )
    if key in ("size", "from"):
        answers = [
            client.get("/logs/_search", params={key: digits}),
            client.post("/logs/_search", json={key: digits}),
        ]
    else:
        address = "/api/tables/logs/search"
        answers = [
            client.get(address, params={key: digits}),
            client.post(address, json={key: digits}),
        ]
    for answer in answers:
        assert answer.status_code == 400 and "whole number" in answer.text, answer.text


@pytest.mark.parametrize("depth", [300, 5_000, 100_000])
@pytest.mark.parametrize("address", ["/logs/_search", "/api/tables/logs/search", "/logs/_msearch"])
def test_a_deep_body_is_refused(app: Any, address: str, depth: int) -> None:
    client = TestClient(
        app, headers={"Authorization": f"Bearer {TOKEN}"}, raise_server_exceptions=False
    )
    deep = b'{"query":' + b"[" * depth + b"]" * depth + b"}"
    body = b"{}\n" + deep + b"\n" if address.endswith("_msearch") else deep
    answer = client.post(address, content=body)
    assert answer.status_code == 400 and "nested deeper than 200 levels" in answer.text, answer.text


@pytest.mark.parametrize(
    ("address", "body", "said"),
    [
        ("/api/tables/logs/search", {"q": 5}, "q must be a text, not 5"),
        ("/api/tables/logs/count", {"q": ["disk"]}, "q must be a text"),
        (
            "/api/tables/logs/aggregate",
            {"q": {"a": 1}, "aggs": {"m": {"max": {"field": "id"}}}},
            "q must be a text",
        ),
        ("/api/tables/logs/aggregate", {"aggs": []}, "aggs must be an object"),
        ("/api/tables/logs/aggregate", {}, "aggs must be an object"),
        ("/api/tables/logs/search", {"columns": [1]}, "columns must hold texts"),
        ("/api/tables/logs/search", {"order_by": {"id": 1}}, "order_by must be a text"),
        ("/api/tables/logs/search", {"snippet": True}, "snippet must be a text"),
        ("/api/tables/logs/search", {"limit": True}, "not a whole number"),
        ("/api/tables/logs/search", {"limit": 1.5}, "not a whole number"),
        ("/api/tables", {"limit": 1}, "'limit' is not known here"),
        ("/api/tables/logs", {"version": 1}, "'version' is not known here"),
        ("/logs/_mapping", {"properties": {}}, "takes no body"),
        ("/logs", {"mappings": {}}, "takes no body"),
        ("/_cluster/health", {"x": 1}, "takes no body"),
        ("/logs/_field_caps", {"index_filter": {}}, "'index_filter'"),
        ("/logs/_field_caps", {"fields": [1]}, "fields is not a list of names"),
        ("/_cat/indices?format=yaml", {}, "format yaml"),
        ("/_cat/indices?h=nope", {}, "h=nope"),
        ("/_cat/indices?s=index", {}, "'s' is not supported"),
        ("/logs/_mapping?include_type_name=true", {}, "'include_type_name' is not supported"),
        ("/logs/_search?default_operator=AND", {}, "about q"),
        ("/logs/_search?track_total_hits=some", {}, "not a whole number"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_refused_by_its_name(
    app: Any, address: str, body: Any, said: str
) -> None:
    client = TestClient(
        app, headers={"Authorization": f"Bearer {TOKEN}"}, raise_server_exceptions=False
    )
    answer = client.post(address, json=body)
    assert answer.status_code == 400 and said in answer.text, answer.text


def test_the_header_of_a_search_among_several_is_checked(app: Any) -> None:
    client = TestClient(
        app, headers={"Authorization": f"Bearer {TOKEN}"}, raise_server_exceptions=False
    )
    for header, said in (
        ({"routing": "a"}, "'routing'"),
        ({"index": 5}, "index is not a name"),
        ({"index": [[]]}, "name"),
    ):
        body = f"{json.dumps(header)}\n{{}}\n"
        answer = client.post("/logs/_msearch", content=body).json()["responses"][0]
        assert answer["status"] == 400 and said in answer["error"]["reason"], answer
    answer = client.post("/_msearch", content='{"index": ["logs"]}\n{"size": 0}\n').json()[
        "responses"
    ][0]
    assert answer["hits"]["total"]["value"] == ROWS


def test_a_compressed_body_is_refused_with_the_way_out(app: Any) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Encoding": "gzip"}
    answer = TestClient(app, headers=headers).post("/logs/_search", content=b"\x1f\x8b")
    assert answer.status_code == 400 and "http_compress=False" in answer.json()["error"]["reason"]


def test_chosen_columns_of_the_list_of_indices(app: Any) -> None:
    client = TestClient(app, headers={"Authorization": f"Bearer {TOKEN}"})
    assert client.get("/_cat/indices/logs?h=index,docs.count&format=json").json() == [
        {"index": "logs", "docs.count": str(ROWS)}
    ]


def test_a_fault_of_the_service_is_answered_as_json(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = Limits()
    app = service_application(Service(Warehouse([table.path]), limits), TOKEN, names=frozenset())
    monkeypatch.setattr(Warehouse, "tables", lambda _self: 1 / 0)
    client = TestClient(
        app, headers={"Authorization": f"Bearer {TOKEN}"}, raise_server_exceptions=False
    )
    for address in ("/api/tables", "/_mapping"):
        answer = client.get(address)
        assert answer.status_code == 500
        assert answer.json()["error"]["message"] == "The server failed with ZeroDivisionError."
    limits.close()
