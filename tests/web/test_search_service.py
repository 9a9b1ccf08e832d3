"""The search service: the official client of Elasticsearch, requests as Grafana sends them, the
same answers as `Table`.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import uvicorn
from elasticsearch import AuthenticationException, BadRequestError, Elasticsearch, NotFoundError
from starlette.testclient import TestClient

from indextables import Table
from indextables.query.plan import query_fields
from indextables.web.explorer import Limits
from indextables.web.query_dsl import QueryDsl
from indextables.web.service import LOOPBACK, Service, service_application
from indextables.web.warehouse import Warehouse
from indextables.web.workers import open_socket

TOKEN = "the-token-of-these-tests"
START = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("level", pa.string()),
        ("status", pa.int32()),
        ("ms", pa.float64()),
        ("ok", pa.bool_()),
        ("message", pa.string()),
    ]
)
WORDS = ("gateway", "timeout", "disk", "full", "login", "user", "cart", "paid")
ROWS = 300


def rows() -> list[dict[str, Any]]:
    chance = random.Random(11)
    return [
        {
            "id": n,
            "ts": START + dt.timedelta(minutes=n // 2, microseconds=n % 2),
            "level": chance.choice(("INFO", "WARN", "ERROR", None)),
            "status": chance.choice((200, 404, 500, 503)),
            "ms": round(chance.random() * 100, 2),
            "ok": chance.random() < 0.5,
            "message": " ".join(chance.choices(WORDS, k=5)),
        }
        for n in range(ROWS)
    ]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    root = tmp_path_factory.mktemp("served")
    made = Table.create(
        str(root / "logs"), schema=SCHEMA, options={"indexing.typemap.message": "text"}
    )
    for part in (rows()[:180], rows()[180:]):
        made.append(part)
    Table.create(str(root / "other"), schema=SCHEMA)
    return made


@pytest.fixture(scope="module")
def app(table: Table) -> Iterator[Any]:
    limits = Limits()
    warehouse = Warehouse([str(Path(table.path).parent)], max_staleness=0)
    yield service_application(Service(warehouse, limits), TOKEN, names=frozenset())
    limits.close()


@pytest.fixture(scope="module")
def es(app: Any) -> Iterator[Elasticsearch]:
    opened = open_socket(LOOPBACK, 0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
    thread.start()
    client = Elasticsearch(f"http://{LOOPBACK}:{opened.getsockname()[1]}", api_key=TOKEN)
    yield client
    client.close()
    server.should_exit = True
    thread.join(30)
    opened.close()


def ids(answer: Any) -> list[int]:
    return [hit["_source"]["id"] for hit in answer["hits"]["hits"]]


def test_the_official_client_searches(es: Elasticsearch, table: Table) -> None:
    assert es.info()["version"]["number"]
    answer = es.search(
        index="logs",
        query={
            "bool": {
                "must": [{"match": {"message": "gateway timeout"}}],
                "filter": [{"term": {"level": "ERROR"}}],
            }
        },
        size=5,
        source={"includes": ["id", "mess*"]},
        highlight={"fields": {"message": {}}},
    )
    best = table.search("(message:gateway OR message:timeout) AND level:ERROR", limit=100)
    assert (
        answer["hits"]["total"] == {"value": best.num_rows, "relation": "eq"}
        and len(ids(answer)) == 5
    )
    first = answer["hits"]["hits"][0]
    assert set(first["_source"]) == {"id", "message"} and "<em>" in first["highlight"]["message"][0]
    assert (
        first["_score"] == answer["hits"]["max_score"] > 0
        and first["_index"] == "logs"
        and first["_id"]
    )
    assert es.count(index="logs", query={"exists": {"field": "level"}})["count"] == table.count(
        query="level:*"
    )
    indices: Any = es.cat.indices(format="json")
    assert indices[0]["docs.count"] == str(ROWS)
    assert es.indices.get_mapping(index="logs")["logs"]["mappings"]["properties"]["message"] == {
        "type": "text"
    }
    caps = es.field_caps(index="logs", fields="*")["fields"]
    assert caps["ts"]["date"]["aggregatable"] and not caps["message"]["text"]["aggregatable"]


def test_requests_as_grafana_sends_them(es: Elasticsearch, table: Table) -> None:
    low, high = (int((START + dt.timedelta(minutes=m)).timestamp() * 1000) for m in (10, 69))
    within = f"ts >= TIMESTAMP '{START + dt.timedelta(minutes=10)}' AND ts <= TIMESTAMP '{START + dt.timedelta(minutes=69)}'"
    search = {
        "size": 0,
        "query": {
            "bool": {
                "filter": [
                    {"range": {"ts": {"gte": low, "lte": high, "format": "epoch_millis"}}},
                    {"query_string": {"analyze_wildcard": True, "query": "level:ERROR"}},
                ]
            }
        },
        "aggs": {
            "2": {
                "terms": {
                    "field": "status",
                    "size": 2,
                    "order": {"_key": "asc"},
                    "min_doc_count": 1,
                },
                "aggs": {
                    "3": {
                        "date_histogram": {
                            "field": "ts",
                            "fixed_interval": "10m",
                            "min_doc_count": 0,
                            "extended_bounds": {"min": low, "max": high},
                            "format": "epoch_millis",
                        },
                        "aggs": {"1": {"avg": {"field": "ms"}}},
                    }
                },
            }
        },
    }
    logs = {
        "size": 20,
        "query": {
            "bool": {
                "filter": [{"range": {"ts": {"gte": low, "lte": high, "format": "epoch_millis"}}}]
            }
        },
        "sort": [
            {"ts": {"order": "desc", "unmapped_type": "boolean"}},
            {"_doc": {"order": "desc"}},
        ],
        "fields": [{"field": "ts", "format": "strict_date_optional_time_nanos"}],
        "script_fields": {},
    }
    wrong: dict[str, Any] = {"query": {"span_near": {}}}
    answers = es.msearch(
        searches=[{"index": "logs"}, search, {"index": "logs"}, logs, {"index": "lo*"}, wrong],
        max_concurrent_searches=5,
    )["responses"]
    found = table.count(query="level:ERROR", where=within)
    assert answers[0]["hits"]["total"]["value"] == found
    buckets = answers[0]["aggregations"]["2"]["buckets"]
    assert [b["key"] for b in buckets] == [200, 404]
    assert answers[0]["aggregations"]["2"]["sum_other_doc_count"] == found - sum(
        b["doc_count"] for b in buckets
    )
    for bucket in buckets:
        bars = bucket["3"]["buckets"]
        assert [bar["key"] for bar in bars] == list(
            range(low // 600_000 * 600_000, high + 1, 600_000)
        )
        assert sum(bar["doc_count"] for bar in bars) == bucket["doc_count"]
        own = table.to_polars(query=f"level:ERROR AND status:{bucket['key']}", where=within)
        shown = [bar["1"]["value"] * bar["doc_count"] for bar in bars if bar["doc_count"]]
        assert sum(shown) == pytest.approx(own["ms"].sum())
        assert all(bar["key_as_string"] == str(bar["key"]) for bar in bars)
    newest = table.search("*", where=within, order_by="ts desc", limit=20).column("id").to_pylist()
    assert ids(answers[1]) == newest and answers[1]["hits"]["hits"][0]["fields"]["ts"]
    assert (
        answers[2]["status"] == 400
        and "'span_near' is not supported" in answers[2]["error"]["reason"]
    )


def test_sorts_by_two_keys_with_highlights_and_some_columns(
    es: Elasticsearch, table: Table
) -> None:
    answer = es.search(
        index="logs",
        query={"match": {"message": "timeout"}},
        sort=[{"status": "desc"}, {"ts": "asc"}],
        source={"includes": ["id", "st*"]},
        highlight={"fields": {"message": {}}},
        size=40,
    )
    rows = table.search("message:timeout", order_by=["status desc", "ts"], limit=40)
    assert ids(answer) == rows.column("id").to_pylist() and rows.num_rows == 40
    assert [hit["sort"][0] for hit in answer["hits"]["hits"]] == rows.column("status").to_pylist()
    assert all(set(hit["_source"]) == {"id", "status"} for hit in answer["hits"]["hits"])
    assert all("<em>" in hit["highlight"]["message"][0] for hit in answer["hits"]["hits"])
    best = es.search(
        index="logs",
        query={"match": {"message": "timeout"}},
        sort=["_score", {"id": "desc"}],
        size=30,
    )
    scores = [hit["sort"][0] for hit in best["hits"]["hits"]]
    assert scores == sorted(scores, reverse=True) and scores[0] == best["hits"]["hits"][0]["_score"]
    assert (
        ids(best)
        == table.search("message:timeout", order_by=["_score", "-id"], limit=30)
        .column("id")
        .to_pylist()
    )


@pytest.mark.parametrize(
    "sort",
    [
        [{"status": "asc"}, "_doc"],
        [{"level": "desc"}, {"_doc": "asc"}],
        [{"ts": "desc"}],
        [{"level": "asc"}, {"status": "desc"}, {"id": "asc"}],
        [{"level": "desc"}, {"status": "asc"}, "_doc"],
    ],
)
def test_search_after_shows_every_row_once(es: Elasticsearch, sort: list[Any]) -> None:
    seen: list[int] = []
    after = None
    while True:
        answer = es.search(index="logs", size=37, sort=sort, search_after=after)
        if not ids(answer):
            break
        seen += ids(answer)
        after = answer["hits"]["hits"][-1]["sort"]
    assert len(seen) == ROWS and set(seen) == set(range(ROWS))


def leaf(chance: random.Random) -> tuple[dict[str, Any], str]:
    """A random leaf of the DSL, and the same in the query language."""
    word, other = chance.choice(WORDS), chance.choice(WORDS)
    low, high = sorted((chance.randrange(ROWS), chance.randrange(ROWS)))
    level, status = chance.choice(("INFO", "WARN", "ERROR")), chance.choice((200, 404, 500))
    at = (START + dt.timedelta(minutes=low // 2)).isoformat()
    leaves: list[tuple[dict[str, Any], str]] = [
        ({"match": {"message": f"{word} {other}"}}, f"(message:{word} OR message:{other})"),
        (
            {"match": {"message": {"query": f"{word} {other}", "operator": "and"}}},
            f"(message:{word} AND message:{other})",
        ),
        ({"match_phrase": {"message": f"{word} {other}"}}, f'message:"{word} {other}"'),
        (
            {"match_phrase": {"message": {"query": f"{word} {other}", "slop": 2}}},
            f'message:"{word} {other}"~2',
        ),
        ({"multi_match": {"query": word, "fields": ["message^2"]}}, f"message:{word}"),
        ({"term": {"level": {"value": level}}}, f"level:{level}"),
        ({"term": {"level.keyword": level}}, f"level:{level}"),
        ({"terms": {"status": [status, 503]}}, f"(status:{status} OR status:503)"),
        ({"term": {"ok": True}}, "ok:true"),
        ({"range": {"id": {"gte": low, "lt": high}}}, f"id:[{low} TO {high}}}"),
        ({"range": {"ts": {"gt": at}}}, f'ts:{{"{at}" TO *]'),
        ({"range": {"ms": {"lte": 50.5}}}, "ms:[* TO 50.5]"),
        ({"prefix": {"message": word[:3]}}, f"message:{word[:3]}*"),
        (
            {"wildcard": {"message": {"value": f"{word[:2]}*{word[-1]}"}}},
            f"message:{word[:2]}*{word[-1]}",
        ),
        ({"regexp": {"level": "E.*|WARN"}}, "level:/E.*|WARN/"),
        (
            {"fuzzy": {"message": {"value": word[:-1] + "x", "fuzziness": 1}}},
            f"message:{word[:-1]}x~1",
        ),
        ({"exists": {"field": "level"}}, "level:*"),
        (
            {"query_string": {"query": f"message:{word} AND level:{level}"}},
            f"(message:{word} AND level:{level})",
        ),
        (
            {"query_string": {"query": f"{word} {other}", "default_operator": "AND"}},
            f"(message:{word} AND message:{other})",
        ),
        (
            {"simple_query_string": {"query": f"{word} + -{other}"}},
            f"(message:{word} AND NOT message:{other})",
        ),
        (
            {"simple_query_string": {"query": f'"{word} {other}" | {word[:3]}*'}},
            f'("{word} {other}" OR message:{word[:3]}*)',
        ),
        ({"match_all": {}}, "*"),
    ]
    return chance.choice(leaves)


def request(chance: random.Random, depth: int = 0) -> tuple[dict[str, Any], str]:
    """A random query of the DSL, and the same in the query language."""
    if depth == 2 or chance.random() < 0.4:
        return leaf(chance)
    parts = {
        key: [request(chance, depth + 1) for _ in range(chance.randrange(3))]
        for key in ("must", "filter", "should", "must_not")
    }
    needed = [text for _, text in parts["must"] + parts["filter"]]
    texts = [f"({text})" for text in needed]
    if parts["should"] and not needed:
        texts.append("(" + " OR ".join(f"({text})" for _, text in parts["should"]) + ")")
    texts += [f"NOT ({text})" for _, text in parts["must_not"]]
    return {"bool": {key: [dsl for dsl, _ in some] for key, some in parts.items()}}, " AND ".join(
        texts
    ) or "*"


def test_two_hundred_random_requests_have_the_answers_of_the_table(app: Any, table: Table) -> None:
    chance = random.Random(2)
    client = TestClient(app, headers={"Authorization": f"Bearer {TOKEN}"})
    matched = 0
    for _ in range(200):
        dsl, text = request(chance)
        order = chance.choice(["id", "ts desc", "ms"])
        size = chance.choice([0, 3, 300])
        name, _, direction = order.partition(" ")
        body = {
            "query": dsl,
            "size": size,
            "sort": [{name: direction or "asc"}],
            "aggs": {
                "levels": {
                    "terms": {"field": "level", "size": 2},
                    "aggs": {"ms": {"max": {"field": "ms"}}},
                },
                "hours": {"date_histogram": {"field": "ts", "fixed_interval": "1h"}},
                "all": {"stats": {"field": "ms"}},
            },
        }
        answer = client.post("/logs/_search", json=body)
        assert answer.status_code == 200, (dsl, answer.text)
        found = answer.json()
        count = table.count(query=text)
        assert found["hits"]["total"]["value"] == count, (dsl, text)
        assert (
            ids(found) == table.search(text, order_by=order, limit=size).column("id").to_pylist()
        ), (dsl, text)
        matched += count > 0
        levels = table.aggregate(
            {
                "l": {
                    "terms": {"field": "level", "size": 2},
                    "aggs": {"m": {"max": {"field": "ms"}}},
                }
            },
            query=text,
        )
        shown = [
            (b["key"], b["doc_count"], b["ms"]["value"])
            for b in found["aggregations"]["levels"]["buckets"]
        ]
        assert shown == [(row["l"], row["count"], row["m"]) for row in levels.to_pylist()], (
            dsl,
            text,
        )
        assert sum(b["doc_count"] for b in found["aggregations"]["hours"]["buckets"]) == count
        assert found["aggregations"]["all"]["count"] == count
    assert matched > 100


def test_nan_is_counted_and_not_measured_as_in_a_table(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=pa.schema([("f", pa.float64())]))
    for values in ([1.0, math.nan, None], [3.0, -math.nan, math.nan]):
        table.append(pa.table({"f": values}))
    limits = Limits()
    app = service_application(
        Service(Warehouse([str(tmp_path)], max_staleness=0), limits), TOKEN, names=frozenset()
    )
    client = TestClient(app, headers={"Authorization": f"Bearer {TOKEN}"})
    kinds = ("value_count", "stats", "max", "cardinality", "terms")
    body = {"size": 0, "aggs": {kind: {kind: {"field": "f"}} for kind in kinds}}
    found = client.post("/t/_search", json=body).json()["aggregations"]
    limits.close()
    assert found["value_count"]["value"] == 5
    assert found["stats"] == {"count": 2, "min": 1.0, "max": 3.0, "avg": 2.0, "sum": 4.0}
    assert (found["max"]["value"], found["cardinality"]["value"]) == (3.0, 3)
    assert [(b["key"], b["doc_count"]) for b in found["terms"]["buckets"]] == [
        ("NaN", 3),
        (1.0, 1),
        (3.0, 1),
    ]
    own = table.aggregate({kind: {kind: {"field": "f"}} for kind in kinds[:-1]}).to_pylist()[0]
    assert (own["value_count"], own["stats.count"], own["max"], own["cardinality"]) == (
        5,
        2,
        3.0,
        3,
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"query": {"geo_distance": {}}}, "'geo_distance' is not supported"),
        ({"query": {"mach": {"message": "x"}}}, "Did you mean 'match'?"),
        (
            {"query": {"match": {"message": {"query": "x", "zero_terms_query": "all"}}}},
            "'zero_terms_query' in match of 'message'",
        ),
        ({"query": {"term": {"nope": 1}}}, "There is no column 'nope'"),
        ({"query": {"bool": {"musst": []}}}, "'musst' in bool is not supported"),
        ({"query": {"query_string": {"query": "level:("}}}, "position"),
        ({"query": {"range": {"status": {"gte": "abc"}}}}, "abc"),
        ({"rescore": {}}, "'rescore' in the request is not supported"),
        (
            {"aggs": {"a": {"significant_terms": {"field": "level"}}}},
            "'significant_terms' is not supported",
        ),
        (
            {"aggs": {"a": {"terms": {"field": "level", "include": "x"}}}},
            "'include' in the aggregation 'a'",
        ),
        (
            {
                "aggs": {
                    "a": {
                        "date_histogram": {
                            "field": "ts",
                            "fixed_interval": "1h",
                            "time_zone": "Asia/Tokyo",
                        }
                    }
                }
            },
            "time_zone",
        ),
        ({"sort": [{"status": "asc"}, {"status": "desc"}]}, "more than once"),
        ({"sort": ["_score", {"ts": "asc"}], "search_after": [1.0, 5]}, "behind a _score"),
        ({"size": 20_000}, "at most 10,000"),
        ({"size": -1}, "size is a whole number"),
        ({"search_after": [1]}, "search_after needs"),
        ({"script_fields": {"x": {}}}, "'script_fields' is not supported"),
        ({"_source": 5}, "_source is no list of columns"),
        ({"query": []}, "A query is an object"),
    ],
)
def test_what_is_not_understood_is_refused_by_its_name(
    app: Any, body: dict[str, Any], said: str
) -> None:
    client = TestClient(app, headers={"Authorization": f"ApiKey {TOKEN}"})
    answer = client.post("/logs/_search", json=body)
    assert answer.status_code == 400 and said in answer.json()["error"]["reason"], answer.text


def test_errors_are_those_of_the_client(es: Elasticsearch) -> None:
    with pytest.raises(NotFoundError, match="no such index"):
        es.search(index="nothing")
    with pytest.raises(BadRequestError, match="several tables"):
        es.search(index="*")
    with pytest.raises(BadRequestError, match="filter_path"):
        es.search(index="logs", filter_path="hits")


def test_the_official_client_recognizes_a_wrong_token(es: Elasticsearch) -> None:
    with pytest.raises(AuthenticationException, match="token is missing or wrong"):
        es.options(api_key="another").search(index="logs")


def test_another_name_of_the_machine_is_refused_as_json(table: Table) -> None:
    warehouse = Warehouse([table.path], max_staleness=0)
    guarded = service_application(
        Service(warehouse, Limits()), TOKEN, names=frozenset({"localhost"})
    )
    headers = {"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"}
    answer = TestClient(guarded, headers=headers).get("/_cat/indices")
    assert answer.status_code == 403 and "evil.example" in answer.json()["error"]["message"]


def test_only_who_has_the_token_is_answered(app: Any) -> None:
    client = TestClient(app)
    basic = base64.b64encode(f"elastic:{TOKEN}".encode()).decode()
    for header in (f"Bearer {TOKEN}", f"ApiKey {TOKEN}", f"Basic {basic}"):
        assert client.get("/_cat/indices", headers={"Authorization": header}).status_code == 200
    assert client.get(f"/{TOKEN}/_cat/indices").status_code == 200
    for header in (
        "",
        "Bearer x",
        f"Digest {TOKEN}",
        "Basic !!",
        f"Basic {base64.b64encode(b'a:b').decode()}",
    ):
        answer = client.post("/logs/_search", headers={"Authorization": header}, json={})
        assert answer.status_code == 401 and answer.headers["WWW-Authenticate"] == "Bearer"
        error = answer.json()["error"]
        assert error["kind"] == "access_denied" and error["type"] == "security_exception"
        assert "token is missing or wrong" in error["message"] and "ApiKey" in error["hint"]
        assert TOKEN not in answer.text
    for method in ("PUT", "DELETE", "PATCH"):
        assert (
            client.request(
                method, "/logs", headers={"Authorization": f"Bearer {TOKEN}"}
            ).status_code
            == 405
        )


def test_the_json_address_goes_on_page_by_page(app: Any, table: Table) -> None:
    client = TestClient(app, headers={"Authorization": f"Bearer {TOKEN}"})
    seen: list[int] = []
    after: str | None = ""
    while after is not None:
        asked: dict[str, Any] = {
            "q": "*",
            "limit": 70,
            "order_by": "level,-id",
            "columns": "id",
            "search_after": after,
        }
        answer = client.get("/api/tables/logs/search", params=asked)
        assert answer.status_code == 200, answer.text
        seen += [row["id"] for row in answer.json()["rows"]]
        after = answer.json()["next"]
    assert seen == table.search("*", order_by=["level", "-id"], limit=ROWS).column("id").to_pylist()
    refused = client.get(
        "/api/tables/logs/search", params={"q": "*", "search_after": "", "offset": 5}
    )
    assert refused.status_code == 400 and "no offset" in refused.text
    assert (
        client.get("/api/tables/logs/search", params={"search_after": "nonsense"}).status_code
        == 400
    )


def test_the_json_addresses(app: Any, table: Table) -> None:
    client = TestClient(app, headers={"Authorization": f"Bearer {TOKEN}"})

    def asked(address: str, status: int = 200, **given: Any) -> Any:
        answer = client.get(f"/api/{address}", params=given)
        assert answer.status_code == status, answer.text
        return answer.json()

    assert asked("tables") == {"tables": ["logs", "other"]}
    assert asked("tables/logs")["rows"] == ROWS
    found = asked(
        "tables/logs/search",
        q="timeout",
        where="status = 500",
        columns="id,message",
        limit=3,
        snippet="message",
    )
    assert found["rows"] == json.loads(
        json.dumps(
            table.search(
                "timeout",
                where="status = 500",
                columns=["id", "message"],
                limit=3,
                snippet="message",
            ).to_pylist()
        )
    )
    assert asked("tables/logs/count", q="timeout", version=1) == {
        "version": 1,
        "count": Table.open(table.path, version=1).count(query="timeout"),
    }
    spec = json.dumps({"l": {"terms": {"field": "level"}}})
    assert (
        asked("tables/logs/aggregate", aggs=spec)["rows"]
        == table.aggregate(json.loads(spec)).to_pylist()
    )
    assert [v["version"] for v in asked("tables/logs/history", limit=2)["versions"]] == [2, 1]
    paths = asked("openapi.json")["paths"]
    for path in paths:
        assert (
            client.get(
                path.replace("{table}", "logs"),
                params={"aggs": spec} if "aggregate" in path else {},
            ).status_code
            == 200
        )
    assert (
        "Search service" in client.get("/api").text
        and "indextables_load_seconds" in client.get("/metrics").text
    )
    assert asked("tables/logs/search", 400, q="level:(")["error"]["kind"] == "query_syntax"
    assert asked("tables/logs/search", 400, query="x")["error"]["message"].startswith(
        "'query' is not known"
    )
    assert asked("tables/logs/search", 400, limit=100_000)["error"]["kind"] == "invalid_input"
    assert asked("tables/none", 404)["error"]["kind"] == "not_found"
    assert client.post("/api/tables/logs/count", content=b"{").status_code == 400
    assert client.post("/api/tables/logs/count", content=b" " * (2 << 20)).status_code == 400


@pytest.mark.parametrize(
    ("method", "address", "status", "said"),
    [
        ("POST", "/_bulk", 404, "read only"),
        ("POST", "/logs/_doc", 404, "read only"),
        ("POST", "/logs/_delete_by_query", 404, "read only"),
        ("PUT", "/logs/_doc/1", 405, "read only"),
        ("DELETE", "/logs", 405, "read only"),
        ("PUT", "/new", 405, "read only"),
        ("POST", "/_search/scroll", 404, "search_after"),
        ("POST", "/logs/_pit", 404, "search_after"),
        ("GET", "/_cat/health", 404, "/_cat/indices"),
        ("GET", "/_nodes", 404, "/{index}/_search"),
        ("GET", "/nolog", 404, "The tables are logs, other"),
        ("POST", "/logs/_search?scroll=1m", 400, "search_after"),
    ],
)
def test_an_address_that_is_not_answered_is_refused_by_name_with_the_way_out(
    app: Any, method: str, address: str, status: int, said: str
) -> None:
    client = TestClient(app, headers={"Authorization": f"ApiKey {TOKEN}"})
    answer = client.request(method, address, json={})
    assert answer.status_code == status
    assert answer.headers["X-Elastic-Product"] == "Elasticsearch"
    assert answer.json()["status"] == status
    assert said in answer.json()["error"]["reason"]
    named = "scroll" if "?scroll" in address else address.rpartition("/")[2]
    assert named in answer.json()["error"]["reason"]


def test_habits_of_elasticsearch_that_have_an_answer(
    es: Elasticsearch, app: Any, table: Table
) -> None:
    assert es.indices.exists(index="logs")
    assert not es.indices.exists(index="nolog")
    assert es.indices.get(index="logs")["logs"]["mappings"]["properties"]["message"] == {
        "type": "text"
    }
    client = TestClient(app, headers={"Authorization": f"ApiKey {TOKEN}"})
    assert client.get("/logs/_count", params={"q": "level:ERROR"}).json()["count"] == table.count(
        query="level:ERROR"
    )
    both = {"q": "disk full", "default_operator": "AND"}
    assert client.get("/logs/_count", params=both).json()["count"] == table.count(
        query="disk AND full"
    )
    assert client.get("/logs/_count", params={"q": "disk", "sizes": 1}).status_code == 400
    assert (
        client.post("/logs/_search", json={"size": "3"}).json()["hits"]["hits"][2]["_index"]
        == "logs"
    )
    assert set(client.get("/_mapping").json()) == {"logs", "other"}
    several = client.post("/_search", json={"size": 0})
    assert (
        several.status_code == 400
        and "Name one of logs, other" in several.json()["error"]["reason"]
    )


def test_one_table_needs_no_name(table: Table) -> None:
    limits = Limits()
    alone = service_application(
        Service(Warehouse([table.path], max_staleness=0), limits), TOKEN, names=frozenset()
    )
    client = TestClient(alone, headers={"Authorization": f"ApiKey {TOKEN}"})
    assert client.post("/_search", json={"size": 0}).json()["hits"]["total"]["value"] == ROWS
    assert client.get("/_count").json()["count"] == ROWS
    limits.close()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"range": {"ts": {"gte": "2026-11-05"}}}, 3),
        ({"range": {"ts": {"gt": "2026-11-05"}}}, 1),
        ({"range": {"ts": {"lt": "2026-11-05"}}}, 1),
        ({"range": {"ts": {"lte": "2026-11-05"}}}, 3),
        ({"range": {"ts": {"lte": "2026/11/05"}}}, 3),
        ({"range": {"ts": {"from": "2026-11-05", "to": "2026-11-05"}}}, 2),
        ({"range": {"ts": {"lte": "2026-11-05T00:00:00Z"}}}, 2),
        ({"range": {"ts": {"gt": "2026-11-05T00:00:00Z"}}}, 2),
        ({"range": {"ts": {"lte": "now/y"}}}, 4),
        ({"range": {"ts": {"gt": "now/y"}}}, 0),
        ({"range": {"ts": {"lt": "now/y"}}}, 0),
        ({"term": {"ts": "2026-11-05"}}, 2),
        ({"terms": {"ts": ["2026-11-05", "2026-11-06"]}}, 3),
        ({"match": {"ts": "2026-11-05T12:00:00Z"}}, 1),
        ({"range": {"day": {"lte": "2026-11-05"}}}, 3),
        ({"range": {"day": {"gt": "2026-11-05"}}}, 1),
        ({"term": {"day": "2026-11-05"}}, 2),
        ({"range": {"n": {"from": 1, "to": 2}}}, 2),
    ],
)
def test_a_date_is_the_whole_of_its_day(
    tmp_path: Path, query: dict[str, Any], expected: int
) -> None:
    columns = [("ts", pa.timestamp("us", tz="UTC")), ("day", pa.date32()), ("n", pa.int64())]
    made = Table.create(str(tmp_path / "t"), schema=pa.schema(columns))
    times = [
        dt.datetime(2026, 11, day, hour, tzinfo=dt.UTC)
        for day, hour in ((4, 23), (5, 0), (5, 12), (6, 0))
    ]
    made.append([{"ts": at, "day": at.date(), "n": n} for n, at in enumerate(times)])
    in_that_year = int(dt.datetime(2026, 12, 1, tzinfo=dt.UTC).timestamp() * 1000)
    asked = QueryDsl(query_fields(made.handle), now_ms=in_that_year).query(query)
    assert made.count(query=str(asked)) == expected


def test_two_bounds_of_one_side_are_refused(es: Elasticsearch) -> None:
    with pytest.raises(BadRequestError, match="A range has gt and gte"):
        es.search(index="logs", query={"range": {"id": {"gt": 1, "gte": 2}}})


def test_times_relative_to_the_clock(es: Elasticsearch, table: Table) -> None:
    made = Table.create(
        f"{Path(table.path).parent}/recent",
        schema=pa.schema([("ts", pa.timestamp("us", tz="UTC"))]),
        exist_ok=True,
    )
    now = dt.datetime.now(dt.UTC)
    made.append([{"ts": now - dt.timedelta(minutes=m)} for m in (1, 10, 100)])
    for bounds, expected in (
        ({"gte": "now-15m"}, 2),
        ({"gte": "now-15m", "lte": "now"}, 2),
        ({"lt": "now-1h"}, 1),
        ({"gte": "now-2d/d"}, 3),
    ):
        assert es.count(index="recent", query={"range": {"ts": bounds}})["count"] == expected, (
            bounds
        )
    assert (
        es.count(index="recent", query={"query_string": {"query": "ts:[now-15m TO now]"}})["count"]
        == 2
    )


def test_an_order_that_is_neither_up_nor_down_is_refused(es: Elasticsearch) -> None:
    with pytest.raises(BadRequestError, match="descending"):
        es.search(index="logs", sort=[{"ts": {"order": "descending"}}])
    with pytest.raises(BadRequestError, match="downwards"):
        es.search(index="logs", sort="ts:downwards")
