"""Settings and hints do what they say: each test holds one sentence of the reference."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from indextables import Table
from indextables.errors import CleanupError, LogGapError, UnavailableError
from indextables.log import log_files
from indextables.storage.local import LocalStore
from tests.support.faulty_store import Fault, FaultyStore, StoreWrapper
from tests.support.rows import ids, rows, table_of
from tests.support.stores import age, splits_on_disk
from tests.support.tables import move_log

HOUR_MS = 3_600_000


def test_a_failed_clean_up_is_raised_where_that_is_asked_for_and_the_rows_are_in(
    tmp_path: Path,
) -> None:
    """`cleanup.failurePolicy=fail`: an error of its own, after the commit, and nothing that was
    written is taken back.
    """
    path = tmp_path / "t"
    table = table_of(path, appends=3, options={"checkpoint.interval": 1_000})
    age(path, hours=24 * 60)
    options = {"cleanup.failurePolicy": "fail", "checkpoint.interval": 1, "checkpoint.retention": 0}
    table = Table.open(str(path), options=options)
    move_log(table, FaultyStore(table.handle.log.store, [Fault("delete", times=99)]))
    with pytest.raises(CleanupError, match="was committed") as caught:
        table.append(rows(range(30, 40)))
    assert caught.value.context["version"] == 4
    assert table.version == 4
    fresh = Table.open(str(path))
    assert ids(fresh) == list(range(40))
    assert fresh.verify().healthy


def test_by_default_a_failed_clean_up_is_a_warning_and_affects_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t"
    table_of(path, appends=3, options={"checkpoint.interval": 1_000})
    age(path, hours=24 * 60)
    table = Table.open(str(path), options={"checkpoint.interval": 1, "checkpoint.retention": 0})
    move_log(table, FaultyStore(table.handle.log.store, [Fault("delete", times=99)]))
    with caplog.at_level(logging.WARNING):
        assert table.append(rows(range(30, 40))) == 4
    assert [record for record in caplog.records if "clean" in record.getMessage()]
    fresh = Table.open(str(path))
    assert ids(fresh) == list(range(40)) and fresh.verify().healthy
    assert table.append(rows([40])) == 5


class Slow(StoreWrapper):
    """A store far away that answers slowly for version files."""

    seconds = 0.0

    def get(self, path: str) -> bytes:
        if log_files.version_of(path) is not None:
            time.sleep(self.seconds)
        return super().get(path)

    def local_path(self, path: str) -> Path | None:
        return None


@pytest.mark.parametrize("versions", [1, 6])
def test_reading_the_log_gives_up_when_it_was_told_to(tmp_path: Path, versions: int) -> None:
    """`checkpoint.read.timeoutSeconds` within a fifth, however many files and however slow they
    are.
    """
    table = table_of(tmp_path / "t", appends=versions - 1, options={"checkpoint.interval": 1_000})
    table = Table.open(table.path, options={"checkpoint.read.timeoutSeconds": 1})
    table.handle.log.invalidate_cache()
    slow = Slow(LocalStore(table.path))
    slow.seconds = 6.0
    move_log(table, slow)
    began = time.monotonic()
    with pytest.raises(UnavailableError, match="took longer than 1 s"):
        table.handle.log.reload()
    assert (
        1.0 <= time.monotonic() - began <= 1.2 + 0.3
    )  # what a busy machine needs to start threads


def test_the_repair_that_a_hole_in_the_log_names_works(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = table_of(path, appends=5, options={"checkpoint.interval": 1_000})
    table.handle.log.invalidate_cache()
    (path / log_files.version_path(3)).unlink()
    with pytest.raises(LogGapError) as caught:
        Table.open(str(path))
    assert "Table.repair(path)" in caught.value.hint
    report = Table.repair(str(path))
    assert (report.status, report.source_version, report.valid_splits) == ("success", 5, 4)
    assert ids(Table.open(str(path))) == [*range(20), *range(30, 50)]


def test_the_state_of_a_table_is_the_newest_one_whoever_wrote_it(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = table_of(path, appends=3, options={"checkpoint.interval": 1_000})
    held = Table.open(str(path))
    assert held.state().format == "none"
    table.handle.log.invalidate_cache()
    other = Table.open(str(path))
    other.checkpoint()
    assert (held.state().format, held.state().version) == ("avro-state", 3)


def test_figures_of_the_cache_are_of_the_table(tmp_path: Path) -> None:
    busy = table_of(tmp_path / "busy", appends=4)
    for _ in range(5):
        Table.open(busy.path).files()
    quiet = table_of(tmp_path / "quiet")
    quiet.invalidate_cache()
    before = quiet.cache_stats()
    Table.open(busy.path).files()
    assert quiet.cache_stats() == before
    assert quiet.cache_stats().held_bytes == 0
    assert busy.cache_stats().held_bytes > 0
    Table.open(quiet.path)
    assert quiet.cache_stats().misses != before.misses


def test_purging_on_write_needs_no_other_setting(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    stray = Path(table.path) / "splits/split-stray.split"
    stray.write_bytes(b"stray")
    age(table.path, hours=400, paths=["splits/split-stray.split"])
    told = Table.open(table.path, options={"purgeOnWrite.enabled": True})
    told.append(rows([91]))
    assert not stray.exists()
    assert splits_on_disk(table.path) == set(
        Table.open(table.path).files().column("path").to_pylist()
    )


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({}, False),
        ({"purge.txLogRetentionHours": 24 * 90}, True),
        ({"purge.txLogRetentionHours": 1}, False),
        ({"purge.txLogRetentionHours": 1, "logRetention.duration": 90 * 24 * HOUR_MS}, True),
    ],
)
def test_the_longer_of_two_retentions_counts_for_the_clean_up(
    tmp_path: Path, settings: dict[str, object], kept: bool
) -> None:
    path = tmp_path / "t"
    table_of(path, appends=3, options={"checkpoint.interval": 1_000})
    age(path, hours=24 * 60)
    options = {"checkpoint.interval": 1, "checkpoint.retention": 0, **settings}
    Table.open(str(path), options=options).append(rows([900]))
    assert (path / log_files.version_path(0)).exists() is kept
