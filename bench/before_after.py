"""The same questions to an older commit and to this one, by turns in one sitting: `python -m
bench.before_after ede4a96`.

The older commit is checked out into a folder of its own and runs with the libraries of this
environment. Each side is a process that waits for its turn; both get the same rows and words, and
must give the same answers. CPU time of the whole process, medians (the least for what is done a few
times); a ratio above LIMIT (1.05) is told as missed. ROWS (200,000) and WORDS (200) make it
smaller.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.questions import WORDS, Vocabulary
from bench.report import Report
from indextables.cli.demo import log_lines

ROOT = Path(__file__).parents[1]
ROWS = int(os.environ.get("ROWS", "200000"))
FILES, COMMITS = ROWS // 10, 100
LIMIT = float(os.environ.get("LIMIT", "1.05"))
AT_ONCE, TURNS = 10, 5

_SIDE = """
import inspect, json, shutil, sys, time
import pyarrow as pa, pyarrow.parquet as pq
from indextables import AddAction, Table

folder, rows = sys.argv[1], pq.read_table(sys.argv[2])
options = {"indexing.typemap.message": "text", "indexing.typemap.client_ip": "ip"}
columns, made = ["ts", "message"], [0]

def create(name, schema, **more):
    made[0] += 1
    return Table.create(f"{folder}/{name}-{made[0]}", schema=schema, **more)

def build(_):
    state["table"] = create("rows", rows.schema, options=options)
    state["table"].append(rows)

def action(n):
    low = {f"c{i}": str(n * 10 + i) for i in range(8)}
    return AddAction(path=f"day={n % 100:04d}/splits/{n:032x}.split", partition_values={"day": f"{n % 100:04d}"},
        size=1_000_000, modification_time=1, num_records=1_000, min_values=low, max_values=low)

def commit(table, numbers):
    # The splits of this measurement are not there; releases from which on that is looked at are told so.
    looks = "check_splits" in inspect.signature(Table.transaction).parameters
    with table.transaction(**({"check_splits": False} if looks else {})) as tx:
        for n in numbers:
            tx.add(action(n))

schema = pa.schema([("day", pa.string()), *((f"c{i}", pa.int64()) for i in range(8))])
def commits(count):
    state["log"] = create("log", schema, partition_columns=["day"])
    for n in range(count):
        commit(state["log"], range(n * 10, n * 10 + 10))

def files(count):
    state["large"], state["next"] = create("large", schema, partition_columns=["day"]), count
    commit(state["large"], range(count))

def one_more(_):
    commit(state["large"], [state["next"]])
    state["next"] += 1

def cold(table):
    Table.open(table.path).invalidate_cache()
    return Table.open(table.path)

state = {}
def words(w, by): return by.join(f"message:{x}" for x in w.split())
asks = {
    "build": build, "commits of 10 files": commits, "one commit of many files": files,
    "top 10 of a word": lambda w: state["table"].search(f"message:{w}", limit=10, columns=columns, score=True),
    "top 10 of two words": lambda w: state["table"].search(words(w, " AND "), limit=10, columns=columns, score=True),
    "phrase": lambda w: state["table"].search(f'message:"{w}"', limit=10, columns=columns, score=True),
    "count of a word": lambda w: state["table"].count(query=f"message:{w}"),
    "all hits with two columns": lambda w: state["table"].search(f"message:{w}", columns=columns),
    "newest 10": lambda w: state["table"].search(f"message:{w}", limit=10, columns=columns, order_by="ts DESC"),
    "terms under a search": lambda w: state["table"].aggregate({"a": {"terms": {"field": "level"}}}, query=f"message:{w}"),
    "full scan": lambda _: sum(batch.num_rows for batch in state["table"].scan()),
    "open and list commits": lambda _: cold(state["log"]).files().num_rows,
    "open and list many files": lambda _: cold(state["large"]).files().num_rows,
    "one partition of many files": lambda _: cold(state["large"]).files(where="day = '0042'").num_rows,
    "one more file on many": one_more,
    "one more file and a checkpoint": lambda _: (one_more(0), state["large"].checkpoint()) and None,
    "checkpoint of what has one": lambda _: state["large"].checkpoint() and None,
}
print("ready", flush=True)
for line in sys.stdin:
    what, given = json.loads(line)
    taken, own, answers = [], [], []
    for item in given:
        start, began = time.process_time(), time.thread_time()
        answer = asks[what](item)
        own.append((time.thread_time() - began) * 1000)
        taken.append((time.process_time() - start) * 1000)
        answers.append(answer.num_rows if isinstance(answer, pa.Table) else answer)
    print(json.dumps([taken, own, answers]), flush=True)
"""


class Side:
    """One of the two commits, as a process."""

    def __init__(self, source: Path, folder: Path, rows: Path) -> None:
        folder.mkdir()
        environment = {**os.environ, "PYTHONPATH": str(source / "src"), "TMPDIR": str(folder)}
        command = [sys.executable, "-c", _SIDE, str(folder), str(rows)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=folder,
        )
        self._line()

    def ask(self, what: str, given: list[Any]) -> tuple[list[float], list[float], list[Any]]:
        """Milliseconds of the process and of the thread that was asked, and answers of one kind of
        question.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([what, given]) + "\n")
        self._process.stdin.flush()
        taken, own, answers = json.loads(self._line())
        return taken, own, answers

    def end(self) -> None:
        """Let the process end."""
        self._process.communicate(timeout=60)

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a side ended with {self._process.wait()}; its message is above")
        return line


@contextmanager
def older(commit: str, folder: Path) -> Iterator[Path]:
    """A commit, checked out beside this one."""
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--detach", "--quiet", str(folder), commit], check=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def compare(
    report: Report,
    what: str,
    sides: dict[str, Side],
    given: list[Any],
    *,
    least: bool = False,
    beside: bool = False,
) -> None:
    """One question for everything that is given, a few at a time, each side first in turn; both
    must say the same.

    `beside` is for what goes on beside the answers: medians are of the thread that was asked, and
    means of everything.
    """
    taken: dict[str, list[float]] = {name: [] for name in sides}
    own: dict[str, list[float]] = {name: [] for name in sides}
    for turn, start in enumerate(range(0, len(given), AT_ONCE if not least else 1)):
        some, answers = given[start : start + (AT_ONCE if not least else 1)], {}
        for name in list(sides)[:: -1 if turn % 2 else 1]:
            times, own_times, answers[name] = sides[name].ask(what.removesuffix(", again"), some)
            taken[name] += times
            own[name] += own_times
        assert answers["before"] == answers["now"], f"{what}: {some} has another answer now"
    rows: list[tuple[str, dict[str, list[float]], Any]] = [
        (f"{what} (CPU)", taken, min if least else np.median)
    ]
    if beside:
        rows = [
            (f"{what}, its own thread (CPU)", own, np.median),
            (f"{what}, mean of everything (CPU)", taken, np.mean),
        ]
    for name, times_of, of in rows:
        now, before = float(of(times_of["now"])), float(of(times_of["before"]))
        report.add(name, now, "ms", peer="before", theirs=before, at_most=LIMIT)


def main() -> None:
    """Compare a commit (the first argument) with the working tree."""
    if len(sys.argv) != 2:
        raise SystemExit("name the older commit: python -m bench.before_after ede4a96")
    report = Report(
        "before_after", {"rows": ROWS, "words": WORDS, "files": FILES, "commits": COMMITS}
    )
    data = pa.Table.from_batches(log_lines(ROWS))
    vocabulary = Vocabulary.of(data["message"])
    words = vocabulary.words()
    asked = {"top 10 of two words": vocabulary.pairs, "phrase": vocabulary.phrases}
    with tempfile.TemporaryDirectory() as name, ExitStack() as ends:
        folder = Path(name)
        pq.write_table(data, folder / "rows.parquet")
        source = ends.enter_context(older(sys.argv[1], folder / "older"))
        sides = {"before": Side(source, folder / "before", folder / "rows.parquet")}
        sides["now"] = Side(ROOT, folder / "now", folder / "rows.parquet")
        for side in sides.values():
            ends.callback(side.end)
        with report.part("search"):
            compare(report, "build", sides, [0] * 3, least=True)
            for what in (
                "top 10 of a word",
                "top 10 of two words",
                "phrase",
                "count of a word",
                "newest 10",
            ):
                for time_of in (what, f"{what}, again"):
                    compare(report, time_of, sides, asked.get(what, words))
            for what in ("all hits with two columns", "terms under a search"):
                compare(report, what, sides, words[: WORDS // 2])
            compare(report, "full scan", sides, [0] * TURNS, least=True)
        with report.part("log"):
            compare(report, "commits of 10 files", sides, [COMMITS] * 3, least=True)
            compare(report, "one commit of many files", sides, [FILES] * 3, least=True)
            for what in (
                "open and list commits",
                "open and list many files",
                "one partition of many files",
            ):
                compare(report, what, sides, [0] * (2 * TURNS), least=True)
            # Every tenth commit calls for a checkpoint: older releases write it at once, which a
            # median does not see, and now it is written beside the commits that follow, in whose
            # CPU time it would be told.
            compare(report, "one more file on many", sides, [0] * 40, beside=True)
            compare(report, "one more file and a checkpoint", sides, [0] * TURNS, least=True)
            # After one that writes, so that both sides prove what is there: the least of some turns
            # would otherwise be one that writes on the side whose state is not there yet, and one
            # that proves on the other.
            compare(report, "checkpoint of what has one", sides, [0] * TURNS, least=True)
    report.finish()


if __name__ == "__main__":
    main()
