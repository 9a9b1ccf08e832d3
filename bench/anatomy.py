"""Where the time of a search goes: `python -m bench.anatomy` measures, and draws the pictures of
docs/explain/speed.md.

Warm: 200 words by turns over one split, the steps of each search timed where they begin and end,
and what tantivy alone takes for them. Cold: one search over 20 splits of a store that takes 30 ms a
request; every request is drawn when it came. Layouts: the rows as Parquet in row groups and pages
of several sizes. The figures go into the page, between its marks.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tantivy

from bench.questions import COLUMNS, WORDS, Vocabulary
from bench.search import rounds
from bench.slow_store import SlowStore
from indextables import Table
from indextables.cli.demo import OPTIONS, SCHEMA, log_lines
from indextables.log.cache import PROCESS_CACHE
from indextables.log.checkpoint.checkpointer import CHECKPOINTS
from indextables.splits.format.parquet import PAGE_BYTES, PAGE_ROWS, open_parquet
from indextables.splits.read import page_rows
from indextables.splits.search import search as split_search

ROWS = int(os.environ.get("ROWS", "1000000"))
ASSETS = Path(__file__).parents[1] / "docs" / "assets"
RESULTS = Path(__file__).parent / "results"
SPLITS, LATENCY_MS = 20, 30
STEPS = {
    "open": "open the index",
    "find": "translate the query, find the best 10",
    "decode": "decode their pages",
    "read": "read their rows, without decoding",
}
REST = "plan, check, put together"
COLOURS = ("#4c78a8", "#f2a541", "#8c6bb1", "#5aa469", "#b0b7c3")
PAGE = Path(__file__).parents[1] / "docs" / "explain" / "speed.md"
_BETWEEN = r"(?<=<!-- {0} -->\n).*?(?=<!-- end of {0} -->)"


class Stopwatch:
    """Milliseconds by step. A step that contains another one counts without it."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self._inside = [0.0]

    def around(self, step: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, timed."""

        @wraps(work)
        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            self._inside.append(0.0)
            try:
                return work(*args, **kwargs)
            finally:
                took = (time.perf_counter() - started) * 1000
                self.spent[step] += took - self._inside.pop()
                self._inside[-1] += took

        return timed


def warm(table: Table, words: Sequence[str]) -> dict[str, dict[str, float]]:
    """The median milliseconds of every step, the first time that a word is asked for and again."""
    watch = Stopwatch()
    names = {"best_hits": "find", "read_hits": "read"}
    before = {name: getattr(split_search, name) for name in (*names, "open_query")}

    @contextmanager
    def opened(*args: Any, **kwargs: Any) -> Iterator[Any]:
        query = before["open_query"](*args, **kwargs)
        yield watch.around("open", query.__enter__)()
        query.__exit__(None, None, None)

    def decoder(*args: Any, **kwargs: Any) -> Any:
        return SimpleNamespace(
            read_all=watch.around("decode", open_parquet(*args, **kwargs).read_all)
        )

    for name, step in names.items():
        setattr(split_search, name, watch.around(step, before[name]))
    page_rows.open_parquet = decoder
    split_search.open_query = opened  # type: ignore[assignment]
    try:
        return {turn: _medians(table, words, watch) for turn in ("first", "again")}
    finally:
        for name, function in before.items():
            setattr(split_search, name, function)
        page_rows.open_parquet = open_parquet


def tantivy_alone(table: Table, words: Sequence[str]) -> float:
    """The median milliseconds of tantivy's own search for the best 10 of each word: no search over
    it can take less.
    """
    (entry,) = table._task().plan.splits
    split = table._task().open(entry)
    column = split.mapping.find("message")
    assert column is not None
    taken = []
    with split.open_index([column.field], norms=True) as view:
        searcher = view.index.searcher()
        for word in words:
            query = tantivy.Query.term_query(
                view.index.schema, column.field, word, index_option="freq"
            )
            started = time.perf_counter()
            _ = searcher.search(query, limit=10, count=False).hits
            taken.append((time.perf_counter() - started) * 1000)
    return float(np.median(taken))


LAYOUTS: dict[str, dict[str, int]] = {
    "row groups of 8,192 rows, as in 0.1.0": {"row_group_size": 8_192},
    "131,072 rows, pages of 1 MB": {"row_group_size": 131_072},
    "131,072 rows, pages of 64 KB or 8,192 rows": {
        "row_group_size": 131_072,
        "data_page_size": PAGE_BYTES,
        "max_rows_per_page": PAGE_ROWS,
    },
    "131,072 rows, pages of 1,024 rows": {"row_group_size": 131_072, "max_rows_per_page": 1_024},
}


def layouts(data: pa.Table, folder: str) -> dict[str, dict[str, float]]:
    """Size, and CPU milliseconds of reading everything and of one column of numbers, of the same
    rows in several layouts.
    """
    words = ["day", "level", "service", "host", "status"]
    files = {}
    for n, (name, layout) in enumerate(LAYOUTS.items()):
        files[name] = f"{folder}/{n}.parquet"
        large = layout["row_group_size"] > 8_192
        dictionary = [*words, "latency_ms"] if large else words
        options: dict[str, Any] = {
            "compression": "zstd",
            "compression_level": 1,
            "write_page_index": True,
        }
        pq.write_table(data, files[name], use_dictionary=dictionary, **options, **layout)
    taken: dict[str, dict[str, list[float]]] = {name: {"all": [], "one": []} for name in files}
    for _ in range(5):
        for name, file in files.items():
            for what, columns in (("all", None), ("one", ["latency_ms"])):
                started = time.process_time()
                pq.read_table(file, columns=columns, use_threads=False, pre_buffer=False)
                taken[name][what].append((time.process_time() - started) * 1000)
    return {
        name: {
            "MB": Path(file).stat().st_size / 1e6,
            **{w: float(np.median(t)) for w, t in taken[name].items()},
        }
        for name, file in files.items()
    }


def _medians(table: Table, words: Sequence[str], watch: Stopwatch) -> dict[str, float]:
    taken: dict[str, list[float]] = defaultdict(list)
    for word in words:
        watch.spent.clear()
        started = time.perf_counter()
        table.search(f"message:{word}", limit=10, columns=COLUMNS, score=True)
        total = (time.perf_counter() - started) * 1000
        for step in STEPS:
            taken[step].append(watch.spent[step])
        taken["rest"].append(total - sum(watch.spent.values()))
        taken["total"].append(total)
    return {step: float(np.median(times)) for step, times in taken.items()}


def cold(data: pa.Table) -> list[dict[str, Any]]:
    """The requests of a first search, in milliseconds from its start: opening the table, then the
    search.
    """
    with SlowStore() as store, tempfile.TemporaryDirectory() as folder:
        table = Table.create(store.url, schema=SCHEMA, options={**OPTIONS, **store.options})
        size = data.num_rows // SPLITS
        for n in range(SPLITS):
            table.append(data.slice(n * size, size))
        CHECKPOINTS.wait()
        PROCESS_CACHE.invalidate()
        store.slow(LATENCY_MS)
        started = time.monotonic()
        fresh = Table.open(store.url, options={**store.options, "cache.directoryPath": folder})
        opened, cpu = (time.monotonic() - started) * 1000, time.process_time()
        fresh.search("message:timeout", limit=10, columns=COLUMNS)
        done, cpu = (time.monotonic() - started) * 1000, (time.process_time() - cpu) * 1000
        requests = [
            {
                **r,
                "at": (r["at"] - started) * 1000,
                "kind": "splits" if ".split" in r["key"] else "log",
            }
            for r in store.requests()
        ]
        return [
            *requests,
            {"at": opened, "kind": "opened"},
            {"at": done, "kind": "done", "cpu": cpu},
        ]


def warm_table(figures: dict[str, dict[str, float]], alone: float) -> str:
    """Steps in milliseconds, with the least that each can take."""
    limits = {"find": f"tantivy alone: {alone:.2f}", "open": "0: it stays open", "read": "0"}
    limits |= {"decode": "pyarrow alone; 0 for pages that are in memory"}
    lines = [
        f"| step, median ms of {WORDS} words over {ROWS:,} rows | first | again | limit |",
        "|---|---:|---:|---|",
    ]
    for step, name in [*STEPS.items(), ("rest", REST), ("total", "**all**")]:
        first, again = (figures[turn][step] for turn in ("first", "again"))
        lines.append(f"| {name} | {first:.2f} | {again:.2f} | {limits.get(step, '')} |")
    return "\n".join(lines) + "\n"


def cold_table(requests: Sequence[dict[str, Any]]) -> str:
    """Requests and milliseconds, with what the latency alone takes."""
    opened, done = (
        next(r["at"] for r in requests if r["kind"] == kind) for kind in ("opened", "done")
    )
    cpu = next(r["cpu"] for r in requests if r["kind"] == "done")
    lines = ["| | requests | one after the other | ms | limit |", "|---|---:|---:|---:|---|"]
    for name, kind, took in (
        ("open the table", "log", opened),
        ("top 10 of a word", "splits", done - opened),
    ):
        asked = [
            {"key": r["key"] if kind == "splits" else "", "at": r["at"] / 1000}
            for r in requests
            if r["kind"] == kind
        ]
        turns = min(rounds(asked), int(took // LATENCY_MS))
        limit = f"{turns} x {LATENCY_MS} ms = {turns * LATENCY_MS}"
        limit += f", and {cpu:.0f} ms of CPU on all cores" if kind == "splits" else ""
        lines.append(f"| {name} | {len(asked)} | {turns} | {took:.0f} | {limit} |")
    return "\n".join(lines) + "\n"


def layout_table(figures: dict[str, dict[str, float]]) -> str:
    """What each layout takes."""
    lines = [
        "| layout | MB | read all, CPU ms | one column of numbers, CPU ms |",
        "|---|---:|---:|---:|",
    ]
    lines += [
        f"| {name} | {f['MB']:.1f} | {f['all']:.0f} | {f['one']:.0f} |"
        for name, f in figures.items()
    ]
    return "\n".join(lines) + "\n"


def fill(mark: str, text: str) -> None:
    """Put a table into the page, between its marks."""
    page = PAGE.read_text("utf-8")
    PAGE.write_text(
        re.sub(_BETWEEN.format(mark), lambda _: f"\n{text}\n", page, flags=re.S), "utf-8"
    )


def bars(figures: dict[str, dict[str, float]]) -> str:
    """Two bars, one above the other, cut into steps."""
    widest = max(turn["total"] for turn in figures.values())
    scale = 560 / widest
    parts, names = [], [*STEPS.values(), REST]
    for row, (turn, steps) in enumerate(figures.items()):
        x, y = 90.0, 20 + row * 46
        parts.append(f'<text x="10" y="{y + 20}">{turn}</text>')
        for colour, step in zip(COLOURS, [*STEPS, "rest"], strict=True):
            width = steps[step] * scale
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="30" fill="{colour}"/>'
            )
            x += width
        parts.append(f'<text x="{x + 8:.1f}" y="{y + 20}">{steps["total"]:.2f} ms</text>')
    for n, (colour, name) in enumerate(zip(COLOURS, names, strict=True)):
        x, y = 90 + (n % 2) * 320, 130 + (n // 2) * 24
        parts.append(f'<rect x="{x}" y="{y - 12}" width="14" height="14" fill="{colour}"/>')
        parts.append(f'<text x="{x + 22}" y="{y}">{name}</text>')
    return picture("Where the time of a warm search goes", 760, 196, parts)


def timeline(requests: Sequence[dict[str, Any]]) -> str:
    """A line for every request, from when it came to when it was answered."""
    asked = sorted((r for r in requests if r["kind"] in ("log", "splits")), key=lambda r: r["at"])
    marks = {r["kind"]: r["at"] for r in requests if r["kind"] in ("opened", "done")}
    scale = 600 / (marks["done"] + LATENCY_MS)
    colours = {"log": COLOURS[1], "splits": COLOURS[0]}
    height = 40 + len(asked) * 5
    parts = []
    for n, request in enumerate(asked):
        x, width = 90 + request["at"] * scale, LATENCY_MS * scale
        colour = colours[request["kind"]]
        parts.append(
            f'<rect x="{x:.1f}" y="{30 + n * 5}" width="{width:.1f}" height="4" fill="{colour}"/>'
        )
    for name, at in marks.items():
        x = 90 + at * scale
        parts.append(
            f'<line x1="{x:.1f}" y1="22" x2="{x:.1f}" y2="{height}" stroke="#8b95a1" stroke-dasharray="3 3"/>'
        )
        parts.append(f'<text x="{x - 4:.1f}" y="16" text-anchor="end">{name} {at:.0f} ms</text>')
    parts.append(
        f'<text x="10" y="44" fill="{COLOURS[1]}">log</text><text x="10" y="64" fill="{COLOURS[0]}">splits</text>'
    )
    return picture("The requests of a cold search, 30 ms each", 760, height + 10, parts)


def picture(title: str, width: int, height: int, parts: Iterable[str]) -> str:
    """An SVG."""
    style = 'font-family="system-ui, DejaVu Sans, sans-serif" font-size="13" fill="#1c2430"'
    frame = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    body = "\n".join(parts)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" {style}>'
    return f"{head}\n<title>{title}</title>\n{frame}\n{body}\n</svg>\n"


def main() -> None:
    """Measure, draw, and print the figures."""
    data = pa.Table.from_batches(log_lines(ROWS))
    with tempfile.TemporaryDirectory() as folder:
        table = Table.create(f"{folder}/t", schema=SCHEMA, options=OPTIONS)
        table.append(data)
        words = Vocabulary.of(data["message"]).words()
        table.search(f"message:{words[0]}", limit=10, columns=COLUMNS)
        figures = warm(Table.open(f"{folder}/t"), words)
        alone = tantivy_alone(table, words)
        sizes = layouts(data, folder)
    requests = cold(data)
    (ASSETS / "speed-warm.svg").write_text(bars(figures), "utf-8")
    (ASSETS / "speed-cold.svg").write_text(timeline(requests), "utf-8")
    RESULTS.mkdir(exist_ok=True)
    results = {"warm": figures, "tantivy": alone, "cold": requests, "layouts": sizes}
    (RESULTS / "anatomy.json").write_text(json.dumps(results, indent=1) + "\n")
    for mark, text in (
        ("warm", warm_table(figures, alone)),
        ("cold", cold_table(requests)),
        ("layouts", layout_table(sizes)),
    ):
        fill(mark, text)
    print(json.dumps(figures, indent=1))
    marks = {r["kind"]: round(r["at"]) for r in requests if "method" not in r}
    print({"requests": len(requests) - 2, **marks})


if __name__ == "__main__":
    main()
