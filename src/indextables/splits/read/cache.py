"""What is kept of splits: parts on local disk, shared by all processes of a user, and what a
process has in memory; bounded.

    <folder>/<host>-<boot>/entries/<key>/    sparse index files of one split, and which of their
    ranges are present <folder>/<host>-<boot>/entries/<key>     the end of one split
    <folder>/<host>-<boot>/views/<process>/  hard links to entries in use, private to one process

The folder is the one that the settings name if the cache made it, else `indextables` in it. What
the cache makes carries a marker, and nothing without it is ever removed: a configured folder may
hold anything.

Nothing is ever cut short or replaced in place, since tantivy maps these files: an entry is built
aside and renamed into place, ranges are written into holes, and an evicted entry is unlinked, which
leaves it whole for whoever holds links to it. Pages that never reached the disk in a crash are no
danger: what another boot of the machine left is not used.

In memory a process keeps, between two queries, decoded ends, decoded columns of row groups, opened
splits, and index views that nobody uses just now.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import shutil
import socket
import stat
import tempfile
import threading
import time
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager, suppress
from functools import cache as once
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from indextables.config.splits import SplitCacheSettings
from indextables.errors import RefusedError, StorageError
from indextables.metrics import METRICS

T = TypeVar("T")


class RecentItems(Generic[T]):
    """Least recently used cache with a limit on the total size. Safe for threads and after a fork."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._values: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        _LOCK_OWNERS.add(self)

    def get(self, key: Hashable) -> T | None:
        """Return the value of a key and mark it as recently used."""
        with self._lock:
            entry = self._values.get(key)
            if entry is None:
                return None
            self._values.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: T, size: int) -> None:
        """Store a value that is not larger than the limit, and evict the least recently used ones."""
        with self._lock:
            if key in self._values:
                self._bytes -= self._values.pop(key)[1]
            if size > self.max_bytes:
                return
            self._values[key] = value, size
            self._bytes += size
            while self._bytes > self.max_bytes:
                self._bytes -= self._values.popitem(last=False)[1][1]

    def drop(self, key: Hashable) -> None:
        """Remove a value if it exists."""
        with self._lock:
            if key in self._values:
                self._bytes -= self._values.pop(key)[1]

    def clear(self) -> None:
        """Remove every value."""
        with self._lock:
            self._values.clear()
            self._bytes = 0


class _Keys:
    """A set of keys with a fast random choice."""

    def __init__(self) -> None:
        self._list: list[Hashable] = []
        self._positions: dict[Hashable, int] = {}
        self._random = random.Random(0)

    def add(self, key: Hashable) -> None:
        if key not in self._positions:
            self._positions[key] = len(self._list)
            self._list.append(key)

    def remove(self, key: Hashable) -> None:
        position, last = self._positions.pop(key), self._list.pop()
        if position < len(self._list):
            self._list[position] = last
            self._positions[last] = position

    def choose(self, *, without: Hashable) -> Hashable | None:
        """Return a random key other than one; None if there is no other."""
        if len(self._list) < 2:
            if without in self._positions or not self._list:
                return None
            return self._list[0]
        chosen = self._list[int(self._random.random() * len(self._list))]
        if chosen != without:
            return chosen
        return self._list[self._positions[without] - 1]


class ScannedItems(Generic[T]):
    """Values within a bound on their size together, of which random ones are evicted.

    Every search of a table reads the values of all its splits in the same order. To evict the least
    recently used value would then evict each value just before it is read again, as soon as one
    split too many is open.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._values: dict[Hashable, tuple[T, int]] = {}
        self._keys = _Keys()
        self._bytes = 0
        self._lock = threading.Lock()
        _LOCK_OWNERS.add(self)

    def get(self, key: Hashable) -> T | None:
        """Return the value of a key."""
        entry = self._values.get(key)
        if entry is None:
            return None
        return entry[0]

    def put(self, key: Hashable, value: T, size: int) -> None:
        """Keep a value that is not larger than the bound."""
        with self._lock:
            self._remove(key)
            if size > self._max_bytes:
                return
            self._values[key] = value, size
            self._keys.add(key)
            self._bytes += size
            while self._bytes > self._max_bytes:
                victim = self._keys.choose(without=key)
                if victim is None:
                    return
                self._remove(victim)

    def clear(self) -> None:
        """Remove every value."""
        with self._lock:
            self._values.clear()
            self._keys = _Keys()
            self._bytes = 0

    def _remove(self, key: Hashable) -> None:
        entry = self._values.pop(key, None)
        if entry is not None:
            self._keys.remove(key)
            self._bytes -= entry[1]


class IdleItems(Generic[T]):
    """Cache of expensive objects that have one user at a time.

    Random ones are disposed of when there are too many, as in `ScannedItems`. After a fork the
    child starts empty and leaves what its parent keeps untouched.
    """

    def __init__(self, limit: int, dispose: Callable[[T], None]) -> None:
        self._limit = limit
        self._dispose = dispose
        self._waiting: dict[Hashable, list[T]] = {}
        self._keys = _Keys()
        self._count = 0
        self._pid = os.getpid()
        self._lock = threading.Lock()
        _LOCK_OWNERS.add(self)

    def take(self, key: Hashable) -> T | None:
        """Return one of the objects under a key, or None."""
        with self._lock:
            self._after_fork()
            same = self._waiting.get(key)
            if not same:
                return None
            self._count -= 1
            return same.pop()

    def give(self, key: Hashable, value: T) -> None:
        """Hand something back; when there is too much, something else is disposed of."""
        surplus: list[T] = []
        with self._lock:
            self._after_fork()
            same = self._waiting.get(key)
            if same is None:
                self._waiting[key] = [value]
                self._keys.add(key)
            else:
                same.append(value)
            self._count += 1
            while self._count > self._limit:
                removed = self._remove_some(key)
                self._count -= len(removed)
                surplus += removed
        for old in surplus:
            self._dispose(old)

    def clear(self, which: Callable[[T], bool] = lambda _: True) -> None:
        """Dispose of idle objects: all, or those that a predicate selects."""
        picked: list[T] = []
        with self._lock:
            self._after_fork()
            for key, same in list(self._waiting.items()):
                going = [which(value) for value in same]
                picked += [value for value, goes in zip(same, going, strict=True) if goes]
                same[:] = [value for value, goes in zip(same, going, strict=True) if not goes]
                if not same:
                    del self._waiting[key]
                    self._keys.remove(key)
            self._count -= len(picked)
        for old in picked:
            self._dispose(old)

    def _remove_some(self, key: Hashable) -> list[T]:
        """Remove what waits under a random key other than the given one; if there is no other, its
        oldest.
        """
        victim = self._keys.choose(without=key)
        if victim is None:
            return [self._waiting[key].pop(0)]
        self._keys.remove(victim)
        return self._waiting.pop(victim)

    def _after_fork(self) -> None:
        if self._pid != os.getpid():
            self._pid, self._waiting, self._keys, self._count = os.getpid(), {}, _Keys(), 0


_LOCK_OWNERS: weakref.WeakSet[
    RecentItems[Any] | ScannedItems[Any] | IdleItems[Any] | SplitCache
] = weakref.WeakSet()


def _renew_locks() -> None:
    """Replace the locks in a forked child, because a thread of the parent may hold them forever."""
    for owner in _LOCK_OWNERS:
        owner._lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_locks)

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_RANGES = "ranges"
_MARKER = ".indextables-cache"
_INNER = "indextables"
_FILE_BYTES = 64 << 20
_MAPS_PER_VIEW = 8
"""An open index maps its six files, and a list of living documents; one is to spare."""
_MAX_MAPS = Path("/proc/sys/vm/max_map_count")
_USUAL_MAX_MAPS = 65_530
_MAPS_SHARE = 0.8
"""The rest of the mappings is left to other libraries of the process."""
_VIEW_BYTES = 128 << 10
"""Memory that an open index takes besides its mapped files."""
_MIN_VIEWS = 256
_MEMORY_SHARE = 64
"""Footers take up to this share of the machine's memory, opened splits as much, open indexes four
times that.
"""
_MIN_MEMORY = 64 << 20
_STALE_SECONDS = 60
_KEEP_SHARE = 0.9
_CHECKS_PER_FILL = 16
_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)
"""Errors of a rename onto a folder that is not empty."""


@once
def memory_bound() -> int:
    """Return how many bytes one kind of what is kept of splits may take."""
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        physical = 0
    return max(_MIN_MEMORY, physical // _MEMORY_SHARE)


@once
def view_limit() -> int:
    """Return how many indexes a process keeps open, by the system's limit on mappings and by its
    memory.
    """
    try:
        most_maps = int(_MAX_MAPS.read_text())
    except (OSError, ValueError):
        most_maps = _USUAL_MAX_MAPS
    by_maps = int(most_maps * _MAPS_SHARE) // _MAPS_PER_VIEW
    return max(_MIN_VIEWS, min(by_maps, 4 * memory_bound() // _VIEW_BYTES))


def write_new(path: str, data: bytes, *, length: int | None = None) -> None:
    """Create a file with bytes at its end, and a hole before them if `length` is larger.

    A first search creates hundreds of them, so it uses plain system calls, which take half the time
    of Python files.
    """
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        if length is not None:
            os.ftruncate(file, length)
        write_at(file, 0 if length is None else length - len(data), data)
    finally:
        os.close(file)


def write_at(file: int, start: int, data: bytes) -> None:
    """Write all bytes at a position of an open file."""
    while data:
        written = os.pwrite(file, data, start)
        data, start = data[written:], start + written


class CacheUsage(Struct, frozen=True):
    """The content of the cache, and how often this process found entries in it."""

    directory: str
    bytes: int
    splits: int
    """Number of splits with parts of their index in the cache."""
    hits: int
    misses: int


class SplitCache:
    """The disk cache. One per process is enough; it is safe for threads."""

    def __init__(
        self, directory: Path, max_bytes: int, memory_bytes: int = SplitCacheSettings().memory_bytes
    ) -> None:
        self.directory = directory
        self.max_bytes = max_bytes
        self.hits = self.misses = 0
        self.tails: ScannedItems[object] = ScannedItems(memory_bound())
        self.pages: RecentItems[Any] = RecentItems(memory_bytes)
        """Decoded columns of row groups, by content of the split, row group and column."""
        self.files: RecentItems[bytes] = RecentItems(min(memory_bytes, _FILE_BYTES))
        """Small remote splits that were fetched completely."""
        self.opened: ScannedItems[object] = ScannedItems(memory_bound())
        """Opened splits by location, each with the parameters that it was opened with."""
        self.derived: dict[str, Any] = {}
        """What other modules derive from the splits that this process has opened, by their own
        names.
        """
        self.idle_views: IdleItems[DisposableView] = IdleItems(
            view_limit(), lambda view: view.dispose()
        )
        self._home: tuple[int, Path, int, Path] | None = None
        """The process, its folder of views, the lock next to it, and the folder of entries."""
        self._unchecked_bytes = max_bytes
        self._lock = threading.Lock()
        _LOCK_OWNERS.add(self)

    @classmethod
    def of(cls, settings: SplitCacheSettings) -> SplitCache:
        """Return the cache of the settings; the same object for the same folder."""
        return _cache_at(
            settings.directory, settings.max_bytes if settings.on_disk else 0, settings.memory_bytes
        )

    @classmethod
    def default(cls) -> SplitCache:
        """Return the cache of the default settings."""
        return cls.of(SplitCacheSettings())

    @property
    def _folder(self) -> Path:
        if _is_marked(self.directory) or not self.directory.exists():
            return self.directory
        return self.directory / _INNER

    @property
    def _root(self) -> Path:
        return self._folder / f"{socket.gethostname()}-{_boot_id()}"

    @property
    def _entries(self) -> Path:
        return self._root / "entries"

    @property
    def _views(self) -> Path:
        return self._root / "views"

    def link(self, key: str, names: Collection[str], build: Callable[[Path], None]) -> Path:
        """Return a private folder with links to the files of an entry. `build` creates a missing
        entry.
        """
        with _folder_errors(self.directory):
            home, entry = self._process_home(), self._entry(key)
            if not entry.exists():
                self._build_entry(key, build)
            while True:
                folder = home / uuid.uuid4().hex
                folder.mkdir()
                if self._link_entry(entry, names, folder):
                    return folder
                shutil.rmtree(folder)
                self._build_entry(key, build)

    def read(self, key: str) -> bytes | None:
        """Return the bytes under a key."""
        try:
            entry = self._entry(key)
            data = entry.read_bytes()
            os.utime(entry)
        except FileNotFoundError:
            return None
        return data

    def keep(self, key: str, data: bytes) -> None:
        """Store bytes under a key in one file, because creating a file takes longer than writing
        it.
        """
        with _folder_errors(self.directory):
            self._build_entry(key, lambda path: write_new(str(path), data), folder=False)
            self.added(key, len(data))

    def release(self, folder: Path) -> None:
        """Delete a private folder."""
        shutil.rmtree(folder, ignore_errors=True)

    def count(self, *, hits: int, misses: int) -> None:
        """Count ranges that were present and ranges that had to be fetched."""
        with self._lock:
            self.hits += hits
            self.misses += misses
        METRICS.count("split_cache_hits_total", str(self.directory), by=hits)
        METRICS.count("split_cache_misses_total", str(self.directory), by=misses)

    def added(self, key: str, count: int) -> None:
        """Record that an entry grew. Occasionally evicts other entries."""
        with self._lock:
            self._unchecked_bytes += count
            if self._unchecked_bytes < self.max_bytes // _CHECKS_PER_FILL:
                return
            self._unchecked_bytes = 0
        self._make_room(keep=key)

    def usage(self) -> CacheUsage:
        """Return the current content of the cache."""
        found = self._measure()
        splits = sum(not path.name.startswith("tail-") for _, _, path in found)
        return CacheUsage(
            str(self.directory), sum(size for _, size, _ in found), splits, self.hits, self.misses
        )

    def close_searchers(self) -> None:
        """Close opened indexes and decoded columns of this process. Files stay."""
        self.idle_views.clear()
        self.opened.clear()
        self.derived.clear()
        self.tails.clear()
        self.pages.clear()
        self.files.clear()

    def clear(self) -> int:
        """Remove every entry and return the bytes that are freed, some of them when their users are
        done.
        """
        self.close_searchers()
        return sum(size for _, size, path in self._measure() if self._evict(path))

    def _entry(self, key: str) -> Path:
        """Return the folder of an entry. After the first use in a process its owner is not checked
        again.
        """
        home = self._home
        known = home is not None and home[0] == os.getpid()
        return (home[3] if known and home is not None else self._entries) / key

    def _link_entry(self, entry: Path, names: Collection[str], folder: Path) -> bool:
        """Return whether a complete entry exists. An entry with missing files is removed."""
        try:
            # All links come from one open directory, so a concurrently replaced entry cannot mix
            # in.
            directory = os.open(entry, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return False
        try:
            for name in names:
                os.link(name, f"{folder}/{name}", src_dir_fd=directory)
            os.utime(_RANGES, dir_fd=directory)
        except FileNotFoundError:
            self._evict(entry)
            return False
        finally:
            os.close(directory)
        return True

    def _build_entry(self, key: str, build: Callable[[Path], None], *, folder: bool = True) -> None:
        aside, entry = self._process_home() / f"new-{uuid.uuid4().hex}", self._entry(key)
        if folder:
            aside.mkdir()
        try:
            build(aside)
            if not entry.parent.exists():
                entry.parent.mkdir(parents=True, exist_ok=True)
            try:
                aside.rename(entry)
            except OSError as e:
                # Another process was first: a folder with files in it cannot be replaced. It may
                # have been evicted by now.
                if e.errno not in _NOT_EMPTY and not entry.exists():
                    raise
                _remove(aside)
        except BaseException as e:
            _remove(aside)
            if not isinstance(e, OSError) or not entry.exists():
                raise

    def _process_home(self) -> Path:
        """Return this process's folder for views. Its lock shows other processes that it is alive."""
        with self._lock:
            if self._home is not None and self._home[0] == os.getpid() and self._home[1].exists():
                return self._home[1]
            if not _claim_folder(self.directory):
                _claim_folder(self.directory / _INNER)
            _claim_folder(self._root)
            self._views.mkdir(exist_ok=True)
            self._sweep()
            home = self._views / uuid.uuid4().hex
            lock = os.open(home.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            home.mkdir()
            self._home = os.getpid(), home, lock, self._entries
            weakref.finalize(self, _leave, home, lock, os.getpid())
            return home

    def _sweep(self) -> None:
        """Remove the files of dead processes and of earlier boots of the machine."""
        for other in self._folder.glob(f"{socket.gethostname()}-*"):
            if other != self._root and _is_marked(other):
                shutil.rmtree(other, ignore_errors=True)
        for path in self._views.glob("*.lock"):
            if _is_stale(path):
                shutil.rmtree(path.with_suffix(""), ignore_errors=True)
                path.unlink(missing_ok=True)

    def _measure(self) -> list[tuple[float, int, Path]]:
        """Return last use, bytes on disk, and folder or file of each entry."""
        found = []
        for entry in self._entries.glob("*") if self._entries.exists() else ():
            try:
                is_folder = entry.is_dir()
                size = sum(
                    file.stat().st_blocks * 512
                    for file in (entry.iterdir() if is_folder else (entry,))
                )
                found.append(
                    ((entry / _RANGES if is_folder else entry).stat().st_mtime, size, entry)
                )
            except (FileNotFoundError, NotADirectoryError):
                continue
        return found

    def _make_room(self, keep: str) -> None:
        self.idle_views.clear(lambda view: view.evicted)
        entries = sorted(self._measure(), key=lambda e: e[0])
        total = sum(size for _, size, _ in entries)
        if total <= self.max_bytes:
            return
        for _, size, entry in entries:
            if total <= self.max_bytes * _KEEP_SHARE:
                return
            if entry.name != keep and self._evict(entry):
                self.idle_views.clear(lambda view: view.evicted)
                total -= size

    def _evict(self, entry: Path) -> bool:
        aside = self._process_home() / f"old-{uuid.uuid4().hex}"
        try:
            entry.rename(aside)
        except FileNotFoundError:
            return False
        _remove(aside)
        return True


def _remove(entry: Path) -> None:
    """Delete an entry that is no longer, or not yet, in place."""
    if entry.is_dir():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        with suppress(OSError):
            entry.unlink()


class DisposableView(Protocol):
    """An index view, as far as the cache uses it."""

    @property
    def evicted(self) -> bool:
        """Whether the entry it links to was evicted."""
        ...

    def dispose(self) -> None:
        """Delete the view's folder."""
        ...


def _leave(home: Path, lock: int, pid: int) -> None:
    """Remove the folder of a process at its exit."""
    if os.getpid() == pid:
        os.close(lock)
        shutil.rmtree(home, ignore_errors=True)
        home.with_suffix(".lock").unlink(missing_ok=True)


@once
def _cache_at(directory: str, max_bytes: int, memory_bytes: int) -> SplitCache:
    if directory:
        place = Path(directory)
    else:
        place = Path(tempfile.gettempdir()) / f"indextables-{os.getuid()}"
    return SplitCache(place, max_bytes, memory_bytes)


@once
def _boot_id() -> str:
    """Return an identifier of this boot of the machine, or of this process if the system has none."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return f"process-{uuid.uuid4().hex}"


@contextmanager
def _folder_errors(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        message = f"The cache folder {directory} cannot be used: {e}."
        hint = "Free some space, or set cache.directoryPath to a local disk that knows hard links."
        raise StorageError(message, hint=hint, path=str(directory)) from e


def _claim_folder(directory: Path) -> bool:
    """Create and mark a folder. Returns whether it has the mark; a foreign folder could change
    during use.
    """
    try:
        directory.mkdir(mode=0o700, parents=True)
        (directory / _MARKER).touch(mode=0o600)
    except FileExistsError:
        # The link itself counts too: its owner chooses the folder.
        if {directory.stat().st_uid, directory.lstat().st_uid} != {os.getuid()}:
            message = f"The cache folder {directory} belongs to another user."
            hint = "Set cache.directoryPath to a folder of your own."
            raise RefusedError(message, hint=hint, path=str(directory)) from None
    return _is_marked(directory)


def _is_marked(directory: Path) -> bool:
    """Return whether the cache created a folder: marker and folder are owned by this user, and
    neither is a link.
    """
    try:
        found = [(directory.lstat(), stat.S_ISDIR), ((directory / _MARKER).lstat(), stat.S_ISREG)]
    except OSError:
        return False
    return all(is_kind(about.st_mode) and about.st_uid == os.getuid() for about, is_kind in found)


def _is_stale(lock: Path) -> bool:
    """Return whether a lock is not held by any process. A very young one may be about to be taken."""
    try:
        if time.time() - lock.stat().st_mtime < _STALE_SECONDS:
            return False
        descriptor = os.open(lock, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
