"""Losing races, and a store without room: a commit goes on as long as it may, and stops at once
where it must.
"""

from __future__ import annotations

import itertools
import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from indextables import Table
from indextables.config.log import RetrySettings
from indextables.errors import (
    AccessDeniedError,
    CommitUnknownError,
    ConflictError,
    StorageFullError,
)
from indextables.handle import TableHandle
from indextables.log.cache import LogCache
from indextables.log.context import LogContext, LogSettings
from indextables.log.transaction_log import TransactionLog
from indextables.storage.local import LocalStore
from indextables.storage.store import Store
from tests.support.faulty_store import Effect, Fault, FaultyStore
from tests.support.racing_store import Racing
from tests.support.rows import rows, table_of
from tests.support.tables import append, create_on, live, open_on


def racing_table(
    store: Store, races: int, *, retry: RetrySettings | None = None, tick_s: float = 0.0
) -> Table:
    """A table whose writer loses races; its clock goes on by a tick at each look."""
    clock = itertools.count()
    log = TransactionLog(
        LogContext(
            Racing(store, races),
            LogSettings(retry=retry or RetrySettings()),
            cache=LogCache(1 << 26),
            sleep=lambda seconds: None,
            monotonic=lambda: next(clock) * tick_s,
        )
    )
    table = Table(TableHandle(log, log.newest(), None))
    log.settings = LogSettings(retry=retry or RetrySettings())
    return table


def test_an_append_that_conflicts_with_nothing_is_not_given_up(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    create_on(store)
    assert append(racing_table(store, 40), "mine") == 41
    assert live(open_on(store)) == {"mine", *(f"other{n}" for n in range(40))}


def test_it_is_given_up_when_its_time_is_over(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    create_on(store)
    table = racing_table(store, 1_000, retry=RetrySettings(max_elapsed_ms=5_000), tick_s=1.0)
    with pytest.raises(ConflictError, match=r"were first 5 times in 5\.0 s") as caught:
        append(table, "mine")
    assert "transaction.retry.maxElapsedMs" in caught.value.hint
    assert "mine" not in live(open_on(store))


def test_the_number_of_attempts_stays_a_setting(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    create_on(store)
    with pytest.raises(ConflictError, match="were first 3 times"):
        append(racing_table(store, 1_000, retry=RetrySettings(max_attempts=3)), "mine")


@pytest.mark.parametrize("error", [StorageFullError, AccessDeniedError])
def test_a_store_that_refuses_for_certain_is_told_at_once(
    tmp_path: Path, error: type[Exception]
) -> None:
    inner = LocalStore(tmp_path)
    append(create_on(inner), "s1")
    store = FaultyStore(inner)
    table = open_on(store)
    store._faults, store._seen = [Fault("put_if_absent", times=99, error=lambda: error("no"))], [0]
    store.calls.clear()
    with pytest.raises(error):
        append(table, "new")
    assert [verb for verb, _ in store.calls].count("put_if_absent") == 1
    assert live(open_on(inner)) == {"s1"}


@pytest.mark.parametrize("error", [StorageFullError, AccessDeniedError])
@pytest.mark.parametrize("effect", [Effect.UNKNOWN_BEFORE, Effect.FAIL_BEFORE])
def test_a_refusal_after_a_lost_answer_is_unknown(
    tmp_path: Path, effect: Effect, error: type[Exception]
) -> None:
    inner = LocalStore(tmp_path)
    append(create_on(inner), "s1")
    store = FaultyStore(inner)
    table = open_on(store)
    store._faults = [
        Fault("put_if_absent", effect=effect),
        Fault("put_if_absent", at=2, times=99, error=lambda: error("no")),
        Fault("get", path_contains="0002.json"),
    ]
    store._seen = [0, 0, 0]
    with pytest.raises(CommitUnknownError):
        append(table, "new")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 400 KB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small disk needs rights that this process does not have")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_is_told_as_such_and_harms_nothing(small_disk: Path) -> None:
    root = small_disk / "t"
    table = table_of(root, appends=1)
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space"), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    with pytest.raises(StorageFullError, match="No space left"):
        table.append(rows(range(10, 20)))
    with pytest.raises(StorageFullError, match="No space left"):
        table.update_metadata(name="n")
    filler.unlink()
    table.append(rows(range(10, 20)))
    assert Table.open(str(root)).count() == 20
    assert Table.open(str(root)).verify(full=True).status == "healthy"


@pytest.fixture
def limit_file_size() -> Iterator[Callable[[int], None]]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_version_file_that_exceeds_a_size_limit_is_refused_once(
    tmp_path: Path, limit_file_size: Callable[[int], None], caplog: pytest.LogCaptureFixture
) -> None:
    table = table_of(tmp_path / "t", appends=1)
    limit_file_size(100)
    with pytest.raises(StorageFullError, match="File too large"):
        table.update_metadata(name="n")
    limit_file_size(resource.RLIM_INFINITY)
    assert "was lost" not in caplog.text
    table.append(rows(range(10, 20)))
    assert Table.open(str(tmp_path / "t")).count() == 20
