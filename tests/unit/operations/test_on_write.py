"""After a write a table tidies up by itself, if it is told to; and a write never fails because of
that.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from indextables import Table
from indextables.errors import CommitUnknownError, UnavailableError
from indextables.log import log_files
from indextables.model.report import Progress
from indextables.operations.jobs import JOBS, Jobs
from tests.support.faulty_store import Fault, FaultyStore
from tests.support.rows import ROWS, ids, rows, table_of
from tests.support.stores import age, splits_on_disk

MERGING: dict[str, object] = {"mergeOnWrite.enabled": True, "mergeOnWrite.minSplits": 4}
AT_ONCE: dict[str, object] = {**MERGING, "mergeOnWrite.async.enabled": False}


@pytest.fixture(autouse=True)
def _no_jobs_left() -> Iterator[None]:
    JOBS.forget()
    yield
    assert JOBS.wait(60)
    JOBS.forget()


def operations(table: Table) -> list[str]:
    found: list[str] = table.history().column("operation").to_pylist()
    return found[::-1]


def test_enough_small_splits_are_merged(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3, options=AT_ONCE)
    assert table.files().num_rows == 3
    assert table.append(rows(range(30, 40))) == 4
    assert (table.files().num_rows, table.version) == (1, 5)
    assert ids(table) == list(range(40))
    (job,) = JOBS.rows()
    assert job == {
        "job_id": job["job_id"],
        "table_path": table.path,
        "status": "completed",
        "total_groups": 1,
        "completed_groups": 1,
        "progress_pct": 100.0,
        "duration_ms": job["duration_ms"],
        "error_message": None,
    }
    table.append(rows([40]))
    assert table.files().num_rows == 2, "too few again"


@pytest.mark.parametrize("verb", ["delete", "update"])
def test_a_split_with_many_deleted_rows_is_merged_though_it_is_alone(
    tmp_path: Path, verb: str
) -> None:
    table = table_of(tmp_path / "t", appends=1, each=100, options=AT_ONCE)

    def change(where: str) -> None:
        if verb == "delete":
            table.delete(where=where)
        else:
            table.update(set={"level": "'WARN'"}, where=where)

    change("id < 20")
    assert operations(table)[-1] == verb.upper(), "20 % are not above merge.deletedShareThreshold"
    change("id >= 90")
    assert operations(table)[-2:] == [verb.upper(), "MERGE"]
    assert table.files().column("deletion_vector").to_pylist() == [None]
    assert table.count() == (70 if verb == "delete" else 100)


def test_in_the_background(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=4, options=MERGING)
    assert JOBS.wait(60)
    assert ids(Table.open(table.path)) == list(range(40))
    assert operations(table) == ["CREATE", "WRITE", "WRITE", "WRITE", "WRITE", "MERGE"]
    assert [job["status"] for job in JOBS.rows()] == ["completed"]


def test_overwriting_counts_as_writing(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=6, partitioned=True)
    told = Table.open(table.path, options=AT_ONCE)
    told.overwrite(rows(range(300, 303), day=1), where="day = 1")
    assert told.files().num_rows == 3
    assert ids(told, where="day = 1") == [300, 301, 302]


def test_nothing_happens_unless_asked_for(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=25, each=1)
    assert (table.files().num_rows, JOBS.rows()) == (25, [])


def test_a_merge_that_fails_does_not_fail_the_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = table_of(tmp_path / "t", appends=3, options=AT_ONCE)

    def failing(*args: object, **kwargs: object) -> None:
        raise UnavailableError("The store is down.")

    monkeypatch.setattr("indextables.operations.merge.run", failing)
    assert table.append(rows(range(30, 40))) == 4
    assert ids(table) == list(range(40))
    (job,) = JOBS.rows()
    assert (job["status"], "The store is down." in job["error_message"]) == ("failed", True)
    assert table.handle.log.upkeep.failures == 1
    assert "The store is down." in str(table.handle.log.upkeep.last_failure)
    assert "merging after a write failed" in caplog.text


def test_purging_after_some_writes(tmp_path: Path) -> None:
    options: dict[str, object] = {
        "purgeOnWrite.enabled": True,
        "purgeOnWrite.triggerAfterWrites": 3,
    }
    table = table_of(tmp_path / "t", appends=1)
    (Path(table.path) / "splits/split-stray.split").write_bytes(b"stray")
    table.checkpoint()
    age(table.path, hours=24 * 31, paths=["splits/split-stray.split", log_files.version_path(0)])
    told = Table.open(table.path, options=options)
    told.append(rows([91]))
    assert "splits/split-stray.split" in splits_on_disk(table.path)
    told.append(rows([92]))
    assert "splits/split-stray.split" not in splits_on_disk(table.path)
    assert not (Path(table.path) / log_files.version_path(0)).exists(), "a state stands for it"
    assert operations(table) == ["WRITE", "WRITE", "WRITE", "PURGE"]
    assert told.append(rows([93])) == 5


def test_purging_after_a_merge(tmp_path: Path) -> None:
    options: dict[str, object] = {
        **AT_ONCE,
        "purgeOnWrite.enabled": True,
        "purgeOnWrite.splitRetentionHours": 0,
        "purge.retentionCheckEnabled": False,
    }
    table = table_of(tmp_path / "t", appends=4, options=options)
    assert splits_on_disk(table.path) == set(table.files().column("path").to_pylist())
    assert operations(table)[-2:] == ["MERGE", "PURGE"]
    assert ids(Table.open(table.path)) == list(range(40))


def test_a_purge_that_is_refused_does_not_fail_the_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, object] = {
        "purgeOnWrite.enabled": True,
        "purgeOnWrite.triggerAfterWrites": 1,
        "purgeOnWrite.splitRetentionHours": 1,
    }
    table = table_of(tmp_path / "t", appends=1, options=options)
    assert (table.version, table.handle.log.upkeep.failures) == (1, 1)
    assert "shorter than 24 hours" in str(table.handle.log.upkeep.last_failure)
    assert "purging it afterwards failed" in caplog.text


def test_one_job_per_table_at_a_time() -> None:
    jobs = Jobs()
    go_on, begun = threading.Event(), threading.Event()

    def work(progress: Progress) -> None:
        progress(1, 4, "groups")
        begun.set()
        assert go_on.wait(60)

    first = jobs.start("/t", work, groups=4, shutdown_timeout_s=60)
    assert first is not None
    assert begun.wait(60)
    assert jobs.start("/t", work, groups=1, shutdown_timeout_s=60) is None
    assert jobs.run("/t", work, groups=1) is None
    (row,) = jobs.rows()
    assert (row["status"], row["completed_groups"], row["progress_pct"]) == ("running", 1, 25.0)
    assert not jobs.wait(0.01)
    go_on.set()
    assert jobs.wait(60)
    other = jobs.run("/u", lambda progress: None, groups=0)
    assert other is not None
    assert (other.status, other.progress_pct) == ("completed", 100.0)
    assert [row["table_path"] for row in jobs.rows()] == ["/u", "/t"]


WRITER = """
import sys
from indextables import Table
from tests.support.rows import rows
table = Table.open(sys.argv[1], options={"mergeOnWrite.enabled": True, "mergeOnWrite.minSplits": 2})
table.append(rows(range(1000, 1010)))
"""


def test_a_process_that_ends_waits_for_its_merges(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=ROWS)
    for n in range(5):
        table.append(rows(range(n * 200, (n + 1) * 200)))
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", WRITER, table.path],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    fresh = Table.open(table.path)
    assert (operations(fresh)[-1], fresh.files().num_rows) == ("MERGE", 1)
    assert ids(fresh) == list(range(1010))


def test_a_purge_is_not_missed_because_a_merge_took_its_version(tmp_path: Path) -> None:
    options: dict[str, object] = {
        "purgeOnWrite.enabled": True,
        "purgeOnWrite.triggerAfterWrites": 4,
    }
    table = table_of(tmp_path / "t", appends=3)
    assert table.merge().version == 4
    told = Table.open(table.path, options=options)
    stray = Path(table.path) / "splits/split-stray.split"
    for version, purged in ((5, True), (7, False), (8, True), (10, False)):
        stray.write_bytes(b"stray")
        age(table.path, hours=400, paths=["splits/split-stray.split"])
        assert told.append(rows([90])) == version
        assert stray.exists() is not purged, version
        told = Table.open(table.path, options=options)


def test_a_purge_that_fails_after_a_merge_is_told_with_the_job(tmp_path: Path) -> None:
    options: dict[str, object] = {
        **AT_ONCE,
        "purgeOnWrite.enabled": True,
        "purgeOnWrite.splitRetentionHours": 1,
    }
    table = table_of(tmp_path / "t", appends=4, options=options)
    (job,) = JOBS.rows()
    assert (job["status"], job["completed_groups"]) == ("completed", 1)
    assert job["error_message"].startswith("Purging failed: A retention of 1 hours")
    assert (table.files().num_rows, table.handle.log.upkeep.failures) == (1, 1)


def test_whatever_call_fails_after_the_commit_the_write_is_acknowledged(tmp_path: Path) -> None:
    prepared = table_of(tmp_path / "prepared", appends=3, each=2)
    options: dict[str, object] = {
        **AT_ONCE,
        "purgeOnWrite.enabled": True,
        "purgeOnWrite.triggerAfterWrites": 1,
        "purgeOnWrite.splitRetentionHours": 0,
        "purgeOnWrite.txLogRetentionHours": 0,
        "purge.retentionCheckEnabled": False,
    }
    told: set[str] = set()
    for k in range(1, 1_000):
        root = tmp_path / f"{k}"
        shutil.copytree(prepared.path, root)
        table = Table.open(str(root), options=options)
        store = FaultyStore(table.handle.log.store, [Fault(at=k)])
        table.handle.log.context.store = store
        try:
            told.add("acknowledged" if table.append(rows([6, 7])) == 4 else "other")
            expected = [8]
        except CommitUnknownError:
            expected = [6, 8]
        except UnavailableError:
            told.add("failed")
            expected = [6]
        fresh = Table.open(str(root))
        assert ids(fresh) in [list(range(count)) for count in expected], k
        assert fresh.verify(full=True).findings == (), k
        JOBS.forget()
        if len(store.calls) < k:
            break
    assert told == {"acknowledged", "failed"}
    assert k > 10
