"""The first rows in an order of many that match, however the rows of a split lie: the same as
sorting all of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table
from tests.support.splits import SCRATCH, small_pages

ROWS = 4_000
OPTIONS = {
    "indexing.typemap.message": "text",
    "indexWriter.tempDirectoryPath": SCRATCH.temp_directory,
}
SCHEMA = pa.schema(
    [("id", pa.int64()), ("at", pa.int64()), ("name", pa.string()), ("message", pa.string())]
)
ARRANGEMENTS: dict[str, Callable[[int, random.Random], int | None]] = {
    "ascending": lambda n, _: n,
    "descending": lambda n, _: -n,
    "nearly ascending": lambda n, chance: n + chance.randrange(600),
    "an old row among the newest": lambda n, _: n if n % 997 else 0,
    "a new row among the oldest": lambda n, _: n if n % 997 else ROWS + n,
    "ascending, with many equal": lambda n, _: n // 500,
    "all equal": lambda *_: 7,
    "any order": lambda _, chance: chance.randrange(1_000),
    "nulls at the end": lambda n, _: n if n < 3_000 else None,
    "nulls between": lambda n, _: n if n % 3 else None,
}


def rows_of(arrangement: str) -> list[dict[str, Any]]:
    chance = random.Random(arrangement)
    values = [ARRANGEMENTS[arrangement](n, chance) for n in range(ROWS)]
    words = [
        ["often"] * (n % 5 > 0) + ["seldom"] * (n % 7 == 0) + ["once"] * (n == 5)
        for n in range(ROWS)
    ]
    return [
        {
            "id": n,
            "at": at,
            "name": None if at is None else f"{at + 5_000:06}",
            "message": " ".join(words[n]) or "x",
        }
        for n, at in enumerate(values)
    ]


def first(rows: list[dict[str, Any]], column: str, descending: bool) -> list[int]:
    """Numbers of rows in their order: nulls last, equal ones as they lie."""
    known = sorted(
        (row for row in rows if row[column] is not None),
        key=lambda row: row[column],
        reverse=descending,
    )  # Python's sort is stable, reversed too
    return [row["id"] for row in (*known, *(row for row in rows if row[column] is None))]


@pytest.mark.parametrize("page_rows", [64, 1_000])
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_the_first_rows_are_those_of_all_in_order(
    tmp_path: Path, arrangement: str, page_rows: int
) -> None:
    with small_pages(page_rows, group_rows=1_000):
        compare(tmp_path, rows_of(arrangement))


def compare(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Ask a table of these rows, in one split, and the rows themselves."""
    table = Table.create(str(folder / "t"), schema=SCHEMA, options=OPTIONS)
    table.append(pa.Table.from_pylist(rows, SCHEMA))
    for deleted in (0, 5):
        if deleted:
            table.delete(where="id >= 3990 OR id IN (0, 997, 2991)")
            rows = [row for row in rows if row["id"] < 3_990 and row["id"] not in (0, 997, 2_991)]
        for word in ("often", "seldom", "once"):
            matching = [row for row in rows if word in row["message"]]
            for column, descending, limit in [
                (c, d, n) for c in ("at", "name") for d in (True, False) for n in (1, 10)
            ]:
                order = f"{column} {'desc' if descending else 'asc'}"
                answers = [
                    table.search(
                        f"message:{word}",
                        limit=limit,
                        offset=offset,
                        order_by=order,
                        columns=["id"],
                    )
                    for offset in (0, 3, 0)
                ]
                expected = first(matching, column, descending)
                wanted = [expected[:limit], expected[3 : 3 + limit], expected[:limit]]
                assert [answer["id"].to_pylist() for answer in answers] == wanted, (
                    word,
                    order,
                    limit,
                    deleted,
                )
        both = table.search(
            "message:often AND NOT message:once",
            limit=20,
            order_by=["at desc", "id"],
            columns=["id"],
        )
        often = [row for row in rows if "often" in row["message"] and "once" not in row["message"]]
        assert both["id"].to_pylist() == first(often, "at", True)[:20]
