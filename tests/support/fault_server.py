"""An object store on loopback that misbehaves on demand at the HTTP level: 5xx, 409, lost answers,
silence, latency.

    with FaultServer() as server:
        server.plan(HttpFault("PUT", path_contains=".json", takes_effect=True))      # written, the
        answer is lost server.plan(HttpFault("PUT", status=503, code="SlowDown", times=3)) store =
        server.s3.open()

Unlike a faulty store it exercises the real client with its real retries. It runs in a thread of the
test process, so a test sees every request and every object; other processes reach it through the
same place.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Literal
from urllib.parse import unquote

from aiohttp import web
from msgspec import Struct

from tests.support.places import StorePlace
from tests.support.servers import s3_options
from tests.support.xml_bucket import Answer, Request, XmlBucket, refusal

_BUCKET = "tests"
# Repeats as in life, only quicker.
QUICK_RETRIES = {
    "storage.retry.baseDelayMs": "1",
    "storage.retry.maxDelayMs": "20",
    "storage.timeoutMs": "2000",
}


class HttpFault(Struct, frozen=True):
    """Which request fails: the `at`-th (from 1) and the `times - 1` after it, of a method, whose
    path holds a text.

    With a `status` the server answers it (and the code of S3's error); without one it cuts the
    connection. With `takes_effect` the request is carried out first. It waits `delay_ms` before
    anything; `answers` says that this is all that is wrong, but for a `body` that is damaged on its
    way and a listing that does not show the newest objects.
    """

    method: str = ""
    path_contains: str = ""
    at: int = 1
    times: int = 1
    status: int | None = None
    code: str = "InternalError"
    takes_effect: bool = False
    delay_ms: float = 0
    answers: bool = False
    body: Literal["whole", "flipped", "short", "empty"] = "whole"
    hides: int = 0


class FaultServer:
    """The server, up inside a `with` block. `bucket.objects`, `requests` and their `headers` may be
    looked at.
    """

    def __init__(self, *, latency_ms: float = 0, page_size: int = 1000) -> None:
        self.bucket = XmlBucket(page_size=page_size)
        self.requests: list[tuple[str, str]] = []
        self.headers: list[Mapping[str, str]] = []
        self.weather: Callable[[Request], HttpFault | None] = lambda _: None
        """Asked for every request that runs into no planned fault."""
        self._latency_ms = latency_ms
        self._faults: list[tuple[HttpFault, list[int]]] = []
        self._lock = Lock()
        self._up = Event()
        self._port = 0

    @property
    def s3(self) -> StorePlace:
        """The bucket as S3."""
        return StorePlace(f"s3://{_BUCKET}", {**s3_options(self._port), **QUICK_RETRIES})

    @property
    def gcs(self) -> StorePlace:
        """The bucket as Google Cloud Storage; the key says that no token needs to be fetched."""
        key = {"gcs_base_url": f"http://127.0.0.1:{self._port}", "disable_oauth": True}
        key |= {"client_email": "", "private_key": "", "private_key_id": ""}
        options = {
            "gcp.serviceAccountKey": json.dumps(key),
            "gcp.endpoint": f"http://127.0.0.1:{self._port}",
        }
        return StorePlace(f"gs://{_BUCKET}", {**options, **QUICK_RETRIES})

    def plan(self, *faults: HttpFault) -> None:
        """Add faults; each counts the requests it applies to from now on."""
        with self._lock:
            self._faults += [(fault, [0]) for fault in faults]

    def forgive(self) -> None:
        """No more faults."""
        with self._lock:
            self._faults.clear()

    def count(self, method: str, path_contains: str = "") -> int:
        """How many requests of a method there were, repeats included."""
        return sum(1 for m, path in [*self.requests] if m == method and path_contains in path)

    def __enter__(self) -> FaultServer:
        self._thread = Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        if not self._up.wait(30):
            raise RuntimeError("the fault server did not start")
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = web.Server(self._handle, access_log=None)
        listening = await self._loop.create_server(server, "127.0.0.1", 0, backlog=512)
        self._port = listening.sockets[0].getsockname()[1]
        self._up.set()
        await self._stop.wait()
        listening.close()
        await server.shutdown(0.01)
        await listening.wait_closed()

    async def _handle(self, raw: web.BaseRequest) -> web.StreamResponse:
        body = await raw.content.read()
        path = unquote(raw.raw_path.partition("?")[0]).removeprefix(f"/{_BUCKET}").lstrip("/")
        request = Request(raw.method, path, raw.query, raw.headers, body)
        fault = self._called(request)
        delay_ms = self._latency_ms + (fault.delay_ms if fault else 0)
        if delay_ms:
            await asyncio.sleep(delay_ms / 1000)
        if fault is None or fault.answers:
            answer = self.bucket.answer(request, hides=fault.hides if fault else 0)
            return _response(request, answer, fault.body if fault else "whole")
        if fault.takes_effect:
            self.bucket.answer(request)
        if fault.status is not None:
            return _response(request, refusal(fault.status, fault.code))
        if raw.transport is not None:
            raw.transport.abort()
        return web.Response()

    def _called(self, request: Request) -> HttpFault | None:
        """Note the request and find the fault that it runs into."""
        with self._lock:
            self.requests.append((request.method, request.key))
            self.headers.append(request.headers)
            hit = None
            for fault, seen in self._faults:
                if fault.method in ("", request.method) and fault.path_contains in request.key:
                    seen[0] += 1
                    if hit is None and fault.at <= seen[0] < fault.at + fault.times:
                        hit = fault
            return hit or self.weather(request)


def _response(request: Request, answer: Answer, body: str = "whole") -> web.StreamResponse:
    if request.method == "HEAD":
        return web.Response(
            status=answer.status,
            headers={**answer.headers, "Content-Length": str(len(answer.body))},
        )
    return web.Response(
        status=answer.status, body=_damaged(answer.body, body), headers=answer.headers
    )


def _damaged(data: bytes, how: str) -> bytes:
    """A body as it arrives: whole, or with one bit turned around, cut in half, or nothing of it."""
    if how == "flipped" and data:
        middle = len(data) // 2
        return data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]
    return {"short": data[: len(data) // 2], "empty": b""}.get(how, data)
