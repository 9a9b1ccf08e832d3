"""A version in the middle of the log is lost: no commit is acknowledged after it, and a repair
keeps what came after.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from indextables import Table
from indextables.errors import CorruptTableError, LogGapError
from indextables.log.cache import PROCESS_CACHE
from indextables.log.checkpoint.checkpointer import CheckpointQueue
from indextables.log.log_files import version_path
from indextables.storage.spec import open_store
from tests.support.places import StorePlace
from tests.support.rows import ROWS, TEXT, ids, rows, table_of

PLAIN: dict[str, object] = {"checkpoint.enabled": False}


@pytest.mark.parametrize("lost", [1, 3, 5, 7])
def test_no_commit_is_acknowledged_over_a_version_that_is_lost(tmp_path: Path, lost: int) -> None:
    root = tmp_path / "t"
    table_of(root, appends=3, options=PLAIN)
    table = Table.open(str(root))
    for n in range(5):
        table.append(rows([100 + n]))
    newest = table.version
    (root / version_path(lost)).unlink()
    for verb in (
        lambda: table.append(rows([9])),
        lambda: table.delete(where="id = 1"),
        lambda: table.merge(),
    ):
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


def test_a_hole_that_a_checkpoint_in_the_background_finds_is_the_error_of_the_next_commit(
    tmp_path: Path,
) -> None:
    root = tmp_path / "t"
    table = table_of(
        root, appends=1, options={"checkpoint.interval": 4, "checkpoint.async.parallelism": 1}
    )
    queue, gate = CheckpointQueue(1), threading.Event()
    assert queue.submit("another table", lambda: assert_opened(gate), shutdown_timeout_s=60)
    table.handle.log.context.background = queue
    for n in range(3):
        table.append(rows([100 + n]))
    kept = (root / version_path(2)).read_bytes()
    (root / version_path(2)).unlink()
    gate.set()
    assert queue.wait(60)
    assert table.handle.log.upkeep.failures == 1
    with pytest.raises(LogGapError, match="Version 2 "):
        table.append(rows([9]))
    (root / version_path(2)).write_bytes(kept)
    PROCESS_CACHE.invalidate()
    Table.open(str(root)).append(rows([10]))
    assert ids(Table.open(str(root))) == [*range(11), 100, 101, 102]


def assert_opened(gate: threading.Event) -> None:
    assert gate.wait(60)


def test_the_hint_of_a_hole_leads_to_a_repair_in_place_that_keeps_what_came_after(
    tmp_path: Path,
) -> None:
    root = tmp_path / "t"
    table_of(root, appends=6, options=PLAIN)
    (root / version_path(3)).unlink()
    PROCESS_CACHE.invalidate()
    with pytest.raises(LogGapError, match="Version 3 ") as caught:
        Table.open(str(root))
    assert "Table.repair(path)" in (caught.value.hint or "")
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    planned = Table.repair(str(root), dry_run=True)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    report = Table.repair(str(root))
    assert {**report.to_dict(), "status": "dry_run"} == planned.to_dict()
    assert report.missing_versions == (3,)
    assert "Version 3 was lost" in report.message
    assert "1 split in the store was left out" in report.message
    assert all(path.read_bytes() == content for path, content in before.items())
    PROCESS_CACHE.invalidate()
    table = Table.open(str(root), options={"purge.retentionCheckEnabled": False})
    kept = [*range(20), *range(30, 60)]
    assert (table.version, ids(table)) == (7, kept)
    table.append(rows([100]))
    table.truncate_time_travel()
    table.purge(older_than_hours=0, log_retention_hours=0)
    PROCESS_CACHE.invalidate()
    table = Table.open(str(root))
    assert ids(table) == [*kept, 100]
    assert table.verify(full=True).healthy


@pytest.mark.parametrize("damage", ["lost", "empty", "garbled"])
@pytest.mark.parametrize("partitioned", [False, True])
def test_the_hint_of_a_lost_first_version_leads_to_a_repair_in_place(
    tmp_path: Path, damage: str, *, partitioned: bool
) -> None:
    root = tmp_path / "t"
    table = table_of(root, appends=3, partitioned=partitioned, options=PLAIN)
    table.delete(where="id = 5")
    first = root / version_path(0)
    first.unlink() if damage == "lost" else first.write_bytes(b"" if damage == "empty" else b"{")
    PROCESS_CACHE.invalidate()
    with pytest.raises(CorruptTableError) as caught:
        Table.open(str(root))
    assert "Table.repair(path)" in (caught.value.hint or "")
    report = Table.repair(str(root))
    assert (report.missing_versions, report.status) == ((0,), "success")
    PROCESS_CACHE.invalidate()
    mended = Table.open(str(root))
    assert mended.schema == table.schema
    assert mended.partition_columns == table.partition_columns
    assert ids(mended) == [n for n in range(30) if n != 5]
    assert mended.count(query="message:disk") == table.count(query="message:disk")
    mended.append(rows([100]))
    PROCESS_CACHE.invalidate()
    assert len(ids(Table.open(str(root)))) == 30


def test_a_repair_in_place_leaves_out_splits_that_are_gone_and_names_them(tmp_path: Path) -> None:
    root = tmp_path / "t"
    table = table_of(root, appends=4, options=PLAIN)
    gone = table.files()["path"][0].as_py()
    (root / gone).unlink()
    (root / version_path(2)).unlink()
    PROCESS_CACHE.invalidate()
    report = Table.repair(str(root))
    assert [left.path for left in report.left_out] == [gone]
    PROCESS_CACHE.invalidate()
    assert len(ids(Table.open(str(root)))) == 20
