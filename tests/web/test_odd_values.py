"""Values that JSON has no number for, or that are easily lost on the way, through the addresses of
the service.
"""

from __future__ import annotations

import datetime as dt
import math
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
START = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
ODD_VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "double": (
        pa.float64(),
        [1.5, math.nan, math.inf, -math.inf, None, -0.0, 0.0, 1e300, math.nan, None, math.inf],
    ),
    "float": (pa.float32(), [0.1, math.nan, -math.inf, None, 16777216.0, 0.1, math.inf, -math.nan]),
    "integer": (pa.int64(), [2**63 - 1, -(2**63), 0, None, 2**53 + 1, 2**53]),
    "decimal": (pa.decimal128(20, 0), [2**64 - 1, 2**63, 0, None, 2**63 + 1]),
    "text": (
        pa.string(),
        ["NaN", "Infinity", "", "*", 'a "b" \\', "null", None, "é", "2026-11-05", "a"],
    ),
    "truth": (pa.bool_(), [True, False, None, True]),
    "bytes": (pa.binary(), [b"\x00\xff", b"", None, b"a", b"NaN"]),
    "day": (pa.date32(), [dt.date(2026, 11, 5), dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
    "moment": (
        pa.timestamp("us", tz="UTC"),
        [START, START + dt.timedelta(microseconds=1), None, START],
    ),
    "wall": (
        pa.timestamp("us"),
        [dt.datetime(2026, 11, 5), dt.datetime(2026, 11, 5, 0, 0, 0, 1), None],
    ),
    "time": (
        pa.time64("us"),
        [dt.time(1, 2, 3, 4), dt.time(0), None, dt.time(23, 59, 59, 999_999)],
    ),
    "span": (
        pa.duration("us"),
        [dt.timedelta(microseconds=1), dt.timedelta(days=-1), None, dt.timedelta()],
    ),
}


def served(folder: Path) -> TestClient:
    """A client of the service over the tables of a folder."""
    app = service_application(
        Service(Warehouse([str(folder)], max_staleness=0), Limits()), TOKEN, names=frozenset()
    )
    return TestClient(
        app, headers={"Authorization": f"Bearer {TOKEN}"}, raise_server_exceptions=False
    )


@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize("kind", sorted(ODD_VALUES))
def test_search_after_passes_every_row_once_whatever_the_values_are(
    tmp_path: Path, kind: str, direction: str
) -> None:
    arrow, values = ODD_VALUES[kind]
    table = Table.create(str(tmp_path / "t"), schema=pa.schema([("n", pa.int64()), ("x", arrow)]))
    half = len(values) // 2
    for first, some in ((0, values[:half]), (half, values[half:])):
        table.append(pa.table({"n": range(first, first + len(some)), "x": pa.array(some, arrow)}))
    expected = (
        table.search("*", order_by=[f"x {direction}", "n"], limit=100).column("n").to_pylist()
    )
    client = served(tmp_path)
    for sort, size in (([{"x": direction}, {"n": "asc"}], 1), ([{"x": direction}, "_doc"], 2)):
        seen: list[int] = []
        body: dict[str, Any] = {"size": size, "sort": sort}
        while len(seen) <= len(values):
            answer = client.post("/t/_search", json=body)
            assert answer.status_code == 200, answer.text
            hits = answer.json()["hits"]["hits"]
            if not hits:
                break
            seen += [hit["_source"]["n"] for hit in hits]
            body["search_after"] = hits[-1]["sort"]
        assert sorted(seen) == list(range(len(values)))
        if sort[1] != "_doc":
            assert seen == expected


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (["x", 1], "'x' for 'f'"),
        ([{}, 1], "for 'f'"),
        ([True, 1], "for 'f'"),
        ([1.0, 1.5], "for '_doc'"),
        ([1.0, -1], "for '_doc'"),
        ([1.0, "x"], "for '_doc'"),
        ([1.0], "needs 2 values"),
        ("x", "needs 2 values"),
        ({}, "needs 2 values"),
    ],
)
def test_a_value_of_search_after_that_is_none_of_its_column_is_refused(
    tmp_path: Path, after: Any, said: str
) -> None:
    Table.create(str(tmp_path / "t"), schema=pa.schema([("f", pa.float64())])).append([{"f": 1.0}])
    answer = served(tmp_path).post(
        "/t/_search", json={"sort": [{"f": "asc"}, "_doc"], "search_after": after}
    )
    assert answer.status_code == 400 and said in answer.json()["error"]["reason"], answer.text


def test_numbers_that_are_not_finite_are_texts_in_json(tmp_path: Path) -> None:
    values = [1.5, math.nan, math.inf, -math.inf, None]
    table = Table.create(
        str(tmp_path / "t"), schema=pa.schema([("f", pa.float64()), ("l", pa.list_(pa.float64()))])
    )
    table.append(pa.table({"f": values, "l": [[v] for v in values]}, schema=table.schema))
    rows = served(tmp_path).get("/api/tables/t/search").json()["rows"]
    texts = [1.5, "NaN", "Infinity", "-Infinity", None]
    assert [(row["f"], row["l"]) for row in rows] == [(text, [text]) for text in texts]
    spec = {"c": {"composite": {"sources": [{"f": {"terms": {"field": "f"}}}], "size": 1}}}
    seen: list[Any] = []
    while (
        found := served(tmp_path)
        .post("/api/tables/t/aggregate", json={"aggs": spec})
        .json()["rows"]
    ):
        seen.append(found[0]["c"]["f"])
        spec["c"]["composite"]["after"] = found[0]["c"]
    assert seen == ["-Infinity", 1.5, "Infinity", "NaN"]
