"""A remote store that misbehaves: what is tried again, what is said in the end, and what is never
said.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from indextables.errors import (
    AccessDeniedError,
    NotFoundError,
    StorageError,
    ThrottledError,
    UnavailableError,
)
from indextables.storage.store import PutOutcome, Store
from tests.support.fault_server import FaultServer, HttpFault
from tests.support.places import StorePlace
from tests.support.servers import free_ports, s3_options

ALWAYS = 1000
VERBS: dict[str, Callable[[Store], Any]] = {
    "get": lambda store: store.get("a/object"),
    "get_range": lambda store: store.get_range("a/object", 0, 2),
    "get_ranges": lambda store: store.get_ranges("a/object", [(0, 1)]),
    "head": lambda store: store.head("a/object"),
    "list": lambda store: list(store.list("a")),
    "put": lambda store: store.put("a/object", b"new"),
    "delete": lambda store: store.delete(["a/object"]),
}


@pytest.fixture(params=["s3", "gcs"])
def place(request: pytest.FixtureRequest, fault_server: FaultServer) -> StorePlace:
    found: StorePlace = getattr(fault_server, request.param)
    found.open().put("a/object", b"data")
    fault_server.requests.clear()
    return found


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "fault",
    [
        HttpFault(status=500, times=3),
        HttpFault(status=503, code="SlowDown", times=3),
        HttpFault(times=3),
    ],
    ids=["500", "503", "cut"],
)
def test_a_passing_failure_is_not_noticed(
    fault_server: FaultServer, place: StorePlace, verb: str, fault: HttpFault
) -> None:
    fault_server.plan(fault)
    VERBS[verb](place.open())
    assert len(fault_server.requests) == 4


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (HttpFault(status=500, times=ALWAYS), UnavailableError),
        (HttpFault(status=503, code="ServiceUnavailable", times=ALWAYS), UnavailableError),
        (HttpFault(times=ALWAYS), UnavailableError),
        (HttpFault(status=503, code="SlowDown", times=ALWAYS), ThrottledError),
        (HttpFault(status=429, code="TooManyRequests", times=ALWAYS), ThrottledError),
        (HttpFault(status=403, code="AccessDenied", times=ALWAYS), AccessDeniedError),
        (HttpFault(status=401, code="InvalidToken", times=ALWAYS), AccessDeniedError),
        (HttpFault(status=400, code="BadRequest", times=ALWAYS), StorageError),
    ],
    ids=["500", "503", "cut", "slow down", "429", "403", "401", "400"],
)
def test_a_lasting_failure_has_its_own_name(
    fault_server: FaultServer,
    place: StorePlace,
    verb: str,
    fault: HttpFault,
    error: type[StorageError],
) -> None:
    fault_server.plan(fault)
    store = StorePlace(place.url, {**place.options, "storage.retry.maxRetries": "2"}).open()
    # HEAD has no body, so that the store cannot say what it means; a plain 503 is then
    # unavailability.
    expected = UnavailableError if verb == "head" and fault.code == "SlowDown" else error
    with pytest.raises(StorageError) as caught:
        VERBS[verb](store)
    assert type(caught.value) is expected
    assert place.url in str(caught.value)


@pytest.mark.parametrize("verb", ["get", "head", "list"])
def test_could_not_look_is_not_absence(
    fault_server: FaultServer, place: StorePlace, verb: str
) -> None:
    store = StorePlace(place.url, {**place.options, "storage.retry.maxRetries": "1"}).open()
    fault_server.bucket.objects.clear()
    fault_server.plan(HttpFault(status=500, times=2))
    with pytest.raises(UnavailableError):
        VERBS[verb](store)
    fault_server.forgive()
    if verb == "get":
        with pytest.raises(NotFoundError):
            VERBS[verb](store)
    else:
        assert not VERBS[verb](store)


@pytest.mark.parametrize("verb", VERBS)
def test_a_bucket_that_is_not_there_is_not_an_empty_one(s3: StorePlace, verb: str) -> None:
    store = StorePlace("s3://no-such-bucket/t", s3.options).open()
    with pytest.raises(StorageError, match="NoSuchBucket"):
        VERBS[verb](store)
    with pytest.raises(StorageError, match="NoSuchBucket"):
        store.put_if_absent("a/object", b"x")


def test_a_container_that_is_not_there_is_not_an_empty_one(azure: StorePlace) -> None:
    store = StorePlace("az://no-such-container/t", azure.options).open()
    for use in VERBS.values():
        with pytest.raises(StorageError, match="ContainerNotFound"):
            use(store)
    with pytest.raises(StorageError, match="ContainerNotFound"):
        store.put_if_absent("a/object", b"x")


def test_nobody_listens() -> None:
    (port,) = free_ports(1)
    quick = {"storage.retry.maxRetries": "1", "storage.retry.baseDelayMs": "1"}
    store = StorePlace("s3://tests", {**s3_options(port), **quick}).open()
    with pytest.raises(UnavailableError):
        store.get("object")
    assert store.put_if_absent("object", b"x") is PutOutcome.UNKNOWN


def test_plain_http_must_be_allowed(fault_server: FaultServer) -> None:
    store = StorePlace(
        fault_server.s3.url, {**fault_server.s3.options, "aws.allowHttp": "false"}
    ).open()
    for use in VERBS.values():
        with pytest.raises(StorageError, match=r"aws\.allowHttp"):
            use(store)
    with pytest.raises(StorageError, match=r"aws\.allowHttp"):
        store.put_if_absent("object", b"x")
    assert fault_server.requests == []


def test_one_object_that_cannot_be_deleted(fault_server: FaultServer) -> None:
    store = fault_server.s3.open()
    for name in ("a", "b", "c"):
        store.put(name, b"x")
    fault_server.bucket.locked.add("b")
    with pytest.raises(AccessDeniedError, match="locked"):
        store.delete(["a", "b", "c"])
    assert store.head("b") is not None


class TestPutIfAbsent:
    """CREATED and EXISTS are said only when the store said so; everything else is UNKNOWN."""

    def test_a_lost_answer_meets_its_own_write(
        self, fault_server: FaultServer, place: StorePlace
    ) -> None:
        fault_server.plan(HttpFault("PUT", takes_effect=True))
        assert place.open().put_if_absent("new", b"ours") is PutOutcome.EXISTS
        assert place.open().get("new") == b"ours"

    def test_an_error_after_the_write_meets_its_own_write(
        self, fault_server: FaultServer, place: StorePlace
    ) -> None:
        fault_server.plan(HttpFault("PUT", status=500, takes_effect=True))
        assert place.open().put_if_absent("new", b"ours") is PutOutcome.EXISTS
        assert place.open().get("new") == b"ours"

    def test_a_conflict_wrote_nothing_and_says_exists(self, fault_server: FaultServer) -> None:
        store = fault_server.s3.open()
        fault_server.plan(HttpFault("PUT", status=409, code="ConditionalRequestConflict"))
        assert store.put_if_absent("new", b"ours") is PutOutcome.EXISTS
        assert store.head("new") is None
        assert store.put_if_absent("new", b"ours") is PutOutcome.CREATED

    @pytest.mark.parametrize("status", [None, 500, 503, 429])
    @pytest.mark.parametrize("takes_effect", [False, True])
    def test_no_clear_answer_is_unknown(
        self, fault_server: FaultServer, place: StorePlace, status: int | None, takes_effect: bool
    ) -> None:
        store = StorePlace(place.url, {**place.options, "storage.retry.maxRetries": "2"}).open()
        fault_server.plan(HttpFault("PUT", status=status, takes_effect=takes_effect, times=ALWAYS))
        assert store.put_if_absent("new", b"ours") is PutOutcome.UNKNOWN
        fault_server.forgive()
        assert (store.head("new") is not None) == takes_effect

    def test_silence_is_unknown(self, fault_server: FaultServer, place: StorePlace) -> None:
        impatient = {"storage.timeoutMs": "100", "storage.retry.maxRetries": "1"}
        store = StorePlace(place.url, {**place.options, **impatient}).open()
        fault_server.plan(HttpFault("PUT", delay_ms=600, answers=True, times=ALWAYS))
        assert store.put_if_absent("new", b"ours") is PutOutcome.UNKNOWN

    def test_a_refusal_is_an_error(self, fault_server: FaultServer, place: StorePlace) -> None:
        fault_server.plan(HttpFault("PUT", status=403, code="AccessDenied"))
        with pytest.raises(AccessDeniedError):
            place.open().put_if_absent("new", b"ours")

    def test_a_refusal_after_a_repeat_is_unknown(
        self, fault_server: FaultServer, place: StorePlace
    ) -> None:
        fault_server.plan(
            HttpFault("PUT", takes_effect=True),
            HttpFault("PUT", at=2, status=403, code="ExpiredToken"),
        )
        assert place.open().put_if_absent("new", b"ours") is PutOutcome.UNKNOWN
        assert place.open().get("new") == b"ours"

    def test_late_is_not_lost(self, fault_server: FaultServer, place: StorePlace) -> None:
        fault_server.plan(HttpFault("PUT", delay_ms=200, answers=True))
        assert place.open().put_if_absent("new", b"ours") is PutOutcome.CREATED


class TestListing:
    """A listing is complete or an error, never quietly short."""

    NAMES = tuple(f"a/{i:03d}" for i in range(25))

    def test_a_page_that_fails_breaks_the_listing(self) -> None:
        with FaultServer(page_size=10) as server:
            store = StorePlace(
                server.s3.url, {**server.s3.options, "storage.retry.maxRetries": "2"}
            ).open()
            for name in self.NAMES:
                store.put(name, b"x")
            server.plan(HttpFault("GET", at=3, status=500, times=ALWAYS))
            seen = []
            with pytest.raises(UnavailableError):
                for info in store.list("a"):
                    seen.append(info.path)
            assert seen == list(self.NAMES[: len(seen)])

    def test_a_page_that_fails_for_a_while_does_not(self) -> None:
        with FaultServer(page_size=10) as server:
            store = server.s3.open()
            for name in self.NAMES:
                store.put(name, b"x")
            server.plan(HttpFault("GET", at=2, status=503, times=3))
            assert [info.path for info in store.list("a")] == list(self.NAMES)
            assert server.count("GET") == 6
