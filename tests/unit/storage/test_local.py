"""The store on the local disk: durable, unseen until whole, and clear about what the disk says."""

from __future__ import annotations

import errno
import os
import pickle
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indextables.errors import (
    AccessDeniedError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    StorageFullError,
    UnavailableError,
)
from indextables.storage.local import TEMP_PREFIX, LocalStore, Turn
from indextables.storage.store import PutOutcome


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "table")


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


def names(store: LocalStore) -> list[str]:
    return [info.path for info in store.list()]


class TestDurability:
    """What has been said to be there survives a crash: the data first, then the name, then the
    folders.
    """

    @pytest.fixture
    def trace(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
        """What is synced and named, in order."""
        seen: list[str] = []
        sync, link, replace = os.fsync, os.link, os.replace

        def synced(handle: int) -> None:
            folders = {
                p.stat().st_ino: p.name for p in (tmp_path, *tmp_path.rglob("*")) if p.is_dir()
            }
            seen.append(f"sync {folders.get(os.fstat(handle).st_ino, 'data')}")
            sync(handle)

        def linked(source: str, target: str) -> None:
            seen.append(f"link {Path(target).name}")
            link(source, target)

        def replaced(source: str, target: str) -> None:
            seen.append(f"replace {Path(target).name}")
            replace(source, target)

        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(os, "link", linked)
        monkeypatch.setattr(os, "replace", replaced)
        return seen

    def test_put_if_absent(self, store: LocalStore, trace: list[str], tmp_path: Path) -> None:
        store.put_if_absent("log/1.json", b"x")
        assert trace == [
            f"sync {tmp_path.name}",
            "sync table",
            "sync data",
            "link 1.json",
            "sync log",
        ]
        trace.clear()
        store.put_if_absent("log/2.json", b"x")
        assert trace == ["sync data", "link 2.json", "sync log"]

    def test_put_and_put_file(self, store: LocalStore, trace: list[str], tmp_path: Path) -> None:
        store.put("x", b"1")
        trace.clear()
        (tmp_path / "source").write_bytes(b"2")
        store.put("x", b"1")
        store.put_file("y", tmp_path / "source")
        assert trace == [
            "sync data",
            "replace x",
            "sync table",
            "sync data",
            "replace y",
            "sync table",
        ]


class TestUnfinishedFiles:
    """What a dead writer leaves is out of sight and in nobody's way."""

    def test_they_are_not_listed_and_can_be_found_and_deleted(
        self, store: LocalStore, tmp_path: Path
    ) -> None:
        store.put("log/1.json", b"x")
        left = tmp_path / "table" / "log" / f"{TEMP_PREFIX}abc"
        left.write_bytes(b"half")
        assert names(store) == ["log/1.json"]
        assert [(info.path, info.size) for info in store.list_unfinished()] == [
            (f"log/{TEMP_PREFIX}abc", 4)
        ]
        store.delete([info.path for info in store.list_unfinished()])
        assert not left.exists()
        assert [*LocalStore(tmp_path / "nowhere").list_unfinished()] == []

    @pytest.mark.parametrize("verb", ["get", "head", "local_path"])
    def test_their_names_belong_to_the_store(self, store: LocalStore, verb: str) -> None:
        with pytest.raises(InvalidInputError, match="unfinished"):
            getattr(store, verb)(f"log/{TEMP_PREFIX}abc")
        with pytest.raises(InvalidInputError, match="unfinished"):
            store.put_if_absent(f"{TEMP_PREFIX}abc", b"")

    def test_none_is_left_by_success_or_failure(
        self, store: LocalStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.put_if_absent("a", b"1")
        store.put_if_absent("a", b"2")
        store.put("b", b"1")
        monkeypatch.setattr(os, "fsync", failing(errno.ENOSPC))
        with pytest.raises(StorageError):
            store.put_if_absent("c", b"1")
        assert [*store.list_unfinished()] == []
        assert names(store) == ["a", "b"]


class TestTheDiskSaysNo:
    """Every error of the system has a name of ours; none of them is absence."""

    @pytest.mark.parametrize(
        ("number", "error"),
        [
            (errno.EACCES, AccessDeniedError),
            (errno.EPERM, AccessDeniedError),
            (errno.EROFS, AccessDeniedError),
            (errno.ENOSPC, StorageFullError),
            (errno.EDQUOT, StorageFullError),
            (errno.EFBIG, StorageFullError),
            (errno.EIO, StorageError),
            (errno.ESTALE, UnavailableError),
            (errno.ETIMEDOUT, UnavailableError),
        ],
    )
    def test_failures(
        self,
        store: LocalStore,
        monkeypatch: pytest.MonkeyPatch,
        number: int,
        error: type[StorageError],
    ) -> None:
        store.put("x", b"1")
        uses: list[tuple[str, Callable[[], Any]]] = [
            ("builtins.open", lambda: store.get("x")),
            ("builtins.open", lambda: store.get_range("x", 0, 1)),
            ("os.open", lambda: store.put("y", b"")),
            ("os.open", lambda: store.put_if_absent("y", b"")),
            ("os.fsync", lambda: store.put("y", b"")),
            ("os.fsync", lambda: store.put_if_absent("y", b"")),
            ("os.stat", lambda: store.head("x")),
            ("os.scandir", lambda: [*store.list()]),
            ("os.unlink", lambda: store.delete(["x"])),
        ]
        for call, use in uses:
            with monkeypatch.context() as patched:
                patched.setattr(call, failing(number))
                with pytest.raises(StorageError) as caught:
                    use()
            assert type(caught.value) is error
            assert os.strerror(number) in str(caught.value)
            assert store.url in str(caught.value)
        assert names(store) == ["x"]

    def test_a_name_that_is_too_long(self, store: LocalStore) -> None:
        for use in (
            lambda: store.put("n" * 300, b""),
            lambda: store.get("n" * 300),
            lambda: store.head("n" * 300),
        ):
            with pytest.raises(StorageError, match="too long"):
                use()

    def test_a_file_where_a_folder_is_needed(self, store: LocalStore) -> None:
        store.put("x", b"1")
        for write in (lambda: store.put("x/y", b""), lambda: store.put_if_absent("x/y", b"")):
            with pytest.raises(StorageError, match="x/y"):
                write()

    def test_no_hard_links(self, store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "link", failing(errno.EPERM))
        with pytest.raises(StorageError, match="hard links"):
            store.put_if_absent("x", b"")

    def test_a_failure_while_the_name_is_given_is_unknown(
        self, store: LocalStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(os, "link", failing(errno.EIO))
            assert store.put_if_absent("x", b"") is PutOutcome.UNKNOWN
        assert names(store) == []

    def test_a_failure_after_the_name_was_given_is_unknown(
        self, store: LocalStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sync = os.fsync

        def only_files(handle: int) -> None:
            if stat.S_ISDIR(os.fstat(handle).st_mode):
                raise OSError(errno.EIO, "Input/output error")
            sync(handle)

        store.put("before", b"")
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", only_files)
            assert store.put_if_absent("x", b"1") is PutOutcome.UNKNOWN
        assert store.get("x") == b"1"

    def test_a_repeated_link_request_meets_its_own_link(
        self, store: LocalStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A network file system may lose the answer, repeat the request, and report that the name
        exists.
        """
        link = os.link

        def twice(source: str, target: str) -> None:
            link(source, target)
            link(source, target)

        monkeypatch.setattr(os, "link", twice)
        assert store.put_if_absent("x", b"1") is PutOutcome.CREATED


class TestListing:
    """Listing a folder that others change, and that holds more than files."""

    def test_files_that_vanish_are_left_out(self, store: LocalStore, tmp_path: Path) -> None:
        for name in ("a", "b", "c/d", "e/f"):
            store.put(name, b"")
        seen = []
        for info in store.list():
            seen.append(info.path)
            for gone in ("table/b", "table/c/d"):
                (tmp_path / gone).unlink(missing_ok=True)
            if (tmp_path / "table/c").exists():
                (tmp_path / "table/c").rmdir()
        assert seen == ["a", "e/f"]

    def test_links_to_folders_are_not_followed(self, store: LocalStore, tmp_path: Path) -> None:
        store.put("real/x", b"1")
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside" / "precious").write_bytes(b"")
        (tmp_path / "table" / "link").symlink_to(tmp_path / "outside")
        (tmp_path / "table" / "loop").symlink_to(tmp_path / "table")
        (tmp_path / "table" / "dangling").symlink_to(tmp_path / "nowhere")
        (tmp_path / "table" / "to-file").symlink_to(tmp_path / "table" / "real" / "x")
        os.mkfifo(tmp_path / "table" / "pipe")
        assert names(store) == ["dangling", "real/x", "to-file"]

    def test_only_what_comes_after_is_looked_at(
        self, store: LocalStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for i in range(20):
            store.put(f"log/{i:03d}", b"x" * i)
        looked_at: list[str] = []
        real = os.scandir

        class Entries:
            def __init__(self, folder: str) -> None:
                self._inner = real(folder)

            def __enter__(self) -> Any:
                return [Entry(e) for e in self._inner]

            def __exit__(self, *_: object) -> None:
                self._inner.close()

        class Entry:
            def __init__(self, inner: os.DirEntry[str]) -> None:
                self._inner, self.name = inner, inner.name

            def is_dir(self, *, follow_symlinks: bool) -> bool:
                return self._inner.is_dir(follow_symlinks=follow_symlinks)

            def is_file(self) -> bool:
                return self._inner.is_file()

            def stat(self) -> os.stat_result:
                looked_at.append(self.name)
                return self._inner.stat()

        monkeypatch.setattr(os, "scandir", Entries)
        assert [info.size for info in store.list("log", start_after="log/017")] == [18, 19]
        assert looked_at == ["018", "019"]


@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "device"])
def test_what_is_no_file_is_not_read(store: LocalStore, tmp_path: Path, kind: str) -> None:
    """A pipe would be waited for, and a device read, for ever."""
    (tmp_path / "table").mkdir()
    name = tmp_path / "table" / "_last_checkpoint"
    if kind == "pipe":
        os.mkfifo(name)
    elif kind == "device":
        name.symlink_to("/dev/zero")
    else:
        os.mkfifo(tmp_path / "pipe")
        name.symlink_to(tmp_path / "pipe")
    for read in (store.get, lambda path: store.get_range(path, 0, 4)):
        with pytest.raises(NotFoundError):
            read("_last_checkpoint")
    assert store.head("_last_checkpoint") is None
    assert names(store) == []


def test_a_link_that_leads_nowhere_is_listed_and_cannot_be_read(
    store: LocalStore, tmp_path: Path
) -> None:
    """A file that is elsewhere, and elsewhere is not mounted, has not been deleted."""
    store.put("one", b"1")
    (tmp_path / "table" / "two").symlink_to(tmp_path / "not mounted" / "two")
    (tmp_path / "folder").mkdir()
    (tmp_path / "table" / "three").symlink_to(tmp_path / "folder")
    assert names(store) == ["one", "two"]
    with pytest.raises(NotFoundError):
        store.get("two")


def test_it_pickles_and_its_root_may_be_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store: LocalStore = pickle.loads(pickle.dumps(LocalStore("table")))
    store.put("x", b"1")
    assert (tmp_path / "table" / "x").read_bytes() == b"1"


def test_files_are_readable_by_others_as_the_umask_says(store: LocalStore, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        store.put_if_absent("x", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "table" / "x").stat().st_mode) == 0o644


@pytest.mark.parametrize("change", ["put", "put_if_absent", "put_file", "delete"])
def test_a_checksum_of_hadoop_goes_with_the_content_it_was_of(
    store: LocalStore, tmp_path: Path, change: str
) -> None:
    """Hadoop's local file system refuses a file whose `.name.crc` is of other content."""
    folder = tmp_path / "table" / "_transaction_log"
    folder.mkdir(parents=True)
    stale, other = folder / "._last_checkpoint.crc", folder / ".other.crc"
    stale.write_bytes(b"crc\0")
    other.write_bytes(b"crc\0")
    (tmp_path / "source").write_bytes(b"new")
    path = "_transaction_log/_last_checkpoint"
    if change == "put":
        (folder / "_last_checkpoint").write_bytes(b"old")
        store.put(path, b"new")
    elif change == "put_if_absent":
        assert store.put_if_absent(path, b"new") is PutOutcome.CREATED
    elif change == "put_file":
        store.put_file(path, tmp_path / "source")
    else:
        (folder / "_last_checkpoint").write_bytes(b"old")
        store.delete([path])
    assert not stale.exists()
    assert other.exists()


def test_writers_of_one_folder_take_turns(tmp_path: Path) -> None:
    first, second, order = Turn(tmp_path), Turn(tmp_path), []
    assert first.take()

    def follow() -> None:
        order.append(second.take())
        second.give_back()

    waiting = threading.Thread(target=follow)
    waiting.start()
    waiting.join(0.02)
    assert order == []
    first.give_back()
    waiting.join()
    assert order == [True]


def test_nobody_waits_long_for_a_turn_and_nobody_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indextables.storage.local.TURN_SECONDS", 0.01)
    sleeper, second = Turn(tmp_path), Turn(tmp_path)
    assert sleeper.take()
    assert not second.take()
    sleeper.give_back()
    assert not second.take()  # it goes on by chance, as it has begun
    assert not Turn(None).take()
    assert not Turn(tmp_path / "gone").take()


def test_a_child_that_was_forked_in_a_turn_does_not_keep_it(tmp_path: Path) -> None:
    turn = Turn(tmp_path)
    assert turn.take()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reading, 1)
        os._exit(0)
    turn.give_back()
    other = Turn(tmp_path)
    assert other.take()
    other.give_back()
    os.write(writing, b"x")
    assert os.waitpid(child, 0)[1] == 0
