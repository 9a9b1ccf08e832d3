"""States: written when it is time, small when little changed, exact in every count, and never in a
commit's way.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

from indextables.config.log import (
    CheckpointSettings,
    CompactionSettings,
    LogReadSettings,
    StateReadSettings,
    StateWriteSettings,
)
from indextables.log import log_files
from indextables.log.checkpoint import checkpointer
from indextables.log.checkpoint.state_writer import Compact
from indextables.log.checkpoint.verifier import CheckpointVerifier
from indextables.log.live_files import files_in_parts, pruned_files
from indextables.log.log_files import list_log
from indextables.log.transaction import Changes
from indextables.model.actions import SkipAction
from indextables.model.conflicts import Operation
from indextables.model.predicate import bind, parse
from indextables.model.schema_registry import schema_hash
from indextables.storage.local import LocalStore
from indextables.wire.state import decode_state, encode_state
from tests.support.faulty_store import CountingStore, Effect, Fault, FaultyStore
from tests.support.state_logs import commit, file, live, new_state_log, newest_state, state_log
from tests.support.state_versions import states
from tests.support.tables import SCHEMA


def log_bytes(path: Path) -> int:
    return sum(p.stat().st_size for p in (path / log_files.LOG).rglob("*") if p.is_file())


def pointer(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((path / log_files.POINTER).read_bytes())
    return content


def test_a_state_after_every_interval(tmp_path: Path) -> None:
    log = new_state_log(tmp_path, checkpoint=CheckpointSettings(interval=3))
    for n in range(10):
        commit(log, file(n))
    assert states(tmp_path) == [3, 6, 9]
    assert pointer(tmp_path)["version"] == 9
    assert pointer(tmp_path)["stateDir"] == f"state-v{9:020d}"
    snapshot = state_log(LocalStore(str(tmp_path))).newest()
    assert (snapshot.version, snapshot.base.header.version) == (10, 9)
    assert live(snapshot) == sorted(file(n).path for n in range(10))


def test_no_state_when_checkpoints_are_off(tmp_path: Path) -> None:
    log = new_state_log(tmp_path, checkpoint=CheckpointSettings(interval=2, enabled=False))
    for n in range(5):
        commit(log, file(n))
    assert states(tmp_path) == []


def test_two_writers_do_not_write_the_same_state_twice(tmp_path: Path) -> None:
    first = new_state_log(tmp_path, checkpoint=CheckpointSettings(interval=4))
    second = state_log(LocalStore(str(tmp_path)), checkpoint=CheckpointSettings(interval=4))
    for n in range(16):
        commit(first if n % 2 else second, file(n))
    assert states(tmp_path) == [4, 8, 12, 16]


def test_bytes_written_follow_the_change_not_the_table(tmp_path: Path) -> None:
    written = {}
    for size in (200, 2000):
        log = new_state_log(
            tmp_path / str(size), state_write=StateWriteSettings(entries_per_manifest=500)
        )
        commit(log, *(file(n) for n in range(size)))
        log.checkpoint()
        commit(log, *(file(n) for n in range(size, size + 50)))
        before = log_bytes(tmp_path / str(size))
        report = log.checkpoint()
        assert report.num_files == size + 50
        written[size] = log_bytes(tmp_path / str(size)) - before
    assert written[2000] < written[200] * 1.3


@pytest.mark.parametrize(
    ("bound", "asked", "older"), [(0, False, 0), (1 << 20, False, 2), (0, True, 2)]
)
def test_a_checkpoint_reads_back_what_it_wrote_and_of_the_rest_what_costs_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: int, asked: bool, older: int
) -> None:
    """Each manifest once at most; all of them where somebody asked for the checkpoint."""
    monkeypatch.setattr(checkpointer, "READ_BACK_BYTES", bound)
    log = new_state_log(tmp_path, state_write=StateWriteSettings(entries_per_manifest=50))
    commit(log, *(file(n) for n in range(100)))
    log.checkpoint()
    before = {manifest.path for manifest in newest_state(log).manifests}
    store = FaultyStore(LocalStore(str(tmp_path)))
    log = state_log(
        store, cached=False, checkpoint=CheckpointSettings(interval=1000 if asked else 1)
    )
    commit(log, file(200))
    if asked:
        log.checkpoint()
    read = [
        path.removeprefix(f"{log_files.LOG}/")
        for verb, path in store.calls
        if verb == "get" and "/manifest-" in path
    ]
    assert len(read) == len(set(read)) == older + 1
    assert len(before & set(read)) == older
    assert newest_state(log).num_files == 101


def test_opening_costs_four_requests_and_listing_one_more_per_manifest(tmp_path: Path) -> None:
    log = new_state_log(tmp_path, state_write=StateWriteSettings(entries_per_manifest=30))
    commit(log, *(file(n) for n in range(100)))
    log.checkpoint()
    counting = CountingStore(LocalStore(str(tmp_path)))
    snapshot = state_log(counting).newest()
    # The pointer, the state, and the version that it must descend from.
    assert {verb: n for verb, n in counting.reset().requests.items() if n} == {"get": 3, "list": 1}
    assert snapshot.all_files.num_rows == 100
    assert {verb: n for verb, n in counting.reset().requests.items() if n} == {"get": 4}


def test_removed_files_become_tombstones(tmp_path: Path) -> None:
    log = new_state_log(tmp_path)
    commit(log, *(file(n) for n in range(50)))
    log.checkpoint()
    commit(log, file(100), removes=[file(3).path, file(4).path])
    log.checkpoint()
    state = newest_state(log)
    assert {(t.path, t.version) for t in state.tombstones} == {(file(3).path, 2), (file(4).path, 2)}
    assert (state.num_files, state.total_bytes) == (
        49,
        sum(1000 + n for n in [*range(50), 100]) - 2007,
    )
    assert [(m.num_entries, m.live_entry_count, m.tombstone_count) for m in state.manifests] == [
        (50, 48, 2),
        (1, 1, 0),
    ]
    assert live(log.reload()) == sorted(file(n).path for n in [*range(50), 100] if n not in (3, 4))


def test_a_path_added_again_is_not_hidden_and_stands_once(tmp_path: Path) -> None:
    log = new_state_log(tmp_path)
    commit(log, *(file(n) for n in range(20)))
    commit(log, *(file(n) for n in range(20, 40)))
    log.checkpoint()
    commit(log, removes=[file(3).path])
    log.checkpoint()
    assert len(newest_state(log).tombstones) == 1
    commit(log, file(3, tags={"again": "yes"}))
    log.checkpoint()
    state = newest_state(log)
    assert state.tombstones == ()
    assert state.num_files == 40
    found = [row for row in log.reload().all_files.to_pylist() if row["path"] == file(3).path]
    assert [row["tags"] for row in found] == [[("again", "yes")]]


@pytest.mark.parametrize(
    ("compaction", "removed"),
    [
        (CompactionSettings(tombstone_threshold=0.05), 3),
        (CompactionSettings(large_remove_threshold=2), 3),
    ],
    ids=["share of tombstones", "large remove"],
)
def test_removals_that_call_for_compaction(
    tmp_path: Path, compaction: CompactionSettings, removed: int
) -> None:
    log = new_state_log(tmp_path, compaction=compaction)
    commit(log, *(file(n) for n in range(40)))
    log.checkpoint()
    commit(log, removes=[file(n).path for n in range(removed)])
    log.checkpoint()
    state = newest_state(log)
    assert (state.tombstones, state.num_files, len(state.manifests)) == ((), 40 - removed, 1)


def test_too_many_manifests_are_merged_and_large_ones_left_alone(tmp_path: Path) -> None:
    log = new_state_log(
        tmp_path,
        state_write=StateWriteSettings(entries_per_manifest=100),
        compaction=CompactionSettings(max_manifests=7),
    )
    commit(log, *(file(n) for n in range(200)))
    log.checkpoint()
    large = {m.path for m in newest_state(log).manifests}
    for n in range(300, 306):
        commit(log, file(n))
        log.checkpoint()
    state = newest_state(log)
    assert large < {m.path for m in state.manifests}
    assert len(state.manifests) == 3
    assert state.num_files == 206


def test_compact_really_compacts(tmp_path: Path) -> None:
    log = new_state_log(tmp_path, state_write=StateWriteSettings(entries_per_manifest=25))
    for start in range(0, 90, 30):
        commit(log, *(file(n) for n in range(start, start + 30)))
        log.checkpoint()
    commit(log, removes=[file(5).path])
    log.checkpoint()
    before = log.newest().version
    report = log.checkpoint(compact=Compact.ALL)
    assert report.version == before + 1
    state = newest_state(log)
    assert state.tombstones == ()
    assert [m.num_entries for m in state.manifests] == [25, 25, 25, 14]
    days = [(m.partition_bounds or {})["day"] for m in state.manifests]
    assert days == sorted(days)
    assert all(low <= high for low, high in days if low is not None and high is not None)
    again = log.checkpoint(compact=Compact.ALL)
    assert (again.version, again.written) == (report.version, False)


def test_parts_that_cannot_match_are_not_fetched(tmp_path: Path) -> None:
    log = new_state_log(tmp_path, state_write=StateWriteSettings(entries_per_manifest=10))
    commit(log, *(file(n) for n in range(100)))
    log.checkpoint()
    store = FaultyStore(LocalStore(str(tmp_path)))
    for where, parts, files in [
        ("day = '3'", 1, 10),
        ("id >= 985", 10, 2),
        ("day > '6' AND day != '8'", 3, 20),
    ]:
        snapshot = state_log(store, cached=False).newest()
        store.calls.clear()
        bound = bind(parse(where), SCHEMA)
        assert pruned_files(snapshot, bound).num_rows == files
        assert sum(log_files.MANIFESTS in path for _, path in store.calls) <= parts
        assert files_in_parts(snapshot, bound).num_rows <= parts * 10


def test_bounds_of_numbers_rule_parts_out_too(tmp_path: Path) -> None:
    log = new_state_log(
        tmp_path, partitioned=False, state_write=StateWriteSettings(entries_per_manifest=10)
    )
    commit(log, *(msgspec.structs.replace(file(n), partition_values={}) for n in range(50)))
    log.checkpoint()
    assert [(m.column_bounds or {})["id"] for m in newest_state(log).manifests][:2] == [
        ("0", "99"),
        ("100", "199"),
    ]
    store = FaultyStore(LocalStore(str(tmp_path)))
    snapshot = state_log(store, cached=False).newest()
    store.calls.clear()
    assert pruned_files(snapshot, bind(parse("id = 250"), SCHEMA)).num_rows == 1
    assert sum(log_files.MANIFESTS in path for _, path in store.calls) == 1


def test_everything_but_the_files_survives_in_the_state(tmp_path: Path) -> None:
    log = new_state_log(tmp_path)
    log.commit(
        log.newest(), Changes("WRITE", adds=[file(1)], txn=("stream", 7)), txn_id="the-commit"
    )
    log.commit(log.newest(), _Skip(Operation.SKIP))
    log.checkpoint()
    before = log.newest().header
    after = state_log(LocalStore(str(tmp_path))).newest()
    assert after.delta.touched == frozenset()
    assert after.header.txns["stream"].version == 7
    assert after.header.skips[file(1).path].skip_count == 4
    assert "the-commit" in after.header.recent_txn_ids
    assert (after.header.metadata, after.header.protocol) == (before.metadata, before.protocol)
    assert after.header.timestamp_ms == before.timestamp_ms


class _Skip(Changes, frozen=True):
    def plan(self, snapshot: Any, *, now_ms: int) -> Any:
        skip = SkipAction(
            path=file(1).path, skip_timestamp=1, reason="r", operation="merge", skip_count=4
        )
        return type(super().plan(snapshot, now_ms=now_ms))([skip], self._info([]))


def test_a_wide_schema_is_stored_once(tmp_path: Path) -> None:
    wide = json.dumps([{"name": f"column_{i}", "type": "text"} for i in range(400)])
    log = new_state_log(tmp_path)
    commit(log, *(file(n, doc_mapping_json=wide) for n in range(1000)))
    before = log_bytes(tmp_path)
    log.checkpoint()
    assert log_bytes(tmp_path) - before < 10 * len(wide)
    snapshot = state_log(LocalStore(str(tmp_path))).newest()
    assert snapshot.schema_registry == {schema_hash(wide): wide}
    assert set(snapshot.all_files.column("doc_mapping_ref").to_pylist()) == {schema_hash(wide)}


def test_many_spellings_of_one_schema_are_merged(tmp_path: Path) -> None:
    mapping = '[{"name":"a","type":"text"}]'
    log = new_state_log(tmp_path)
    spelled = {f"docMappingSchema.old{i}": " " * i + mapping for i in range(6)}
    metadata = msgspec.structs.replace(log.newest().metadata, configuration=spelled)
    log.commit(log.newest(), Changes(Operation.METADATA, metadata=metadata))
    commit(log, *(file(n, doc_mapping_ref=f"old{n}") for n in range(6)))
    log.checkpoint()
    snapshot = state_log(LocalStore(str(tmp_path))).newest()
    assert set(snapshot.all_files.column("doc_mapping_ref").to_pylist()) == {schema_hash(mapping)}
    assert schema_hash(snapshot.schema_registry[schema_hash(mapping)]) == schema_hash(mapping)


@pytest.mark.parametrize("compression", ["zstd", "snappy", "none"])
def test_every_codec_can_be_read_back(tmp_path: Path, compression: str) -> None:
    log = new_state_log(tmp_path, state_write=StateWriteSettings(compression=compression, level=9))
    commit(log, *(file(n) for n in range(30)))
    log.checkpoint()
    assert live(state_log(LocalStore(str(tmp_path))).newest()) == sorted(
        file(n).path for n in range(30)
    )


def test_a_merge_is_followed_by_a_state(tmp_path: Path) -> None:
    log = new_state_log(tmp_path)
    commit(log, *(file(n) for n in range(10)))
    version = commit(
        log, file(50), removes=[file(n).path for n in range(4)], operation=Operation.MERGE
    )
    assert states(tmp_path) == [version]
    assert newest_state(log).tombstones == ()
    off = new_state_log(tmp_path / "off", compaction=CompactionSettings(after_merge=False))
    commit(off, file(1))
    commit(off, file(2), removes=[file(1).path], operation=Operation.MERGE)
    assert states(tmp_path / "off") == []


@pytest.mark.parametrize("effect", [Effect.FAIL_BEFORE, Effect.FAIL_AFTER])
@pytest.mark.parametrize("place", [log_files.MANIFESTS, "state-v", "_last_checkpoint"])
def test_a_failed_state_never_fails_the_commit(
    tmp_path: Path, place: str, effect: Effect, caplog: pytest.LogCaptureFixture
) -> None:
    new_state_log(tmp_path)
    verb = "put" if place == "_last_checkpoint" else None
    faulty = FaultyStore(
        LocalStore(str(tmp_path)), [Fault(verb, path_contains=place, effect=effect, times=99)]
    )
    log = state_log(faulty, checkpoint=CheckpointSettings(interval=2))
    with caplog.at_level(logging.WARNING):
        for n in range(2):
            commit(log, file(n))
    assert log.upkeep.failures == 1
    assert "but not checkpointed" in caplog.text
    assert live(state_log(LocalStore(str(tmp_path))).newest()) == sorted(
        file(n).path for n in range(2)
    )
    faulty.off()
    commit(log, file(2))
    assert log.upkeep.checkpoints == 1
    assert states(tmp_path)[-1] in (2, 3)


def test_the_pointer_never_moves_back(tmp_path: Path) -> None:
    log = new_state_log(tmp_path)
    old = log.newest()
    for n in range(3):
        commit(log, file(n))
    log.checkpoint()
    report = log.maintenance.checkpointer.write(old)
    assert (report.version, report.written) == (3, False)
    assert pointer(tmp_path)["version"] == 3
    assert states(tmp_path) == [3]


@pytest.mark.parametrize(
    "content", [None, b"", b"{", b'{"version":900}', b'{"version":1}', b'{"version":-4}']
)
def test_whatever_the_pointer_says_the_table_opens(tmp_path: Path, content: bytes | None) -> None:
    log = new_state_log(tmp_path, checkpoint=CheckpointSettings(interval=2))
    for n in range(5):
        commit(log, file(n))
    place = tmp_path / log_files.POINTER
    place.unlink()
    if content is not None:
        place.write_bytes(content)
    snapshot = state_log(LocalStore(str(tmp_path))).newest()
    assert (snapshot.version, snapshot.base.header.version) == (5, 4)
    assert live(snapshot) == sorted(file(n).path for n in range(5))
    commit(log, file(5))
    assert pointer(tmp_path)["version"] == states(tmp_path)[-1] == 6, (
        "the next checkpoint puts it right"
    )


def test_what_was_proven_once_is_looked_at_again(tmp_path: Path) -> None:
    log = new_state_log(tmp_path, state_write=StateWriteSettings(entries_per_manifest=20))
    commit(log, *(file(n) for n in range(70)))
    log.checkpoint()
    store = LocalStore(str(tmp_path))
    verifier = CheckpointVerifier.of(store, LogReadSettings(), StateReadSettings())
    assert verifier.newest_failure(list_log(store)) is None
    manifests = sorted((tmp_path / log_files.MANIFESTS).glob("*.avro"))
    assert len(manifests) > 2
    contents = [manifest.read_bytes() for manifest in manifests]
    for manifest, own, other in zip(manifests, contents, contents[1:] + contents[:1], strict=True):
        flipped = bytearray(own)
        flipped[len(own) // 2] ^= 4
        for content in (bytes(flipped), own[:-20], other, b"", None):
            manifest.unlink()
            if content is not None:
                manifest.write_bytes(content)
            again = CheckpointVerifier.of(store, LogReadSettings(), StateReadSettings())
            failure = again.newest_failure(list_log(store))
            assert failure is not None and manifest.name in str(failure)
            manifest.write_bytes(own)
    assert (
        CheckpointVerifier.of(store, LogReadSettings(), StateReadSettings()).newest_failure(
            list_log(store)
        )
        is None
    )


def test_a_state_that_lists_its_files_twice_is_not_proven(tmp_path: Path) -> None:
    log = new_state_log(tmp_path)
    commit(log, *(file(n) for n in range(30)))
    log.checkpoint()
    (path,) = (tmp_path / log_files.LOG).glob("state-v*/_manifest.avro")
    state = decode_state(path.read_bytes(), path=str(path))
    again = msgspec.structs.replace(
        state,
        manifests=state.manifests * 2,
        num_files=2 * state.num_files,
        total_bytes=2 * state.total_bytes,
    )
    path.unlink()
    path.write_bytes(encode_state(again))
    store = LocalStore(str(tmp_path))
    failure = CheckpointVerifier.of(store, LogReadSettings(), StateReadSettings()).newest_failure(
        list_log(store)
    )
    assert "lists 60 files, where the versions lead to 30" in str(failure)
