"""Upkeep on Spark's workers: the same outcome as in one process, one commit per batch, and nothing
left by failures.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

import indextables.spark as its
from indextables import Table
from indextables.errors import InvalidInputError, RefusedError
from indextables.operations.merge import MergeOutcome, MergeTask
from indextables.spark.upkeep import JobLabel, run_tasks
from indextables.storage.store import Store
from tests.spark.logs import Logs, make_logs


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return make_logs(tmp_path, commits=3, rows=60)


def ids(table: Table) -> list[int]:
    found: list[int] = table.scan(columns=["id"]).read_all()["id"].to_pylist()
    return sorted(found)


def splits_on_disk(path: str) -> set[str]:
    return {str(p.relative_to(path)) for p in Path(path).rglob("*.split")}


def test_a_merge_commits_batch_by_batch(spark: SparkSession, logs: Logs) -> None:
    before = Table.open(logs.path)
    told: list[tuple[int, int, str]] = []
    report = its.merge(
        spark,
        logs.path,
        options={"merge.batchSize": 2},
        progress=lambda *step: told.append((step[0], step[1], step[2])),
    )
    after = Table.open(logs.path)
    assert (report.merged_files, report.merge_groups) == (15, 5)
    assert told == [(n, 5, "groups") for n in range(1, 6)]
    assert after.version == before.version + 3 == report.version
    assert after.files().num_rows == 5
    assert ids(after) == list(range(180))
    assert after.count(query="message:disk") == before.count(query="message:disk")
    assert set(after.history(limit=3)["operation"].to_pylist()) == {"MERGE"}


def test_a_merge_takes_what_the_table_takes(spark: SparkSession, logs: Logs) -> None:
    assert its.merge(spark, logs.path, dry_run=True).merge_groups == 5
    assert Table.open(logs.path).version == 3
    assert (
        its.merge(spark, logs.path, where="day = '2024-03-09'", target_size="10M").merged_files == 3
    )
    with pytest.raises(InvalidInputError, match="'nothing'"):
        its.merge(spark, logs.path, where="nothing = 1")
    spark.conf.set("spark.indextables.merge.maxSourceSplitsPerMerge", "2")
    try:
        assert its.merge(spark, logs.path, max_dest_splits=1).merged_files == 2
    finally:
        spark.conf.unset("spark.indextables.merge.maxSourceSplitsPerMerge")


def test_a_split_that_cannot_be_read_is_left_out(spark: SparkSession, logs: Logs) -> None:
    table = Table.open(logs.path)
    bad = table.files(where="day = '2024-03-09'")["path"][0].as_py()
    whole = (Path(logs.path) / bad).read_bytes()
    (Path(logs.path) / bad).write_bytes(bytes(len(whole)))
    report = its.merge(spark, logs.path)
    assert [split["path"] for split in report.skipped] == [bad]
    assert report.merged_files == 14
    (Path(logs.path) / bad).write_bytes(whole)
    assert ids(table.refresh()) == list(range(180))


@dataclass(frozen=True)
class LastOneFails:
    """A merge whose worker runs out of memory when all others are done."""

    task: MergeTask

    def run(self, *, store: Store | None = None) -> MergeOutcome:
        if self.task.group.partition_values["day"] != "2024-03-11":
            return self.task.run(store=store)
        folder = Path(self.task.rewriter.spec.url.removeprefix("file://"))
        for _ in range(600):
            if len(list(folder.rglob("*.split"))) == 19:
                break
            time.sleep(0.1)
        time.sleep(1)
        raise MemoryError("no room")


def test_a_merge_that_fails_leaves_no_split_behind(spark: SparkSession, logs: Logs) -> None:
    before = splits_on_disk(logs.path)
    label = JobLabel(spark, "merge")

    def execute(tasks: Sequence[MergeTask]) -> Iterator[MergeOutcome]:
        yield from run_tasks(label, [LastOneFails(task) for task in tasks], "groups")

    with pytest.raises(Exception, match="no room"):
        Table.open(logs.path).merge(execute=execute)
    assert Table.open(logs.path).version == 3
    assert splits_on_disk(logs.path) == before


def test_rows_are_deleted_by_workers(spark: SparkSession, logs: Logs) -> None:
    report = its.delete(spark, logs.path, where="id < 50", query="message:disk")
    gone = set(ids(Table.open(logs.path, version=3))) - set(ids(Table.open(logs.path)))
    wanted = (
        Table.open(logs.path, version=3).search("message:disk", where="id < 50")["id"].to_pylist()
    )
    assert gone == set(wanted)
    assert report.deleted_rows == len(wanted) > 0


def test_many_files_are_purged(spark: SparkSession, logs: Logs) -> None:
    long_ago = time.time() - 400 * 3600
    for n in range(2300):
        stray = Path(logs.path) / "splits" / f"split-{n}.split"
        stray.parent.mkdir(exist_ok=True)
        stray.touch()
        os.utime(stray, (long_ago, long_ago))
    with pytest.raises(RefusedError):
        its.purge(spark, logs.path, older_than_hours=1)
    assert its.purge(spark, logs.path, dry_run=True).orphaned_files_found == 2300
    report = its.purge(spark, logs.path)
    assert (report.orphaned_files_deleted, report.status) == (2300, "success")
    assert splits_on_disk(logs.path) == set(Table.open(logs.path).files()["path"].to_pylist())


def test_every_byte_is_verified(spark: SparkSession, logs: Logs) -> None:
    whole = its.verify(spark, logs.path)
    assert (whole.healthy, whole.full, whole.splits_checked) == (True, True, 15)
    files = Table.open(logs.path).files()
    path = files["path"][pc.index(files["size"], pc.max(files["size"])).as_py()].as_py()
    data = bytearray((Path(logs.path) / path).read_bytes())
    data[len(data) // 3] ^= 1
    (Path(logs.path) / path).write_bytes(data)
    damaged = its.verify(spark, logs.path)
    assert [finding.path for finding in damaged.findings] == [path]
    assert damaged.findings == Table.open(logs.path).verify(full=True).findings


def test_a_table_that_cannot_be_opened_is_verified_too(spark: SparkSession, logs: Logs) -> None:
    (Path(logs.path) / "_transaction_log" / f"{1:020}.json").unlink()
    assert not its.verify(spark, logs.path, full=False).healthy


@dataclass(frozen=True)
class Told:
    """A task that tells what Spark knows of its job."""

    fails: bool = False

    def run(self, *, store: Store | None = None) -> tuple[str | None, str | None]:
        assert store is None
        context = TaskContext.get()
        assert context is not None
        if self.fails:
            raise ValueError("this one fails")
        return context.getLocalProperty("spark.job.description"), context.getLocalProperty(
            "spark.scheduler.pool"
        )


def test_jobs_are_named_and_have_their_own_pool(spark: SparkSession) -> None:
    label = JobLabel(spark, "merge /t")
    assert list(run_tasks(label, [Told()], "2 groups")) == [
        ("indextables: merge /t: 2 groups", "indextables")
    ]
    label.progress(2, 8, "groups")
    ((description, _),) = run_tasks(label, [Told()], "2 groups")
    assert description == "indextables: merge /t: 2 groups, 2 of 8 groups done"
    assert spark.sparkContext.getLocalProperty("spark.scheduler.pool") is None
    assert spark.sparkContext.getLocalProperty("spark.job.description") is None


def test_results_come_before_the_error(spark: SparkSession) -> None:
    results = run_tasks(
        JobLabel(spark, "merge /t"), [Told(), Told(), Told(), Told(), Told(fails=True)], "5 groups"
    )
    got = []
    with pytest.raises(Exception, match="this one fails"):
        for result in results:
            got.append(result)
    assert 1 <= len(got) <= 4
