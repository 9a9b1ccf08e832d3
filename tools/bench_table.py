"""Write docs/benchmarks.md and the highlights of the README from the JSON that `make bench` left in
bench/results.

`python -m tools.bench_table` replaces the parts of both pages between their marks. Every row is
shown, won or lost.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = {"numbers": ROOT / "docs" / "benchmarks.md", "highlights": ROOT / "README.md"}
HIGHLIGHTS = (
    ("top 10 of a word, first", "Lance", "top 10 of a word"),
    ("phrase, first", "Lance", "phrase"),
    ("commit one file on 100,000", "pyiceberg", "commit to a table of 100,000 files"),
    ("selective search", "contains()", "selective search in Spark"),
    ("write, CPU", "df.write.parquet", "write in Spark, CPU"),
    ("update 100,000 of 1,000,000 rows (CPU)", "Lance", "update 100,000 of 1,000,000 rows, CPU"),
)
"""Rows of the README by name and peer, with the label that the README shows; the last two are
losses.
"""
_SUITES = ("search", "log", "spark", "upkeep")
_LESS_IS_BETTER = ("ms", "s", "bytes", "KB", "MB", "%")
_ABOUT_EQUAL = 1.15
_ENGINES = {"Lance": "pylance", "infino": "infino"}
_OURSELVES = (
    "the one before",
    "of 200,000",
    "before",
    "without them",
    "written again",
    "empty job",
    "rewrite",
    "the whole list",
)
"""What some rows are held against is no other product but ourselves, or nothing at all."""
_NAMES = {"pylance": "Lance", "deltalake": "delta-rs", "duckdb": "DuckDB", "pyspark": "Spark"}

Rows = list[dict[str, Any]]


def table(results: Iterable[dict[str, Any]]) -> str:
    """Everything between the marks: what was measured on what, the searches, the rest, and where
    others are better.
    """
    suites = sorted(results, key=lambda result: _SUITES.index(result["name"]))
    rows = [row for result in suites for row in result["rows"]]
    searches = [row for row in rows if row["peer"] in _ENGINES and "their p95" in row["note"]]
    by_cpu = {
        (row["what"].removesuffix(" (CPU)"), row["peer"])
        for row in rows
        if row["what"].endswith(" (CPU)")
    }
    rows = [row for row in rows if (row["what"], row["peer"]) not in by_cpu]
    others = [
        row for row in rows if row not in searches and (row["theirs"] is not None or row["target"])
    ]
    parts = [_measured(suites)]
    if searches:
        parts.append(_searches(searches))
    parts += [_others(others), _losses(rows)]
    return "\n\n".join(parts) + "\n"


def _measured(results: list[dict[str, Any]]) -> str:
    dates = sorted({result["date"] for result in results})
    machine = results[0]["machine"]
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    versions = {
        name: number for result in results for name, number in result.get("versions", {}).items()
    }
    peers = ", ".join(f"{_NAMES.get(name, name)} {number}" for name, number in versions.items())
    sizes = "; ".join(
        f"`make bench-{result['name']}`: "
        + ", ".join(f"{size:,} {what}" for what, size in result["sizes"].items())
        for result in results
        if result.get("sizes")
    )
    return (
        f"Measured {days} on {machine['cores']} shared cores, {machine['system']}, Python {machine['python']}, over generated"
        f" log lines: {sizes}. Peers: {peers}. Trust the ratios more than the figures; where the CPU time of a thing was"
        " measured, that is shown and the clock is left out."
    )


def _searches(rows: Rows) -> str:
    """One line for each question and time, one column for each engine."""
    lines: defaultdict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for row in rows:
        lines[row["what"]][row["peer"]] = row
    engines = [name for name in _ENGINES if any(name in line for line in lines.values())]
    text = [
        "Searches: every word is asked for once (first) and then once more (again), engines alternate, and the rows are"
        " returned. Milliseconds: median / 95th / 99th percentile, and the median CPU time of all cores.",
        "",
        f"| question | IndexTables | CPU | {' | '.join(f'{name} | CPU' for name in engines)} | against {engines[0]} | goal |",
        f"|---|{'---:|' * (2 + 2 * len(engines))}---|---|",
    ]
    for what, line in lines.items():
        mine = next(iter(line.values()))
        cells = [what, _percentiles(mine["ours"], mine["note"], ""), _shown(mine["note"]["cpu_ms"])]
        for name in engines:
            cells += _their_cells(line.get(name))
        first = line.get(engines[0])
        cells += [_verdict(first), _goal(first)] if first else ["", ""]
        text.append(f"| {' | '.join(cells)} |")
    return "\n".join(text)


def _their_cells(row: dict[str, Any] | None) -> list[str]:
    if row is None:
        return ["cannot", ""]
    return [_percentiles(row["theirs"], row["note"], "their "), _shown(row["note"]["their cpu_ms"])]


def _others(rows: Rows) -> str:
    lines = [
        "Everything else:",
        "",
        "| what | IndexTables | the other | | goal |",
        "|---|---:|---:|---|---|",
    ]
    for row in rows:
        ours, theirs, unit = _figures(row)
        other = "" if theirs is None else f"{row['peer']}: {_shown(theirs)} {unit}".strip()
        cells = [_what(row), f"{_shown(ours)} {unit}".strip(), other, _verdict(row), _goal(row)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _losses(rows: Rows) -> str:
    """Who is better where, and which goals were missed: nobody should have to look for it."""
    worse: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row["peer"] not in _OURSELVES and _verdict(row).endswith("worse"):
            worse[row["peer"]].append(f"{_what(row)} ({_factor(row)} times)")
    lines = ["**Where it loses**", ""]
    lines += [f"- to {peer}: {'; '.join(what)}" for peer, what in worse.items()]
    missed = [
        f"{_what(row)} ({_goal(row).removesuffix(' missed')})"
        for row in rows
        if row["met"] is False
    ]
    lines.append(f"- goals of ours that were missed: {'; '.join(missed) or 'none'}")
    return "\n".join(lines)


def _what(row: dict[str, Any]) -> str:
    return str(row["what"]).removesuffix(", speed").removesuffix(": speed")


def _figures(row: dict[str, Any]) -> tuple[float, float | None, str]:
    """Ours, theirs and the unit; how often a second is told as how long."""
    ours, theirs, unit = row["ours"], row["theirs"], row["unit"]
    if unit == "1/s":
        return 1000 / ours, 1000 / theirs if theirs else None, "ms"
    return ours, theirs, unit


def _percentiles(median: float, note: dict[str, float], prefix: str) -> str:
    return " / ".join(
        _shown(figure) for figure in (median, note[f"{prefix}p95"], note[f"{prefix}p99"])
    )


def _factor(row: dict[str, Any]) -> str:
    ours, theirs, _ = _figures(row)
    assert theirs is not None
    factor = max(ours, theirs) / max(min(ours, theirs), 1e-9)
    return f"{factor:.0f}" if factor >= 10 else f"{factor:.1f}"


def _verdict(row: dict[str, Any]) -> str:
    ours, theirs, unit = _figures(row)
    if theirs is None:
        return ""
    if max(ours, theirs) < _ABOUT_EQUAL * min(ours, theirs):
        return "about equal"
    return f"{_factor(row)} times {'better' if (ours < theirs) == (unit in _LESS_IS_BETTER) else 'worse'}"


def _goal(row: dict[str, Any]) -> str:
    return "" if row["met"] is None else f"{row['target']} {'met' if row['met'] else 'missed'}"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value < 10 else f"{value:.0f}"


def highlights(results: Iterable[dict[str, Any]]) -> str:
    """Return the rows of the README, losses included."""
    results = list(results)
    sizes = {result["name"]: result.get("sizes", {}).get("rows") for result in results}
    scope = [
        f"{sizes[name]:,} rows for {what}"
        for name, what in (("search", "searches"), ("spark", "Spark"))
        if sizes.get(name)
    ]
    rows = {(row["what"], row["peer"]): row for result in results for row in result["rows"]}
    machine, date = results[0]["machine"], max(result["date"] for result in results)
    lines = [
        f"Measured {date} on {machine['cores']} shared cores over generated log lines, {', '.join(scope)}; medians.",
        "[All figures, percentiles and losses](docs/benchmarks.md).",
        "",
        "| what | IndexTables | peer | |",
        "|---|---:|---:|---|",
    ]
    for what, peer, label in HIGHLIGHTS:
        row = rows.get((what, peer))
        if row is None:
            continue
        ours, theirs, unit = _figures(row)
        other = "" if theirs is None else f"{peer}: {_shown(theirs)} {unit}"
        lines.append(f"| {label} | {_shown(ours)} {unit} | {other} | {_verdict(row)} |")
    return "\n".join(lines) + "\n"


def replace_part(page: str, name: str, part: str) -> str:
    """Return a page with the part between the marks of `name` replaced."""
    between = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->)", re.S)
    return between.sub(lambda _: part, page)


def main() -> None:
    """Rewrite docs/benchmarks.md and README.md."""
    places = [ROOT / "bench" / "results" / f"{suite}.json" for suite in _SUITES]
    results = [json.loads(path.read_text("utf-8")) for path in places if path.exists()]
    if not results:
        raise SystemExit("bench/results holds no figures: run `make bench` first")
    parts = {"numbers": f"{table(results)}\n", "highlights": highlights(results)}
    for name, page in PAGES.items():
        page.write_text(replace_part(page.read_text("utf-8"), name, parts[name]), "utf-8")


if __name__ == "__main__":
    main()
