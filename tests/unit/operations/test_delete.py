"""Deleted rows are gone from scans and searches alike, and nothing else is."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from indextables import Table
from indextables.errors import (
    ConflictError,
    InvalidInputError,
    QuerySyntaxError,
    RefusedError,
    UnavailableError,
)
from indextables.operations.row_removal import DeleteOutcome, DeleteTask
from tests.support.faulty_store import Fault, FaultyStore
from tests.support.rows import ids, rows, table_of
from tests.support.stores import contents, splits_on_disk


@pytest.mark.parametrize(("mode", "rewritten"), [("auto", 0), ("rewrite", 2)])
def test_by_a_condition(tmp_path: Path, mode: str, rewritten: int) -> None:
    table = table_of(tmp_path / "t", appends=4, options={"delete.mode": mode})
    report = table.delete(where="id >= 5 AND id < 23")
    assert (report.status, report.deleted_rows, report.version) == ("success", 18, 5)
    assert (report.splits_rewritten, report.splits_removed) == (rewritten, 1)
    left = [*range(5), *range(23, 40)]
    for seen in (table, Table.open(table.path)):
        assert ids(seen) == left
        assert seen.count() == len(left)
        assert seen.count(query="message:disk") == sum(
            1 for i in left if i % 8 == 0 or i // 8 % 8 == 0
        )
        assert [seen.count(query=f"message:n{i}") for i in (4, 5, 22, 23)] == [1, 0, 0, 1]
    assert ids(Table.open(table.path, version=4)) == list(range(40))
    last = table.history(limit=1).to_pylist()[0]
    assert (last["operation"], '"numDeletedRecords":18' in last["operation_metrics"]) == (
        "DELETE",
        True,
    )
    assert table.verify(full=True).findings == ()


def test_by_a_search_and_by_both(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3, partitioned=True)
    report = table.delete(query="message:timeout")
    expected = [i for i in range(30) if i % 8 != 2 and i // 8 % 8 != 2]
    assert (ids(table), report.deleted_rows) == (expected, 30 - len(expected))
    table.delete(query="message:disk", where="day = 1")
    expected = [i for i in expected if not (i % 3 == 1 and (i % 8 == 0 or i // 8 % 8 == 0))]
    assert ids(table) == ids(Table.open(table.path)) == expected
    assert table.verify(full=True).findings == ()


def test_what_matches_whole_is_removed_unread(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3, partitioned=True)
    before = splits_on_disk(table.path)
    report = table.delete(where="day = 1")
    assert (report.splits_rewritten, report.splits_removed, report.deleted_rows) == (0, 3, 10)
    assert splits_on_disk(table.path) == before, "nothing was written"
    assert ids(table) == [i for i in range(30) if i % 3 != 1]


def test_nulls_do_not_match(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    some = rows([50, 51])
    table.append(some.set_column(2, "level", [[None, "INFO"]]))
    table.delete(where="level <> 'INFO'")
    assert ids(table) == [0, 3, 6, 9, 50, 51]


def test_no_match_is_no_action(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2)
    before = contents(table.path)
    reports = [table.delete(where="id > 1000", dry_run=dry_run) for dry_run in (True, False)]
    reports += [table.delete(query="message:nowhere", dry_run=dry_run) for dry_run in (True, False)]
    for report in reports:
        assert (report.status, report.deleted_rows, report.version) == ("no_action", 0, None)
    assert contents(table.path) == before


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3)
    before = contents(table.path)
    report = table.delete(where="id < 15", dry_run=True)
    assert (report.status, report.splits_removed, report.splits_rewritten) == ("dry_run", 1, 1)
    assert (report.deleted_rows, report.version) == (15, None)
    assert (
        report.message
        == "15 rows would be deleted: 1 split would be removed, 1 would be looked into."
    )
    assert contents(table.path) == before


@pytest.mark.parametrize("asked", [{"where": "id = 13"}, {"query": "message:n13"}], ids=str)
def test_a_single_row_is_said_to_be_one(tmp_path: Path, asked: dict[str, Any]) -> None:
    table = table_of(tmp_path / "t", appends=2)
    assert table.delete(**asked, dry_run=True).message.startswith("1 row would be deleted:")
    assert table.delete(**asked).message == "1 row was deleted."


def test_requests_that_make_no_sense(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    with pytest.raises(InvalidInputError, match="which rows"):
        table.delete()
    with pytest.raises(QuerySyntaxError):
        table.delete(where="nothing = 1")
    with pytest.raises(RefusedError):
        Table.open(table.path, version=0).delete(where="id = 1")


def between(act: Callable[[], object]) -> Callable[[Sequence[DeleteTask]], Iterator[DeleteOutcome]]:
    def execute(work: Sequence[DeleteTask]) -> Iterator[DeleteOutcome]:
        outcomes = [task.run() for task in work]
        act()
        yield from outcomes

    return execute


def test_a_split_that_was_merged_meanwhile_is_a_conflict(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3)
    other = Table.open(table.path)
    with pytest.raises(ConflictError, match="no longer part"):
        table.delete(where="id = 3", execute=between(other.merge))
    fresh = Table.open(table.path)
    assert ids(fresh) == list(range(30))
    assert len(splits_on_disk(table.path)) == 4, "what was written for nothing is gone"
    fresh.delete(where="id = 3")
    assert 3 not in ids(fresh)


def test_rows_appended_meanwhile_stay(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2)
    other = Table.open(table.path)
    table.delete(where="id < 3", execute=between(lambda: other.append(rows([1]))))
    assert ids(Table.open(table.path)) == [1, *range(3, 20)]


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=4, options={"delete.mode": "rewrite"})
    before = contents(table.path)
    table.handle.log.context.store = FaultyStore(table.handle.log.store, [Fault("put_file", at=3)])
    with pytest.raises(UnavailableError):
        table.delete(query="message:n3 OR message:n13 OR message:n23 OR message:n33")
    assert contents(table.path) == before


def test_the_work_travels(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2)

    def elsewhere(work: Sequence[DeleteTask]) -> Iterator[DeleteOutcome]:
        for task in pickle.loads(pickle.dumps(work)):
            yield pickle.loads(pickle.dumps(task.run()))

    assert table.delete(where="id = 13", query="message:n13", execute=elsewhere).deleted_rows == 1
    assert 13 not in ids(table)


def test_overwriting_a_part_of_a_split(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3)
    table.overwrite(rows([5, 7]), where="id >= 5 AND id < 15")
    assert ids(Table.open(table.path)) == [*range(5), 5, 7, *range(15, 30)]
    last = table.history(limit=1).to_pylist()[0]
    assert last["operation"] == "REPLACE WHERE"
    assert '"numRemovedFiles":2,' in last["operation_metrics"]
    assert '"numAddedFiles":3,' in last["operation_metrics"]
    assert table.verify(full=True).findings == ()


def test_overwriting_beside_another_writer(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2)
    late = Table.open(table.path)
    table.append(rows([4, 400]))
    before = splits_on_disk(table.path)
    with pytest.raises(ConflictError, match="were added since"):
        late.overwrite(rows([5]), where="id < 10 AND level <> 'x'")
    assert splits_on_disk(table.path) == before
    assert ids(Table.open(table.path)) == [*range(5), 4, *range(5, 20), 400]
    late.refresh().overwrite(rows([5]), where="id < 10")
    assert ids(Table.open(table.path)) == [5, *range(10, 20), 400]
