"""What a process keeps between two searches never shows in an answer: not of another version, file, table or setting."""

from __future__ import annotations

import os
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import BadFileError, MissingSplitError
from indextables.splits.read.cache import SplitCache
from indextables.storage.local import LocalStore
from tests.support.splits import SCRATCH
from tests.support.tables import RemoteStore, log_on

SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string()), ("other", pa.string()), ("n", pa.int64())])
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon")


def rows(first: int, count: int, *, word: str = "alpha") -> pa.Table:
    rng = random.Random(first)
    return pa.table(
        {
            "id": list(range(first, first + count)),
            "message": [" ".join([word, *rng.choices(WORDS, k=3)]) for _ in range(count)],
            "other": [f"omega {word}"] * count,
            "n": [rng.choice([None, *range(20)]) for _ in range(count)],
        },
        schema=SCHEMA,
    )


def make(path: Path, *parts: pa.Table, **more: object) -> Table:
    options = {
        "indexing.typemap.message": "text",
        "indexing.typemap.other": "text",
        "indexWriter.tempDirectoryPath": SCRATCH.temp_directory,
        "cache.directoryPath": str(path.parent / "cache"),
        **more,
    }
    table = Table.create(str(path), schema=SCHEMA, options=options)
    for part in parts:
        table.append(part)
    return table


def ids(table: Table, query: str = "message:alpha", **arguments: Any) -> list[int]:
    found: list[int] = table.search(query, columns=["id"], **arguments)["id"].to_pylist()
    return found


def files(table: Table) -> list[Path]:
    return [Path(table.path.removeprefix("file://")) / path for path in table.files()["path"].to_pylist()]


def test_each_version_is_answered_from_its_own_splits(tmp_path: Path) -> None:
    table = make(tmp_path / "t", rows(0, 20))
    old = Table.open(table.path, version=table.version)
    for limit in (None, 100):
        assert sorted(ids(table, limit=limit)) == list(range(20))
    table.append(rows(100, 5))
    table.delete(where="id < 10")
    for _ in range(2):
        assert sorted(ids(table, limit=100)) == [*range(10, 20), *range(100, 105)]
        assert sorted(ids(old.refresh(), limit=100)) == sorted(ids(table, limit=100))
        assert table.count(query="message:alpha") == 15
        assert sorted(ids(old, limit=100)) == list(range(20))
        assert old.count(query="message:alpha") == 20


def test_a_table_made_anew_at_the_same_place_is_another(tmp_path: Path) -> None:
    assert len(ids(make(tmp_path / "t", rows(0, 20)), limit=50)) == 20
    shutil.rmtree(tmp_path / "t")
    again = make(tmp_path / "t", rows(500, 7))
    assert sorted(ids(again, limit=50)) == list(range(500, 507))
    assert again.count(query="message:alpha") == 7


def test_a_split_that_is_gone_is_missed_although_it_was_searched_before(tmp_path: Path) -> None:
    table = make(tmp_path / "t", rows(0, 20))
    assert len(ids(table, limit=50)) == 20
    files(table)[0].unlink()
    for verb in (lambda: ids(table, limit=50), lambda: table.count(query="message:alpha")):
        with pytest.raises(MissingSplitError):
            verb()


def test_a_file_that_took_the_place_of_a_split_is_not_taken_for_it(tmp_path: Path) -> None:
    table = make(tmp_path / "t", rows(0, 2_000))
    assert len(ids(table, limit=50)) == 50
    (split,) = files(table)
    data = bytearray(split.read_bytes())
    data[100:140] = bytes(40)  # in the rows; the size stays
    split.write_bytes(data)
    with pytest.raises(BadFileError):
        table.search("message:alpha", limit=50)


def test_damage_that_was_fetched_once_is_not_kept(tmp_path: Path) -> None:
    """A small split of a remote store is fetched whole; whoever repairs it there need not start a new process."""
    path = make(tmp_path / "t", rows(0, 2_000)).path
    log = log_on(RemoteStore(LocalStore(path)))
    table = Table(log, log.newest(), {"cache.directoryPath": str(tmp_path / "c")})
    (split,) = files(table)
    whole = split.read_bytes()
    for place in (100, len(whole) // 2, len(whole) - 200):  # in the rows, in the index, in the end
        split.write_bytes(whole[:place] + bytes(byte ^ 255 for byte in whole[place : place + 40]) + whole[place + 40 :])
        with pytest.raises(BadFileError):
            Table(log, log.newest(), {"cache.directoryPath": str(tmp_path / f"c{place}")}).search("alpha", limit=50)
        split.write_bytes(whole)
        again = Table(log, log.newest(), {"cache.directoryPath": str(tmp_path / f"c{place}")})
        assert len(ids(again, limit=50)) == 50


def test_a_small_remote_split_is_one_request(tmp_path: Path) -> None:
    path = make(tmp_path / "t", rows(0, 100), rows(100, 100)).path
    store = RemoteStore(LocalStore(path))
    log = log_on(store)
    table = Table(log, log.newest(), {"cache.directoryPath": str(tmp_path / "c")})
    store.reset()
    for _ in range(2):
        assert len(table.search("message:alpha AND message:beta", limit=20)) == 20
        assert len(table.search("message:alpha", order_by="n desc", limit=300)) == 200
    assert store.reset().requests == {"get_ranges": 2}


def test_other_settings_are_other_answers(tmp_path: Path) -> None:
    table = make(tmp_path / "t", rows(0, 20), rows(100, 5, word="beta"))
    one = Table.open(table.path, options={"indexing.defaultSearchFields": "other"})
    two = Table.open(table.path, options={"indexing.defaultSearchFields": "message"})
    for _ in range(2):
        assert (one.count(query="omega"), two.count(query="omega")) == (25, 0)
        assert ids(one, "omega AND beta", limit=50) == list(range(100, 105))


def test_threads_that_search_at_once_get_what_one_gets(tmp_path: Path) -> None:
    table = make(tmp_path / "t", rows(0, 400), **{"write.maxRowsPerSplit": 40, "cache.memory.maxSize": 20_000})
    queries = [f"message:{one} AND message:{two}" for one in WORDS for two in WORDS]
    expected = [table.search(query, limit=20) for query in queries]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            assert list(pool.map(lambda query: table.search(query, limit=20), queries)) == expected


def test_a_forked_child_answers_like_its_parent(tmp_path: Path) -> None:
    table = make(tmp_path / "t", rows(0, 100), **{"write.maxRowsPerSplit": 10, "read.parallelism": 1})
    expected = ids(table, limit=30)
    child = os.fork()
    if not child:
        same = ids(table, limit=30) == expected and ids(table, limit=30) == expected
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert ids(table, limit=30) == expected


@pytest.mark.parametrize("bound", [0, 200_000, 1 << 20])
def test_the_memory_of_decoded_columns_is_bounded(tmp_path: Path, bound: int) -> None:
    table = make(tmp_path / "t", rows(0, 20_000), **{"cache.memory.maxSize": bound})
    cache = SplitCache.of(table._task().plan.cache)
    for query in WORDS:
        assert len(ids(table, f"message:{query}", limit=30)) == 30
        table.search(f"message:{query}", columns=["message", "n"])
        assert cache.pages._bytes <= bound
        assert cache.pages._bytes == sum(size for _, size in cache.pages._values.values())
    assert bool(cache.pages._values) == (bound > 0)


@pytest.mark.parametrize("order", ["n", "n desc", "id", "id desc", "message desc"])
def test_the_first_rows_by_a_column_are_those_of_a_full_sort(tmp_path: Path, order: str) -> None:
    """Splits and row groups that cannot compete are left out; equal values stay in the order of splits and rows."""
    table = make(tmp_path / "t", *(rows(first, 60) for first in (300, 0, 700, 100, 900)))
    everything = table.search("message:beta", columns=["id", "n", "message"]).to_pylist()
    name, descending = order.split()[0], order.endswith("desc")
    present = [row for row in everything if row[name] is not None]
    present.sort(key=lambda row: row[name], reverse=descending)  # Python keeps the order of equals either way
    full = [row["id"] for row in [*present, *(row for row in everything if row[name] is None)]]
    for limit, offset in ((1, 0), (10, 0), (7, 5), (40, 20), (1_000, 0)):
        assert ids(table, "message:beta", order_by=order, limit=limit, offset=offset) == full[offset : offset + limit]


def test_the_newest_rows_are_looked_for_in_few_splits(tmp_path: Path) -> None:
    table = make(tmp_path / "t", *(rows(first, 30) for first in range(0, 600, 30)))
    for split in files(table)[:15]:
        split.unlink()  # whoever opens one of them is told so
    assert ids(table, limit=10, order_by="id desc") == list(range(599, 589, -1))
    with pytest.raises(MissingSplitError):
        ids(table, limit=10, order_by="id")
