"""What a search costs per split does not grow with the number of splits: counted Python calls,
opened files, requests.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from indextables import Table
from tests.support.call_costs import COLUMNS, COUNTS, make

FEW, MANY = 40, 160
SEARCHES: dict[str, tuple[Callable[[Table, int], object], int]] = {
    "top 10 of a word": (
        lambda table, n: table.search(f"timeout OR w{n}", limit=10, columns=COLUMNS),
        280,
    ),
    "count of two words": (lambda table, n: table.count(query=f"timeout OR w{n}"), 150),
    "all rows with a word": (lambda table, n: table.search(f"w{n}", columns=COLUMNS), 140),
}
"""Each with the Python calls per split that it may take when the splits are open."""


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Table]:
    root = tmp_path_factory.mktemp("many")
    options = {"cache.directoryPath": str(root / "cache"), "read.parallelism": "1"}
    tables = {}
    for count in (FEW, MANY):
        make(root / f"{count}", count)
        tables[count] = Table.open(str(root / f"{count}"), options=options)
    return tables


@pytest.mark.parametrize("name", SEARCHES)
def test_calls_per_open_split_stay_the_same(tables: dict[int, Table], name: str) -> None:
    search, most = SEARCHES[name]
    per_split = {}
    for count, table in tables.items():
        for number in range(2):
            search(table, number)
        with COUNTS.counting():
            search(table, 2)
        per_split[count] = COUNTS.calls / count
        assert COUNTS.files == 0
    assert per_split[MANY] <= min(most, 1.05 * per_split[FEW]), per_split


def test_a_rare_word_costs_few_calls_however_many_splits_there_are(
    tables: dict[int, Table],
) -> None:
    calls = {}
    for count, table in tables.items():
        table.search("timeout", limit=10, columns=COLUMNS)
        table.search("message:neverwritten", limit=10, columns=COLUMNS)
        with COUNTS.counting():
            assert table.search("message:neverread", limit=10, columns=COLUMNS).num_rows == 0
        calls[count] = COUNTS.calls
        assert COUNTS.files == 0
    assert calls[MANY] - calls[FEW] <= 4 * (MANY - FEW), calls
