"""Tables of protocol 1 to 3, and of an engine that commits by states: read, searched, continued and
upgraded.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indextables import Table
from indextables.errors import CorruptTableError
from indextables.log import log_files
from indextables.model.actions import ProtocolAction
from indextables.wire import version_file
from indextables.wire.state import decode_state
from tests.support.older_logs import ManifestPaths, SchemaPlace, older_protocol, states_alone
from tests.support.rows import ids, rows, table_of
from tests.support.stores import contents

FEATURES = ["multiPartCheckpoint", "schemaDeduplication"]
PROTOCOLS: dict[str, tuple[dict[str, Any] | None, SchemaPlace]] = {
    "V1, without a protocol": (None, "inline"),
    "V1": ({"minReaderVersion": 1, "minWriterVersion": 2}, "inline"),
    "V2": ({"minReaderVersion": 2, "minWriterVersion": 2}, "inline"),
    "V3": (
        {
            "minReaderVersion": 3,
            "minWriterVersion": 3,
            "readerFeatures": FEATURES,
            "writerFeatures": FEATURES,
        },
        "registry",
    ),
}
every_protocol = pytest.mark.parametrize("name", PROTOCOLS)
every_path = pytest.mark.parametrize("paths", ["shared", "normalized", "bare"])
UNCACHED: dict[str, object] = {"transaction.cache.enabled": False}


def older(tmp_path: Path, name: str, *, absolute: bool = False) -> Path:
    """Thirty rows in three partitions, in versions 1 to 3."""
    protocol, schemas = PROTOCOLS[name]
    source = table_of(tmp_path / "source", appends=3, partitioned=True)
    return older_protocol(source, tmp_path / "t", protocol, schemas=schemas, absolute=absolute)


def foreign(tmp_path: Path, **form: Any) -> Path:
    """The same rows in an engine's states 1 to 3."""
    return states_alone(
        table_of(tmp_path / "source", appends=3, partitioned=True), tmp_path / "t", **form
    )


def fresh(root: Path, **chosen: Any) -> Table:
    return Table.open(str(root), options=UNCACHED, **chosen)


def check_rows(root: Path) -> None:
    """Rows, partitions and words are those of the source."""
    table = fresh(root)
    assert ids(table) == list(range(30))
    assert ids(table, where="day = 1") == list(range(1, 30, 3))
    assert table.count(query="message:disk") == sum(
        "disk" in text for text in rows(range(30))["message"].to_pylist()
    )


@every_protocol
@pytest.mark.parametrize("absolute", [False, True], ids=["relative paths", "absolute paths"])
def test_a_table_of_an_older_protocol_is_read_at_every_version(
    tmp_path: Path, name: str, absolute: bool
) -> None:
    root = older(tmp_path, name, absolute=absolute)
    check_rows(root)
    protocol = PROTOCOLS[name][0] or {"minReaderVersion": 1, "minWriterVersion": 1}
    table = fresh(root)
    assert table.protocol.min_reader_version == protocol["minReaderVersion"]
    assert list(table.protocol.reader_features or ()) == protocol.get("readerFeatures", [])
    for version in range(4):
        assert ids(fresh(root, version=version)) == list(range(version * 10))
    assert table.state().format == "none" and table.verify(full=True).healthy


@every_protocol
def test_a_table_of_an_older_protocol_is_continued(tmp_path: Path, name: str) -> None:
    root = older(tmp_path, name)
    assert fresh(root).append(rows([100])) is not None
    assert ids(fresh(root)) == [*range(30), 100]
    fresh(root).merge()
    assert ids(fresh(root)) == [*range(30), 100] and fresh(root).verify(full=True).healthy


@every_protocol
def test_a_checkpoint_upgrades_a_table_and_changes_no_data_file(tmp_path: Path, name: str) -> None:
    """The protocol is raised in a version; the state shows as avro-state, and older versions stay
    readable.
    """
    root = older(tmp_path, name)
    before = contents(root)
    fresh(root).checkpoint()
    after = contents(root)
    assert {path: after[path] for path in before} == before, (
        "neither a split nor a version file changed"
    )
    assert {path.split("/")[0] for path in after.keys() - before.keys()} == {log_files.LOG}
    table = fresh(root)
    assert (table.protocol.min_reader_version, table.protocol.min_writer_version) == (4, 4)
    state = table.state()
    assert (state.format, state.protocol_version, state.num_files) == ("avro-state", 4, 9)
    actions = version_file.decode(after[log_files.version_path(state.version or 0)], path="v")
    assert any(
        isinstance(action, ProtocolAction) and action.min_reader_version == 4 for action in actions
    )
    check_rows(root)
    assert ids(fresh(root, version=2)) == list(range(20))
    for version in range(state.version or 0):
        (root / log_files.version_path(version)).unlink()
    check_rows(root)


@every_path
@pytest.mark.parametrize("as_json", [False, True], ids=["_manifest.avro", "_manifest.json"])
def test_states_of_another_engine_are_read_whatever_form_their_manifest_paths_have(
    tmp_path: Path, paths: ManifestPaths, as_json: bool
) -> None:
    root = foreign(tmp_path, paths=paths, as_json=as_json)
    check_rows(root)
    table = fresh(root)
    assert (table.version, table.state().num_files, table.state().num_manifests) == (3, 9, 3)
    for version in (1, 2):
        assert ids(fresh(root, version=version)) == list(range(version * 10))
    (root / log_files.POINTER).unlink()
    check_rows(root)


@pytest.mark.parametrize(
    "path", ["../../elsewhere.avro", "/tmp/elsewhere.avro", "manifests/../../../elsewhere.avro"]
)
def test_a_manifest_path_that_leads_out_of_the_log_is_refused(tmp_path: Path, path: str) -> None:
    root = foreign(tmp_path, as_json=True)
    for state in (root / log_files.LOG).glob("state-v*/_manifest.json"):
        content = json.loads(state.read_text())
        state.write_text(
            json.dumps(
                {**content, "manifests": [{**m, "path": path} for m in content["manifests"]]}
            )
        )
    with pytest.raises(CorruptTableError):
        ids(fresh(root))


@every_path
def test_a_table_of_another_engine_is_continued_and_upgraded(
    tmp_path: Path, paths: ManifestPaths
) -> None:
    root = foreign(tmp_path, paths=paths)
    splits = {path: data for path, data in contents(root).items() if path.endswith(".split")}
    version = fresh(root).append(rows([100]))
    assert version == 4 and ids(fresh(root)) == [*range(30), 100]
    fresh(root).compact()
    table = fresh(root)
    state = table.state()
    assert (state.format, state.num_files, state.num_tombstones, state.num_manifests) == (
        "avro-state",
        10,
        0,
        1,
    )
    after = contents(root)
    assert {path: after[path] for path in splits} == splits
    assert ids(table) == [*range(30), 100] and table.verify(full=True).healthy


def test_the_first_write_keeps_an_engine_out_that_does_not_know_our_splits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = foreign(tmp_path)
    with caplog.at_level(logging.WARNING):
        version = fresh(root).append(rows([100]))
    assert version is not None
    warnings = [
        record.getMessage() for record in caplog.records if "another engine" in record.getMessage()
    ]
    assert len(warnings) == 1
    actions = version_file.decode((root / log_files.version_path(version)).read_bytes(), path="v")
    (protocol,) = [action for action in actions if isinstance(action, ProtocolAction)]
    assert "parquetSplits" in (protocol.reader_features or ()) and "parquetSplits" in (
        protocol.writer_features or ()
    )
    state = max((root / log_files.LOG).glob("state-v*/_manifest.avro"))
    assert state.parent.name == f"state-v{version:020d}"
    said = decode_state(state.read_bytes(), path=str(state)).protocol_version
    assert said == 5, "an engine that reads states alone knows 4 and refuses 5"
    caplog.clear()
    fresh(root).append(rows([101]))
    assert not [record for record in caplog.records if "another engine" in record.getMessage()]
    assert ids(fresh(root)) == [*range(30), 100, 101]


BREAKS: dict[str, Callable[[bytes], bytes | None]] = {
    "missing": lambda data: None,
    "empty": lambda data: b"",
    "cut short": lambda data: data[: len(data) * 2 // 3],
    "cut by one": lambda data: data[:-1],
    "garbled": lambda data: b"\x00garbage" * 9,
    "flipped early": lambda data: bytes([*data[:8], data[8] ^ 0x10, *data[9:]]),
    "flipped late": lambda data: bytes([*data[:-9], data[-9] ^ 0x10, *data[-8:]]),
}
LOGS: dict[str, Callable[[Path], Path]] = {
    "ours": lambda tmp_path: with_states(tmp_path, "avro"),
    "JSON checkpoints": lambda tmp_path: with_states(tmp_path, "json"),
    "Parquet checkpoints": lambda tmp_path: with_states(tmp_path, "parquet"),
    "another engine's": foreign,
}


def with_states(tmp_path: Path, form: str) -> Path:
    """A table with checkpoints of versions 2 and 4, and versions between and after them."""
    options: dict[str, object] = {"state.format": form, "checkpoint.interval": 1_000}
    table = table_of(tmp_path / "t", appends=2, options=options)
    for n in range(2, 6):
        if n in (2, 4):
            table.checkpoint()
        table.append(rows(range(n * 10, n * 10 + 10)))
    return tmp_path / "t"


@pytest.mark.parametrize("kind", BREAKS)
@pytest.mark.parametrize("log", LOGS)
def test_with_any_one_file_broken_a_table_is_right_or_refused_by_name(
    tmp_path: Path, log: str, kind: str
) -> None:
    """If the newest commit itself is missing, nothing is left that names it: the table is as it was
    before it.
    """
    root = LOGS[log](tmp_path)
    right = ids(fresh(root))
    files = sorted(path for path in (root / log_files.LOG).rglob("*") if path.is_file())
    newest = max((root / log_files.LOG).glob("0*.json")) if log != "another engine's" else None
    if newest is None:
        newest = max((root / log_files.LOG).glob("state-v*")) / "_manifest.avro"
    whole = shutil.copytree(root / log_files.LOG, tmp_path / "log")
    read = 0
    for file in files:
        content = BREAKS[kind](file.read_bytes())
        file.unlink()
        if content is not None:
            file.write_bytes(content)
        try:
            found = ids(fresh(root))
        except CorruptTableError as error:
            assert error.context["path"], file
        else:
            read += 1
            assert found == (right[:-10] if kind == "missing" and file == newest else right), file
        shutil.rmtree(root / log_files.LOG)
        shutil.copytree(whole, root / log_files.LOG)
    assert read


def test_a_broken_state_is_reported_once_and_healed_by_a_checkpoint(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = with_states(tmp_path, "avro")
    newest = max((root / log_files.LOG).glob("state-v*/_manifest.avro"))
    newest.write_bytes(b"garbage")
    table = Table.open(str(root))
    table.invalidate_cache()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert ids(table.refresh()) == list(range(60))
    reports = [
        record
        for record in caplog.records
        if record.name == "indextables.log.checkpoint.state_reader"
    ]
    assert [newest.parent.name in record.getMessage() for record in reports] == [True]
    table.checkpoint()
    caplog.clear()
    assert ids(fresh(root)) == list(range(60)) and caplog.records == []
