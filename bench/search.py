"""`make bench-search`: tables against Lance, infino, DuckDB, pyarrow and raw tantivy over generated
log lines.

ROWS (1,000,000), WORDS (200) and LARGE_ROWS (five times ROWS) make it smaller. It takes about ten
minutes on two quiet cores; no question is asked for longer than two minutes, and the figures say
for how many words.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec.structs import replace

from bench.clock import taken
from bench.questions import (
    COLUMNS,
    WORDS,
    Question,
    Timing,
    Vocabulary,
    infino_engine,
    lance_engine,
    our_engine,
)
from bench.report import Report, peak_mb, timed_ms
from bench.slow_store import SlowStore
from indextables import Table
from indextables.cli.demo import OPTIONS, SCHEMA, log_lines
from indextables.log.cache import PROCESS_CACHE
from indextables.log.checkpoint.checkpointer import CHECKPOINTS
from indextables.model.file_list import to_actions
from indextables.splits.read.cache import SplitCache

ROWS = int(os.environ.get("ROWS", "1000000"))
LARGE_ROWS = int(os.environ.get("LARGE_ROWS", str(5 * ROWS)))
SELECTIVE = "deadlock"


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
    took += seconds(
        lambda: pq.write_table(
            data, root / "plain.parquet", compression="zstd", compression_level=1
        )
    )
    return took, folder_bytes(path) + (root / "plain.parquet").stat().st_size


def build(report: Report, root: Path, data: pa.Table) -> Table:
    """Writing, against its parts."""
    theirs, their_bytes = raw_tantivy(root, data)
    table = Table.create(str(root / "ours"), schema=SCHEMA, options=OPTIONS)
    ours = seconds(lambda: table.append(data))
    rate, their_rate = data.num_rows / ours, data.num_rows / theirs
    report.add(
        "build, rows per CPU second",
        rate,
        "rows/s",
        peer="tantivy+parquet",
        theirs=their_rate,
        at_least=0.9,
    )
    ours_mb, theirs_mb = folder_bytes(root / "ours") / 1e6, their_bytes / 1e6
    report.add("size", ours_mb, "MB", peer="tantivy+parquet", theirs=theirs_mb, at_most=1.2)
    return Table.open(str(root / "ours"))


GOALS: dict[str, dict[str, float]] = {
    "top 10 of a word": {"first": 0.8, "again": 0.4},
    "top 10 of two words": {"first": 0.8},
    "phrase": {"first": 1.0},
    "all hits with two columns": {"first": 0.8},
    "newest 10": {"first": 0.5},
    "terms under a search": {"first": 0.8},
}
"""At most so many times Lance's median."""
COUNT_MS = 0.2


def search(
    report: Report, root: Path, data: pa.Table, table: Table, vocabulary: Vocabulary
) -> None:
    """Asking for 200 words by turns, the rows returned, against Lance and infino."""
    engines = {
        "ours": our_engine(table),
        "Lance": lance_engine(root, data),
        "infino": infino_engine(root, data),
    }
    share = data.num_rows / 1_000_000
    words = {
        "top 10 of two words": vocabulary.pairs,
        "phrase": vocabulary.phrases,
        "all hits with two columns": vocabulary.words(
            least=int(1_000 * share), most=int(60_000 * share)
        ),
    }
    for what in engines["ours"]:
        asked = words.get(what) or vocabulary.words()
        # What the questions before left in our memory would make the first time another one.
        SplitCache.default().pages.clear()
        answers = {name: engine[what] for name, engine in engines.items() if what in engine}
        for answer in answers.values():
            for word in asked[:5]:
                answer(word)
        for time_of, timings in zip(
            ("first", "again"), Question(what, asked, answers).ask(), strict=True
        ):
            _compare(report, what, time_of, timings)


def _compare(report: Report, what: str, time_of: str, timings: dict[str, Timing]) -> None:
    ours = timings["ours"]
    p50, p95, p99 = ours.percentiles()
    note = {
        "p95": p95,
        "p99": p99,
        "cpu_ms": ours.cpu_ms(),
        "rows": ours.rows,
        "words": len(ours.wall),
    }
    if what == "count of a word":
        report.add(f"{what}, {time_of}", p50, "ms", at_most=COUNT_MS, absolute=True, note=note)
    for peer, timing in timings.items():
        if peer != "ours":
            theirs, *tails = timing.percentiles()
            numbers = {
                "their p95": tails[0],
                "their p99": tails[1],
                "their cpu_ms": timing.cpu_ms(),
            }
            goal = GOALS.get(what, {}).get(time_of) if peer == "Lance" else None
            report.add(
                f"{what}, {time_of}",
                p50,
                "ms",
                peer=peer,
                theirs=theirs,
                at_most=goal,
                note={**note, **numbers, "their rows": timing.rows},
            )


def scans(report: Report, root: Path, table: Table) -> None:
    """One rare word, against engines that read every line."""
    import duckdb

    plain = str(root / "plain.parquet")
    con = duckdb.connect()

    def duck() -> None:
        con.execute(f"select count(*) from '{plain}' where message like '%{SELECTIVE}%'").fetchall()

    def arrow() -> None:
        pc.sum(
            pc.match_substring(pq.read_table(plain, columns=["message"])["message"], SELECTIVE)
        ).as_py()

    def count() -> None:
        table.count(query=f"message:{SELECTIVE}")

    for work in (duck, arrow, count):
        work()
    ours = timed_ms(count)
    for peer, work in {"DuckDB scan": duck, "pyarrow scan": arrow}.items():
        theirs = 1000 / timed_ms(work)
        report.add(
            "selective term: speed", 1000 / ours, "1/s", peer=peer, theirs=theirs, at_least=100
        )


def substrings(report: Report, root: Path, data: pa.Table, table: Table) -> None:
    """A part of a text with the index of three neighbouring characters, and a regular expression,
    against scans.
    """
    import duckdb

    plain = str(root / "plain.parquet")
    literal = next(text for text in data["message"].to_pylist() if SELECTIVE in text)[-14:].replace(
        "'", "_"
    )
    grams = Table.create(
        str(root / "grams"),
        schema=SCHEMA,
        options={**OPTIONS, "indexing.substring.message": "true"},
    )
    took = seconds(lambda: grams.append(data))
    size, without = folder_bytes(root / "grams") / 1e6, folder_bytes(root / "ours") / 1e6
    report.add(
        "3-grams: size", size, "MB", peer="without them", theirs=without, note={"build CPU s": took}
    )
    con = duckdb.connect()
    rows = {}

    def duck() -> None:
        rows["duck"] = con.execute(
            f"select count(*) from '{plain}' where message like '%{literal}%'"
        ).fetchall()[0][0]

    def like() -> None:
        rows["ours"] = grams.count(where=f"message LIKE '%{literal}%'")

    def arrow() -> None:
        lines = pq.read_table(plain, columns=["message"])["message"]
        rows["arrow"] = pc.sum(pc.match_substring_regex(lines, rf"\b{SELECTIVE[:5]}\w*")).as_py()

    def regex() -> None:
        rows["regex"] = table.count(query=f"message:/{SELECTIVE[:5]}.*/")

    for work in (duck, like, arrow, regex):
        work()
    assert rows["duck"] == rows["ours"] and rows["arrow"] == rows["regex"], rows
    found = {"rows": float(rows["ours"])}
    theirs = 1000 / timed_ms(duck)
    report.add(
        "LIKE '%x%': speed",
        1000 / timed_ms(like),
        "1/s",
        peer="DuckDB scan",
        theirs=theirs,
        at_least=20,
        note=found,
    )
    ours, theirs, found = (
        1000 / timed_ms(regex),
        1000 / timed_ms(arrow),
        {"rows": float(rows["regex"])},
    )
    report.add(
        "regular expression: speed",
        ours,
        "1/s",
        peer="pyarrow scan",
        theirs=theirs,
        at_least=50,
        note=found,
    )


SPLITS = {1: (None, None), 10: (None, None), 100: (60, 15), 1_000: (500, 150)}
"""Splits of 10,000 lines, and the goals in CPU milliseconds: the top 10 of a word, and its count."""


def many_splits(report: Report, root: Path, data: pa.Table) -> None:
    """The same questions over more and more splits: CPU time, for the clock depends on the cores."""
    template = Table.create(str(root / "one split"), schema=SCHEMA, options=OPTIONS)
    template.append(data.slice(0, 10_000))
    source = template.files().to_pylist()[0]
    words = Vocabulary.of(data.slice(0, 10_000)["message"]).words()
    for splits, (top_ms, count_ms) in SPLITS.items():
        table = _copies(root / f"{splits} splits", root / "one split" / source["path"], splits)
        answers = our_engine(table)
        for what, goal in (("top 10 of a word", top_ms), ("count of a word", count_ms)):
            asked = words if splits <= 100 else words[:40]
            first, again = Question(what, asked, {"ours": answers[what]}).ask()
            for time_of, timings in (("first", first), ("again", again)):
                timing = timings["ours"]
                p50, p95, p99 = timing.percentiles()
                report.add(
                    f"{what} over {splits:,} splits, {time_of}: CPU",
                    timing.cpu_ms(),
                    "ms",
                    at_most=goal,
                    absolute=True,
                    note={"p50": p50, "p95": p95, "p99": p99},
                )


def _copies(path: Path, split: Path, count: int) -> Table:
    """A table of one split many times, under many names."""
    table = Table.create(str(path), schema=SCHEMA, options=OPTIONS)
    template = Table.open(str(split.parents[1]))
    (action,) = to_actions(template.handle.snapshot.all_files)
    (path / "splits").mkdir()
    with table.transaction() as transaction:
        for n in range(count):
            name = f"splits/copy-{n}.split"
            os.link(split, path / name)
            transaction.add(
                replace(action, path=name, added_at_version=None, added_at_timestamp=None)
            )
    return Table.open(str(path))


COLD_SPLITS, LATENCY_MS = 20, 30


def rounds(requests: list[dict[str, Any]]) -> int:
    """How many requests for one object came one after the other, each after the answer to the one
    before.
    """
    most = 0
    for key in {request["key"] for request in requests}:
        count, free = 0, -1.0
        for at in sorted(request["at"] for request in requests if request["key"] == key):
            if at >= free:
                count, free = count + 1, at + LATENCY_MS / 1000
        most = max(most, count)
    return most


def cold(report: Report, data: pa.Table) -> None:
    """A first search on a store that takes 30 ms a request: milliseconds, requests, and how many
    one after the other.
    """
    with SlowStore() as store, tempfile.TemporaryDirectory() as folder:
        table = Table.create(store.url, schema=SCHEMA, options={**OPTIONS, **store.options})
        size = data.num_rows // COLD_SPLITS
        for n in range(COLD_SPLITS):
            table.append(data.slice(n * size, size))
        CHECKPOINTS.wait()
        times, counts, turns, cpu = [], [], [], []
        for n in range(7):
            options = {**store.options, "cache.directoryPath": f"{folder}/{n}"}
            PROCESS_CACHE.invalidate()
            fresh = Table.open(store.url, options=options)
            store.slow(LATENCY_MS)
            took = taken(lambda: fresh.search("message:timeout", limit=10, columns=COLUMNS))  # noqa: B023
            requests = store.requests()
            times.append(took.wall_s * 1000)
            cpu.append(took.cpu_s * 1000)
            counts.append(len(requests))
            turns.append(rounds(requests))
        what = f"cold top 10, {COLD_SPLITS} splits of {size:,} rows on S3"
        report.add(
            what, median(times), "ms", at_most=300, absolute=True, note={"cpu_ms": median(cpu)}
        )
        report.add(f"{what}: requests", median(counts), "", at_most=45, absolute=True)
        report.add(f"{what}: one after the other", median(turns), "", at_most=3, absolute=True)


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
            "cold split on S3, one keyword: requests",
            told.requests,
            "",
            at_most=3 * told.splits_opened,
            absolute=True,
        )
        share = 100 * told.bytes_read / told.bytes_in_opened_splits
        report.add(
            "cold split on S3, one keyword: share of bytes", share, "%", at_most=5, absolute=True
        )


_LARGE = """
import json, sys, tempfile
from bench.questions import Question, our_engine
from bench.report import peak_mb
from indextables import Table
from indextables.cli.demo import OPTIONS, SCHEMA, log_lines

rows, asked = int(sys.argv[1]), json.load(sys.stdin)
with tempfile.TemporaryDirectory() as folder:
    table = Table.create(folder + "/t", schema=SCHEMA, options=OPTIONS)
    table.append(log_lines(rows))
    answer = {"peak": peak_mb(), "splits": table.files().num_rows}
    answers = our_engine(Table.open(folder + "/t"))
    for what in ("top 10 of a word", "count of a word"):
        both = Question(what, asked, {"ours": answers[what]}).ask()
        answer[what] = [[*t["ours"].percentiles(), t["ours"].cpu_ms()] for t in both]
print(json.dumps(answer))
"""


def more_rows(report: Report, words: list[str]) -> None:
    """The same questions over fewer and more rows, each in a process of its own, which also tells
    what writing them held.
    """
    for rows in (ROWS // 10, LARGE_ROWS):
        command = [sys.executable, "-c", _LARGE, str(rows)]
        done = subprocess.run(
            command, input=json.dumps(words), capture_output=True, text=True, timeout=1800
        )
        if done.returncode:
            raise RuntimeError(
                f"the process with {rows:,} rows ended with {done.returncode}: {done.stderr[-2000:]}"
            )
        answer = json.loads(done.stdout)
        for what in ("top 10 of a word", "count of a word"):
            for time_of, (p50, p95, p99, cpu) in zip(("first", "again"), answer[what], strict=True):
                note = {"p95": p95, "p99": p99, "cpu_ms": cpu, "splits": answer["splits"]}
                report.add(f"{what} of {rows:,} rows, {time_of}", p50, "ms", note=note)
        report.add(
            f"resident memory, {rows:,} rows",
            answer["peak"],
            "MB",
            at_most=200 + 600,
            absolute=True,
        )


def main() -> None:
    """Run everything."""
    report = Report("search", {"rows": ROWS, "words": WORDS, "large rows": LARGE_ROWS})
    root = Path(tempfile.mkdtemp())
    try:
        with report.part("make the rows"):
            data = pa.Table.from_batches(log_lines(ROWS))
            vocabulary = Vocabulary.of(data["message"])
        with report.part("build"):
            table = build(report, root, data)
        with report.part("search"):
            search(report, root, data, table, vocabulary)
        with report.part("scans and substrings"):
            scans(report, root, table)
            substrings(report, root, data, table)
        with report.part("many splits"):
            many_splits(report, root, data)
        with report.part("cold"):
            cold(report, data.slice(0, ROWS // 5))
            cold(report, data)
            remote(report, data.slice(0, ROWS // 5))
        with report.part("more rows"):
            more_rows(report, vocabulary.words())
        print(f"peak memory of this process: {peak_mb():,.0f} MB")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    report.finish()


if __name__ == "__main__":
    main()
