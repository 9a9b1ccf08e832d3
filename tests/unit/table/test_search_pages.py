"""Pages of a search: every row is on one page, in order, whatever happens to the table meanwhile."""

from __future__ import annotations

import base64
import datetime
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import IndexTablesError, InvalidInputError, VersionNotFoundError

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("level", pa.string()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("latency", pa.float64()),
        ("message", pa.string()),
        ("payload", pa.string()),
        ("user", pa.struct([("name", pa.string()), ("age", pa.int32())])),
    ]
)
OPTIONS = {
    "indexing.typemap.message": "text",
    "indexing.typemap.payload": "json",
    "write.maxRowsPerSplit": 40,
}
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def rows(count: int, seed: int, first: int = 0) -> list[dict[str, Any]]:
    dice = random.Random(seed)

    def row(number: int) -> dict[str, Any]:
        deep = dice.choice(
            [
                dice.randrange(5),
                dice.randrange(5) + 0.25,
                "b",
                "a",
                True,
                None,
                [3, 1],
                2**60 + dice.randrange(3),
            ]
        )
        return {
            "id": first + number,
            "level": dice.choice(["INFO", "WARN", "ERROR", None]),
            "ts": None
            if dice.random() < 0.1
            else START + datetime.timedelta(minutes=dice.randrange(60)),
            "latency": dice.choice([float("nan"), None, 1.5, -0.0, 0.0, dice.random()]),
            "message": " ".join(
                dice.choice(["timeout", "disk", "full", "retry"])
                for _ in range(dice.randrange(1, 5))
            ),
            "payload": None if dice.random() < 0.1 else json.dumps({"deep": {"key": deep}}),
            "user": None
            if dice.random() < 0.2
            else {"name": dice.choice("xyz"), "age": dice.choice([None, 1, 2, 3])},
        }

    return [row(number) for number in range(count)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("pages") / "t")
    table = Table.create(path, schema=SCHEMA, options=OPTIONS)
    table.append(pa.Table.from_pylist(rows(150, 1), SCHEMA))
    table.append(pa.Table.from_pylist(rows(60, 2, 150), SCHEMA))
    table.delete(where="id IN (3, 14, 25, 36, 170, 171)")
    return path


def pages(table: Table, query: str, limit: int, **options: Any) -> list[pa.Table]:
    page = table.search_page(query, limit=limit, **options)
    found = [page.rows]
    while page.next is not None:
        page = table.search_page(query, limit=limit, search_after=page.next, **options)
        assert page.rows.num_rows > 0
        found.append(page.rows)
        assert len(found) < 300
    return found


def model_key(value: Any) -> tuple[int, float, str]:
    """Where a value stands among others: numbers, NaN, texts, truth values."""
    if isinstance(value, bool):
        return 3, float(value), ""
    if isinstance(value, str):
        return 2, 0.0, value
    if isinstance(value, datetime.datetime):
        return 0, value.timestamp(), ""
    return (1, 0.0, "") if value != value else (0, value, "")


def deep(row: dict[str, Any], name: str, pick: Any) -> Any:
    column, *path = name.split(".")
    value = row[column] if column != "payload" or row[column] is None else json.loads(row[column])
    for key in path:
        value = None if value is None else value[key]
    return pick(value) if isinstance(value, list) else value


def in_order(found: list[dict[str, Any]], orders: list[tuple[str, bool]]) -> list[list[Any]]:
    """What rows are ordered by, in the order of Python's own sort; nulls last either way."""
    for name, descending in reversed(orders):
        pick = max if descending else min
        with_value = [row for row in found if deep(row, name, pick) is not None]
        with_value.sort(key=lambda row: model_key(deep(row, name, pick)), reverse=descending)
        found = with_value + [row for row in found if deep(row, name, pick) is None]
    return shown(found, orders)


def shown(found: list[dict[str, Any]], orders: list[tuple[str, bool]]) -> list[list[Any]]:
    """The keys of rows; rows of equal keys may come in any order, as long as it stays the same."""
    return [
        [str(deep(row, name, max if down else min)).replace("-0.0", "0.0") for name, down in orders]
        for row in found
    ]


ORDERS: list[tuple[Any, list[tuple[str, bool]]]] = [
    ("ts", [("ts", False)]),
    ("ts desc", [("ts", True)]),
    ("-latency", [("latency", True)]),
    ("latency", [("latency", False)]),
    (["level", "-ts"], [("level", False), ("ts", True)]),
    ("level desc, latency, id", [("level", True), ("latency", False), ("id", False)]),
    ("payload.deep.key", [("payload.deep.key", False)]),
    (["-payload.deep.key", "id"], [("payload.deep.key", True), ("id", False)]),
    ("user.age desc", [("user.age", True)]),
    (["user.name", "user.age"], [("user.name", False), ("user.age", False)]),
]


@pytest.mark.parametrize(("order", "keys"), ORDERS, ids=[str(order) for order, _ in ORDERS])
def test_the_pages_of_a_search_hold_every_row_once_and_in_order(
    folder: str, order: Any, keys: Any
) -> None:
    table = Table.open(folder)
    stored = {row["id"]: row for row in table.search("timeout OR disk").to_pylist()}
    expected = in_order(list(stored.values()), keys)
    whole = table.search("timeout OR disk", order_by=order, columns=["id"])
    assert shown([stored[i] for i in whole["id"].to_pylist()], keys) == expected
    for limit in (7, 64):
        found = pages(table, "timeout OR disk", limit, order_by=order, columns=["id"])
        assert [page.num_rows for page in found[:-1]] == [limit] * (len(found) - 1)
        ids = pa.concat_tables(found)["id"].to_pylist()
        assert sorted(ids) == sorted(stored)
        assert shown([stored[i] for i in ids], keys) == expected


@pytest.mark.parametrize("order", [None, ["_score", "-ts"], "level, _score asc"], ids=str)
def test_pages_by_score_hold_every_row_once(folder: str, order: Any) -> None:
    table = Table.open(folder)
    whole = table.search("timeout OR disk^2", limit=1000, order_by=order)
    ids = pa.concat_tables(pages(table, "timeout OR disk^2", 9, order_by=order))
    assert sorted(ids["id"].to_pylist()) == sorted(whole["id"].to_pylist())
    assert ids["_score"].to_pylist() == pytest.approx(whole["_score"].to_pylist())
    if order == ["_score", "-ts"]:
        assert ids["_score"].to_pylist() == sorted(ids["_score"].to_pylist(), reverse=True)


def test_every_row_of_a_table_is_on_one_page(folder: str) -> None:
    table = Table.open(folder)
    assert sorted(pa.concat_tables(pages(table, "*", 50))["id"].to_pylist()) == sorted(
        table.scan(columns=["id"]).read_all()["id"].to_pylist()
    )


def test_pages_show_the_version_of_the_first_whatever_happens_to_the_table(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = Table.create(path, schema=SCHEMA, options=OPTIONS)
    table.append(pa.Table.from_pylist(rows(100, 5), SCHEMA))
    first = table.search_page("*", limit=30, order_by="ts")
    expected = pa.concat_tables(pages(table, "*", 30, order_by="ts"))["id"].to_pylist()
    table.append(pa.Table.from_pylist(rows(100, 6, 1000), SCHEMA))
    table.delete(where="id < 50")
    table.merge()
    fresh = Table.open(path)
    found, page = [first.rows], first
    while page.next is not None:
        page = fresh.search_page("*", limit=30, order_by="ts", search_after=page.next)
        assert page.version == first.version
        found.append(page.rows)
    assert pa.concat_tables(found)["id"].to_pylist() == expected
    again = fresh.search("*", limit=30, order_by="ts", search_after=first.next)
    assert again["id"].to_pylist() == expected[30:60]


def test_now_in_a_query_means_the_moment_of_the_first_page(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, options=OPTIONS)
    table.append(pa.Table.from_pylist(rows(20, 5), SCHEMA))
    first = table.search_page("ts:<now", limit=5, where="ts IS NOT NULL", order_by="id")
    assert first.next is not None
    second = table.search_page(
        "ts:<now", limit=5, where="ts IS NOT NULL", order_by="id", search_after=first.next
    )
    assert second.rows["id"].to_pylist()[0] > first.rows["id"].to_pylist()[-1]


def test_a_token_of_something_else_is_refused(folder: str, tmp_path: Path) -> None:
    table = Table.open(folder)
    token = table.search_page("timeout", limit=3, order_by="ts").next
    with pytest.raises(InvalidInputError, match="of another search"):
        table.search_page("disk", limit=3, order_by="ts", search_after=token)
    with pytest.raises(InvalidInputError, match="of another search"):
        table.search_page("timeout", limit=3, order_by="-ts", search_after=token)
    with pytest.raises(InvalidInputError, match="of another search"):
        table.search_page("timeout", limit=3, where="id > 3", order_by="ts", search_after=token)
    with pytest.raises(InvalidInputError, match="no token"):
        table.search_page("timeout", limit=3, order_by="ts", search_after="e30=")
    with pytest.raises(InvalidInputError, match="no token"):
        table.search_page("timeout", limit=3, order_by="ts", search_after="ü")
    other = Table.create(str(tmp_path / "other"), schema=SCHEMA, options=OPTIONS)
    with pytest.raises(InvalidInputError, match="of another table"):
        other.search_page("timeout", limit=3, order_by="ts", search_after=token)
    with pytest.raises(InvalidInputError, match="takes a limit, and no offset"):
        table.search("timeout", limit=3, offset=1, order_by="ts", search_after=token)


def test_an_order_that_makes_no_sense_is_refused(folder: str) -> None:
    table = Table.open(folder)
    for order, message in [
        ("nothing", "cannot be ordered by 'nothing'"),
        (["ts", "ts desc"], "ordered by 'ts' more than once"),
        ("message.word", "cannot be ordered by 'message.word'"),
        ("", "cannot be ordered by ''"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            table.search("timeout", limit=3, order_by=order)
    with pytest.raises(InvalidInputError, match="ordered by 'user', which is struct"):
        table.search_page("timeout", limit=3, order_by="user")


def test_pages_follow_renamed_columns(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, options=OPTIONS)
    table.append(pa.Table.from_pylist(rows(60, 7), SCHEMA))
    expected = [
        row["id"]
        for row in pa.concat_tables(pages(table, "*", 9, order_by=["user.age", "ts"])).to_pylist()
    ]
    table.alter.rename_column("user", "person")
    table.alter.rename_column("ts", "moment")
    found = pa.concat_tables(pages(table, "*", 9, order_by=["person.age", "moment"]))
    assert found["id"].to_pylist() == expected


def test_a_token_that_somebody_made_is_refused(folder: str) -> None:
    table = Table.open(folder)
    token = table.search_page("timeout", limit=3, order_by="ts").next
    assert token is not None
    content = json.loads(base64.urlsafe_b64decode(token))
    changes: list[dict[str, Any]] = [
        {"row": 2**70},
        {"row": -5},
        {"version": -1},
        {"version": 10**9},
        {"now_ms": 2**80},
        {"keys": {"0.0": "no time"}},
        {"keys": {}},
        {"keys": {"7.0": "x"}},
        {"search": "x"},
        {"more": 1},
        {"table": 5},
    ]
    for change in changes:
        crafted = base64.urlsafe_b64encode(json.dumps(content | change).encode()).decode()
        with pytest.raises(IndexTablesError):
            table.search_page("timeout", limit=3, order_by="ts", search_after=crafted)
    elsewhere = base64.urlsafe_b64encode(
        json.dumps(content | {"split": "../x", "row": 99}).encode()
    ).decode()
    rows = table.search_page("timeout", limit=3, order_by="ts", search_after=elsewhere).rows
    assert set(rows["id"].to_pylist()) <= set(table.search("timeout")["id"].to_pylist())


def test_a_page_of_a_version_that_was_purged_is_an_error_that_says_so(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, options=OPTIONS)
    table.append(pa.Table.from_pylist(rows(30, 5), SCHEMA))
    token = table.search_page("*", limit=5, order_by="id").next
    table.overwrite(pa.Table.from_pylist(rows(30, 6), SCHEMA))
    for split in (tmp_path / "t" / "splits").glob("**/*.split"):
        if split.name not in {Path(p).name for p in table.files().column("path").to_pylist()}:
            split.unlink()
    with pytest.raises(IndexTablesError):
        Table.open(str(tmp_path / "t")).search_page("*", limit=5, order_by="id", search_after=token)


def test_a_token_is_of_a_version_and_not_of_its_number(tmp_path: Path) -> None:
    """A repair from a replica goes on behind an older version: its versions have the numbers of
    those that were lost.
    """
    options = {
        "checkpoint.replica.location": str(tmp_path / "replica"),
        "checkpoint.enabled": False,
    }
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, options={**OPTIONS, **options})
    table.append(pa.Table.from_pylist(rows(60, 1), SCHEMA))
    table.checkpoint()
    table.append(pa.Table.from_pylist(rows(60, 2, 1000), SCHEMA))
    lost = table.search_page("timeout", limit=5, order_by="-id")
    shutil.rmtree(tmp_path / "t" / "_transaction_log")
    table.invalidate_cache()
    Table.repair(table.path, from_replica=str(tmp_path / "replica"))
    again = Table.open(table.path)
    while again.version < lost.version:
        again.append(pa.Table.from_pylist(rows(60, 3, 2000), SCHEMA))
    assert again.version == lost.version
    again.append(pa.Table.from_pylist(rows(1, 4, 3000), SCHEMA))
    for handle in (Table.open(again.path, version=lost.version), again):
        with pytest.raises(
            VersionNotFoundError, match=r"Version 2 .* another has its number"
        ) as caught:
            handle.search_page("timeout", limit=5, order_by="-id", search_after=lost.next)
        assert "without search_after" in (caught.value.hint or "")
    page = again.search_page("timeout", limit=5, order_by="id")
    rest = again.search(
        "timeout", limit=1000, order_by="id", columns=["id"], search_after=page.next
    )
    expected = again.search("timeout", limit=1000, order_by="id")
    assert rest.column("id").to_pylist() == expected.column("id").to_pylist()[5:]
