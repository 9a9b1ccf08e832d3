"""A store on HDFS, by its native client (the extra `hdfs`), with Hadoop's configuration files, name
services and Kerberos.

An HDFS file has its name before it has its bytes. Data is therefore written to a temporary file
next to the target and renamed when it is complete. A rename that does not overwrite creates an
object at most once.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from indextables.config.storage import StoreSettings
from indextables.errors import (
    AccessDeniedError,
    BadFileError,
    IndexTablesError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    StorageFullError,
    UnavailableError,
    UnsupportedError,
)
from indextables.storage.local import TEMP_PREFIX
from indextables.storage.location import Location, check, check_folder
from indextables.storage.remote import note_use
from indextables.storage.store import ObjectInfo, PutOutcome, check_range, paths_to_delete

if TYPE_CHECKING:
    from hdfs_native import Client, FileStatus

log = logging.getLogger(__name__)

_COPY_BYTES = 4 << 20
_REFUSED = {
    "AccessControlException": AccessDeniedError,
    "DSQuotaExceededException": StorageFullError,
    "NSQuotaExceededException": StorageFullError,
    "QuotaByStorageTypeExceededException": StorageFullError,
    "SafeModeException": UnavailableError,
    "StandbyException": UnavailableError,
}
"""Refusals of the name node by the class of its error."""
FAILURES = (OSError, RuntimeError, ValueError)
"""Everything the client raises for a request."""


def open_hdfs(place: Location, settings: StoreSettings) -> HdfsStore:
    """Open the store of an `hdfs://` or `viewfs://` location. Hadoop's configuration is found as
    Hadoop finds it.
    """
    try:
        from hdfs_native import Client  # noqa: PLC0415 (an extra)
    except ImportError as error:
        message = f"The store {place.url} needs the package hdfs-native."
        raise UnsupportedError(message, hint="Install indextables[hdfs].", url=place.url) from error
    hdfs, requests = settings.hdfs, settings.requests
    patience = {
        "dfs.client.failover.max.attempts": str(requests.max_retries),
        "dfs.client.failover.sleep.base.millis": str(requests.base_delay_ms),
        "dfs.client.failover.sleep.max.millis": str(requests.max_delay_ms),
    }
    try:
        client = Client(
            place.url[: len(place.url) - len(place.folder)].rstrip("/")
            if place.container
            else None,
            patience,
            hdfs.config_directory,
            kerberos_principal=hdfs.kerberos_principal,
            kerberos_keytab=hdfs.kerberos_keytab,
            kerberos_cache=hdfs.kerberos_cache,
        )
    except FAILURES as error:
        raise InvalidInputError(
            f"The store {place.url} cannot be opened: {_line(error)}", url=place.url
        ) from None
    return HdfsStore(client, place.url, place.folder)


class HdfsStore:
    """Objects are files below a folder of HDFS. Cannot be pickled: send the `StoreSpec` and open it
    there.
    """

    def __init__(self, client: Client, url: str, folder: str) -> None:
        self._client = client
        self._url = url
        self._root = f"/{folder}" if folder else ""

    def __repr__(self) -> str:
        return f"HdfsStore({self._url!r})"

    def __reduce__(self) -> NoReturn:
        message = f"The open store {self._url} cannot be sent to another process."
        raise StorageError(message, hint="Send its StoreSpec and open it there.", url=self._url)

    @property
    def url(self) -> str:
        """The root as it was given."""
        return self._url

    def get(self, path: str) -> bytes:
        """Read the whole file."""
        full = self._full(path)
        with self._request("read", path):
            reader = self._client.read(full)
            length = len(reader)
            data = reader.read_range(0, length) if length else b""
        return self._complete(path, 0, length, data)

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """Read exactly these bytes."""
        return self.get_ranges(path, [(start, length)])[0]

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several ranges of one opened file."""
        full = self._full(path)
        for start, length in ranges:
            check_range(path, start, length)
        parts = []
        with self._request("read", path):
            reader = self._client.read(full)
            size = len(reader)
            for start, length in ranges:
                # The client gives up the process where it is asked for bytes beyond the end.
                inside = min(length, max(0, size - start))
                if inside:
                    data = reader.read_range(start, inside)
                else:
                    data = b""
                parts.append(self._complete(path, start, length, data))
        return parts

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """Create the whole file. UNKNOWN if the name node did not confirm the rename."""
        full = self._full(path)
        if self._status(path, full) is not None:
            return PutOutcome.EXISTS
        with self._stage(path, full, [data]) as temp:
            try:
                self._client.rename(temp, full, False)
            except FileExistsError:
                # A request that the client repeats after a lost answer may meet what it did itself.
                if self._status(path, temp) is not None:
                    return PutOutcome.EXISTS
                return PutOutcome.UNKNOWN
            except FAILURES as error:
                if _refusal(error) is not None:
                    raise self._failure("write", path, error) from None
                log.warning(
                    "renaming %s in %s failed, its state is unknown: %s",
                    path,
                    self._url,
                    _line(error),
                )
                return PutOutcome.UNKNOWN
        return PutOutcome.CREATED

    def put(self, path: str, data: bytes) -> None:
        """Create or replace the file."""
        self._replace(path, [data])

    def put_file(self, path: str, source: Path) -> None:
        """Copy a file into the store."""
        try:
            file = source.open("rb")
        except OSError as error:
            raise InvalidInputError(
                f"The file to store, {source}, cannot be read: {error.strerror}."
            ) from error
        with file:
            self._replace(path, iter(lambda: file.read(_COPY_BYTES), b""))

    def head(self, path: str) -> ObjectInfo | None:
        """Return size and time of the file, or None."""
        status = self._status(path, self._full(path))
        if status is not None and not status.isdir:
            return self._info(status)
        return None

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """List files at or below the folder, sorted; folders are read one by one."""
        return self._list_entries(check_folder(prefix), start_after or "")

    def list_unfinished(self) -> Iterator[ObjectInfo]:
        """List temporary files of finished or running writers, for a purge with a minimum age."""
        for status in self._statuses(self._root or "/", recursive=True):
            if not status.isdir and _is_temporary(status.path):
                yield self._info(status)

    def delete(self, paths: Iterable[str | ObjectInfo]) -> None:
        """Delete these files. Their folders stay."""
        for path in paths_to_delete(self, paths):
            full = self._full(path, may_be_temporary=True)
            status = self._status(path, full)
            if status is not None and not status.isdir:
                with self._request("delete", path):
                    self._client.delete(full, False)

    def local_path(self, path: str) -> Path | None:
        """Return None: the file is not on this machine's disk."""
        check(path)
        return None

    def _full(self, path: str, *, may_be_temporary: bool = False) -> str:
        checked = check(path)
        if not may_be_temporary and _is_temporary(checked):
            raise InvalidInputError(
                f"{path!r} is a name that the store keeps for unfinished files.", path=path
            )
        if ":" in checked:
            raise InvalidInputError(
                f"{path!r} is no name for HDFS: it takes no colons.", path=path, url=self._url
            )
        return f"{self._root}/{checked}"

    def _status(self, path: str, full: str) -> FileStatus | None:
        with self._request("look at", path):
            try:
                return self._client.get_file_info(full)
            except FileNotFoundError:
                return None

    def _statuses(self, full: str, *, recursive: bool = False) -> Sequence[FileStatus]:
        with self._request("list", full.removeprefix(f"{self._root}/")):
            try:
                return [*self._client.list_status(full, recursive)]
            except FileNotFoundError:
                return []

    def _list_entries(self, folder: str, start_after: str) -> Iterator[ObjectInfo]:
        base = f"{self._root}/"
        full = (base + folder).rstrip("/") or "/"
        entries = []
        for status in self._statuses(full):
            path = status.path[len(base) :] + ("/" if status.isdir else "")
            # A file lists itself; a folder may hold what comes later than its own name.
            if status.path != full and (
                path > start_after or (status.isdir and start_after.startswith(path))
            ):
                entries.append((path, status))
        for path, status in sorted(entries, key=itemgetter(0)):
            if status.isdir:
                yield from self._list_entries(path[:-1], start_after)
            elif not _is_temporary(path):
                yield self._info(status)

    def _replace(self, path: str, parts: Iterable[bytes]) -> None:
        full = self._full(path)
        with self._stage(path, full, parts) as temp, self._request("write", path):
            self._client.rename(temp, full, True)

    @contextmanager
    def _stage(self, path: str, full: str, parts: Iterable[bytes]) -> Iterator[str]:
        """Provide a complete temporary file next to the target, deleted at the end of the block."""
        from hdfs_native import WriteOptions  # noqa: PLC0415 (an extra)

        temp = f"{full.rpartition('/')[0]}/{TEMP_PREFIX}{uuid.uuid4().hex}"
        try:
            with (
                self._request("write", path),
                self._client.create(
                    temp, WriteOptions(create_parent=True, overwrite=False)
                ) as writer,
            ):
                for part in parts:
                    writer.write(part)
            yield temp
        finally:
            try:
                self._client.delete(temp, False)
            except FAILURES as error:
                log.warning(
                    "the temporary file %s in %s stays behind: %s", temp, self._url, _line(error)
                )

    @contextmanager
    def _request(self, verb: str, path: str) -> Iterator[None]:
        note_use(self._url)
        try:
            yield
        except FAILURES as error:
            raise self._failure(verb, path, error) from None

    def _failure(self, verb: str, path: str, error: Exception) -> IndexTablesError:
        if isinstance(error, IndexTablesError):
            return error
        context: dict[str, Any] = {"path": path, "url": self._url}
        # A file in the place of a folder: nothing can be below it.
        absent = isinstance(error, FileNotFoundError) or "(is not a directory)" in str(error)
        if absent and verb != "write":
            return NotFoundError(f"There is no file {path} in {self._url}.", **context)
        message = f"Cannot {verb} {path or 'the files'} in {self._url}: {_line(error)}"
        return (_refusal(error) or (UnavailableError if _is_silence(error) else StorageError))(
            message, **context
        )

    def _info(self, status: FileStatus) -> ObjectInfo:
        return ObjectInfo(
            status.path[len(self._root) + 1 :],
            status.length,
            status.modification_time,
            f"{status.modification_time:x}",
        )

    def _complete(self, path: str, start: int, length: int, data: bytes) -> bytes:
        if len(data) != length:
            message = f"{self._url}/{path} ends before byte {start + length}."
            raise BadFileError(message, path=path, offset=start + len(data))
        return data


def _is_temporary(path: str) -> bool:
    return path.rpartition("/")[2].startswith(TEMP_PREFIX)


def _refusal(error: Exception) -> type[IndexTablesError] | None:
    """Return our error for a definite refusal of the name node, or None."""
    if isinstance(error, PermissionError):
        return AccessDeniedError
    return next((ours for theirs, ours in _REFUSED.items() if theirs in str(error)), None)


def _is_silence(error: Exception) -> bool:
    """Return whether there was no answer. Answers of the name node have an error class of their
    own.
    """
    return "RPCError" not in str(error)


def _line(error: Exception) -> str:
    """Return the server's message without its Java stack."""
    return (
        str(error).replace("\\n", "\n").replace("\\t", "\t").partition("\n")[0].strip()[:400] + "."
    )
