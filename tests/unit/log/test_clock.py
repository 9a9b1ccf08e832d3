"""Times are the store's: a machine whose clock is wrong deletes nothing, and dates nothing later
than the store got it.
"""

from __future__ import annotations

import datetime
import gzip
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from indextables import Table, sql
from indextables.errors import CleanupError, RefusedError
from indextables.log import log_files
from indextables.log.cache import PROCESS_CACHE
from indextables.log.versions import MOST_SKEW_MS, bounded_time
from tests.support.rows import ids, rows, table_of
from tests.support.stores import age, contents

DAY_MS = 86_400_000
SKEWS = {
    "40 days ahead": 40 * DAY_MS,
    "6 minutes ahead": 6 * 60_000,
    "6 minutes behind": -6 * 60_000,
}


def clock(off_ms: int) -> Callable[[], int]:
    return lambda: time.time_ns() // 1_000_000 + off_ms


def opened(path: Path, *, off_ms: int = 0, **options: object) -> Table:
    """The table on a machine whose clock is off."""
    PROCESS_CACHE.invalidate()
    table = Table.open(str(path), options=options)
    table.handle.log.context.now_ms = clock(off_ms)
    return table


def files_of_log(path: Path) -> set[str]:
    return {
        name
        for name in contents(path)
        if name.startswith(log_files.LOG) and name != log_files.CLOCK
    }


@pytest.mark.parametrize("skew", SKEWS)
@pytest.mark.parametrize("verb", ["purge", "truncate"])
def test_a_machine_with_a_wrong_clock_is_told_and_deletes_nothing(
    tmp_path: Path, verb: str, skew: str
) -> None:
    path = tmp_path / "t"
    table_of(path, appends=4).checkpoint()
    (path / "splits/split-stray.split").write_bytes(b"stray")
    age(path, hours=24 * 45)
    before = contents(path)
    table = opened(path, off_ms=SKEWS[skew])
    with pytest.raises(
        RefusedError, match=r"clock of this machine is .* (ahead of|behind) that of"
    ):
        table.purge() if verb == "purge" else table.truncate_time_travel()
    after = contents(path)
    assert {name: after[name] for name in before} == before
    assert ids(opened(path)) == list(range(40))


def test_the_clean_up_by_itself_does_not_trust_the_machine(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A writer 40 days ahead: versions that are minutes old stay, and the log says why."""
    path = tmp_path / "t"
    table_of(path, appends=4)
    before = files_of_log(path)
    writer = opened(
        path, off_ms=40 * DAY_MS, **{"checkpoint.interval": 1, "checkpoint.retention": 0}
    )
    with caplog.at_level(logging.WARNING):
        writer.append(rows(range(40, 50)))
    assert before <= files_of_log(path)
    assert "40.0 days ahead" in caplog.text
    assert "40.0 days ahead" in str(writer.handle.log.upkeep.last_failure)
    strict = {"checkpoint.interval": 1, "checkpoint.retention": 0, "cleanup.failurePolicy": "fail"}
    with pytest.raises(CleanupError, match=r"40\.0 days ahead"):
        opened(path, off_ms=40 * DAY_MS, **strict).append(rows(range(50, 60)))
    assert before <= files_of_log(path)
    assert ids(opened(path)) == list(range(60))


def test_a_small_difference_is_measured_by_the_stores_clock(tmp_path: Path) -> None:
    """Four minutes ahead: what the store calls a minute too young stays."""
    path = tmp_path / "t"
    table_of(path, appends=3).checkpoint()
    age(path, hours=24 - 1 / 60)
    opened(path, off_ms=4 * 60_000).purge(older_than_hours=24, log_retention_hours=24)
    assert len([name for name in files_of_log(path) if log_files.version_of(name) is not None]) == 4
    age(path, hours=24 + 1 / 60)
    opened(path, off_ms=-4 * 60_000).purge(older_than_hours=24, log_retention_hours=24)
    age(path, hours=25)
    opened(path, off_ms=4 * 60_000).purge(older_than_hours=24, log_retention_hours=24)
    assert not (path / log_files.version_path(0)).exists()
    assert ids(opened(path)) == list(range(30))


def times(path: Path) -> list[float]:
    """How far each version of a table is from now, in seconds, oldest first."""
    history = opened(path).history().sort_by("version").column("timestamp").to_pylist()
    now = datetime.datetime.now(datetime.UTC)
    return [(moment - now).total_seconds() for moment in history]


def test_a_version_from_the_future_is_dated_by_the_store_and_pushes_nobody_ahead(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t"
    table_of(path, appends=1)
    opened(path, off_ms=40 * DAY_MS).append(rows(range(10, 20)))
    time.sleep(1.1)
    between = datetime.datetime.now(datetime.UTC)
    time.sleep(0.05)
    opened(path).append(rows(range(20, 30)))
    found = times(path)
    assert found == sorted(found)
    assert max(found) <= 1.0
    PROCESS_CACHE.invalidate()
    assert ids(Table.open(str(path), timestamp=between)) == list(range(20))
    assert ids(Table.open(str(path), timestamp=datetime.datetime.now(datetime.UTC))) == list(
        range(30)
    )


def test_a_process_whose_clock_was_set_right_goes_on_from_the_stores_time(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table_of(path)
    table = opened(path, off_ms=40 * DAY_MS)
    table.append(rows(range(10)))
    table.handle.log.context.now_ms = clock(0)
    table.append(rows(range(10, 20)))
    body = (path / log_files.version_path(2)).read_bytes()
    recorded = json.loads(gzip.decompress(body).splitlines()[0])["commitInfo"]["timestamp"]
    assert recorded <= time.time() * 1000 + 2_000
    assert max(times(path)) <= 1.0


def test_a_machine_that_is_behind_still_dates_its_versions_after_the_others(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table_of(path, appends=1)
    opened(path, off_ms=-40 * DAY_MS).append(rows(range(10, 20)))
    found = times(path)
    assert found == sorted(found)
    assert min(found) > -600


def test_the_time_of_a_version_survives_its_file(tmp_path: Path) -> None:
    """In the state that stands for it: a version from the future is not from the future again after
    a truncation.
    """
    path = tmp_path / "t"
    table_of(path, appends=1)
    opened(path, off_ms=40 * DAY_MS).append(rows(range(10, 20)))
    opened(path).truncate_time_travel()
    opened(path).append(rows(range(20, 30)))
    assert max(times(path)) <= 1.0


@pytest.mark.parametrize("timestamp", [2**63 - 1, 2**62, -5, 0, 253_402_300_800_000])
def test_a_time_that_is_none_stops_no_writer(tmp_path: Path, timestamp: int) -> None:
    path = tmp_path / "t"
    table_of(path, appends=2)
    file = path / log_files.version_path(2)
    lines = gzip.decompress(file.read_bytes()).splitlines()
    info = json.loads(lines[0])
    info["commitInfo"]["timestamp"] = timestamp
    file.write_bytes(b"\n".join([json.dumps(info).encode(), *lines[1:]]))
    table = opened(path)
    assert table.append(rows(range(20, 30))) == 3
    opened(path).checkpoint()
    found = times(path)
    assert found == sorted(found)
    assert max(found) <= 1.0
    assert ids(opened(path)) == list(range(30))
    assert sql(f"DESCRIBE INDEXTABLES TRANSACTION LOG '{path}'").num_rows > 0


def test_the_bound() -> None:
    assert bounded_time(1_000, 5_000) == 1_000
    assert bounded_time(5_900, 5_000) == 5_900, "a store tells whole seconds"
    assert bounded_time(9_000, 5_000) == 6_000
    assert bounded_time(None, 5_000) == 5_000
    assert bounded_time(9_000, None) == 9_000
    assert bounded_time(2**63 - 1, None) == 0
    assert MOST_SKEW_MS == 300_000
