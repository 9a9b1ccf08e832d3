"""Promises that no other test shows by itself: by what lies on the disk, what is asked of the
store, and what is told.
"""

from __future__ import annotations

import json
import logging
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from indextables import Table
from indextables.config.log import (
    CheckpointSettings,
    LogReadSettings,
    RetrySettings,
    StateReadSettings,
    StateRetrySettings,
    StateWriteSettings,
)
from indextables.errors import (
    CheckpointCorruptionError,
    CheckpointValidationError,
    CorruptTableError,
    MissingSplitError,
    TableNotFoundError,
    UnsupportedError,
)
from indextables.handle import TableHandle
from indextables.log import log_files
from indextables.log.cache import LogCache
from indextables.log.context import LogContext, LogSettings
from indextables.log.transaction_log import TransactionLog
from indextables.metrics import METRICS
from indextables.model.actions import (
    AddAction,
    MetadataAction,
    ProtocolAction,
    RemoveAction,
    SkipAction,
)
from indextables.model.schema import schema_to_json
from indextables.model.snapshot import Base, CommittedVersion, replay
from indextables.pools import POOLS
from indextables.splits.format.source import open_source
from indextables.splits.read.cache import SplitCache
from indextables.splits.read.reader import SplitReader
from indextables.storage.local import LocalStore
from indextables.storage.store import ObjectInfo, PutOutcome
from indextables.table import verify_table
from indextables.wire import version_file
from indextables.wire.old_checkpoints import encode_parquet_checkpoint
from indextables.wire.state import decode_state, encode_state
from tests.support.faulty_store import StoreWrapper
from tests.support.old_checkpoints_of_others import OTHERS
from tests.support.racing_store import Racing
from tests.support.rows import ids, rows, table_of
from tests.support.sample_actions import ACTIONS
from tests.support.splits import log_rows
from tests.support.state_logs import commit, file, live, new_state_log, newest_state, state_log
from tests.support.stores import age
from tests.support.tables import SCHEMA, RemoteStore, append, create_on
from tests.unit.wire.entries import plain_files


def lines(root: Path | str, version: int) -> list[dict[str, Any]]:
    """The objects of a version file, as they lie on the disk."""
    data = version_file.inflate(Path(root, log_files.version_path(version)).read_bytes(), path="v")
    return [json.loads(line) for line in bytes(data).splitlines()]


def keys(root: Path | str, version: int) -> list[str]:
    return [key for line in lines(root, version) for key in line]


def test_each_line_of_a_version_is_an_object_with_one_key() -> None:
    found = [json.loads(line) for line in version_file.encode(ACTIONS, compress=False).splitlines()]
    wanted = ["commitInfo", "protocol", "metaData", "txn", "add", "remove", "mergeskip"]
    assert [list(line) for line in found] == [[key] for key in wanted]


def test_the_metadata_of_a_new_table_has_every_field(tmp_path: Path) -> None:
    table = Table.create(
        str(tmp_path), schema=SCHEMA, partition_columns=["day"], name="n", description="d"
    )
    assert {"protocol", "metaData"} <= set(keys(tmp_path, 0)) and "add" not in keys(tmp_path, 0)
    (found,) = [line["metaData"] for line in lines(tmp_path, 0) if "metaData" in line]
    assert (found["id"], found["name"], found["description"]) == (table.metadata.id, "n", "d")
    assert found["format"] == {"provider": "indextables", "options": {}}
    assert [field["name"] for field in json.loads(found["schemaString"])["fields"]] == SCHEMA.names
    assert found["partitionColumns"] == ["day"] and isinstance(found["configuration"], dict)
    assert (
        abs(found["createdTime"] - table.history().to_pylist()[0]["timestamp"].timestamp() * 1000)
        < 60_000
    )


NEWER_PROTOCOLS = {
    "reader version": (
        ProtocolAction(min_reader_version=9, min_writer_version=9),
        "reader version 9.*supports up to 4",
    ),
    "reader feature": (
        ProtocolAction(
            min_reader_version=4,
            min_writer_version=4,
            reader_features=("timeMachine",),
            writer_features=("timeMachine",),
        ),
        "timeMachine",
    ),
}
NEWER_WRITERS = {
    "writer version": (
        ProtocolAction(min_reader_version=4, min_writer_version=9),
        "writer version 9.*supports up to 4",
    ),
    "writer feature": (
        ProtocolAction(
            min_reader_version=4, min_writer_version=4, writer_features=("timeMachine",)
        ),
        "timeMachine",
    ),
}


def put_version(root: Path, version: int, *actions: Any) -> None:
    """A version file of another writer."""
    (root / log_files.version_path(version)).write_bytes(version_file.encode(list(actions)))


ODD_LINES = {
    "schema": b'{"metaData":{"id":"m","schemaString":"no schema"}}',
    "path": b'{"add":{"path":"../outside.split","size":1}}',
    "types": b'{"add":{"path":["part","of","a","split"],"size":{"bytes":1}}}',
}


@pytest.mark.parametrize("what", NEWER_PROTOCOLS)
@pytest.mark.parametrize("odd", ODD_LINES)
@pytest.mark.parametrize("together", [True, False], ids=["same version", "next version"])
def test_the_protocol_is_checked_before_anything_else_is_used(
    tmp_path: Path, what: str, odd: str, together: bool
) -> None:
    """A line that this release would take for damage is in the same version or in the next one."""
    protocol, message = NEWER_PROTOCOLS[what]
    table = table_of(tmp_path, appends=1)
    newer, line = version_file.encode([protocol], compress=False), ODD_LINES[odd] + b"\n"
    (tmp_path / log_files.version_path(2)).write_bytes(newer + line if together else newer)
    if not together:
        (tmp_path / log_files.version_path(3)).write_bytes(line)
    table.invalidate_cache()
    for call in (
        lambda: Table.open(str(tmp_path)),
        lambda: table.refresh(),
        lambda: table.append(rows([1])),
    ):
        with pytest.raises(UnsupportedError, match=message):
            call()
    assert not (tmp_path / log_files.version_path(3 if together else 4)).exists()


@pytest.mark.parametrize("what", NEWER_WRITERS)
def test_a_protocol_that_only_writers_lack_lets_readers_in(tmp_path: Path, what: str) -> None:
    protocol, message = NEWER_WRITERS[what]
    table_of(tmp_path, appends=2)
    put_version(tmp_path, 3, protocol)
    table = Table.open(str(tmp_path))
    assert ids(table) == list(range(20))
    splits = sorted(tmp_path.rglob("*.split"))
    for call in (
        lambda: table.append(rows([1])),
        lambda: table.overwrite(rows([1])),
        lambda: table.delete(where="id = 1"),
        lambda: table.merge(),
    ):
        with pytest.raises(UnsupportedError, match=message):
            call()
    assert not (tmp_path / log_files.version_path(4)).exists()
    assert sorted(tmp_path.rglob("*.split")) == splits


def test_an_upgrade_of_the_protocol_is_the_next_version_and_keeps_what_is_higher(
    tmp_path: Path,
) -> None:
    schema_string = schema_to_json(SCHEMA)
    (tmp_path / log_files.LOG).mkdir()
    put_version(
        tmp_path,
        0,
        ProtocolAction(min_reader_version=1, min_writer_version=2),
        MetadataAction(id="t", schema_string=schema_string),
    )
    table = Table.open(str(tmp_path))
    assert table.upgrade_protocol(min_reader_version=2, min_writer_version=3) == 1
    (written,) = [line["protocol"] for line in lines(tmp_path, 1) if "protocol" in line]
    assert (written["minReaderVersion"], written["minWriterVersion"]) == (2, 3)
    assert "metaData" not in keys(tmp_path, 1)
    assert table.upgrade_protocol(min_reader_version=1, min_writer_version=1) is None
    protocol = Table.open(str(tmp_path)).protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (2, 3)


def test_features_are_named_from_protocol_3_on(tmp_path: Path) -> None:
    (tmp_path / log_files.LOG).mkdir()
    put_version(
        tmp_path,
        0,
        ProtocolAction(min_reader_version=1, min_writer_version=2),
        MetadataAction(id="t", schema_string=schema_to_json(SCHEMA)),
    )
    table = Table.open(str(tmp_path))
    named = {}
    for version, number in enumerate((2, 3, 4), 1):
        assert (
            table.upgrade_protocol(min_reader_version=number, min_writer_version=number) == version
        )
        (written,) = [line["protocol"] for line in lines(tmp_path, version) if "protocol" in line]
        named[number] = sorted(
            key for key in ("readerFeatures", "writerFeatures") if written.get(key) is not None
        )
    assert named[2] == [] and named[3] in ([], named[4])
    new = Table.create(str(tmp_path / "new"), schema=SCHEMA)
    (written,) = [line["protocol"] for line in lines(new.path, 0) if "protocol" in line]
    flags = {"avroState", "multiPartCheckpoint", "schemaDeduplication", "parquetSplits"}
    assert flags <= set(written["readerFeatures"])
    assert written["readerFeatures"] == written["writerFeatures"]


@pytest.mark.parametrize(
    "actions", [(ProtocolAction(),), (ProtocolAction(), AddAction(path="a.split", size=1))]
)
def test_a_log_without_metadata_is_an_error_with_the_way_out(
    tmp_path: Path, actions: tuple[Any, ...]
) -> None:
    (tmp_path / log_files.LOG).mkdir()
    put_version(tmp_path, 0, *actions)
    with pytest.raises(CorruptTableError, match="no metadata") as caught:
        Table.open(str(tmp_path))
    assert "Table.repair" in caught.value.hint


@pytest.mark.parametrize("damage", ["garbled", "missing"])
def test_a_table_that_lost_version_0_without_a_checkpoint_is_refused_by_the_name_of_the_file(
    tmp_path: Path, damage: str
) -> None:
    """With the whole log gone there is no table, and its splits are enough to rebuild one."""
    path = tmp_path / "t"
    table = table_of(path, appends=3)
    first = path / log_files.version_path(0)
    first.write_bytes(b"{ nonsense") if damage == "garbled" else first.unlink()
    table.invalidate_cache()
    with pytest.raises(CorruptTableError, match=first.name) as caught:
        Table.open(str(path))
    assert not isinstance(caught.value, TableNotFoundError) and caught.value.hint
    shutil.rmtree(path / log_files.LOG)
    table.invalidate_cache()
    with pytest.raises(TableNotFoundError, match="no transaction log found"):
        Table.open(str(path))
    Table.repair(str(path))
    assert ids(Table.open(str(path))) == list(range(30))


def test_a_checkpoint_starts_from_the_newest_one_and_reads_only_later_versions(
    tmp_path: Path,
) -> None:
    log = new_state_log(tmp_path)
    for n in range(3):
        commit(log, file(n))
    log.checkpoint()
    for version in range(3):
        (tmp_path / log_files.version_path(version)).unlink()
    commit(log, file(3), removes=[file(0).path])
    again = state_log(LocalStore(str(tmp_path)))
    assert again.checkpoint().version == 4
    (tmp_path / log_files.version_path(3)).unlink()
    (tmp_path / log_files.version_path(4)).rename(tmp_path / "kept")
    (tmp_path / "kept").rename(tmp_path / log_files.version_path(4))
    assert live(state_log(LocalStore(str(tmp_path))).newest()) == sorted(
        file(n).path for n in (1, 2, 3)
    )


def test_with_the_cache_off_nothing_of_a_table_is_remembered(tmp_path: Path) -> None:
    cached = table_of(tmp_path, appends=2)
    cached.invalidate_cache()
    before = cached.cache_stats().hits
    off: dict[str, object] = {"transaction.cache.enabled": False}
    for _ in range(2):
        table = Table.open(str(tmp_path), options=off)
        assert ids(table) == list(range(20)) and table.files().num_rows == 2
    stats = cached.cache_stats()
    assert not stats.entries and stats.hits == before
    Table.open(str(tmp_path))
    assert cached.cache_stats().entries


def test_an_append_adds_and_a_merge_removes_and_adds_in_one_version(tmp_path: Path) -> None:
    table = table_of(tmp_path, appends=3)
    sources = {
        line["add"]["path"] for n in (1, 2, 3) for line in lines(tmp_path, n) if "add" in line
    }
    assert keys(tmp_path, 1) == ["commitInfo", "metaData", "add"], (
        "the first names a new doc mapping"
    )
    assert keys(tmp_path, 2) == keys(tmp_path, 3) == ["commitInfo", "add"]
    assert table.merge().version == 4
    assert sorted(keys(tmp_path, 4)) == ["add", "commitInfo", "remove", "remove", "remove"]
    assert {line["remove"]["path"] for line in lines(tmp_path, 4) if "remove" in line} == sources
    (merged,) = [line["add"]["path"] for line in lines(tmp_path, 4) if "add" in line]
    assert table.files().column("path").to_pylist() == [merged]
    assert ids(Table.open(table.path, version=3)) == ids(table) == list(range(30))


def test_protocol_metadata_and_skips_leave_the_list_as_it_is() -> None:
    def version(number: int, *actions: Any) -> CommittedVersion:
        return CommittedVersion(number, number, actions)

    before = replay(Base(), [version(0, AddAction(path="a", size=1), AddAction(path="b", size=2))])
    after = replay(
        before,
        [
            version(1, ProtocolAction(min_reader_version=4)),
            version(2, MetadataAction(id="2", schema_string="")),
            version(3, SkipAction(path="a", skip_timestamp=1, reason="r", operation="merge")),
        ],
    )
    assert after.all_files.equals(before.all_files) and list(after.header.skips) == ["a"]
    assert replay(after, [version(4, RemoveAction(path="a"))]).all_files.num_rows == 1


@pytest.mark.parametrize("form", ["avro", "json", "parquet"])
def test_what_is_not_known_is_passed_over_and_kept_in_a_checkpoint(
    tmp_path: Path, form: str
) -> None:
    log = new_state_log(tmp_path, checkpoint=CheckpointSettings(interval=1000, format=form))
    foreign = [{"add": {"path": "a.split", "size": 1, "shade": {"x": [1]}}}, {"domain": {"y": 2}}]
    place = tmp_path / log_files.version_path(1)
    place.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in foreign))
    assert live(log.reload()) == ["a.split"]
    log.checkpoint()
    for version in range(2):
        (tmp_path / log_files.version_path(version)).unlink()
    snapshot = state_log(LocalStore(str(tmp_path))).newest()
    assert snapshot.base.header.version >= 1
    assert [json.loads(text) for text in snapshot.all_files.column("unknown").to_pylist()] == [
        {"shade": {"x": [1]}}
    ]


def test_whatever_base_it_is_read_from_the_list_is_the_same(tmp_path: Path) -> None:
    log = new_state_log(tmp_path)
    for n in range(9):
        commit(log, file(n), file(100 + n), removes=[file(n - 1).path] if n else [])
        if n % 3 == 2:
            log.checkpoint()
    off = state_log(LocalStore(str(tmp_path)), checkpoint=CheckpointSettings(enabled=False))
    right = {version: live(off.at_version(version)) for version in range(10)}
    assert [len(right[version]) for version in range(10)] == [0, *range(2, 11)]
    bases = set()
    for first in (
        0,
        3,
        6,
        9,
    ):  # the versions before each state go, and it is what is left to begin with
        for version in range(first):
            (tmp_path / log_files.version_path(version)).unlink(missing_ok=True)
        for version in range(first, 10):
            snapshot = state_log(LocalStore(str(tmp_path))).at_version(version)
            bases.add(snapshot.base.header.version)
            assert live(snapshot) == right[version], (first, version)
    assert bases >= {3, 6, 9}


class Meeting(StoreWrapper):
    """A store far away, whose reads of some files wait there for each other."""

    def __init__(self, inner: Any, together: int, waits: Callable[[str], bool]) -> None:
        super().__init__(inner)
        self.waits = waits
        self.together, self.most, self._now, self._met = together, 0, 0, threading.Condition()

    def get(self, path: str) -> bytes:
        if not self.waits(path):
            return super().get(path)
        with self._met:
            self._now += 1
            self.most = max(self.most, self._now)
            self._met.notify_all()
            self._met.wait_for(lambda: self.most >= self.together, timeout=20)
        time.sleep(0.05)  # so that more than are allowed would be seen
        try:
            return super().get(path)
        finally:
            with self._met:
                self._now -= 1

    def local_path(self, path: str) -> Path | None:
        return None


def test_versions_are_read_in_parallel_by_as_many_as_the_setting_says(tmp_path: Path) -> None:
    """One after the other they would wait for each other in vain."""
    log = new_state_log(tmp_path)
    for n in range(11):
        commit(log, file(n))
    for pool in POOLS:
        pool.forget()  # a process that has asked for more threads before hands one more file over
    store = Meeting(
        LocalStore(str(tmp_path)), 3, lambda path: log_files.version_of(path) is not None
    )
    snapshot = state_log(store, read=LogReadSettings(parallelism=3)).newest()
    assert live(snapshot) == sorted(file(n).path for n in range(11))
    assert store.most == 3


def test_manifests_are_read_in_parallel_by_as_many_as_the_setting_says(tmp_path: Path) -> None:
    log = new_state_log(tmp_path, state_write=StateWriteSettings(entries_per_manifest=2))
    commit(log, *(file(n) for n in range(20)))
    log.checkpoint()
    for pool in POOLS:
        pool.forget()
    store = Meeting(LocalStore(str(tmp_path)), 3, lambda path: path.startswith(log_files.MANIFESTS))
    snapshot = state_log(store, state_read=StateReadSettings(parallelism=3)).newest()
    assert live(snapshot) == sorted(file(n).path for n in range(20))
    assert store.most == 3


class Overtaken(StoreWrapper):
    """Just before a state is put, another writer puts one."""

    def __init__(self, inner: Any, first: Callable[[], object]) -> None:
        super().__init__(inner)
        self.first, self.met = first, 0

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        if "state-v" in path and not self.met:
            self.met += 1
            self.first()
        return super().put_if_absent(path, data)


def test_a_state_write_that_loses_its_race_leaves_the_state_of_the_winner(tmp_path: Path) -> None:
    log = new_state_log(tmp_path)
    for n in range(3):
        commit(log, file(n))
        log.checkpoint() if n == 0 else None
    winner = state_log(LocalStore(str(tmp_path)))
    store = Overtaken(LocalStore(str(tmp_path)), winner.checkpoint)
    report = state_log(store).checkpoint()
    assert (store.met, report.version) == (1, 3)
    state = tmp_path / log_files.state_path(3)
    before = state.read_bytes()
    commit(log, file(3))
    state_log(LocalStore(str(tmp_path))).checkpoint()
    assert state.read_bytes() == before
    for version in range(4):
        (tmp_path / log_files.version_path(version)).unlink()
    assert live(state_log(LocalStore(str(tmp_path))).newest()) == sorted(
        file(n).path for n in range(4)
    )


def test_a_state_that_is_overtaken_by_newer_commits_rereads_the_table(tmp_path: Path) -> None:
    """The other writer commits and checkpoints a later version; nothing of it is lost, and the
    pointer stays ahead.
    """
    log = new_state_log(tmp_path)
    commit(log, file(0))

    def others() -> None:
        other = state_log(LocalStore(str(tmp_path)))
        commit(other, file(1), removes=[file(0).path])
        other.checkpoint()

    state_log(Overtaken(LocalStore(str(tmp_path)), others)).checkpoint()
    assert json.loads((tmp_path / log_files.POINTER).read_bytes())["version"] == 2
    for version in range(2):
        (tmp_path / log_files.version_path(version)).unlink()
    assert live(state_log(LocalStore(str(tmp_path))).newest()) == [file(1).path]


class Spoiling(StoreWrapper):
    """What is written to a place is another thing than was sent."""

    def __init__(self, inner: Any, place: str) -> None:
        super().__init__(inner)
        self.place = place

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        return super().put_if_absent(path, data[:-20] if self.place in path else data)

    def put(self, path: str, data: bytes) -> None:
        super().put(path, data[:-20] if self.place in path else data)


@pytest.mark.parametrize("place", ["state-v", log_files.MANIFESTS])
def test_a_checkpoint_that_does_not_prove_right_is_an_error_and_the_pointer_stays(
    tmp_path: Path, place: str
) -> None:
    log = new_state_log(tmp_path)
    commit(log, file(1))
    log.checkpoint()
    before = (tmp_path / log_files.POINTER).read_bytes()
    commit(log, file(2))
    with pytest.raises(CheckpointValidationError):
        state_log(Spoiling(LocalStore(str(tmp_path)), place)).checkpoint()
    assert (tmp_path / log_files.POINTER).read_bytes() == before
    assert live(state_log(LocalStore(str(tmp_path))).newest()) == sorted(
        [file(1).path, file(2).path]
    )


@pytest.mark.parametrize("field", ["num_files", "total_bytes"])
def test_a_state_that_counts_otherwise_is_damaged(tmp_path: Path, field: str) -> None:
    log = new_state_log(tmp_path)
    commit(log, *(file(n) for n in range(5)))
    log.checkpoint()
    state = newest_state(log)
    assert (state.num_files, state.total_bytes) == (5, 5010)
    place = tmp_path / log_files.state_path(1)
    wrong = msgspec.structs.replace(decode_state(place.read_bytes(), path="s"), **{field: 6})
    place.write_bytes(encode_state(wrong))
    again = state_log(LocalStore(str(tmp_path)))
    assert isinstance(again.damage(), CheckpointCorruptionError)
    assert live(again.newest()) == sorted(file(n).path for n in range(5))


@pytest.mark.parametrize(
    ("compression", "codec"), [("zstd", "zstandard"), ("snappy", "snappy"), ("none", "null")]
)
def test_manifests_are_compressed_as_the_setting_says(
    tmp_path: Path, compression: str, codec: str
) -> None:
    log = new_state_log(tmp_path, state_write=StateWriteSettings(compression=compression))
    commit(log, *(file(n) for n in range(30)))
    log.checkpoint()
    (manifest,) = (tmp_path / log_files.MANIFESTS).glob("*.avro")
    with manifest.open("rb") as opened:
        assert fastavro.reader(opened).codec == codec
    assert (StateWriteSettings().compression, StateWriteSettings().level) == ("zstd", 3)


def test_manifests_are_compressed_at_the_level_that_is_set(tmp_path: Path) -> None:
    sizes = {}
    for level in (1, 3, 19):
        log = new_state_log(tmp_path / str(level), state_write=StateWriteSettings(level=level))
        commit(log, *(file(n) for n in range(3_000)))
        log.checkpoint()
        (manifest,) = (tmp_path / str(level) / log_files.MANIFESTS).glob("*.avro")
        sizes[level] = manifest.stat().st_size
    assert len(set(sizes.values())) == 3 and sizes[19] < sizes[1], sizes


def test_compaction_begins_beyond_a_tenth_of_tombstones_and_twenty_manifests(
    tmp_path: Path,
) -> None:
    """By the defaults."""
    log = new_state_log(tmp_path / "a")
    commit(log, *(file(n) for n in range(100)))
    log.checkpoint()
    tombstones = []
    for n in range(12):
        commit(log, removes=[file(n).path])
        log.checkpoint()
        tombstones.append(len(newest_state(log).tombstones))
    assert tombstones == [*range(1, 11), 0, 1]
    log = new_state_log(tmp_path / "b")
    manifests = []
    for n in range(22):
        commit(log, file(n))
        log.checkpoint()
        manifests.append(len(newest_state(log).manifests))
    assert manifests[:20] == [*range(1, 21)] and manifests[20] == 1


class Highest(random.Random):
    """Draws the bound each time; full jitter begins at nothing."""

    def uniform(self, a: float, b: float) -> float:
        assert a == 0
        return b


def test_lost_races_wait_below_a_bound_that_doubles_and_the_first_retries_come_at_once(
    tmp_path: Path,
) -> None:
    create_on(LocalStore(tmp_path))
    waits: list[float] = []
    racing = Racing(LocalStore(tmp_path), 9)
    racing.local_path = lambda path: None  # type: ignore[method-assign]
    retry = RetrySettings(max_attempts=20, base_delay_ms=100, max_delay_ms=1_000)
    log = TransactionLog(
        LogContext(
            racing,
            LogSettings(retry=retry),
            cache=LogCache(1 << 26),
            rng=Highest(),
            sleep=waits.append,
        )
    )
    table = Table(TableHandle(log, log.newest(), None))
    log.settings = LogSettings(retry=retry)
    assert append(table, "mine") == 10
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_a_state_is_tried_as_often_and_waited_for_as_long_as_the_settings_say(
    tmp_path: Path,
) -> None:
    log = new_state_log(tmp_path)
    commit(log, file(1))
    log.checkpoint()
    commit(log, file(2))
    retry = StateRetrySettings(max_attempts=4, base_delay_ms=100, max_delay_ms=250)
    waits: list[float] = []
    log = state_log(Spoiling(LocalStore(str(tmp_path)), log_files.MANIFESTS), state_retry=retry)
    log.context.sleep, log.context.rng = waits.append, Highest()
    with pytest.raises(CheckpointValidationError):
        log.checkpoint()
    assert waits == [0.1, 0.2, 0.25, 0.25]


def test_protocol_and_metadata_are_still_known_after_a_write(tmp_path: Path) -> None:
    path = str(tmp_path)
    table = Table.create(path, schema=SCHEMA)
    Table.open(path)
    before = table.cache_stats()
    append(table, "a")
    Table.open(path).files()
    after = table.cache_stats()
    for kind in ("protocol", "metadata"):
        assert after.hits[kind] > before.hits.get(kind, 0), kind
        assert after.misses.get(kind, 0) == before.misses.get(kind, 0), kind


def test_the_log_cache_holds_no_more_bytes_than_its_bound() -> None:
    cache = LogCache(100)
    for n in range(30):
        cache.put("versions", "t", n, n, cost_bytes=n)
        assert cache.stats().held_bytes <= 100
    assert [n for n in range(30) if cache.get("versions", "t", n) is not None] == [27, 28, 29]
    cache.put("versions", "t", "large", 1, cost_bytes=101)
    assert cache.get("versions", "t", "large") is None and cache.get("versions", "t", 29) == 29


def test_the_bound_of_the_log_cache_is_the_setting_also_a_low_one(tmp_path: Path) -> None:
    """In a process of its own: a process has one cache, whose bound is the highest that its tables
    were opened with.
    """
    table_of(tmp_path, appends=1)
    program = f"""
from indextables import Table
from indextables.log.cache import PROCESS_CACHE
for bound in ("20k", "30k", "10k"):
    Table.open({str(tmp_path)!r}, options={{"transaction.cache.maxSize": bound}}).files()
    print(PROCESS_CACHE.max_bytes)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert [int(line) for line in done.stdout.split()] == [20 << 10, 30 << 10, 30 << 10]


def test_a_parquet_checkpoint_has_the_columns_of_its_design_and_tells_actions_apart() -> None:
    found = pq.read_table(
        pa.BufferReader(encode_parquet_checkpoint(plain_files(3), OTHERS, compression="snappy"))
    )
    design = "path partitionValues size numRecords minValues maxValues metadataId schemaString partitionColumns format"
    assert {*design.split(), "actionType"} <= set(found.column_names)
    assert {"docMappingRef", "footerStartOffset", "uncompressedSizeBytes", "addedAtVersion"} <= set(
        found.column_names
    )
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for row in found.to_pylist():
        by_kind.setdefault(row["actionType"], []).append(row)
    assert len(by_kind["add"]) == 3 and all(row["path"] for row in by_kind["add"])
    (metadata,) = by_kind["metadata"]
    assert (metadata["metadataId"], metadata["path"]) == ("t", None)
    assert set(by_kind) == {"add", "metadata", "protocol", "txn", "mergeskip", "cdc"}


@pytest.mark.parametrize("damage", ["garbled", "missing"])
@pytest.mark.parametrize("covered", [False, True])
def test_a_damaged_version_0_is_found(tmp_path: Path, damage: str, covered: bool) -> None:
    table = table_of(tmp_path, appends=2)
    if covered:
        table.checkpoint()
    place = tmp_path / log_files.version_path(0)
    place.write_bytes(b"{ nonsense") if damage == "garbled" else place.unlink()
    table.invalidate_cache()
    found = {(finding.check, finding.severity) for finding in verify_table(table.path).findings}
    if covered and damage == "missing":
        assert found == set(), "a checkpoint holds what it said, so it may go"
    else:
        assert any(severity in ("error", "warning") for _, severity in found), found


def test_a_renamed_column_keeps_its_name_in_the_splits(tmp_path: Path) -> None:
    table = table_of(tmp_path, appends=1)
    table.alter.rename_column("message", "text")
    table.append(rows(range(10, 20)).rename_columns(["id", "day", "level", "text"]))
    assert (
        table.schema.names == ["id", "day", "level", "text"] and table.count(query="text:disk") > 2
    )
    for path in table.files().column("path").to_pylist():
        assert pq.read_schema(tmp_path / path).names == ["id", "day", "level", "message"]
    for ref in table.files().column("doc_mapping_ref").to_pylist():
        names = [
            column["name"]
            for column in json.loads(table.handle.snapshot.schema_registry[ref])["columns"]
        ]
        assert names == ["id", "day", "level", "message"]


def test_a_removal_without_time_values_and_size_counts_from_its_version(tmp_path: Path) -> None:
    """The least that another writer must say of a removal."""
    table = table_of(tmp_path, appends=2)
    age(tmp_path, hours=24 * 100)
    (gone,) = [line["add"]["path"] for line in lines(tmp_path, 1) if "add" in line]
    bare = {"remove": {"path": gone, "dataChange": True}}
    path = tmp_path / log_files.version_path(3)
    path.write_text(
        json.dumps({"commitInfo": {"timestamp": int(time.time() * 1000)}})
        + "\n"
        + json.dumps(bare)
        + "\n"
    )
    table.invalidate_cache()
    assert ids(Table.open(str(tmp_path))) == list(range(10, 20))
    assert Table.open(str(tmp_path)).purge().orphaned_files_deleted == 0, (
        "removed just now, however old the file is"
    )
    assert (tmp_path / gone).exists()
    path.write_text(
        json.dumps({"commitInfo": {"timestamp": 1_700_000_000_000}})
        + "\n"
        + json.dumps(bare)
        + "\n"
    )
    age(tmp_path, hours=24 * 8, paths=[log_files.version_path(3)])
    table.invalidate_cache()
    assert Table.open(str(tmp_path)).purge().orphaned_files_deleted == 1
    assert not (tmp_path / gone).exists() and ids(Table.open(str(tmp_path))) == list(range(10, 20))


def test_a_purge_deletes_checkpoints_that_a_newer_one_supersedes(tmp_path: Path) -> None:
    options: dict[str, object] = {
        "state.format": "json",
        "checkpoint.interval": 1,
        "checkpoint.async.enabled": False,
        "cleanup.enabled": False,
    }
    table = table_of(tmp_path, appends=4, options=options)
    age(tmp_path, hours=24 * 100)
    before = sorted(path.name for path in (tmp_path / log_files.LOG).glob("*.checkpoint.json"))
    assert len(before) == 4
    table.purge()
    after = sorted(path.name for path in (tmp_path / log_files.LOG).glob("*.checkpoint.json"))
    assert after and after[-1] == before[-1] and len(after) < 4
    assert ids(Table.open(str(tmp_path))) == list(range(40))


class Recording(StoreWrapper):
    """A store far away that notes what is read and what a listing shows."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.read: list[str] = []
        self.listed: list[str] = []

    def get(self, path: str) -> bytes:
        self.read.append(path)
        return super().get(path)

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        for info in super().list(prefix, start_after=start_after):
            self.listed.append(info.path)
            yield info

    def local_path(self, path: str) -> Path | None:
        return None


def test_versions_before_the_checkpoint_are_not_read_but_its_own(tmp_path: Path) -> None:
    log = new_state_log(tmp_path)
    for n in range(20):
        commit(log, file(n))
    log.checkpoint()
    commit(log, file(20))
    store = Recording(LocalStore(str(tmp_path)))
    assert live(state_log(store).newest()) == sorted(file(n).path for n in range(21))
    versions = [
        version for path in store.read if (version := log_files.version_of(path)) is not None
    ]
    assert sorted(versions) == [20, 21], "the state must descend from the version that it is of"
    shown = [
        version for path in store.listed if (version := log_files.version_of(path)) is not None
    ]
    assert min(shown) >= 19 and len(store.read) == 5


def test_counts_come_from_the_log_and_open_no_split(tmp_path: Path) -> None:
    table = table_of(tmp_path, appends=3, partitioned=True)
    for path in tmp_path.rglob("*.split"):
        path.unlink()
    table = Table.open(str(tmp_path))
    assert table.count() == 30 and table.count(where="day = 1") == 10
    assert sum(table.files().column("num_records").to_pylist()) == 30
    with pytest.raises(MissingSplitError):
        ids(table)


def test_with_footer_offsets_a_split_is_opened_by_one_request_for_its_footer(
    tmp_path: Path,
) -> None:
    """Without them its end is guessed, and more is read."""
    table = Table.create(str(tmp_path), schema=log_rows(1).schema)
    table.append(log_rows(60_000))
    (add,) = [line["add"] for line in lines(tmp_path, 1) if "add" in line]
    read = {}
    for start in (add["footerStartOffset"], None):
        store = RemoteStore(LocalStore(str(tmp_path)))
        cache = SplitCache(tmp_path / f"cache-{start}", 1 << 30)
        reader = SplitReader.open(
            open_source(store, add["path"], size=add["size"]), footer_start=start, cache=cache
        )
        assert reader.num_rows == table.count()
        costs = store.reset()
        read[start is not None] = (costs.requests["get_ranges"], costs.bytes_read)
    assert read[True] == (1, add["footerEndOffset"] - add["footerStartOffset"])
    assert read[False][1] > read[True][1], read


def test_metrics_count_checkpoints_loads_and_cleaned_files(tmp_path: Path) -> None:
    def value(name: str, **labels: str) -> float:
        return METRICS.value(f"indextables_{name}", table=table.path, **labels)

    options: dict[str, object] = {
        "checkpoint.interval": 2,
        "checkpoint.async.enabled": False,
        "checkpoint.retention": 0,
    }
    table = table_of(tmp_path, appends=1, options=options)
    age(tmp_path, hours=24 * 60)
    table.append(rows([100]))
    assert value("checkpoint_seconds_count", format="avro-state") == 1
    assert 0 < value("checkpoint_seconds_sum", format="avro-state") < 60
    assert value("checkpoint_entries_total", format="avro-state") == 2
    written = sum(path.stat().st_size for path in (tmp_path / log_files.LOG).rglob("*.avro"))
    assert value("checkpoint_bytes_total", format="avro-state") == written
    assert value("checkpoint_text_bytes_total", format="avro-state") > 0
    assert value("log_files_cleaned_total", kind="version") == 2
    table.invalidate_cache()
    Table.open(table.path)
    assert value("load_seconds_count", base="avro-state") >= 1


def test_log_lines_report_checkpoints_cleaning_and_loads(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, object] = {
        "checkpoint.interval": 2,
        "checkpoint.async.enabled": False,
        "checkpoint.retention": 0,
    }
    table = table_of(tmp_path, appends=1, options=options)
    age(tmp_path, hours=24 * 60)
    with caplog.at_level(logging.DEBUG, logger="indextables"):
        table.append(rows([100]))
        table.invalidate_cache()
        Table.open(table.path)
    said = {
        word: [r.levelname for r in caplog.records if word in r.getMessage().lower()]
        for word in LOG_WORDS
    }
    assert all(levels and set(levels) <= {"INFO", "DEBUG"} for levels in said.values()), said
    assert "INFO" in said["checkpoint of version 2"] and "INFO" in said["clean"]


LOG_WORDS = ("checkpoint of version 2", "clean", "loaded version 2")


def test_a_process_does_not_wait_for_a_checkpoint_longer_than_it_may(tmp_path: Path) -> None:
    """The store never answers for the state; the commit has landed, and the process ends."""
    program = f"""
import time
from indextables.storage.local import LocalStore
put = LocalStore.put_if_absent
def hang(self, path, data):
    if "state-v" in path:
        time.sleep(300)
    return put(self, path, data)
LocalStore.put_if_absent = hang
from tests.support.rows import table_of
table_of({str(tmp_path / "t")!r}, appends=2, options={{"checkpoint.interval": 2, "checkpoint.async.shutdownTimeoutMs": 300}})
"""
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", program], cwd=root, check=True, timeout=60)
    assert ids(Table.open(str(tmp_path / "t"))) == list(range(20))


@pytest.mark.parametrize("form", ["avro", "json", "parquet"])
def test_a_table_is_the_same_with_checkpoints_and_without(tmp_path: Path, form: str) -> None:
    for enabled in (True, False):
        options: dict[str, object] = {
            "checkpoint.enabled": enabled,
            "checkpoint.interval": 2,
            "checkpoint.async.enabled": False,
            "state.format": form,
        }
        table = table_of(tmp_path / str(enabled), appends=5, options=options)
        table.delete(where="id = 7")
        table.merge()
        table.append(rows([100]))
        assert ids(Table.open(table.path)) == sorted({*range(50), 100} - {7})
        names = {path.name for path in (tmp_path / str(enabled) / log_files.LOG).iterdir()}
        assert any("state-v" in name or "checkpoint" in name for name in names) is enabled
