"""Repeats wait a random time below a bound that doubles, and end."""

from __future__ import annotations

import pytest

from indextables.errors import AccessDeniedError, ThrottledError, UnavailableError
from indextables.storage.remote import Backoff


class Request:
    """Fails as often as it is told, then answers."""

    def __init__(self, failures: int, error: type[Exception] = UnavailableError) -> None:
        self.calls, self._failures, self._error = 0, failures, error

    def __call__(self) -> int:
        self.calls += 1
        if self.calls <= self._failures:
            raise self._error("no")
        return self.calls


def test_it_waits_below_a_bound_that_doubles() -> None:
    waits: list[float] = []
    backoff = Backoff(6, base_delay_ms=100, max_delay_ms=1000, draw=lambda: 0.5, sleep=waits.append)
    assert backoff.run(Request(6, ThrottledError)) == 7
    assert waits == [0.05, 0.1, 0.2, 0.4, 0.5, 0.5]


def test_it_gives_up() -> None:
    request = Request(100)
    with pytest.raises(UnavailableError):
        Backoff(3, base_delay_ms=0).run(request)
    assert request.calls == 4


def test_it_repeats_nothing_that_cannot_get_better() -> None:
    request = Request(1, AccessDeniedError)
    with pytest.raises(AccessDeniedError):
        Backoff(3, base_delay_ms=0).run(request)
    assert request.calls == 1
