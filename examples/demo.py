"""The product at work: log lines written with Spark, searched, merged, travelled back in time. `make demo` runs it."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from rich.console import Console
from rich.table import Table as Grid

import indextables.spark as its
from indextables import Table
from indextables.cli.log_lines import OPTIONS, log_lines
from indextables.errors import IndexTablesError

ROWS = 200_000
PATH = Path("demo-table").absolute()
QUERY = "message:(timeout AND upstream) AND service:checkout"
T = TypeVar("T")
out = Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def say(title: str, text: str = "") -> None:
    """A step of the story."""
    out.print(f"\n[bold cyan]{title}[/]" + (f"  [dim]{text}[/]" if text else ""))


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """A result and how long it took, in milliseconds."""
    start = time.perf_counter()
    result = work()
    return result, (time.perf_counter() - start) * 1000


def grid(rows: list[dict[str, Any]]) -> None:
    """Rows as a table on the screen."""
    shown = Grid(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in rows[0] if rows else ():
        shown.add_column(name, overflow="fold")
    for row in rows:
        shown.add_row(*("" if v is None else str(v) for v in row.values()))
    out.print(shown)


def write(spark: SparkSession) -> Table:
    """Three commits, each with lines of all three days, as late arrivals have it."""
    batches = list(log_lines(ROWS, days=3, batch_rows=ROWS // 60))
    for number in range(3):
        lines = pa.Table.from_batches(batches[number::3])
        frame = spark.createDataFrame(lines)
        _, ms = timed(lambda frame=frame: its.write(frame, str(PATH), partition_by=["day"], options=OPTIONS))  # type: ignore[misc]
        out.print(f"  commit {number + 1}: {lines.num_rows:,} log lines in {ms / 1000:.1f} s")
    return Table.open(str(PATH))


def search(spark: SparkSession, table: Table) -> None:
    """The same question by index and by scan."""
    say("Search", QUERY)
    hits, ms = timed(lambda: table.search(QUERY, limit=5, snippet="message", columns=["ts", "host"]))
    for row in hits.to_pylist():
        snippet = row["_snippet"].replace("<b>", "[bold yellow]").replace("</b>", "[/]")
        out.print(f"  [green]{row['_score']:.2f}[/]  {row['ts']:%d %b %H:%M:%S}  {row['host']:<12} {snippet}")
    matches, count_ms = timed(lambda: table.count(query=QUERY))
    frame = its.table(spark, str(PATH))
    condition = F.col("message").contains("timeout") & F.col("message").contains("upstream")
    slow, scan_ms = timed(lambda: frame.where(condition & (F.col("service") == "checkout")).count())
    out.print(f"  {matches:,} matches: counted in {count_ms:.0f} ms, best five in {ms:.0f} ms;", end=" ")
    out.print(f"Spark's contains() scan finds {slow:,} in {scan_ms:.0f} ms")


def ask(spark: SparkSession, table: Table) -> None:
    """Typed conditions and aggregations."""
    say("Typed conditions", "status >= 500 AND latency_ms > 500, in Spark, with the table's own pruning")
    frame = its.table(spark, str(PATH)).where("status >= 500 AND latency_ms > 500")
    grid([r.asDict() for r in frame.select("ts", "service", "status", "latency_ms").orderBy("ts").limit(3).collect()])
    say("Aggregate", "slowest services among the timeouts, exact, from the index")
    spec = {"service": {"terms": {"field": "service", "size": 3}, "aggs": {"ms": {"stats": {"field": "latency_ms"}}}}}
    rows = table.aggregate(spec, query="message:timeout").to_pylist()
    grid([{"service": r["service"], "timeouts": r["count"], "avg ms": f"{r['ms.avg']:.1f}"} for r in rows])


def merge_and_travel(table: Table) -> None:
    """Fewer, larger splits; the old version stays readable."""
    before = table.version
    splits, count = table.files().num_rows, table.count(query=QUERY)
    say("Merge", f"{splits} splits")
    report, ms = timed(lambda: table.merge(target_size="1G"))
    out.print(f"  now {table.files().num_rows} splits, in {ms / 1000:.1f} s, version {table.version}: {report.status}")
    old = Table.open(str(PATH), version=before)
    say("Time travel", f"version {before}, before the merge")
    out.print(f"  {old.files().num_rows} splits, {old.count(query=QUERY):,} matches; now {table.count(query=QUERY):,}")
    if count != table.count(query=QUERY):
        raise SystemExit("the merge changed the result")


def damage(table: Table) -> None:
    """One flipped byte is found, and never read as something else."""
    say("Damage", "one byte of one split is flipped")
    victim = PATH / table.files().column("path")[0].as_py()
    whole = victim.read_bytes()
    place = len(whole) // 3
    victim.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    finding = table.verify(full=True).findings[0]
    out.print(f"  verify: {finding.severity}: {finding.message}")
    try:
        Table.open(str(PATH)).scan().read_all()
    except IndexTablesError as error:
        out.print(f"  reading: {error.message}")
    victim.write_bytes(whole)
    out.print(f"  mended: {len(table.verify(full=True).findings)} findings")


def main() -> None:
    """The story."""
    start = time.perf_counter()
    shutil.rmtree(PATH, ignore_errors=True)
    say("IndexTables", f"{ROWS:,} log lines, three commits, one table, no search cluster")
    spark = its.session()
    table = write(spark)
    search(spark, table)
    ask(spark, table)
    merge_and_travel(table)
    damage(table)
    say("History")
    rows = table.history().select(["version", "timestamp", "operation"]).to_pylist()
    grid([{**r, "timestamp": f"{r['timestamp']:%H:%M:%S}"} for r in rows])
    spark.stop()
    say("Yours to play with", str(PATH.name))
    out.print(
        '  .venv/bin/python -c "from indextables import Table; '
        "print(Table.open('demo-table').search('deadlock', limit=3).to_pandas())\""
    )
    out.print(f"\n[dim]{time.perf_counter() - start:.0f} s in all[/]")


if __name__ == "__main__":
    main()
