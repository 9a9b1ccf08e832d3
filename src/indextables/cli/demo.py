"""The demo: write log lines with Spark, search, merge, travel in time, damage and verify.

The lines are generated from a seed (`log_lines`); benchmarks and examples use them too.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from msgspec import Struct
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from indextables.errors import CorruptTableError, IndexTablesError, RefusedError
from indextables.table import Table

SCHEMA = pa.schema(
    [
        pa.field("ts", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("day", pa.date32(), nullable=False),
        pa.field("level", pa.string(), nullable=False),
        pa.field("service", pa.string(), nullable=False),
        pa.field("host", pa.string(), nullable=False),
        pa.field("client_ip", pa.string()),
        pa.field("status", pa.int32()),
        pa.field("latency_ms", pa.float64()),
        pa.field("message", pa.string(), nullable=False),
    ]
)
OPTIONS = {"indexing.typemap.message": "text", "indexing.typemap.client_ip": "ip"}
FIRST_DAY = datetime(2026, 11, 1, tzinfo=UTC)

_LEVELS = np.array(["DEBUG", "INFO", "WARN", "ERROR"])
_SERVICES = np.array(
    ["gateway", "checkout", "search", "auth", "billing", "inventory", "mailer", "reports"]
)
_TEMPLATES = {
    "DEBUG": [
        "cache {hit} for key user:{n} in {ms} ms",
        "acquired connection {n} from pool {service} after {ms} ms",
        "parsed {n} rows of request {id}",
    ],
    "INFO": [
        "{method} {url} completed with {status} in {ms} ms for request {id}",
        "user {n} logged in from session {id}",
        "job {id} processed {n} records in {ms} ms",
        "published event order.created for order {n}",
    ],
    "WARN": [
        "slow query took {ms} ms on table orders, request {id}",
        "retrying call to {service} after attempt {small}, request {id}",
        "queue depth {n} above threshold for {service}",
        "disk usage at {percent} percent on volume data{small}",
    ],
    "ERROR": [
        "timeout while waiting for upstream {service} after {ms} ms, request {id}",
        "connection refused by {service} on port {port}, request {id}",
        "failed to charge card for order {n}: gateway rejected the payment",
        "unhandled exception in handler {url}: null pointer at frame {small}",
        "deadlock detected between transactions {n} and {id}",
    ],
}
_URLS = [
    "/api/orders",
    "/api/cart",
    "/api/search",
    "/login",
    "/health",
    "/api/invoices",
    "/api/users",
]


def log_lines(
    rows: int, *, seed: int = 7, days: int = 3, batch_rows: int = 50_000
) -> Iterator[pa.RecordBatch]:
    """Generate batches of log lines in the order of time, the same for the same seed."""
    rng = np.random.default_rng(seed)
    start_us = int(FIRST_DAY.timestamp() * 1_000_000)
    step_us = timedelta(days=days) / timedelta(microseconds=1) / max(rows, 1)
    for first in range(0, rows, batch_rows):
        count = min(batch_rows, rows - first)
        times = start_us + ((np.arange(first, first + count) + rng.random(count)) * step_us).astype(
            np.int64
        )
        yield _batch(rng, times)


def _batch(rng: np.random.Generator, times: np.ndarray) -> pa.RecordBatch:
    count = len(times)
    levels = _LEVELS[rng.choice(4, count, p=[0.2, 0.66, 0.1, 0.04])]
    services = _SERVICES[rng.choice(8, count, p=[0.3, 0.2, 0.15, 0.1, 0.08, 0.07, 0.05, 0.05])]
    latency = np.round(rng.lognormal(3.2, 1.1, count), 2)
    status = np.where(
        levels == "ERROR",
        rng.choice([500, 502, 503, 504], count),
        rng.choice([200, 200, 200, 201, 304, 404], count),
    )
    messages = _messages(rng, levels, services, latency, status)
    octets = rng.integers(1, 255, (count, 3))
    ips = [f"10.{a}.{b}.{c}" for a, b, c in octets.tolist()]
    stamps = pa.array(times, pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_arrays(
        [
            stamps,
            stamps.cast(pa.date32()),
            pa.array(levels, pa.string()),
            pa.array(services, pa.string()),
            pa.array(
                [
                    f"{s}-{h:02d}"
                    for s, h in zip(
                        services.tolist(), rng.integers(1, 13, count).tolist(), strict=True
                    )
                ]
            ),
            pa.array(ips),
            pa.array(status.astype(np.int32)),
            pa.array(latency),
            pa.array(messages),
        ],
        schema=SCHEMA,
    )


def _messages(
    rng: np.random.Generator,
    levels: np.ndarray,
    services: np.ndarray,
    latency: np.ndarray,
    status: np.ndarray,
) -> list[str]:
    count = len(levels)
    numbers = rng.integers(1, 1_000_000, count)
    ids = rng.integers(0, 1 << 48, count)
    choices = rng.integers(0, 60, count)
    out = []
    columns = (levels, services, latency, status, numbers, ids, choices)
    for level, service, ms, code, n, ident, choice in zip(
        *(c.tolist() for c in columns), strict=True
    ):
        template = _TEMPLATES[level][choice % len(_TEMPLATES[level])]
        out.append(
            template.format(
                hit="hit" if choice % 3 else "miss",
                n=n,
                ms=ms,
                id=f"{ident:012x}",
                service=service,
                method="POST" if choice % 4 == 0 else "GET",
                url=_URLS[choice % len(_URLS)],
                status=code,
                small=choice % 5,
                percent=70 + choice % 30,
                port=8000 + choice % 50,
            )
        )
    return out


QUERY = "message:(timeout AND upstream) AND service:checkout"
CONDITION = (
    "contains(message, 'timeout') AND contains(message, 'upstream') AND service = 'checkout'"
)
NOTE = "indextables demo"
"""User metadata of the demo's commits, which identifies its tables."""
T = TypeVar("T")


class Story(Struct, frozen=True):
    """State that the steps share: `its` is the module `indextables.spark`, `spark` its session."""

    its: Any
    spark: Any
    path: Path
    out: Console

    def say(self, title: str, text: str = "") -> None:
        """Print the heading of a step."""
        self.out.print(f"\n[bold cyan]{title}[/]" + (f"  [dim]{escape(text)}[/]" if text else ""))

    def grid(self, rows: list[dict[str, Any]]) -> None:
        """Print rows as a table."""
        grid = Grid(box=None, header_style="dim", padding=(0, 2, 0, 0))
        for name in rows[0] if rows else ():
            grid.add_column(name, overflow="fold")
        for row in rows:
            grid.add_row(*("" if v is None else str(v) for v in row.values()))
        self.out.print(grid)


def measure(work: Callable[[], T]) -> tuple[T, float]:
    """Return a result and its duration in milliseconds."""
    start = time.perf_counter()
    result = work()
    return result, (time.perf_counter() - start) * 1000


def tell(its: Any, path: Path, *, rows: int, on_stderr: bool = False) -> Table:
    """Run all steps, from an empty folder to a table that the user keeps."""
    start = time.perf_counter()
    on_terminal = (sys.stderr if on_stderr else sys.stdout).isatty()
    out = Console(highlight=False, width=None if on_terminal else 120, stderr=on_stderr)
    _make_room(path)
    out.print(
        f"\n[bold cyan]IndexTables[/]  [dim]{rows:,} log lines, three commits, one table, no search cluster[/]"
    )
    story = Story(its, its.session(), path, out)
    try:
        table = write(story, rows)
        search(story, table)
        ask(story, table)
        merge_and_travel(story, table)
        damage(story, table)
        story.say("History")
        history = table.history().select(["version", "timestamp", "operation"]).to_pylist()
        story.grid([{**r, "timestamp": f"{r['timestamp']:%H:%M:%S}"} for r in history])
    finally:
        story.spark.stop()
    farewell(story)
    out.print(f"\n[dim]{time.perf_counter() - start:.0f} s in all[/]")
    return table


def _make_room(path: Path) -> None:
    """Remove the table of an older demo. Anything else at the path is an error."""
    if not path.exists():
        return
    try:
        notes = Table.open(str(path)).history().column("user_metadata").to_pylist()
    except IndexTablesError:
        notes = []
    if NOTE not in notes:
        hint = "Choose another place with --path, or move it away."
        raise RefusedError(
            f"{path} exists and was not made by the demo.", hint=hint, path=str(path)
        )
    shutil.rmtree(path)


def write(story: Story, rows: int) -> Table:
    """Commit three times. Each commit has lines of all three days, like late arrivals."""
    batches = list(log_lines(rows, days=3, batch_rows=max(1, rows // 60)))
    for number in range(3):
        lines = pa.Table.from_batches(batches[number::3])
        frame = story.spark.createDataFrame(lines)
        start = time.perf_counter()
        story.its.write(
            frame, str(story.path), partition_by=["day"], options=OPTIONS, user_metadata=NOTE
        )
        took = time.perf_counter() - start
        story.out.print(f"  commit {number + 1}: {lines.num_rows:,} log lines in {took:.1f} s")
    return Table.open(str(story.path))


def search(story: Story, table: Table) -> None:
    """Run the same query with the index and as a scan, twice each. The second run is reported."""
    story.say("Search", QUERY)
    for row in table.search(QUERY, limit=5, snippet="message", columns=["ts", "host"]).to_pylist():
        snippet = escape(row["_snippet"]).replace("<b>", "[bold yellow]").replace("</b>", "[/]")
        story.out.print(
            f"  [green]{row['_score']:.2f}[/]  {row['ts']:%d %b %H:%M:%S}  {row['host']:<12} {snippet}"
        )
    _, best_ms = measure(
        lambda: table.search(QUERY, limit=5, snippet="message", columns=["ts", "host"])
    )
    table.count(query=QUERY)
    matches, count_ms = measure(lambda: table.count(query=QUERY))
    frame = story.its.table(story.spark, str(story.path)).where(CONDITION)
    frame.count()
    scanned, scan_ms = measure(frame.count)
    story.out.print(
        f"  {matches:,} matches: counted in {count_ms:.0f} ms, the best five in {best_ms:.0f} ms"
    )
    story.out.print(
        f"  {scanned:,} rows: Spark's contains() over the same table in {scan_ms:.0f} ms"
    )
    if matches != scanned:
        raise CorruptTableError(f"The search found {matches} rows and the scan {scanned}.")


def ask(story: Story, table: Table) -> None:
    """Run typed conditions and aggregations."""
    story.say(
        "Typed conditions",
        "status >= 500 AND latency_ms > 500, in Spark, with the table's own pruning",
    )
    frame = story.its.table(story.spark, str(story.path)).where(
        "status >= 500 AND latency_ms > 500"
    )
    rows = frame.select("ts", "service", "status", "latency_ms").orderBy("ts").limit(3).collect()
    story.grid([row.asDict() for row in rows])
    story.say("Aggregate", "services with the most timeouts, exact, from the index")
    spec = {
        "service": {
            "terms": {"field": "service", "size": 3},
            "aggs": {"ms": {"stats": {"field": "latency_ms"}}},
        }
    }
    buckets = table.aggregate(spec, query="message:timeout").to_pylist()
    story.grid(
        [
            {"service": r["service"], "timeouts": r["count"], "avg ms": f"{r['ms.avg']:.1f}"}
            for r in buckets
        ]
    )


def merge_and_travel(story: Story, table: Table) -> None:
    """Merge the splits, and read the version before the merge."""
    before, count = table.version, table.count(query=QUERY)
    story.say("Merge", f"{table.files().num_rows} splits")
    report, ms = measure(lambda: table.merge(target_size="1G"))
    splits = table.files().num_rows
    story.out.print(
        f"  now {splits} splits, in {ms / 1000:.1f} s, version {table.version}: {report.status}"
    )
    old = Table.open(str(story.path), version=before)
    now = table.count(query=QUERY)
    story.say("Time travel", f"version {before}, before the merge")
    story.out.print(
        f"  {old.files().num_rows} splits, {old.count(query=QUERY):,} matches; now {now:,}"
    )
    if count != now:
        raise CorruptTableError(f"The merge changed the result from {count} rows to {now}.")


def damage(story: Story, table: Table) -> None:
    """Flip one byte: verification finds it, and no reader returns wrong rows."""
    story.say("Damage", "one byte of one split is flipped")
    victim = story.path / table.files().column("path")[0].as_py()
    whole = victim.read_bytes()
    place = len(whole) // 10
    victim.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    finding = table.verify(full=True).findings[0]
    story.out.print(f"  verify: {finding.severity}: {escape(finding.message)}", soft_wrap=True)
    try:
        Table.open(str(story.path)).scan().read_all()
    except IndexTablesError as error:
        story.out.print(f"  reading: {escape(error.message)}", soft_wrap=True)
    victim.write_bytes(whole)
    story.out.print(f"  mended: {len(table.verify(full=True).findings)} findings")


def farewell(story: Story) -> None:
    """Print the next steps."""
    if story.path.parent == Path.cwd():
        name = story.path.name
    else:
        name = str(story.path)
    story.say("Yours to play with", f"the table is in {name}")
    command = Path(sys.executable).with_name("indextables")
    if command.is_relative_to(Path.cwd()):
        program = command.relative_to(Path.cwd())
    else:
        program = command
    for words in (
        f"search {name} 'deadlock AND level:ERROR' --limit 3",
        f"count {name} --where \"status >= 500 AND day = '2026-11-02'\"",
        f"aggregate {name} --terms service --query timeout",
        f"diff {name} 3 4",
        f"report {name} -o report.html",
        "--help",
    ):
        story.out.print(f"  {program} {escape(words)}", soft_wrap=True)
