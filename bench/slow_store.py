"""A store that takes its time, in a process of its own: what it costs to be a store is not what a
search costs.

with SlowStore() as store:
    Table.create(store.url, options=store.options, ...) store.slow(30)                  # from now
    on every request takes 30 ms ... store.requests()                # what was asked since, and
    when (on the clock of `time.monotonic`)
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from types import TracebackType
from typing import Any

from tests.support.fault_server import FaultServer, HttpFault
from tests.support.xml_bucket import Request


class SlowStore:
    """The process, and where its bucket is."""

    def __enter__(self) -> SlowStore:
        command = [sys.executable, "-m", "bench.slow_store"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.url, self.options = self._answer()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate("end\n", timeout=30)

    def slow(self, latency_ms: int) -> None:
        """From now on each request takes so long; what was asked before is forgotten."""
        self._say(str(latency_ms))

    def requests(self) -> list[dict[str, Any]]:
        """Method, key and time (`at`, in seconds) of every request since the last `slow`."""
        found: list[dict[str, Any]] = self._say("requests")
        return found

    def _say(self, word: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


def main() -> None:
    """Serve until told to end."""
    requests: list[dict[str, Any]] = []
    with FaultServer() as server:
        place = server.s3.below("bench")
        print(json.dumps([place.url, dict(place.options)]), flush=True)
        for line in sys.stdin:
            word = line.strip()
            if word == "end":
                return
            if word == "requests":
                print(json.dumps(requests), flush=True)
                continue
            requests.clear()
            fault = HttpFault(delay_ms=int(word), answers=True)

            def slow(request: Request, fault: HttpFault = fault) -> HttpFault:
                requests.append(
                    {"method": request.method, "key": request.key, "at": time.monotonic()}
                )
                return fault

            server.weather = slow
            print("null", flush=True)


if __name__ == "__main__":
    main()
