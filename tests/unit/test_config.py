"""Settings: where they come from, how they are read, what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table, config
from indextables.config.log import CacheSettings, RetrySettings
from indextables.config.registry import list_settings
from indextables.config.values import parse_duration_ms, parse_size
from indextables.errors import InvalidInputError, UnknownOptionError
from indextables.handle import _say_there_is_one
from tests.support.seed_keys import SEED_KEYS


def test_option_beats_session_beats_table_beats_default() -> None:
    key = "transaction.retry.maxAttempts"
    table, session, options = {key: "2"}, {config.PREFIX + key: "3"}, {key: 4}
    assert config.resolve()[key] == 1_000
    assert config.resolve(table=table)[key] == 2
    assert config.resolve(table=table, session=session)[key] == 3
    assert config.resolve(table=table, session=session, options=options)[key] == 4


def test_a_room_receives_a_frozen_dataclass() -> None:
    group = config.resolve(options={"spark.indextables.transaction.retry.baseDelayMs": "2s"}).group(
        RetrySettings
    )
    assert group == RetrySettings(max_attempts=1_000, base_delay_ms=2000, max_delay_ms=5000)


def test_a_misspelt_option_names_the_nearest() -> None:
    with pytest.raises(UnknownOptionError, match=r"transaction\.retry\.maxAttempts"):
        config.resolve(options={"transaction.retry.maxAttemps": 3})


def test_a_misspelt_session_key_is_an_error_but_foreign_keys_are_not() -> None:
    config.resolve(
        session={"spark.sql.shuffle.partitions": "8"}, table={"docMappingSchema.abc": "[]"}
    )
    with pytest.raises(UnknownOptionError):
        config.resolve(session={"spark.indextables.transaction.cache.enable": "true"})


def test_a_bad_value_names_key_value_and_range() -> None:
    with pytest.raises(
        InvalidInputError, match=r"'transaction\.retry\.maxAttempts' cannot be '0'.*Allowed: 1 <= n"
    ):
        config.resolve(options={"transaction.retry.maxAttempts": "0"})


@pytest.mark.parametrize(
    ("text", "value"),
    [("100M", 100 << 20), ("4G", 4 << 30), ("1.5k", 1536), (7, 7), ("64KiB", 65536), ("12 b", 12)],
)
def test_sizes(text: object, value: int) -> None:
    assert parse_size(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("7 days", 604_800_000), ("12h", 43_200_000), (250, 250), ("250", 250), ("1.5 s", 1500)],
)
def test_durations(text: object, value: int) -> None:
    assert parse_duration_ms(text) == value


@pytest.mark.parametrize("text", ["", "M", "-1", "5 X", "1e9", None, True])
def test_what_is_not_a_size_or_duration_is_refused(text: object) -> None:
    for parse in (parse_size, parse_duration_ms):
        with pytest.raises(ValueError):
            parse(text)


@pytest.mark.parametrize("group", config.GROUPS, ids=lambda g: g.__name__)
def test_defaults_are_what_the_registry_says(group: type) -> None:
    made = group()
    for s in list_settings(group):
        assert getattr(made, s.field_name) == ({} if s.per_column else s.default), s.key
        assert s.doc.endswith("."), s.key


def test_every_key_is_declared_once() -> None:
    keys = [s.key for g in config.GROUPS for s in list_settings(g)]
    assert len(keys) == len(set(keys))
    assert config.resolve().group(CacheSettings) == CacheSettings()


def test_every_key_of_the_specification_is_taken_from_a_session(tmp_path: Path) -> None:
    keys = {f"spark.indextables.{key}": value for key, value in SEED_KEYS.items()}
    assert config.resolve(session=keys).given().keys() == SEED_KEYS.keys()
    assert (
        Table.create(
            str(tmp_path / "t"), schema=pa.schema([("id", pa.int64())]), options=keys
        ).version
        == 0
    )


def test_the_choice_of_an_implementation_is_accepted_and_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _say_there_is_one.cache_clear()
    options = {"transaction.useOptimized": "false"}
    with caplog.at_level("INFO"):
        Table.create(str(tmp_path / "t"), schema=pa.schema([("id", pa.int64())]), options=options)
        Table.open(str(tmp_path / "t"), options=options)
    assert sum("one implementation" in record.getMessage() for record in caplog.records) == 1
