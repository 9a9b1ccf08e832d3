"""What a table may decide and what only its reader may: somebody else's table names no folder, key
or thread of ours.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from indextables import Table, config
from indextables.config.splits import SplitCacheSettings, SplitWriterSettings
from indextables.errors import InvalidInputError
from indextables.log.log_files import version_path
from indextables.model.actions import MetadataAction
from indextables.storage.spec import StoreSpec
from indextables.wire import version_file
from tests.support.rows import TEXT

ROWS = pa.table({"id": [1, 2], "message": ["disk full", "cache cold"]})
OF_CALLERS = sorted(key for key, found in config.REGISTRY.settings.items() if not found.in_table)
HOSTILE = {
    "aws.endpoint": "http://attacker.example",
    "aws.allowHttp": "true",
    "aws.credentialsProviderClass": "os:getcwd",
    "indexWriter.tempDirectoryPath": "/etc",
    "indexWriter.heapSize": "900G",
    "read.parallelism": "256",
    "spark.indextables.checkpoint.parallelism": "256",
    "CACHE.MAXSIZE": "0",
}


def hostile(path: Path, settings: Mapping[str, str]) -> str:
    """A table whose version 2 carries settings as no release of ours would write them."""
    table = Table.create(str(path), schema=ROWS.schema, options=TEXT)
    table.append(ROWS)
    old = table.metadata
    changed = msgspec.structs.replace(old, configuration={**(old.configuration or {}), **settings})
    (path / version_path(2)).write_bytes(version_file.encode([changed]))
    return str(path)


def test_reading_somebodys_table_leaves_the_folders_of_the_reader_alone(tmp_path: Path) -> None:
    mine = tmp_path / "home" / f"{socket.gethostname()}-backup"
    mine.mkdir(parents=True)
    (mine / "only-copy").write_text("here")
    path = hostile(tmp_path / "t", {"cache.directoryPath": str(tmp_path / "home")})
    table = Table.open(path)
    assert table.search("message:disk").num_rows == 1
    assert list((tmp_path / "home").iterdir()) == [mine]
    assert (mine / "only-copy").read_text() == "here"


def test_settings_of_the_reader_are_not_taken_from_the_table(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = hostile(tmp_path / "t", HOSTILE | {"checkpoint.interval": "7"})
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            table = Table.open(path)
    assert table.settings.group(SplitCacheSettings) == SplitCacheSettings()
    assert table.settings.group(SplitWriterSettings) == SplitWriterSettings()
    assert table.settings["read.parallelism"] == 8
    assert table.settings["checkpoint.interval"] == 7
    assert StoreSpec.from_url("s3://bucket/t", table.settings) == StoreSpec.from_url(
        "s3://bucket/t", None
    )
    (told,) = [record.getMessage() for record in caplog.records if "ignored" in record.getMessage()]
    assert path in told
    assert "aws.credentialsProviderClass" in told
    assert "attacker" not in told
    assert table.append(ROWS) == 3
    assert Table.open(path, options={"read.parallelism": 3}).settings["read.parallelism"] == 3


def test_verify_reports_them_and_unset_drops_them(tmp_path: Path) -> None:
    path = hostile(tmp_path / "t", HOSTILE)
    (found,) = Table.open(path).verify().findings
    assert (found.check, found.severity) == ("settings", "warning")
    assert "cache.maxSize" in found.message
    assert "checkpoint.parallelism" in found.message
    Table.open(path).update_metadata(unset=tuple(HOSTILE))
    assert Table.open(path).verify().healthy


def test_a_key_is_dropped_by_its_bare_name(tmp_path: Path) -> None:
    path = hostile(tmp_path / "t", {"spark.indextables.read.parallelism": "2"})
    Table.open(path).update_metadata(unset=("read.parallelism",))
    assert Table.open(path).verify().healthy


def test_keys_of_another_engine_and_the_schema_registry_are_left_alone(tmp_path: Path) -> None:
    path = hostile(tmp_path / "t", {"delta.appendOnly": "false", "docMappingSchema.abc": "[]"})
    assert Table.open(path).verify().healthy
    assert (Table.open(path).metadata.configuration or {})["delta.appendOnly"] == "false"


@pytest.mark.parametrize("key", OF_CALLERS)
def test_a_setting_of_callers_is_never_put_into_a_table(tmp_path: Path, key: str) -> None:
    value, kind = config.REGISTRY.settings[key].default, config.REGISTRY.settings[key].type.name
    some = "0" if kind in ("integer", "duration") else "x"
    given = {key: some if value in (None, "") else value, "checkpoint.interval": 7}
    if config.REGISTRY.settings[key].group not in config.STORE_GROUPS:
        table = Table.create(str(tmp_path / "t"), schema=ROWS.schema, options=given)
    else:
        table = Table.create(
            str(tmp_path / "t"), schema=ROWS.schema, options={"checkpoint.interval": 7}
        )
    assert table.metadata.configuration == {"checkpoint.interval": "7"}
    with pytest.raises(
        InvalidInputError,
        match=f"{key} cannot be stored in table metadata.*option when opening the table",
    ):
        table.update_metadata(options={f"spark.indextables.{key}": given[key]})
    assert Table.open(str(tmp_path / "t")).version == 0


def test_places_credentials_classes_threads_and_memory_are_of_callers() -> None:
    words = (
        "path",
        "directory",
        "heap",
        "parallelism",
        "cache.",
        "aws.",
        "azure.",
        "gcp.",
        "storage.",
        "class",
    )
    named = {key for key in config.REGISTRY.settings if any(word in key.lower() for word in words)}
    assert named <= set(OF_CALLERS)
    assert {key for key, found in config.REGISTRY.settings.items() if found.secret} <= set(
        OF_CALLERS
    )


def test_metadata_is_what_the_helper_makes_it(tmp_path: Path) -> None:
    """The table of these tests is hostile only if its metadata really carries what it should."""
    path = hostile(tmp_path / "t", HOSTILE)
    actions = version_file.decode((Path(path) / version_path(2)).read_bytes(), path="2.json")
    (metadata,) = [a for a in actions if isinstance(a, MetadataAction)]
    assert HOSTILE.items() <= (metadata.configuration or {}).items()
