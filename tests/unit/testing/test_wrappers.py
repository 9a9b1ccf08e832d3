"""The wrappers count and log what is asked of a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from indextables.errors import NotFoundError
from tests.support.faulty_store import CountingStore, LoggingStore
from tests.support.places import StorePlace


def test_costs(memory_place: StorePlace, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"1234")
    store = CountingStore(memory_place.open())
    store.put("a", b"12345")
    store.put_if_absent("b", b"123")
    store.put_if_absent("b", b"123")
    store.put_file("c", tmp_path / "source")
    store.get("a")
    store.get_range("a", 1, 2)
    store.get_ranges("a", [(0, 1), (2, 2)])
    store.head("nothing")
    with pytest.raises(NotFoundError):
        store.get("nothing")
    assert len([*store.list()]) == 3
    next(store.list())
    store.list()
    store.delete(iter(["a", "b"]))
    costs = store.reset()
    assert costs.requests == {
        "put": 1,
        "put_if_absent": 2,
        "put_file": 1,
        "get": 2,
        "get_range": 1,
        "get_ranges": 1,
        "head": 1,
        "list": 3,
        "delete": 1,
    }
    assert (costs.bytes_read, costs.bytes_written) == (5 + 2 + 3, 5 + 3 + 3 + 4)
    assert (costs.objects_listed, costs.objects_deleted) == (4, 2)
    assert store.costs.requests == {}


def test_every_call_is_one_line_of_the_log(
    memory_place: StorePlace, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="tests.support.faulty_store")
    store = LoggingStore(memory_place.open())
    store.put("a", b"precious")
    store.put_if_absent("a", b"precious")
    store.get("a")
    store.head("b")
    store.get_range("a", 1, 2)
    store.get_ranges("a", [(0, 1), (2, 2)])
    assert [info.path for info in store.list(start_after="0")] == ["a"]
    with pytest.raises(NotFoundError):
        store.get("b")
    store.delete(["a"])
    lines = [record.getMessage().partition(" (")[0] for record in caplog.records]
    where = memory_place.url
    assert lines == [
        f"put {where} a: 8 bytes",
        f"put_if_absent {where} a: 8 bytes: exists",
        f"get {where} a: 8 bytes",
        f"head {where} b: absent",
        f"get_range {where} a: 1+2",
        f"get_ranges {where} a: 0+1 2+2",
        f"list {where} : after '0': 1 objects",
        f"get {where} b: failed: not_found",
        f"delete {where} a: 1 objects",
    ]
    assert "precious" not in caplog.text
