"""The defaults of the specification, key by key, and the few that differ."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from indextables import Table, config
from indextables.log import log_files
from tests.support.rows import ROWS, rows, table_of
from tests.support.seed_keys import SEED_KEYS
from tests.support.stores import age
from tests.support.tables import SCHEMA, append, live

DEVIATIONS: dict[str, Any] = {
    "transaction.retry.maxAttempts": 1_000,
    "transaction.cache.expirationSeconds": 0,
}
"""With many writers ten attempts are too few, and a stale answer must be allowed first."""


@pytest.mark.parametrize("key", SEED_KEYS)
def test_a_setting_has_the_default_of_the_specification(tmp_path: Path, key: str) -> None:
    settings = Table.create(str(tmp_path), schema=ROWS).settings
    specified = config.resolve(options={key: SEED_KEYS[key]})[key]
    assert settings[key] == DEVIATIONS.get(key, specified)
    assert (key in DEVIATIONS) is (settings[key] != specified)


def test_the_elapsed_time_of_retries_is_a_minute_where_nothing_is_set(tmp_path: Path) -> None:
    assert (
        Table.create(str(tmp_path), schema=ROWS).settings["transaction.retry.maxElapsedMs"]
        == 60_000
    )


AT_ONCE: dict[str, object] = {"checkpoint.interval": 1, "checkpoint.async.enabled": False}


def after_a_checkpoint(root: Path, **options: object) -> set[str]:
    """The files of the log after one more append, whose checkpoint cleans up."""
    table = Table.open(str(root), options={**AT_ONCE, **options})
    table.append(rows([table.version]))
    return {
        str(path.relative_to(root)) for path in (root / log_files.LOG).rglob("*") if path.is_file()
    }


@pytest.mark.parametrize(("days", "kept"), [(29, True), (31, False)])
def test_by_default_versions_stay_for_thirty_days(tmp_path: Path, days: int, kept: bool) -> None:
    table_of(tmp_path, appends=4, options={"checkpoint.enabled": False})
    age(tmp_path, hours=24 * days)
    found = after_a_checkpoint(tmp_path, **{"checkpoint.enabled": True, "checkpoint.retention": 0})
    assert {version for version in range(6) if log_files.version_path(version) in found} == (
        set(range(6)) if kept else {5}
    )


def test_by_default_the_thirty_newest_versions_stay_however_old(tmp_path: Path) -> None:
    """With the default interval, whose checkpoint of version 20 is the base of the oldest of them."""
    table = Table.create(str(tmp_path), schema=SCHEMA, options={"checkpoint.async.enabled": False})
    for n in range(49):
        append(table, f"s{n}")
    age(tmp_path, hours=24 * 60)
    append(table, "last")
    names = [f"{log_files.LOG}/{path.name}" for path in (tmp_path / log_files.LOG).iterdir()]
    left = {version for name in names if (version := log_files.version_of(name)) is not None}
    assert left == set(range(min(left), 51)) and 30 <= len(left) <= 31
    assert len(live(Table.open(str(tmp_path), version=21))) == 21


@pytest.mark.parametrize(("hours", "kept"), [(1.9, True), (2.1, False)])
def test_by_default_superseded_checkpoints_of_older_forms_stay_for_two_hours(
    tmp_path: Path, hours: float, kept: bool
) -> None:
    table_of(tmp_path, appends=2, options={**AT_ONCE, "state.format": "json"})
    age(tmp_path, hours=hours)
    found = after_a_checkpoint(tmp_path)
    assert {
        version for version in range(4) if log_files.json_checkpoint_path(version) in found
    } >= {3}
    assert (log_files.json_checkpoint_path(1) in found) is kept


@pytest.mark.parametrize(("hours", "left"), [(167, [1, 2, 3, 4, 5]), (169, [4, 5])])
def test_by_default_states_stay_for_a_week_and_the_two_newest_longer(
    tmp_path: Path, hours: int, left: list[int]
) -> None:
    table_of(
        tmp_path,
        appends=4,
        options={**AT_ONCE, "logRetention.duration": 0, "checkpoint.retention": 0},
    )
    age(tmp_path, hours=hours)
    found = after_a_checkpoint(tmp_path)
    assert [version for version in range(1, 6) if log_files.state_path(version) in found] == left


@pytest.mark.parametrize(("minutes", "kept"), [(59, True), (61, False)])
def test_by_default_a_manifest_that_no_state_names_stays_for_an_hour(
    tmp_path: Path, minutes: int, kept: bool
) -> None:
    table = table_of(tmp_path, appends=2)
    table.checkpoint()
    stray = tmp_path / log_files.MANIFESTS / "manifest-0123456789abcdef.avro"
    shutil.copy(next((tmp_path / log_files.MANIFESTS).iterdir()), stray)
    age(tmp_path, hours=minutes / 60)
    found = after_a_checkpoint(tmp_path)
    assert (str(stray.relative_to(tmp_path)) in found) is kept
