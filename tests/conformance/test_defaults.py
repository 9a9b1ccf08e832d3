"""The defaults of the specification, key by key, and the few that differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from indextables import Table, config
from tests.support.rows import ROWS
from tests.unit.test_config import SEED_KEYS

DEVIATIONS: dict[str, Any] = {"transaction.retry.maxAttempts": 1_000, "transaction.cache.expirationSeconds": 0}
"""With many writers ten attempts are too few, and a stale answer must be allowed first."""


@pytest.mark.parametrize("key", SEED_KEYS)
def test_a_setting_has_the_default_of_the_specification(tmp_path: Path, key: str) -> None:
    settings = Table.create(str(tmp_path), schema=ROWS).settings
    specified = config.resolve(options={key: SEED_KEYS[key]})[key]
    assert settings[key] == DEVIATIONS.get(key, specified)
    assert (key in DEVIATIONS) is (settings[key] != specified)


def test_the_elapsed_time_of_retries_is_a_minute_where_nothing_is_set(tmp_path: Path) -> None:
    assert Table.create(str(tmp_path), schema=ROWS).settings["transaction.retry.maxElapsedMs"] == 60_000
