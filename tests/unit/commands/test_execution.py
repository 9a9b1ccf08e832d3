"""Statements run against real tables: rows, effects, and errors that come through as they are."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table
from indextables.commands import Session, TableName, parse, sql
from indextables.errors import TableNotFoundError, UnknownOptionError
from tests.support.tables import SCHEMA, append, split


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table of three versions."""
    where = str(tmp_path / "it's a table")
    table = Table.create(where, schema=SCHEMA)
    append(table, "a", "b")
    append(table, "c")
    return where


def ran(statement: str, path: str, options: Mapping[str, object] | None = None) -> pa.Table:
    """The rows of a statement about a table, whose columns must be those documented."""
    text = statement.replace("$x", "'" + path.replace("'", "''") + "'")
    command = parse(text)
    assert command is not None
    found = sql(text, options)
    assert found.schema.equals(command.columns)
    return found


def test_history_shows_what_was_committed_newest_first(path: str) -> None:
    rows = ran("DESCRIBE INDEXTABLES HISTORY $x", path).to_pylist()
    assert [row["version"] for row in rows] == [2, 1, 0]
    assert [row["operation"] for row in rows] == ["WRITE", "WRITE", "CREATE"]
    assert all(row["is_readable"] and row["timestamp"].tzinfo is not None for row in rows)
    assert [
        r["version"] for r in ran("DESCRIBE INDEXTABLES HISTORY $x LIMIT 1;", path).to_pylist()
    ] == [2]
    assert ran("DESCRIBE INDEXTABLES HISTORY $x LIMIT 0", path).num_rows == 0


def test_skipped_files_are_shown_with_their_cooldown(path: str) -> None:
    assert ran("DESCRIBE INDEXTABLES SKIPPED FILES $x", path).num_rows == 0
    with Table.open(path).transaction(operation="SKIP") as tx:
        tx.skip("splits/a.split", reason="cannot be read", operation="merge", cooldown_hours=2)
    (row,) = ran("DESCRIBE INDEXTABLES SKIPPED FILES $x", path).to_pylist()
    assert (row["path"], row["reason"], row["operation"]) == (
        "splits/a.split",
        "cannot be read",
        "merge",
    )
    assert row["skip_count"] == 1 and row["in_cooldown"]
    assert (row["retry_after"] - row["skipped_at"]).total_seconds() == 7200
    (state,) = ran("DESCRIBE INDEXTABLES STATE $x", path).to_pylist()
    assert state["num_skipped"] == 1


def test_invalidating_makes_the_next_read_go_to_the_store(path: str) -> None:
    Table.open(path)
    assert Table.open(path).cache_stats().entries
    (row,) = ran("INVALIDATE INDEXTABLES TRANSACTION LOG CACHE FOR $x", path).to_pylist()
    assert row["table_path"] == path and row["cache_hits_before"] > 0
    assert row["result"] != "0 entries forgotten" and row["hit_rate_before"].endswith(" %")
    (again,) = ran("INVALIDATE INDEXTABLES TRANSACTION LOG CACHE FOR $x", path).to_pylist()
    assert again["result"] == "0 entries forgotten"


def test_everything_can_be_forgotten_at_once(path: str) -> None:
    Table.open(path)
    (row,) = ran("INVALIDATE INDEXTABLES TRANSACTION LOG CACHE", path).to_pylist()
    assert row["table_path"] == "all tables"
    (again,) = ran("INVALIDATE INDEXTABLES TRANSACTION LOG CACHE FOR $x", path).to_pylist()
    assert again["result"] == "0 entries forgotten"


def test_a_table_that_cannot_be_read_can_be_forgotten(path: str) -> None:
    assert Table.open(path).version == 2
    log = Path(path) / "_transaction_log"
    log.rename(log.with_name("elsewhere"))
    assert ran("INVALIDATE INDEXTABLES TRANSACTION LOG CACHE FOR $x", path).num_rows == 1


def test_the_environment_shows_settings_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "geheim-1")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "geheim-2")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    options = {"aws.secretKey": "geheim-3", "spark.indextables.transaction.retry.maxAttempts": "7"}
    found = ran("DESCRIBE INDEXTABLES ENVIRONMENT", "", options)
    assert "geheim" not in json.dumps(found.to_pylist())
    assert set(found.column("role").to_pylist()) == {"driver"}
    values = {
        (r["property_type"], r["property_name"]): r["property_value"] for r in found.to_pylist()
    }
    assert values["setting", "aws.secretKey"] == "<hidden>"
    assert values["setting", "transaction.retry.maxAttempts"] == "7"
    assert values["default", "transaction.retry.baseDelayMs"] == "100"
    assert values["variable", "AWS_SECRET_ACCESS_KEY"] == "<hidden>"
    assert values["variable", "AWS_REGION"] == "eu-central-1"
    assert values["system", "process"] == str(os.getpid())
    assert ("version", "indextables") in values and (
        "default",
        "transaction.retry.maxAttempts",
    ) not in values


def test_names_are_resolved_by_the_session(path: str) -> None:
    asked: list[TableName] = []

    def resolve(name: TableName) -> str:
        asked.append(name)
        return path

    command = parse("DESCRIBE INDEXTABLES HISTORY main.`my logs` LIMIT 1")
    assert command is not None
    assert command.run(Session(resolve=resolve)).column("version").to_pylist() == [2]
    assert asked == [TableName(("main", "my logs"))]


def test_errors_of_the_verbs_come_through(tmp_path: Path, path: str) -> None:
    with pytest.raises(TableNotFoundError):
        ran("DESCRIBE INDEXTABLES HISTORY $x", str(tmp_path / "nothing"))
    with pytest.raises(UnknownOptionError):
        ran("DESCRIBE INDEXTABLES HISTORY $x", path, {"transaction.retry.maxAttemptz": 1})


def test_the_log_is_told_action_by_action(path: str) -> None:
    table = Table.open(path)
    with table.transaction(user_metadata="by hand", txn=("stream", 7), check_splits=False) as tx:
        tx.add(split("d", size=5))
        tx.remove("splits/a.split")
        tx.skip("splits/b.split", reason="damaged", operation="merge", cooldown_hours=1)
    found = ran("DESCRIBE INDEXTABLES TRANSACTION LOG $x INCLUDE ALL", path)
    assert set(found.column("is_checkpoint").to_pylist()) == {False}
    assert found.column("version").to_pylist() == sorted(found.column("version").to_pylist())
    first = {r["action_type"]: r for r in found.to_pylist() if r["version"] == 0}
    assert first["protocol"]["protocol_min_reader_version"] == 4
    assert "avroState" in json.loads(first["protocol"]["protocol_reader_features"])
    assert first["metaData"]["metadata_schema_string"] == table.metadata.schema_string
    assert first["metaData"]["metadata_format_provider"] == "indextables"
    last = {r["action_type"]: r for r in found.to_pylist() if r["version"] == 3}
    assert last.keys() == {"commitInfo", "txn", "add", "remove", "mergeskip"}
    assert {r["log_file_path"] for r in last.values()} == {
        "_transaction_log/00000000000000000003.json"
    }
    assert (last["txn"]["txn_app_id"], last["txn"]["txn_version"]) == ("stream", 7)
    assert (last["add"]["path"], last["add"]["size"], last["add"]["num_records"]) == (
        "splits/d.split",
        5,
        10,
    )
    assert last["add"]["modification_time"] == datetime(1970, 1, 1, 0, 0, 0, 1000, UTC)
    assert (
        last["remove"]["path"] == "splits/a.split"
        and last["remove"]["deletion_timestamp"] is not None
    )
    assert (last["mergeskip"]["skip_reason"], last["mergeskip"]["skip_count"]) == ("damaged", 1)
    assert last["commitInfo"]["commit_user_metadata"] == "by hand"


def test_the_log_is_told_from_the_newest_checkpoint_on(path: str) -> None:
    table = Table.open(path)
    table.checkpoint()
    append(table, "d")
    found = ran("DESCRIBE INDEXTABLES TRANSACTION LOG $x", path).to_pylist()
    base = [r for r in found if r["is_checkpoint"]]
    assert {r["version"] for r in base} == {2} and {r["version"] for r in found} == {2, 3}
    assert {r["path"] for r in base if r["action_type"] == "add"} == {
        f"splits/{n}.split" for n in "abc"
    }
    assert {r["added_at_version"] for r in base if r["action_type"] == "add"} == {1, 2}
    assert [r["action_type"] for r in base][:2] == ["protocol", "metaData"]
    every = ran("DESCRIBE INDEXTABLES TRANSACTION LOG $x INCLUDE ALL", path).to_pylist()
    assert {r["version"] for r in every} == {0, 1, 2, 3} and not any(
        r["is_checkpoint"] for r in every
    )


def test_a_state_stands_for_versions_that_were_cleaned_away(path: str) -> None:
    table = Table.open(path)
    table.checkpoint()
    for version in (0, 1):
        (Path(path) / f"_transaction_log/{version:020d}.json").unlink()
    found = ran("DESCRIBE INDEXTABLES TRANSACTION LOG $x INCLUDE ALL", path).to_pylist()
    assert {(r["version"], r["is_checkpoint"]) for r in found} == {(2, True)}


def test_what_another_writer_added_to_the_log_is_shown(path: str) -> None:
    table = Table.open(path)
    lines = [
        {"commitInfo": {"timestamp": 10**15, "clusterId": "c"}},
        {
            "add": {
                "path": "splits/z.split",
                "size": 1,
                "modificationTime": 10**18,
                "newField": {"a": [1]},
            }
        },
        {"newAction": {"x": 1}},
    ]
    content = "\n".join(json.dumps(line) for line in lines)
    (Path(path) / "_transaction_log/00000000000000000003.json").write_text(content)
    info, add, unknown = ran("DESCRIBE INDEXTABLES TRANSACTION LOG $x", path).to_pylist()[-3:]
    assert table.refresh().version == 3
    assert json.loads(info["unknown_fields"]) == {"clusterId": "c"}
    assert json.loads(add["unknown_fields"]) == {"newField": {"a": [1]}}
    assert add["modification_time"] is None, "no calendar has that day"
    assert (unknown["action_type"], json.loads(unknown["unknown_fields"])) == (
        "newAction",
        {"x": 1},
    )


def test_a_checkpoint_is_written_and_described(path: str) -> None:
    (before,) = ran("DESCRIBE INDEXTABLES STATE $x", path).to_pylist()
    assert (before["format"], before["version"], before["latest_version"], before["num_files"]) == (
        "none",
        None,
        2,
        3,
    )
    (done,) = ran("CHECKPOINT INDEXTABLES $x", path).to_pylist()
    assert (done["table_path"], done["status"], done["checkpoint_version"]) == (path, "success", 2)
    assert (done["num_files"], done["protocol_version"], done["is_multi_part"]) == (3, 4, False)
    (after,) = ran("DESCRIBE INDEXTABLES STATE $x", path).to_pylist()
    assert (after["version"], after["num_manifests"], after["total_bytes"]) == (
        2,
        done["num_manifests"],
        300,
    )
    assert not after["needs_compaction"] and after["protocol_version"] == 4
    (again,) = ran("CHECKPOINT INDEXTABLES $x", path).to_pylist()
    assert (again["status"], again["checkpoint_version"]) == ("no_action", 2)


def test_a_state_with_many_tombstones_is_shown_as_one_to_compact(path: str) -> None:
    """Written by a process that tolerates them, seen by one that does not."""
    tolerant = {"state.compaction.tombstoneThreshold": "1"}
    table = Table.open(path)
    table.checkpoint()
    with table.transaction() as tx:
        tx.remove("splits/a.split")
    ran("CHECKPOINT INDEXTABLES $x", path, tolerant)
    (state,) = ran("DESCRIBE INDEXTABLES STATE $x", path).to_pylist()
    assert (state["num_files"], state["num_tombstones"], state["needs_compaction"]) == (2, 1, True)
    assert state["tombstone_ratio"] == pytest.approx(1 / 3)
    (seen,) = ran("DESCRIBE INDEXTABLES STATE $x", path, tolerant).to_pylist()
    assert seen["needs_compaction"] is False
    ran("COMPACT INDEXTABLES $x", path)
    (after,) = ran("DESCRIBE INDEXTABLES STATE $x", path).to_pylist()
    assert (after["num_tombstones"], after["tombstone_ratio"], after["needs_compaction"]) == (
        0,
        0,
        False,
    )


def test_compacting_writes_the_state_anew(path: str) -> None:
    table = Table.open(path, options={"checkpoint.enabled": "false"})
    table.checkpoint()
    with table.transaction() as tx:
        tx.remove("splits/a.split")
    ran("CHECKPOINT INDEXTABLES $x", path)
    append(table, "d")
    (done,) = ran("COMPACT INDEXTABLES $x", path).to_pylist()
    assert (done["status"], done["checkpoint_version"], done["num_files"]) == ("success", 4, 3)
    (state,) = ran("DESCRIBE INDEXTABLES STATE $x", path).to_pylist()
    assert (state["version"], state["num_tombstones"], state["num_manifests"]) == (4, 0, 1)


def test_a_json_checkpoint_by_setting(path: str) -> None:
    (done,) = ran("CHECKPOINT INDEXTABLES $x", path, {"state.format": "json"}).to_pylist()
    assert (done["status"], done["num_manifests"], done["num_files"]) == ("success", 0, 3)
    assert Table.open(path).files().num_rows == 3
