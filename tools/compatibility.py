"""Write the counts of docs/reference/compatibility.md from recorded runs of the Spark tests.

`make test-spark VERSION=4.0` leaves `.venv/spark-4.0.jsonl`; `python -m tools.compatibility 4.0`
stores its counts in tests/spark/recorded.json, from which `make api` writes the page. Further
words are a note that the page shows.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from indextables.spark.compat import capabilities
from tests.spark.refusals import REFUSED

ROOT = Path(__file__).parents[1]
RECORDED = ROOT / "tests" / "spark" / "recorded.json"
VERSIONS = ("4.0", "4.1", "4.2", "4.3")
_BY_DESIGN = "refused by design: "


def count_outcomes(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts of a run. The last outcome of a test counts: tests can be run again."""
    outcomes = {line["test"]: line for line in lines if "test" in line}
    collected = max((line["collected"] for line in lines if "collected" in line), default=0)
    refused = [name for name, line in outcomes.items() if _BY_DESIGN in str(line["reason"])]
    of = {
        outcome: sorted(name for name, line in outcomes.items() if line["outcome"] == outcome)
        for outcome in ("passed", "skipped", "failed")
    }
    return {
        "collected": collected,
        "passed": len(of["passed"]),
        "refused": sorted(refused),
        "skipped": len(of["skipped"]) - len(refused),
        "failed": of["failed"],
    }


def record(version: str, folder: Path, note: str = "") -> None:
    """Store the counts of the newest run of a version, and what is to know about it."""
    file = folder / f"spark-{version}.jsonl"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    date = datetime.fromtimestamp(file.stat().st_mtime, UTC).date().isoformat()
    recorded = load_recorded()
    recorded[version] = {"date": date, "note": note, **count_outcomes(lines)}
    RECORDED.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def load_recorded() -> dict[str, Any]:
    """Return the stored counts by version."""
    if not RECORDED.exists():
        return {}
    return dict(json.loads(RECORDED.read_text(encoding="utf-8")))


def counts_table(recorded: dict[str, Any]) -> str:
    """Return the counts as a table; a version without a recorded run says so."""
    lines = [
        "| Spark | date | collected | passed | refused by design | skipped | failed | not run |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for version in VERSIONS:
        run = recorded.get(version)
        if run is None:
            lines.append(f"| {version} | no recorded run | | | | | | |")
            continue
        counts = [run["passed"], len(run["refused"]), run["skipped"], len(run["failed"])]
        cells = [version, run["date"], run["collected"], *counts, run["collected"] - sum(counts)]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def failures_list(recorded: dict[str, Any]) -> str:
    """Return the notes and the failed tests by version."""
    notes = [f"- {version}: {run['note']}" for version, run in recorded.items() if run["note"]]
    failed = [
        f"- {version}: `{name}`" for version, run in recorded.items() for name in run["failed"]
    ]
    parts = ["\n".join(notes)] if notes else []
    if failed:
        parts.append("Failed:\n\n" + "\n".join(failed))
    elif recorded:
        parts.append("No recorded test failed.")
    return "\n\n".join(parts)


def capability_table() -> str:
    """Return what each version can do, and since which version."""
    minors = [(int(version[0]), int(version[2])) for version in VERSIONS]
    rows = {name: [capabilities(minor)[name] for minor in minors] for name in capabilities((4, 3))}
    for name, (since, _) in REFUSED.items():
        needs = f"needs Spark {since[0]}.{since[1]}"
        rows.setdefault(name, ["yes" if minor >= since else needs for minor in minors])
    lines = [f"| capability | {' | '.join(VERSIONS)} |", f"|---|{'---|' * len(VERSIONS)}"]
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in sorted(rows.items())]
    return "\n".join(lines)


def compatibility() -> str:
    """Return the generated part of the page."""
    recorded = load_recorded()
    parts = [counts_table(recorded), failures_list(recorded), "## Capabilities", capability_table()]
    return "\n\n".join(part for part in parts if part)


if __name__ == "__main__":
    record(sys.argv[1], ROOT / ".venv", " ".join(sys.argv[2:]))
