"""The log through `Table`: creating, opening, travelling, history, metadata, exactly-once, skips."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace

from indextables import AddAction, Table
from indextables.commands import sql
from indextables.errors import (
    BadFileError,
    ConflictError,
    CorruptTableError,
    InvalidInputError,
    LogGapError,
    RefusedError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
    UnknownOptionError,
    UnsupportedError,
    VersionNotFoundError,
)
from indextables.handle import open_log
from indextables.log.cache import LogCache
from indextables.log.context import LogContext
from indextables.log.log_files import version_path
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import ProtocolAction
from indextables.model.file_list import to_actions
from indextables.storage.local import LocalStore
from indextables.storage.store import ObjectInfo
from indextables.wire import version_file
from tests.support.faulty_store import CountingStore, StoreWrapper
from tests.support.rows import ids, table_of
from tests.support.tables import SCHEMA, append, live, merge, split


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "a table ü=%")


def test_a_new_table_is_empty_and_current(path: str) -> None:
    table = Table.create(
        path, schema=SCHEMA, partition_columns=["day"], options={"checkpoint.interval": 3}
    )
    assert table.version == 0
    assert table.files().num_rows == 0
    assert table.partition_columns == ["day"]
    assert (table.protocol.min_reader_version, table.protocol.min_writer_version) == (4, 4)
    assert "avroState" in (table.protocol.reader_features or ())
    again = Table.open(path)
    assert again.schema.equals(SCHEMA)
    assert again.settings["checkpoint.interval"] == 3
    assert again.metadata.id == table.metadata.id


def test_creating_twice(path: str) -> None:
    first = Table.create(path, schema=SCHEMA)
    with pytest.raises(TableExistsError, match="already"):
        Table.create(path, schema=SCHEMA)
    same = Table.create(path, schema=SCHEMA, exist_ok=True)
    assert same.metadata.id == first.metadata.id
    with pytest.raises(SchemaMismatchError, match="another schema"):
        Table.create(path, schema=pa.schema([("x", pa.int64())]), exist_ok=True)
    with pytest.raises(SchemaMismatchError, match="other partition columns"):
        Table.create(path, schema=SCHEMA, partition_columns=["day"], exist_ok=True)


def test_a_bad_schema_creates_nothing(path: str) -> None:
    for schema, columns in (
        (SCHEMA, ["nope"]),
        (pa.schema([("a", pa.int64()), ("A", pa.int64())]), []),
    ):
        with pytest.raises(InvalidInputError):
            Table.create(path, schema=schema, partition_columns=columns)
    with pytest.raises(UnknownOptionError, match=r"transaction\.compression\.enabled"):
        Table.create(path, schema=SCHEMA, options={"transaction.compresion.enabled": True})
    assert not Path(path).exists()


def test_no_table(path: str) -> None:
    with pytest.raises(TableNotFoundError, match="no transaction log found"):
        Table.open(path)


def test_another_writers_commit_is_visible_at_once(path: str) -> None:
    mine = Table.create(path, schema=SCHEMA)
    append(Table.open(path), "a")
    assert live(mine) == set()
    assert live(mine.refresh()) == {"a"}
    assert live(Table.open(path)) == {"a"}


def test_staleness_is_allowed_where_it_is_asked_for(path: str) -> None:
    Table.create(path, schema=SCHEMA)
    Table.open(path)
    Path(path, version_path(1)).write_bytes(
        version_file.encode([AddAction(path="a.split", size=1)])
    )
    assert Table.open(path, max_staleness=60).version == 0
    assert Table.open(path, options={"transaction.cache.expirationSeconds": 60}).version == 0
    assert Table.open(path).version == 1


class Bucket(StoreWrapper):
    """A store that has the URL of another, as at two endpoints."""

    @property
    def url(self) -> str:
        return "s3://bucket/t"


def test_what_was_read_at_another_endpoint_or_with_other_keys_is_not_shown(tmp_path: Path) -> None:
    tables = [Table.create(str(tmp_path / name), schema=SCHEMA) for name in ("one", "other")]
    endpoints = [{"aws.endpoint": f"http://127.0.0.1:{port}"} for port in (1, 2)]
    keys = [{"aws.accessKey": key, "aws.secretKey": "s"} for key in ("a", "b")]
    for one, other in (endpoints, keys):
        cache = LogCache(1 << 20)
        places = [open_log("s3://bucket/t", options).context.place for options in (one, other, one)]
        stores = [Bucket(LocalStore(table.path)) for table in (*tables, tables[0])]
        logs = [
            TransactionLog(LogContext(store, cache=cache, place=place))
            for store, place in zip(stores, places, strict=True)
        ]
        shown = [log.newest(max_staleness_seconds=60).metadata.id for log in logs]
        assert shown == [table.metadata.id for table in (*tables, tables[0])]
        assert cache.stats().entries["snapshots"] == 2


def test_a_commit_never_builds_on_a_stale_snapshot(path: str) -> None:
    table = Table.create(path, schema=SCHEMA, options={"transaction.cache.expirationSeconds": 600})
    Path(path, version_path(1)).write_bytes(
        version_file.encode([AddAction(path="a.split", size=1)])
    )
    assert append(table, "b") == 2
    assert Table.open(path, max_staleness=0).files().num_rows == 2


def test_a_table_made_anew_at_the_same_place_is_not_mistaken_for_the_old(path: str) -> None:
    import shutil

    append(Table.create(path, schema=SCHEMA), "old")
    shutil.rmtree(path)
    append(Table.create(path, schema=SCHEMA), "new")
    assert live(Table.open(path)) == {"new"}


def test_time_travel_by_version_and_by_moment(path: str) -> None:
    table = Table.create(path, schema=SCHEMA)
    moments = [0]
    for name in "abc":
        append(table, name)
        moments.append(table.handle.snapshot.header.timestamp_ms)
    for version, names in enumerate([set(), {"a"}, {"a", "b"}, {"a", "b", "c"}]):
        assert live(Table.open(path, version=version)) == names
        if version:
            ms = moments[version]
            assert Table.open(path, timestamp=ms).version == version
            assert (
                Table.open(path, timestamp=datetime.fromtimestamp(ms / 1000, UTC)).version
                == version
            )
    after = datetime.fromtimestamp((moments[3] + 5) / 1000, UTC).isoformat()
    assert Table.open(path, timestamp=after).version == 3
    for version in (4, -1):
        with pytest.raises(VersionNotFoundError, match="Versions 0 to 3 can be read") as caught:
            Table.open(path, version=version)
        assert caught.value.context["available"] == [0, 3]
    with pytest.raises(
        VersionNotFoundError, match=r"can be read at 1970-01-01T00:00:00\.005Z"
    ) as caught:
        Table.open(path, timestamp=5)
    assert re.fullmatch(
        r"The oldest that can be read is version 0, of \d{4}-\d\d-\d\dT[\d:.]+Z\.",
        caught.value.hint,
    )
    with pytest.raises(VersionNotFoundError, match="ms since 1970"):
        Table.open(path, timestamp=-(10**15))
    with pytest.raises(InvalidInputError, match="not a timestamp"):
        Table.open(path, timestamp="yesterday")
    with pytest.raises(InvalidInputError, match="not both"):
        Table.open(path, timestamp=5, version=1)


def test_an_old_version_cannot_be_written(path: str) -> None:
    append(Table.create(path, schema=SCHEMA), "a")
    with pytest.raises(RefusedError, match="opened at version 0"):
        append(Table.open(path, version=0), "b")


def test_history_tells_who_did_what(path: str) -> None:
    table = Table.create(path, schema=SCHEMA)
    with table.transaction(user_metadata="nightly", check_splits=False) as tx:
        tx.add(split("a", size=7, records=3))
    append(table, "b")
    merge(table, ["a", "b"], "c")
    rows = table.history().to_pylist()
    assert [(r["version"], r["operation"]) for r in rows] == [
        (3, "MERGE"),
        (2, "WRITE"),
        (1, "WRITE"),
        (0, "CREATE"),
    ]
    assert rows[2]["user_metadata"] == "nightly"
    assert '"numAddedBytes":7' in rows[2]["operation_metrics"]
    assert '"numRemovedFiles":2' in rows[0]["operation_metrics"]
    assert all(
        r["is_readable"] and r["engine_info"].startswith("indextables-python/") for r in rows
    )
    times = [r["timestamp"] for r in rows]
    assert times == sorted(times, reverse=True)
    assert table.history(limit=2).column("version").to_pylist() == [3, 2]


def test_two_merges_of_the_same_sources(path: str) -> None:
    first = Table.create(path, schema=SCHEMA)
    append(first, "a", "b")
    second = Table.open(path)
    assert merge(first, ["a", "b"], "c") == 2
    with pytest.raises(ConflictError, match="conflicts with version 2"):
        merge(second, ["a", "b"], "d")
    assert live(Table.open(path)) == {"c"}


def test_exactly_once(path: str) -> None:
    table = Table.create(path, schema=SCHEMA)
    for version, name, landed in [(1, "a", 1), (1, "b", None), (0, "c", None), (2, "d", 2)]:
        with table.transaction(txn=("query", version), check_splits=False) as tx:
            tx.add(split(name))
        assert tx.version == landed
    assert live(Table.open(path)) == {"a", "d"}


def test_a_transaction_that_fails_commits_nothing(path: str) -> None:
    table = Table.create(path, schema=SCHEMA)
    with pytest.raises(RuntimeError), table.transaction(check_splits=False) as tx:
        tx.add(split("a"))
        raise RuntimeError("the writer broke")
    with (
        pytest.raises(InvalidInputError, match="added twice"),
        table.transaction(check_splits=False) as tx,
    ):
        tx.add(split("a"))
        tx.add(split("a"))
    with pytest.raises(InvalidInputError, match="not part of version 0"), table.transaction() as tx:
        tx.remove("splits/ghost.split")
    with pytest.raises(InvalidInputError), table.transaction(check_splits=False) as tx:
        tx.add(AddAction(path="../elsewhere.split", size=1))
    with table.transaction() as tx:
        pass
    assert tx.version is None
    assert Table.open(path).version == 0


def test_paths_under_the_root_are_made_relative(path: str) -> None:
    table = Table.create(path, schema=SCHEMA)
    with table.transaction(check_splits=False) as tx:
        tx.add(AddAction(path=f"{path}/splits/x.split", size=1))
    assert table.files().column("path").to_pylist() == ["splits/x.split"]
    with (
        pytest.raises(InvalidInputError, match="outside"),
        table.transaction(check_splits=False) as tx,
    ):
        tx.add(AddAction(path="/elsewhere/x.split", size=1))


def test_absolute_paths_of_other_writers_are_read_and_escapes_refused(path: str) -> None:
    Table.create(path, schema=SCHEMA)
    line = version_file.encode(
        [AddAction(path=f"file://{path}/part-1.split".replace(" ", "%20"), size=1)]
    )
    Path(path, version_path(1)).write_bytes(line)
    assert Table.open(path).files().column("path").to_pylist() == ["part-1.split"]
    Path(path, version_path(2)).write_bytes(
        version_file.encode([AddAction(path="../x.split", size=1)])
    )
    with pytest.raises(BadFileError, match="not the table's"):
        Table.open(path)


def test_partition_values_must_name_the_partition_columns(path: str) -> None:
    table = Table.create(path, schema=SCHEMA, partition_columns=["day"])
    with pytest.raises(InvalidInputError, match="day"), table.transaction(check_splits=False) as tx:
        tx.add(AddAction(path="x.split", size=1))
    with table.transaction(check_splits=False) as tx:
        tx.add(AddAction(path="x.split", size=1, partition_values={"day": None}))
    assert tx.version == 1


def test_metadata_can_be_changed_and_unset(path: str) -> None:
    table = Table.create(path, schema=SCHEMA)
    assert table.update_metadata(name="logs", options={"transaction.retry.maxAttempts": 4}) == 1
    assert Table.open(path).settings["transaction.retry.maxAttempts"] == 4
    assert table.update_metadata(name="logs") is None
    assert table.update_metadata(unset=("transaction.retry.maxAttempts",)) == 2
    assert Table.open(path).settings["transaction.retry.maxAttempts"] == 1_000
    assert (Table.open(path).metadata.name, Table.open(path).metadata.description) == ("logs", None)
    assert table.update_metadata(description="of the web") == 3
    assert (Table.open(path).metadata.name, Table.open(path).metadata.description) == (
        "logs",
        "of the web",
    )
    assert Table.create(f"{path}2", schema=SCHEMA).metadata.name is None
    with pytest.raises(InvalidInputError, match="maxAttempts"):
        table.update_metadata(options={"transaction.retry.maxAttempts": "many"})


def test_skips_are_recorded_counted_and_expire(path: str) -> None:
    table = Table.create(path, schema=SCHEMA)
    append(table, "a", "b")
    for _ in range(2):
        with table.transaction(operation="SKIP") as tx:
            tx.skip("splits/a.split", reason="broken footer")
            tx.skip("splits/b.split", reason="too old", cooldown_hours=0)
    rows = {r["path"]: r for r in Table.open(path).skipped_files().to_pylist()}
    assert rows["splits/a.split"]["skip_count"] == 2
    assert rows["splits/a.split"]["in_cooldown"]
    assert not rows["splits/b.split"]["in_cooldown"]
    assert live(Table.open(path)) == {"a", "b"}
    merge(table, ["a"], "c")
    assert table.skipped_files().column("path").to_pylist() == ["splits/b.split"]


def test_a_version_that_is_a_link_to_nowhere_is_no_shorter_table(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    newest = tmp_path / "t" / version_path(1)
    newest.rename(tmp_path / "elsewhere")
    newest.symlink_to(tmp_path / "not mounted")
    table.invalidate_cache()
    with pytest.raises(CorruptTableError, match=re.escape(version_path(1))):
        Table.open(str(tmp_path / "t"))


def test_a_hole_in_the_log_is_named(path: str) -> None:
    table = Table.create(path, schema=SCHEMA)
    for n in range(6):
        append(table, f"s{n}")
    Path(path, version_path(3)).unlink()
    with pytest.raises(LogGapError, match=r"Version 3 .*open version 2"):
        Table.open(path)
    assert live(Table.open(path, version=2)) == {"s0", "s1"}


def test_a_garbled_version_is_named(path: str) -> None:
    table = Table.create(path, schema=SCHEMA)
    for n in range(5):
        append(table, f"s{n}")
    Path(path, version_path(4)).write_bytes(b'{"add":{"path":"x","size":1}}\n{"add":')
    with pytest.raises(BadFileError, match=r"00004\.json, line 2"):
        Table.open(path)


def test_a_protocol_too_new_is_named(path: str) -> None:
    table = Table.create(path, schema=SCHEMA)
    newer = ProtocolAction(min_reader_version=9, min_writer_version=9)
    Path(path, version_path(1)).write_bytes(version_file.encode([newer]))
    with pytest.raises(UnsupportedError, match="version 9; this release supports up to 4"):
        Table.open(path)
    with pytest.raises(UnsupportedError):
        append(table, "a")
    assert not Path(path, version_path(2)).exists()


def test_the_protocol_is_raised_and_never_lowered(path: str) -> None:
    table = Table.create(path, schema=SCHEMA)
    assert table.upgrade_protocol(min_reader_version=2, min_writer_version=2) is None
    assert Table.open(path).protocol.min_reader_version == 4


def test_a_version_without_a_protocol_is_legacy(path: str) -> None:
    schema = '{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{}}]}'
    first = Path(path, version_path(0))
    first.parent.mkdir(parents=True)
    text = schema.replace('"', '\\"')
    first.write_text(
        f'{{"metaData":{{"id":"x","schemaString":"{text}","partitionColumns":[],"configuration":{{}}}}}}\n'
    )
    table = Table.open(path)
    assert (table.protocol.min_reader_version, table.protocol.min_writer_version) == (1, 1)
    assert table.upgrade_protocol(min_reader_version=2, min_writer_version=3) == 1
    assert (
        Table.open(path).protocol.min_reader_version,
        Table.open(path).protocol.min_writer_version,
    ) == (2, 3)


def test_the_cache_can_be_looked_at_and_emptied(path: str) -> None:
    table = Table.create(path, schema=SCHEMA)
    append(table, "a")
    Table.open(path)
    assert table.cache_stats().entries["snapshots"] == 1
    before = table.invalidate_cache()
    assert before["kinds"]["snapshots"]["entries"] == 1
    assert table.cache_stats().entries == {}
    assert live(Table.open(path)) == {"a"}


def test_the_specifications_kinds_have_their_hit_rates(path: str) -> None:
    table = Table.create(path, schema=SCHEMA)
    append(table, "a")
    Table.open(path)
    before = table.cache_stats()
    Table.open(path)
    after = table.cache_stats()
    gained = {kind: after.hits.get(kind, 0) - before.hits.get(kind, 0) for kind in SPECIFIED_KINDS}
    assert gained == {"protocol": 1, "metadata": 1, "files": 1, "versions_list": 0, "versions": 0}
    assert after.misses["versions_list"] == before.misses["versions_list"] + 1
    Table.open(path, max_staleness=60)
    assert table.cache_stats().hits["versions_list"] == before.hits.get("versions_list", 0) + 1
    append(Table.open(path), "b")
    Table.open(path)
    assert table.cache_stats().misses["files"] > after.misses["files"]
    assert set(SPECIFIED_KINDS) <= set(table.cache_stats().to_dict()["kinds"])
    shown = sql(f"DESCRIBE INDEXTABLES LOG CACHE FOR '{path}'").to_pylist()
    rates = {row["kind"]: row["hit_rate"] for row in shown if row["table_path"] == table.path}
    assert rates["metadata"] == table.cache_stats().hit_rate("metadata") > 0


SPECIFIED_KINDS = ("protocol", "metadata", "files", "versions_list", "versions")


def test_one_kind_is_forgotten_alone(path: str) -> None:
    table = Table.create(path, schema=SCHEMA, options={"checkpoint.interval": 2})
    for name in "abc":
        append(table, name)
    Table.open(path).files()
    assert {"snapshots", "versions", "states"} <= set(table.cache_stats().entries)
    table.invalidate_cache(kind="versions")
    assert (
        "versions" not in table.cache_stats().entries and "snapshots" in table.cache_stats().entries
    )
    table.invalidate_cache(kind="protocol")
    assert not {"snapshots", "states"} & set(table.cache_stats().entries)
    Table.open(path).files()
    misses = table.cache_stats().misses
    table.invalidate_cache(kind="metadata")
    assert not {"snapshots", "states"} & set(table.cache_stats().entries)
    assert live(Table.open(path)) == {"a", "b", "c"}
    assert table.cache_stats().misses["metadata"] == misses.get("metadata", 0) + 1
    with pytest.raises(InvalidInputError, match="no kind 'colour'") as refused:
        table.invalidate_cache(kind="colour")
    assert "versions_list" in str(refused.value)


class GatedStore(CountingStore):
    """Lists when the gate is open."""

    gate = threading.Event()

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        self.gate.wait(10)
        return super().list(prefix, start_after=start_after)


def test_who_allows_staleness_has_the_store_asked_beside_and_never_waits(path: str) -> None:
    Table.create(path, schema=SCHEMA)
    now_ms, store = 0, GatedStore(LocalStore(path))
    log = TransactionLog(LogContext(store, cache=LogCache(1 << 20), now_ms=lambda: now_ms))
    store.gate.set()
    log.newest()
    Path(path, version_path(1)).write_bytes(
        version_file.encode([AddAction(path="a.split", size=1)])
    )
    store.gate.clear()
    store.reset()
    now_ms = 4_000
    assert log.newest(max_staleness_seconds=10).version == 0
    assert not any(store.reset().requests.values())
    now_ms = 6_000
    assert log.newest(max_staleness_seconds=10).version == 0  # while the store does not answer
    store.gate.set()
    deadline = time.monotonic() + 10
    while log.newest(max_staleness_seconds=10).version == 0 and time.monotonic() < deadline:
        pass
    assert log.newest(max_staleness_seconds=10).version == 1
    assert store.reset().requests["list"] == 1


def test_a_look_beside_never_hides_a_newer_one(path: str) -> None:
    """The thread beside comes late: what others have seen and committed meanwhile stays."""
    table = Table.create(path, schema=SCHEMA)
    log = TransactionLog(LogContext(LocalStore(path), cache=LogCache(1 << 20)))
    log.newest()
    older = log.snapshots.find_cached()
    assert older is not None
    append(table, "a")
    assert log.newest().version == 1
    log.snapshots.refresh(older)
    assert log.newest(max_staleness_seconds=60).version == 1
    assert log.snapshots.find_cached() is not older


def test_a_split_that_is_not_there_is_not_added(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    (there,) = to_actions(table.handle.snapshot.all_files)
    copy = tmp_path / "t" / "splits" / "copy.split"
    new = replace(there, path="splits/copy.split", added_at_version=None, added_at_timestamp=None)
    missing = pytest.raises(
        InvalidInputError, match=r"splits/copy.split cannot be added .* not there"
    )
    with missing as refused, table.transaction() as tx:
        tx.add(new)
    assert "check_splits=False" in (refused.value.hint or "")
    copy.write_bytes((tmp_path / "t" / there.path).read_bytes()[:-1])
    short = pytest.raises(InvalidInputError, match=f"{there.size - 1} bytes and not {there.size}")
    with short, table.transaction() as tx:
        tx.add(new)
    assert (table.refresh().version, table.refresh().count()) == (1, 10)
    copy.write_bytes((tmp_path / "t" / there.path).read_bytes())
    with table.transaction(txn=("copier", 1)) as tx:
        tx.add(new)
    assert (tx.version, table.count(), len(ids(table))) == (2, 20, 20)
    table.delete(where="id >= 0")
    copy.unlink()
    with Table.open(table.path).transaction(txn=("copier", 1)) as tx:
        tx.add(new)
    assert tx.version is None, (
        "what was committed before is skipped, wherever its splits are by now"
    )
    with table.transaction(check_splits=False) as tx:
        tx.add(replace(new, path="splits/later.split"))
    assert table.count() == 10
