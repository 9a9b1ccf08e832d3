"""HDFS keeps the contract of a store, and a table lives on it: Hadoop's own servers, brought by
Maven.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from itertools import count

import pyarrow as pa
import pytest
from hdfs_native import Client, WriteOptions

from indextables import Table
from indextables.errors import InvalidInputError, StorageError, UnavailableError, UnsupportedError
from indextables.storage import Store, StoreSpec, open_store
from tests.support import store_contract
from tests.support.places import StorePlace
from tests.support.servers import ServerUnavailableError, hdfs_server
from tests.support.store_contract import StoreContract, paths
from tests.support.store_races import race

_fresh = count()


@pytest.fixture(scope="module")
def hdfs() -> Iterator[StorePlace]:
    """A folder of a running HDFS; skips where there is no Maven."""
    try:
        server = hdfs_server()
        place = server.__enter__()
    except ServerUnavailableError as reason:
        pytest.skip(str(reason))
    try:
        yield place
    finally:
        server.__exit__(None, None, None)


@pytest.fixture
def hdfs_place(hdfs: StorePlace) -> StorePlace:
    """A folder that does not exist yet."""
    return hdfs.below(f"fresh-{next(_fresh)}/a b=c%20")


@pytest.mark.slow
class TestHdfs(StoreContract):
    @pytest.fixture
    def store(self, hdfs_place: StorePlace) -> Store:
        return hdfs_place.open()

    @pytest.mark.parametrize(
        "name", [name for name in store_contract.AWKWARD_NAMES if ":" not in name]
    )
    def test_awkward_names(self, store: Store, name: str) -> None:
        super().test_awkward_names(store, name)

    def test_a_colon_is_refused_by_name(self, store: Store) -> None:
        with pytest.raises(InvalidInputError, match="'a:b' is no name for HDFS"):
            store.put("a:b", b"x")


@pytest.mark.slow
def test_one_winner(hdfs_place: StorePlace) -> None:
    race(hdfs_place, 50)


@pytest.mark.slow
def test_a_table_lives_on_it(hdfs_place: StorePlace) -> None:
    rows = pa.table({"id": list(range(1000)), "line": [f"line {n % 7}" for n in range(1000)]})
    table = Table.create(
        hdfs_place.url, schema=rows.schema, options={"indexing.typemap.line": "text"}
    )
    for n in range(12):
        table.append(rows.slice(n * 80, 80))
    assert Table.open(hdfs_place.url).count(query="line:3") == sum(n % 7 == 3 for n in range(960))
    assert table.merge().merged_files == 12
    assert table.delete(where="id < 100").deleted_rows == 100
    again = Table.open(hdfs_place.url)
    assert again.scan(columns=["id"]).read_all()["id"].to_pylist() == list(range(100, 960))
    assert again.verify(full=True).healthy
    assert again.purge(dry_run=True).dry_run
    assert [*hdfs_place.open().list_unfinished()] == []


@pytest.mark.slow
def test_what_a_dead_writer_left_is_no_object(hdfs_place: StorePlace) -> None:
    store = hdfs_place.open()
    store.put("x/object", b"1")
    hidden = "x/.indextables-tmp-0123"
    server, _, folder = hdfs_place.url.removeprefix("hdfs://").partition("/")
    with Client(f"hdfs://{server}").create(f"/{folder}/{hidden}", WriteOptions()) as left:
        left.write(b"half")
    assert paths(store) == ["x/object"]
    assert [(info.path, info.size) for info in store.list_unfinished()] == [(hidden, 4)]
    with pytest.raises(InvalidInputError, match="unfinished"):
        store.put(hidden, b"")
    store.delete([hidden])
    assert [*store.list_unfinished()] == []


@pytest.mark.slow
def test_it_does_not_travel_open_and_not_through_a_fork(hdfs_place: StorePlace) -> None:
    store = hdfs_place.open()
    store.put("object", b"1")
    with pytest.raises(StorageError, match="cannot be sent"):
        pickle.dumps(store)
    assert open_store(pickle.loads(pickle.dumps(hdfs_place.spec))).get("object") == b"1"
    child = os.fork()
    if child == 0:
        try:
            store.get("object")
        except StorageError as error:
            os._exit(0 if "forked" in str(error) else 2)
        os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_folder_is_named() -> None:
    with pytest.raises(InvalidInputError, match="names no folder") as refused:
        StoreSpec.from_url("hdfs://namenode:8020")
    assert "hdfs://host:port/folder" in str(refused.value)


def test_nobody_answers() -> None:
    patience = {
        "storage.retry.maxRetries": 1,
        "storage.retry.baseDelayMs": 1,
        "storage.retry.maxDelayMs": 1,
    }
    with pytest.raises(UnavailableError, match=r"hdfs://127\.0\.0\.1:1/t"):
        Table.open("hdfs://127.0.0.1:1/t", options=patience)


def test_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(UnsupportedError, match="hdfs-native") as refused:
        open_store(StoreSpec.from_url("hdfs://namenode:8020/t"))
    assert "indextables[hdfs]" in str(refused.value)
