"""The disk cache: bounded, shared by processes, never wrong when things vanish under it."""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from pathlib import Path

import pytest

from indextables.config.splits import SplitCacheSettings
from indextables.errors import RefusedError, StorageError
from indextables.splits.read import cache as cache_module
from indextables.splits.read.cache import (
    IdleItems,
    RecentItems,
    ScannedItems,
    SplitCache,
    view_limit,
)
from tests.support.splits import log_rows, open_file, rows_with, term_rows, write_file

ROWS = 8_000
TABLE = log_rows(ROWS)


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("cached")
    return [write_file(log_rows(ROWS, seed=n), folder / f"{n}.split") for n in range(3)]


def test_what_was_used_longest_ago_goes_first(splits: list[Path], tmp_path: Path) -> None:
    cache = SplitCache(tmp_path / "c", 250_000)
    for path in splits:
        assert term_rows(open_file(path, cache), "message", "timeout")
        time.sleep(0.02)
    usage = cache.usage()
    assert 0 < usage.bytes <= 250_000
    assert usage.splits < 3
    requests = []
    for path in reversed(splits):
        reader = open_file(path, cache)
        before = reader.stats.requests
        assert term_rows(reader, "message", "timeout")
        requests.append(reader.stats.requests - before)
    assert requests[0] == 0
    assert requests[-1] > 0


def test_an_entry_larger_than_the_cache_still_works(splits: list[Path], tmp_path: Path) -> None:
    cache = SplitCache(tmp_path / "c", 1)
    assert term_rows(open_file(splits[0], cache), "message", "timeout") == rows_with(
        TABLE["message"].to_pylist(), "timeout"
    )


def test_a_view_in_use_outlives_eviction_and_can_grow(splits: list[Path], tmp_path: Path) -> None:
    cache, other = SplitCache(tmp_path / "c", 1 << 30), SplitCache(tmp_path / "c", 1 << 30)
    reader = open_file(splits[0], cache)
    with reader.open_index(["c1"]) as view:
        first = view.index.searcher()
        assert other.clear() > 0
        assert other.usage().splits == 0
        # Another process caches the same split anew; our view must not take its marks for our
        # files.
        assert term_rows(open_file(splits[0], other), "message", "timeout")
        view.need(["c3"])
        index = view.index
        for field, term, column in (("c1", "ERROR", "level"), ("c3", "timeout", "message")):
            found = first.search(index.parse_query(f'{field}:"{term}"', []), limit=ROWS).hits
            assert sorted(p.doc for _, p in found) == rows_with(TABLE[column].to_pylist(), term)


def test_a_closed_view_is_used_again_and_goes_with_its_entry(
    splits: list[Path], tmp_path: Path
) -> None:
    cache = SplitCache(tmp_path / "c", 1 << 30)
    with open_file(splits[0], cache).open_index(["c1"]) as first:
        pass
    with (
        open_file(splits[0], cache).open_index(["c3"]) as again,
        open_file(splits[0], cache).open_index(["c1"]) as two,
    ):
        assert again is first
        assert two is not first
    cache.clear()
    assert not first.folder.exists()
    assert not two.folder.exists()


def test_views_of_many_splits_wait_for_the_next_query(tmp_path: Path) -> None:
    """However many splits a query opens: a folder of links that is made for each of them every time
    is a cliff.
    """
    cache = SplitCache(tmp_path / "c", 1 << 30)
    readers = [
        open_file(write_file(log_rows(20, seed=n), tmp_path / f"{n}.split"), cache)
        for n in range(40)
    ]
    folders = []
    for _ in range(2):
        views = [reader.open_index(["c1"]) for reader in readers]
        folders.append([view.folder for view in views])
        for view in views:
            view.close()
    assert folders[0] == folders[1]
    assert len(set(folders[0])) == 40


def test_of_things_that_wait_no_more_than_the_limit_stay() -> None:
    gone: list[str] = []
    idle = IdleItems[str](3, gone.append)
    for number in range(5):
        idle.give(number % 4, f"{number}")
    assert len(gone) == 2
    assert idle.take(0) == "4"
    idle.clear()
    assert sorted(gone) == ["0", "1", "2", "3"]


def test_of_equal_things_that_wait_the_oldest_go() -> None:
    gone: list[str] = []
    idle = IdleItems[str](2, gone.append)
    for number in range(4):
        idle.give("same", f"{number}")
    assert gone == ["0", "1"]
    assert (idle.take("same"), idle.take("same"), idle.take("same")) == ("3", "2", None)


@pytest.mark.parametrize("count", [80, 120])
def test_repeated_scans_of_more_than_fits_find_most_of_it(count: int) -> None:
    gone: list[int] = []
    idle, recent = IdleItems[int](100, gone.append), ScannedItems[int](1_000)
    for _ in range(5):
        found = []
        for number in range(count):
            found.append((idle.take(number), recent.get(number)))
            idle.give(number, number)
            recent.put(number, number, 10)
    hits = [sum(value is not None for value in values) for values in zip(*found, strict=True)]
    assert (
        all(hit == count for hit in hits) if count <= 100 else all(hit > count / 2 for hit in hits)
    )
    assert len(gone) == 0 or count > 100


def test_what_is_scanned_stays_within_its_bound() -> None:
    recent = ScannedItems[int](100)
    for number in range(50):
        recent.put(number % 30, number, 7)
    kept = [number for number in range(30) if recent.get(number) is not None]
    assert 10 <= len(kept) <= 14
    recent.put("large", 1, 101)
    assert recent.get("large") is None
    recent.clear()
    assert all(recent.get(number) is None for number in range(30))


def test_as_many_indexes_stay_open_as_the_system_allows() -> None:
    most_maps = int(Path("/proc/sys/vm/max_map_count").read_text())
    assert 256 <= view_limit() <= most_maps // 7


def test_what_is_kept_stays_within_its_bound() -> None:
    recent = RecentItems[str](10)
    for key, size in (("a", 4), ("b", 4), ("a", 3), ("c", 3), ("d", 4), ("large", 11)):
        recent.put(key, key, size)
    assert [recent.get(key) for key in ("a", "b", "c", "d", "large")] == ["a", None, "c", "d", None]


def test_a_process_takes_its_views_with_it(splits: list[Path], tmp_path: Path) -> None:
    cache = SplitCache(tmp_path / "c", 1 << 30)
    open_file(splits[0], cache).open_index(["c1"]).close()
    assert list((tmp_path / "c").glob("*/views/*"))
    del cache
    gc.collect()
    assert list((tmp_path / "c").glob("*/views/*")) == []


def test_an_entry_that_somebody_cleaned_in_part_is_made_anew(
    splits: list[Path], tmp_path: Path
) -> None:
    expected = rows_with(TABLE["level"].to_pylist(), "INFO")
    assert (
        term_rows(open_file(splits[0], SplitCache(tmp_path / "c", 1 << 30)), "level", "INFO")
        == expected
    )
    (part,) = (tmp_path / "c").glob("*/entries/*/*.idx")
    part.unlink()
    assert (
        term_rows(open_file(splits[0], SplitCache(tmp_path / "c", 1 << 30)), "level", "INFO")
        == expected
    )


def test_a_folder_that_cannot_be_used_is_named(splits: list[Path], tmp_path: Path) -> None:
    (tmp_path / "c").write_text("a file where a folder should be")
    with pytest.raises(StorageError, match=r"cannot be used.*cache\.directoryPath"):
        open_file(splits[0], SplitCache(tmp_path / "c", 1 << 30)).open_index(["c1"])


def test_hits_and_misses_are_counted(splits: list[Path], tmp_path: Path) -> None:
    cache = SplitCache(tmp_path / "c", 1 << 30)
    for _ in range(2):
        term_rows(open_file(splits[0], cache), "level", "INFO")
    usage = cache.usage()
    assert (usage.hits, usage.misses, usage.splits) == (2, 2, 1)


def test_what_dead_processes_and_old_boots_left_is_removed(
    splits: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "_STALE_SECONDS", 0)
    dead = multiprocessing.get_context("spawn").Process(
        target=_leave_a_view, args=(str(splits[0]), str(tmp_path / "c"))
    )
    dead.start()
    dead.join()
    assert dead.exitcode == 9
    old_boot = tmp_path / "c" / f"{os.uname().nodename}-an-earlier-boot"
    (this_boot,) = (tmp_path / "c").glob(f"{os.uname().nodename}-*")
    this_boot.rename(old_boot)
    alive = SplitCache(tmp_path / "c", 1 << 30)
    kept = open_file(splits[0], alive).open_index(["c1"])
    assert not old_boot.exists()
    other = SplitCache(tmp_path / "c", 1 << 30)
    used = open_file(splits[0], other).open_index(["c1"])
    views = {p for p in (tmp_path / "c").glob("*/views/*/*") if p.is_dir()}
    assert views == {kept.folder, used.folder}


def test_what_the_cache_did_not_make_is_never_removed(splits: list[Path], tmp_path: Path) -> None:
    """The folder that is named may be anybody's, and hold anything whose name begins like this
    machine's.
    """
    host, named, elsewhere = os.uname().nodename, tmp_path / "c", tmp_path / "elsewhere"
    kept = [named / f"{host}-photographs", named / "indextables" / f"{host}-photographs", elsewhere]
    for folder in kept:
        folder.mkdir(parents=True)
        (folder / "only-copy.jpg").write_text("here")
    (elsewhere / ".indextables-cache").touch()
    (named / "indextables" / f"{host}-link").symlink_to(elsewhere)
    (kept[0] / ".indextables-cache").mkdir()
    (kept[1] / ".indextables-cache").symlink_to(elsewhere / ".indextables-cache")
    for _ in range(2):
        assert term_rows(open_file(splits[0], SplitCache(named, 1 << 30)), "message", "timeout")
    assert all((folder / "only-copy.jpg").exists() for folder in kept)
    assert sorted(p.name for p in named.iterdir()) == sorted([kept[0].name, "indextables"])


def test_a_link_that_another_user_made_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, splits: list[Path]
) -> None:
    """In a temp folder anybody can be first to make the name that the cache will take."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "c").symlink_to(tmp_path / "mine")
    os.chown(tmp_path / "mine", 4321, -1)
    monkeypatch.setattr(os, "getuid", lambda: 4321)
    with pytest.raises(RefusedError, match="belongs to another user"):
        open_file(splits[0], SplitCache(tmp_path / "c", 1 << 30)).open_index(["c1"])
    assert list((tmp_path / "mine").iterdir()) == []


def _leave_a_view(split: str, folder: str) -> None:
    open_file(Path(split), SplitCache(Path(folder), 1 << 30)).open_index(["c1"])
    os._exit(9)


def test_many_processes_share_and_evict_without_a_wrong_answer(
    splits: list[Path], tmp_path: Path
) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        work = [([str(p) for p in splits], str(tmp_path / "c"), seed) for seed in range(2)]
        assert pool.starmap(_search_again_and_again, work) == [0, 0]


def _search_again_and_again(paths: list[str], folder: str, seed: int) -> int:
    """Searches with a cache that holds about one split; returns how many answers were wrong."""
    wrong = 0
    expected = {
        (path, word): rows_with(log_rows(ROWS, seed=n)["message"].to_pylist(), word)
        for n, path in enumerate(paths)
        for word in ("timeout", "cache")
    }
    cache = SplitCache(Path(folder), 150_000)
    for turn in range(8):
        path = paths[(seed + turn) % len(paths)]
        word = ("timeout", "cache")[turn % 2]
        wrong += term_rows(open_file(Path(path), cache), "message", word) != expected[path, word]
    return wrong


def test_a_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, splits: list[Path]
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 123_456)
    with pytest.raises(RefusedError, match=r"belongs to another user.*cache\.directoryPath"):
        open_file(splits[0], SplitCache(tmp_path, 1)).open_index(["c1"])


def test_one_cache_per_place(tmp_path: Path) -> None:
    settings = SplitCacheSettings(directory=str(tmp_path), max_bytes=7)
    assert SplitCache.of(settings) is SplitCache.of(settings)
    assert SplitCache.of(settings).max_bytes == 7


def test_an_entry_that_another_built_first_and_a_third_evicted_at_once_is_built_again(
    splits: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, plain, raced = SplitCache(tmp_path / "c", 100 << 20), Path.rename, list[Path]()

    def rename(self: Path, target: Path) -> Path:
        if not raced and self.name.startswith("new-") and self.is_dir():
            raced.append(target)
            target.mkdir(parents=True)
            (target / "theirs").write_bytes(b"first")
            try:
                return plain(self, target)
            finally:
                (target / "theirs").unlink()
                target.rmdir()
        return plain(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    found = term_rows(open_file(splits[0], cache), "message", "timeout")
    assert raced and found == rows_with(TABLE["message"].to_pylist(), "timeout")
