"""A store that fails on demand: the k-th call of a verb, before or after it took effect, or with a lying answer.

    store = FaultyStore(inner, [Fault("put_if_absent", at=2, effect=Effect.LOST)])

Without faults and latency it is the store inside. `store.calls` holds what was called, so that a test can first count
the calls of an operation and then let each of them fail in turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from threading import Lock
from typing import TypeVar

from msgspec import Struct

from indextables.errors import UnavailableError
from indextables.storage.store import ObjectInfo, PutOutcome, Store
from indextables.storage.wrappers import StoreWrapper

T = TypeVar("T")


class Effect(Enum):
    """What happens to the call. The last four are for `put_if_absent` alone, whose answer can mislead."""

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
    """Which call fails, and how: the `at`-th (from 1) of a verb, or of any, whose path holds `path_contains`.

    `times` more than 1 lets the calls after it fail too. A listing that breaks off shows `entries` objects first.
    """

    verb: str | None = None
    at: int = 1
    effect: Effect = Effect.FAIL_BEFORE
    path_contains: str = ""
    times: int = 1
    entries: int = 1
    error: Callable[[], BaseException] = _unavailable


class FaultyStore(StoreWrapper):
    """See the module. `sleep` and `latency_ms` delay every call; `off()` makes it transparent from then on."""

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
        return _broken(listing, fault.entries if fault.effect is Effect.FAIL_AFTER else 0, fault.error)

    def delete(self, paths: Iterable[str]) -> None:
        """`delete`, or the fault planned for it."""
        named = [*paths]
        self._run("delete", " ".join(named), lambda: self.inner.delete(named))

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


def _broken(listing: Iterator[ObjectInfo], entries: int, error: Callable[[], BaseException]) -> Iterator[ObjectInfo]:
    for _, info in zip(range(entries), listing, strict=False):
        yield info
    raise error()
