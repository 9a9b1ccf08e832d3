"""Real contention: eight processes commit to one table at once; every acknowledged commit is there,
once.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from indextables import Table
from tests.support.places import StorePlace
from tests.support.tables import SCHEMA

WRITER = Path(__file__).with_name("contention.py")


def contend(url: str, options: dict[str, Any], *, writers: int, commits: int) -> None:
    Table.create(url, schema=SCHEMA, options=options)
    processes = [
        subprocess.Popen(
            [sys.executable, str(WRITER), url, json.dumps(options), f"w{n}", str(commits)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(writers)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    versions: list[int] = []
    for process in processes:
        out, _ = process.communicate(timeout=240)
        assert process.returncode == 0
        versions += [int(line) for line in out.split()]
    total = writers * commits
    assert sorted(versions) == list(range(1, total + 1))
    paths = Table.open(url, options=options).files().column("path").to_pylist()
    assert sorted(paths) == sorted(
        f"splits/w{w}-{n}.split" for w in range(writers) for n in range(commits)
    )


def test_eight_processes_on_local_disk(tmp_path: Path) -> None:
    contend(str(tmp_path / "t"), {}, writers=8, commits=25)


def test_eight_processes_on_s3(s3_place: StorePlace) -> None:
    contend(s3_place.url, dict(s3_place.options), writers=8, commits=5)
