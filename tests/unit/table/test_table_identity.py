"""A handle belongs to one table: if another one takes its place at the same path, nothing is
written into that one.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table, config
from indextables.errors import CommitUnknownError, ConflictError, TableExistsError
from indextables.handle import TableHandle, log_settings
from indextables.log.cache import PROCESS_CACHE, LogCache
from indextables.log.context import LogContext
from indextables.log.create import create_table
from indextables.log.log_files import version_of, version_path
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import CommitInfo, MetadataAction
from indextables.model.protocol import NEW_TABLE_PROTOCOL
from indextables.operations.table_write import finish_write, plan_write
from indextables.operations.write_request import WriteRequest
from indextables.storage.local import LocalStore
from indextables.storage.spec import StoreSpec, open_store
from indextables.storage.store import PutOutcome, Store
from indextables.wire import version_file
from tests.support.faulty_store import StoreWrapper
from tests.support.places import StorePlace
from tests.support.rows import ids, rows, table_of

OTHER = pa.schema([("name", pa.string())])


def recreated(root: Path, *, appends: int = 1) -> Table:
    """Another table in the place of the one that was there."""
    shutil.rmtree(root)
    table = Table.create(str(root), schema=OTHER)
    for n in range(appends):
        table.append(pa.table({"name": [f"n{n}"]}))
    return table


def content(root: Path) -> tuple[int, list[str], dict[str, str] | None]:
    """What a new process sees of the other table."""
    table = Table.open(str(root))
    assert table.verify(full=True).status == "healthy"
    return (
        table.version,
        sorted(table.scan().read_all().column("name").to_pylist()),
        table.metadata.configuration,
    )


VERBS: dict[str, Callable[[Table], object]] = {
    "append": lambda t: t.append(rows([9])),
    "overwrite": lambda t: t.overwrite(rows([9])),
    "replace": lambda t: t.overwrite(rows([9]), where="id = 9"),
    "delete": lambda t: t.delete(where="id = 1"),
    "update_metadata": lambda t: t.update_metadata(name="mine"),
    "upgrade_protocol": lambda t: t.upgrade_protocol(
        min_reader_version=4, min_writer_version=4, features=("checkpoints",)
    ),
    "merge": lambda t: t.merge(),
    "restore": lambda t: t.restore(version=1),
    "truncate": lambda t: t.truncate_time_travel(),
    "purge": lambda t: t.purge(),
    "checkpoint": lambda t: t.checkpoint(),
    "refresh": lambda t: t.refresh(),
    "drop": lambda t: t.drop_partitions("day = 1"),
}


@pytest.mark.parametrize("appends", [1, 2, 5], ids=["fewer", "as many", "more"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_handle_of_a_table_that_was_created_again_is_refused(
    tmp_path: Path, verb: str, appends: int
) -> None:
    root = tmp_path / "t"
    old = table_of(root, appends=2, partitioned=verb == "drop")
    new = recreated(root, appends=appends)
    before = content(root)
    with pytest.raises(ConflictError) as caught:
        VERBS[verb](old)
    assert old.metadata.id in caught.value.message
    assert new.metadata.id in caught.value.message
    assert "Table.open" in caught.value.hint
    assert content(root) == before


def test_a_write_that_was_planned_for_the_table_before_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "t"
    planned = plan_write(table_of(root, appends=1).handle, rows([9]).schema, WriteRequest())
    recreated(root)
    added = planned.run(rows([9]).to_batches())
    with pytest.raises(ConflictError, match="another one than before"):
        finish_write(Table.open(str(root)).handle, planned, added)
    assert content(root)[0] == 1


class Sleeper(StoreWrapper):
    """A writer that is stopped between its last look at the table and the creation of its version."""

    def __init__(self, inner: Store, meanwhile: Callable[[], object]) -> None:
        super().__init__(inner)
        self._meanwhile: Callable[[], object] | None = meanwhile

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        if self._meanwhile is not None and version_of(path) is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            meanwhile()
        return self.inner.put_if_absent(path, data)


@pytest.mark.parametrize(
    "appends", [0, 1, 2, 3, 12], ids=["empty", "fewer", "as many", "one more", "checkpointed"]
)
def test_a_writer_that_wakes_in_another_table_leaves_it_as_it_is(
    tmp_path: Path, appends: int
) -> None:
    root = tmp_path / "t"
    table = table_of(root, appends=2)
    log = TransactionLog(
        LogContext(
            Sleeper(LocalStore(root), lambda: recreated(root, appends=appends)),
            log_settings(table.settings),
            cache=LogCache(1 << 26),
        )
    )
    slow = Table(TableHandle(log, log.newest(), None))
    with pytest.raises(ConflictError, match="another one than before"):
        slow.append(rows([9]))
    assert content(root)[:2] == (appends, sorted(f"n{n}" for n in range(appends)))


class Dozer(Sleeper):
    """A writer that is stopped right after the creation of its version, or of its state."""

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        outcome = self.inner.put_if_absent(path, data)
        if self._meanwhile is not None and (version_of(path) is not None or "/state-v" in path):
            meanwhile, self._meanwhile = self._meanwhile, None
            meanwhile()
        return outcome


@pytest.mark.parametrize("appends", [0, 1, 2, 3, 4, 12])
def test_a_version_of_another_table_is_not_taken_back_for_ones_own(
    tmp_path: Path, appends: int
) -> None:
    """The number that a writer created is the newest of the new table as well: it is another's
    version.
    """
    root = tmp_path / "t"
    table = table_of(root, appends=2)
    log = TransactionLog(
        LogContext(
            Dozer(LocalStore(root), lambda: recreated(root, appends=appends)),
            log_settings(table.settings),
            cache=LogCache(1 << 26),
        )
    )
    with pytest.raises(CommitUnknownError if appends > 3 else ConflictError):
        Table(TableHandle(log, log.newest(), None)).append(rows([9]))
    assert content(root)[:2] == (appends, sorted(f"n{n}" for n in range(appends)))


@pytest.mark.parametrize("appends", [0, 1, 12])
def test_whoever_creates_a_table_does_not_take_back_the_first_version_of_another(
    tmp_path: Path, appends: int
) -> None:
    root = tmp_path / "t"
    before = table_of(tmp_path / "like")
    log = TransactionLog(
        LogContext(
            Dozer(LocalStore(root), lambda: recreated(root, appends=appends)),
            log_settings(before.settings),
            cache=LogCache(1 << 26),
        )
    )
    with pytest.raises(TableExistsError):
        create_table(log, before.metadata, exist_ok=False, engine_info="test")
    assert content(root)[:2] == (appends, sorted(f"n{n}" for n in range(appends)))
    assert LocalStore(root).head(version_path(0)) is not None


def test_a_state_of_another_table_is_not_taken_back_for_ones_own(tmp_path: Path) -> None:
    """The new table has a state of the same number, and nothing else tells what is in it."""
    root = tmp_path / "t"
    table = table_of(root, appends=3)
    log = TransactionLog(
        LogContext(
            Dozer(LocalStore(root), lambda: recreated(root, appends=3).truncate_time_travel()),
            log_settings(table.settings),
            cache=LogCache(1 << 26),
        )
    )
    with pytest.raises(ConflictError, match="another one than before"):
        Table(TableHandle(log, log.newest(), None)).checkpoint()
    assert content(root)[:2] == (3, ["n0", "n1", "n2"])


def test_a_log_that_was_replaced_by_an_older_one_is_told(tmp_path: Path) -> None:
    """As after putting a repaired log in the place of the damaged one."""
    old = table_of(tmp_path / "t", appends=3)
    LocalStore(tmp_path / "t").delete([version_path(3)])
    with pytest.raises(ConflictError, match="was read at version 3, and now its newest is 2"):
        old.append(rows([99]))
    assert ids(Table.open(str(tmp_path / "t"))) == list(range(20))


def continued_otherwise(root: Path, version: int) -> str:
    """As if the log was put back to the version before and somebody else went on: another file of
    the same length.

    Returns the split that it adds.
    """
    file = root / version_path(version)
    body = file.read_text(encoding="utf-8")
    for line in map(json.loads, body.splitlines()):
        if "commitInfo" in line:
            body = body.replace(line["commitInfo"]["txnId"], str(uuid.uuid4()))
        if "add" in line:
            split = str(line["add"]["path"])
    other = split[:-12] + uuid.uuid4().hex[:6] + ".split"
    shutil.copy(root / split, root / other)
    file.unlink()
    file.write_text(body.replace(split, other), encoding="utf-8")
    return other


PLAIN = {"transaction.compression.enabled": "false"}


@pytest.mark.parametrize("listed", [True, False], ids=["that was listed", "that was committed"])
@pytest.mark.parametrize("verb", ["append", "overwrite", "replace", "update_metadata"])
def test_a_log_that_others_continued_from_an_older_one_is_told(
    tmp_path: Path, verb: str, *, listed: bool
) -> None:
    """The version that the handle shows is not the one that has its number now, though the two
    files are as long.
    """
    root = tmp_path / "t"
    table_of(root, appends=2)
    old = Table.open(str(root), options=PLAIN)
    for n in range(2):
        old.append(rows([90 + n]))
    old = old.refresh() if listed else old
    other = continued_otherwise(root, old.version)
    with pytest.raises(ConflictError, match="does not come from it: its log was replaced"):
        VERBS[verb](old)
    PROCESS_CACHE.invalidate()
    new = Table.open(str(root))
    assert (new.version, other in new.files()["path"].to_pylist()) == (4, True)
    assert new.verify(full=True).status == "healthy"


def test_what_this_process_committed_is_not_shown_where_others_continued_an_older_log(
    tmp_path: Path,
) -> None:
    root = tmp_path / "t"
    table_of(root, appends=2)
    old = Table.open(str(root), options=PLAIN)
    old.append(rows([90]))
    shown = old.files()["path"].to_pylist()
    other = continued_otherwise(root, old.version)
    assert other not in shown
    assert other in old.refresh().files()["path"].to_pylist()
    old.refresh().checkpoint()
    PROCESS_CACHE.invalidate()
    assert other in Table.open(str(root)).files()["path"].to_pylist()


def test_a_version_that_met_another_log_is_taken_back(tmp_path: Path) -> None:
    """The log is put back and continued while the version is on its way."""
    root = tmp_path / "t"
    table_of(root, appends=2)
    log = TransactionLog(
        LogContext(
            Dozer(LocalStore(root), lambda: continued_otherwise(root, 3)),
            log_settings(config.resolve(options=PLAIN)),
            cache=LogCache(1 << 26),
        )
    )
    old = Table(TableHandle(log, log.newest(), PLAIN))
    Table.open(str(root), options=PLAIN).append(rows([90]))
    with pytest.raises(ConflictError, match="does not come from it: its log was replaced"):
        old.refresh().overwrite(rows([9]))
    PROCESS_CACHE.invalidate()
    assert Table.open(str(root)).version == 3
    assert 9 in ids(Table.open(str(root)))


def test_a_table_without_an_id_is_taken_for_what_it_was(tmp_path: Path) -> None:
    """Another engine may leave the id empty; then nothing can be told, and nothing is refused."""
    table_of(tmp_path / "t")
    metadata = Table.open(str(tmp_path / "t")).metadata
    nameless = MetadataAction(id="", schema_string=metadata.schema_string)
    body = version_file.encode([CommitInfo(timestamp=1), NEW_TABLE_PROTOCOL, nameless])
    LocalStore(tmp_path / "n").put(version_path(0), body)
    table = Table.open(str(tmp_path / "n"))
    table.append(rows([1]))
    assert table.refresh().append(rows([2])) == 2
    assert ids(Table.open(str(tmp_path / "n"))) == [1, 2]


def test_restoring_keeps_the_id(tmp_path: Path) -> None:
    """A version of another engine may have another id; bringing its content back does not make
    another table of it.
    """
    table = table_of(tmp_path, appends=1)
    store = LocalStore(tmp_path)
    other = MetadataAction(
        id="another",
        schema_string=table.metadata.schema_string,
        configuration=table.metadata.configuration,
    )
    store.put(
        version_path(2), version_file.encode([CommitInfo(timestamp=1_900_000_000_000), other])
    )
    reopened = Table.open(str(tmp_path))
    reopened.append(rows([50]))
    reopened.restore(version=1)
    assert Table.open(str(tmp_path)).metadata.id == "another"
    assert ids(Table.open(str(tmp_path))) == list(range(10))


@pytest.mark.parametrize("place", ["s3_place", "memory_place"])
def test_a_table_that_is_made_anew_within_a_second_is_not_taken_for_the_old_one(
    place: str, request: pytest.FixtureRequest
) -> None:
    """Object stores tell times in seconds, and files of the log often have the same size: their
    tags tell them apart.
    """
    found: StorePlace = request.getfixturevalue(place)
    store = open_store(StoreSpec.from_url(found.url, config.resolve(options=found.options)))
    seen = set()
    for _ in range(12):
        table = Table.create(found.url, schema=OTHER, options=found.options)
        table.append(pa.table({"name": ["x"]}))
        seen.add(Table.open(found.url, options=found.options).metadata.id)
        store.delete([info.path for info in store.list()])
    assert len(seen) == 12
