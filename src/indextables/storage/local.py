"""A store on the local disk in plain Python: fast, safe after a fork, and durable where obstore's
is not.

Readers see a complete file or none: data is written to a temporary file next to the target, synced,
and then renamed. A writer that dies leaves at most a temporary file, which no listing contains. A
folder is listed as an object store would list it: files only, recursive, sorted by path.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO, NoReturn

from indextables.errors import (
    AccessDeniedError,
    BadFileError,
    IndexTablesError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    StorageFullError,
    UnavailableError,
)
from indextables.storage.location import check, check_folder
from indextables.storage.store import ObjectInfo, PutOutcome, check_range, is_same_object, path_of

TEMP_PREFIX = ".indextables-tmp-"
TURN_SECONDS = 0.2
_TURN_POLL_SECONDS = 0.002


def list_files(
    root: str, folder: str, start_after: str, fail: Callable[[OSError], Exception]
) -> Iterator[ObjectInfo]:
    """Yield the files below `folder` whose paths come after `start_after`; one folder is read at a
    time.

    Files that vanish during the listing are left out, and so are unfinished writes. A symbolic link
    to a folder is not followed, so that nothing outside the root is ever listed (and then perhaps
    purged). A link that leads nowhere is listed: reading it fails, which is not the same as its
    absence. `fail` translates an error of the disk.
    """
    try:
        pending = [iter(_sorted_entries(root, folder, start_after))]
        while pending:
            for path, entry in pending[-1]:
                if path.endswith("/"):
                    pending.append(iter(_sorted_entries(root, path[:-1], start_after)))
                    break
                try:
                    if entry.is_file():
                        status = entry.stat()
                    elif entry.is_symlink() and not os.path.exists(entry.path):
                        status = entry.stat(
                            follow_symlinks=False
                        )  # its target may be there again later
                    else:
                        continue
                except FileNotFoundError:
                    continue
                yield info_of(path, status)
            else:
                pending.pop()
    except OSError as error:
        raise fail(error) from error


def list_unfinished(root: str) -> Iterator[ObjectInfo]:
    """List the temporary files of running or dead writers."""
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            if name.startswith(TEMP_PREFIX):
                full = os.path.join(folder, name)
                try:
                    stat = os.stat(full)
                except FileNotFoundError:
                    continue
                yield info_of(os.path.relpath(full, root), stat)


def remove_empty_folders(root: str | os.PathLike[str]) -> None:
    """Remove the folders below a folder that hold no file, and the folder itself if it is empty
    then.
    """
    for folder, _, _ in os.walk(root, topdown=False):
        with suppress(OSError):  # it holds something, or another process was first
            os.rmdir(folder)


def info_of(path: str, stat: os.stat_result) -> ObjectInfo:
    """Return a file's description as in a listing."""
    return ObjectInfo(
        path, stat.st_size, stat.st_mtime_ns // 1_000_000, f"{stat.st_ino:x}-{stat.st_mtime_ns:x}"
    )


def _sorted_entries(root: str, folder: str, start_after: str) -> list[tuple[str, os.DirEntry[str]]]:
    """Return the entries of a folder after `start_after` in path order, where a folder sorts as
    `name/`.

    Other entries cause no disk access, so that the end of a long log is found quickly.
    """
    base = f"{folder}/" if folder else ""
    paths_and_entries = []
    try:
        with os.scandir(os.path.join(root, folder)) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    path = f"{base}{entry.name}/"
                    if path > start_after or start_after.startswith(path):
                        paths_and_entries.append((path, entry))
                elif (path := base + entry.name) > start_after and not entry.name.startswith(
                    TEMP_PREFIX
                ):
                    paths_and_entries.append((path, entry))
    except (FileNotFoundError, NotADirectoryError):
        return []
    paths_and_entries.sort(key=itemgetter(0))
    return paths_and_entries


log = logging.getLogger(__name__)

_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK}
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_REFUSED = _FULL | {errno.EACCES, errno.EROFS}
"""Errors for which a rename certainly did not happen."""
_MAX_PATHS = 10_000
_UNREACHABLE = {errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENOTCONN}


class LocalStore:
    """Objects are files below `root`, which need not exist before the first write. Folders are
    never deleted.

    With an `anchor`, a path in the store, a missing folder of that path is created only for that
    file. A writer that slept while the folder was removed then gets a NotFoundError.
    """

    def __init__(self, root: str | os.PathLike[str], *, anchor: str | None = None) -> None:
        self._root = os.path.abspath(root)
        self._anchor = anchor
        self._paths: dict[str, Path] = {}

    def __repr__(self) -> str:
        return f"LocalStore({self._root!r})"

    @property
    def url(self) -> str:
        """The absolute path of the root."""
        return self._root

    def get(self, path: str) -> bytes:
        """Read the whole file."""
        full = self._full(path)
        try:
            with open(full, "rb", opener=_descriptor) as file:
                return file.read()
        except OSError as error:
            raise self._failure("read", path, error) from error

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """Read exactly these bytes."""
        return self.get_ranges(path, [(start, length)])[0]

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several ranges of one opened file."""
        full = self._full(path)
        for start, length in ranges:
            check_range(path, start, length)
        try:
            with open(full, "rb", buffering=0, opener=_descriptor) as file:
                parts = [_read_at(file, start, length) for start, length in ranges]
        except OSError as error:
            raise self._failure("read", path, error) from error
        for (start, length), part in zip(ranges, parts, strict=True):
            if len(part) != length:
                message = f"{path} in {self._root} ends before byte {start + length}."
                raise BadFileError(message, path=path, offset=start + len(part))
        return parts

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """Create the whole file. UNKNOWN only if the disk failed after the file may have been
        renamed.
        """
        full = self._full(path)
        if os.path.lexists(full):
            return PutOutcome.EXISTS
        try:
            with self._stage(path, full, lambda file: _write_all(file, data)) as temp:
                _drop_checksum(full)
                return self._link(path, temp, full)
        except OSError as error:
            raise self._failure("write", path, error) from error

    def put(self, path: str, data: bytes) -> None:
        """Create or replace the file."""
        self._replace(path, lambda file: _write_all(file, data))

    def put_file(self, path: str, source: Path) -> None:
        """Copy a file into the store."""
        try:
            source_file = open(source, "rb")  # noqa: SIM115 (a missing source is the caller's mistake, not the store's)
        except OSError as error:
            raise InvalidInputError(
                f"The file to store, {source}, cannot be read: {error.strerror}."
            ) from error
        with source_file:
            self._replace(path, lambda file: shutil.copyfileobj(source_file, file, 1 << 20))

    def head(self, path: str) -> ObjectInfo | None:
        """Return size and time of the file, or None."""
        full = self._full(path)
        try:
            status = os.stat(full)
        except _ABSENT:
            return None
        except OSError as error:
            raise self._failure("look at", path, error) from error
        if stat.S_ISREG(status.st_mode):
            return info_of(path, status)
        return None

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """List files at or below the folder, sorted; folders are read one by one."""
        folder = check_folder(prefix)
        return list_files(
            self._root, folder, start_after or "", partial(self._failure, "list", folder)
        )

    def list_unfinished(self) -> Iterator[ObjectInfo]:
        """List temporary files of finished or running writers, for a purge with a minimum age."""
        try:
            yield from list_unfinished(self._root)
        except OSError as error:
            raise self._failure("list", "", error) from error

    def delete(self, paths: Iterable[str | ObjectInfo]) -> None:
        """Delete these files. Their folders stay."""
        for item in paths:
            path = path_of(item)
            full = self._full(path, may_be_temporary=True)
            try:
                if isinstance(item, ObjectInfo):
                    _unlink_listed(full, item)
                    continue
                _drop_checksum(full)
                os.unlink(full)
            except _ABSENT:
                continue
            except OSError as error:
                if not os.path.isdir(full):
                    raise self._failure("delete", path, error) from error

    def local_path(self, path: str) -> Path | None:
        """Return the path of the file."""
        known = self._paths.get(path)
        if known is None:
            if len(self._paths) >= _MAX_PATHS:
                self._paths.clear()
            known = self._paths[path] = Path(self._full(path))
        return known

    def _full(self, path: str, *, may_be_temporary: bool = False) -> str:
        checked = check(path)
        if not may_be_temporary and checked.rpartition("/")[2].startswith(TEMP_PREFIX):
            raise InvalidInputError(
                f"{path!r} is a name that the store keeps for unfinished files.", path=path
            )
        return f"{self._root}/{checked}"

    def _replace(self, path: str, fill: Callable[[BinaryIO], None]) -> None:
        full = self._full(path)
        try:
            with (
                self._stage(path, full, fill) as temp,
                _folder_descriptor(os.path.dirname(full)) as folder,
            ):
                _drop_checksum(full)
                os.replace(temp, full)
                os.fsync(folder)
        except OSError as error:
            raise self._failure("write", path, error) from error

    def _link(self, path: str, temp: str, full: str) -> PutOutcome:
        with _folder_descriptor(os.path.dirname(full)) as folder:
            return self._link_and_sync(path, temp, full, folder)

    def _link_and_sync(self, path: str, temp: str, full: str, folder: int) -> PutOutcome:
        try:
            os.link(temp, full)
        except FileExistsError:
            # A network file system may repeat the request after a lost answer and then meet our own
            # link.
            if os.stat(temp).st_nlink < 2:
                return PutOutcome.EXISTS
        except OSError as error:
            if error.errno in _REFUSED:
                raise
            if error.errno in _NO_LINKS:
                self._no_links(path, error)
            log.warning(
                "linking %s in %s failed, its state is unknown: %s", path, self._root, error
            )
            return PutOutcome.UNKNOWN
        try:
            os.fsync(folder)
        except OSError as error:
            log.warning("%s in %s was created but may not be durable: %s", path, self._root, error)
            return PutOutcome.UNKNOWN
        return PutOutcome.CREATED

    @contextmanager
    def _stage(self, path: str, full: str, fill: Callable[[BinaryIO], None]) -> Iterator[str]:
        """Provide a complete, synced temporary file next to the target, deleted at the end of the
        block.
        """
        folder = os.path.dirname(full)
        temp = f"{folder}/{TEMP_PREFIX}{uuid.uuid4().hex}"
        try:
            with self._create(path, temp, folder) as file:
                fill(file)
                file.flush()
                os.fsync(file.fileno())
            yield temp
        finally:
            try:
                os.unlink(temp)
            except FileNotFoundError:
                pass
            except OSError as error:
                log.warning("the temporary file %s stays behind: %s", temp, error)

    def _create(self, path: str, temp: str, folder: str) -> BinaryIO:
        """Create the temporary file, and its folder if necessary."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        try:
            handle = os.open(temp, flags, 0o666)
        except FileNotFoundError:
            _make_folder(folder, self._floor(path))
            handle = os.open(temp, flags, 0o666)
        return open(handle, "wb", buffering=0)

    def _floor(self, path: str) -> str | None:
        """Return the folder that must exist for others to be created in it, or None."""
        if self._anchor is None or path == self._anchor:
            return None
        anchored = os.path.dirname(self._anchor)
        if not os.path.isdir(f"{self._root}/{anchored}"):
            raise _RemovedFolder(errno.ENOENT, f"{anchored} was removed")
        if path.startswith(f"{anchored}/"):
            return f"{self._root}/{anchored}"
        return self._root

    def _no_links(self, path: str, error: OSError) -> NoReturn:
        message = f"Cannot create {path} in {self._root}: the file system refuses hard links ({error.strerror})."
        hint = "A table needs a file system with hard links, or an object store; put it elsewhere."
        raise AccessDeniedError(message, hint=hint, path=path, root=self._root) from error

    def _failure(self, verb: str, path: str, error: OSError) -> IndexTablesError:
        context = {"path": path, "root": self._root}
        if isinstance(error, _RemovedFolder):
            return NotFoundError(
                f"{path} is not written: {self._root} holds no table any more.", **context
            )
        if isinstance(error, _ABSENT) and verb != "write":
            return NotFoundError(f"There is no file {path} in {self._root}.", **context)
        message = f"Cannot {verb} {path or 'the files'} in {self._root}: {error.strerror or error}."
        if isinstance(error, PermissionError) or error.errno == errno.EROFS:
            return AccessDeniedError(
                message, hint="Check the owner and mode of the folder.", **context
            )
        if error.errno in _FULL:
            return StorageFullError(message, **context)
        if error.errno in _UNREACHABLE:
            return UnavailableError(
                message, hint="Check that the file system is mounted and answers.", **context
            )
        return StorageError(message, **context)


class _RemovedFolder(FileNotFoundError):  # noqa: N818 - an OSError like those around it
    """The folder below which a store creates others is missing."""


class Turn:
    """A turn among the writers of this machine that write to one folder of a local disk.

    It only avoids lost races; nothing depends on it. A writer waits at most `TURN_SECONDS` for a
    stopped one, and not at all if the folder is remote (None) or its file system has no locks.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._handle: int | None = None

    def take(self) -> bool:
        """Wait for the turn. Returns whether it was obtained."""
        if self._handle is None and self._folder is not None:
            folder, self._folder = self._folder, None  # after a timeout it does not wait again
            try:
                handle = os.open(folder, os.O_RDONLY)
            except OSError:
                return False
            if _lock_until(handle, time.monotonic() + TURN_SECONDS):
                self._handle = handle
            else:
                os.close(handle)
        return self._handle is not None

    def give_back(self) -> None:
        """Release the turn. Closing is not enough, because a forked process has the handle too."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)


def _lock_until(handle: int, until: float) -> bool:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(_TURN_POLL_SECONDS)
        except OSError:
            return False
        else:
            return True


def _drop_checksum(full: str) -> None:
    """Delete the checksum file of Hadoop's local file system, which would make a rewritten file
    unreadable.

    It is deleted first: a file without a checksum is read unchecked, one with a stale checksum not
    at all.
    """
    folder, name = os.path.split(full)
    with suppress(*_ABSENT):
        os.unlink(f"{folder}/.{name}.crc")


def _unlink_listed(full: str, info: ObjectInfo) -> None:
    """Delete a file if it is the listed one, relative to an open folder so that it cannot be
    replaced.
    """
    folder, name = os.path.split(full)
    with _folder_descriptor(folder) as handle:
        if is_same_object(info_of(info.path, os.stat(name, dir_fd=handle)), info):
            with suppress(*_ABSENT):
                os.unlink(f".{name}.crc", dir_fd=handle)
            os.unlink(name, dir_fd=handle)


def _descriptor(full: str, flags: int) -> int:
    """Open a regular file for reading. Pipes, devices and folders are refused; a pipe would block
    forever.
    """
    handle = os.open(full, flags | getattr(os, "O_NONBLOCK", 0))
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise FileNotFoundError(errno.ENOENT, "not a regular file", full)


def _make_folder(folder: str, floor: str | None) -> None:
    """Create a folder and its parents, each durable in its parent; but not `floor`, which must
    exist.
    """
    if os.path.isdir(folder):
        return
    if folder == floor:
        raise _RemovedFolder(errno.ENOENT, f"{folder} was removed")
    parent = os.path.dirname(folder)
    _make_folder(parent, floor)
    try:
        os.mkdir(folder)
    except FileExistsError:
        if not os.path.isdir(folder):
            raise
    _sync_folder(parent)


def remove_if_empty(folder: Path) -> None:
    """Remove a folder without files. A concurrent change by another process is accepted."""
    try:
        os.rmdir(folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR):
            log.warning("the empty folder %s stays behind: %s", folder, error)


def _sync_folder(folder: str) -> None:
    with _folder_descriptor(folder) as handle:
        os.fsync(handle)


@contextmanager
def _folder_descriptor(folder: str) -> Iterator[int]:
    """Open a folder to make a new name durable. Opened before the rename, so that a lack of
    descriptors fails early.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)


def _write_all(file: BinaryIO, data: bytes) -> None:
    """Write all bytes: an unbuffered write may write fewer."""
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[file.write(remaining) :]


def _read_at(file: BinaryIO, start: int, length: int) -> bytes:
    """Read up to `length` bytes from `start`, fewer only at the end of the file."""
    part = os.pread(file.fileno(), length, start)
    while 0 < len(part) < length:
        more = os.pread(file.fileno(), length - len(part), start + len(part))
        if not more:
            break
        part += more
    return part
