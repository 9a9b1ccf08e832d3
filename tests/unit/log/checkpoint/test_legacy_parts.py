"""Checkpoints of the older forms in several files, as a single object, and for readers of protocol
2.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables.config.log import CheckpointSettings
from indextables.errors import BadFileError, CheckpointCorruptionError
from indextables.log.checkpoint import legacy
from indextables.log.log_files import PARQUET_CHECKPOINTS, list_log
from indextables.model.actions import LogAction
from indextables.storage.local import LocalStore
from indextables.wire import old_checkpoints, version_file
from tests.support.state_logs import commit, file, live, new_state_log, state_log

FILES = 200


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legacy, "_BATCH_ROWS", 10)
    monkeypatch.setattr(old_checkpoints, "ROWS_PER_GROUP", 10)


def checkpointed(path: Path, **settings: object) -> list[str]:
    """A table with a checkpoint of these settings and one more version; the files that it has."""
    log = new_state_log(path, checkpoint=CheckpointSettings(interval=1000, **settings))  # type: ignore[arg-type]
    commit(log, *(file(n) for n in range(FILES)))
    log.checkpoint()
    commit(log, file(FILES), removes=[file(3).path])
    return sorted(file(n).path for n in range(FILES + 1) if n != 3)


def parts(path: Path) -> list[Path]:
    return sorted((path / PARQUET_CHECKPOINTS).glob("*.checkpoint.*-*.parquet"))


def test_a_parquet_checkpoint_goes_on_in_further_parts(tmp_path: Path) -> None:
    files = checkpointed(tmp_path, format="parquet", max_file_bytes=20_000)
    assert len(parts(tmp_path)) >= 2
    log = state_log(LocalStore(str(tmp_path)))
    snapshot = log.newest()
    assert snapshot.base.header.version == 1 and live(snapshot) == files
    pointer = json.loads((tmp_path / "_transaction_log/_last_checkpoint").read_bytes())
    assert (pointer["format"], pointer["parts"], pointer["numFiles"]) == (
        "parquet",
        len(parts(tmp_path)) + 1,
        FILES,
    )
    note = json.loads((tmp_path / PARQUET_CHECKPOINTS / f"{1:020d}.checkpoint.json").read_bytes())
    assert (note["version"], note["size"], note["parts"]) == (1, FILES, pointer["parts"])
    assert log.damage() is None


@pytest.mark.parametrize("damage", ["gone", "cut", "swapped"])
def test_a_part_that_is_not_there_or_not_right_is_damage_and_healed(
    tmp_path: Path, damage: str
) -> None:
    files = checkpointed(tmp_path, format="parquet", max_file_bytes=20_000)
    first, second, *_ = parts(tmp_path)
    if damage == "gone":
        first.unlink()
    else:
        first.write_bytes(second.read_bytes() if damage == "swapped" else first.read_bytes()[:-10])
    log = state_log(
        LocalStore(str(tmp_path)), checkpoint=CheckpointSettings(interval=1000, format="parquet")
    )
    assert isinstance(log.damage(), CheckpointCorruptionError)
    assert live(log.newest()) == files and log.newest().base.header.version == -1
    assert log.heal() is not None
    assert log.damage() is None and live(log.reload()) == files


def test_parts_that_no_checkpoint_names_are_cleaned_and_others_stay(tmp_path: Path) -> None:
    checkpointed(tmp_path, format="parquet", max_file_bytes=20_000)
    stray = tmp_path / PARQUET_CHECKPOINTS / f"{1:020d}.checkpoint.0-0.00001.parquet"
    stray.write_bytes(b"PAR1")
    log = state_log(LocalStore(str(tmp_path)))
    inventory = log.cleaner().inventory()
    named = inventory.legacy_checkpoints[1].names
    assert (
        named is not None
        and len(named) == len(parts(tmp_path)) - 1
        and set(inventory.parts) - named == {f"{PARQUET_CHECKPOINTS}/{stray.name}"}
    )


def test_without_checkpoints_a_reader_replays_every_version(tmp_path: Path) -> None:
    files = checkpointed(tmp_path, format="avro")
    assert state_log(LocalStore(str(tmp_path))).newest().base.header.version == 1
    off = CheckpointSettings(enabled=False)
    replayed = state_log(LocalStore(str(tmp_path)), checkpoint=off).newest()
    assert replayed.base.header.version == -1 and live(replayed) == files
    (tmp_path / f"_transaction_log/{0:020d}.json").unlink()
    again = state_log(LocalStore(str(tmp_path)), checkpoint=off).newest()
    assert again.base.header.version == 1 and live(again) == files


def test_a_json_checkpoint_goes_on_by_size(tmp_path: Path) -> None:
    files = checkpointed(tmp_path, format="json", max_file_bytes=20_000)
    assert len(list((tmp_path / "_transaction_log").glob("*.checkpoint.*-*.json"))) >= 2
    snapshot = state_log(LocalStore(str(tmp_path))).newest()
    assert snapshot.base.header.version == 1 and live(snapshot) == files


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_a_large_checkpoint_passes_through_memory_a_few_files_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """Written and read back to be proven: the files are never objects, nor whole rows, all at once."""
    monkeypatch.setattr(old_checkpoints, "LINES_PER_SLICE", 7)
    most = []
    decode, groups = version_file.decode_lines, old_checkpoints._file_list

    def decoded(*args: Any, **options: Any) -> list[LogAction]:
        actions = decode(*args, **options)
        most.extend([len(actions)] if ".checkpoint." in options["path"] else [])
        return actions

    def listed(rows: pa.Table) -> pa.Table:
        most.append(rows.num_rows)
        return groups(rows)

    monkeypatch.setattr(version_file, "decode_lines", decoded)
    monkeypatch.setattr(old_checkpoints, "_file_list", listed)
    files = checkpointed(tmp_path, format=form, max_file_bytes=20_000)
    assert 0 < max(most) <= 10 and sum(most) >= FILES
    snapshot = state_log(LocalStore(str(tmp_path))).newest()
    assert snapshot.base.header.version == 1 and live(snapshot) == files


def test_a_line_that_cannot_be_read_has_its_own_number_in_any_slice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(old_checkpoints, "LINES_PER_SLICE", 4)
    lines = version_file.encode([file(n) for n in range(12)], compress=False).splitlines()
    lines[9] = b"{no json"
    with pytest.raises(BadFileError, match="line 10,"):
        list(old_checkpoints.decode_slices(b"\n".join(lines), path="part"))
    del lines[9]
    whole = [
        action
        for some in old_checkpoints.decode_slices(b"\n".join(lines), path="part")
        for action in some
    ]
    assert whole == old_checkpoints.decode_part(b"\n".join(lines), path="part") and len(whole) == 11


def test_the_single_object_is_as_specified_and_read_back(tmp_path: Path) -> None:
    files = checkpointed(tmp_path, format="json", json_layout="object", max_file_bytes=20_000)
    written = json.loads((tmp_path / f"_transaction_log/{1:020d}.checkpoint.json").read_text())
    assert {"protocol", "metaData", "add"} <= written.keys()
    assert written["metaData"]["id"] == "t" and len(written["add"]) == FILES
    assert written["add"][0].keys() >= {
        "path",
        "partitionValues",
        "size",
        "modificationTime",
        "dataChange",
    }
    log = state_log(LocalStore(str(tmp_path)))
    assert log.newest().base.header.version == 1 and live(log.newest()) == files
    assert log.damage() is None and list(list_log(log.store).legacy_checkpoints) == [1]
