"""The server's weather: bodies that are damaged on their way, listings that are behind, as often as
a test wants.
"""

from __future__ import annotations

from typing import Literal

import pytest

from tests.support.fault_server import FaultServer, HttpFault


@pytest.mark.parametrize(
    ("body", "arrives"),
    [("flipped", b"01230567"), ("short", b"0123"), ("empty", b""), ("whole", b"01234567")],
)
def test_a_body_that_is_damaged_on_its_way(
    fault_server: FaultServer, body: Literal["whole", "flipped", "short", "empty"], arrives: bytes
) -> None:
    store = fault_server.s3.open()
    store.put("a", b"01234567")
    fault_server.plan(HttpFault("GET", "a", answers=True, body=body))
    assert store.get("a") == arrives
    assert store.get("a") == b"01234567"


def test_a_listing_that_is_behind(fault_server: FaultServer) -> None:
    store = fault_server.s3.open()
    for name in ("b", "a", "c"):
        store.put(name, b"")
    fault_server.plan(HttpFault("GET", answers=True, hides=2))
    assert [info.path for info in store.list()] == ["b"]
    assert [info.path for info in store.list()] == ["a", "b", "c"]


def test_weather_is_asked_for_every_request_without_a_planned_fault(
    fault_server: FaultServer,
) -> None:
    store = fault_server.s3.open()
    store.put("a", b"1")
    asked: list[str] = []

    def weather(request: object) -> None:
        asked.append(str(request))

    fault_server.weather = weather
    store.get("a")
    assert len(asked) == 1
