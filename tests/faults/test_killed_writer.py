"""A writer is killed in the middle of creating a file: whoever looks sees the whole file or none."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from indextables.storage.local import LocalStore
from indextables.storage.store import PutOutcome

KILLS = 100
SIZE_BYTES = 4 << 20
# Forks a writer for every line it reads, says its process id, and says when it is dead. The writer
# creates one file after another, as fast as it can. Forking spares the start of a hundred
# interpreters.
NURSERY = """
import os, sys
from indextables.storage.local import LocalStore
store, size = LocalStore(sys.argv[1]), int(sys.argv[2])
for line in sys.stdin:
    mark = line.strip()
    writer = os.fork()
    if writer == 0:
        data = mark.encode() * (size // len(mark))
        for number in range(1_000_000):
            store.put_if_absent(f"log/{mark}-{number:06d}.json", data)
    print(writer, flush=True)
    print(os.WTERMSIG(os.waitpid(writer, 0)[1]), flush=True)
"""


class Nursery:
    """Writers that are born and killed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._orders, self._reports = process.stdin, process.stdout

    def kill_a_writer(self, mark: str, after_seconds: float) -> None:
        """Let a writer live for so long, kill it with -9, and return when it is dead."""
        self._orders.write(f"{mark}\n")
        self._orders.flush()
        writer = int(self._reports.readline())
        time.sleep(after_seconds)
        os.kill(writer, signal.SIGKILL)
        assert int(self._reports.readline()) == signal.SIGKILL


@contextmanager
def nursery(root: Path) -> Iterator[Nursery]:
    command = [sys.executable, "-c", NURSERY, str(root), str(SIZE_BYTES)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Nursery(process)


def test_no_partial_file_is_ever_seen(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "table")
    moments = random.Random(20240101)
    died_midway = 0
    with nursery(tmp_path / "table") as writers:
        for kill in range(KILLS):
            mark = f"{kill:04d}"
            writers.kill_a_writer(mark, moments.uniform(0, 0.03))
            for info in store.list():
                assert info.size == SIZE_BYTES, info
                assert store.get(info.path) == mark.encode() * (SIZE_BYTES // len(mark))
            died_midway += sum(1 for _ in store.list_unfinished())
            the_next_writer_can_go_on(store, mark)
            store.delete(
                [
                    *(info.path for info in store.list()),
                    *(info.path for info in store.list_unfinished()),
                ]
            )
    assert died_midway > KILLS // 10, "the kills must hit writes that are under way"


def the_next_writer_can_go_on(store: LocalStore, mark: str) -> None:
    """What the dead writer left is in nobody's way: the next name is free, and a listing shows only
    finished files.
    """
    written = [info.path for info in store.list()]
    following = f"log/{mark}-{len(written):06d}.json"
    assert store.put_if_absent(following, b"next") is PutOutcome.CREATED
    assert [info.path for info in store.list()] == [*written, following]
