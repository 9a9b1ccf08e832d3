"""Random queries and conditions against whole tables in three layouts: one split, many, merged
after deletions.

What each says is known from `search_oracle`; no difference is allowed. Every second query comes
with a condition over texts or parts of them, some of whose columns have these in the index.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table
from indextables.log.context import LogContext
from tests.model import search_oracle as oracle

ROWS = 240
SCHEMA = pa.schema([("id", pa.int64()), *oracle.SCHEMA])
OPTIONS = {
    **{f"indexing.typemap.{name}": kind for name, kind in oracle.TYPEMAP.items()},
    **{f"indexing.tokenizer.{name}": tokenizer for name, tokenizer in oracle.TOKENIZER.items()},
    **{f"indexing.indexrecordoption.{name}": record for name, record in oracle.RECORD.items()},
    "indexing.nonindexed": "plain",
    "indexing.maxTokenLength": str(oracle.MAX_TOKEN_LENGTH),
    "indexing.defaultSearchFields": "message,bare",
    "indexing.substring.message": "true",
    "indexing.substring.level": "true",
}
Row = dict[str, Any]


def one_split(path: Path, rows: list[Row]) -> Table:
    table = Table.create(str(path), schema=SCHEMA, options=OPTIONS)
    table.append(pa.Table.from_pylist(rows, SCHEMA))
    return table


def many_splits(path: Path, rows: list[Row]) -> Table:
    table = Table.create(str(path), schema=SCHEMA, options=OPTIONS)
    for start in range(0, len(rows), 50):
        table.append(pa.Table.from_pylist(rows[start : start + 50], SCHEMA))
    return table


def merged_with_deletions(path: Path, rows: list[Row]) -> Table:
    """Every row has a copy with a negative id, which is deleted; the first half of the splits is
    merged.
    """
    table = Table.create(str(path), schema=SCHEMA, options=OPTIONS)
    for start in range(0, len(rows), 60):
        some = rows[start : start + 60]
        both = [
            row
            for pair in zip(some, ({**r, "id": -1 - r["id"]} for r in some), strict=True)
            for row in pair
        ]
        table.append(pa.Table.from_pylist(both, SCHEMA))
        if start == 60:
            table.delete(where="id < 0")
            table.merge()
    table.delete(where="id < 0")
    return table


LAYOUTS: dict[str, Callable[[Path, list[Row]], Table]] = {
    "one": one_split,
    "many": many_splits,
    "merged": merged_with_deletions,
}


def random_condition(rng: random.Random) -> tuple[str, Callable[[Row], bool]]:
    """A condition over texts or parts of them, and what it means."""
    column = rng.choice(["message", "level", "spaced", "plain", "hashed"])
    text = rng.choice(
        ["time", "foo", "err", "ERR", "o-b", "a, b", " wo", "long-level", "ab", "éa", "日"]
    )

    def holds(test: Callable[[str], bool]) -> Callable[[Row], bool]:
        return lambda row: row[column] is not None and test(row[column])

    forms: list[tuple[str, Callable[[str], bool]]] = [
        (f"{column} LIKE '%{text}%'", lambda value: text in value),
        (f"contains({column}, '{text}')", lambda value: text in value),
        (f"startswith({column}, '{text}')", lambda value: value.startswith(text)),
        (f"endswith({column}, '{text}')", lambda value: value.endswith(text)),
        (
            f"{column} RLIKE '{text}(.|$)'",
            lambda value: re.search(f"{text}(.|$)", value) is not None,
        ),
        (
            f"{column} RLIKE '(?i){text}'",
            lambda value: re.search(text, value, re.IGNORECASE | re.ASCII) is not None,
        ),
        (
            f"{column} LIKE '{text[:1]}%_{text[1:]}%'",
            lambda value: bool(re.match(f"{text[:1]}.*.{text[1:]}", value)),
        ),
    ]
    low, high = sorted(
        rng.sample(["", "a", "ab", "time", "error", *oracle.LEVELS], 2), key=str.encode
    )
    few = [rng.choice([low, high, "ab", "foo", rng.choice(oracle.WORDS)]) for _ in range(3)]
    forms += [
        (f"{column} = '{low}'", lambda value: value == low),
        (f"{column} = '{high}'", lambda value: value == high),
        (f"{column} IN ({', '.join(repr(v) for v in few)})", lambda value: value in few),
        (
            f"{column} BETWEEN '{low}' AND '{high}'",
            lambda value: low.encode() <= value.encode() <= high.encode(),
        ),
    ]
    (one, first), (other, second) = rng.choice(forms), rng.choice(forms)
    if rng.random() < 0.3:
        return f"{one} OR {other}", lambda row: holds(first)(row) or holds(second)(row)
    return one, holds(first)


def compare(table: Table, rows: list[Row], rng: random.Random, count: int) -> None:
    for number in range(count):
        text, meaning = oracle.make_query(rng)
        where, condition = random_condition(rng) if number % 2 else (None, lambda _: True)
        expected = [row["id"] for row in rows if meaning(row) and condition(row)]
        shown = f"{text}\n  where {where}"
        found = table.search(text, where=where, columns=["id"]).column("id").to_pylist()
        assert sorted(found) == expected, shown
        if number % 5 == 0:
            assert table.count(query=text, where=where) == len(expected), shown
            best = (
                table.search(text, where=where, columns=["id"], limit=10).column("id").to_pylist()
            )
            assert len(best) == min(10, len(expected)), shown
            assert set(best) <= set(expected), shown
        if number % 8 == 0:
            check_pages(table, text, where, [rows_by_id(rows)[i] for i in expected], rng)


def rows_by_id(rows: list[Row]) -> dict[int, Row]:
    return {row["id"]: row for row in rows}


def check_pages(
    table: Table, query: str, where: str | None, expected: list[Row], rng: random.Random
) -> None:
    """The pages of a search in a random order hold each of its rows once, in that order."""
    keys = rng.sample(["n", "level", "ts", "st.n", "d", "ok"], rng.randint(0, 2))
    order = [f"{'-' if rng.random() < 0.5 else ''}{key}" for key in keys]
    limit = rng.choice([7, 40])
    page = table.search_page(
        query, where=where, columns=["id"], limit=limit, order_by=order or None
    )
    found = page.rows.column("id").to_pylist()
    while page.next is not None:
        token = page.next
        page = table.search_page(
            query,
            where=where,
            columns=["id"],
            limit=limit,
            order_by=order or None,
            search_after=token,
        )
        found += page.rows.column("id").to_pylist()
    shown = f"{query}\n  where {where} order by {order}"
    assert sorted(found) == [row["id"] for row in expected], shown

    def value(row: Row, key: str) -> Any:
        return (row["st"] or {}).get("n") if key == "st.n" else row[key]

    ordered = list(expected)
    for key, text in reversed(list(zip(keys, order, strict=True))):
        present = [row for row in ordered if value(row, key) is not None]
        present.sort(key=lambda row, key=key: value(row, key), reverse=text.startswith("-"))  # type: ignore[misc]
        ordered = present + [row for row in ordered if value(row, key) is None]
    by_id = rows_by_id(expected)
    assert [[value(by_id[i], k) for k in keys] for i in found] == [
        [value(r, k) for k in keys] for r in ordered
    ], shown


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = int(oracle.NOW.timestamp() * 1000)
    monkeypatch.setattr(LogContext, "now_ms", lambda self: now_ms)


@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_a_table_finds_exactly_its_rows(layout: str, tmp_path: Path) -> None:
    check(layout, tmp_path, seed=1, count=40)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_three_thousand_queries_find_exactly_their_rows(
    layout: str, seed: int, tmp_path: Path
) -> None:
    check(layout, tmp_path, seed=100 + seed, count=250)


def check(layout: str, folder: Path, *, seed: int, count: int) -> None:
    rng = random.Random(f"{layout} {seed}")
    rows = [{"id": number, **row} for number, row in enumerate(oracle.make_rows(rng, ROWS))]
    compare(LAYOUTS[layout](folder / "t", rows), rows, rng, count)
