"""A commit that landed is never taken for failed: whatever the writer is told, the splits that the
table names stay.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from indextables import Table
from indextables.errors import CommitUnknownError, ConflictError, StorageError
from indextables.handle import TableHandle, log_settings
from indextables.log.cache import LogCache
from indextables.log.context import LogContext
from indextables.log.log_files import version_of, version_path
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import CommitInfo, ProtocolAction, SkipAction
from indextables.operations.table_write import abandon_write, finish_write, plan_write
from indextables.operations.write_request import WriteRequest
from indextables.storage.local import LocalStore
from indextables.storage.store import ObjectInfo, PutOutcome, Store
from indextables.wire import version_file
from tests.support.faulty_store import Effect, Fault, FaultyStore, StoreWrapper
from tests.support.rows import ids, rows, table_of


class StoppedWriter(StoreWrapper):
    """A writer that is stopped right after its version got its name, as by SIGSTOP, while others go
    on.
    """

    def __init__(self, inner: Store, meanwhile: Callable[[], object]) -> None:
        super().__init__(inner)
        self._meanwhile: Callable[[], object] | None = meanwhile

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        outcome = self.inner.put_if_absent(path, data)
        if self._meanwhile is not None and version_of(path) is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            meanwhile()
        return outcome


class DamagedOnce(FaultyStore):
    """The first look at a version file that was put by this writer shows other bytes than are
    there.
    """

    def __init__(self, inner: Store, fault: Fault, damage: Callable[[bytes], bytes]) -> None:
        super().__init__(inner, [fault])
        self._damage: Callable[[bytes], bytes] | None = damage
        self._put = ""

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        self._put = path
        return super().put_if_absent(path, data)

    def get(self, path: str) -> bytes:
        data = super().get(path)
        if path == self._put and self._damage is not None:
            damage, self._damage = self._damage, None
            return damage(data)
        return data


def seen_through(store: Store, root: Path) -> Table:
    """The table as a process sees it that remembers nothing and reaches its files through a store."""
    settings = log_settings(Table.open(str(root)).settings)
    log = TransactionLog(
        LogContext(store, settings, cache=LogCache(1 << 26), sleep=lambda seconds: None)
    )
    return Table(TableHandle(log, log.newest(), None))


def small_commits(root: Path, count: int) -> None:
    """Versions of other writers that change no row, and a state after them."""
    newest = Table.open(str(root)).version
    for version in range(newest + 1, newest + 1 + count):
        info = CommitInfo(
            txn_id=str(uuid.uuid4()), timestamp=1_900_000_000_000 + version, operation="SKIP"
        )
        skip = SkipAction(
            path="splits/odd.split",
            skip_timestamp=1,
            reason="odd",
            operation="merge",
            retry_after=2,
        )
        (root / version_path(version)).write_bytes(version_file.encode([info, skip]))
    Table.open(str(root)).truncate_time_travel()


def whole(root: Path) -> list[int]:
    """The ids of the table's rows, after every split that it names was looked at."""
    table = Table.open(str(root))
    assert table.verify(full=True).status == "healthy"
    return ids(table)


VERBS: dict[str, tuple[Callable[[Table], object], list[int]]] = {
    "append": (lambda t: t.append(rows(range(30, 40))), list(range(40))),
    "overwrite": (lambda t: t.overwrite(rows(range(30, 40))), list(range(30, 40))),
    "replace": (lambda t: t.overwrite(rows([3]), where="id = 3"), list(range(30))),
    "delete": (lambda t: t.delete(where="id = 3"), [i for i in range(30) if i != 3]),
    "merge": (lambda t: t.merge(), list(range(30))),
    "exactly once": (lambda t: t.append(rows(range(30, 40)), txn=("job", 1)), list(range(40))),
}


def put_through(verb: str, store: Store, root: Path) -> Exception | None:
    """Carry out a verb; only an outcome that is unknown may be an error."""
    act, _ = VERBS[verb]
    try:
        act(seen_through(store, root))
    except CommitUnknownError as error:
        return error
    return None


@pytest.mark.parametrize("verb", VERBS)
def test_a_writer_that_slept_through_a_thousand_commits_deletes_nothing(
    tmp_path: Path, verb: str
) -> None:
    table_of(tmp_path, appends=3)
    store = StoppedWriter(LocalStore(tmp_path), lambda: small_commits(tmp_path, 1_001))
    assert put_through(verb, store, tmp_path) is None  # its splits are in the table, so it landed
    assert whole(tmp_path) == VERBS[verb][1]


@pytest.mark.parametrize("verb", VERBS)
def test_what_was_merged_while_its_writer_slept_is_not_written_twice(
    tmp_path: Path, verb: str
) -> None:
    table_of(tmp_path, appends=3)

    def meanwhile() -> None:
        other = Table.open(str(tmp_path))
        other.append(rows([100]))
        other.merge()
        small_commits(tmp_path, 1_001)

    error = put_through(verb, StoppedWriter(LocalStore(tmp_path), meanwhile), tmp_path)
    assert isinstance(error, CommitUnknownError)
    assert whole(tmp_path) == [*VERBS[verb][1], 100]


@pytest.mark.parametrize("verb", VERBS)
def test_a_writer_that_wakes_in_a_table_too_new_for_it_deletes_nothing(
    tmp_path: Path, verb: str
) -> None:
    table_of(tmp_path, appends=3)
    raised = 0

    def meanwhile() -> None:
        nonlocal raised
        small_commits(tmp_path, 2)
        raised = Table.open(str(tmp_path)).version + 1
        newer = ProtocolAction(min_reader_version=9, min_writer_version=9)
        store.inner.put(
            version_path(raised),
            version_file.encode([CommitInfo(txn_id="newer", timestamp=1), newer]),
        )

    store = StoppedWriter(LocalStore(tmp_path), meanwhile)
    assert isinstance(put_through(verb, store, tmp_path), CommitUnknownError)
    store.inner.delete([version_path(raised)])  # so that this release can look
    assert whole(tmp_path) == VERBS[verb][1]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[: len(data) // 2],
    "flipped": lambda data: data[:40] + bytes([data[40] ^ 255]) + data[41:],
    "empty": lambda data: b"",
}


@pytest.mark.parametrize("effect", [Effect.UNKNOWN_AFTER, Effect.LOST, Effect.FAIL_AFTER])
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("verb", ["append", "delete", "merge"])
def test_a_damaged_look_at_its_own_version_is_no_failure(
    tmp_path: Path, verb: str, damage: str, effect: Effect
) -> None:
    table_of(tmp_path, appends=3)
    fault = Fault("put_if_absent", effect=effect, path_contains=version_path(4))
    assert (
        put_through(verb, DamagedOnce(LocalStore(tmp_path), fault, DAMAGES[damage]), tmp_path)
        is None
    )
    assert whole(tmp_path) == VERBS[verb][1]


@pytest.mark.parametrize("verb", ["append", "delete", "merge"])
def test_a_version_that_stays_unreadable_is_unknown(tmp_path: Path, verb: str) -> None:
    table_of(tmp_path, appends=3)

    class Unreadable(FaultyStore):
        def get(self, path: str) -> bytes:
            return super().get(path)[:10] if path == version_path(4) else super().get(path)

    fault = Fault("put_if_absent", effect=Effect.UNKNOWN_AFTER, path_contains=version_path(4))
    assert isinstance(
        put_through(verb, Unreadable(LocalStore(tmp_path), [fault]), tmp_path), CommitUnknownError
    )
    assert whole(tmp_path) == VERBS[verb][1]


def splits(root: Path) -> int:
    return len(list(root.glob("splits/*.split")))


def test_splits_of_a_commit_that_surely_failed_are_deleted(tmp_path: Path) -> None:
    table = table_of(tmp_path, appends=3)
    slow = Table.open(str(tmp_path))
    table.overwrite(rows([1]).append_column("more", rows([1]).column("id")), merge_schema=True)
    before = splits(tmp_path)
    with pytest.raises(ConflictError):
        slow.append(rows([5]))
    assert splits(tmp_path) == before


def test_splits_of_an_exactly_once_write_that_was_done_before_are_deleted(tmp_path: Path) -> None:
    table = table_of(tmp_path, appends=1)
    table.append(rows([20]), txn=("job", 1))
    before = splits(tmp_path)
    assert Table.open(str(tmp_path)).append(rows([20]), txn=("job", 1)) is None
    assert splits(tmp_path) == before
    assert whole(tmp_path) == [*range(10), 20]


def test_in_doubt_splits_are_left_to_a_purge(tmp_path: Path) -> None:
    """The commit surely failed, but what was committed since the table was read is gone: nothing is
    proven.
    """
    table = table_of(tmp_path, appends=3)
    slow = Table.open(str(tmp_path))
    table.overwrite(rows([1]).append_column("more", rows([1]).column("id")), merge_schema=True)
    table.append(rows([2]))
    table.truncate_time_travel()
    before = splits(tmp_path)
    with pytest.raises(ConflictError):
        slow.append(rows([5]))
    assert splits(tmp_path) == before + 1
    free = Table.open(str(tmp_path), options={"purge.retentionCheckEnabled": False})
    free.purge(older_than_hours=0, log_retention_hours=0)
    assert splits(tmp_path) == 2


def test_a_store_that_fails_while_it_is_looked_around_loses_nothing(tmp_path: Path) -> None:
    """The commit fails for a conflict, and then nothing can be read: the splits stay for a purge,
    the error is the first.
    """
    table = table_of(tmp_path, appends=3)
    slow_store = FaultyStore(LocalStore(tmp_path))
    slow = seen_through(slow_store, tmp_path)
    table.overwrite(rows([1]).append_column("more", rows([1]).column("id")), merge_schema=True)
    before = splits(tmp_path)
    counting = FaultyStore(LocalStore(tmp_path))
    with pytest.raises(ConflictError):
        seen_again = seen_through(counting, tmp_path)
        seen_again.handle.snapshot = slow.handle.snapshot
        seen_again.append(rows([5]))
    assert splits(tmp_path) == before
    slow_store._faults, slow_store._seen = [Fault("delete", times=99)], [0]
    with pytest.raises(ConflictError):
        slow.append(rows([5]))
    assert splits(tmp_path) == before + 1


def test_an_abandoned_write_of_tasks_deletes_only_what_no_version_names(tmp_path: Path) -> None:
    table = table_of(tmp_path, appends=1)
    data = rows(range(10, 20))
    planned = plan_write(table.handle, data.schema, WriteRequest())
    added = planned.run(data.to_batches())
    finish_write(Table.open(str(tmp_path)).handle, planned, added)
    assert abandon_write(Table.open(str(tmp_path)).handle, planned, added) is False
    assert whole(tmp_path) == list(range(20))
    lost = planned.run(data.to_batches())
    assert abandon_write(Table.open(str(tmp_path)).handle, planned, lost) is True
    unproven = planned.run(data.to_batches())
    small_commits(tmp_path, 3)
    assert abandon_write(Table.open(str(tmp_path)).handle, planned, unproven) is False
    assert whole(tmp_path) == list(range(20))


def test_a_drop_that_landed_while_its_writer_slept_is_reported(tmp_path: Path) -> None:
    table_of(tmp_path, appends=3, partitioned=True)
    store = StoppedWriter(LocalStore(tmp_path), lambda: small_commits(tmp_path, 2))
    report = seen_through(store, tmp_path).drop_partitions("day = 1")
    assert (report.status, report.partitions_dropped, report.version) == ("success", 1, 4)
    assert whole(tmp_path) == [i for i in range(30) if i % 3 != 1]


def test_a_drop_is_not_done_twice(tmp_path: Path) -> None:
    """Rows that others append to a partition after it was dropped are not dropped again by a writer
    that wakes.
    """
    table_of(tmp_path, appends=3, partitioned=True)

    def meanwhile() -> None:
        Table.open(str(tmp_path)).append(rows([100], day=1))
        small_commits(tmp_path, 1_001)

    store = StoppedWriter(LocalStore(tmp_path), meanwhile)
    with pytest.raises(CommitUnknownError):
        seen_through(store, tmp_path).drop_partitions("day = 1")
    assert whole(tmp_path) == [*(i for i in range(30) if i % 3 != 1), 100]


class DyingStore(StoreWrapper):
    """A store that answers `left` requests after a version was created in it, and then none any
    more.
    """

    def __init__(self, inner: Store, left: int) -> None:
        super().__init__(inner)
        self.created = False
        self._left = left

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        self._live()
        outcome = self.inner.put_if_absent(path, data)
        self.created |= version_of(path) is not None and outcome is PutOutcome.CREATED
        return outcome

    def get(self, path: str) -> bytes:
        self._live()
        return self.inner.get(path)

    def put(self, path: str, data: bytes) -> None:
        self._live()
        self.inner.put(path, data)

    def head(self, path: str) -> ObjectInfo | None:
        self._live()
        return self.inner.head(path)

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        self._live()
        return self.inner.list(prefix, start_after=start_after)

    def delete(self, paths: Iterable[str | ObjectInfo]) -> None:
        self._live()
        self.inner.delete(paths)

    def _live(self) -> None:
        if self.created:
            self._left -= 1
            if self._left < 0:
                raise StorageError("The store is gone.")


def removed_by_hand(table: Table) -> None:
    with table.transaction() as transaction:
        transaction.remove(table.files()["path"][0].as_py())


AFTERWARDS: dict[str, Callable[[Table], object]] = {
    **{name: act for name, (act, _) in VERBS.items()},
    "delete of a whole split": lambda t: t.delete(where="id < 10"),
    "drop_partitions": lambda t: t.drop_partitions("day = 1"),
    "restore": lambda t: t.restore(version=1),
    "configure": lambda t: t.update_metadata(name="renamed"),
    "transaction": removed_by_hand,
}


@pytest.mark.parametrize("left", [0, 1, 2, 3, 5, 9])
@pytest.mark.parametrize("interval", [1_000, 1])
@pytest.mark.parametrize("verb", AFTERWARDS)
def test_what_fails_after_a_commit_does_not_make_it_failed(
    tmp_path: Path, verb: str, interval: int, left: int
) -> None:
    """The answer is that it landed, or that nobody knows: an error that says neither would be taken
    for a refusal.
    """
    options: dict[str, object] = {"checkpoint.interval": interval}
    table_of(tmp_path, appends=3, partitioned=verb == "drop_partitions", options=options)
    before = Table.open(str(tmp_path)).version
    store = DyingStore(LocalStore(tmp_path), left)
    table = seen_through(store, tmp_path)
    try:
        AFTERWARDS[verb](table)
        assert table.version > before
    except CommitUnknownError:
        assert left < 1  # the one look whether the version continues the log is all that it takes
    assert store.created
    assert Table.open(str(tmp_path)).version > before
