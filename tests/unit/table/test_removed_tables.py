"""A process that slept while its table was removed, or created again, leaves the table that is
there as it is.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import ConflictError, IndexTablesError, NotFoundError
from indextables.handle import TableHandle, log_settings
from indextables.log.cache import PROCESS_CACHE, LogCache
from indextables.log.checkpoint.checkpointer import CheckpointQueue
from indextables.log.context import LogContext
from indextables.log.transaction_log import TransactionLog
from indextables.storage.spec import StoreSpec, open_store, open_table_store
from indextables.storage.store import ObjectInfo, PutOutcome, Store, path_of
from tests.support.faulty_store import StoreWrapper
from tests.support.rows import ids, rows, table_of

OTHER = pa.schema([("name", pa.string())])
FORMATS: dict[str, dict[str, Any]] = {
    "avro": {"state.format": "avro"},
    "json": {"state.format": "json"},
    "parquet": {"state.format": "parquet"},
}
KEEPS_NOTHING = {"purge.retentionCheckEnabled": False}


class Sleeper(StoreWrapper):
    """Stops once, right before it writes a file whose path holds one of these words."""

    def __init__(
        self, inner: Store, meanwhile: Callable[[], object], words: tuple[str, ...]
    ) -> None:
        super().__init__(inner)
        self._meanwhile: Callable[[], object] | None = meanwhile
        self._words = words

    @property
    def has_slept(self) -> bool:
        return self._meanwhile is None

    def _sleep(self, path: str) -> None:
        if self._meanwhile is not None and any(word in path for word in self._words):
            meanwhile, self._meanwhile = self._meanwhile, None
            meanwhile()

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        self._sleep(path)
        return self.inner.put_if_absent(path, data)

    def put(self, path: str, data: bytes) -> None:
        self._sleep(path)
        self.inner.put(path, data)


def sleeper(
    root: Path, meanwhile: Callable[[], object], *words: str, **options: Any
) -> tuple[Table, Sleeper]:
    """A table whose process stops before it writes a file with one of these words in its path."""
    settings = Table.open(str(root), options=options).settings
    store = Sleeper(open_table_store(StoreSpec.from_url(str(root))), meanwhile, words)
    log = TransactionLog(LogContext(store, log_settings(settings), cache=LogCache(1 << 26)))
    return Table(TableHandle(log, log.newest(), options)), store


def recreated(root: Path, appends: int) -> None:
    """Another table at the same path."""
    shutil.rmtree(root)
    table = Table.create(str(root), schema=OTHER, options={"checkpoint.enabled": False})
    for n in range(appends):
        table.append(pa.table({"name": [f"n{n}"]}))


def files_below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


CHECKPOINT = ("state-v", "manifests/", ".checkpoint.", "_last_checkpoint")
MOMENTS = {
    "checkpoint file": ("state-v", ".checkpoint."),
    "manifest": ("manifests/", ".checkpoint."),
    "pointer": ("_last",),
}


@pytest.mark.parametrize("background", [False, True], ids=["foreground", "background"])
@pytest.mark.parametrize("appends", [3, 12])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("form", FORMATS)
def test_a_checkpoint_that_slept_is_not_read_as_the_table_that_was_created_again(
    tmp_path: Path, form: str, moment: str, appends: int, *, background: bool
) -> None:
    root = tmp_path / "t"
    table_of(root, appends=9, options={"checkpoint.enabled": False})
    options = {**FORMATS[form], "checkpoint.enabled": True, "checkpoint.interval": 10}
    table, store = sleeper(root, lambda: recreated(root, appends), *MOMENTS[moment], **options)
    queue = CheckpointQueue(1)
    table.handle.log.context.background = queue if background else None
    table.append(rows([9]))
    assert queue.wait(60)
    assert store.has_slept
    PROCESS_CACHE.invalidate()
    seen = Table.open(str(root))
    assert seen.schema.names == ["name"]
    assert (seen.version, seen.count()) == (appends, appends)
    assert Table.repair(str(root)).source_version is not None
    for n in range(12 - appends):
        seen.append(pa.table({"name": [f"m{n}"]}))
    PROCESS_CACHE.invalidate()
    grown = Table.open(str(root), options=KEEPS_NOTHING)
    assert grown.count() == 12
    grown.purge(older_than_hours=0, log_retention_hours=0)
    PROCESS_CACHE.invalidate()
    grown = Table.open(str(root))
    assert grown.count() == 12
    assert grown.verify(full=True).healthy


@pytest.mark.parametrize("appends", [3, 9])
@pytest.mark.parametrize("form", FORMATS)
def test_a_checkpoint_of_another_table_that_lies_in_the_log_is_not_believed(
    tmp_path: Path, form: str, appends: int
) -> None:
    """As an older release, or a process that was killed right after it wrote the file, may leave it
    behind.
    """
    old, new = tmp_path / "old", tmp_path / "new"
    table_of(old, appends=10, options={"checkpoint.enabled": False}).refresh()
    Table.open(str(old), options=FORMATS[form]).checkpoint()
    table = Table.create(str(new), schema=OTHER, options={"checkpoint.enabled": False})
    for n in range(appends):
        table.append(pa.table({"name": [f"n{n}"]}))
    for path in files_below(old / "_transaction_log"):
        if any(word in path for word in CHECKPOINT):
            target = new / "_transaction_log" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(old / "_transaction_log" / path, target)
    PROCESS_CACHE.invalidate()
    seen = Table.open(str(new))
    assert (seen.schema.names, seen.version, seen.count()) == (["name"], appends, appends)
    seen.append(pa.table({"name": ["more"]}))
    seen = Table.open(str(new), options=KEEPS_NOTHING)
    seen.purge(older_than_hours=0, log_retention_hours=0)
    seen.truncate_time_travel()
    PROCESS_CACHE.invalidate()
    seen = Table.open(str(new))
    assert seen.count() == appends + 1


@pytest.mark.parametrize("form", FORMATS)
def test_a_checkpoint_does_not_bring_a_removed_table_back(tmp_path: Path, form: str) -> None:
    root = tmp_path / "t"
    table_of(root, appends=9, options={"checkpoint.enabled": False})
    options = {**FORMATS[form], "checkpoint.enabled": True, "checkpoint.interval": 10}
    for words in MOMENTS.values():
        backup = shutil.copytree(root, tmp_path / "backup")
        table, store = sleeper(root, lambda: shutil.rmtree(root), *words, **options)
        table.append(rows([9]))
        assert store.has_slept
        assert not root.exists()
        backup.rename(root)
        PROCESS_CACHE.invalidate()


VERBS: dict[str, Callable[[Table], object]] = {
    "append": lambda t: t.append(rows([9])),
    "delete": lambda t: t.delete(where="id = 1"),
    "update": lambda t: t.update(set={"message": "'x'"}, where="id = 1"),
    "merge": lambda t: t.merge(),
    "checkpoint": lambda t: t.checkpoint(),
    "truncate": lambda t: t.truncate_time_travel(),
    "purge": lambda t: t.purge(older_than_hours=0),
}


@pytest.mark.parametrize("at", range(1, 6))
@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_brings_a_table_back_that_is_removed_while_it_runs(
    tmp_path: Path, verb: str, at: int
) -> None:
    """Whatever it is about to write when it wakes: a split, a deletion vector, a version, a state."""
    root = tmp_path / "t"
    table_of(root, appends=3)
    left = [at]

    class Counting(Sleeper):
        def _sleep(self, path: str) -> None:
            left[0] -= 1
            if left[0] == 0:
                shutil.rmtree(root)

        def put_file(self, path: str, source: Path) -> None:
            self._sleep(path)
            self.inner.put_file(path, source)

    inner = open_table_store(StoreSpec.from_url(str(root)))
    table = Table.open(str(root), options=KEEPS_NOTHING)
    log = TransactionLog(
        LogContext(
            Counting(inner, lambda: None, ()), log_settings(table.settings), cache=LogCache(1 << 26)
        )
    )
    try:
        VERBS[verb](Table(TableHandle(log, log.newest(), KEEPS_NOTHING)))
    except IndexTablesError as failure:
        assert (
            isinstance(failure, NotFoundError | ConflictError) or failure.kind == "commit_unknown"
        ), failure
    assert root.exists() == (left[0] > 0)


def test_a_state_of_an_older_release_is_still_believed_where_nothing_contradicts_it(
    tmp_path: Path,
) -> None:
    """A table that lost the version file of its newest state opens by the state, as before."""
    root = tmp_path / "t"
    table_of(root, appends=3).checkpoint()
    (root / "_transaction_log" / f"{3:020d}.json").unlink()
    PROCESS_CACHE.invalidate()
    assert ids(Table.open(str(root))) == list(range(30))


class Cleaner(StoreWrapper):
    """Stops once, right before its n-th deletion in the log."""

    def __init__(self, inner: Store, at: int, meanwhile: Callable[[], object]) -> None:
        super().__init__(inner)
        self.left = at
        self._meanwhile = meanwhile

    def delete(self, paths: Iterable[str | ObjectInfo]) -> None:
        items = [*paths]
        if any(path_of(item).startswith("_transaction_log") for item in items):
            self.left -= 1
            if self.left == 0:
                self._meanwhile()
        self.inner.delete(items)


CLEANING: dict[str, Callable[[Table], object]] = {
    "truncate": lambda t: t.truncate_time_travel(),
    "purge": lambda t: t.purge(older_than_hours=0, log_retention_hours=0),
}


@pytest.mark.parametrize("at", [1, 4])
@pytest.mark.parametrize("appends", [6, 9, 15])
@pytest.mark.parametrize("verb", CLEANING)
def test_a_cleaner_that_slept_deletes_no_file_of_the_table_that_was_created_again(
    tmp_path: Path, verb: str, appends: int, at: int
) -> None:
    root = tmp_path / "t"
    table_of(root, appends=9, options={"checkpoint.enabled": False}).checkpoint()
    new_files: list[str] = []

    def recreate() -> None:
        recreated(root, appends)
        new_files.extend(files_below(root))

    options = {**KEEPS_NOTHING, "checkpoint.enabled": True}
    table = Table.open(str(root), options=options)
    store = Cleaner(open_table_store(StoreSpec.from_url(str(root))), at, recreate)
    log = TransactionLog(LogContext(store, log_settings(table.settings), cache=LogCache(1 << 26)))
    with suppress(ConflictError):
        CLEANING[verb](Table(TableHandle(log, log.newest(), options)))
    assert store.left <= 0
    assert set(new_files) <= set(files_below(root))
    PROCESS_CACHE.invalidate()
    seen = Table.open(str(root))
    assert (seen.version, seen.count()) == (appends, appends)


@pytest.mark.parametrize("place", ["s3_place", "memory_place"])
def test_an_object_that_another_process_has_replaced_is_not_deleted_as_it_was_listed(
    place: str, request: pytest.FixtureRequest
) -> None:
    store = open_store(request.getfixturevalue(place).spec)
    store.put("a", b"one")
    store.put("b", b"one")
    listed = [*store.list()]
    store.put("a", b"two")
    store.delete(listed)
    assert [info.path for info in store.list()] == ["a"]


def test_a_purge_that_slept_deletes_no_split_of_a_log_that_was_put_back(tmp_path: Path) -> None:
    """What the purge found to be unneeded is live in the older log that an operator has put in
    place meanwhile.
    """
    root = tmp_path / "t"
    table = table_of(root, appends=3, options={"checkpoint.enabled": False})
    backup = shutil.copytree(root / "_transaction_log", tmp_path / "backup")
    table.delete(where="id < 20")
    slept: list[bool] = []

    class Purger(StoreWrapper):
        def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
            outcome = self.inner.put_if_absent(path, data)
            if not slept and data and path.endswith(f"{5:020d}.json"):
                slept.append(True)
                shutil.rmtree(root / "_transaction_log")
                shutil.copytree(backup, root / "_transaction_log")
            return outcome

    store = Purger(open_table_store(StoreSpec.from_url(str(root))))
    log = TransactionLog(LogContext(store, log_settings(table.settings), cache=LogCache(1 << 26)))
    with pytest.raises(IndexTablesError):
        Table(TableHandle(log, log.newest(), KEEPS_NOTHING)).purge(older_than_hours=0)
    assert slept
    PROCESS_CACHE.invalidate()
    assert ids(Table.open(str(root))) == list(range(30))
