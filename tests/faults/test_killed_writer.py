"""A writer is killed in the middle of creating a file: whoever looks sees the whole file or none."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from indextables.storage.local import LocalStore
from indextables.storage.store import PutOutcome

KILLS = 100
SIZE_BYTES = 4 << 20
WRITER = """
import sys
from indextables.storage.local import LocalStore
store, number, data = LocalStore(sys.argv[1]), 0, sys.argv[2].encode() * int(sys.argv[3])
print("ready", flush=True)
while True:
    store.put_if_absent(f"log/{sys.argv[2]}-{number:06d}.json", data)
    number += 1
"""


def start_writer(root: Path, mark: str) -> subprocess.Popen[bytes]:
    """A process that creates one file after another, as fast as it can, and says when it begins."""
    command = [sys.executable, "-c", WRITER, str(root), mark, str(SIZE_BYTES // len(mark))]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"ready\n"
    return writer


def test_no_partial_file_is_ever_seen(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "table")
    moments = random.Random(20240101)
    died_midway = 0
    for kill in range(KILLS):
        mark = f"{kill:04d}"
        writer = start_writer(tmp_path / "table", mark)
        time.sleep(moments.uniform(0, 0.02))
        os.kill(writer.pid, signal.SIGKILL)
        writer.communicate()
        assert writer.returncode == -signal.SIGKILL
        for info in store.list("log", start_after=f"log/{mark}"):
            assert info.size == SIZE_BYTES, info
            assert store.get(info.path) == mark.encode() * (SIZE_BYTES // len(mark))
        died_midway += sum(1 for _ in store.unfinished())
        _can_go_on(store, mark)
        store.delete([*(info.path for info in store.list()), *(info.path for info in store.unfinished())])
    assert died_midway > KILLS // 10, "the kills must hit writes that are under way"


def _can_go_on(store: LocalStore, mark: str) -> None:
    """What the dead writer left is in nobody's way: the next name is free, and a listing shows only finished files."""
    written = [info.path for info in store.list()]
    following = f"log/{mark}-{len(written):06d}.json"
    assert store.put_if_absent(following, b"next") is PutOutcome.CREATED
    assert [info.path for info in store.list()] == [*written, following]
