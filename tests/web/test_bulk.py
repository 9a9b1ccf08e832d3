"""Writing in the dialect of Elasticsearch, by its official client and as log shippers do."""

from __future__ import annotations

import base64
import gzip
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from elasticsearch import ApiError, Elasticsearch, ElasticsearchWarning, helpers

from indextables import Table
from tests.web.serving import READ, WRITE, Served, serve

SCHEMA = pa.schema(
    [
        ("@timestamp", pa.timestamp("us", tz="UTC")),
        ("level", pa.string()),
        ("status", pa.int32()),
        ("message", pa.string()),
    ]
)
LINE = {"@timestamp": "2026-11-19T22:10:00.123456789Z", "level": "INFO", "message": "gateway up"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("written")


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    with serve(str(folder)) as running:
        yield running


@pytest.fixture(scope="module")
def es(served: Served) -> Iterator[Elasticsearch]:
    with Elasticsearch(served.address, api_key=WRITE, request_timeout=60) as client:
        yield client


@pytest.fixture
def table(folder: Path, request: pytest.FixtureRequest) -> Table:
    name = request.node.name.partition("[")[0].removeprefix("test_")[:60]
    return Table.create(str(folder / name), schema=SCHEMA, text=["message"])


def name_of(table: Table) -> str:
    return Path(table.path).name


def post(served: Served, path: str, body: Any, **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else lines(*body)
    given = {"Authorization": f"Bearer {WRITE}", **headers}
    return httpx.post(f"{served.address}/{path}", content=content, headers=given, timeout=60)


def lines(*documents: Any) -> bytes:
    action = b'{"create": {}}\n'
    return b"".join(action + json.dumps(document).encode() + b"\n" for document in documents)


def test_the_helpers_of_the_official_client_write(es: Elasticsearch, table: Table) -> None:
    index = name_of(table)
    actions = [{"_index": index, **LINE, "status": n} for n in range(250)]
    assert helpers.bulk(es, actions, chunk_size=100) == (250, [])
    streamed = helpers.streaming_bulk(
        es, [{"_op_type": "create", "_index": index, **LINE, "status": 7}]
    )
    assert [ok for ok, _ in streamed] == [True]
    answer = es.index(index=index, document={**LINE, "status": 8})
    assert answer["result"] == "created"
    rows = table.refresh()
    assert rows.count() == 252 and rows.count(query="message:gateway") == 252
    stored = rows.head(1).to_pylist()[0]["@timestamp"]
    assert stored.isoformat() == "2026-11-19T22:10:00.123456+00:00"


def test_refused_documents_are_named_and_the_others_written(
    es: Elasticsearch, table: Table
) -> None:
    index = name_of(table)
    actions: list[dict[str, Any]] = [
        {"_index": index, **LINE},
        {"_index": index, **LINE, "status": "many"},
        {"_index": index, **LINE, "colour": "red"},
        {"_index": index, **LINE, "_id": "1"},
        {"_index": index, "_op_type": "delete", "_id": "1"},
        {"_index": "no-such-table", **LINE},
        {"_index": index, **LINE, "status": 2**31},
        {"_index": index, **LINE, "colour": None, "status": 5},
    ]
    written, errors = helpers.bulk(es, actions, raise_on_error=False)
    assert isinstance(errors, list)
    found = [next(iter(error.values())) for error in errors]
    assert written == 2 and table.refresh().count() == 2
    assert [error["status"] for error in found] == [400, 400, 400, 400, 404, 400]
    reasons = [error["error"]["reason"] for error in found]
    assert "[status]" in reasons[0] and "'colour'" in reasons[1]
    assert "without _id" in reasons[2] and "delete by _id" in reasons[3]


def test_tokens_open_their_own_addresses_alone(served: Served, table: Table) -> None:
    index = name_of(table)
    by_reader = Elasticsearch(served.address, api_key=READ)
    by_writer = Elasticsearch(served.address, api_key=WRITE)
    with pytest.raises(ApiError) as refused:
        by_reader.index(index=index, document=LINE)
    assert refused.value.status_code == 404
    with pytest.raises(ApiError) as refused:
        by_writer.search(index=index)
    assert refused.value.status_code == 404
    assert httpx.post(f"{served.address}/{index}/_bulk", content=lines(LINE)).status_code == 401
    assert httpx.put(f"{served.address}/{index}/_bulk", content=lines(LINE)).status_code == 401
    assert table.refresh().count() == 0
    by_reader.close()
    by_writer.close()


def test_requests_of_shippers_at_their_start(
    served: Served, es: Elasticsearch, table: Table
) -> None:
    index = name_of(table)
    assert es.ping() and es.info()["tagline"]
    assert es.license.get()["license"]["status"] == "active"
    assert es.cluster.health()["status"] == "green"
    assert es.indices.exists(index=index) and not es.indices.exists(index="no-such-table")
    assert not es.indices.exists_index_template(name="logs")
    with pytest.warns(ElasticsearchWarning, match="no effect"):
        assert es.indices.put_index_template(name="logs", index_patterns=["logs*"])["acknowledged"]
    with pytest.warns(ElasticsearchWarning, match="no effect"):
        assert es.ilm.put_lifecycle(name="logs", policy={"phases": {}})["acknowledged"]
    with pytest.warns(ElasticsearchWarning, match="no effect"):
        assert es.indices.create_data_stream(name="logs")["acknowledged"]
    assert es.indices.refresh(index=index)["_shards"]["failed"] == 0


def test_packed_requests_and_their_limits(folder: Path, served: Served, table: Table) -> None:
    path = f"{name_of(table)}/_bulk"
    packed = gzip.compress(lines(LINE, LINE))
    assert post(served, path, packed, **{"Content-Encoding": "gzip"}).json()["errors"] is False
    two = packed + gzip.compress(lines(LINE))
    assert post(served, path, two, **{"Content-Encoding": "gzip"}).json()["errors"] is False
    assert table.refresh().count() == 5
    for body, encoding, status in (
        (packed[:-9], "gzip", 400),
        (packed + b"garbage", "gzip", 400),
        (b"no gzip", "gzip", 400),
        (packed, "br", 415),
        (b"\n", "identity", 400),
        (b'{"create": {}}\n', "identity", 400),
        (b'{"make": {}}\n{}\n', "identity", 400),
        (b"[1]\n{}\n", "identity", 400),
    ):
        answer = post(served, path, body, **{"Content-Encoding": encoding})
        assert answer.status_code == status, answer.text
    with serve(str(folder), options={"ingest.maxBodyBytes": 100_000}) as small:
        bomb = gzip.compress(b"0" * 50_000_000)
        answer = post(small, path, bomb, **{"Content-Encoding": "gzip"})
        assert answer.status_code == 413 and "100,000" in answer.text
        assert post(small, path, lines(*[LINE] * 2_000)).status_code == 413
        assert post(small, path, lines(LINE)).status_code == 200
    assert table.refresh().count() == 6


def test_requests_share_commits(folder: Path, table: Table) -> None:
    with serve(str(folder), options={"ingest.maxDelayMs": 300}) as slow:
        with ThreadPoolExecutor(16) as pool:
            path = f"{name_of(table)}/_bulk"
            answers = list(pool.map(lambda n: post(slow, path, [{**LINE, "status": n}]), range(16)))
        versions = {a.json()["items"][0]["create"]["_seq_no"] for a in answers}
    assert table.refresh().count() == 16 and len(versions) <= 4
    written = table.refresh().scan().read_all()["status"].to_pylist()
    assert sorted(written) == list(range(16))


def test_a_full_batch_does_not_wait(folder: Path, table: Table) -> None:
    options = {"ingest.maxDelayMs": "60s", "ingest.maxRows": 50}
    with serve(str(folder), options=options) as patient:
        began = time.monotonic()
        assert not post(patient, f"{name_of(table)}/_bulk", [LINE] * 50).json()["errors"]
        assert time.monotonic() - began < 30


def test_a_server_that_holds_too_much_asks_to_come_back(folder: Path, table: Table) -> None:
    body = lines(*[LINE] * 40)
    options = {"ingest.maxQueuedBytes": len(body) * 2, "ingest.maxDelayMs": 400}
    path = f"{name_of(table)}/_bulk"
    with serve(str(folder), options=options) as small:
        with ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(lambda _: post(small, path, body), range(12)))
        statuses = [answer.status_code for answer in answers]
        busy = [answer for answer in answers if answer.status_code == 429]
        assert busy and set(statuses) == {200, 429}
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in busy)
        assert table.refresh().count() == 40 * statuses.count(200)
        with Elasticsearch(small.address, api_key=WRITE) as client:
            actions = [{"_index": name_of(table), **LINE} for _ in range(40)]
            threads = [
                threading.Thread(
                    target=helpers.bulk,
                    args=(client, actions),
                    kwargs={"max_retries": 20, "initial_backoff": 0.1, "max_backoff": 1},
                )
                for _ in range(6)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
        assert table.refresh().count() == 40 * (statuses.count(200) + 6)


def test_a_repeated_key_writes_once(folder: Path, served: Served, table: Table) -> None:
    path = f"{name_of(table)}/_bulk"

    def send(number: int, *documents: Any, to: Served = served) -> httpx.Response:
        return post(to, path, documents, **{"Idempotency-Key": f"shipper-1:{number}"})

    assert send(1, LINE, {**LINE, "status": "x"}).json()["errors"] is True
    again = send(1, LINE, {**LINE, "status": "x"})
    assert [item["create"]["status"] for item in again.json()["items"]] == [201, 400]
    assert send(1, {**LINE, "level": "WARN"}).status_code == 422
    assert send(3, LINE).status_code == 409
    assert send(2, {**LINE, "status": "x"}).status_code == 200  # the number is used
    with serve(str(folder)) as other:
        assert send(2, {**LINE, "status": "x"}, to=other).status_code == 200
        assert send(2, LINE, to=other).status_code == 422
        assert send(3, LINE, to=other).status_code == 200
        assert send(3, LINE).status_code == 200
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: send(4, LINE, LINE), range(8)))
    assert {answer.status_code for answer in answers} == {200}
    assert table.refresh().count() == 4
    for wrong in ("", "shipper", "shipper:", ":1", "shipper:0", "shipper:-1", "x" * 300 + ":1"):
        answer = post(served, path, [LINE], **{"Idempotency-Key": wrong})
        assert answer.status_code == 400 and "producer" in answer.text
    assert table.refresh().count() == 4


def test_fields_without_a_column_become_columns(folder: Path, served: Served) -> None:
    options = {"ingest.schema": "evolve"}
    table = Table.create(str(folder / "evolving"), schema=SCHEMA, options=options)
    documents = [
        {**LINE, "host": "a", "took": 3, "ok": True, "at": "2026-11-19T10:00:00Z", "tags": ["x"]},
        {**LINE, "took": 0.5, "kubernetes": {"pod": "p1"}, "kubernetes.node": "n1", "odd": [1, {}]},
        {**LINE, "took": "slow", "late": "new"},
        {**LINE, "host": "b", "host.name": "c"},
        {},
    ]
    answer = post(served, "evolving/_bulk", documents).json()
    assert [item["create"]["status"] for item in answer["items"]] == [201, 201, 400, 400, 201]
    assert "[took]" in answer["items"][2]["create"]["error"]["reason"]
    assert "[host]" in answer["items"][3]["create"]["error"]["reason"]
    rows = table.refresh()
    kinds = {field.name: str(field.type) for field in rows.schema}
    assert kinds["took"] == "double" and kinds["ok"] == "bool" and kinds["host"] == "string"
    assert kinds["tags"].startswith("list<") and kinds["at"].startswith("timestamp[us")
    assert rows.count(query="kubernetes.node:n1 AND kubernetes.pod:p1") == 1 and len(rows) == 3
    assert post(served, "evolving/_bulk", [{"OK": False}, {"ok": True, "OK": True}]).json()[
        "errors"
    ]
    assert table.refresh().count(where="ok = false") == 1


def test_fields_without_a_column_go_to_a_json_column(folder: Path, served: Served) -> None:
    schema = pa.schema([*SCHEMA, ("rest", pa.string())])
    options = {
        "ingest.schema": "json",
        "ingest.jsonColumn": "rest",
        "indexing.typemap.rest": "json",
    }
    table = Table.create(str(folder / "collecting"), schema=schema, options=options)
    documents = [{**LINE, "host": "a", "n": 5}, {**LINE, "rest": {"k": 1}, "host": "b"}, LINE]
    assert not post(served, "collecting/_bulk", documents).json()["errors"]
    rows = table.refresh()
    assert rows.count(query="rest.host:a AND rest.n:5") == 1
    assert rows.count(query="rest.k:1 AND rest.host:b") == 1 and len(rows) == 3


def test_one_wrong_value_does_not_refuse_the_batch(folder: Path, served: Served) -> None:
    """A value that only the writer of splits refuses is found among the others."""
    table = Table.create(
        str(folder / "addresses"),
        schema=pa.schema([pa.field("n", pa.int64(), nullable=False), ("ip", pa.string())]),
        options={"indexing.typemap.ip": "ip"},
    )
    documents: list[Any] = [{"n": n, "ip": f"10.0.0.{n}"} for n in range(20)]
    documents[7] = {"n": 7, "ip": "no address"}
    documents[12] = {"ip": "10.0.0.1"}
    answer = post(served, "addresses/_bulk", documents).json()
    wrong = [n for n, item in enumerate(answer["items"]) if item["create"]["status"] != 201]
    stored = {row["n"] for row in table.refresh()}
    assert 12 in wrong and stored == set(range(20)) - set(wrong)


def test_a_table_is_created_by_its_first_rows_if_that_was_asked_for(tmp_path: Path) -> None:
    with serve(str(tmp_path), create=True) as running:
        documents = [{**LINE, "level": "WARN"}]
        assert not post(running, "logs-app/_bulk", documents).json()["errors"]
        assert Table.open(str(tmp_path / "logs-app")).count(query="message:gateway") == 1
        for name in ("..%2Fout", "_hidden", "a%2Fb", "x" * 101):
            answer = post(running, f"{name}/_bulk", documents)
            assert answer.status_code == 404 or answer.json()["errors"], answer.text
    assert [path.name for path in tmp_path.iterdir()] == ["logs-app"]


def test_tables_that_change_while_the_server_runs(folder: Path, served: Served) -> None:
    where = str(folder / "changing")
    table = Table.create(where, schema=SCHEMA)
    assert not post(served, "changing/_bulk", [LINE]).json()["errors"]
    table.refresh().alter.add_column("host", pa.string())
    assert not post(served, "changing/_bulk", [{**LINE, "host": "a"}]).json()["errors"]
    table.refresh().alter.drop_column("status")
    answer = post(served, "changing/_bulk", [{**LINE, "status": 5}, LINE]).json()
    assert [item["create"]["status"] for item in answer["items"]] == [400, 201]
    Table.drop(where)
    answer = post(served, "changing/_bulk", [LINE])
    assert answer.json()["items"][0]["create"]["status"] == 404
    Table.create(where, schema=pa.schema([("message", pa.string()), ("n", pa.int64())]))
    assert not post(served, "changing/_bulk", [{"message": "new", "n": 1}]).json()["errors"]
    assert Table.open(where).count() == 1


def test_requests_of_the_shape_that_shippers_send(folder: Path, served: Served) -> None:
    """As Fluent Bit (type name, no id, Basic) and Vector (packed, nanoseconds) document them."""
    table = Table.create(
        str(folder / "shipped"), schema=SCHEMA, options={"ingest.schema": "evolve"}
    )
    basic = "Basic " + base64.b64encode(f"shipper:{WRITE}".encode()).decode()
    fluent = b"".join(
        b'{"create":{"_index":"shipped","_type":"_doc"}}\n' + json.dumps(each).encode() + b"\n"
        for each in ({"@timestamp": "2026-11-19T22:10:00.123Z", "log": "a"},)
    )
    headers = {"Authorization": basic, "Content-Type": "application/x-ndjson"}
    answer = httpx.post(f"{served.address}/_bulk/", content=fluent, headers=headers)
    assert answer.status_code == 200 and b'"errors":false' in answer.content, answer.text
    vector = gzip.compress(
        b'{"create":{"_index":"shipped","_type":"_doc"}}\n'
        b'{"@timestamp":"2026-11-19T22:10:00.123456789Z","file":"/var/log/x","host":"h","message":"b"}\n'
    )
    packed = {**headers, "Content-Encoding": "gzip"}
    answer = httpx.post(f"{served.address}/_bulk?timeout=60s", content=vector, headers=packed)
    assert answer.json()["errors"] is False, answer.text
    beats = {
        **headers,
        "Authorization": "ApiKey " + base64.b64encode(f"id:{WRITE}".encode()).decode(),
    }
    answer = httpx.post(
        f"{served.address}/shipped/_bulk?filter_path=errors", content=fluent, headers=beats
    )
    assert answer.json()["errors"] is False and len(table.refresh()) == 3
