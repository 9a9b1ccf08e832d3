"""Processes that work on one table and report what they did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support.places import StorePlace

ROOT = Path(__file__).parents[2]

OPTIONS: dict[str, Any] = {
    "purge.retentionCheckEnabled": False,
    "transaction.retry.maxAttempts": 60,
    "checkpoint.interval": 5,
    "transaction.retry.baseDelayMs": 10,
    "transaction.retry.maxDelayMs": 500,
}

CLEAR_ERRORS = {"missing_split", "version_not_found", "not_found"}


def start(
    place: StorePlace, role: str, seconds: float, number: int, *, warm: bool = True
) -> subprocess.Popen[str]:
    """A process that plays a role; it waits for the word."""
    told = [role, place.url, json.dumps({**place.options, **OPTIONS}), str(seconds), str(number)]
    told += [] if warm else ["cold"]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.faults.hunting", *told],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def let_loose(processes: Iterable[subprocess.Popen[str]]) -> None:
    """Wait until all are ready, then let them begin together."""
    waiting = [*processes]
    for process in waiting:
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
    for process in waiting:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()


def lines_of(out: str) -> list[dict[str, Any]]:
    """What a process has told; the last line of one that was killed may be cut off."""
    return [json.loads(line) for line in out.split("\n")[:-1]]
