"""Every schedule of two writers that may both find no table: what remains is what one order of them
would have left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, combinations, combinations_with_replacement, permutations
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from indextables.errors import (
    CommitUnknownError,
    ConflictError,
    TableExistsError,
    TableNotFoundError,
)
from indextables.log.log_files import version_path
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import AddAction
from indextables.model.conflicts import Operation
from indextables.operations import first_write
from indextables.operations.row_write import RowWrite
from indextables.operations.write_request import WriteRequest
from indextables.storage.store import Store
from tests.interleave.stepped_logs import live_paths, open_log
from tests.support.interleave import Content, explore

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.int32())])
SETTINGS = {
    "checkpoint.parallelism": 1,
    "merge.parallelism": 1,
    "transaction.compression.enabled": False,
    "transaction.retry.maxAttempts": 4,
}
MODES: Mapping[str, Mapping[str, Any]] = {
    "append": {},
    "overwrite": {"operation": Operation.OVERWRITE},
    "dynamic": {"operation": Operation.REPLACE_WHERE, "dynamic_partitions": True},
    "condition": {"operation": Operation.REPLACE_WHERE, "where": "p = 1"},
    "error": {"exist_ok": False},
}
PARTS: Mapping[str, Sequence[int]] = {"dynamic": (0, 1), "condition": (1,)}
"""In which partitions a mode writes a split; all but these in 1 and 2."""
REFUSED = (ConflictError, TableExistsError)


def splits(name: str, mode: str) -> dict[str, int]:
    """What a writer adds: a split for each partition that it has rows for."""
    return {f"p={part}/{name}.split": part for part in PARTS.get(mode, (1, 2))}


def writer(name: str, mode: str, *, by: Sequence[str] = ("p",)) -> Callable[[Store], Any]:
    """Plans, writes its splits, and commits them."""

    def run(store: Store) -> Any:
        log = open_log(store, name)
        write = first_write.plan_rows(
            log, SCHEMA, WriteRequest(**MODES[mode]), options=SETTINGS, partition_columns=by
        )
        added = []
        for path, part in splits(name, mode).items():
            store.put(path, b"1")
            values: dict[str, str | None] = {column: str(part) for column in by}
            added.append(AddAction(path=path, size=1, num_records=1, partition_values=values))
        return first_write.finish_rows(log, write, added)[1]

    return run


def live(content: Content) -> set[str]:
    try:
        return set(live_paths(content))
    except TableNotFoundError:
        return set()


def after(order: Sequence[str], modes: Mapping[str, str]) -> set[str] | None:
    """What is left when writers come one after the other; None if one of them would be refused."""
    there: dict[str, int] | None = None
    for name in order:
        mode, new = modes[name], splits(name, modes[name])
        if mode == "error" and there is not None:
            return None
        gone = {"overwrite": {0, 1, 2}, "dynamic": set(new.values()), "condition": {1}}.get(
            mode, set()
        )
        there = {path: part for path, part in (there or {}).items() if part not in gone} | new
    return set(there or {})


def judge(modes: Mapping[str, str]) -> Callable[[Content, Mapping[str, Any]], str | None]:
    def check(content: Content, results: Mapping[str, Any]) -> str | None:
        for name, result in results.items():
            if isinstance(result, REFUSED) and any(
                path in content for path in splits(name, modes[name])
            ):
                return f"LEFT: the splits of {name}, which was refused"
            if isinstance(result, Exception) and not isinstance(
                result, (*REFUSED, CommitUnknownError)
            ):
                return f"{name} failed: {result!r}"
        there = live(content)
        if not there <= set(content):
            return f"GONE: {there - set(content)}"
        done = [name for name, result in results.items() if not isinstance(result, Exception)]
        unknown = [
            name for name, result in results.items() if isinstance(result, CommitUnknownError)
        ]
        taken = chain.from_iterable(combinations(unknown, n) for n in range(len(unknown) + 1))
        orders = [order for more in taken for order in permutations([*done, *more])]
        if there not in [after(order, modes) for order in orders]:
            return f"NO ORDER of {done} and {unknown} leaves {sorted(there)}"
        return None

    return check


def run(one: str, two: str, *, faults: int = 0) -> None:
    modes = {"a": one, "b": two}
    actors = {name: writer(name, mode) for name, mode in modes.items()}
    found = explore(actors, judge(modes), start={}, faults=faults, max_states=1_000_000)
    print(f"{found.states:,} states, {found.ends:,} ends")
    assert found.complete
    assert found.violations == []
    assert found.ends > 1


@pytest.mark.parametrize(("one", "two"), list(combinations_with_replacement(MODES, 2)))
def test_two_first_writers(one: str, two: str) -> None:
    run(one, two)


@pytest.mark.parametrize("mode", ["append", "overwrite", "error"])
def test_two_first_writers_and_a_fault(mode: str) -> None:
    run(mode, "overwrite", faults=1)


def test_writers_of_different_layouts_never_share_a_table() -> None:
    modes = {"a": "append", "b": "append"}
    actors = {"a": writer("a", "append"), "b": writer("b", "append", by=())}
    ends = []

    def check(content: Content, results: Mapping[str, Any]) -> str | None:
        ends.append(sorted(type(result).__name__ for result in results.values()))
        there = live(content)
        mixed = {name for name in modes for path in splits(name, modes[name]) if path in there}
        return f"MIXED: {there}" if len(mixed) > 1 else None

    found = explore(actors, check, start={})
    assert found.complete
    assert found.violations == []
    assert ["ConflictError", "int"] in ends


def test_without_planning_anew_r17_what_was_overwritten_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planned = first_write.plan_first_rows

    def appended(
        log: TransactionLog, data: pa.Schema, request: WriteRequest, **named: Any
    ) -> RowWrite:
        return planned(log, data, replace(request, operation=Operation.APPEND), **named)

    monkeypatch.setattr(first_write, "plan_first_rows", appended)
    modes = {"a": "overwrite", "b": "overwrite"}
    actors = {name: writer(name, mode) for name, mode in modes.items()}
    found = explore(actors, judge(modes), start={}, stop_at_first=True)
    assert [violation.why[:8] for violation in found.violations] == ["NO ORDER"]


def test_the_explorer_really_creates_tables() -> None:
    found: list[set[str]] = []

    def check(content: Content, results: Mapping[str, Any]) -> str | None:
        found.append({path for path in content if path.endswith(".json")})
        return None

    explore({"a": writer("a", "overwrite")}, check, start={})
    assert found == [{version_path(0), version_path(1)}]
