"""A store that fails on demand: the k-th call of a verb, before or after it took effect, or with a
lying answer.

    store = FaultyStore(inner, [Fault("put_if_absent", at=2, effect=Effect.LOST)])

Without faults and latency it is the store inside. `store.calls` holds what was called, so that a
test can first count the calls of an operation and then let each of them fail in turn.

Other stores around a store count what a verb costs (`CountingStore`) and log every request
(`LoggingStore`).
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from threading import Lock
from typing import TypeVar

from msgspec import Struct, field

from indextables.errors import IndexTablesError, UnavailableError
from indextables.storage.store import ObjectInfo, PutOutcome, Store, path_of

log = logging.getLogger(__name__)


class StoreWrapper:
    """Passes everything on to the store inside. A wrapper overrides what it has something to say
    about.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    @property
    def url(self) -> str:
        """Where the store inside is."""
        return self.inner.url

    def get(self, path: str) -> bytes:
        """See `Store.get`."""
        return self.inner.get(path)

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """See `Store.get_range`."""
        return self.inner.get_range(path, start, length)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See `Store.get_ranges`."""
        return self.inner.get_ranges(path, ranges)

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """See `Store.put_if_absent`."""
        return self.inner.put_if_absent(path, data)

    def put(self, path: str, data: bytes) -> None:
        """See `Store.put`."""
        self.inner.put(path, data)

    def put_file(self, path: str, source: Path) -> None:
        """See `Store.put_file`."""
        self.inner.put_file(path, source)

    def head(self, path: str) -> ObjectInfo | None:
        """See `Store.head`."""
        return self.inner.head(path)

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """See `Store.list`."""
        return self.inner.list(prefix, start_after=start_after)

    def list_unfinished(self) -> Iterator[ObjectInfo]:
        """See `Store.unfinished`."""
        return self.inner.list_unfinished()

    def delete(self, paths: Iterable[str | ObjectInfo]) -> None:
        """See `Store.delete`."""
        self.inner.delete(paths)

    def local_path(self, path: str) -> Path | None:
        """See `Store.local_path`."""
        return self.inner.local_path(path)


class Costs(Struct):
    """What was asked of a store: calls by verb, bytes both ways, objects listed and named for
    deletion.
    """

    requests: Counter[str] = field(default_factory=Counter)
    bytes_read: int = 0
    bytes_written: int = 0
    objects_listed: int = 0
    objects_deleted: int = 0


class CountingStore(StoreWrapper):
    """Counts in `costs`, safely from many threads. A failed call counts as a call."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.costs = Costs()
        self._lock = Lock()

    def reset(self) -> Costs:
        """Start again from zero; returns what was counted until now."""
        with self._lock:
            counted, self.costs = self.costs, Costs()
        return counted

    def get(self, path: str) -> bytes:
        """One `get`."""
        self._count("get")
        return self._read(self.inner.get(path))

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """One `get_range`."""
        self._count("get_range")
        return self._read(self.inner.get_range(path, start, length))

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """One `get_ranges`, however many requests the store makes of it."""
        self._count("get_ranges")
        return [self._read(part) for part in self.inner.get_ranges(path, ranges)]

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """One `put_if_absent`."""
        self._count("put_if_absent", written=len(data))
        return self.inner.put_if_absent(path, data)

    def put(self, path: str, data: bytes) -> None:
        """One `put`."""
        self._count("put", written=len(data))
        self.inner.put(path, data)

    def put_file(self, path: str, source: Path) -> None:
        """One `put_file`."""
        self._count("put_file", written=source.stat().st_size if source.exists() else 0)
        self.inner.put_file(path, source)

    def head(self, path: str) -> ObjectInfo | None:
        """One `head`."""
        self._count("head")
        return self.inner.head(path)

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """One `list`, counted when it is asked for, whether or not anybody reads it."""
        self._count("list")
        return self._listed(self.inner.list(prefix, start_after=start_after))

    def delete(self, paths: Iterable[str | ObjectInfo]) -> None:
        """One `delete`, of however many objects."""
        named = [*paths]
        self._count("delete", deleted=len(named))
        self.inner.delete(named)

    def _count(self, verb: str, *, written: int = 0, deleted: int = 0) -> None:
        with self._lock:
            self.costs.requests[verb] += 1
            self.costs.bytes_written += written
            self.costs.objects_deleted += deleted

    def _read(self, data: bytes) -> bytes:
        with self._lock:
            self.costs.bytes_read += len(data)
        return data

    def _listed(self, listing: Iterator[ObjectInfo]) -> Iterator[ObjectInfo]:
        for info in listing:
            with self._lock:
                self.costs.objects_listed += 1
            yield info


class LoggingStore(StoreWrapper):
    """Logs every call at DEBUG: the verb, the place, the outcome, the milliseconds. Never the data."""

    def get(self, path: str) -> bytes:
        """A logged `get`."""
        with _Logged("get", self.url, path) as call:
            data = self.inner.get(path)
            call.outcome = f"{len(data)} bytes"
        return data

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """A logged `get_range`."""
        with _Logged("get_range", self.url, path) as call:
            call.outcome = f"{start}+{length}"
            return self.inner.get_range(path, start, length)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """A logged `get_ranges`."""
        with _Logged("get_ranges", self.url, path) as call:
            call.outcome = " ".join(f"{start}+{length}" for start, length in ranges)
            return self.inner.get_ranges(path, ranges)

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """A logged `put_if_absent`."""
        with _Logged("put_if_absent", self.url, path) as call:
            outcome = self.inner.put_if_absent(path, data)
            call.outcome = f"{len(data)} bytes: {outcome.value}"
        return outcome

    def put(self, path: str, data: bytes) -> None:
        """A logged `put`."""
        with _Logged("put", self.url, path) as call:
            call.outcome = f"{len(data)} bytes"
            self.inner.put(path, data)

    def put_file(self, path: str, source: Path) -> None:
        """A logged `put_file`."""
        with _Logged("put_file", self.url, path) as call:
            call.outcome = f"from {source}"
            self.inner.put_file(path, source)

    def head(self, path: str) -> ObjectInfo | None:
        """A logged `head`."""
        with _Logged("head", self.url, path) as call:
            info = self.inner.head(path)
            call.outcome = "absent" if info is None else f"{info.size} bytes"
        return info

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """A logged `list`, its line written when the listing ends."""
        with _Logged("list", self.url, prefix) as call:
            for count, info in enumerate(self.inner.list(prefix, start_after=start_after), start=1):
                call.outcome = f"after {start_after!r}: {count} objects"
                yield info

    def delete(self, paths: Iterable[str | ObjectInfo]) -> None:
        """A logged `delete`."""
        named = [*paths]
        with _Logged("delete", self.url, path_of(named[0]) if len(named) == 1 else "") as call:
            call.outcome = f"{len(named)} objects"
            self.inner.delete(named)


class _Logged:
    """One line of the log for one call."""

    def __init__(self, verb: str, url: str, path: str) -> None:
        self.outcome = "nothing"
        self._verb, self._url, self._path = verb, url, path

    def __enter__(self) -> _Logged:
        self._began = time.perf_counter()
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        took_ms = (time.perf_counter() - self._began) * 1000
        failed = error is not None and not isinstance(error, GeneratorExit)
        kind = error.kind if isinstance(error, IndexTablesError) else type(error).__name__
        outcome = f"failed: {kind}" if failed else self.outcome
        log.debug("%s %s %s: %s (%.1f ms)", self._verb, self._url, self._path, outcome, took_ms)


T = TypeVar("T")


class Effect(Enum):
    """What happens to the call. The last four are for `put_if_absent` alone, whose answer can
    mislead.
    """

    FAIL_BEFORE = "the error is raised, nothing happened"
    FAIL_AFTER = "the error is raised though the call took effect; a listing breaks off midway"
    UNKNOWN_BEFORE = "answers UNKNOWN, nothing was written"
    UNKNOWN_AFTER = "answers UNKNOWN, the object was written"
    LOST = "the object was written, the answer got lost and the repeat says EXISTS"
    CONFLICT = "answers EXISTS as a 409 would, nothing was written"


_ANSWERS = {
    Effect.UNKNOWN_BEFORE: (False, PutOutcome.UNKNOWN),
    Effect.UNKNOWN_AFTER: (True, PutOutcome.UNKNOWN),
    Effect.LOST: (True, PutOutcome.EXISTS),
    Effect.CONFLICT: (False, PutOutcome.EXISTS),
}


def _unavailable() -> Exception:
    return UnavailableError("The store failed because a test asked it to.")


class Fault(Struct, frozen=True):
    """Which call fails, and how: the `at`-th (from 1) of a verb, or of any, whose path holds
    `path_contains`.

    `times` more than 1 lets the calls after it fail too. A listing that breaks off shows `entries`
    objects first.
    """

    verb: str | None = None
    at: int = 1
    effect: Effect = Effect.FAIL_BEFORE
    path_contains: str = ""
    times: int = 1
    entries: int = 1
    error: Callable[[], BaseException] = _unavailable


class FaultyStore(StoreWrapper):
    """See the module. `sleep` and `latency_ms` delay every call; `off()` makes it transparent from
    then on.
    """

    def __init__(
        self,
        inner: Store,
        faults: Iterable[Fault] = (),
        *,
        latency_ms: float = 0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(inner)
        self.calls: list[tuple[str, str]] = []
        self._faults = [*faults]
        self._seen = [0] * len(self._faults)
        self._latency_ms = latency_ms
        self._sleep = sleep
        self._lock = Lock()

    def off(self) -> None:
        """No more faults, no more latency."""
        self._faults, self._latency_ms = [], 0

    def get(self, path: str) -> bytes:
        """`get`, or the fault planned for it."""
        return self._run("get", path, lambda: self.inner.get(path))

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """`get_range`, or the fault planned for it."""
        return self._run("get_range", path, lambda: self.inner.get_range(path, start, length))

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """`get_ranges`, or the fault planned for it."""
        return self._run("get_ranges", path, lambda: self.inner.get_ranges(path, ranges))

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """`put_if_absent`, or the fault or misleading answer planned for it."""
        fault = self._called("put_if_absent", path)
        if fault is None or fault.effect not in _ANSWERS:
            return self._with(fault, lambda: self.inner.put_if_absent(path, data))
        written, answer = _ANSWERS[fault.effect]
        if written:
            self.inner.put_if_absent(path, data)
        return answer

    def put(self, path: str, data: bytes) -> None:
        """`put`, or the fault planned for it."""
        self._run("put", path, lambda: self.inner.put(path, data))

    def put_file(self, path: str, source: Path) -> None:
        """`put_file`, or the fault planned for it."""
        self._run("put_file", path, lambda: self.inner.put_file(path, source))

    def head(self, path: str) -> ObjectInfo | None:
        """`head`, or the fault planned for it."""
        return self._run("head", path, lambda: self.inner.head(path))

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """`list`; a fault after taking effect breaks it off when some entries were shown."""
        fault = self._called("list", prefix)
        listing = self.inner.list(prefix, start_after=start_after)
        if fault is None:
            return listing
        return _broken(
            listing, fault.entries if fault.effect is Effect.FAIL_AFTER else 0, fault.error
        )

    def delete(self, paths: Iterable[str | ObjectInfo]) -> None:
        """`delete`, or the fault planned for it."""
        named = [*paths]
        self._run("delete", " ".join(map(path_of, named)), lambda: self.inner.delete(named))

    def _run(self, verb: str, path: str, call: Callable[[], T]) -> T:
        return self._with(self._called(verb, path), call)

    @staticmethod
    def _with(fault: Fault | None, call: Callable[[], T]) -> T:
        if fault is None:
            return call()
        if fault.effect is Effect.FAIL_BEFORE:
            raise fault.error()
        if fault.effect is Effect.FAIL_AFTER:
            call()
            raise fault.error()
        raise ValueError(f"{fault.effect} is only for put_if_absent")

    def _called(self, verb: str, path: str) -> Fault | None:
        """Note the call, wait, and find the fault that it runs into."""
        with self._lock:
            self.calls.append((verb, path))
            hit = None
            for i, fault in enumerate(self._faults):
                if fault.verb in (None, verb) and fault.path_contains in path:
                    self._seen[i] += 1
                    if hit is None and fault.at <= self._seen[i] < fault.at + fault.times:
                        hit = fault
        if self._latency_ms:
            self._sleep(self._latency_ms / 1000)
        return hit


def _broken(
    listing: Iterator[ObjectInfo], entries: int, error: Callable[[], BaseException]
) -> Iterator[ObjectInfo]:
    for _, info in zip(range(entries), listing, strict=False):
        yield info
    raise error()
