"""A version in the middle of the log is lost: no commit is acknowledged after it, and a repair keeps what came after."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from indextables import Table
from indextables.errors import LogGapError
from indextables.log.checkpoint.checkpointer import CheckpointQueue
from indextables.log.log_files import version_path
from indextables.log.transaction_log import PROCESS_CACHE
from indextables.storage.spec import open_store
from tests.support.places import StorePlace
from tests.support.rows import ROWS, TEXT, ids, rows, table_of

PLAIN = {"checkpoint.enabled": False}


@pytest.mark.parametrize("lost", [1, 3, 5, 7])
def test_no_commit_is_acknowledged_over_a_version_that_is_lost(tmp_path: Path, lost: int) -> None:
    root = tmp_path / "t"
    table_of(root, appends=3, options=PLAIN)
    table = Table.open(str(root))
    for n in range(5):
        table.append(rows([100 + n]))
    newest = table.version
    (root / version_path(lost)).unlink()
    for verb in (lambda: table.append(rows([9])), lambda: table.delete(where="id = 1"), lambda: table.merge()):
        with pytest.raises(LogGapError, match=rf"Version {lost} ") as caught:
            verb()
        assert "repair" in (caught.value.hint or "")
    assert not (root / version_path(newest + 1)).exists()


def test_the_same_on_an_object_store(s3_place: StorePlace) -> None:
    table = Table.create(s3_place.url, schema=ROWS, options={**TEXT, **PLAIN, **s3_place.options})
    for n in range(4):
        table.append(rows([n]))
    open_store(s3_place.spec).delete([version_path(2)])
    with pytest.raises(LogGapError, match="Version 2 "):
        table.append(rows([9]))
    assert open_store(s3_place.spec).head(version_path(5)) is None


def test_a_hole_that_a_checkpoint_in_the_background_finds_is_the_error_of_the_next_commit(tmp_path: Path) -> None:
    root = tmp_path / "t"
    table = table_of(root, appends=1, options={"checkpoint.interval": 4})
    queue, gate = CheckpointQueue(1), threading.Event()
    assert queue.submit("another table", lambda: assert_opened(gate), shutdown_timeout_s=60)
    table._log.background = queue
    table._log.settings = table._log.settings
    for n in range(3):
        table.append(rows([100 + n]))
    kept = (root / version_path(2)).read_bytes()
    (root / version_path(2)).unlink()
    gate.set()
    assert queue.wait(60)
    if table._log.upkeep.failures:
        with pytest.raises(LogGapError, match="Version 2 "):
            table.append(rows([9]))
    (root / version_path(2)).write_bytes(kept)
    PROCESS_CACHE.invalidate()
    Table.open(str(root)).append(rows([10]))
    assert ids(Table.open(str(root))) == [*range(11), 100, 101, 102]


def assert_opened(gate: threading.Event) -> None:
    assert gate.wait(60)
