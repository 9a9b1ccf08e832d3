"""Queries that were read as something else than they say, in silence; each finds what it says, or
says what is wrong.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import InvalidInputError, QuerySyntaxError
from indextables.log.context import LogContext

NOW = dt.datetime(2026, 11, 16, 12, 30, tzinfo=dt.UTC)
ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "message": "gateway timeout",
        "lv": "INFO",
        "n": 7,
        "payload": '{"error": {"text": "disk Timeout"}}',
    },
    {"id": 2, "message": "time is up", "lv": "WARN", "n": 20, "payload": '{"a": {}, "timeout": 5}'},
    {
        "id": 3,
        "message": "disk full",
        "lv": "INFO",
        "n": 16,
        "payload": '{"list": ["full disk", 504], "a": null}',
    },
    {
        "id": 4,
        "message": "write to /var/log/syslog",
        "lv": None,
        "n": None,
        "payload": '{"a": [], "deep": {"x": "timeout"}}',
    },
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("message", pa.string()),
            ("lv", pa.string()),
            ("n", pa.int64()),
            ("payload", pa.string()),
            ("ts", pa.timestamp("us", "UTC")),
        ]
    )
    path = tmp_path_factory.mktemp("misread") / "t"
    made = Table.create(
        str(path),
        schema=schema,
        options={"indexing.typemap.message": "text", "indexing.typemap.payload": "json"},
    )
    made.append(
        pa.Table.from_pylist(
            [{**row, "ts": NOW - dt.timedelta(hours=row["id"] - 1)} for row in ROWS], schema
        )
    )
    return made


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogContext, "now_ms", lambda self: int(NOW.timestamp() * 1000))


def ids(table: Table, query: str) -> list[int]:
    return sorted(table.search(query).column("id").to_pylist())


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("message:/time.*|disk/", [1, 2, 3]),
        ("message:/TIME.*/", [1, 2]),
        ("/gate.*/ OR /up/", [1, 2]),
        ("lv:/inf./", []),
        ("lv:/inf./i", [1, 3]),
        ("payload:/dis./", [1, 3]),
        ("payload.error.text:/.*out/", [1]),
        ("message:/var/log/syslog", [4]),
        (r"message:/\/var.*/", []),
        ("message:(/gate.*/ AND /time(out)?/)^2", [1]),
    ],
)
def test_regular_expressions_are_those_of_terms(table: Table, query: str, rows: list[int]) -> None:
    assert ids(table, query) == rows


@pytest.mark.parametrize(
    ("query", "place", "problem"),
    [
        ("message:/time(/", 13, "not closed"),
        ("message:/time.*|disk", 8, "not closed"),
        (r"message:/(?=a)/", 9, r"Only \(\?:"),
        ("message:/(a|b)*a(a|b){12}/", 8, "too large"),
        ("n:/1.*/", 2, "needs a column of text"),
    ],
)
def test_a_wrong_regular_expression_is_named_with_its_place(
    table: Table, query: str, place: int, problem: str
) -> None:
    with pytest.raises(QuerySyntaxError, match=problem) as error:
        table.search(query)
    assert error.value.context["position"] == place


def test_a_json_column_is_searched_at_every_path_and_keys_are_no_values(table: Table) -> None:
    assert ids(table, "payload:timeout") == [1, 4]
    assert ids(table, 'payload:"full disk"') == [3]
    assert ids(table, 'payload:"disk full"') == []
    assert ids(table, "payload:504") == [3]
    assert ids(table, "payload:time*") == [1, 4]
    assert ids(table, "payload:[500 TO 600]") == [3]
    assert ids(table, "payload:IN [full 5]") == [2, 3]
    own = Table.open(table.path, options={"indexing.defaultSearchFields": "message,payload"})
    assert ids(own, "timeout") == [1, 4]
    assert ids(own, "full") == [3]


def test_a_phrase_does_not_reach_from_one_path_into_another(tmp_path: Path) -> None:
    rows = pa.table(
        {"id": [1, 2], "p": ['{"a": "gateway", "b": "timeout"}', '{"a": ["gateway timeout"]}']}
    )
    made = Table.create(
        str(tmp_path / "t"), schema=rows.schema, options={"indexing.typemap.p": "json"}
    )
    made.append(rows)
    assert ids(made, 'p:"gateway timeout"') == [2]
    assert ids(made, 'p:"gateway tim"*') == [2]


def test_a_misspelt_column_in_a_group_is_named(table: Table) -> None:
    with pytest.raises(QuerySyntaxError, match="There is no column 'mesage'") as error:
        table.search("message:(gateway OR mesage:disk)")
    assert error.value.context["nearest"] == ["message"]
    assert "\\:" in (error.value.hint or "")
    assert ids(table, r"message:(gateway OR mesage\:disk)") == [1]
    assert ids(table, "ts:(2026-11-16T12:30:00Z OR 2026-11-16T10:30:00Z)") == [1, 3]


@pytest.mark.parametrize("query", ["message : timeout", "message :timeout", "message: timeout"])
def test_a_colon_may_stand_apart(table: Table, query: str) -> None:
    assert ids(table, query) == [1]


def test_a_range_of_words_is_refused_with_the_way_out(table: Table) -> None:
    for query in ("message:[e TO h]", "message:>e"):
        with pytest.raises(QuerySyntaxError, match="where=") as error:
            table.search(query)
        assert "indexing.typemap.message = string" in error.value.message
    assert ids(table, "lv:[A TO M]") == [1, 3]


def test_an_empty_object_exists_at_a_column_and_at_a_path(table: Table) -> None:
    assert ids(table, "payload:*") == [1, 2, 3, 4]
    assert ids(table, "payload.a:*") == [2, 4]
    assert ids(table, "payload.deep:*") == [4]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("ts:>=now-90m", [1, 2]),
        ("ts:<now-1h", [3, 4]),
        ("ts:>=now/d", [1, 2, 3, 4]),
        ("ts:[now-1d/d TO now/d}", []),
        ("ts:[now-2h TO now-1h]", [2, 3]),
        (f"ts:>={int(NOW.timestamp())}", [1]),
        (f"ts:{int(NOW.timestamp()) * 1000}", [1]),
        ("ts:>=2026/11/16", [1, 2, 3, 4]),
        ("ts:<2026/11/16", []),
        ('ts:"2026/11/16 13:30:00+01:00"', [1]),
        ("ts:2026-11-16T07:30:00-05:00", [1]),
    ],
)
def test_times_are_read_as_people_write_them(table: Table, query: str, rows: list[int]) -> None:
    assert ids(table, query) == rows


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("ts >= 'now-90m'", 2),
        ("ts IN ('now', 'now-1h')", 2),
        (f"ts = {int(NOW.timestamp())}", 1),
        (f"ts = {int(NOW.timestamp()) * 1000}", 1),
        ("ts >= '2026/11/16'", 4),
        ("ts = '2026-11-16T07:30:00-05:00'", 1),
        ("lv = 'now'", 0),
    ],
)
def test_conditions_read_times_in_the_same_way(table: Table, where: str, rows: int) -> None:
    assert table.count(where=where) == rows


def test_a_time_that_cannot_be_told_is_refused(table: Table) -> None:
    for query in ("ts:5", "ts:20231", "ts:now-1x", "payload.a:>now-1d"):
        with pytest.raises(QuerySyntaxError):
            table.search(query)
    for where in ("ts > 5", "ts > 'now-1x'"):
        with pytest.raises(InvalidInputError):
            table.count(where=where)


@pytest.mark.parametrize(
    "query",
    [
        "lv IN ('INFO')",
        "lv in ('INFO')",
        "lv NOT IN ('INFO')",
        "n>15",
        "n > 15",
        "n >= 15",
        "lv = 'INFO'",
        "lv='INFO'",
        "message LIKE '%x%'",
        "n BETWEEN 1 AND 5",
        "lv IS NULL",
        "lv is not null",
        "lv != 'x'",
        "nn>15",
    ],
)
def test_sql_in_a_query_is_named_with_the_way_out(table: Table, query: str) -> None:
    with pytest.raises(QuerySyntaxError, match="SQL") as error:
        table.search(query)
    assert "where=" in (error.value.hint or "")


def test_words_that_only_look_like_sql_stay_words(table: Table) -> None:
    assert ids(table, "disk in full") == [3]
    assert ids(table, "up IS it") == [2]
    assert ids(table, '"n>15" OR gateway') == [1]
    assert ids(table, "a=b OR up") == [2]


def test_a_query_that_names_the_clock_is_read_anew(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ids(table, "ts:>=now") == [1]
    later = int((NOW + dt.timedelta(hours=1)).timestamp() * 1000)
    monkeypatch.setattr(LogContext, "now_ms", lambda self: later)
    assert ids(table, "ts:>=now") == []


def test_a_range_over_the_elements_of_a_list_is_planned(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3], "tags": [["a", "b"], ["x"], None], "nums": [[1, 5], [9], []]})
    made = Table.create(str(tmp_path / "t"), schema=rows.schema)
    made.append(rows)
    assert ids(made, "nums:[4 TO 6]") == [1]
    assert ids(made, "tags:[a TO c] AND tags:b") == [1]
