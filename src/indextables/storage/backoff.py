"""Waiting before a repeat: a random time below a bound that doubles, so that those who failed at once spread out."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from indextables.errors import ThrottledError, UnavailableError

T = TypeVar("T")


class Backoff(Struct, frozen=True):
    """How often a request is repeated, and how long is waited before (full jitter)."""

    max_retries: int = 8
    base_delay_ms: int = 100
    max_delay_ms: int = 10_000
    draw: Callable[[], float] = random.random
    sleep: Callable[[float], None] = time.sleep

    def run(self, request: Callable[[], T]) -> T:
        """The answer of a request that may be repeated safely, or its last failure."""
        for attempt in range(self.max_retries):
            try:
                return request()
            except (UnavailableError, ThrottledError):
                bound_ms = min(self.max_delay_ms, self.base_delay_ms << attempt)
                self.sleep(self.draw() * bound_ms / 1000)
        return request()
