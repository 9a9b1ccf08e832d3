"""A server that is killed or stopped at random while clients write with retries: what was
acknowledged is in the table, exactly once if the requests have keys.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import InvalidInputError
from indextables.web.service import LOOPBACK
from indextables.web.workers import open_socket
from tests.web.serving import READ, WRITE

SCHEMA = pa.schema([("client", pa.string()), ("n", pa.int64()), ("message", pa.string())])
ROWS = 5


def start(folder: Path, port: int, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "indextables.cli", "serve", str(folder), "--write"]
    command += ["--port", str(port), "--json", "-o", "ingest.maxDelayMs=50", *words]
    env = {**os.environ, "INDEXTABLES_TOKEN": READ, "INDEXTABLES_WRITE_TOKEN": WRITE}
    for _ in range(20):  # workers of a killed server may hold the port for some seconds
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
        assert process.stdout is not None
        with process.stdout as printed:
            if "address" in "".join(printed.readline() for _ in range(5)):
                return process
        process.wait(60)
        time.sleep(1)
    raise AssertionError("the server did not start")


def find_port(chance: random.Random) -> int:
    """Return a free port below those that the system gives to connections: a client that connects
    while the server is down could otherwise take the port for itself.
    """
    while True:
        port = chance.randrange(20_000, 30_000)
        try:
            open_socket(LOOPBACK, port).close()
        except InvalidInputError:
            continue
        return port


class Client(threading.Thread):
    """Sends requests one after the other, each until it is answered."""

    def __init__(self, address: str, name: str, *, keyed: bool, seed: int) -> None:
        super().__init__(daemon=True)
        self.name, self.keyed, self.address = name, keyed, address
        self.acknowledged = 0
        self.stopping = threading.Event()
        self.chance = random.Random(seed)

    def run(self) -> None:
        while not self.stopping.is_set():
            number = self.acknowledged + 1
            body = b"".join(
                b'{"create": {}}\n' + json.dumps(row).encode() + b"\n" for row in self.rows(number)
            )
            headers = {"Authorization": f"ApiKey {WRITE}"}
            if self.keyed:
                headers["Idempotency-Key"] = f"{self.name}:{number}"
            try:
                answer = httpx.post(self.address, content=body, headers=headers, timeout=20)
            except httpx.HTTPError:
                time.sleep(self.chance.random() * 0.2)
                continue
            if answer.status_code == 200:
                assert answer.json()["errors"] is False
                self.acknowledged = number
            else:
                assert answer.status_code in (429, 503), answer.text
                time.sleep(0.1)

    def rows(self, number: int) -> list[dict[str, object]]:
        return [
            {
                "client": self.name,
                "n": number * ROWS + k,
                "message": f"line {number} of {self.name}",
            }
            for k in range(ROWS)
        ]


def hunt(folder: Path, seed: int, *, rounds: int, seconds: float, words: tuple[str, ...]) -> int:
    """Run clients against a server that is killed `rounds` times. Return the acknowledged rows."""
    chance = random.Random(seed)
    options = {"mergeOnWrite.enabled": "true", "mergeOnWrite.minSplits": "5"}
    table = Table.create(str(folder / "logs"), schema=SCHEMA, text=["message"], options=options)
    port = find_port(chance)
    server = start(folder, port, *words)
    address = f"http://{LOOPBACK}:{port}/logs/_bulk"
    clients = [Client(address, f"c{n}", keyed=n % 2 == 0, seed=seed + n) for n in range(6)]
    for client in clients:
        client.start()
    for _ in range(rounds):
        time.sleep(seconds * (0.5 + chance.random()))
        server.send_signal(chance.choice((signal.SIGKILL, signal.SIGTERM)))
        server.wait(60)
        server = start(folder, port, *words)
    time.sleep(seconds)
    for client in clients:
        client.stopping.set()
    for client in clients:
        client.join(60)
        assert not client.is_alive()
    server.terminate()
    assert server.wait(60) is not None
    rows = Counter((row["client"], row["n"]) for row in table.refresh())
    for client in clients:
        expected = {n for number in range(1, client.acknowledged + 1) for n in _numbers(number)}
        found = {n: times for (name, n), times in rows.items() if name == client.name}
        lost = expected - found.keys()
        assert not lost, (client.name, sorted(lost)[:5])
        # A request whose answer was lost, and that was not repeated, may be there as a whole.
        extra = found.keys() - expected
        assert extra in (set(), set(_numbers(client.acknowledged + 1))), client.name
        if client.keyed:
            assert set(found.values()) <= {1}, client.name
    assert not table.refresh().verify().findings
    return sum(client.acknowledged * ROWS for client in clients)


def _numbers(request: int) -> range:
    return range(request * ROWS, request * ROWS + ROWS)


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    assert hunt(tmp_path, 38, rounds=2, seconds=2.0, words=()) > 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(4))
def test_nothing_acknowledged_is_lost_in_many_rounds(tmp_path: Path, seed: int) -> None:
    assert hunt(tmp_path, seed, rounds=20, seconds=4.0, words=()) > 0
