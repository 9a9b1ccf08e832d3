"""The service under requests that no client should send: every answer is a result or an error of
ours, never a fault.
"""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from indextables import Table
from indextables.web.explorer import Limits
from indextables.web.service import Service, service_application
from indextables.web.warehouse import Warehouse
from tests.support.elastic_tables import SCHEMA

TOKEN = "the-token-of-these-tests"
ODD: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        1.5,
        1e308,
        2**31,
        2**63,
        2**64,
        -(2**70),
        "",
        " ",
        "x",
        "²",
        "١",
        "\x00",
        "*",
        "_all",
    ),
    *(
        "\ud800",
        "é" * 300,
        "now-1d/d",
        "NaN",
        "Infinity",
        "2026-13-01",
        "9" * 40,
        "a:b",
        "(",
        '"',
        "\\",
        "/[/",
        "~1",
        "<em>",
    ),
    *(
        [],
        {},
        [[]],
        [{}],
        {"": {}},
        [None],
        ["a", 1],
        {"a": {"b": {"c": []}}},
        "_score",
        "_doc",
        "id",
        "ts",
        "message",
    ),
]
QUERIES: list[Any] = [
    {
        "match": {
            "message": {
                "query": "disk full",
                "operator": "and",
                "minimum_should_match": "50%",
                "boost": 2,
            }
        }
    },
    {"match_phrase": {"message": {"query": "disk full", "slop": 1}}},
    {"match_phrase_prefix": {"message": {"query": "disk fu", "boost": 2}}},
    {
        "multi_match": {
            "query": "disk",
            "fields": ["message^2"],
            "type": "best_fields",
            "operator": "or",
        }
    },
    {
        "bool": {
            "must": [{"match_all": {}}],
            "should": [{"term": {"level": "INFO"}}],
            "minimum_should_match": 1,
        }
    },
    {
        "bool": {
            "filter": {
                "range": {"ts": {"gte": "now-1d", "format": "epoch_millis", "time_zone": "UTC"}}
            }
        }
    },
    {"range": {"ms": {"gt": 1, "lte": "5.5", "boost": 1}}},
    {"terms": {"level": ["INFO", "WARN"], "boost": 1}},
    {"term": {"day": {"value": "2026-11-01"}}},
    {"prefix": {"level": {"value": "IN"}}},
    {"wildcard": {"message": {"value": "d*sk", "rewrite": "constant_score"}}},
    {"regexp": {"level": {"value": "I.*", "flags": "NONE", "case_insensitive": True}}},
    {"fuzzy": {"message": {"value": "dsik", "fuzziness": "AUTO"}}},
    {"exists": {"field": "tags"}},
    {"query_string": {"query": "message:disk", "fields": ["message"], "default_operator": "and"}},
    {
        "simple_query_string": {
            "query": "disk + fu*",
            "fields": ["message"],
            "default_operator": "or",
        }
    },
]
AGGREGATIONS: list[Any] = [
    {
        "a": {
            "terms": {"field": "level", "size": 3, "order": {"_count": "desc"}},
            "aggs": {"m": {"max": {"field": "ms"}}},
        }
    },
    {
        "a": {
            "date_histogram": {
                "field": "ts",
                "fixed_interval": "1h",
                "format": "yyyy",
                "keyed": True,
            }
        }
    },
    {
        "a": {
            "date_histogram": {
                "field": "ts",
                "calendar_interval": "day",
                "extended_bounds": {"min": 0, "max": "now"},
            }
        }
    },
    {
        "a": {
            "histogram": {
                "field": "ms",
                "interval": 5,
                "offset": 1,
                "extended_bounds": {"min": 0, "max": 9},
            }
        }
    },
    {"a": {"range": {"field": "ms", "ranges": [{"from": 1, "to": 5, "key": "k"}, {"from": 3}]}}},
    {
        "a": {"percentiles": {"field": "ms", "percents": [50, 99], "keyed": False}},
        "b": {"extended_stats": {"field": "id"}},
    },
    {"a": {"cardinality": {"field": "day", "precision_threshold": 5}, "meta": {"x": 1}}},
]
SEARCH: dict[str, Any] = {
    "size": 3,
    "from": 0,
    "sort": [{"ms": {"order": "desc", "missing": "_last"}}, {"id": "asc"}],
    "search_after": [5.0, 3],
    "_source": {"includes": ["id", "m*"], "excludes": ["ms"]},
    "fields": [{"field": "ts", "format": "epoch_millis"}, "level"],
    "docvalue_fields": ["day"],
    "highlight": {
        "fields": {"message": {"fragment_size": 20}},
        "pre_tags": ["<b>"],
        "number_of_fragments": 1,
    },
    "track_total_hits": True,
    "track_scores": True,
    "timeout": "5s",
}
OWN: dict[str, dict[str, Any]] = {
    "search": {
        "q": "message:disk",
        "where": "ms > 1",
        "columns": ["id", "ms"],
        "limit": 2,
        "offset": 1,
        "order_by": "ms desc",
        "snippet": "message",
        "version": 1,
    },
    "count": {"q": "disk", "where": "id < 5", "version": 1},
    "aggregate": {
        "q": "disk",
        "aggs": {
            "c": {
                "composite": {
                    "sources": [{"l": {"terms": {"field": "level"}}}],
                    "size": 2,
                    "after": {"l": "A"},
                }
            },
            "f": {"filters": {"filters": {"big": "ms > 5"}}},
            "t": {"top_hits": {"sort": "ts desc", "columns": ["id"], "size": 2}},
        },
    },
    "history": {"limit": 1},
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder: Path = tmp_path_factory.mktemp("served")
    table = Table.create(
        str(folder / "logs"), schema=SCHEMA, options={"indexing.typemap.message": "text"}
    )
    values = (0.5, 5.0, math.nan, math.inf, None)
    for part in range(2):
        table.append(
            [
                {
                    "id": n,
                    "ms": values[n % 5],
                    "level": "INFO",
                    "message": f"disk {n} full",
                    "tags": ["a"],
                }
                for n in range(part * 10, part * 10 + 10)
            ]
        )
    limits = Limits()
    app = service_application(Service(Warehouse([str(folder)]), limits), TOKEN, names=frozenset())
    headers = {"Authorization": f"Bearer {TOKEN}"}
    yield TestClient(app, headers=headers, raise_server_exceptions=False)
    limits.close()


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every part of a body."""
    yield at
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        yield from places(item, (*at, key))


def changed(body: Any, chance: random.Random) -> Any:
    """A body of which one part is replaced, removed, renamed or repeated."""
    made = copy.deepcopy(body)
    *way, last = chance.choice([at for at in places(made) if at])
    parent = made
    for key in way:
        parent = parent[key]
    action = chance.random()
    if action < 0.7:
        parent[last] = copy.deepcopy(chance.choice(ODD))
    elif action < 0.8:
        del parent[last]
    elif isinstance(parent, dict):
        parent[chance.choice(["x", "", "query", "field", "aggs", "²", last * 2])] = parent[last]
    else:
        parent += parent * 3
    return made


def check(answer: Any, what: object) -> None:
    """An answer is a result, or an error of ours that names what is wrong."""
    assert answer.status_code in (200, 400, 404), (answer.status_code, answer.text, what)
    found = answer.json()
    if answer.status_code == 200:
        assert "error" not in found
        return
    error = found["error"]
    assert len(error.get("message") or error.get("reason")) > 10, (found, what)


def shoot(client: TestClient, chance: random.Random) -> int:
    """Send one random request; returns its status."""
    roll = chance.random()
    if roll < 0.55:
        body = {**SEARCH, "query": chance.choice(QUERIES), "aggs": chance.choice(AGGREGATIONS)}
        for _ in range(chance.randint(1, 3)):
            body = changed(body, chance) if isinstance(body, dict) and body else body
        content = json.dumps(body)
        address = chance.choice(
            ["/logs/_search", "/_search", "/logs/_count", "/logs/_msearch", "/logs/_field_caps"]
        )
        if address.endswith("_msearch"):
            content = (
                f"{json.dumps(chance.choice([{}, {'index': chance.choice(ODD)}]))}\n{content}\n"
            )
        answer = client.post(address, content=content)
    elif roll < 0.85:
        verb = chance.choice(sorted(OWN))
        content = json.dumps(changed(OWN[verb], chance))
        answer = client.post(f"/api/tables/logs/{verb}", content=content)
    elif roll < 0.95:
        content = chance.choice(
            ["limit", "offset", "version", "q", "size", "from", "sort", "_source", "h", "fields"]
        )
        value = chance.choice(
            [text for text in ODD if isinstance(text, str) and text.isprintable()]
        )
        addresses = [
            "/api/tables/logs/search",
            "/logs/_search",
            "/_cat/indices",
            "/logs/_field_caps",
            "/logs/_mapping",
        ]
        answer = client.get(chance.choice(addresses), params={content: value})
    else:
        content = bytes(chance.choices(b'{}[]",:0x\xff\xed\xa0\x80\n', k=chance.randint(0, 40)))  # type: ignore[assignment]
        answer = client.post(
            chance.choice(["/logs/_search", "/logs/_msearch", "/api/tables/logs/count"]),
            content=content,
        )
    check(answer, content)
    return int(answer.status_code)


def test_hundreds_of_odd_requests_are_answered_or_refused(client: TestClient) -> None:
    chance = random.Random(5)
    statuses = [shoot(client, chance) for _ in range(600)]
    assert statuses.count(200) > 60 and statuses.count(400) > 200


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(10))
def test_thousands_of_odd_requests_are_answered_or_refused(client: TestClient, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(3_000):
        shoot(client, chance)


@pytest.mark.parametrize("kinds", [QUERIES, AGGREGATIONS])
def test_the_requests_that_are_changed_are_right_themselves(
    client: TestClient, kinds: list[Any]
) -> None:
    for part in kinds:
        body = {**SEARCH, "query" if kinds is QUERIES else "aggs": part}
        answer = client.post("/logs/_search", content=json.dumps(body))
        assert answer.status_code == 200, (part, answer.text)
    for verb, body in OWN.items():
        answer = client.post(f"/api/tables/logs/{verb}", content=json.dumps(body))
        assert answer.status_code == 200, (verb, answer.text)
