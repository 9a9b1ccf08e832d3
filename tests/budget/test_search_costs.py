"""What the searches that everybody makes cost, counted, not timed: Python calls, opened files,
requests and bytes.

Each is counted the first time and again, against `search_costs.json` with a tenth to spare. A
change that makes one of them dearer says so here; one that makes it cheaper writes the figures
anew: `python -m tests.budget.test_search_costs`.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from indextables import Table
from indextables.handle import TableHandle
from indextables.storage.local import LocalStore
from tests.support.call_costs import COLUMNS, COUNTS, SPARE, Costs, make
from tests.support.tables import RemoteStore, log_on

BASELINE = Path(__file__).with_name("search_costs.json")
SEARCHES: dict[str, Callable[[Table], object]] = {
    "top 10 of a word": lambda table: table.search("message:timeout", limit=10, columns=COLUMNS),
    "count of a word": lambda table: table.count(query="message:timeout"),
    "newest 10": lambda table: table.search(
        "message:timeout", limit=10, order_by="ts desc", columns=COLUMNS
    ),
    "all hits, two columns": lambda table: table.search("message:timeout", columns=COLUMNS),
}


def open_cold(folder: Path, cache: Path) -> tuple[Table, RemoteStore]:
    """The table as a process sees it that has kept nothing, one split after another, so that every
    run is the same.
    """
    store = RemoteStore(LocalStore(str(folder)))
    log = log_on(store)
    return Table(
        TableHandle(log, log.newest(), {"cache.directoryPath": str(cache), "read.parallelism": 1})
    ), store


def costs_of(search: Callable[[Table], object], folder: Path, cache: Path) -> dict[str, Costs]:
    """What a search costs on a local table, and what it asks of a remote one; the first time, and
    again.
    """
    local = Table.open(
        str(folder), options={"cache.directoryPath": str(cache / "local"), "read.parallelism": 1}
    )
    remote, store = open_cold(folder, cache / "remote")
    store.reset()
    costs = {}
    for turn in ("first", "again"):
        with COUNTS.counting():
            search(local)
        costs[turn] = {"calls": COUNTS.calls, "files": COUNTS.files}
        search(remote)
        asked = store.reset()
        costs[turn] |= {"requests": sum(asked.requests.values()), "bytes": asked.bytes_read}
    return costs


def measured(root: Path, splits: int) -> dict[str, dict[str, Costs]]:
    folder = root / f"{splits}"
    make(folder, splits)
    for number, search in enumerate(
        SEARCHES.values()
    ):  # what is loaded and compiled at first use is not what is meant
        costs_of(search, folder, root / f"warm-{splits}-{number}")
    return {
        f"{name}, {splits} splits": costs_of(search, folder, root / f"cache-{splits}-{number}")
        for number, (name, search) in enumerate(SEARCHES.items())
    }


@pytest.mark.parametrize("splits", [1, 20])
def test_no_search_costs_more_than_it_did(tmp_path: Path, splits: int) -> None:
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))
    dearer = [
        f"{search}, {turn}: {count} {what}, was {baseline[search][turn][what]}"
        for search, turns in measured(tmp_path, splits).items()
        for turn, costs in turns.items()
        for what, count in costs.items()
        if count > baseline[search][turn][what] * SPARE
    ]
    assert dearer == []


def test_a_search_that_is_repeated_opens_and_reads_nothing() -> None:
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))
    again = [turns["again"] for turns in baseline.values()]
    assert all((costs["files"], costs["requests"], costs["bytes"]) == (0, 0, 0) for costs in again)


def main() -> None:
    """Write the figures anew."""
    with tempfile.TemporaryDirectory() as root:
        figures = {**measured(Path(root), 1), **measured(Path(root), 20)}
    BASELINE.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
