"""Thousands of the JVM engine's splits, now and at an older commit: `python -m bench.jvm_tables
ede4a96`.

Without a commit the other side is the slow way of this one, where tantivy reads every document.

The splits are copies of those of a golden table, which must lie beside the repository. Every
question is the first one of a new process, by turns of both ways; CPU time of that process from
opening the table to the answer, medians. Both ways must give the same rows. SPLITS (2,000), TURNS
(5) and QUESTIONS (words that occur in their names) make it smaller.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.before_after import older
from bench.report import Report
from indextables import Table

SPLITS = int(os.environ.get("SPLITS", "2000"))
TURNS = int(os.environ.get("TURNS", "5"))
CHOSEN = os.environ.get("QUESTIONS", "").split(",")
AT_LEAST = 10.0
ROOT = Path(__file__).parents[1]
NOW, SLOW, BEFORE = "now", "slow way", "before"
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "filter by a number": ("scan", {"where": "n = 27"}),
    "filter by a text": ("scan", {"where": "level = 'ERROR'"}),
    "filter by a range": ("scan", {"where": "n > 40"}),
    "filter by a moment": (
        "scan",
        {"where": "ts > '2026-01-12 11:51:23.000001' AND ts < '2026-01-15'"},
    ),
    "filter that fits nothing": ("scan", {"where": "n = 12345"}),
    "filter that fits nearly all": ("scan", {"where": "n > -1000"}),
    "count by a number": ("count", {"where": "n = 27"}),
    "count by a text": ("count", {"where": "level = 'ERROR'"}),
    "count by a range": ("count", {"where": "n > 40"}),
    "count that fits nothing": ("count", {"where": "level = 'x'"}),
    "count of a word": ("count", {"query": "message:timeout"}),
    "search for a word": ("search", {"query": "message:timeout"}),
    "best ten of a word": ("search", {"query": "message:timeout", "limit": 10, "score": True}),
}


def answer(table: Table, verb: str, asked: dict[str, Any]) -> Any:
    """What a table says to a question, as something to compare: a number, or the rows without their
    scores.
    """
    if verb == "count":
        return table.count(**asked)
    found = table.search(**asked) if verb == "search" else table.scan(**asked).read_all()
    kept = found.drop_columns([name for name in found.column_names if name == "_score"])
    return found.num_rows, lambda: hashlib.sha256(repr(kept.to_pydict()).encode()).hexdigest()


def ask(way: str, path: str, question: str) -> None:
    """One question to a table, the first of this process; prints the milliseconds and the answer."""
    if way == SLOW:
        import pytest

        from tests.golden.test_jvm_speed import slow_way

        slow_way(pytest.MonkeyPatch())
    verb, asked = QUESTIONS[question]
    began = time.process_time()
    said = answer(Table.open(path), verb, asked)
    taken = (time.process_time() - began) * 1000
    print(json.dumps([taken, said if verb == "count" else [said[0], said[1]()]]))


def asked_anew(way: str, path: Path, question: str, folder: Path) -> tuple[float, Any]:
    """The same in a process of its own, whose libraries are compiled."""
    source = folder / "older" if way == BEFORE else ROOT
    environment = {
        **os.environ,
        "PYTHONPATH": f"{source / 'src'}:{ROOT}",
        "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "bench.jvm_tables", way, str(path), question]
    run = subprocess.run(
        command, env=environment, cwd=ROOT, check=True, capture_output=True, text=True
    )
    taken, said = json.loads(run.stdout.splitlines()[-1])
    return taken, said


def many(folder: Path) -> Path:
    """A table with that many splits."""
    from tests.golden.golden_tables import jvm_table
    from tests.golden.many_splits import many_splits

    golden = jvm_table("t07_merged")
    own = Table.open(str(golden.path)).files().num_rows
    return Path(many_splits(golden, folder, SPLITS // own).path)


def main(commit: str | None = None) -> None:
    """Ask every question now, and in the other way by turns."""
    report = Report("jvm_tables", {"splits": SPLITS, "turns": TURNS})
    other = SLOW if commit is None else BEFORE
    with tempfile.TemporaryDirectory() as name, ExitStack() as ends:
        folder = Path(name)
        path = many(folder)
        if commit is not None:
            ends.enter_context(older(commit, folder / "older"))
        for way in (NOW, other):  # so that every library is compiled
            asked_anew(way, path, "best ten of a word", folder)
        for question in [
            question for question in QUESTIONS if any(word in question for word in CHOSEN)
        ]:
            taken: dict[str, list[float]] = {NOW: [], other: []}
            with report.part(question):
                for turn in range(TURNS):
                    answers = {}
                    for way in list(taken)[:: -1 if turn % 2 else 1]:
                        milliseconds, answers[way] = asked_anew(way, path, question, folder)
                        taken[way].append(milliseconds)
                    assert answers[NOW] == answers[other], f"{question}: {answers}"
            now, theirs = (statistics.median(taken[way]) for way in (NOW, other))
            note = {"times": theirs / now}
            what = f"first {question} (CPU)"
            report.add(what, now, "ms", peer=other, theirs=theirs, at_most=1 / AT_LEAST, note=note)
    report.finish()


if __name__ == "__main__":
    if len(sys.argv) == 4:
        ask(*sys.argv[1:])
    else:
        main(*sys.argv[1:])
