"""Settings by the names of IndexTables for the JVM that work here: each changes something that a
user sees or a test can count.
"""

from __future__ import annotations

import logging
import pickle
import random
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from indextables import Table, config
from indextables.commands import sql
from indextables.errors import AccessDeniedError, BadFileError, InvalidInputError
from indextables.log.cache import PROCESS_CACHE, KindBounds, LogCache
from indextables.operations.auto_upkeep import _has_room
from indextables.pools import WRITES
from indextables.query.explain import ScanReport
from indextables.splits.format.source import coalesce, cut
from indextables.storage.clients import load_provider, secrets_of
from indextables.storage.spec import StoreSpec, open_store
from tests.support.fault_server import FaultServer, HttpFault
from tests.support.rows import ids, rows, table_of
from tests.support.splits import log_rows

PREFIX = "spark.indextables."
LINES = log_rows(60_000)


@pytest.fixture(autouse=True)
def _nothing_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indextables.config.registry._mentioned", set())
    monkeypatch.setattr(
        "indextables.config.registry._shared_folder", ""
    )  # of a Spark session of this process


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    with FaultServer() as server:
        options = {"indexing.typemap.message": "text", **server.s3.options}
        table = Table.create(server.s3.url + "/t", schema=LINES.schema, options=options)
        table.append(LINES)
        yield server


@pytest.fixture(scope="module")
def lines_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    options = {"indexing.typemap.message": "text", "indexing.substring.message": "true"}
    table = Table.create(
        str(tmp_path_factory.mktemp("lines") / "t"), schema=LINES.schema, options=options
    )
    table.append(LINES)
    return table.path


class TestRangesOfRemoteSplits:
    """`read.coalesceMaxGap` and `read.maxRangeSize`, counted by an S3 server."""

    def read(self, server: FaultServer, folder: Path, **options: str) -> tuple[ScanReport, int]:
        """A cold read of two columns with an index of a third beside: what it says of itself, and
        what the server saw.
        """
        told = {
            **server.s3.options,
            "cache.directoryPath": str(folder),
            "cache.memory.maxSize": "0",
        }
        table = Table.open(server.s3.url + "/t", options={**told, **options})
        before = server.count("GET", "splits/")
        report = table.explain(where="latency >= 0", columns=["ts", "latency"])
        assert report.rows_matched == LINES.num_rows
        return report, server.count("GET", "splits/") - before

    @pytest.mark.parametrize(
        "key",
        ["read.coalesceMaxGap", "cache.coalesceMaxGap", "read.batchOptimization.gapTolerance"],
    )
    def test_the_gap(self, server: FaultServer, tmp_path: Path, key: str) -> None:
        apart, requests_apart = self.read(server, tmp_path / "apart", **{PREFIX + key: "0"})
        joined, requests_joined = self.read(server, tmp_path / "joined", **{PREFIX + key: "100M"})
        assert requests_apart > requests_joined, "a request for each part, or one for all"
        assert apart.bytes_read < joined.bytes_read, "what lies between is fetched too"
        assert (apart.requests, joined.requests) == (requests_apart, requests_joined), (
            "what is told is what happens"
        )

    @pytest.mark.parametrize("key", ["read.maxRangeSize", "read.batchOptimization.maxRangeSize"])
    def test_the_size(self, server: FaultServer, tmp_path: Path, key: str) -> None:
        whole = {PREFIX + "read.coalesceMaxGap": "100M"}
        _, joined = self.read(server, tmp_path / "joined", **whole)
        report, bounded = self.read(server, tmp_path / "bounded", **whole, **{PREFIX + key: "64K"})
        assert bounded > joined
        assert report.requests == bounded

    def test_the_rows_are_the_same(self, server: FaultServer, tmp_path: Path) -> None:
        for gap, most in (("0", "0"), ("1", "1"), ("1G", "100K"), ("256K", "0")):
            told = {
                "read.coalesceMaxGap": gap,
                "read.maxRangeSize": most,
                "cache.directoryPath": str(tmp_path / gap),
            }
            table = Table.open(server.s3.url + "/t", options={**server.s3.options, **told})
            assert (
                table.scan(where="latency > 20")
                .read_all()
                .equals(LINES.filter(pa.compute.field("latency") > 20))
            )
            assert table.count(query="message:timeout") == sum(
                "timeout" in m for m in LINES["message"].to_pylist()
            )

    def test_every_range_is_in_one_that_is_fetched(self) -> None:
        draw, data = random.Random(7), bytes(range(256)) * 40
        for _ in range(500):
            ranges = [
                (draw.randrange(9_000), draw.choice([0, 1, 50, 1_000]))
                for _ in range(draw.randrange(12))
            ]
            gap, most = draw.choice([0, 1, 100, 10_000]), draw.choice([0, 1, 60, 2_000])
            joined = coalesce(ranges, gap, most)
            parts = [data[start : start + length] for start, length in joined]
            assert cut(ranges, joined, parts) == [
                data[start : start + length] for start, length in ranges
            ]
            longest = max((length for _, length in ranges), default=0)
            assert all(not most or length <= max(most, longest) for _, length in joined)


class TestConditionsOverTexts:
    """`filter.string*.pushdown`: the same rows, with and without the index."""

    CONDITIONS: Mapping[str, str] = {
        "Contains": "contains(message, 'n1234 ') OR message LIKE '%n41234%'",
        "StartsWith": "startswith(message, 'disk full cache')",
        "EndsWith": "message LIKE '%n41234'",
        "Pattern": "message LIKE '%n4123_' AND message RLIKE 'n412[0-9]+'",
    }

    @pytest.mark.parametrize("kind", CONDITIONS)
    def test_the_rows_decide_where_the_index_is_not_asked(self, lines_path: str, kind: str) -> None:
        where, key = self.CONDITIONS[kind], f"filter.string{kind}.pushdown"
        expected = Table.open(lines_path).scan(where=where, columns=["ts"]).read_all()
        assert expected.num_rows
        for other in self.CONDITIONS:
            options = {f"{PREFIX}filter.string{other}.pushdown": "false"}
            table = Table.open(lines_path, options=options)
            by = table.explain(where=where, columns=[]).splits[0].answered_by
            assert by == ("rows" if other == kind else "3-grams, confirmed by rows")
            assert table.scan(where=where, columns=["ts"]).read_all().equals(expected)
        assert config.resolve()[key] is True

    def test_a_table_may_say_it(self, tmp_path: Path) -> None:
        options = {"indexing.substring.message": "true", "filter.stringContains.pushdown": "false"}
        table = Table.create(str(tmp_path / "t"), schema=LINES.schema, options=options)
        table.append(LINES.slice(0, 1_000))
        condition = "contains(message, 'n123')"
        assert Table.open(table.path).explain(where=condition).splits[0].answered_by == "rows"
        asked = Table.open(table.path, options={"filter.stringContains.pushdown": "true"})
        assert asked.explain(where=condition).splits[0].answered_by == "3-grams, confirmed by rows"


class TestRoomForMerges:
    """`mergeOnWrite.minDiskSpaceGB`."""

    MERGING: Mapping[str, object] = {
        "mergeOnWrite.enabled": True,
        "mergeOnWrite.minSplits": 2,
        "mergeOnWrite.async.enabled": False,
    }

    def test_a_merge_begins_only_where_there_is_room(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        options = {**self.MERGING, "indexWriter.tempDirectoryPath": str(scratch)}
        full = {**options, PREFIX + "mergeOnWrite.minDiskSpaceGB": "1000000"}
        with caplog.at_level(logging.WARNING, "indextables"):
            table = table_of(tmp_path / "t", appends=3, options=full)
        assert table.files().num_rows == 3
        said = [r.getMessage() for r in caplog.records]
        assert len(said) == 2, "once for each write that would have merged"
        assert all(
            f"is not merged: {scratch} has " in line and "minDiskSpaceGB (1e+06)" in line
            for line in said
        )
        roomy = Table.open(
            table.path, options={**options, "mergeOnWrite.minDiskSpaceGB": "0.000001"}
        )
        roomy.append(rows(range(30, 40)))
        assert (roomy.files().num_rows, ids(roomy)) == (1, list(range(40)))

    def test_a_folder_that_is_not_there_yet_and_a_number_that_is_none(self, tmp_path: Path) -> None:
        table = table_of(tmp_path / "t", appends=1)
        handle = Table.open(
            table.path, options={"indexWriter.tempDirectoryPath": str(tmp_path / "no" / "such")}
        )
        assert _has_room(handle.handle, 0.000001)
        assert not _has_room(handle.handle, 1e9)
        with pytest.raises(InvalidInputError, match=r"minDiskSpaceGB' cannot be 'nan'"):
            config.resolve(options={"mergeOnWrite.minDiskSpaceGB": "nan"})


class TestPrewarming:
    """`prewarm.fields`, `prewarm.partitionFilter` and `prewarm.enabled`, counted by an S3 server."""

    SCHEMA = pa.schema([(name, pa.string()) for name in ("day", "level", "host", "message")])

    def table(self, server: FaultServer, folder: Path, **options: str) -> Table:
        told = {**server.s3.options, "cache.directoryPath": str(folder), **options}
        if not server.bucket.objects:
            made = Table.create(
                server.s3.url, schema=self.SCHEMA, partition_columns=["day"], options=told
            )
            lines = LINES.select(["level", "host", "message"])  # more than is fetched whole
            for day in ("1", "2"):
                made.append(lines.add_column(0, "day", [[day] * lines.num_rows]))
        return Table.open(server.s3.url, options=told)

    def gets(self, server: FaultServer, act: Any) -> int:
        before = server.count("GET", "splits/")
        act()
        return server.count("GET", "splits/") - before

    def test_what_no_statement_names(self, fault_server: FaultServer, tmp_path: Path) -> None:
        self.table(fault_server, tmp_path)
        told = {
            PREFIX + "prewarm.fields": "LEVEL,nothere",
            PREFIX + "prewarm.partitionFilter": "day = '2'",
        }
        table = self.table(fault_server, tmp_path / "told", **told)
        report = table.prewarm()
        assert (report.splits, report.message) == (
            1,
            "No index to fetch: nothere (read from the rows of a split).",
        )
        assert table.prewarm(where="day IN ('1', '2')").splits == 2
        everything = self.table(fault_server, tmp_path / "all").prewarm()
        assert everything.splits == 2
        assert everything.bytes > 2 * report.bytes > 0
        assert "nothere" not in table.prewarm(columns=["host"]).message
        found = sql(
            f"PREWARM INDEXTABLES CACHE '{fault_server.s3.url}'",
            options={**fault_server.s3.options, **told},
        )
        assert found.to_pylist()[0]["splits_prewarmed"] == 1
        with pytest.raises(InvalidInputError, match="has an index of 'nothere'"):
            self.table(
                fault_server, tmp_path, **told, **{"prewarm.failOnMissingField": "true"}
            ).prewarm()

    def test_a_table_may_name_the_columns(self, fault_server: FaultServer, tmp_path: Path) -> None:
        table = self.table(fault_server, tmp_path)
        table.update_metadata(options={"prewarm.fields": "level"})
        table.alter.rename_column("level", "severity")
        opened = self.table(fault_server, tmp_path / "other")
        assert opened.settings["prewarm.fields"] == ("severity",)
        assert opened.prewarm().message == ""
        with pytest.raises(InvalidInputError, match="cannot be stored in table metadata"):
            table.update_metadata(options={"prewarm.partitionFilter": "day = '1'"})

    def test_the_first_read_of_a_split_warms_it(
        self, fault_server: FaultServer, tmp_path: Path
    ) -> None:
        self.table(fault_server, tmp_path)
        cold = self.table(fault_server, tmp_path / "cold")
        cold.count(query="level:WARN")
        assert self.gets(fault_server, lambda: cold.count(query="host:x")) > 0
        told = {PREFIX + "prewarm.enabled": "true", PREFIX + "prewarm.partitionFilter": "day = '1'"}
        warmed = self.table(fault_server, tmp_path / "warm", **told)
        assert self.gets(fault_server, lambda: warmed.count(query="level:WARN")) > 0
        assert self.gets(fault_server, lambda: warmed.count(query="host:x", where="day = '1'")) == 0
        assert self.gets(fault_server, lambda: warmed.count(query="host:x", where="day = '2'")) > 0
        elsewhere = {**told, PREFIX + "prewarm.partitionFilter": "nothere = 1"}
        assert self.table(fault_server, tmp_path / "other", **elsewhere).count(query="level:WARN")

    def test_a_damaged_index_fails_who_needs_it_and_no_other_read(
        self, fault_server: FaultServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        whole = self.table(fault_server, tmp_path).scan(columns=["level"]).read_all()
        objects = fault_server.bucket.objects
        name = next(path for path in objects if path.endswith(".split"))
        size = len(objects[name].data)
        for start in range(size * 2 // 3, size, 10_000):  # rows come first, then their index
            sound = objects[name]
            objects[name] = replace(
                sound, data=sound.data[:start] + b"!" * 50 + sound.data[start + 50 :]
            )
            if self._is_damaged(fault_server, tmp_path / f"{start}", whole.num_rows):
                break
            objects[name] = sound
        warmed = self.table(fault_server, tmp_path / "warm", **{PREFIX + "prewarm.enabled": "true"})
        with caplog.at_level(logging.WARNING, "indextables"):
            assert warmed.scan(columns=["level"]).read_all().num_rows == whole.num_rows
        assert sum("is not prewarmed" in record.getMessage() for record in caplog.records) == 1

    def _is_damaged(self, server: FaultServer, folder: Path, rows: int) -> bool:
        """Whether indexes cannot be fetched, and a column can be read."""
        table = self.table(server, folder)
        try:
            readable = bool(table.scan(columns=["level"]).read_all().num_rows == rows)
        except BadFileError:
            return False
        try:
            table.prewarm()
        except BadFileError:
            return readable
        return False

    @pytest.mark.parametrize("told", ["day > 5", "message.x = 'a'", "nothere = 1", "day = ("])
    def test_a_filter_that_does_not_fit_a_table_harms_no_read(
        self, tmp_path: Path, told: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        table = Table.create(str(tmp_path / "t"), schema=self.SCHEMA)
        table.append([{"day": "1", "message": "a"}])
        options = {"prewarm.enabled": "true", "prewarm.partitionFilter": told}
        with caplog.at_level(logging.WARNING, "indextables"):
            opened = Table.open(table.path, options=options)
            assert (opened.count(), opened.search("message:a").num_rows) == (1, 1)
        assert (
            sum("prewarm.partitionFilter" in record.getMessage() for record in caplog.records) == 1
        )

    def test_only_the_columns_that_are_named(
        self, fault_server: FaultServer, tmp_path: Path
    ) -> None:
        self.table(fault_server, tmp_path)
        told = {PREFIX + "prewarm.enabled": "true", PREFIX + "prewarm.fields": "host"}
        warmed = self.table(fault_server, tmp_path / "warm", **told)
        warmed.scan(columns=["level"], limit=1).read_all()
        assert self.gets(fault_server, lambda: warmed.count(query="host:x", where="day = '1'")) == 0
        assert self.gets(fault_server, lambda: warmed.count(query="level:x", where="day = '1'")) > 0


@pytest.mark.parametrize(("options", "parts"), [({}, 3), ({PREFIX + "s3.partSize": "5M"}, 4)])
def test_a_large_file_is_uploaded_in_parts(
    fault_server: FaultServer, tmp_path: Path, options: dict[str, str], parts: int
) -> None:
    source = tmp_path / "large"
    source.write_bytes(bytes(17 << 20))
    store = StoreSpec.from_url(fault_server.s3.url, {**fault_server.s3.options, **options})
    open_store(store).put_file("large", source)
    assert fault_server.count("PUT", "large") == parts
    with pytest.raises(
        InvalidInputError,
        match=r"'s3\.partSize' cannot be '1M'\. Allowed: .* at least 5242880 bytes",
    ):
        config.resolve(options={"s3.partSize": "1M"})


UNBOUNDED = KindBounds(
    dict.fromkeys(("versions", "snapshots", "manifests"), 0),
    dict.fromkeys(("versions", "metadata", "files"), 0),
)


class TestBoundsOfTheLogCache:
    """`transaction.cache.*.ttl.ms` and `.capacity`."""

    @pytest.fixture(autouse=True)
    def _unbounded(self) -> Iterator[None]:
        PROCESS_CACHE.invalidate()
        yield
        PROCESS_CACHE.set_bounds(UNBOUNDED)
        PROCESS_CACHE.invalidate()

    def test_entries_grow_old_from_when_they_were_read(self) -> None:
        now = [0.0]
        cache = LogCache(1 << 20, monotonic=lambda: now[0])
        cache.set_bounds(KindBounds(max_age_s={"metadata": 5, "versions": 2}))
        for kind in ("snapshots", "states", "versions", "manifests"):
            cache.put(kind, "t", "x", 1, cost_bytes=10)
        now[0] = 2.0
        cache.put("snapshots", "t", "x", 2, cost_bytes=10)  # goes on from the one before
        held = {
            kind: cache.get(kind, "t", "x")
            for kind in ("snapshots", "states", "versions", "manifests")
        }
        assert held == {"snapshots": 2, "states": 1, "versions": None, "manifests": 1}
        now[0] = 5.0
        assert [cache.get(kind, "t", "x") for kind in ("snapshots", "states", "manifests")] == [
            None,
            None,
            1,
        ]
        cache.put("snapshots", "t", "x", 3, cost_bytes=10)
        now[0] = 9.9
        assert cache.get("snapshots", "t", "x") == 3
        assert cache.stats().held_bytes == 20
        cache.set_bounds(UNBOUNDED)
        now[0] = 1e9
        assert cache.get("snapshots", "t", "x") == 3

    def test_of_a_kind_the_least_recently_used_goes_first(self) -> None:
        cache = LogCache(1 << 20)
        for number in range(5):
            cache.put("versions", "t", number, number, cost_bytes=10)
            cache.put("states", "t", number, number, cost_bytes=10)
        cache.get("versions", "t", 1)
        cache.set_bounds(KindBounds(max_entries={"versions": 2, "states": 0}))
        assert cache.stats().entries == {"versions": 2, "states": 5}
        cache.put("versions", "t", 9, 9, cost_bytes=10)
        assert [cache.get("versions", "t", n) for n in (0, 1, 4, 9)] == [None, 1, None, 9]
        assert cache.stats().entries["versions"] == 2
        cache.invalidate(kind="versions")
        assert cache.stats().entries == {"states": 5}

    def test_version_files_that_are_remembered(self, tmp_path: Path) -> None:
        table = table_of(tmp_path / "t", appends=6, options={"checkpoint.enabled": "false"})
        PROCESS_CACHE.invalidate()
        bounded = {
            "checkpoint.enabled": "false",
            PREFIX + "transaction.cache.version.capacity": "3",
        }
        assert Table.open(table.path, options=bounded).cache_stats().entries["versions"] == 3

    def test_tables_whose_snapshot_is_remembered(self, tmp_path: Path) -> None:
        paths = [table_of(tmp_path / name, appends=1).path for name in "abc"]
        for path in paths:
            Table.open(path, options={PREFIX + "transaction.cache.snapshot.capacity": "2"})
        assert PROCESS_CACHE.stats().entries["snapshots"] == 2
        assert "snapshots" not in PROCESS_CACHE.stats(paths[0]).entries

    @pytest.mark.parametrize("key", ["metadata", "fileList"])
    def test_what_is_too_old_is_read_again(self, tmp_path: Path, key: str) -> None:
        path = table_of(tmp_path / "t", appends=2).path
        options = {PREFIX + f"transaction.cache.{key}.ttl.ms": "1"}
        table = Table.open(path, options=options)

        def looks() -> tuple[int, int]:
            stats = table.cache_stats()
            return stats.hits.get("metadata", 0), stats.misses.get("metadata", 0)

        before = looks()
        for _ in range(3):
            time.sleep(0.003)
            table.refresh()
        assert (looks()[0] - before[0], looks()[1] - before[1]) == (0, 3)
        PROCESS_CACHE.set_bounds(UNBOUNDED)
        before = looks()
        table.refresh()
        table.refresh()
        assert looks()[0] > before[0]

    def test_tables_whose_manifests_are_remembered(self, tmp_path: Path) -> None:
        tables = [
            table_of(tmp_path / name, appends=6, options={"state.entriesPerManifest": "2"})
            for name in "ab"
        ]
        for table in tables:
            table.checkpoint()
        PROCESS_CACHE.invalidate()
        options = {PREFIX + "transaction.cache.fileList.capacity": "1"}
        for table in tables:
            assert Table.open(table.path, options=options).files().num_rows == 6
        held = [PROCESS_CACHE.stats(table.path).entries.get("manifests", 0) for table in tables]
        assert held[0] == 0
        assert held[1] >= 3

    def test_a_bound_that_is_given_replaces_the_one_of_its_kind_and_no_other(
        self, tmp_path: Path
    ) -> None:
        table = table_of(tmp_path / "t", appends=6, options={"checkpoint.enabled": "false"})
        key, plain = PREFIX + "transaction.cache.{}.capacity", {"checkpoint.enabled": "false"}
        Table.open(table.path, options={**plain, key.format("version"): "3"})
        Table.open(table.path, options={**plain, key.format("snapshot"): "2"})
        PROCESS_CACHE.invalidate()
        assert Table.open(table.path, options=plain).cache_stats().entries["versions"] == 3
        Table.open(table.path, options={**plain, key.format("version"): "0"})
        PROCESS_CACHE.invalidate()
        assert Table.open(table.path, options=plain).cache_stats().entries["versions"] == 7


GIVEN = {
    "databricks.workspaceUrl": "https://adb-1.azuredatabricks.net",
    "databricks.apiToken": "dapi-hush-hush",
    "databricks.credential.refreshBuffer.minutes": "40",
    "databricks.cache.maxSize": "100",
    "databricks.fallback.enabled": "true",
    "databricks.retry.attempts": "3",
}
TYPED = {
    **GIVEN,
    "databricks.credential.refreshBuffer.minutes": 40,
    "databricks.cache.maxSize": 100,
    "databricks.fallback.enabled": True,
    "databricks.retry.attempts": 3,
}
TOLD: list[dict[str, Any]] = []


class Workspace:
    """A provider that is told of its workspace."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._token = settings["databricks.apiToken"]
        TOLD.append(settings)

    def __call__(self) -> dict[str, Any]:
        later = datetime.now(UTC) + timedelta(hours=1)
        return {
            "access_key_id": f"for-{self._token}",
            "secret_access_key": "s",
            "token": None,
            "expires_at": later,
        }


def workspace(*, settings: dict[str, Any]) -> dict[str, Any]:
    """The same as a function."""
    return Workspace(settings)()


class Broken:
    """A provider that cannot be made, and tells why."""

    def __init__(self, settings: dict[str, Any]) -> None:
        raise RuntimeError(f"no workspace for {settings}")


class NotTold:
    """A provider that is told nothing."""

    def __call__(self) -> dict[str, Any]:
        return Workspace({"databricks.apiToken": "nobody"})()


class TestDatabricks:
    """`databricks.*`, which a class of credentials reads."""

    @pytest.fixture(autouse=True)
    def _module(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "providers_of_this_test", sys.modules[__name__])
        TOLD.clear()

    def test_a_provider_that_cannot_be_made_shows_no_token(self) -> None:
        options = {
            **GIVEN,
            "aws.credentialsProviderClass": "providers_of_this_test:Broken",
            "aws.region": "x",
        }
        with pytest.raises(
            InvalidInputError, match=r"providers_of_this_test:Broken' failed: RuntimeError: no work"
        ) as e:
            open_store(StoreSpec.from_url("s3://bucket/t", options)).head("x")
        assert "hush" not in "".join(traceback.format_exception(e.value))

    def spec(self, server: FaultServer, name: str, **options: str) -> StoreSpec:
        kept = {
            k: v
            for k, v in server.s3.options.items()
            if k not in ("aws.accessKey", "aws.secretKey")
        }
        provider = {"aws.credentialsProviderClass": f"providers_of_this_test:{name}"}
        given = {PREFIX + key: value for key, value in GIVEN.items()}
        return StoreSpec.from_url(server.s3.url, {**kept, **provider, **given, **options})

    @pytest.mark.parametrize("name", ["Workspace", "workspace"])
    def test_a_provider_is_told(
        self, fault_server: FaultServer, caplog: pytest.LogCaptureFixture, name: str
    ) -> None:
        spec = pickle.loads(
            pickle.dumps(self.spec(fault_server, name))
        )  # as it travels to a worker
        with caplog.at_level(logging.WARNING, "indextables"):
            open_store(spec).put("x", b"1")
        assert TOLD[0] == TYPED
        assert "for-dapi-hush-hush" in fault_server.headers[0]["Authorization"]
        assert caplog.records == []

    def test_one_that_is_told_nothing_goes_on_as_before(
        self, fault_server: FaultServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.WARNING, "indextables"):
            for _ in range(2):
                open_store(self.spec(fault_server, "NotTold")).put("x", b"1")
        (line,) = [record.getMessage() for record in caplog.records]
        assert "NotTold has no parameter `settings`" in line
        assert line.startswith("Nothing reads databricks.apiToken, ")
        assert load_provider("providers_of_this_test:NotTold")()["access_key_id"] == "for-nobody"

    @pytest.mark.parametrize("url", ["s3://bucket/t", "az://container/t", "/tmp/t"])
    def test_without_a_provider_a_line_says_that_nothing_reads_them(
        self, url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.WARNING, "indextables"):
            for _ in range(2):
                StoreSpec.from_url(url, {**GIVEN, "azure.accountName": "a"})
        (line,) = [record.getMessage() for record in caplog.records]
        assert "Nothing reads databricks.apiToken" in line
        assert "aws.credentialsProviderClass names no class" in line
        assert "hush" not in line

    def test_the_token_is_shown_nowhere(self, fault_server: FaultServer) -> None:
        spec = self.spec(fault_server, "Workspace")
        provider = load_provider(
            "providers_of_this_test:workspace", spec.options.databricks.given()
        )
        settings = config.resolve(options=GIVEN)
        shown = [
            repr(spec),
            repr(spec.options),
            repr(spec.options.databricks),
            repr(settings),
            repr(provider),
        ]
        shown.append(str(sql("DESCRIBE INDEXTABLES ENVIRONMENT", options=GIVEN).to_pylist()))
        assert not [text for text in shown if "hush" in text]
        assert "databricks.apiToken" in shown[-1]
        assert "dapi-hush-hush" in secrets_of(spec.options)


def test_partitions_of_a_write_are_built_at_the_same_time(tmp_path: Path) -> None:
    WRITES.forget()
    data = pa.table({"day": [str(n % 7) for n in range(700)], "n": list(range(700))})
    found = []
    for name, threads in (("one", "1"), ("four", "4")):
        options = {PREFIX + "indexWriter.threads": threads}
        table = Table.create(
            str(tmp_path / name), schema=data.schema, partition_columns=["day"], options=options
        )
        table.append(data)
        assert WRITES.size == (0 if threads == "1" else 4)
        days = [
            dict(values)["day"] for values in table.files().column("partition_values").to_pylist()
        ]
        found.append((days, table.scan().read_all().sort_by("n").to_pylist()))
    assert found[0] == found[1]
    assert len(found[0][0]) == 7


def test_splits_of_a_write_that_fails_in_one_partition_are_deleted(
    fault_server: FaultServer,
) -> None:
    options = {"indexWriter.threads": "4", **fault_server.s3.options}
    data = pa.table({"day": [str(n) for n in range(8)], "n": list(range(8))})
    table = Table.create(
        fault_server.s3.url, schema=data.schema, partition_columns=["day"], options=options
    )
    fault_server.plan(HttpFault("PUT", "day=5", status=403, code="AccessDenied", times=100))
    with pytest.raises(AccessDeniedError):
        table.append(data)
    assert fault_server.count("PUT", "splits/") >= 4
    assert [path for path in fault_server.bucket.objects if path.endswith(".split")] == []
    fault_server.forgive()
    table.append(data)
    assert table.scan().read_all().sort_by("n").equals(data)
