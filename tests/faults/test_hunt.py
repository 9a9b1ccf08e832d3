"""The hunt for a lost row: writers, a merger, a purger that keeps nothing, a truncater and readers
at once, as processes.

Afterwards every acknowledged row is there, once; nothing else is; and the table is sound to the
last byte.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from indextables import Table
from indextables.table import verify_table
from tests.faults.hunting import BATCH
from tests.support.hunts import CLEAR_ERRORS, let_loose, lines_of, start
from tests.support.places import StorePlace
from tests.support.rows import ROWS, TEXT

ACTORS = ("write", "write", "merge", "purge", "truncate", "read", "read")


Told = dict[str, list[dict[str, Any]]]
VERBS = ("merge", "purge", "truncate")


def hunt(place: StorePlace, seconds: float) -> Told:
    """Let all of them loose; returns what each kind has told. It goes on for longer until every
    verb has succeeded.
    """
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
