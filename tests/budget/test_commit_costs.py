"""What commits cost, counted, not timed: Python calls and opened files, against `commit_costs.json`
with a tenth to spare.

A change that makes one dearer says so here; one that makes it cheaper writes the figures anew:
`python -m tests.budget.test_commit_costs`.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from indextables import AddAction, Table
from indextables.log.checkpoint.checkpointer import CHECKPOINTS
from indextables.log.log_files import version_path
from indextables.wire import version_file
from tests.support.call_costs import COUNTS, SPARE, Costs

BASELINE = Path(__file__).with_name("commit_costs.json")
SCHEMA = pa.schema([("day", pa.string()), ("a", pa.int64()), ("b", pa.int64())])
MANY = 2_000


def new_table(folder: Path) -> Table:
    return Table.create(str(folder), schema=SCHEMA, partition_columns=["day"])


def split(n: int) -> AddAction:
    bounds = {"a": str(n), "b": str(n * 2)}
    return AddAction(
        path=f"day=1/splits/{n:032x}.split",
        partition_values={"day": "1"},
        size=1_000,
        modification_time=1,
        num_records=10,
        min_values=bounds,
        max_values=bounds,
    )


def commit(table: Table, first: int, count: int = 1) -> None:
    with table.transaction(check_splits=False) as tx:
        for n in range(first, first + count):
            tx.add(split(n))


def counted(work: Callable[[], object]) -> Costs:
    with COUNTS.counting():
        work()
        CHECKPOINTS.wait()
    return {"calls": COUNTS.calls, "files": COUNTS.files}


def of_commits(folder: Path) -> dict[str, Costs]:
    """Commits of ten files: one, and ten with the checkpoint that one of them makes due."""
    table = new_table(folder)
    for n in range(20):  # what is loaded and compiled at first use is not what is meant
        commit(table, n * 10, 10)
    ten = [counted(lambda n=n: commit(table, n * 10, 10)) for n in range(20, 30)]  # type: ignore[misc]
    calls, files = sorted(costs["calls"] for costs in ten), sorted(costs["files"] for costs in ten)
    return {
        "a commit of 10 files": {"calls": calls[5], "files": files[5]},
        "10 commits and their checkpoint": {"calls": sum(calls), "files": sum(files)},
    }


def of_one_more(folder: Path) -> dict[str, Costs]:
    """One more file, where the files before it are in the log's newest versions and in no
    checkpoint yet.
    """
    table = new_table(folder)
    commit(table, 0, MANY)
    commit(table, MANY)
    path = version_path(1)
    body = (folder / path).read_bytes()
    return {
        f"one more file on {MANY}": counted(lambda: commit(table, MANY + 1)),
        f"reading a version of {MANY} files": counted(lambda: version_file.decode(body, path=path)),
    }


def measured(root: Path) -> dict[str, Costs]:
    return {**of_commits(root / "commits"), **of_one_more(root / "many")}


def test_no_commit_costs_more_than_it_did(tmp_path: Path) -> None:
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))
    dearer = [
        f"{what}: {count} {unit}, was {baseline[what][unit]}"
        for what, costs in measured(tmp_path).items()
        for unit, count in costs.items()
        if count > baseline[what][unit] * SPARE
    ]
    assert dearer == []


def test_a_commit_does_not_look_at_the_files_that_are_there_already() -> None:
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))
    assert (
        baseline[f"one more file on {MANY}"]["calls"]
        < baseline["a commit of 10 files"]["calls"]
        < MANY
    )


def main() -> None:
    """Write the figures anew."""
    CHECKPOINTS.workers = 0
    with tempfile.TemporaryDirectory() as root:
        BASELINE.write_text(json.dumps(measured(Path(root)), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
