"""Reading rows: which are given back, what is fetched for them, and what is said of a wrong
request.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from indextables.errors import BadFileError, InvalidInputError, MissingSplitError
from indextables.splits.format.source import LocalSource, StoreSource, coalesce, open_source
from indextables.splits.read.cache import SplitCache
from indextables.splits.read.reader import SplitReader
from tests.support.faulty_store import CountingStore
from tests.support.places import StorePlace
from tests.support.splits import log_rows, open_file, rows_with, small_pages, term_rows, write_file

TABLE = log_rows(40_000)


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_file(TABLE, tmp_path_factory.mktemp("reader") / "a.split")


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [0],
        [39_999],
        [8_191, 8_192],
        [5, 39_999, 0, 5, 20_000, 8_192],
        list(range(0, 40_000, 777)),
    ],
    ids=lambda r: f"{len(r)} rows",
)
def test_rows_by_number_in_the_order_given(split: Path, rows: list[int]) -> None:
    found = open_file(split).read_rows(np.array(rows, np.int64), columns=["message", "ts"])
    assert found.equals(TABLE.select(["message", "ts"]).take(pa.array(rows, pa.int64())))


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.3, 1.0])
def test_rows_by_mask_and_as_a_stream(split: Path, share: float) -> None:
    mask = np.random.default_rng(3).random(TABLE.num_rows) < share
    reader = open_file(split)
    expected = TABLE.filter(pa.array(mask))
    assert reader.read_rows(mask).equals(expected)
    streamed = pa.Table.from_batches(reader.iter_rows(mask), TABLE.schema)
    assert streamed.combine_chunks().equals(expected.combine_chunks())


def test_all_rows_as_a_stream_of_small_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indextables.splits.read.reader.WINDOW_BYTES", 1)
    with small_pages(1_000, group_rows=8_192):
        split = write_file(TABLE, tmp_path / "a.split")
    batches = list(open_file(split).iter_rows(columns=["level"]))
    assert max(b.num_rows for b in batches) <= 8_192
    assert (
        pa.Table.from_batches(batches)
        .combine_chunks()
        .equals(TABLE.select(["level"]).combine_chunks())
    )


def test_only_touched_row_groups_and_wanted_columns_are_read(split: Path) -> None:
    reader = open_file(split)
    opened = reader.stats.bytes
    reader.read_rows(np.array([100, 8_000]), columns=["level"])
    assert reader.stats.bytes - opened < 5_000
    reader.read_rows(np.array([], np.int64))
    assert reader.stats.bytes - opened < 5_000


def test_no_columns_still_have_rows(split: Path) -> None:
    reader = open_file(split)
    assert reader.read_rows(columns=[]).num_rows == 40_000
    assert reader.read_rows(np.array([3, 3]), columns=[]).num_rows == 2
    assert [b.num_rows for b in reader.iter_rows(np.array([3, 4]), columns=[])] == [2]


def test_a_wrong_request_is_named(split: Path) -> None:
    reader = open_file(split)
    with pytest.raises(InvalidInputError, match=r"no column 'nope'.*Its columns: ts, level"):
        reader.read_rows(columns=["nope"])
    with pytest.raises(InvalidInputError, match="outside the 40000 rows"):
        reader.read_rows(np.array([40_000]))
    with pytest.raises(InvalidInputError, match="mask of 3 rows for 40000"):
        reader.read_rows(np.array([True, False, True]))
    with pytest.raises(InvalidInputError, match="must ascend"):
        list(reader.iter_rows(np.array([2, 1])))
    with pytest.raises(InvalidInputError, match="no index field"):
        reader.open_index(["c99"])


def test_a_split_that_is_not_there(tmp_path: Path, memory_place: StorePlace) -> None:
    with pytest.raises(MissingSplitError, match=r"gone\.split"):
        LocalSource(tmp_path / "gone.split")
    store = memory_place.open()
    with pytest.raises(MissingSplitError, match=r"gone\.split"):
        open_source(store, "gone.split")
    with pytest.raises(MissingSplitError, match=r"gone\.split"):
        SplitReader.open(StoreSource(store, "gone.split", 10_000))


def test_a_size_in_the_log_that_is_not_the_files(split: Path, memory_place: StorePlace) -> None:
    store = memory_place.open()
    store.put("a.split", split.read_bytes())
    for wrong in (-100, 100):
        with pytest.raises(BadFileError, match=r"a\.split"):
            SplitReader.open(open_source(store, "a.split", size=split.stat().st_size + wrong))


def remote(split: Path, place: StorePlace, folder: Path) -> tuple[CountingStore, SplitReader]:
    store = CountingStore(place.open())
    store.put("t/a.split", split.read_bytes())
    store.reset()
    local = open_file(split)
    start = local._tail.footer_start
    source = open_source(store, "t/a.split", size=split.stat().st_size)
    return store, SplitReader.open(source, footer_start=start, cache=SplitCache(folder, 1 << 30))


def test_a_remote_split_opens_with_one_request_and_a_term_costs_one_more(
    split: Path, memory_place: StorePlace, tmp_path: Path
) -> None:
    store, reader = remote(split, memory_place, tmp_path)
    assert store.costs.requests == {"get_ranges": 1}
    assert reader.stats.requests == 1
    assert term_rows(reader, "level", "ERROR") == rows_with(TABLE["level"].to_pylist(), "ERROR")
    assert reader.stats.requests == 2
    assert store.costs.requests == {"get_ranges": 2}
    assert store.costs.bytes_read < split.stat().st_size * 0.05
    assert term_rows(reader, "level", "WARN") == rows_with(TABLE["level"].to_pylist(), "WARN")
    assert reader.stats.requests == 2


def test_a_second_process_finds_ranges_in_the_cache(
    split: Path, memory_place: StorePlace, tmp_path: Path
) -> None:
    _, first = remote(split, memory_place, tmp_path)
    assert term_rows(first, "message", "timeout")
    store, second = remote(split, memory_place, tmp_path)
    assert term_rows(second, "message", "timeout") == rows_with(
        TABLE["message"].to_pylist(), "timeout"
    )
    assert store.costs.requests == {}


def test_remote_rows_are_fetched_in_few_requests(
    split: Path, memory_place: StorePlace, tmp_path: Path
) -> None:
    store, reader = remote(split, memory_place, tmp_path)
    rows = np.array([1, 20_000, 39_000])
    assert reader.read_rows(rows).equals(TABLE.take(pa.array(rows)))
    assert store.costs.requests == {"get_ranges": 2}
    assert reader.stats.requests <= 4


def test_ranges_that_are_near_become_one() -> None:
    assert coalesce([(0, 10), (20, 5), (12, 3), (1000, 1), (500, 0)], gap=10) == [
        (0, 25),
        (1000, 1),
    ]
    assert coalesce([(0, 10), (3, 2)], gap=0) == [(0, 10)]
    assert coalesce([]) == []
