"""What the specification says of states, checkpoints and clean-up, where a default or another
setting hid it.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from indextables import AddAction, Table, sql
from indextables.errors import CheckpointWriteError, StorageFullError
from indextables.handle import log_settings
from indextables.log.context import LogContext
from indextables.log.log_files import LOG
from indextables.log.transaction_log import TransactionLog
from indextables.storage.local import LocalStore
from tests.support.faulty_store import Fault, FaultyStore
from tests.support.rows import ids, rows, table_of
from tests.support.stores import age
from tests.support.tables import SCHEMA, append


def described_format(table: Table) -> str:
    found: str = sql(f"DESCRIBE INDEXTABLES STATE '{table.path}'").column("format")[0].as_py()
    return found


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "avro-state"),
        ({"state.format": "json"}, "json"),
        ({"state.format": "json", "checkpoint.json.layout": "object"}, "json"),
        ({"state.format": "parquet"}, "parquet"),
        ({"state.format": "json", "checkpoint.maxFileSize": "1K"}, "json-multipart"),
    ],
)
def test_the_state_names_its_format(tmp_path: Path, options: dict[str, object], name: str) -> None:
    table = table_of(tmp_path / "t", appends=4, options=options)
    assert described_format(table) == "none"
    assert table.checkpoint().format == name
    assert described_format(table) == name


@pytest.mark.parametrize("to", [2, 3])
def test_the_state_names_its_format_after_a_downgrade(tmp_path: Path, to: int) -> None:
    table = table_of(tmp_path / "t", appends=12)
    assert described_format(table) == "avro-state"
    table.admin.downgrade_protocol(to=to, log_only=True)
    assert described_format(table) == "json"


def test_a_part_of_a_json_checkpoint_is_no_larger_than_its_limit(tmp_path: Path) -> None:
    options = {
        "state.format": "json",
        "checkpoint.maxFileSize": "8K",
        "transaction.compression.enabled": False,
    }
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, options=options)
    append(table, *(f"split-{number}" for number in range(300)))
    assert table.checkpoint().format == "json-multipart"
    parts = [*(tmp_path / "t" / LOG).glob("*.checkpoint.*.json")]
    assert len(parts) > 5
    assert max(part.stat().st_size for part in parts) <= 8 << 10
    table.invalidate_cache()
    assert Table.open(table.path).files().num_rows == 300


def clean_up_of(tmp_path: Path, options: dict[str, object]) -> list[str]:
    """The version files that are left after the automatic clean-up of a log that is 50 hours old."""
    table = table_of(tmp_path / "t", appends=9, options={"checkpoint.retention": 0, **options})
    age(table.path, hours=50)
    table.append(rows([100]))
    assert ids(Table.open(table.path)) == [*range(90), 100]
    return sorted(path.name for path in (tmp_path / "t" / LOG).glob("0*.json"))


def test_the_retention_of_a_purge_alone_shortens_the_clean_up(tmp_path: Path) -> None:
    assert len(clean_up_of(tmp_path / "default", {})) == 11
    assert len(clean_up_of(tmp_path / "purge", {"purge.txLogRetentionHours": 48})) < 3
    both = {"purge.txLogRetentionHours": 48, "logRetention.duration": "30 days"}
    assert len(clean_up_of(tmp_path / "both", both)) == 11


def test_the_folders_of_deleted_states_go(tmp_path: Path) -> None:
    options: dict[str, object] = {
        "checkpoint.interval": 1,
        "state.retention.hours": 0,
        "state.gc.minManifestAgeHours": 0,
    }
    table = table_of(tmp_path / "t", appends=3, options=options)
    (tmp_path / "t" / LOG / f"state-v{1:020d}").mkdir(exist_ok=True)  # as an older release left it
    age(table.path, hours=1)
    for number in range(3):
        table.append(rows([100 + number]))
    folders = [*(tmp_path / "t" / LOG).glob("state-v*")]
    assert folders
    assert all(any(folder.iterdir()) for folder in folders)


def test_a_folder_of_a_state_that_is_being_written_stays(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=12)
    ahead = tmp_path / "t" / LOG / f"state-v{99:020d}"
    ahead.mkdir()
    age(table.path, hours=10_000)
    table.truncate_time_travel()
    assert ahead.is_dir()


def test_statistics_that_only_the_json_text_has_skip_splits(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA)
    with table.transaction(check_splits=False) as tx:
        for number in range(4):
            stats = f'{{"numRecords":10,"minValues":{{"id":{number * 10}}},"maxValues":{{"id":{number * 10 + 9}}}}}'
            tx.add(AddAction(path=f"splits/{number}.split", size=1, num_records=10, stats=stats))
        tx.add(
            AddAction(path="splits/bad.split", size=1, num_records=10, stats='{"minValues":{"id":')
        )
    for checkpointed in (False, True):
        if checkpointed:
            table.checkpoint()
        left = Table.open(table.path).files(where="id = 25").column("path").to_pylist()
        assert sorted(left) == ["splits/2.split", "splits/bad.split"]


def test_a_merge_leaves_a_state_without_tombstones(tmp_path: Path) -> None:
    options: dict[str, object] = {
        "state.entriesPerManifest": 8,
        "state.compaction.tombstoneThreshold": 1,
    }
    table = table_of(tmp_path / "t", appends=24, options=options)
    table.compact()
    table.merge(target_size="1G", max_source_splits=2, max_dest_splits=1)
    state = table.state()
    assert (state.version, state.num_manifests > 1, state.num_tombstones) == (
        table.version,
        True,
        0,
    )
    assert ids(Table.open(table.path)) == list(range(240))


def test_a_checkpoint_that_cannot_be_written_is_an_error_of_its_own(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2)
    fault = Fault(
        verb="put_if_absent",
        path_contains="state-v",
        times=99,
        error=lambda: StorageFullError("The disk is full."),
    )
    table.handle.log.context.store = FaultyStore(LocalStore(table.path), [fault])
    log = TransactionLog(LogContext(table.handle.log.store, log_settings(table.settings)))
    with pytest.raises(
        CheckpointWriteError,
        match=f"checkpoint of version 2 of {table.path} failed: The disk is full",
    ) as caught:
        log.checkpoint()
    assert isinstance(caught.value.__cause__, StorageFullError)
    assert ids(Table.open(table.path)) == list(range(20))


def test_a_folder_that_cannot_be_written_makes_a_checkpoint_fail_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(tmp_path / "t", appends=2)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("indextables.storage.local._make_folder", refuse)
    with pytest.raises(CheckpointWriteError, match="Permission denied"):
        table.checkpoint()


def test_a_clean_up_of_many_files_is_a_short_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        clean_up_of(tmp_path, {"purge.txLogRetentionHours": 1})
    lines = [
        (r.levelno, r.getMessage()) for r in caplog.records if "cleaned the log" in r.getMessage()
    ]
    (info,) = [text for level, text in lines if level == logging.INFO]
    assert len(info) < 300
    assert "versions 0 to " in info
    assert f"{os.sep}{LOG}{os.sep}0" not in info
    assert any(".json" in text for level, text in lines if level == logging.DEBUG)


def test_the_line_of_a_checkpoint_gives_its_size(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = table_of(tmp_path / "t", appends=2)
    with caplog.at_level(logging.INFO):
        table.checkpoint()
    (line,) = [
        r.getMessage()
        for r in caplog.records
        if "created a checkpoint of version 2" in r.getMessage()
    ]
    written = sum(path.stat().st_size for path in (tmp_path / "t" / LOG / "manifests").iterdir())
    assert f"{written} bytes" in line


def test_a_skip_is_a_warning_with_its_reason_and_a_cooldown_is_for_debugging(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = table_of(tmp_path / "t", appends=3)
    path = table.files().column("path")[0].as_py()
    with caplog.at_level(logging.DEBUG):
        table.admin.record_skipped_file(path, "the footer cannot be read")
        table.merge(dry_run=True)
    skipped = [r for r in caplog.records if r.getMessage().startswith("skipped")]
    assert [r.levelno for r in skipped] == [logging.WARNING]
    assert "the footer cannot be read" in skipped[0].getMessage()
    left = [r for r in caplog.records if "left alone until" in r.getMessage()]
    assert [(r.levelno, path in r.getMessage()) for r in left] == [(logging.DEBUG, True)]
