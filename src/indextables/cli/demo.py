"""The product at work: log lines written with Spark, searched, merged, travelled back in time, damaged and verified."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from msgspec import Struct
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from indextables.cli.log_lines import OPTIONS, log_lines
from indextables.errors import CorruptTableError, IndexTablesError, RefusedError
from indextables.table import Table

QUERY = "message:(timeout AND upstream) AND service:checkout"
CONDITION = "contains(message, 'timeout') AND contains(message, 'upstream') AND service = 'checkout'"
NOTE = "indextables demo"
"""The note in the history by which the demo knows its own tables."""
T = TypeVar("T")


class Story(Struct, frozen=True):
    """What the steps of the story share: `its` is the module `indextables.spark`, `spark` a session of it."""

    its: Any
    spark: Any
    path: Path
    out: Console

    def say(self, title: str, text: str = "") -> None:
        """The heading of a step."""
        self.out.print(f"\n[bold cyan]{title}[/]" + (f"  [dim]{escape(text)}[/]" if text else ""))

    def grid(self, rows: list[dict[str, Any]]) -> None:
        """Rows as a table on the screen."""
        grid = Grid(box=None, header_style="dim", padding=(0, 2, 0, 0))
        for name in rows[0] if rows else ():
            grid.add_column(name, overflow="fold")
        for row in rows:
            grid.add_row(*("" if v is None else str(v) for v in row.values()))
        self.out.print(grid)


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """A result and how long it took, in milliseconds."""
    start = time.perf_counter()
    result = work()
    return result, (time.perf_counter() - start) * 1000


def tell(its: Any, path: Path, *, rows: int, on_stderr: bool = False) -> Table:
    """The story, from an empty folder to a table that is left for the user."""
    start = time.perf_counter()
    on_terminal = (sys.stderr if on_stderr else sys.stdout).isatty()
    out = Console(highlight=False, width=None if on_terminal else 120, stderr=on_stderr)
    _make_room(path)
    out.print(f"\n[bold cyan]IndexTables[/]  [dim]{rows:,} log lines, three commits, one table, no search cluster[/]")
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
    """An older demo is replaced; anything else that is there is left alone, a table of somebody's above all."""
    if not path.exists():
        return
    try:
        notes = Table.open(str(path)).history().column("user_metadata").to_pylist()
    except IndexTablesError:
        notes = []
    if NOTE not in notes:
        hint = "Choose another place with --path, or move it away."
        raise RefusedError(f"{path} exists and was not made by the demo.", hint=hint, path=str(path))
    shutil.rmtree(path)


def write(story: Story, rows: int) -> Table:
    """Three commits, each with lines of all three days, as late arrivals have it."""
    batches = list(log_lines(rows, days=3, batch_rows=max(1, rows // 60)))
    for number in range(3):
        lines = pa.Table.from_batches(batches[number::3])
        frame = story.spark.createDataFrame(lines)
        start = time.perf_counter()
        story.its.write(frame, str(story.path), partition_by=["day"], options=OPTIONS, user_metadata=NOTE)
        took = time.perf_counter() - start
        story.out.print(f"  commit {number + 1}: {lines.num_rows:,} log lines in {took:.1f} s")
    return Table.open(str(story.path))


def search(story: Story, table: Table) -> None:
    """The same question by index and by scan, each asked twice; the second time counts, when both are warm."""
    story.say("Search", QUERY)
    for row in table.search(QUERY, limit=5, snippet="message", columns=["ts", "host"]).to_pylist():
        snippet = escape(row["_snippet"]).replace("<b>", "[bold yellow]").replace("</b>", "[/]")
        story.out.print(f"  [green]{row['_score']:.2f}[/]  {row['ts']:%d %b %H:%M:%S}  {row['host']:<12} {snippet}")
    _, best_ms = timed(lambda: table.search(QUERY, limit=5, snippet="message", columns=["ts", "host"]))
    table.count(query=QUERY)
    matches, count_ms = timed(lambda: table.count(query=QUERY))
    frame = story.its.table(story.spark, str(story.path)).where(CONDITION)
    frame.count()
    scanned, scan_ms = timed(frame.count)
    story.out.print(f"  {matches:,} matches: counted in {count_ms:.0f} ms, the best five in {best_ms:.0f} ms")
    story.out.print(f"  {scanned:,} rows: Spark's contains() over the same table in {scan_ms:.0f} ms")
    if matches != scanned:
        raise CorruptTableError(f"The search found {matches} rows and the scan {scanned}.")


def ask(story: Story, table: Table) -> None:
    """Typed conditions and aggregations."""
    story.say("Typed conditions", "status >= 500 AND latency_ms > 500, in Spark, with the table's own pruning")
    frame = story.its.table(story.spark, str(story.path)).where("status >= 500 AND latency_ms > 500")
    rows = frame.select("ts", "service", "status", "latency_ms").orderBy("ts").limit(3).collect()
    story.grid([row.asDict() for row in rows])
    story.say("Aggregate", "services with the most timeouts, exact, from the index")
    spec = {"service": {"terms": {"field": "service", "size": 3}, "aggs": {"ms": {"stats": {"field": "latency_ms"}}}}}
    buckets = table.aggregate(spec, query="message:timeout").to_pylist()
    story.grid([{"service": r["service"], "timeouts": r["count"], "avg ms": f"{r['ms.avg']:.1f}"} for r in buckets])


def merge_and_travel(story: Story, table: Table) -> None:
    """Fewer, larger splits; the old version stays readable."""
    before, count = table.version, table.count(query=QUERY)
    story.say("Merge", f"{table.files().num_rows} splits")
    report, ms = timed(lambda: table.merge(target_size="1G"))
    splits = table.files().num_rows
    story.out.print(f"  now {splits} splits, in {ms / 1000:.1f} s, version {table.version}: {report.status}")
    old = Table.open(str(story.path), version=before)
    now = table.count(query=QUERY)
    story.say("Time travel", f"version {before}, before the merge")
    story.out.print(f"  {old.files().num_rows} splits, {old.count(query=QUERY):,} matches; now {now:,}")
    if count != now:
        raise CorruptTableError(f"The merge changed the result from {count} rows to {now}.")


def damage(story: Story, table: Table) -> None:
    """One flipped byte is found, and never read as something else."""
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
    """How to go on with the table."""
    name = story.path.name if story.path.parent == Path.cwd() else str(story.path)
    story.say("Yours to play with", f"the table is in {name}")
    command = Path(sys.executable).with_name("indextables")
    program = command.relative_to(Path.cwd()) if command.is_relative_to(Path.cwd()) else command
    for words in (
        f"search {name} 'deadlock AND level:ERROR' --limit 3",
        f"count {name} --where \"status >= 500 AND day = '2026-11-02'\"",
        f"aggregate {name} --terms service --query timeout",
        f"diff {name} 3 4",
        f"report {name} -o report.html",
        "--help",
    ):
        story.out.print(f"  {program} {escape(words)}", soft_wrap=True)
