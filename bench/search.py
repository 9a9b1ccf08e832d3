"""`make bench-search`: splits against Lance, DuckDB, pyarrow and raw tantivy over generated log lines."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.report import Report, peak_mb, timed_ms
from indextables import Table
from indextables.cli.log_lines import OPTIONS, SCHEMA, log_lines

ROWS = int(os.environ.get("ROWS", "1000000"))
SELECTIVE = "deadlock"
TERM = "timeout"
FREQUENT = "request"


def seconds(work: Callable[[], Any]) -> float:
    """CPU time of one run, all threads: what else the machine does plays no part in it."""
    start = time.process_time()
    work()
    return time.process_time() - start


def folder_bytes(path: Path) -> int:
    """What a folder holds."""
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file())


def raw_tantivy(root: Path, data: pa.Table) -> tuple[float, int]:
    """The same columns by plain tantivy-py with its documented ingest, and plain pyarrow Parquet."""
    import polars as pl
    import tantivy

    path = root / "tantivy"
    path.mkdir()
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("message", tokenizer_name="default", index_option="position")
    for name in ("level", "service", "host"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    builder.add_ip_addr_field("client_ip", indexed=True)
    schema = builder.build()

    def build() -> None:
        index = tantivy.Index(schema, path=str(path))
        writer = index.writer(200 << 20, 1)
        frame = pl.from_arrow(data.select(["message", "level", "service", "host", "client_ip"]))
        for piece in frame.iter_slices(8192):  # type: ignore[union-attr]
            for line in piece.write_ndjson().splitlines():
                writer.add_json(line)
        writer.commit()
        writer.wait_merging_threads()

    took = seconds(build)
    took += seconds(lambda: pq.write_table(data, root / "plain.parquet", compression="zstd", compression_level=1))
    return took, folder_bytes(path) + (root / "plain.parquet").stat().st_size


def build(report: Report, root: Path, data: pa.Table) -> Table:
    """Writing, against its parts."""
    theirs, their_bytes = raw_tantivy(root, data)
    table = Table.create(str(root / "ours"), schema=SCHEMA, options=OPTIONS)
    ours = seconds(lambda: table.append(data))
    rate, their_rate = data.num_rows / ours, data.num_rows / theirs
    report.add("build, rows per CPU second", rate, "rows/s", peer="tantivy+parquet", theirs=their_rate, at_least=0.8)
    ours_mb, theirs_mb = folder_bytes(root / "ours") / 1e6, their_bytes / 1e6
    report.add("size", ours_mb, "MB", peer="tantivy+parquet", theirs=theirs_mb, at_most=1.2)
    return Table.open(str(root / "ours"))


def search(report: Report, root: Path, data: pa.Table, table: Table) -> None:
    """Asking, against Lance and against scans."""
    import duckdb
    import lance

    dataset = lance.write_dataset(data, str(root / "lance"))
    dataset.create_scalar_index("message", "INVERTED", with_position=False)

    def lance_top() -> None:
        dataset.scanner(full_text_query=TERM, limit=10, columns=["ts", "message", "_score"]).to_table()

    def lance_all() -> None:
        dataset.scanner(full_text_query=FREQUENT, columns=["_score"], with_row_id=True, limit=data.num_rows).to_table()

    def top() -> None:
        table.search(f"message:{TERM}", limit=10, columns=["ts", "message"])

    def every() -> None:
        np.asarray(row_numbers(table, f"message:{FREQUENT}"))

    for work in (top, every, lance_top, lance_all):
        work()
    report.add(
        "top 10 of a term",
        timed_ms(top, repeat=51),
        "ms",
        peer="Lance",
        theirs=timed_ms(lance_top, repeat=51),
        at_most=1.0,
    )
    ours, theirs = timed_ms(every, repeat=15), timed_ms(lance_all, repeat=15)
    report.add(
        "all hits of a frequent term: speed", 1000 / ours, "1/s", peer="Lance", theirs=1000 / theirs, at_least=10
    )

    plain = str(root / "plain.parquet")
    con = duckdb.connect()

    def duck() -> None:
        con.execute(f"select count(*) from '{plain}' where message like '%{SELECTIVE}%'").fetchall()

    def arrow() -> None:
        pc.sum(pc.match_substring(pq.read_table(plain, columns=["message"])["message"], SELECTIVE)).as_py()

    def count() -> None:
        table.count(query=f"message:{SELECTIVE}")

    for work in (duck, arrow, count):
        work()
    ours = timed_ms(count)
    report.add(
        "selective term: speed", 1000 / ours, "1/s", peer="DuckDB scan", theirs=1000 / timed_ms(duck), at_least=100
    )
    report.add(
        "selective term: speed", 1000 / ours, "1/s", peer="pyarrow scan", theirs=1000 / timed_ms(arrow), at_least=100
    )


def row_numbers(table: Table, query: str) -> Any:
    """Row numbers of every hit, split by split."""
    from indextables.splits.search.match import find_rows

    task = table._scan_task(query, None, ())
    found = [find_rows(task.open(entry), task.plan.query) for entry in task.plan.splits]  # type: ignore[arg-type]
    return np.concatenate(found)


def remote(report: Report, data: pa.Table) -> None:
    """A cold split on an S3 server, one keyword."""
    from tests.support.servers import s3_server

    with s3_server() as place, tempfile.TemporaryDirectory() as cold:
        options = {**place.options, "cache.directoryPath": cold}
        table = Table.create(f"{place.url}/bench", schema=SCHEMA, options={**OPTIONS, **options})
        table.append(data)
        fresh = Table.open(f"{place.url}/bench", options=options)
        told = fresh.explain(query="service:billing", columns=[])
        report.add(
            "cold split on S3, one keyword: requests", told.requests, "", at_most=3 * told.splits_opened, absolute=True
        )
        share = 100 * told.bytes_read / told.bytes_in_opened_splits
        report.add("cold split on S3, one keyword: share of bytes", share, "%", at_most=5, absolute=True)


def memory(report: Report, rows: int) -> None:
    """Resident memory while many rows are written, in a process of its own."""
    import subprocess

    code = (
        "import sys, tempfile; from bench.report import peak_mb; from indextables import Table;"
        "from indextables.cli.log_lines import OPTIONS, SCHEMA, log_lines;"
        "t = Table.create(tempfile.mkdtemp() + '/t', schema=SCHEMA, options=OPTIONS);"
        f"t.append(log_lines({rows})); print(peak_mb())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    report.add(f"resident memory, {rows:,} rows", float(out.split()[-1]), "MB", at_most=200 + 600, absolute=True)


def main() -> None:
    """Run everything."""
    report = Report("search")
    root = Path(tempfile.mkdtemp())
    try:
        data = pa.Table.from_batches(log_lines(ROWS))
        table = build(report, root, data)
        search(report, root, data, table)
        remote(report, data.slice(0, ROWS // 5))
        memory(report, 5 * ROWS)
        print(f"peak memory of this process: {peak_mb():,.0f} MB")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    report.finish()


if __name__ == "__main__":
    main()
