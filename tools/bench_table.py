"""The README's table of numbers from what `make bench` left in bench/results: every row, won or lost.

`python -m tools.bench_table` rewrites the part of README.md between its two marks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_BETWEEN = re.compile(r"(?<=<!-- numbers -->\n).*?(?=<!-- end of numbers -->)", re.S)
_SUITES = ("search", "log", "spark", "upkeep")
_LESS_IS_BETTER = ("ms", "s", "bytes", "MB", "%")
_ABOUT_EQUAL = 1.15


def table(results: Iterable[dict[str, Any]]) -> str:
    """Rows of all results as Markdown, under the date and the machine they were measured on."""
    suites = sorted(results, key=lambda result: _SUITES.index(result["name"]))
    lines = ["| what | IndexTables | the other | |", "|---|---:|---:|---|"]
    lines += [_line(row) for result in suites for row in result["rows"] if row["theirs"] is not None or row["target"]]
    return f"{_when(suites)}\n\n" + "\n".join(lines) + "\n"


def _when(results: list[dict[str, Any]]) -> str:
    dates = sorted({result["date"] for result in results})
    machine = results[0]["machine"]
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    on = f"{machine['cores']} shared cores, {machine['system']}, Python {machine['python']}"
    return (
        f"Measured {days} on {on}, by `make bench`. Trust the ratios more than the figures. Searches ask for 200 words by"
        " turns and return rows; the figure is the median, with the 95th and 99th percentile behind it."
    )


def _line(row: dict[str, Any]) -> str:
    ours, theirs, unit, what = row["ours"], row["theirs"], row["unit"], row["what"]
    if unit == "1/s":
        ours, theirs, unit = 1000 / ours, 1000 / theirs, "ms"
    what = what.removesuffix(", speed").removesuffix(": speed")
    note = row.get("note", {})
    mine = f"{_shown(ours)} {unit}".strip() + _percentiles(note, "p95", "p99")
    if theirs is None:
        return f"| {what} | {mine} | goal {row['target']} {unit} | {'met' if row['met'] else 'missed'} |".replace(
            "  ", " "
        )
    other = f"{row['peer']}: {_shown(theirs)} {unit}".strip() + _percentiles(note, "their p95", "their p99")
    return f"| {what} | {mine} | {other} | {_verdict(ours, theirs, unit)} |"


def _percentiles(note: dict[str, float], *names: str) -> str:
    return f" ({', '.join(_shown(note[name]) for name in names)})" if all(name in note for name in names) else ""


def _verdict(ours: float, theirs: float, unit: str) -> str:
    factor = max(ours, theirs) / min(ours, theirs)
    if factor < _ABOUT_EQUAL:
        return "about equal"
    times = f"{factor:.0f}" if factor >= 10 else f"{factor:.1f}"
    return f"{times} times {'better' if (ours < theirs) == (unit in _LESS_IS_BETTER) else 'worse'}"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value < 10 else f"{value:.0f}"


def rewritten(readme: str, results: Iterable[dict[str, Any]]) -> str:
    """The README with the table anew."""
    shown = table(results)
    return _BETWEEN.sub(lambda _: f"{shown}\n", readme)


def main() -> None:
    """Rewrite README.md."""
    places = [ROOT / "bench" / "results" / f"{suite}.json" for suite in _SUITES]
    results = [json.loads(path.read_text("utf-8")) for path in places if path.exists()]
    page = ROOT / "README.md"
    page.write_text(rewritten(page.read_text("utf-8"), results), "utf-8")


if __name__ == "__main__":
    main()
