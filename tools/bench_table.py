"""The README's table of numbers from what `make bench` left in bench/results: every comparison, won or lost.

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
_ORDER = ("search", "log", "spark", "upkeep")


def table(results: Iterable[dict[str, Any]]) -> str:
    """Comparisons of all results as Markdown, under the date and the machine they were measured on."""
    found = sorted(results, key=lambda result: _ORDER.index(result["name"]))
    lines = ["| what | IndexTables | the other | |", "|---|---:|---:|---|"]
    lines += [_line(row) for result in found for row in result["rows"] if row["theirs"] is not None]
    return f"{_when(found)}\n\n" + "\n".join(lines) + "\n"


def _when(results: list[dict[str, Any]]) -> str:
    dates = sorted({result["date"] for result in results})
    machine = results[0]["machine"]
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    on = f"{machine['cores']} shared cores, {machine['system']}, Python {machine['python']}"
    return f"Measured {days} on {on}, by `make bench`. Trust the ratios more than the figures."


def _line(row: dict[str, Any]) -> str:
    ours, theirs, unit = row["ours"], row["theirs"], row["unit"]
    if unit == "1/s":
        ours, theirs, unit = 1000 / ours, 1000 / theirs, "ms"
    what = row["what"].removesuffix(", speed").removesuffix(": speed")
    better = ours < theirs if unit in ("ms", "s", "bytes", "MB") else ours > theirs
    factor = max(ours, theirs) / min(ours, theirs)
    times = f"{factor:.0f}" if factor >= 10 else f"{factor:.1f}"
    verdict = f"{times} times {'better' if better else 'worse'}" if factor >= 1.15 else "about equal"
    return f"| {what} | {_shown(ours)} {unit} | {row['peer']}: {_shown(theirs)} {unit} | {verdict} |"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value < 10 else f"{value:.0f}"


def rewritten(readme: str, results: Iterable[dict[str, Any]]) -> str:
    """The README with the table anew."""
    shown = table(results)
    return _BETWEEN.sub(lambda _: f"{shown}\n", readme)


def main() -> None:
    """Rewrite README.md."""
    results = [json.loads(path.read_text("utf-8")) for path in sorted((ROOT / "bench" / "results").glob("*.json"))]
    page = ROOT / "README.md"
    page.write_text(rewritten(page.read_text("utf-8"), results), "utf-8")


if __name__ == "__main__":
    main()
