"""Small splits become large ones: the same rows, the same answers, fewer files; never a row twice."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import InvalidInputError, RefusedError, UnavailableError
from indextables.operations.merge import MergeOutcome, MergeTask
from indextables.storage.local import LocalStore
from tests.support.faulty_store import Effect, Fault, FaultyStore
from tests.support.rows import ROWS, WORDS, ids, rows, table_of

QUERIES = (
    *(f"message:{word}" for word in WORDS),
    'message:"disk full"',
    "message:n17",
    "level:WARN AND message:host",
)


def answers(table: Table) -> list[int]:
    return [table.count(query=query) for query in QUERIES] + [
        table.count(where="id < 40 OR level = 'WARN'")
    ]


def paths(table: Table) -> list[str]:
    found: list[str] = table.files().column("path").to_pylist()
    return found


def stored(table: Table) -> set[str]:
    return {info.path for info in LocalStore(table.path).list() if info.path.endswith(".split")}


def test_rows_and_answers_stay_the_same(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=12, each=25)
    before = answers(table)
    sources = paths(table)
    report = table.merge()
    assert (report.status, report.merged_files, report.merge_groups, report.version) == (
        "success",
        12,
        1,
        13,
    )
    assert (
        report.original_size_bytes
        > report.merged_size_bytes
        == table.files().column("size").to_pylist()[0]
    )
    for seen in (table, Table.open(table.path)):
        assert ids(seen) == list(range(300))
        assert answers(seen) == before
    assert stored(table) > set(sources), "sources stay until they are purged"
    assert ids(Table.open(table.path, version=12)) == list(range(300))


def test_the_entry_of_the_result_is_complete(tmp_path: Path) -> None:
    schema = pa.schema([*ROWS, ("at", pa.timestamp("us", "UTC"))])
    table = Table.create(str(tmp_path / "t"), schema=schema, partition_columns=["day"])
    for n in range(3):
        some = rows(range(n * 10, n * 10 + 10), day=7)
        at = pa.array(
            [1_700_000_000_000_000 + n * 1_000_000] * 9 + [None], pa.timestamp("us", "UTC")
        )
        table.append(some.append_column("at", at))
    table.merge()
    table.append(rows([99], day=7).append_column("at", pa.array([None], pa.timestamp("us", "UTC"))))
    table.merge()
    (file,) = table.files().to_pylist()
    assert (file["num_records"], file["num_merge_ops"], file["data_change"]) == (31, 2, False)
    assert dict(file["min_values"])["id"] == "0"
    assert dict(file["max_values"])["id"] == "99"
    assert '"at":4' in file["stats"]
    assert (file["time_range_start"], file["time_range_end"]) == (
        "2023-11-14T22:13:20Z",
        "2023-11-14T22:13:22Z",
    )
    assert file["partition_values"] == [("day", "7")]
    assert file["path"].startswith("day=7/splits/split-")
    assert file["size"] == (Path(table.path) / file["path"]).stat().st_size
    last = table.history(limit=1).to_pylist()[0]
    assert last["operation"] == "MERGE"
    assert '"numMergeGroups":1' in last["operation_metrics"]


def test_partitions_are_never_mixed_and_where_chooses_them(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=4, partitioned=True)
    assert table.merge(where="day >= 2").merge_groups == 1
    assert table.files().num_rows == 9
    assert table.merge().merge_groups == 2
    assert table.files().num_rows == 3
    assert ids(table, where="day = 1") == [i for i in range(40) if i % 3 == 1]
    with pytest.raises(InvalidInputError, match="id cannot be used here"):
        table.merge(where="id > 3")


def test_bounds(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=9)
    planned = table.merge(max_source_splits=4, max_dest_splits=1, dry_run=True)
    assert (planned.merged_files, planned.merge_groups) == (4, 1)
    oldest = sorted(table.files().to_pylist(), key=lambda f: (f["modification_time"], f["path"]))[
        :4
    ]
    assert [source["path"] for source in planned.sources] == [file["path"] for file in oldest]
    report = table.merge(max_source_splits=4, max_dest_splits=1)
    assert (report.merged_files, table.files().num_rows) == (4, 6)
    assert report.message.endswith("1 group(s) are left.")
    assert table.merge(max_source_splits=2).merge_groups == 3
    assert ids(table) == list(range(90))


def test_splits_near_the_target_are_left_alone(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=ROWS)
    for n in range(4):
        noise = [
            f"{i * 7919 % 10**9:09d}{i * 104729 % 10**9:09d}" * 3
            for i in range(n * 20_000, (n + 1) * 20_000)
        ]
        some = rows(range(n * 20_000, (n + 1) * 20_000))
        table.append(some.set_column(3, "message", pa.array(noise)))
    size = max(table.files().column("size").to_pylist())
    assert size > 500_000
    assert table.merge(target_size=2 * size, dry_run=True).status == "no_action"
    report = table.merge(target_size=round(2.5 * size))
    assert (report.merge_groups, report.merged_files) == (2, 4)
    assert table.merge(target_size=round(2.5 * size)).status == "no_action"
    assert table.count() == 80_000


def test_nothing_to_merge_is_no_action(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    report = table.merge()
    assert (report.status, report.version, table.version) == ("no_action", None, 1)


def test_a_dry_run_changes_nothing_and_lists_what_would_happen(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3, partitioned=True)
    before = {p: p.read_bytes() for p in (tmp_path / "t").rglob("*") if p.is_file()}
    report = table.merge(dry_run=True)
    assert {p: p.read_bytes() for p in (tmp_path / "t").rglob("*") if p.is_file()} == before
    assert (report.status, report.merge_groups, report.version) == ("dry_run", 3, None)
    assert {source["path"] for source in report.sources} == set(paths(table))
    assert report.to_dict()["sources"][0]["group"] == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"target_size": 1000}, "too small"),
        ({"target_size": "much"}, "not a size"),
        ({"max_source_splits": 1}, "at least 2"),
        ({"max_dest_splits": 0}, "makes no sense"),
    ],
)
def test_requests_that_make_no_sense(
    tmp_path: Path, wrong: dict[str, object], message: str
) -> None:
    table = table_of(tmp_path / "t", appends=2)
    with pytest.raises(InvalidInputError, match=message):
        table.merge(**wrong)  # type: ignore[arg-type]
    with pytest.raises(RefusedError):
        Table.open(table.path, version=1).merge()


def test_a_source_that_cannot_be_read_is_skipped_and_the_rest_goes_on(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=5)
    bad = paths(table)[2]
    place = Path(table.path) / bad
    data = place.read_bytes()
    place.write_bytes(data[:-600] + b"x" * 600)
    report = table.merge()
    assert (report.status, report.merged_files, report.skipped_files) == ("success", 4, 1)
    assert report.skipped[0]["path"] == bad
    assert set(paths(table)) == {bad, *(p for p in paths(table) if p != bad)}
    skip = table.skipped_files().to_pylist()[0]
    assert (skip["path"], skip["operation"], skip["skip_count"], skip["in_cooldown"]) == (
        bad,
        "merge",
        1,
        True,
    )
    place.write_bytes(data)
    assert ids(Table.open(table.path)) == list(range(50)), "it stays live"
    again = table.merge()
    assert (again.status, again.skipped_files) == ("no_action", 1), "it is left alone for a day"
    assert "DESCRIBE INDEXTABLES SKIPPED FILES" in again.message
    rewritten = table.merge(rewrite=True)
    assert (rewritten.status, rewritten.skipped_files) == ("no_action", 0), (
        "what is ours is not skipped"
    )
    later = table.handle.log.now_ms() + 25 * 3_600_000
    table.handle.log.context.now_ms = lambda: later
    assert table.merge().merged_files == 2
    assert table.skipped_files().num_rows == 0
    assert ids(table) == list(range(50))


def test_a_source_that_fails_again_after_its_cooldown_is_skipped_for_longer(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3)
    bad = paths(table)[0]
    (Path(table.path) / bad).write_bytes(b"no split")
    began = table.handle.log.now_ms()
    for count in (1, 2, 3):
        now = began + (count - 1) * 25 * 3_600_000
        table.handle.log.context.now_ms = lambda: now  # noqa: B023 (used before the next round)
        table.merge()
        (skip,) = table.skipped_files().to_pylist()
        assert (skip["path"], skip["skip_count"], skip["in_cooldown"]) == (bad, count, True)
        assert skip["reason"]
        assert (skip["retry_after"] - skip["skipped_at"]).total_seconds() == 24 * 3_600
        assert table.merge(dry_run=True).skipped_files == 1
        table.append(rows([100 * count]))
        later = now + 25 * 3_600_000
        table.handle.log.context.now_ms = lambda: later  # noqa: B023
        assert table.skipped_files().column("in_cooldown").to_pylist() == [False], (
            "it may be tried again"
        )


def test_a_missing_source_is_skipped(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2)
    (Path(table.path) / paths(table)[0]).unlink()
    report = table.merge()
    assert (report.merged_files, report.skipped_files, report.version) == (0, 1, 3)
    assert table.history(limit=1).column("operation").to_pylist() == ["SKIP"]


class Remote(FaultyStore):
    """A store that lets nobody read beside it."""

    def local_path(self, path: str) -> Path | None:
        return None if path.endswith(".split") else super().local_path(path)


def test_a_store_that_fails_once_is_asked_again(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3)
    bad = paths(table)[1]

    def unavailable() -> Exception:
        return UnavailableError("The store failed because a test asked it to.", path=bad)

    table.handle.log.context.store = Remote(
        table.handle.log.store, [Fault("get_ranges", path_contains=bad, error=unavailable)]
    )
    report = table.merge()
    assert (report.merged_files, report.skipped_files) == (3, 0)


def test_a_store_that_keeps_failing_for_one_split_makes_it_a_skip(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=4)
    bad = paths(table)[1]

    def unavailable() -> Exception:
        return UnavailableError("The store failed because a test asked it to.", path=bad)

    table.handle.log.context.store = Remote(
        table.handle.log.store,
        [Fault("get_ranges", path_contains=bad, times=99, error=unavailable)],
    )
    report = table.merge()
    assert (report.merged_files, [s["path"] for s in report.skipped]) == (3, [bad])


def test_a_store_that_is_down_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3)
    before = stored(table)
    table.handle.log.context.store = Remote(
        table.handle.log.store, [Fault("put_file", effect=Effect.FAIL_AFTER)]
    )
    with pytest.raises(UnavailableError):
        table.merge()
    fresh = Table.open(table.path)
    assert (fresh.version, fresh.skipped_files().num_rows, stored(fresh)) == (3, 0, before)


def between(act: object) -> object:
    """An executor that lets something else happen after the groups were merged and before they are
    committed.
    """

    def execute(work: Sequence[MergeTask]) -> Iterator[MergeOutcome]:
        outcomes = [task.run() for task in work]
        act()  # type: ignore[operator]
        yield from outcomes

    return execute


def test_a_group_whose_split_is_gone_drops_out_and_the_others_go_on(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3, partitioned=True)
    other = Table.open(table.path)
    report = table.merge(execute=between(lambda: other.drop_partitions("day = 1")))  # type: ignore[arg-type]
    assert (report.status, report.merge_groups, len(report.dropped)) == ("success", 2, 1)
    assert "no longer part of the table" in report.dropped[0]["reason"]
    fresh = Table.open(table.path)
    assert ids(fresh) == [i for i in range(30) if i % 3 != 1]
    assert len(stored(fresh)) == 9 + 2, "the dropped group's split is gone again"


def test_two_merges_of_the_same_splits_never_double_a_row(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=4)
    other = Table.open(table.path)
    report = table.merge(execute=between(other.merge))  # type: ignore[arg-type]
    assert (report.status, report.merged_files, len(report.dropped)) == ("no_action", 0, 1)
    assert ids(Table.open(table.path)) == list(range(40))


def test_rows_appended_meanwhile_stay(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3)
    other = Table.open(table.path)
    assert table.merge(execute=between(lambda: other.append(rows([77])))).status == "success"  # type: ignore[arg-type]
    assert ids(Table.open(table.path)) == [*range(30), 77]


def test_a_schema_that_changes_meanwhile_drops_every_group(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3)
    other = Table.open(table.path)
    more = rows([77]).append_column("extra", pa.array(["x"]))
    report = table.merge(execute=between(lambda: other.append(more, merge_schema=True)))  # type: ignore[arg-type]
    assert (report.status, len(report.dropped)) == ("no_action", 1)
    assert table.merge().merged_files == 4
    assert table.count(where="extra = 'x'") == 1
    assert ids(table) == [*range(30), 77]


def test_batches_are_commits(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3, partitioned=True)
    told: list[tuple[int, int, str]] = []
    small = Table.open(table.path, options={"merge.batchSize": 2, "merge.parallelism": 1})
    report = small.merge(progress=lambda done, total, what: told.append((done, total, what)))
    assert (report.version, report.merge_groups) == (5, 3)
    assert told == [(1, 3, "groups"), (2, 3, "groups"), (3, 3, "groups")]


def test_the_work_travels(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2)
    seen: list[MergeTask] = []

    def elsewhere(work: Sequence[MergeTask]) -> Iterator[MergeOutcome]:
        for task in pickle.loads(pickle.dumps(work)):
            seen.append(task)
            yield pickle.loads(pickle.dumps(task.run()))

    assert table.merge(execute=elsewhere).merged_files == 2
    assert len(seen) == 1
    assert ids(table) == list(range(20))


def test_a_column_stays_indexed_as_it_was(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=ROWS)
    for n in range(3):
        table.append(rows(range(n * 10, n * 10 + 10)))
    told_otherwise = Table.open(table.path, options={"indexing.typemap.level": "text"})
    told_otherwise.merge()
    fresh = Table.open(table.path)
    assert fresh.count(query="level:WARN") == sum(1 for i in range(30) if i % 3 == 1)
    fresh.append(rows([30]))
    assert fresh.merge().merged_files == 2
