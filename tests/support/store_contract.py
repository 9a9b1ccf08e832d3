"""What every store must do, as tests. A store author inherits the class and says how an empty store
is made:

class TestMyStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return MyStore(...)
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from indextables.errors import BadFileError, InvalidInputError, NotFoundError
from indextables.storage.store import PutOutcome, Store

AWKWARD_NAMES = [
    "with space/a b.txt",
    "größe/日本語/🙂",
    "50%/100%25/%zz",
    "date=2024-01-01/city=K%C3%B6ln%2FBonn/x.split",
    "a=b=c/d+e&f",
    "quotes'\"/[x]{y}^|`~",
    "q?x#y;z:1,2!@$()<>",
    "UPPER/lower",
    ".hidden/..two/...",
    " leading and trailing ",
    f"{'long' * 50}/{'name' * 50}",
]
UNSAFE_NAMES = [
    "",
    "/absolute",
    "..",
    "../up",
    "a/../b",
    "a/..",
    ".",
    "./a",
    "a/./b",
    "a//b",
    "a/",
    "a\nb",
    "\0",
    "\x7f",
    "a\\b",
]
USES: dict[str, Callable[[Store, str], Any]] = {
    "get": lambda store, path: store.get(path),
    "get_range": lambda store, path: store.get_range(path, 0, 1),
    "get_ranges": lambda store, path: store.get_ranges(path, [(0, 1)]),
    "put": lambda store, path: store.put(path, b"x"),
    "put_if_absent": lambda store, path: store.put_if_absent(path, b"x"),
    "head": lambda store, path: store.head(path),
    "delete": lambda store, path: store.delete([path]),
    "local_path": lambda store, path: store.local_path(path),
}


def paths(store: Store, prefix: str = "", start_after: str | None = None) -> list[str]:
    """The paths that a listing shows."""
    return [info.path for info in store.list(prefix, start_after=start_after)]


def fill(store: Store, *names: str) -> None:
    """One small object for each name."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: store.put(name, name.encode()), names))


class WritingContract:
    """Objects are created whole, once, and replaced whole."""

    def test_it_is_a_store(self, store: Store) -> None:
        assert isinstance(store, Store)
        assert store.url

    @pytest.mark.parametrize(
        "data", [b"", b"x", bytes(range(256)) * 100], ids=["empty", "one", "some"]
    )
    def test_what_is_put_is_read(self, store: Store, data: bytes) -> None:
        store.put("folder/object", data)
        assert store.get("folder/object") == data
        info = store.head("folder/object")
        assert info is not None
        assert (info.path, info.size) == ("folder/object", len(data))

    def test_put_replaces(self, store: Store) -> None:
        store.put("object", b"long before")
        store.put("object", b"after")
        assert store.get("object") == b"after"

    def test_put_if_absent_creates_once(self, store: Store) -> None:
        assert store.put_if_absent("log/1.json", b"first") is PutOutcome.CREATED
        assert store.put_if_absent("log/1.json", b"second") is PutOutcome.EXISTS
        assert store.get("log/1.json") == b"first"

    def test_put_if_absent_sees_what_put_wrote(self, store: Store) -> None:
        store.put("object", b"first")
        assert store.put_if_absent("object", b"second") is PutOutcome.EXISTS
        assert store.get("object") == b"first"

    def test_a_deleted_object_can_be_created_again(self, store: Store) -> None:
        store.put_if_absent("object", b"first")
        store.delete(["object"])
        assert store.put_if_absent("object", b"second") is PutOutcome.CREATED
        assert store.get("object") == b"second"

    def test_put_if_absent_of_many_bytes_and_of_none(self, store: Store) -> None:
        large = bytes(range(256)) * (24 << 10)
        assert store.put_if_absent("large", large) is PutOutcome.CREATED
        assert store.put_if_absent("empty", b"") is PutOutcome.CREATED
        assert store.get("large") == large
        assert store.get("empty") == b""

    def test_one_of_many_threads_creates(self, store: Store) -> None:
        for round_ in range(5):
            with ThreadPoolExecutor(8) as pool:
                found = list(
                    pool.map(
                        lambda i, r=round_: store.put_if_absent(f"race/{r}", b"%d" % i), range(8)
                    )
                )
            assert found.count(PutOutcome.CREATED) == 1
            assert store.get(f"race/{round_}") == b"%d" % found.index(PutOutcome.CREATED)

    @pytest.mark.parametrize(
        "size", [0, 1000, (8 << 20) + 1000, 17 << 20], ids=["empty", "small", "2 parts", "3 parts"]
    )
    def test_a_file_is_stored_as_it_is(self, store: Store, tmp_path: Path, size: int) -> None:
        source = tmp_path / "source"
        source.write_bytes(
            bytes(i % 251 for i in range(1000)) * (size // 1000) + b"z" * (size % 1000)
        )
        store.put_file("some/file", source)
        info = store.head("some/file")
        assert info is not None
        assert info.size == size
        assert store.get("some/file") == source.read_bytes()
        assert source.exists()

    def test_a_missing_source_is_the_callers_mistake(self, store: Store, tmp_path: Path) -> None:
        with pytest.raises(InvalidInputError, match="nowhere"):
            store.put_file("object", tmp_path / "nowhere")
        assert store.head("object") is None


class ReadingContract:
    """Absence is an answer of its own; a range is exact or an error."""

    @pytest.mark.parametrize("verb", ["get", "get_range", "get_ranges"])
    def test_reading_what_is_not_there(self, store: Store, verb: str) -> None:
        store.put("folder/object", b"x")
        for missing in ("nothing", "folder", "folder/object/below", "folder/objec"):
            with pytest.raises(NotFoundError, match=missing):
                USES[verb](store, missing)

    def test_head_of_what_is_not_there(self, store: Store) -> None:
        store.put("folder/object", b"x")
        assert [store.head(p) for p in ("nothing", "folder", "folder/object/below")] == [
            None,
            None,
            None,
        ]

    def test_ranges_are_exact(self, store: Store) -> None:
        store.put("object", b"0123456789")
        assert store.get_range("object", 0, 10) == b"0123456789"
        assert store.get_range("object", 3, 4) == b"3456"
        assert store.get_range("object", 9, 1) == b"9"
        assert store.get_range("object", 4, 0) == b""
        assert store.get_ranges("object", [(8, 2), (0, 3), (1, 1), (1, 1), (5, 0), (0, 10)]) == [
            b"89",
            b"012",
            b"1",
            b"1",
            b"",
            b"0123456789",
        ]
        assert store.get_ranges("object", []) == []

    def test_far_ranges_of_a_large_object(self, store: Store) -> None:
        data = bytes(i % 251 for i in range(251)) * 20_000
        store.put("object", data)
        ranges = [(4_000_000, 1000), (0, 4), (2_500_000, 70_000), (len(data) - 8, 8)]
        assert store.get_ranges("object", ranges) == [
            data[start : start + length] for start, length in ranges
        ]

    @pytest.mark.parametrize("start", [0, 5, 9, 10, 500])
    def test_a_range_beyond_the_end_is_an_error(self, store: Store, start: int) -> None:
        store.put("object", b"0123456789")
        for read in (
            lambda: store.get_range("object", start, 11),
            lambda: store.get_ranges("object", [(start, 11)]),
        ):
            with pytest.raises(BadFileError, match="object"):
                read()

    def test_a_range_that_is_none_is_refused(self, store: Store) -> None:
        store.put("object", b"0123456789")
        for start, length in ((-1, 2), (2, -1)):
            with pytest.raises(InvalidInputError):
                store.get_range("object", start, length)

    def test_a_local_path_holds_the_object(self, store: Store) -> None:
        store.put("a b/object", b"data")
        where = store.local_path("a b/object")
        assert where is None or where.read_bytes() == b"data"


class ListingContract:
    """A listing is complete, sorted by the bytes of the path, and starts where it is told."""

    SORTED = (
        "a b",
        "a-b/x",
        "a.b",
        "a/b",
        "a/b-c",
        "a/b.c",
        "a/c/d",
        "a0",
        "ab",
        "b/c",
        "z",
        "ä",
        "日",
        "🙂",
    )

    def test_an_empty_store_lists_nothing(self, store: Store) -> None:
        assert paths(store) == paths(store, "folder") == paths(store, "a/b", "a/b/c") == []

    def test_sorted_by_bytes(self, store: Store) -> None:
        assert list(self.SORTED) == sorted(self.SORTED, key=str.encode)
        fill(store, *reversed(self.SORTED))
        assert paths(store) == list(self.SORTED)

    def test_a_prefix_is_a_folder(self, store: Store) -> None:
        fill(store, *self.SORTED)
        assert paths(store, "a") == paths(store, "a/") == ["a/b", "a/b-c", "a/b.c", "a/c/d"]
        assert paths(store, "a/c") == ["a/c/d"]
        assert paths(store, "a/b") == paths(store, "none") == []

    def test_start_after(self, store: Store) -> None:
        fill(store, *self.SORTED)
        for start in (
            *self.SORTED,
            "a",
            "a/",
            "a/b/c",
            "a/c",
            "a/zz",
            "0",
            "aa",
            "zz",
            "\U0010ffff",
        ):
            after = [path for path in self.SORTED if path > start]
            assert paths(store, start_after=start) == after
            assert paths(store, "a", start) == [path for path in after if path.startswith("a/")]

    def test_sizes_and_times(self, store: Store) -> None:
        store.put("a/one", b"1")
        store.put("a/three", b"333")
        listed = list(store.list("a"))
        assert [(info.path, info.size) for info in listed] == [("a/one", 1), ("a/three", 3)]
        for info in listed:
            seen = store.head(info.path)
            assert seen is not None
            assert info.last_modified_ms is not None
            assert seen.last_modified_ms is not None
            # Some stores keep milliseconds in one answer and only seconds in the other.
            assert seen.last_modified_ms // 1000 == info.last_modified_ms // 1000
            assert info.last_modified_ms > 1_600_000_000_000

    def test_more_than_a_page(self, store: Store) -> None:
        names = [f"log/{i:020d}.json" for i in range(1100)]
        fill(store, *names)
        assert paths(store, "log") == names
        assert paths(store, "log", names[49]) == names[50:]
        store.delete(names)
        assert paths(store) == []

    def test_deleting_what_a_listing_shows(self, store: Store) -> None:
        fill(store, *self.SORTED)
        for info in store.list():
            store.delete([info.path])
        assert paths(store) == []


class NamesContract:
    """Names are kept as they are; those that lead out of the root are refused everywhere."""

    @pytest.mark.parametrize("name", AWKWARD_NAMES)
    def test_awkward_names(self, store: Store, name: str) -> None:
        assert store.put_if_absent(name, b"one") is PutOutcome.CREATED
        assert store.put_if_absent(name, b"two") is PutOutcome.EXISTS
        assert store.get(name) == b"one"
        assert store.get_ranges(name, [(1, 2)]) == [b"ne"]
        assert paths(store) == [name]
        folder, slash, _ = name.rpartition("/")
        assert paths(store, folder) == [name]
        assert paths(store, folder, f"{folder}{slash}") == [name]
        assert paths(store, start_after=name) == []
        info = store.head(name)
        assert info is not None
        assert info.path == name
        store.delete([name])
        assert paths(store) == []
        assert store.head(name) is None

    @pytest.mark.parametrize("name", UNSAFE_NAMES)
    def test_unsafe_names_are_refused(self, store: Store, name: str) -> None:
        for use in USES.values():
            with pytest.raises(InvalidInputError, match="not a path inside the store"):
                use(store, name)

    @pytest.mark.parametrize("prefix", [".", "..", "a/../..", "/", "/etc", "a//b"])
    def test_unsafe_folders_are_refused(self, store: Store, prefix: str) -> None:
        with pytest.raises(InvalidInputError):
            list(store.list(prefix))


class DeletingContract:
    """Deleting is certain about what was named, silent about what was not there."""

    def test_deletes_what_is_named_and_nothing_else(self, store: Store) -> None:
        fill(store, "a", "b", "c/d", "c/e")
        store.delete(path for path in ("a", "c/d"))
        assert paths(store) == ["b", "c/e"]

    def test_what_is_not_there_is_no_error(self, store: Store) -> None:
        fill(store, "a", "b/c", "d")
        store.delete([])
        store.delete(["nothing"])
        store.delete(["nothing", "b", "a/below", "d", "nothing else"])
        assert paths(store) == ["a", "b/c"]

    def test_a_folder_is_no_object(self, store: Store) -> None:
        fill(store, "folder/object")
        store.delete(["folder"])
        assert paths(store) == ["folder/object"]


class StoreContract(
    WritingContract, ReadingContract, ListingContract, NamesContract, DeletingContract
):
    """All of it."""

    @pytest.fixture
    def store(self) -> Store:
        """An empty store. Override this."""
        raise LookupError("a class that inherits StoreContract must define the fixture `store`")
