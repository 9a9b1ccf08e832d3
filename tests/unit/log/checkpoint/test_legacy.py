"""Tables of older releases: JSON checkpoints of every form and Parquet ones, read, written,
damaged, upgraded.
"""

from __future__ import annotations

import gzip
import json
import logging
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from indextables.config.log import CheckpointSettings
from indextables.errors import CorruptTableError
from indextables.log import log_files
from indextables.log.transaction_log import TransactionLog
from indextables.storage.local import LocalStore
from indextables.wire import old_checkpoints
from tests.support.state_logs import commit, file, live, new_state_log, newest_state, state_log

SCHEMA_STRING = (
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
)
PROTOCOL = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 2}}
METADATA = {
    "metaData": {
        "id": "old",
        "schemaString": SCHEMA_STRING,
        "partitionColumns": [],
        "configuration": {},
    }
}


def add(name: str) -> dict[str, Any]:
    return {
        "add": {
            "path": name,
            "partitionValues": {},
            "size": len(name),
            "modificationTime": 1,
            "dataChange": True,
        }
    }


def write(path: Path, lines: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("\n".join(json.dumps(line) for line in lines).encode())


def old_table(root: Path) -> Path:
    """Versions 0 to 6 of a V2 table; version n adds `f<n>`, version 3 removes f1."""
    log = root / log_files.LOG
    write(log / f"{0:020d}.json", [PROTOCOL, METADATA])
    for n in range(1, 7):
        extra = [{"remove": {"path": "f1", "dataChange": True}}] if n == 3 else []
        write(log / f"{n:020d}.json", [add(f"f{n}"), *extra])
    return log


LIVE_AT_4 = ["f2", "f3", "f4"]
LIVE = ["f2", "f3", "f4", "f5", "f6"]


def as_lines(log: Path) -> None:
    lines = [PROTOCOL, METADATA, *(add(name) for name in LIVE_AT_4)]
    data = "\n".join(json.dumps(line) for line in lines).encode()
    (log / f"{4:020d}.checkpoint.json").write_bytes(gzip.compress(data))


def as_whole_history(log: Path) -> None:
    """All actions from version 0 on, removed files and all."""
    removal: dict[str, Any] = {"remove": {"path": "f1"}}
    lines: list[dict[str, Any]] = [
        PROTOCOL,
        METADATA,
        *(add(f"f{n}") for n in range(1, 5)),
        removal,
    ]
    write(log / f"{4:020d}.checkpoint.json", lines)


def as_object(log: Path) -> None:
    content = {**PROTOCOL, **METADATA, "add": [add(name)["add"] for name in LIVE_AT_4]}
    (log / f"{4:020d}.checkpoint.json").write_text(json.dumps(content, indent=1))
    (log / "_last_checkpoint").write_text('{"version":4}')


def as_parts(log: Path) -> None:
    parts = [f"{4:020d}.checkpoint.abc.{n:05d}.json" for n in (1, 2)]
    write(log / parts[0], [PROTOCOL, METADATA, add("f2")])
    write(log / parts[1], [add("f3"), add("f4")])
    manifest = {
        "version": 4,
        "checkpointId": "abc",
        "parts": parts,
        "createdTime": 1,
        "format": "json",
    }
    (log / f"{4:020d}.checkpoint.json").write_text(json.dumps(manifest))


FORMS = [as_lines, as_whole_history, as_object, as_parts]


def drop_versions(log: Path, below: int) -> None:
    for n in range(below):
        (log / f"{n:020d}.json").unlink()


def open_at(root: Path) -> TransactionLog:
    return state_log(LocalStore(str(root)))


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_a_checkpoint_stands_for_the_versions_before_it(tmp_path: Path, form: Any) -> None:
    log = old_table(tmp_path)
    form(log)
    drop_versions(log, 4)
    snapshot = open_at(tmp_path).newest()
    assert (snapshot.version, snapshot.base.header.version) == (6, 4)
    assert live(snapshot) == LIVE
    assert snapshot.metadata.id == "old"
    assert live(open_at(tmp_path).at_version(4)) == LIVE_AT_4


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_a_damaged_checkpoint_falls_back_to_the_versions(
    tmp_path: Path, form: Any, caplog: pytest.LogCaptureFixture
) -> None:
    log = old_table(tmp_path)
    form(log)
    target = max(log.glob("*.checkpoint*.json"), key=lambda p: p.name)
    target.write_bytes(target.read_bytes()[:-5])
    with caplog.at_level(logging.WARNING):
        assert live(open_at(tmp_path).newest()) == LIVE
    assert target.name in caplog.text
    drop_versions(log, 4)
    with pytest.raises(CorruptTableError, match=target.name.replace(".", r"\.")):
        open_at(tmp_path).newest()


def test_a_missing_part_is_not_a_shorter_table(tmp_path: Path) -> None:
    log = old_table(tmp_path)
    as_parts(log)
    (log / f"{4:020d}.checkpoint.abc.00002.json").unlink()
    assert live(open_at(tmp_path).newest()) == LIVE
    drop_versions(log, 4)
    with pytest.raises(CorruptTableError, match=r"00002\.json, a part of .* is missing"):
        open_at(tmp_path).newest()


@pytest.mark.parametrize("form", [None, *FORMS], ids=lambda f: f.__name__ if f else "versions only")
def test_a_checkpoint_upgrades_to_the_current_form(tmp_path: Path, form: Any) -> None:
    log = old_table(tmp_path)
    if form:
        form(log)
    opened = open_at(tmp_path)
    report = opened.checkpoint()
    assert (report.version, report.protocol_version, report.num_files) == (7, 4, 5)
    snapshot = open_at(tmp_path).newest()
    assert snapshot.header.protocol.min_reader_version == 4
    assert snapshot.header.protocol.min_writer_version == 4
    assert "avroState" in (snapshot.header.protocol.reader_features or ())
    assert newest_state(opened).num_files == 5
    assert live(snapshot) == LIVE
    assert live(open_at(tmp_path).at_version(6)) == LIVE


def test_an_append_upgrades_and_writes_a_state_at_once(tmp_path: Path) -> None:
    old_table(tmp_path)
    log = state_log(LocalStore(str(tmp_path)), checkpoint=CheckpointSettings(interval=70))
    commit(log, file(1))
    assert log.upkeep.failures == 0
    snapshot = open_at(tmp_path).newest()
    assert (snapshot.version, snapshot.base.header.version) == (7, 7)
    assert live(snapshot) == sorted([*LIVE, file(1).path])


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_older_forms_are_written_by_setting(tmp_path: Path, kind: str) -> None:
    log = new_state_log(
        tmp_path, checkpoint=CheckpointSettings(interval=3, format=kind, parquet_compression="zstd")
    )
    mapping = '[{"name":"a"}]'
    for n in range(7):
        commit(log, file(n, doc_mapping_json=mapping), removes=[file(0).path] if n == 4 else [])
    assert log.upkeep.failures == 0
    assert not list((tmp_path / log_files.LOG).glob("state-v*"))
    pointer = json.loads((tmp_path / log_files.POINTER).read_bytes())
    assert (pointer["version"], pointer["format"], pointer["numFiles"]) == (6, kind, 5)
    for version in range(6):
        (tmp_path / log_files.version_path(version)).unlink()
    snapshot = open_at(tmp_path).newest()
    assert (snapshot.version, snapshot.base.header.version) == (7, 6)
    assert live(snapshot) == sorted(file(n).path for n in range(1, 7))
    before = log.newest()
    assert snapshot.header.recent_txn_ids == before.header.recent_txn_ids
    assert [a.get("added_at_version") for a in snapshot.all_files.to_pylist()] == [2, 3, 4, 5, 6, 7]
    if kind == "parquet":
        path = tmp_path / log_files.parquet_checkpoint_path(6)
        assert pq.read_metadata(path).row_group(0).column(0).compression == "ZSTD"
        assert json.loads(path.with_suffix(".json").read_bytes())["version"] == 6


def test_a_state_in_the_registry_reaches_a_json_checkpoint(tmp_path: Path) -> None:
    mapping = '[{"name":"a"}]'
    log = new_state_log(tmp_path)
    commit(log, file(1, doc_mapping_json=mapping))
    log.checkpoint()
    commit(log, file(2))
    state_log(LocalStore(str(tmp_path)), checkpoint=CheckpointSettings(format="json")).checkpoint()
    for derived in (tmp_path / log_files.LOG).glob("state-v*/*"):
        derived.unlink()
    snapshot = open_at(tmp_path).newest()
    assert list(snapshot.schema_registry.values()) == [mapping]


def test_a_large_json_checkpoint_is_written_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(old_checkpoints, "ACTIONS_PER_PART", 20)
    log = new_state_log(tmp_path, checkpoint=CheckpointSettings(format="json"))
    commit(log, *(file(n) for n in range(50)))
    report = log.checkpoint()
    assert report.is_multi_part
    assert len(list((tmp_path / log_files.LOG).glob("*.checkpoint.*.json"))) == 3
    pointer = json.loads((tmp_path / log_files.POINTER).read_bytes())
    assert (pointer["format"], pointer["parts"]) == ("json-multipart", 3)
    drop_versions(tmp_path / log_files.LOG, 1)
    assert live(open_at(tmp_path).newest()) == sorted(file(n).path for n in range(50))


def test_a_parquet_checkpoint_that_spark_wrote_is_a_folder(tmp_path: Path) -> None:
    log = new_state_log(tmp_path, checkpoint=CheckpointSettings(format="parquet"))
    commit(log, file(1), file(2))
    log.checkpoint()
    written = tmp_path / log_files.parquet_checkpoint_path(1)
    data = written.read_bytes()
    written.unlink()
    written.mkdir()
    (written / "part-00000-abc.snappy.parquet").write_bytes(data)
    (written / "_SUCCESS").write_bytes(b"")
    drop_versions(tmp_path / log_files.LOG, 1)
    assert live(open_at(tmp_path).newest()) == sorted(file(n).path for n in (1, 2))


def test_absolute_paths_of_older_writers_are_made_relative(tmp_path: Path) -> None:
    log = old_table(tmp_path)
    content = {
        **PROTOCOL,
        **METADATA,
        "add": [add(f"{tmp_path}/{name}")["add"] for name in LIVE_AT_4],
    }
    (log / f"{4:020d}.checkpoint.json").write_text(json.dumps(content))
    assert live(open_at(tmp_path).newest()) == LIVE
