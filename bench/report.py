"""A benchmark's rows: printed as a table and written as JSON, with the time of every part of the
run.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(os.environ.get("RESULTS", Path(__file__).parent / "results"))
_PEERS = (
    "pylance",
    "infino",
    "tantivy",
    "pyarrow",
    "duckdb",
    "deltalake",
    "pyiceberg",
    "fastavro",
    "pyspark",
)


@dataclass
class Row:
    """One comparison. `ratio` is ours over the peer's, in the sense of the target (`at most` or `at
    least`).
    """

    what: str
    ours: float
    unit: str
    peer: str
    theirs: float | None
    target: str
    ratio: float | None
    met: bool | None
    note: dict[str, float] = field(default_factory=dict)


@dataclass
class Report:
    """The rows of one run, its sizes (what was measured), and the seconds of each of its parts."""

    name: str
    sizes: dict[str, int] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time a part of the run."""
        started = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - started
        print(f"-- {name}: {self.seconds[name]:,.0f} s", flush=True)

    def add(
        self,
        what: str,
        ours: float,
        unit: str,
        *,
        peer: str = "",
        theirs: float | None = None,
        at_most: float | None = None,
        at_least: float | None = None,
        absolute: bool = False,
        note: dict[str, float] | None = None,
    ) -> None:
        """Write a figure down; the target is a ratio against the peer, or a bound of the figure
        itself.
        """
        ratio = ours / theirs if theirs else None
        judged = ours if absolute else ratio
        met = None
        target = ""
        if at_most is not None:
            target, met = (
                f"<= {at_most:g}{'' if absolute else 'x'}",
                judged is not None and judged <= at_most,
            )
        if at_least is not None:
            target, met = (
                f">= {at_least:g}{'' if absolute else 'x'}",
                judged is not None and judged >= at_least,
            )
        row = Row(what, ours, unit, peer, theirs, target, ratio, met, note or {})
        self.rows.append(row)
        print(_shown(row), flush=True)

    def finish(self) -> None:
        """Write the JSON file beside the others; the one of the run before stays, so that two runs
        can be compared.
        """
        RESULTS.mkdir(exist_ok=True, parents=True)
        content = {
            "name": self.name,
            "date": time.strftime("%Y-%m-%d"),
            "machine": {
                "cores": os.cpu_count(),
                "python": platform.python_version(),
                "system": platform.system(),
            },
            "load": os.getloadavg()[0],
            "sizes": self.sizes,
            "versions": _versions(),
            "seconds": self.seconds,
            "rows": [asdict(r) for r in self.rows],
        }
        place = RESULTS / f"{self.name}.json"
        before = json.loads(place.read_text("utf-8")) if place.exists() else {}
        if before:
            place.replace(RESULTS / f"{self.name}.before.json")
        place.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
        _compare(before, content)
        goals = [r for r in self.rows if r.met is not None]
        missed = [f"{r.what} {r.target}" for r in goals if not r.met]
        took = ", ".join(f"{name} {seconds:,.0f}" for name, seconds in self.seconds.items())
        print(f"\n{self.name}: {sum(self.seconds.values()):,.0f} s ({took})")
        print(
            f"{len(self.rows)} rows, {len(goals)} goals, {len(missed)} missed{': ' if missed else ''}{'; '.join(missed)}"
        )


def _versions() -> dict[str, str]:
    found = {}
    for name in _PEERS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _compare(before: dict[str, Any], now: dict[str, Any]) -> None:
    """Which goals one of the two runs met and the other did not, where both measured the same."""
    if before.get("sizes") != now["sizes"]:
        return
    met = {(row["what"], row["peer"]): row["met"] for row in before["rows"]}
    changed = [r for r in now["rows"] if met.get((r["what"], r["peer"]), r["met"]) != r["met"]]
    for row in changed:
        print(
            f"differs from the run before: {row['what']}: {'met' if row['met'] else 'MISSED'} now"
        )


def _shown(row: Row) -> str:
    theirs = f"{row.peer} {row.theirs:,.1f} {row.unit}" if row.theirs is not None else ""
    ratio = f"{row.ratio:.3f}x" if row.ratio is not None else ""
    details = "".join(f"  {name} {value:,.2f}" for name, value in row.note.items())
    verdict = {True: "met", False: "MISSED", None: ""}[row.met]
    return f"{row.what:<58} {row.ours:>12,.1f} {row.unit:<10} {theirs:<32} {ratio:>9} {row.target:>9} {verdict}{details}"


def timed_ms(work: Callable[[], Any], *, repeat: int = 5) -> float:
    """The median time of some runs, in milliseconds."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


def peak_mb() -> float:
    """The most memory this process has held, in MB. Where /proc tells it is used: getrusage counts
    the parent's too.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
