"""merge, checkpoint, compact, verify, repair, purge, truncate, drop-partitions, restore."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from indextables import Table
from tests.cli.calls import Call
from tests.support.stores import swap_logs


def test_merge(call: Call, logs: Path, tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_text('{"day":"2026-11-02","message":"more"}\n')
    call("append", logs, tmp_path / "more.jsonl")
    assert call("merge", logs, "--dry-run", "--json").json["status"] == "dry_run"
    assert (
        call("merge", logs, "--target-size", "1G", "--where", "day = '2026-11-01'", "--json").json[
            "merged_files"
        ]
        == 0
    )
    assert call("merge", logs, "--json").json["merged_files"] == 2
    refused = call("merge", logs, "--target-size", "1X", code=2).err
    assert "--target-size is '1X', which is not a size" in refused
    assert "100M" in refused


def test_checkpoint_and_compact(call: Call, logs: Path) -> None:
    assert call("checkpoint", logs, "--dry-run", "--json").json["version"] == 2
    assert call("checkpoint", logs, "--json").json["written"] is True
    assert call("compact", logs, "--json").json["version"] == 2
    assert call("state", logs, "--json").json["version"] == 2


def test_verify_finds_a_flipped_byte_and_says_so_in_its_exit_code(call: Call, logs: Path) -> None:
    assert call("verify", logs, "--full", "--json").json["status"] == "healthy"
    victim = logs / Table.open(str(logs)).files().column("path")[0].as_py()
    whole = victim.read_bytes()
    victim.write_bytes(whole[:50] + bytes([whole[50] ^ 1]) + whole[51:])
    told = call("verify", logs, "--full", "--json", code=8).json
    assert [finding["path"] for finding in told["findings"]] == [
        victim.relative_to(logs).as_posix()
    ]
    assert call("verify", logs, "--full", "--dry-run", "--json").json["splits_checked"] == 2


def test_repair_rebuilds_a_lost_log_and_copies_a_damaged_one(
    call: Call, logs: Path, tmp_path: Path
) -> None:
    assert call("repair", logs, "--json").json["status"] == "no_action"
    assert call("repair", logs, "--at", tmp_path / "copy", "--json").json["valid_splits"] == 2
    shutil.rmtree(logs / "_transaction_log")
    assert "indextables create" in call("count", logs, code=3).err
    assert call("repair", logs, "--dry-run", "--json").json["valid_splits"] == 2
    call("repair", logs)
    assert call("count", logs).out == "3\n"


def test_the_advice_for_a_missing_split_leads_to_every_other_row(
    call: Call, logs: Path, tmp_path: Path
) -> None:
    lost = Table.open(str(logs)).files().to_pylist()[0]
    (logs / lost["path"]).unlink()
    told = call("scan", logs, code=8).err
    assert (
        "indextables repair PATH --at NEW_PATH` and put it in the place of the table's log"
        in " ".join(told.split())
    )
    swap_logs(
        call("repair", logs, "--at", tmp_path / "copy", "--json").json["message"],
        keep=tmp_path / "damaged",
    )
    assert call("scan", logs, "--json").out.count("message") == 3 - lost["num_records"]


def test_restore_brings_a_version_back(call: Call, logs: Path) -> None:
    assert "--timestamp" in call("restore", logs, code=2).err
    assert "files_removed" in call("restore", logs, "--version", "1", code=9).err
    assert call("restore", logs, "--version", "1", "--yes", "--json").json["version"] == 3
    assert call("count", logs).out == "2\n"
    assert call("count", logs, "--version-as-of", "2").out == "3\n"


def test_drop_partitions(call: Call, logs: Path) -> None:
    assert "partition columns" in call("drop-partitions", logs, "level = 'INFO'", code=2).err
    assert (
        call("drop-partitions", logs, "day = '2026-11-02'", "--dry-run", "--json").json[
            "splits_removed"
        ]
        == 1
    )
    assert call("count", logs).out == "3\n"
    assert (
        call("drop-partitions", logs, "day = '2026-11-02'", "-y", "--json").json[
            "partitions_dropped"
        ]
        == 1
    )
    assert call("count", logs).out == "2\n"


def test_truncate_ends_time_travel(call: Call, logs: Path) -> None:
    assert call("truncate", logs, "--dry-run", "--json").json["versions_deleted"] == 2
    call("truncate", logs, "--yes")
    assert "can be read" in call("count", logs, "--version-as-of", "1", code=3).err


def test_purge_refuses_what_is_unsafe_and_says_how_to_override(call: Call, logs: Path) -> None:
    refused = call("purge", logs, "--older-than-hours", "1", "--yes", code=9)
    assert "-o purge.retentionCheckEnabled=false" in refused.err
    words = ("purge", logs, "--older-than-hours", "0", "-o", "purge.retentionCheckEnabled=false")
    call("delete", logs, "--where", "day = '2026-11-02'", "--yes")
    assert call(*words, "--dry-run", "--json").json["orphaned_files_found"] == 1
    assert "orphaned_files_found" in call(*words, code=9).err
    assert len(list(logs.rglob("*.split"))) == 2


def test_erase_ends_with_a_code_of_its_own_until_it_is_proved(call: Call, logs: Path) -> None:
    where = ("--where", "message = 'disk full on data2'")
    planned = call("erase", logs, *where, "--dry-run", "--json").json
    assert (planned["erased_rows"], planned["proved"]) == (1, False)
    kept = call("erase", logs, *where, "--yes", "--json", code=13).json
    assert (kept["erased_rows"], kept["proved"]) == (1, False)
    assert {holder["fate"] for holder in kept["holders"]} == {"keep"}
    refused = call("erase", logs, *where, "--retention-hours", "0", "--yes", code=9)
    assert "-o purge.retentionCheckEnabled=false" in refused.err
    at_once = ("--retention-hours", "0", "-o", "purge.retentionCheckEnabled=false")
    assert "This needs confirmation" in call("erase", logs, *where, *at_once, code=9).err
    assert "proved               true" in call("erase", logs, *where, *at_once, "--yes").out
    assert not any(b"data2" in path.read_bytes() for path in logs.rglob("*") if path.is_file())


def test_purge_reports_deleted_rows_that_stay(call: Call, logs: Path) -> None:
    Table.open(str(logs), options={"delete.mode": "vector"}).delete(
        where="message LIKE '%timeout%'"
    )
    report = call("purge", logs, "--dry-run", "--json").json
    assert (report["splits_with_deleted_rows"], report["masked_rows"]) == (1, 1)
    assert "still holds the bytes of 1 deleted row" in call("purge", logs, "--dry-run").out


@pytest.mark.parametrize("verb", ["purge", "truncate", "restore"])
def test_what_cannot_be_taken_back_is_not_done_unasked(call: Call, logs: Path, verb: str) -> None:
    before = {path: path.read_bytes() for path in logs.rglob("*") if path.is_file()}
    words = ["--version", "0"] if verb == "restore" else []
    assert "This needs confirmation" in call(verb, logs, *words, code=9).err
    assert {path: path.read_bytes() for path in logs.rglob("*") if path.is_file()} == before


def test_tags(call: Call, logs: Path) -> None:
    newest = Table.open(str(logs)).version
    assert call("tag", logs, "--json").json == []
    assert call("tag", logs, "release-1", "--version", "1", "--json").json == [
        {"tag": "release-1", "version": 1}
    ]
    call("tag", logs, "release-2")
    tagged = {row["version"]: row["tags"] for row in call("history", logs, "--json").json}
    assert tagged[1] == "release-1"
    assert (
        call("count", logs, "--version-as-of", "release-1", "--json").out
        == call("count", logs, "--version-as-of", "1", "--json").out
    )
    assert "release-1" in call("describe", logs).out
    assert "release-1" in call("history", logs).out
    assert (
        call("restore", logs, "--version", "release-1", "--dry-run", "--json").json[
            "restored_version"
        ]
        == 1
    )
    assert "no tag 'nothing'" in call("tag", logs, "nothing", "--remove", code=3).err
    assert "which tag" in call("tag", logs, "--remove", code=2).err
    assert [row["tag"] for row in call("tag", logs, "release-1", "--remove", "--json").json] == [
        "release-2"
    ]
    assert Table.open(str(logs)).tags() == {"release-2": newest + 1}
