"""The explorer and the search service under load: hits rendered beside `Table.search`, and many
users at once.

    python -m bench.web --rows 1000000 --users 50 --seconds 60

The first figures are a page of hits next to the search it shows: two hundred questions by turns, on
the clock and of all cores. The second is a server in a process of its own on loopback, asked by
that many users without a pause: times, errors, its memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import MutableMapping
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
from starlette.types import ASGIApp

from indextables import Table
from indextables.cli.demo import OPTIONS, SCHEMA, log_lines
from indextables.web import search_page
from indextables.web.exploration import TableView, View
from indextables.web.explorer import Explorer, Limits
from indextables.web.service import application
from indextables.web.warehouse import Warehouse

QUESTIONS = 200
QUERIES = (
    "timeout",
    "level:ERROR",
    "gateway AND timeout",
    "checkout",
    "upstream",
    "status:>=500",
    "*",
)


def made(path: str, rows: int) -> Table:
    """A table of log lines in splits of a hundred thousand."""
    table = Table.create(path, schema=SCHEMA, partition_columns=["day"], options=OPTIONS)
    batches = log_lines(rows, days=max(1, rows // 250_000), batch_rows=50_000)
    table.append(pa.RecordBatchReader.from_batches(SCHEMA, batches))
    return Table.open(path)


def questions() -> list[str]:
    """Two hundred searches: a service with a level, a status, a word or a part of a day each."""
    words = (
        "timeout",
        "refused",
        "deadlock",
        "charge",
        "exception",
        "queue",
        "slow",
        "retrying",
        "cache",
        "login",
    )
    services = (
        "gateway",
        "checkout",
        "search",
        "auth",
        "billing",
        "inventory",
        "mailer",
        "reports",
    )
    pairs = [(service, word) for word in words for service in services]
    asked = [f"service:{service} AND {word}" for service, word in pairs]
    asked += [f"{word} {service}" for service, word in pairs]
    asked += [
        f"level:ERROR AND {service} AND status:{status}"
        for service in services
        for status in (500, 502, 503, 504)
    ]
    asked += [*words[:6], "level:ERROR", "*"]
    return asked[:QUESTIONS]


def rendered(
    table: Table, warehouse: Warehouse, name: str
) -> dict[str, dict[str, dict[str, float]]]:
    """Milliseconds of `Table.search`, of the page of the same hits, and of a request for it: first,
    then again.

    Every question is asked by all three ways before the next, each way first in turn.
    """
    limits = Limits()
    served, loop = application(Explorer(warehouse, limits), "token"), asyncio.new_event_loop()
    ways = {
        "search": lambda query: table.search(query, limit=51),
        "render": lambda query: _page(table, name, query),
        "request": lambda query: loop.run_until_complete(
            _asked(served, f"/token/t/{name}/search", f"q={quote(query)}")
        ),
    }
    for act in ways.values():  # imports and the first look at the table are nobody's
        act("warm")
    figures = {}
    order = list(ways)
    for turn in ("first", "again"):
        times: dict[str, tuple[list[float], list[float]]] = {way: ([], []) for way in ways}
        for query in questions():
            order = [*order[1:], order[0]]
            for way in order:
                wall, cpu = time.perf_counter(), time.process_time()
                ways[way](query)
                times[way][0].append((time.perf_counter() - wall) * 1000)
                times[way][1].append((time.process_time() - cpu) * 1000)
        figures[turn] = {way: _figures(*values) for way, values in times.items()}
    limits.close()
    loop.close()
    return figures


async def _asked(app: ASGIApp, path: str, query: str) -> None:
    """One request as a server hands it over, without a client's work beside it."""
    gone = asyncio.Event()
    status = []

    async def receive() -> dict[str, object]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, object]) -> None:
        status.append(message.get("status"))

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
    }
    rest = {
        "headers": [(b"host", b"127.0.0.1")],
        "scheme": "http",
        "server": ("127.0.0.1", 80),
        "root_path": "",
    }
    await app({**scope, **rest}, receive, send)
    assert status[0] == 200, status


def _figures(wall: list[float], cpu: list[float]) -> dict[str, float]:
    figures = {}
    for kind, values in (("wall", sorted(wall)), ("cpu", sorted(cpu))):
        for part in (50, 95):
            figures[f"{kind}_p{part}"] = round(values[len(values) * part // 100], 2)
    return figures


def _page(table: Table, name: str, query: str) -> str:
    view = View(query=query)
    shown = TableView(table, view)
    return search_page.search_page(name, table, view, shown, shown.page())


async def user(
    host: str, port: int, paths: list[str], until: float, times: list[float], errors: list[str]
) -> None:
    """One user who asks again as soon as the answer is there, over one connection."""
    reader, writer = await asyncio.open_connection(host, port)
    turn = 0
    while time.monotonic() < until:
        path = paths[turn % len(paths)]
        turn += 1
        start = time.perf_counter()
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        await reader.readexactly(length)
        times.append((time.perf_counter() - start) * 1000)
        if not head.startswith(b"HTTP/1.1 200"):
            errors.append(head.split(b"\r\n")[0].decode())
    writer.close()


def memory(pid: int) -> int:
    """Resident megabytes of a process."""
    line = next(
        line
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmRSS")
    )
    return int(line.split()[1]) // 1024


def cpu_seconds(pid: int) -> float:
    """Seconds of all cores that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def load(
    address: str, token: str, name: str, *, users: int, seconds: float
) -> tuple[list[float], list[str]]:
    """Times and errors of all users."""
    host, _, port = address.removeprefix("http://").partition(":")
    paths = [f"/{token}/{name}/_search?size=20&q={quote(query)}" for query in QUERIES]
    times: list[float] = []
    errors: list[str] = []
    until = time.monotonic() + seconds
    await asyncio.gather(
        *(
            user(host, int(port), paths[n % 7 :] + paths[: n % 7], until, times, errors)
            for n in range(users)
        )
    )
    return times, errors


def main() -> None:
    """Run both, and print a JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = made(f"{folder}/logs", asked.rows)
        print(
            json.dumps(
                {"rows": asked.rows, "ms": rendered(table, Warehouse([table.path]), "logs")}
            ),
            flush=True,
        )
        command = [
            str(Path(sys.executable).with_name("indextables")),
            "serve",
            table.path,
            "--port",
            "0",
            "--json",
        ]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            told = json.loads("".join(server.stdout.readline() for _ in range(4)))
            before, cpu = memory(server.pid), cpu_seconds(server.pid)
            half = asyncio.run(
                load(
                    told["address"],
                    told["token"],
                    "logs",
                    users=asked.users,
                    seconds=asked.seconds / 2,
                )
            )
            middle = memory(server.pid)
            rest = asyncio.run(
                load(
                    told["address"],
                    told["token"],
                    "logs",
                    users=asked.users,
                    seconds=asked.seconds / 2,
                )
            )
            times, errors = sorted(half[0] + rest[0]), half[1] + rest[1]
            figures = {
                "users": asked.users,
                "seconds": asked.seconds,
                "requests": len(times),
                "errors": len(errors),
                "p50_ms": round(times[len(times) // 2], 1),
                "p99_ms": round(times[int(len(times) * 0.99)], 1),
                "cpu_ms_per_request": round((cpu_seconds(server.pid) - cpu) * 1000 / len(times), 2),
                "load": round(os.getloadavg()[0], 1),
                "memory_mb": {"start": before, "half": middle, "end": memory(server.pid)},
            }
            print(json.dumps(figures), flush=True)
        finally:
            server.terminate()
            server.wait(30)


if __name__ == "__main__":
    main()
