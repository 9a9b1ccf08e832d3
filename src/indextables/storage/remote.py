"""A store over obstore: S3, Azure, Google Cloud Storage, and memory.

obstore repeats requests after throttling, 5xx responses and lost connections, with growing,
jittered waits. Remaining failures are classified here: absent, refused, throttled, unavailable; and
for `put_if_absent`, unknown. Only deletions, which obstore does not treat as repeatable, are
repeated here, after a random wait below a bound that doubles.

Errors use our error tree and show no secrets. obstore reports some kinds of failure by class and
others only by text (every failed listing is a `GenericError`), so status and code are parsed from
the text.

obstore runs requests on threads that a fork does not copy. A forked child of a process that used
obstore would hang in its first request, and gets an error instead. A child of a process that has
not used it works (as Spark's workers are created), and so does a spawned one.
"""

from __future__ import annotations

import logging
import os
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import obstore
from msgspec import Struct
from msgspec.structs import replace
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import ObjectStore

from indextables.config.storage import RequestSettings
from indextables.errors import (
    AccessDeniedError,
    BadFileError,
    IndexTablesError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    ThrottledError,
    UnavailableError,
)
from indextables.storage.location import check, check_folder, is_path
from indextables.storage.store import ObjectInfo, PutOutcome, check_range, paths_to_delete

T = TypeVar("T")


class Backoff(Struct, frozen=True):
    """Number of repeats of a request, and the waits before them (full jitter)."""

    max_retries: int = 8
    base_delay_ms: int = 100
    max_delay_ms: int = 10_000
    draw: Callable[[], float] = random.random
    sleep: Callable[[float], None] = time.sleep

    def run(self, request: Callable[[], T]) -> T:
        """Return the result of a request that is safe to repeat, or raise its last failure."""
        for attempt in range(self.max_retries):
            try:
                return request()
            except (UnavailableError, ThrottledError):
                bound_ms = min(self.max_delay_ms, self.base_delay_ms << attempt)
                self.sleep(self.draw() * bound_ms / 1000)
        return request()


class _ForkGuard:
    """Whether this process, or the one it was forked from, has used obstore."""

    def __init__(self) -> None:
        self.used = False
        self.used_before_fork = False

    def mark_forked(self) -> None:
        self.used_before_fork = self.used


_guard = _ForkGuard()
os.register_at_fork(after_in_child=_guard.mark_forked)


def note_use(url: str) -> None:
    """Record the use of obstore. Raises StorageError in a forked child whose parent had used it."""
    if _guard.used_before_fork:
        message = f"The store {url} cannot be used in process {os.getpid()}: it was forked from one that used a store."
        hint = (
            "Start processes with the 'spawn' method, or fork before any table or store is opened."
        )
        raise StorageError(message, hint=hint, url=url, pid=os.getpid())
    _guard.used = True


# Everything obstore raises for a request: its own tree, and these of Python's.
FAILURES = (BaseError, OSError, ValueError)

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([^<]{1,80})</Code>")
_CODE_OF_ONE = re.compile(
    r"\(code: (\w+)\)"
)  # one object of a bulk deletion; Azure writes the status there
_MESSAGE = re.compile(r"<Message>([^<]{1,300})</Message>")
_RETRIES = re.compile(r"after (\d+) retries")
_NO_CONTAINER = {"NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted"}
_SLOW_DOWN = {
    "SlowDown",
    "ServerBusy",
    "Throttling",
    "ThrottlingException",
    "RequestLimitExceeded",
    "TooManyRequests",
}
_DENIED = {"AccessDenied", "AuthorizationFailure", "AuthenticationFailed"}
_STORE_FAILED = {"RequestTimeout", "OperationTimedOut", "InternalError", "ServiceUnavailable"}
_SIGNATURE = re.compile(r"((?:sig|signature|token|secret|password|key)=)[^&\s\"<]+", re.IGNORECASE)


class Failure(Struct, frozen=True):
    """One failed request: HTTP status if there was a response, the store's code, and the number of
    repeats.
    """

    status: int | None
    code: str
    retries: int
    reason: str
    missing: bool
    exists: bool
    denied: bool
    sent: bool

    @property
    def no_container(self) -> bool:
        """Whether the bucket or container itself is missing."""
        return self.code in _NO_CONTAINER

    @property
    def is_throttled(self) -> bool:
        """Whether the store asked to slow down."""
        return self.status == 429 or self.code in _SLOW_DOWN

    @property
    def unavailable(self) -> bool:
        """Whether there was no response, or one that blames the store."""
        if self.status is None and not self.code:
            return self.sent and not (self.missing or self.exists or self.denied)
        return (self.status or 0) >= 500 or self.status == 408 or self.code in _STORE_FAILED

    @property
    def refused_for_certain(self) -> bool:
        """Whether the store refused the only request. After a repeat an earlier one may have taken
        effect.
        """
        return self.retries == 0 and not (self.is_throttled or self.unavailable)

    def without_container(self) -> Failure:
        """Return the failure with its 404 as a missing container: an object need not exist to be
        written.
        """
        return replace(self, code=self.code if self.no_container else "NoSuchBucket")


def read_failure(error: BaseException, secrets: Iterable[str]) -> Failure:
    """Parse an exception of obstore."""
    text = str(error)
    summary = text.partition("\n\nDebug source")[0]
    status, retries = _STATUS.search(summary), _RETRIES.search(summary)
    code_match = _CODE.search(text) or _CODE_OF_ONE.search(summary)
    code = code_match[1] if code_match else ""
    if status:
        number = int(status[1])
    elif code.isdigit():
        number = int(code)
    else:
        number = None
    return Failure(
        status=number,
        code=code,
        retries=int(retries[1]) if retries else 0,
        reason=_hide_secrets(_reason(summary, text), secrets),
        missing=isinstance(error, FileNotFoundError) or number == 404,
        exists=isinstance(error, (AlreadyExistsError, PreconditionError)),
        denied=isinstance(error, (PermissionDeniedError, UnauthenticatedError))
        or number in (401, 403)
        or code in _DENIED,
        sent="builder error" not in summary and not isinstance(error, ValueError),
    )


def to_error(failure: Failure, *, verb: str, url: str, path: str) -> IndexTablesError:
    """Convert a failed request to our error."""
    place = f"{url}/{path}" if path else url
    message = f"Cannot {verb} {place}: {failure.reason}"
    context: dict[str, Any] = {
        "path": path,
        "url": url,
        "status": failure.status,
        "code": failure.code,
    }
    if failure.no_container:
        return StorageError(
            message, hint="Create the bucket or container, or correct its name.", **context
        )
    if failure.missing:
        return NotFoundError(f"There is no object {place}.", **context)
    if failure.denied:
        return AccessDeniedError(message, **context)
    if failure.is_throttled:
        return ThrottledError(message, **context)
    if failure.status == 416 or "Wanted range" in failure.reason:
        return BadFileError(f"{place} is shorter than the range that was asked for.", **context)
    if not failure.sent:
        hint = "Check the endpoint; plain http needs aws.allowHttp=true."
        return StorageError(message, hint=hint, **context)
    if failure.unavailable:
        return UnavailableError(message, **context)
    return StorageError(message, **context)


def _reason(summary: str, text: str) -> str:
    """Return the store's message in one line: status, code and text, or the last clause of
    obstore's summary.
    """
    status, code, message, retries = (p.search(text) for p in (_STATUS, _CODE, _MESSAGE, _RETRIES))
    if code and message:
        reason = f"{code[1]}: {message[1]}"
    else:
        reason = summary.rpartition(" - ")[2]
    answer = " ".join((f"{status[1]} {reason}" if status and code else reason).split())
    repeated = f" (after {retries[1]} retries)" if retries else ""
    return f"{answer[:400].rstrip(' .')}{repeated}."


def _hide_secrets(line: str, secrets: Iterable[str]) -> str:
    """Return a text without secrets and signatures."""
    line = _SIGNATURE.sub(r"\1<hidden>", line)
    for secret in secrets:
        line = line.replace(secret, "<hidden>")
    return line


log = logging.getLogger(__name__)


_PAGE = 1000
_MAX_PARTS = 5000
_PARTS_AT_ONCE, _PARTS_BYTES = 12, 128 << 20


def _apart(ranges: Sequence[tuple[int, int]]) -> list[Sequence[tuple[int, int]]]:
    """Split sorted ranges in two lots if some touch, because obstore would combine them.

    The caller has already combined ranges that are to be one request.
    """
    touching = any(sum(one) >= other[0] for one, other in pairwise(ranges))
    if touching:
        return [ranges[0::2], ranges[1::2]]
    if ranges:
        return [ranges]
    return []


class RemoteStore:
    """Objects below a folder of a bucket or container. Cannot be pickled: send the `StoreSpec` and
    open it there.
    """

    def __init__(
        self,
        client: ObjectStore,
        *,
        url: str,
        folder: str = "",
        secrets: Iterable[str] = (),
        sorts: bool = True,
        backoff: Backoff | None = None,
        part_bytes: int = RequestSettings().part_bytes,
    ) -> None:
        """`secrets` are hidden in every error; `sorts` means that the store lists in byte order of
        paths.

        Objects larger than `part_bytes` are uploaded in parts of that size, several at a time.
        """
        self._client = client
        self._url = url
        self._base = f"{folder}/" if folder else ""
        self._secrets = tuple(secrets)
        self._sorts = sorts
        self._backoff = backoff or Backoff()
        self._part_bytes = part_bytes
        self._container_exists = False

    def __repr__(self) -> str:
        return f"RemoteStore({self._url!r})"

    def __reduce__(self) -> NoReturn:
        message = f"The open store {self._url} cannot be sent to another process."
        raise StorageError(message, hint="Send its StoreSpec and open it there.", url=self._url)

    @property
    def url(self) -> str:
        """The root as it was given, without credentials."""
        return self._url

    def get(self, path: str) -> bytes:
        """Read the whole object."""
        full = self._full(path)
        return self._call("read", path, lambda: bytes(obstore.get(self._client, full).bytes()))

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """Read exactly these bytes in one request."""
        full = self._full(path)
        check_range(path, start, length)
        if length == 0:
            return b""
        read = self._call(
            "read",
            path,
            lambda: bytes(obstore.get_range(self._client, full, start=start, length=length)),
        )
        return self._complete(path, start, length, read)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several ranges in parallel; overlapping ones in one request."""
        full = self._full(path)
        for start, length in ranges:
            check_range(path, start, length)
        nonempty = sorted({(start, length) for start, length in ranges if length})
        read: dict[tuple[int, int], bytes] = {}
        for some in _apart(nonempty):
            starts, lengths = zip(*some, strict=True)
            request = partial(
                obstore.get_ranges, self._client, full, starts=starts, lengths=lengths, coalesce=0
            )
            read.update(zip(some, map(bytes, self._call("read", path, request)), strict=True))
        return [
            self._complete(path, start, length, read[start, length] if length else b"")
            for start, length in ranges
        ]

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """Create the object in one request. UNKNOWN unless the store clearly accepted or refused
        it.
        """
        full = self._full(path)
        note_use(self._url)
        try:
            obstore.put(self._client, full, data, mode="create", use_multipart=False)
        except FAILURES as error:
            failure = read_failure(error, self._secrets)
            if failure.exists:
                return PutOutcome.EXISTS
            if failure.refused_for_certain:
                raise to_error(
                    self._write_failure(failure), verb="create", url=self._url, path=path
                ) from None
            log.warning(
                "whether %s in %s was created is unknown: %s", path, self._url, failure.reason
            )
            return PutOutcome.UNKNOWN
        self._container_exists = True
        return PutOutcome.CREATED

    def put(self, path: str, data: bytes) -> None:
        """Create or replace the object."""
        self._upload(path, self._full(path), data, self._part_bytes)

    def put_file(self, path: str, source: Path) -> None:
        """Upload a file, in parts where it is large."""
        full = self._full(path)
        try:
            size = source.stat().st_size
        except OSError as error:
            raise InvalidInputError(
                f"The file to store, {source}, cannot be read: {error.strerror}."
            ) from error
        part = max(self._part_bytes, -(-size // _MAX_PARTS))
        self._upload(path, full, source, part)

    def _upload(self, path: str, full: str, source: bytes | Path, part: int) -> None:
        # Parts that are under way lie in memory: the larger they are, the fewer.
        at_once = max(1, min(_PARTS_AT_ONCE, _PARTS_BYTES // part))
        put = partial(
            obstore.put, self._client, full, source, chunk_size=part, max_concurrency=at_once
        )
        self._call("write", path, put)

    def head(self, path: str) -> ObjectInfo | None:
        """Return size and time of the object, or None."""
        full = self._full(path)
        try:
            meta = self._call("look at", path, lambda: obstore.head(self._client, full))
        except NotFoundError:
            self._check_container()
            return None
        return self._info(meta)

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """List objects at or below the folder, sorted, one page of the store at a time."""
        listed = self._list_objects(check_folder(prefix), start_after or "")
        if not self._sorts:
            yield from sorted(listed, key=lambda info: info.path)
            return
        last = ""
        for info in listed:
            if info.path <= last:
                message = f"The store {self._url} does not list in order: {info.path!r} came after {last!r}."
                raise StorageError(
                    message, hint="Use a bucket that lists by name (S3 directory buckets do not)."
                )
            last = info.path
            yield info

    def list_unfinished(self) -> Iterator[ObjectInfo]:
        """Return nothing: an object appears when it is complete, and the service removes parts of
        uploads.
        """
        return iter(())

    def delete(self, paths: Iterable[str | ObjectInfo]) -> None:
        """Delete these objects, many in a request where the store can."""
        remaining = paths_to_delete(self, paths)
        while batch := [self._full(path) for path in islice(remaining, _PAGE)]:
            self._delete_batch(batch)

    def local_path(self, path: str) -> Path | None:
        """Return None: the object is not on this machine's disk."""
        check(path)
        return None

    def _full(self, path: str) -> str:
        return self._base + check(path)

    def _call(self, verb: str, path: str, request: Callable[[], T]) -> T:
        note_use(self._url)
        try:
            answer = request()
        except FAILURES as error:
            failure = read_failure(error, self._secrets)
            if verb == "write":
                failure = self._write_failure(failure)
            raise to_error(failure, verb=verb, url=self._url, path=path) from None
        self._container_exists = True
        return answer

    def _list_objects(self, folder: str, start_after: str) -> Iterator[ObjectInfo]:
        within = (self._base + folder).rstrip("/")
        # obstore reads the offset as a path; one that is none (it may end in a slash) is left to
        # the filter below.
        if start_after and is_path(start_after):
            offset = self._base + start_after
        else:
            offset = None
        note_use(self._url)
        pages = obstore.list(self._client, within or None, offset=offset, chunk_size=_PAGE)
        while True:
            page = self._call("list", folder, lambda: next(pages, ()))
            if not page:
                return
            yield from (info for info in map(self._info, page) if info.path > start_after)

    def _delete_batch(self, batch: Sequence[str]) -> None:
        """Delete a batch. A store that reports one missing object may have stopped, so the rest is
        deleted one by one.
        """
        try:
            self._backoff.run(
                lambda: self._call("delete", "", lambda: obstore.delete(self._client, batch))
            )
        except NotFoundError:
            self._check_container()
            if len(batch) > 1:
                for full in batch:
                    self._delete_batch([full])

    def _check_container(self) -> None:
        """Check once that the container exists, because a missing object of HEAD and DELETE does
        not show it.
        """
        if not self._container_exists:
            next(self._list_objects("", ""), None)

    def _info(self, meta: Any) -> ObjectInfo:
        modified_ms = round(meta["last_modified"].timestamp() * 1000)
        # A listing of Azure gives the tag without the quotes of a HEAD response.
        tag = (meta.get("e_tag") or "").strip('"') or None
        return ObjectInfo(meta["path"][len(self._base) :], meta["size"], modified_ms, tag)

    def _complete(self, path: str, start: int, length: int, read: bytes) -> bytes:
        if len(read) != length:
            message = f"{self._url}/{path} ends before byte {start + length}."
            raise BadFileError(message, path=path, offset=start + len(read))
        return read

    @staticmethod
    def _write_failure(failure: Failure) -> Failure:
        """Return the error of a failed write: the only thing that can be missing is the container."""
        if failure.missing:
            return failure.without_container()
        return failure
