"""The hunt once more, but the actors die: again and again one of them is killed in the middle of
whatever it does, and another takes its place. What was acknowledged is there, what was deleted
stays deleted, and whoever comes next can work.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from indextables import Table
from indextables.table import verify_table
from tests.faults.hunting import BATCH
from tests.support.hunts import CLEAR_ERRORS, OPTIONS, let_loose, lines_of, start
from tests.support.places import StorePlace
from tests.support.rows import ROWS, TEXT, ids

ACTORS = ("write", "write", "delete", "merge", "purge", "truncate", "look", "check")
LIFETIME, ENOUGH = 600, 8
Told = list[dict[str, Any]]


def deadly_hunt(place: StorePlace, seconds: float) -> tuple[Told, int]:
    """Everything that was told by those that died, as all do in the end, and how many died on the
    way.

    On a busy machine it goes on until enough have died.
    """
    rng = random.Random(7)
    Table.create(place.url, schema=ROWS, options={**TEXT, **place.options})
    alive = [start(place, role, LIFETIME, n + 1) for n, role in enumerate(ACTORS)]
    told: Told = []
    number, deaths = len(ACTORS), 0
    try:
        let_loose(alive)
        end = time.monotonic() + seconds
        while time.monotonic() < end or deaths < ENOUGH:
            time.sleep(rng.uniform(0.0, 1.0))
            at = rng.randrange(len(ACTORS))
            told += last_words(alive[at])
            number, deaths = number + 1, deaths + 1
            alive[at] = start(place, ACTORS[at], LIFETIME, number, warm=False)
            let_loose([alive[at]])
        for process in alive:
            told += last_words(process)
    finally:
        for process in alive:
            process.kill()
    return told, deaths


def last_words(process: subprocess.Popen[str]) -> Told:
    """Kill a process, and read what it has told."""
    assert process.poll() is None, process.communicate()[1][-3000:]
    process.kill()
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err, err[-3000:]
    return lines_of(out)


def all_of(told: Told, key: str) -> set[int]:
    return {line[key] for line in told if key in line}


def batches(table: Table) -> set[int]:
    """The first ids of the batches, which must all be whole."""
    found = ids(table)
    counted = Counter(i - i % BATCH for i in found)
    assert len(set(found)) == len(found), "a row stands twice"
    assert set(counted.values()) <= {BATCH}, "a batch is torn"
    return set(counted)


def judge(place: StorePlace, told: Told) -> None:
    options = {**place.options, **OPTIONS}
    written, deleted = all_of(told, "acknowledged"), all_of(told, "deleted")
    doubtful = all_of(told, "trying") - written - all_of(told, "refused")
    in_doubt = all_of(told, "deleting") - deleted - all_of(told, "kept")
    assert [line for line in told if "wrong" in line] == []
    assert {line["error"] for line in told if "error" in line} <= CLEAR_ERRORS
    assert verify_table(place.url, full=True, options=options).findings == ()
    found = batches(Table.open(place.url, options=options))
    assert written - deleted - in_doubt <= found, "a row is lost"
    assert found <= (written | doubtful) - deleted, "a row came back, or from nowhere"
    assert len(written) > 5
    assert deleted
    table = Table.open(place.url, options=options)
    table.merge()
    table.purge(older_than_hours=0, log_retention_hours=0)
    table.truncate_time_travel()
    assert batches(Table.open(place.url, options=options)) == found, (
        "those who come after change nothing"
    )
    assert verify_table(place.url, full=True, options=options).findings == ()


def hunted(place: StorePlace, seconds: float) -> None:
    told, deaths = deadly_hunt(place, seconds)
    print(f"{deaths} deaths, {dict(Counter(key for line in told for key in line))}")
    judge(place, told)


@pytest.mark.slow
def test_a_deadly_hunt_on_disk(tmp_path: Path) -> None:
    hunted(StorePlace(str(tmp_path / "t")), 40)


@pytest.mark.slow
def test_a_deadly_hunt_on_s3(s3_place: StorePlace) -> None:
    hunted(s3_place, 40)
