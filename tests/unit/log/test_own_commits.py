"""A cached snapshot may hide the commits of other applications for a while; it never hides our own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from indextables import Table
from indextables.config.log import CacheSettings
from indextables.log.context import LogContext, LogSettings
from indextables.log.log_files import version_path
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import AddAction
from indextables.storage.local import LocalStore
from indextables.wire import version_file
from tests.support.faulty_store import CountingStore
from tests.support.rows import ids, rows, table_of
from tests.support.tables import SCHEMA, append, live

CACHED: dict[str, object] = {"transaction.cache.expirationSeconds": 300}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def commit_elsewhere(path: str, version: int) -> None:
    """A version that another application commits."""
    Path(path, version_path(version)).write_bytes(
        version_file.encode([AddAction(path="other.split", size=1)])
    )


def test_a_process_that_caches_snapshots_reads_its_own_appends(path: str) -> None:
    Table.create(path, schema=SCHEMA, options=CACHED)
    for name in ("a", "b"):
        append(Table.open(path, options=CACHED), name)
    assert Table.open(path, options=CACHED).version == 2
    assert live(Table.open(path, options=CACHED)) == {"a", "b"}


def log_with_other_keys(path: str) -> TransactionLog:
    """A log of the same URL that was opened with other credentials, and so has cache entries of its
    own.
    """
    settings = LogSettings(cache=CacheSettings(expiration_seconds=300))
    return TransactionLog(LogContext(LocalStore(path), settings, place="other keys"))


def append_rows(table: Table) -> None:
    table.append(rows(range(100, 110)))


def delete_rows(table: Table) -> None:
    table.delete(where="id < 5")


def overwrite_rows(table: Table) -> None:
    table.overwrite(rows(range(3)))


def merge_splits(table: Table) -> None:
    table.merge(target_size="1G")


def change_settings(table: Table) -> None:
    table.update_metadata(description="new")


def restore_first(table: Table) -> None:
    table.restore(version=1)


CHANGES = (append_rows, delete_rows, overwrite_rows, merge_splits, change_settings, restore_first)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_is_seen_by_every_handle_and_every_later_one(
    path: str, change: Callable[[Table], None]
) -> None:
    table_of(path, appends=2, options=CACHED)
    earlier = Table.open(path, options=CACHED)
    with_other_keys = log_with_other_keys(path)
    assert with_other_keys.newest().version == 2
    writer = Table.open(path, options=CACHED)
    change(writer)
    later = Table.open(path, options=CACHED)
    for reader in (earlier.refresh(), later, Table.open(path, max_staleness=300)):
        assert (reader.version, sorted(ids(reader))) == (writer.version, sorted(ids(writer)))
    assert writer.version == with_other_keys.newest().version > 2


def test_a_commit_through_another_spelling_of_the_path_is_seen(path: str, tmp_path: Path) -> None:
    Table.create(path, schema=SCHEMA)
    (tmp_path / "alias").symlink_to(path)
    alias = str(tmp_path / "alias")
    assert Table.open(alias, options=CACHED).version == 0
    append(Table.open(path), "a")
    assert Table.open(alias, options=CACHED).version == 1


def test_a_table_made_again_at_the_same_path_is_seen_at_once(path: str) -> None:
    first = Table.create(path, schema=SCHEMA)
    assert log_with_other_keys(path).newest().metadata.id == first.metadata.id
    shutil.rmtree(path)
    second = Table.create(path, schema=SCHEMA)
    assert log_with_other_keys(path).newest().metadata.id == second.metadata.id


def test_threads_that_append_together_leave_no_commit_behind(path: str) -> None:
    Table.create(path, schema=SCHEMA, options=CACHED)

    def work(number: int) -> None:
        for step in range(5):
            append(Table.open(path, options=CACHED), f"{number}-{step}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert live(Table.open(path, options=CACHED)) == {
        f"{number}-{step}" for number in range(4) for step in range(5)
    }


def test_commits_of_others_are_still_hidden_for_the_time_allowed(path: str) -> None:
    table = Table.create(path, schema=SCHEMA, options=CACHED)
    append(table, "a")
    commit_elsewhere(path, 2)
    assert Table.open(path, options=CACHED).version == 1
    assert Table.open(path).version == 2


def test_reading_after_an_own_commit_costs_no_request(path: str) -> None:
    table = Table.create(path, schema=SCHEMA, options=CACHED)
    append(table, "a")
    counting = CountingStore(table.handle.log.store)
    table.handle.log.context.store = counting
    assert table.handle.log.newest().version == 1
    assert not counting.costs.requests.total()


OTHER_PROCESS = """
import sys
from indextables import Table
from tests.support.tables import append
path, options = sys.argv[1], {"transaction.cache.expirationSeconds": 300}
print(Table.open(path, options=options).version, flush=True)
sys.stdin.readline()
print(Table.open(path, options=options).version, flush=True)
append(Table.open(path, options=options), "of the other process")
"""


def test_processes_of_one_spark_application_see_each_others_commits(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have read the table before the other one commits."""
    folder = tmp_path / "blockmgr-1"
    folder.mkdir()
    monkeypatch.setattr("indextables.config.registry._shared_folder", str(folder))
    append(Table.create(path, schema=SCHEMA, options=CACHED), "a")
    environment = {**os.environ, "SPARK_LOCAL_DIRS": str(folder), "PYTHONPATH": str(Path.cwd())}
    with subprocess.Popen(
        [sys.executable, "-c", OTHER_PROCESS, path],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == "1\n"
        append(Table.open(path, options=CACHED), "b")
        assert Table.open(path, options=CACHED).version == 2
        print(file=other.stdin, flush=True)
        assert other.stdout.readline() == "2\n"
        assert other.wait(60) == 0
    assert live(Table.open(path, options=CACHED)) == {"a", "b", "of the other process"}
