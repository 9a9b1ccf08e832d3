"""The search service as a process: answers on a kept connection come at once, and several workers
share one port.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from indextables import Table

TOKEN = "the-token-of-these-tests"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "logs"
    rows = pa.table({"id": [1, 2], "message": ["gateway timeout", "disk full"]})
    Table.create(str(folder), schema=rows.schema, text=["message"]).append(rows)
    return folder


@contextmanager
def served(path: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [
        sys.executable,
        "-m",
        "indextables.cli",
        "serve",
        str(path),
        "--port",
        "0",
        "--json",
        "--token",
        TOKEN,
    ]
    process = subprocess.Popen(
        [*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        started = json.loads("".join(process.stdout.readline() for _ in range(4)))
        yield process, urlsplit(started["address"]).netloc
    finally:
        process.kill()
        process.communicate(timeout=60)


def count_hits(connection: http.client.HTTPConnection) -> int:
    connection.request(
        "GET", "/logs/_search?q=gateway", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    with connection.getresponse() as answer:
        found: int = json.loads(answer.read())["hits"]["total"]["value"]
    return found


def count_once(address: str) -> int:
    with closing(http.client.HTTPConnection(address, timeout=60)) as connection:
        return count_hits(connection)


def children_of(parent: int) -> list[int]:
    """The Python processes that a process started, without the one that tracks shared resources."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_text()
        except OSError:
            continue
        if int(stat[1]) == parent and stat[0] != "Z" and "resource_tracker" not in command:
            found.append(int(folder.name))
    return found


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_answers_on_a_kept_connection_are_not_delayed(path: Path) -> None:
    with served(path) as (_, address):
        times = []
        with closing(http.client.HTTPConnection(address, timeout=60)) as connection:
            for _ in range(30):
                start = time.perf_counter()
                assert count_hits(connection) == 1
                times.append(time.perf_counter() - start)
        assert min(times) < 0.03, times


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads the processes of Linux")
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_workers_share_a_port_are_replaced_and_end_with_the_service(
    path: Path, stop: signal.Signals
) -> None:
    with served(path, "--workers", "2") as (process, address):
        wait_until(lambda: len(children_of(process.pid)) == 2)
        assert count_once(address) == 1
        time.sleep(5)  # a worker that ends sooner is taken for one that cannot start
        killed, other = children_of(process.pid)
        os.kill(killed, signal.SIGKILL)
        wait_until(
            lambda: len(children_of(process.pid)) == 2 and killed not in children_of(process.pid)
        )
        assert all(count_once(address) == 1 for _ in range(10))
        workers = children_of(process.pid)
        assert other in workers
        process.send_signal(stop)
        process.communicate(timeout=60)
        wait_until(lambda: not any(is_running(worker) for worker in workers))


def test_a_number_of_workers_that_makes_no_sense_is_refused(path: Path) -> None:
    command = [sys.executable, "-m", "indextables.cli", "serve", str(path), "--workers", "0"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2
    assert "--workers" in refused.stderr
