"""What a process keeps of splits between two queries: decoded ends, and index views that nobody uses just now."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """The values that were used last, within a bound on their size together. Safe from several threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._values: OrderedDict[str, tuple[T, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: str) -> T | None:
        """The value of a key, which now counts as just used."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: str, value: T, size: int) -> None:
        """Keep a value; the ones used longest ago make room."""
        with self._lock:
            if key in self._values:
                self._bytes -= self._values.pop(key)[1]
            self._values[key] = value, size
            self._bytes += size
            while self._bytes > self._max_bytes and len(self._values) > 1:
                self._bytes -= self._values.popitem(last=False)[1][1]


class Idle(Generic[T]):
    """Things that are costly to open, kept while nobody uses them. What is taken belongs to the taker alone.

    After a fork the child starts empty and leaves what its parent keeps untouched.
    """

    def __init__(self, limit: int, dispose: Callable[[T], None]) -> None:
        self._limit = limit
        self._dispose = dispose
        self._waiting: list[tuple[str, T]] = []
        self._pid = os.getpid()
        self._lock = threading.Lock()

    def take(self, key: str) -> T | None:
        """One of the things kept under a key, or None."""
        with self._lock:
            self._after_fork()
            for place in range(len(self._waiting) - 1, -1, -1):
                if self._waiting[place][0] == key:
                    return self._waiting.pop(place)[1]
            return None

    def give(self, key: str, value: T) -> None:
        """Hand something back; when there is too much, what waited longest is disposed of."""
        with self._lock:
            self._after_fork()
            self._waiting.append((key, value))
            surplus = [self._waiting.pop(0)[1] for _ in range(len(self._waiting) - self._limit)]
        for old in surplus:
            self._dispose(old)

    def clear(self, which: Callable[[T], bool] = lambda _: True) -> None:
        """Dispose of what waits: of everything, or of what a test picks."""
        with self._lock:
            self._after_fork()
            picked = [value for _, value in self._waiting if which(value)]
            self._waiting = [(key, value) for key, value in self._waiting if value not in picked]
        for value in picked:
            self._dispose(value)

    def _after_fork(self) -> None:
        if self._pid != os.getpid():
            self._pid, self._waiting = os.getpid(), []
