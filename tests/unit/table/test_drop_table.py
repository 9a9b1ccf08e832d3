"""Dropping a table: nothing of it is left, nothing else goes, and no other process brings a part of
it back.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from indextables import Table
from indextables.errors import (
    ConflictError,
    IndexTablesError,
    NotFoundError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
)
from indextables.handle import TableHandle, log_settings
from indextables.log.cache import PROCESS_CACHE, LogCache
from indextables.log.checkpoint.checkpointer import CHECKPOINTS
from indextables.log.context import LogContext
from indextables.log.log_files import CLOCK, DROPPED, version_path
from indextables.log.transaction_log import TransactionLog
from indextables.operations import drop_table
from indextables.storage.local import LocalStore
from indextables.storage.spec import StoreSpec, open_store, open_table_store
from indextables.storage.store import ObjectInfo, PutOutcome
from tests.support.faulty_store import Fault, FaultyStore, StoreWrapper
from tests.support.places import StorePlace
from tests.support.rows import ROWS, TEXT, ids, rows, table_of
from tests.support.stores import contents


def test_nothing_is_left_and_the_folder_can_be_used_again(tmp_path: Path) -> None:
    root = tmp_path / "t"
    table = table_of(root, appends=3, partitioned=True)
    table.delete(where="id = 3")
    table.checkpoint()
    planned = Table.drop(str(root), dry_run=True)
    assert len(ids(Table.open(str(root)))) == 29
    report = Table.drop(str(root))
    assert {**report.to_dict(), "status": "dry_run"} == {
        **planned.to_dict(),
        "message": report.message,
    }
    assert not root.exists()
    with pytest.raises(TableNotFoundError):
        Table.open(str(root))
    assert ids(table_of(root, appends=1)) == list(range(10))


def test_the_same_on_an_object_store(s3_place: StorePlace) -> None:
    table = Table.create(s3_place.url, schema=ROWS, options={**TEXT, **s3_place.options})
    table.append(rows([1]))
    Table.drop(s3_place.url, options=s3_place.options)
    assert [*open_store(s3_place.spec).list()] == []
    with pytest.raises(TableNotFoundError):
        table.append(rows([2]))
    Table.create(s3_place.url, schema=ROWS, options={**TEXT, **s3_place.options}).append(rows([3]))


def test_what_is_no_table_is_not_dropped(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").write_text("dear")
    for path in ("letters", "nowhere"):
        with pytest.raises(TableNotFoundError, match="Nothing was deleted"):
            Table.drop(str(tmp_path / path))
    assert (tmp_path / "letters" / "a.txt").exists()
    assert not (tmp_path / "nowhere").exists()


def test_files_of_others_and_tables_below_it_stay(tmp_path: Path) -> None:
    root = tmp_path / "t"
    table_of(root, appends=2)
    inner = table_of(root / "inner", appends=1)
    (root / "notes.txt").write_text("mine")
    report = Table.drop(str(root))
    assert "kept" in report.message
    assert (root / "notes.txt").read_text() == "mine"
    assert ids(Table.open(inner.path)) == list(range(10))
    assert ids(table_of(root, appends=1)) == list(range(10))


def test_a_damaged_table_can_be_dropped_and_one_of_a_newer_writer_cannot(tmp_path: Path) -> None:
    table_of(tmp_path / "damaged", appends=2)
    (tmp_path / "damaged" / version_path(0)).write_bytes(b"{")
    PROCESS_CACHE.invalidate()
    Table.drop(str(tmp_path / "damaged"))
    assert not (tmp_path / "damaged").exists()
    table = table_of(tmp_path / "newer", appends=1)
    body = f'{{"protocol":{{"minReaderVersion":4,"minWriterVersion":{table.protocol.min_writer_version + 95}}}}}'
    (tmp_path / "newer" / version_path(2)).write_text(body)
    PROCESS_CACHE.invalidate()
    with pytest.raises(UnsupportedError):
        Table.drop(str(tmp_path / "newer"))
    assert len(ids(Table.open(str(tmp_path / "newer")))) == 10


def test_a_drop_that_died_is_finished_by_the_next_one_and_the_table_is_closed_until_then(
    tmp_path: Path,
) -> None:
    root = tmp_path / "t"
    table = table_of(root, appends=3)
    faulty = FaultyStore(LocalStore(root), [Fault(verb="delete", times=99)])
    log = TransactionLog(LogContext(faulty, log_settings(table.settings), cache=LogCache(1 << 26)))
    with pytest.raises(StorageError):
        drop_table.run(drop_table.plan(log), log)
    PROCESS_CACHE.invalidate()
    acts: list[Callable[[], object]] = [
        lambda: Table.open(str(root)),
        lambda: Table.create(str(root), schema=ROWS),
        lambda: table.append(rows([9])),
        lambda: table.refresh(),
        lambda: table.checkpoint(),
    ]
    for act in acts:
        with pytest.raises(TableNotFoundError, match="is being dropped") as caught:
            act()
        assert "Table.drop(path)" in (caught.value.hint or "")
    assert not (root / version_path(4)).exists()
    Table.drop(str(root))
    assert not root.exists()


class Sleeper(StoreWrapper):
    """A process that stops before its n-th write, while another one drops the table."""

    def __init__(self, root: Path, at: int) -> None:
        super().__init__(open_table_store(StoreSpec.from_url(str(root))))
        self._root, self.left = str(root), at

    def _sleep(self) -> None:
        self.left -= 1
        if self.left == 0:
            Table.drop(self._root)

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        self._sleep()
        return self.inner.put_if_absent(path, data)

    def put(self, path: str, data: bytes) -> None:
        self._sleep()
        self.inner.put(path, data)

    def put_file(self, path: str, source: Path) -> None:
        self._sleep()
        self.inner.put_file(path, source)


@pytest.mark.parametrize("at", range(1, 6))
@pytest.mark.parametrize("verb", ["append", "delete", "merge", "checkpoint", "purge"])
def test_a_process_that_slept_while_the_table_was_dropped_leaves_nothing_there(
    tmp_path: Path, verb: str, at: int
) -> None:
    root, options = tmp_path / "t", {"purge.retentionCheckEnabled": False}
    table = table_of(root, appends=3)
    sleeper = Sleeper(root, at)
    log = TransactionLog(LogContext(sleeper, log_settings(table.settings), cache=LogCache(1 << 26)))
    slow = Table(TableHandle(log, log.newest(), options))
    verbs: dict[str, Callable[[], object]] = {
        "append": lambda: slow.append(rows([9])),
        "delete": lambda: slow.delete(where="id = 1"),
        "merge": lambda: slow.merge(),
        "checkpoint": lambda: slow.checkpoint(),
        "purge": lambda: slow.purge(older_than_hours=0),
    }
    try:
        verbs[verb]()
    except IndexTablesError as failure:
        assert (
            isinstance(failure, NotFoundError | ConflictError) or failure.kind == "commit_unknown"
        )
    assert root.exists() == (sleeper.left > 0)


def test_a_drop_waits_for_the_checkpoint_of_its_own_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "t"
    table_of(root, appends=1)
    monkeypatch.setattr(CHECKPOINTS, "workers", 2)
    gate, seen = threading.Event(), list[bool]()

    def work() -> None:
        assert gate.wait(60)
        seen.append((root / version_path(1)).exists())

    assert CHECKPOINTS.submit(str(root), work, shutdown_timeout_s=60)
    dropping = threading.Thread(target=Table.drop, args=(str(root),))
    dropping.start()
    gate.set()
    dropping.join(60)
    assert seen == [True]
    assert not root.exists()


@pytest.mark.parametrize("appends", [2, 8])
@pytest.mark.parametrize("call", ["before the marker", "after the marker", "a deletion"])
def test_a_drop_that_slept_leaves_the_table_that_was_created_again(
    tmp_path: Path, call: str, appends: int
) -> None:
    root = tmp_path / "t"
    table = table_of(root, appends=4)

    class Sleeping(StoreWrapper):
        """A store whose process stops while it writes the marker, or while it deletes."""

        def put(self, path: str, data: bytes) -> None:
            if call == "before the marker":
                create_again()
            self.inner.put(path, data)
            if call == "after the marker":
                create_again()

        def delete(self, paths: Iterable[str | ObjectInfo]) -> None:
            first, *others = paths
            self.inner.delete([first])
            if call == "a deletion" and others:
                create_again()
            self.inner.delete(others)

    def create_again() -> None:
        shutil.rmtree(root)
        table_of(root, appends=appends)

    store = Sleeping(open_table_store(StoreSpec.from_url(str(root))))
    log = TransactionLog(LogContext(store, log_settings(table.settings), cache=LogCache(1 << 26)))
    with pytest.raises(ConflictError, match="may have been created in its place"):
        drop_table.run(drop_table.plan(log), log)
    PROCESS_CACHE.invalidate()
    again = Table.open(str(root))
    assert len(ids(again)) == appends * 10
    again.append(rows([1000]))
    assert again.verify(full=True).healthy


@pytest.mark.parametrize("verb", ["truncate", "purge"])
def test_a_cleaner_that_slept_while_a_drop_began_deletes_nothing(tmp_path: Path, verb: str) -> None:
    """What the marker of a drop announces is deleted by the drop alone."""
    root, options = tmp_path / "t", {"purge.retentionCheckEnabled": False}
    table = table_of(root, appends=9, options={"checkpoint.enabled": False})
    table.checkpoint()
    expected: set[str] = set()

    class Sleeping(StoreWrapper):
        """A store whose process stops right after it has asked for the store's time."""

        def put(self, path: str, data: bytes) -> None:
            self.inner.put(path, data)
            if path == CLOCK:
                expected.clear()
                expected.update(path for path in contents(root) if "_transaction_log" in path)
                self.inner.put(DROPPED, b"{}")

    store = Sleeping(open_table_store(StoreSpec.from_url(str(root))))
    log = TransactionLog(LogContext(store, log_settings(table.settings), cache=LogCache(1 << 26)))
    slow = Table(TableHandle(log, log.newest(), options))
    with pytest.raises(IndexTablesError, match="is being dropped"):
        if verb == "truncate":
            slow.truncate_time_travel()
        else:
            slow.purge(older_than_hours=0, log_retention_hours=0)
    assert expected and expected <= contents(root).keys()
    Table.drop(str(root))
    assert not root.exists()


def test_a_marker_alone_is_taken_away(tmp_path: Path) -> None:
    """As a drop leaves it that died right before its end."""
    root = tmp_path / "t"
    LocalStore(root).put(DROPPED, b"{}")
    with pytest.raises(TableNotFoundError, match="is being dropped"):
        Table.open(str(root))
    Table.drop(str(root))
    assert not root.exists()
    shutil.rmtree(root, ignore_errors=True)
