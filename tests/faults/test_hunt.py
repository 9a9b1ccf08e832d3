"""The hunt for a lost row: writers, a merger, a purger that keeps nothing, a truncater and readers at once, as processes.

Afterwards every acknowledged row is there, once; nothing else is; and the table is sound to the last byte.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from indextables import Table
from indextables.table import verify_table
from tests.faults.hunting import BATCH
from tests.support.places import StorePlace
from tests.support.rows import ROWS, TEXT

ROOT = Path(__file__).parents[2]
ACTORS = ("write", "write", "merge", "purge", "truncate", "read", "read")
OPTIONS: dict[str, Any] = {
    "purge.retentionCheckEnabled": False,
    "transaction.retry.maxAttempts": 60,
    "checkpoint.interval": 5,
    "transaction.retry.baseDelayMs": 10,
    "transaction.retry.maxDelayMs": 500,
}
CLEAR_ERRORS = {"missing_split", "version_not_found", "not_found"}


def start(place: StorePlace, role: str, seconds: float, number: int, *, warm: bool = True) -> subprocess.Popen[str]:
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


Told = dict[str, list[dict[str, Any]]]
VERBS = ("merge", "purge", "truncate")


def hunt(place: StorePlace, seconds: float) -> Told:
    """Let all of them loose; returns what each kind has told. It goes on for longer until every verb has succeeded."""
    Table.create(place.url, schema=ROWS, options={**TEXT, **place.options})
    told: Told = {role: [] for role in ACTORS}
    for part in range(4):
        play(place, seconds * (part + 1), told, first_number=10 * part + 1)
        if all({"done": "success"} in told[verb] for verb in VERBS):
            break
    return told


def play(place: StorePlace, seconds: float, told: Told, *, first_number: int) -> None:
    """One round."""
    processes = [start(place, role, seconds, first_number + n) for n, role in enumerate(ACTORS)]
    try:
        let_loose(processes)
        for role, process in zip(ACTORS, processes, strict=True):
            out, err = process.communicate(timeout=seconds + 200)
            assert process.returncode == 0, (role, err[-3000:])
            told[role] += lines_of(out)
    finally:
        for process in processes:
            process.kill()


def judge(place: StorePlace, told: Told) -> None:
    """Every acknowledged row, once, and nothing else but what may have landed."""
    kinds = {role: Counter(key for line in lines for key in line) for role, lines in told.items()}
    print({role: dict(counts) for role, counts in kinds.items()})
    acknowledged = {line["acknowledged"] for line in told["write"] if "acknowledged" in line}
    unknown = {line["unknown"] for line in told["write"] if "unknown" in line}
    assert verify_table(place.url, full=True, options=dict(place.options)).findings == ()
    table = Table.open(place.url, options=dict(place.options))
    found = Counter(table.scan(columns=["id"]).read_all().column("id").to_pylist())
    assert max(found.values()) == 1, "a row stands twice"
    batches = Counter(i - i % BATCH for i in found)
    assert set(batches.values()) == {BATCH}
    assert acknowledged <= set(batches), "a row is lost"
    assert set(batches) <= acknowledged | unknown, "a row came from nowhere"
    assert [line for line in told["read"] if "wrong" in line] == []
    errors = Counter(line["error"] for line in told["read"] if "error" in line)
    assert set(errors) <= CLEAR_ERRORS, errors
    assert kinds["write"]["acknowledged"] > 5, kinds
    for verb in VERBS:
        assert {"done": "success"} in told[verb], (verb, kinds)
    assert kinds["read"]["seen"] > 0, kinds


def test_a_short_hunt(tmp_path: Path) -> None:
    place = StorePlace(str(tmp_path / "t"))
    judge(place, hunt(place, 6))


@pytest.mark.slow
def test_a_long_hunt_on_disk(tmp_path: Path) -> None:
    place = StorePlace(str(tmp_path / "t"))
    judge(place, hunt(place, 60))


@pytest.mark.slow
def test_a_long_hunt_on_s3(s3_place: StorePlace) -> None:
    judge(s3_place, hunt(s3_place, 60))
