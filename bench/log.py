"""`make bench-log`: the transaction log against delta-rs and pyiceberg.

FILES (100,000) and MANY_FILES (1,000,000) make it smaller.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import log_checkpoints, log_states
from bench.log_tables import (
    SCHEMA,
    append_iceberg,
    create_delta,
    create_iceberg,
    create_ours,
    delta_action,
    ours,
)
from bench.log_writer import COMMITS
from bench.report import Report, timed_ms
from indextables import Table

FILES = int(os.environ.get("FILES", "100000"))
MANY_FILES = int(os.environ.get("MANY_FILES", "1000000"))
WRITERS = 8
NO_CHECKPOINT: dict[str, object] = {}


def cold(path: Path) -> Table:
    """The table as a new process finds it."""
    Table.open(str(path)).invalidate_cache()
    table = Table.open(str(path))
    table.files()
    return table


def list_many_commits(report: Report, root: Path) -> None:
    """1000 commits of 10 files, no checkpoint."""
    from deltalake import DeltaTable

    commits = [list(range(n * 10, n * 10 + 10)) for n in range(1000)]
    create_ours(root / "ours", commits, options=NO_CHECKPOINT)
    create_delta(root / "delta", commits)

    def theirs() -> None:
        assert DeltaTable(str(root / "delta")).get_add_actions().num_rows == 10_000

    def mine() -> None:
        assert cold(root / "ours").files().num_rows == 10_000

    report.add(
        "list 1000 commits of 10 files",
        timed_ms(mine),
        "ms",
        peer="delta-rs",
        theirs=timed_ms(theirs),
        at_most=0.5,
    )


def commit_on_many(report: Report, root: Path, files: int) -> None:
    """One more file on top of many."""
    from deltalake import DeltaTable, Schema

    create_ours(root / "ours", [range(files)])
    create_delta(root / "delta", [range(files)])
    iceberg = create_iceberg(root / "iceberg", files)
    DeltaTable(str(root / "delta")).create_checkpoint()
    numbers = iter(range(files, files + 1000))
    table = Table.open(str(root / "ours"))

    def mine() -> None:
        with table.transaction(check_splits=False) as tx:
            tx.add(ours(next(numbers)))

    def with_delta() -> None:
        delta = DeltaTable(str(root / "delta"))
        delta.create_write_transaction(
            [delta_action(next(numbers))], "append", Schema.from_arrow(SCHEMA), ["day"]
        )

    mine_ms = timed_ms(mine)
    report.add(
        f"commit one file on {files:,}",
        mine_ms,
        "ms",
        peer="pyiceberg",
        theirs=timed_ms(lambda: append_iceberg(iceberg, [next(numbers)])),
        at_most=0.25,
    )
    report.add(
        f"commit one file on {files:,}",
        mine_ms,
        "ms",
        peer="delta-rs",
        theirs=timed_ms(with_delta),
        at_most=0.05,
    )


def contention(report: Report, root: Path) -> None:
    """8 processes x 25 commits, five times by turns: until the last is acknowledged, and until the
    processes have ended.
    """
    taken: dict[str, list[tuple[float, float]]] = {"ours": [], "delta": []}
    for turn in range(5):
        for kind, times in taken.items():
            times.append(_seconds_of_writers(kind, root / f"{kind}-{turn}"))
        print(
            json.dumps(
                {
                    kind: [round(seconds, 2) for seconds in times[-1]]
                    for kind, times in taken.items()
                }
            )
        )
    rates = {
        kind: WRITERS * COMMITS / statistics.median(done for done, _ in times)
        for kind, times in taken.items()
    }
    ended = {kind: statistics.median(end for _, end in times) for kind, times in taken.items()}
    report.add(
        f"{WRITERS} processes x {COMMITS} commits",
        rates["ours"],
        "commits/s",
        peer="delta-rs",
        theirs=rates["delta"],
        at_least=5,
    )
    report.add(
        "the same, until the processes have ended",
        ended["ours"],
        "s",
        peer="delta-rs",
        theirs=ended["delta"],
    )


def _seconds_of_writers(kind: str, path: Path) -> tuple[float, float]:
    """How long processes take that commit at once: until the last commit is acknowledged, and until
    they have ended.
    """
    if kind == "ours":
        create_ours(path, [])
    else:
        create_delta(path, [[0]])
    workers = [
        subprocess.Popen(
            [sys.executable, "-m", "bench.log_writer", kind, str(path), str(n)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(WRITERS)
    ]
    pipes = [(worker.stdin, worker.stdout) for worker in workers]
    for _, out in pipes:
        assert out is not None
        assert out.readline() == "ready\n"
    start = time.perf_counter()
    for into, _ in pipes:
        assert into is not None
        into.write("go\n")
        into.flush()
    for _, out in pipes:
        assert out is not None
        assert out.readline() == "done\n"
    seconds = time.perf_counter() - start
    for worker in workers:
        worker.communicate(timeout=600)
    ended = time.perf_counter() - start
    assert [worker.returncode for worker in workers] == [0] * WRITERS
    committed = Table.open(str(path)).files().num_rows if kind == "ours" else _delta_files(path) - 1
    assert committed == WRITERS * COMMITS
    return seconds, ended


def _delta_files(path: Path) -> int:
    from deltalake import DeltaTable

    return int(DeltaTable(str(path)).get_add_actions().num_rows)


def main() -> None:
    """Run everything."""
    report = Report("log", {"files": FILES, "many files": MANY_FILES})
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with report.part("commits"):
            list_many_commits(report, root / "commits")
            commit_on_many(report, root / "one", FILES)
        with report.part("contention"):
            contention(report, root / "contention")
        with report.part("states"):
            log_states.run(report, root, files=FILES, many=MANY_FILES)
        with report.part("checkpoints"):
            log_checkpoints.run(report, root / "checkpoints", files=MANY_FILES)
    report.finish()


if __name__ == "__main__":
    main()
