"""Whatever storage call of an upkeep verb fails, or is the last one of a process: the table is
sound, no acknowledged row is lost or doubled, and the verb can be repeated.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from indextables import Table
from indextables.errors import (
    CommitUnknownError,
    IndexTablesError,
    RefusedError,
    TableExistsError,
    UnavailableError,
)
from indextables.handle import TableHandle
from indextables.log.cache import LogCache
from indextables.log.context import LogContext
from indextables.log.transaction_log import TransactionLog
from indextables.storage.local import LocalStore
from indextables.storage.store import Store
from indextables.table import verify_table
from tests.support.faulty_store import Effect, Fault, FaultyStore
from tests.support.rows import ids, rows, table_of
from tests.support.stores import contents, splits_on_disk

UNCHECKED: dict[str, object] = {
    "purge.retentionCheckEnabled": False,
    "purge.deleteRetries": 0,
    "merge.parallelism": 1,
    "read.parallelism": 1,
}
MANY = 1_000_000
READS = ("get", "get_range", "get_ranges", "head")


def faults_of(calls: list[tuple[str, str]]) -> Iterator[Fault]:
    """What can happen at each call. A read that fails has no effect; a process that dies there has
    written no less than one that dies at its next write.
    """
    for k, (verb, _) in enumerate(calls, start=1):
        yield Fault(at=k, effect=Effect.FAIL_BEFORE)
        if verb not in READS:
            yield Fault(at=k, effect=Effect.FAIL_AFTER)
            yield Fault(at=k, times=MANY, error=Killed)


class Killed(BaseException):
    """The process is gone: nothing it does from now on reaches the store."""


class Far(FaultyStore):
    """A store whose splits are not on this machine, so that every read of them is a call."""

    def local_path(self, path: str) -> Path | None:
        return None if path.endswith(".split") else super().local_path(path)


def opened(store: Store) -> Table:
    log = TransactionLog(
        LogContext(store, cache=LogCache(1 << 26), rng=random.Random(3), sleep=lambda seconds: None)
    )
    return Table(TableHandle(log, log.fresh(), UNCHECKED))


@dataclass(frozen=True)
class Verb:
    """A verb on a prepared table: what it does, and how its being done shows."""

    prepare: Callable[[Path], object]
    act: Callable[[Table], object]
    before: list[int]
    after: list[int]
    is_done: Callable[[Table], bool]


def appended(path: Path) -> Table:
    return table_of(path, appends=3, each=2)


def partitioned(path: Path) -> Table:
    return table_of(path, appends=2, each=6, partitioned=True)


def merged(path: Path) -> Table:
    table = appended(path)
    table.merge()
    (path / "splits/split-stray.split").write_bytes(b"stray")
    table.append(rows([6, 7]))
    return table


def overwritten(path: Path) -> Table:
    table = appended(path)
    table.overwrite(rows([50]))
    return table


def masked(path: Path) -> Table:
    table = table_of(
        path,
        appends=2,
        each=3,
        options={"delete.mode": "vector", "state.gc.minManifestAgeHours": 0},
    )
    table.delete(where="id = 1")
    return table


SIX, EIGHT, TWELVE = list(range(6)), list(range(8)), list(range(12))
VERBS: dict[str, Verb] = {
    "merge": Verb(
        lambda path: table_of(path, appends=2, each=3), lambda t: t.merge(), SIX, SIX, lambda t: t.files().num_rows == 1
    ),
    "purge": Verb(
        merged,
        lambda t: t.purge(older_than_hours=0, log_retention_hours=0),
        EIGHT,
        EIGHT,
        lambda t: splits_on_disk(t.path) == set(t.files().column("path").to_pylist()),
    ),
    "truncate": Verb(
        appended, lambda t: t.truncate_time_travel(), SIX, SIX, lambda t: t.history().num_rows == 1
    ),
    "drop": Verb(
        partitioned,
        lambda t: t.drop_partitions("day = 1"),
        TWELVE,
        [i for i in TWELVE if i % 3 != 1],
        lambda t: t.count(where="day = 1") == 0,
    ),
    "restore": Verb(overwritten, lambda t: t.restore(version=3), [50], SIX, lambda t: ids(t) == SIX),
    "delete": Verb(
        appended, lambda t: t.delete(where="id >= 1 AND id <= 4"), SIX, [0, 5], lambda t: ids(t) == [0, 5]
    ),
    "erase": Verb(
        masked,
        lambda t: t.erase(where="id = 1 OR id = 4", retention_hours=0),
        [0, 2, 3, 4, 5],
        [0, 2, 3, 5],
        lambda t: t.erase(where="id = 1 OR id = 4", dry_run=True).proved,
    ),
    "overwrite": Verb(
        appended, lambda t: t.overwrite(rows([3]), where="id = 1 OR id = 3"), SIX, [0, 2, 3, 4, 5],
        lambda t: ids(t) == [0, 2, 3, 4, 5],
    ),
    "checkpoint": Verb(appended, lambda t: t.checkpoint(), SIX, SIX, lambda t: t.state().version == 3),
    "compact": Verb(
        lambda path: appended(path).checkpoint(), lambda t: t.compact(), SIX, SIX,
        lambda t: t.state().version in (3, 4),
    ),
}  # fmt: skip


def calls_of(verb: Verb, root: Path) -> list[tuple[str, str]]:
    store = Far(LocalStore(root))
    table = opened(store)
    before = len(store.calls)
    verb.act(table)
    return store.calls[before:]


def broken(root: Path, verb: Verb, fault: Fault) -> list[list[int]]:
    """The verb with a fault; returns the contents that may be there afterwards."""
    store = Far(LocalStore(root))
    table = opened(store)
    store._faults, store._seen = [fault], [0]
    try:
        verb.act(table)
        return [verb.after]
    except CommitUnknownError:
        return [verb.before, verb.after]
    except IndexTablesError:
        # A failure after the commit (a look at the newest version, say) is no lie: the commit is in
        # the history.
        return [verb.before, verb.after]
    except Killed:
        return [verb.before, verb.after]


@pytest.mark.parametrize("name", VERBS)
def test_the_kth_call_fails(tmp_path: Path, name: str) -> None:
    verb = VERBS[name]
    verb.prepare(tmp_path / "prepared")
    shutil.copytree(tmp_path / "prepared", tmp_path / "count")
    for n, fault in enumerate(faults_of(calls_of(verb, tmp_path / "count"))):
        root = tmp_path / f"{n}"
        shutil.copytree(tmp_path / "prepared", root)
        allowed = broken(root, verb, fault)
        assert verify_table(str(root), full=True).findings == (), fault
        assert ids(opened(LocalStore(root))) in allowed, fault
        verb.act(opened(LocalStore(root)))
        fresh = opened(LocalStore(root))
        assert ids(fresh) == verb.after, fault
        assert verb.is_done(fresh), fault
        assert verify_table(str(root), full=True).findings == (), fault
        shutil.rmtree(root)


@pytest.mark.parametrize("how", ["rebuild", "copy"])
def test_a_repair_that_fails_can_be_repeated(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = partitioned(tmp_path / "prepared")
    before = ids(table)
    if how == "rebuild":
        shutil.rmtree(tmp_path / "prepared/_transaction_log")
    stores: list[FaultyStore] = []
    faults: list[Fault] = []

    def faulty(spec: object) -> Store:
        store = Far(LocalStore(spec.url), faults)  # type: ignore[attr-defined]
        stores.append(store)
        return store

    monkeypatch.setattr("indextables.handle.open_table_store", faulty)
    monkeypatch.setattr("indextables.handle.open_store", faulty)

    def repair(root: Path) -> None:
        Table.repair(str(root), at=None if how == "rebuild" else f"{root}-copy")

    shutil.copytree(tmp_path / "prepared", tmp_path / "count")
    repair(tmp_path / "count")
    calls = max((store.calls for store in stores), key=len)
    for n, fault in enumerate(faults_of(calls)):
        root = tmp_path / f"{n}"
        shutil.copytree(tmp_path / "prepared", root)
        faults[:] = [fault]
        try:
            repair(root)
        except (IndexTablesError, Killed):
            faults.clear()
            with suppress(TableExistsError, RefusedError):  # where it was written the first time
                repair(root)
        faults.clear()
        if how == "copy":
            shutil.rmtree(root / "_transaction_log")
            shutil.copytree(f"{root}-copy/_transaction_log", root / "_transaction_log")
        assert ids(Table.open(str(root))) == before, fault
        assert verify_table(str(root), full=True).findings == (), fault
        shutil.rmtree(root)


@pytest.mark.parametrize("full", [False, True])
def test_a_store_that_fails_is_no_finding(tmp_path: Path, full: bool) -> None:
    """Not found and could not look are different things."""
    table = partitioned(tmp_path / "t")
    table.checkpoint()
    before = contents(tmp_path)

    def calls_of_verify(fault: Fault | None) -> int:
        store = Far(LocalStore(table.path))
        seen = opened(store)
        start = len(store.calls)
        store._faults, store._seen = ([fault], [0]) if fault else ([], [])
        assert seen.verify(full=full).findings == (), fault
        return len(store.calls) - start

    count = calls_of_verify(None)
    raised = 0
    for k in range(1, count + 1):
        for effect in (Effect.FAIL_BEFORE, Effect.FAIL_AFTER):
            try:
                calls_of_verify(Fault(at=k, effect=effect))
            except UnavailableError:
                raised += 1
    assert raised > count
    assert contents(tmp_path) == before
