"""Copies of states in another place: what they bring back, what is refused, and that no commit ever
fails for them.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from indextables import Table
from indextables.cli.app import app
from indextables.errors import IndexTablesError, InvalidInputError, RefusedError
from indextables.log.cache import PROCESS_CACHE
from indextables.log.checkpoint.checkpointer import CHECKPOINTS
from indextables.log.log_files import version_path
from indextables.log.replica import folder_of
from indextables.wire import version_file
from tests.support.rows import ids, rows, table_of
from tests.support.stores import age, contents

SETTING = "checkpoint.replica.location"


def replicated(
    path: Path, replica: Path, *, appends: int = 3, after: int = 0, **more: object
) -> Table:
    """A table with a state that was copied, and versions after it."""
    table_of(path, appends=appends)
    table = Table.open(
        str(path), options={SETTING: str(replica), "checkpoint.enabled": False, **more}
    )
    table.checkpoint()
    for number in range(after):
        table.append(rows([1000 + number]))
    return table


def lose_covered_versions(table: Table, *, until: int) -> None:
    for file in (Path(table.path) / "_transaction_log").glob("0*.json"):
        if int(file.name.split(".")[0]) <= until:
            file.unlink()
    PROCESS_CACHE.invalidate(table.path)


def states(table: Table) -> list[Path]:
    return sorted((Path(table.path) / "_transaction_log").glob("state-v*/_manifest.avro"))


def manifests(table: Table) -> list[Path]:
    return sorted((Path(table.path) / "_transaction_log" / "manifests").glob("*.avro"))


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0x10
    file.write_bytes(bytes(data))


def damage(table: Table, kind: str) -> None:
    """Nothing in the log can bring the table back after this."""
    lose_covered_versions(table, until=int(states(table)[-1].parent.name[-20:]))
    if kind == "a state flipped":
        flip(states(table)[-1])
    elif kind == "a manifest flipped":
        flip(manifests(table)[-1])
    elif kind == "manifests gone":
        for file in manifests(table):
            file.unlink()
    elif kind == "states gone":
        for file in states(table):
            shutil.rmtree(file.parent)
    elif kind == "the whole log gone":
        shutil.rmtree(Path(table.path) / "_transaction_log")
    PROCESS_CACHE.invalidate(table.path)


KINDS = (
    "a state flipped",
    "a manifest flipped",
    "manifests gone",
    "states gone",
    "the whole log gone",
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("after", [0, 2])
def test_a_table_that_nothing_else_can_bring_back_comes_back(
    tmp_path: Path, kind: str, after: int
) -> None:
    table = replicated(tmp_path / "t", tmp_path / "replica", after=after)
    before, known = ids(table), table.version - after
    damage(table, kind)
    lost = kind == "the whole log gone"
    left = contents(table.path)
    with pytest.raises(IndexTablesError):
        ids(Table.open(table.path))
    preview = Table.repair(table.path, from_replica=str(tmp_path / "replica"), dry_run=True)
    assert (preview.status, preview.source_version) == ("dry_run", known if lost else known + after)
    assert contents(table.path) == left
    report = Table.repair(
        table.path, from_replica=True, options={SETTING: str(tmp_path / "replica")}
    )
    assert (report.status, report.missing_splits) == ("success", 0)
    fresh = Table.open(table.path)
    assert ids(fresh) == (before if not lost else sorted(set(before) - {1000, 1001}))
    if lost and after:
        assert "2 splits that are there are not part of it" in report.message
    assert {
        path: data
        for path, data in contents(table.path).items()
        if path in left and "_last_ch" not in path
    } == {path: data for path, data in left.items() if "_last_ch" not in path}
    fresh.append(rows([77]))
    assert 77 in ids(Table.open(table.path))
    assert [version["operation"] for version in fresh.history(limit=2).to_pylist()] == [
        "WRITE",
        "REPAIR",
    ]
    assert lost is False or fresh.verify(full=True).healthy


def test_the_background_copies_what_a_commit_made_due(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    writer = Table.open(
        table.path, options={SETTING: str(tmp_path / "r"), "checkpoint.interval": 2}
    )
    for number in range(4):
        writer.append(rows([number + 100]))
    CHECKPOINTS.wait()
    copied = {p for p in contents(str(tmp_path / "r")) if p.endswith(".avro")}
    newest = states(table)[-1]
    assert f"{table.metadata.id}/_transaction_log/{newest.parent.name}/_manifest.avro" in copied
    assert writer.metrics().value("indextables_replica_bytes_total") > 0


@pytest.mark.parametrize("place", ["a file", "read only"])
def test_a_replica_that_cannot_be_written_fails_no_commit_and_is_counted(
    tmp_path: Path, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "r").write_text("no folder")
    table_of(tmp_path / "t", appends=1)
    location = tmp_path / "r" if place == "a file" else Path("/proc/nothing")
    table = Table.open(str(tmp_path / "t"), options={SETTING: str(location)})
    with caplog.at_level(logging.WARNING):
        table.checkpoint()
        assert table.append(rows([9])) == table.version
    assert "not copied to its replica" in caplog.text
    assert table.metrics().value("indextables_replica_failures_total") == 1
    assert ids(Table.open(table.path)) == ids(table)


def test_the_replica_of_another_table_is_refused_by_name(tmp_path: Path) -> None:
    other = replicated(tmp_path / "other", tmp_path / "r")
    table = replicated(tmp_path / "t", tmp_path / "mine")
    damage(table, "a manifest flipped")
    left = contents(table.path)
    with pytest.raises(RefusedError, match="of other tables") as told:
        Table.repair(table.path, from_replica=str(tmp_path / "r"))
    assert other.metadata.id in told.value.message
    assert table.metadata.id in told.value.message
    # Under the name of this table it is still the other's.
    shutil.move(tmp_path / "r" / other.metadata.id, tmp_path / "r" / table.metadata.id)
    with pytest.raises(RefusedError, match=f"another table: {other.metadata.id}"):
        Table.repair(table.path, from_replica=str(tmp_path / "r"))
    assert contents(table.path) == left


def test_a_lost_log_takes_no_table_whose_splits_are_elsewhere(tmp_path: Path) -> None:
    replicated(tmp_path / "other", tmp_path / "r")
    table = replicated(tmp_path / "t", tmp_path / "mine")
    damage(table, "the whole log gone")
    with pytest.raises(RefusedError, match="none of the splits"):
        Table.repair(table.path, from_replica=str(tmp_path / "r"))
    with pytest.raises(RefusedError, match="none of the splits"):
        Table.repair(str(tmp_path / "empty"), from_replica=str(tmp_path / "r"))
    assert not (tmp_path / "empty").exists()


def test_an_older_replica_is_refused_by_name(tmp_path: Path) -> None:
    table = replicated(tmp_path / "t", tmp_path / "r", after=2)
    Table.open(table.path).checkpoint()
    damage(table, "states gone")
    newer = Path(table.path) / "_transaction_log" / f"state-v{table.version:020d}"
    newer.mkdir()
    (newer / "_manifest.avro").write_bytes(b"damaged")
    with pytest.raises(
        RefusedError, match=f"older than the table: it ends at version {table.version - 2}"
    ):
        Table.repair(table.path, from_replica=str(tmp_path / "r"))


def test_another_history_of_the_same_table_is_refused(tmp_path: Path) -> None:
    table = replicated(tmp_path / "t", tmp_path / "mine")
    shutil.copytree(table.path, tmp_path / "copy")
    for path, value in ((tmp_path / "copy", 50), (Path(table.path), 60)):
        twin = Table.open(
            str(path), options={SETTING: str(tmp_path / "r")} if path.name == "copy" else None
        )
        twin.append(rows([value]))
        twin.checkpoint()
    (Path(table.path) / "_transaction_log" / f"{table.version:020d}.json").unlink()
    for file in manifests(table):
        flip(file)
    PROCESS_CACHE.invalidate(table.path)
    with pytest.raises(RefusedError, match="another history"):
        Table.repair(table.path, from_replica=str(tmp_path / "r"))


@pytest.mark.parametrize("what", ["manifests", "state-v*"])
def test_a_damaged_replica_is_refused(tmp_path: Path, what: str) -> None:
    table = replicated(tmp_path / "t", tmp_path / "r")
    damage(table, "manifests gone")
    (file,) = (tmp_path / "r" / table.metadata.id / "_transaction_log").glob(f"{what}/*.avro")
    flip(file)
    with pytest.raises(RefusedError, match=r"checksum|sync|frame"):
        Table.repair(table.path, from_replica=str(tmp_path / "r"))


@pytest.mark.parametrize("what", ["manifests", "state-v*"])
def test_a_checkpoint_that_is_asked_for_mends_a_damaged_replica(tmp_path: Path, what: str) -> None:
    table = replicated(tmp_path / "t", tmp_path / "r")
    (file,) = (tmp_path / "r" / table.metadata.id / "_transaction_log").glob(f"{what}/*.avro")
    whole = file.read_bytes()
    flip(file)
    table.checkpoint()
    assert file.read_bytes() == whole


def test_two_tables_of_one_id_do_not_share_a_replica_in_silence(tmp_path: Path) -> None:
    table_of(tmp_path / "t", appends=2)
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    twins = [
        Table.open(str(tmp_path / name), options={SETTING: str(tmp_path / "r")})
        for name in ("t", "copy")
    ]
    for number, twin in enumerate(twins):
        twin.append(rows([number + 50]))
        twin.checkpoint()
    assert [twin.metrics().value("indextables_replica_failures_total") for twin in twins] == [0, 1]


def test_old_copies_go_by_the_retention_of_states(tmp_path: Path) -> None:
    table = replicated(tmp_path / "t", tmp_path / "r")
    folder = tmp_path / "r" / table.metadata.id
    for number in range(3):
        table.append(rows([number + 50]))
        table.checkpoint()
    assert len([*folder.glob("_transaction_log/state-v*")]) >= 4
    age(folder, hours=24 * 60)
    table.append(rows([99]))
    table.checkpoint()
    kept = sorted(
        p.name for p in folder.glob("_transaction_log/state-v*/_manifest.avro") for p in [p.parent]
    )
    assert len(kept) == int(str(table.settings["state.retention.versions"]))
    damage(table, "states gone")
    Table.repair(table.path, from_replica=str(tmp_path / "r"))
    assert 99 in ids(Table.open(table.path))


def test_a_table_that_opens_is_left_as_it_is(tmp_path: Path) -> None:
    table = replicated(tmp_path / "t", tmp_path / "r", after=1)
    left = contents(table.path)
    assert Table.repair(table.path, from_replica=str(tmp_path / "r")).status == "no_action"
    assert contents(table.path) == left


def test_a_log_that_lost_its_end_and_opens_at_an_older_version_gets_it_back(tmp_path: Path) -> None:
    table = replicated(tmp_path / "t", tmp_path / "r", appends=5)
    before = ids(table)
    log = tmp_path / "t" / "_transaction_log"
    for file in states(table):
        shutil.rmtree(file.parent)
    for number in (4, 5, 6):
        (log / f"{number:020d}.json").unlink(missing_ok=True)
    (log / "_last_checkpoint").unlink()
    PROCESS_CACHE.invalidate(table.path)
    assert len(ids(Table.open(table.path))) < len(before)
    report = Table.repair(table.path, from_replica=tmp_path / "r")  # type: ignore[arg-type] # a Path does too
    assert report.status == "success"
    assert ids(Table.open(table.path)) == before


def test_rows_that_were_deleted_stay_deleted_and_tags_stay(tmp_path: Path) -> None:
    table_of(tmp_path / "t", appends=3)
    table = Table.open(
        str(tmp_path / "t"), options={SETTING: str(tmp_path / "r"), "delete.mode": "vector"}
    )
    table.delete(where="id = 7")
    table.tag("release")
    table.checkpoint()
    before, tags = ids(table), table.tags()
    damage(table, "the whole log gone")
    Table.repair(table.path, from_replica=str(tmp_path / "r"))
    fresh = Table.open(table.path)
    assert 7 not in ids(fresh)
    assert (ids(fresh), fresh.tags(), fresh.metadata.id) == (before, tags, table.metadata.id)


def test_a_repair_and_verify_tell_of_tags_whose_versions_are_lost(tmp_path: Path) -> None:
    table_of(tmp_path / "t", appends=3)
    table = Table.open(
        str(tmp_path / "t"),
        options={SETTING: str(tmp_path / "r"), "purge.retentionCheckEnabled": False},
    )
    table.tag("release")
    table.append(rows([500]))
    table.checkpoint()
    damage(table, "the whole log gone")
    for dry_run in (True, False):
        report = Table.repair(table.path, from_replica=str(tmp_path / "r"), dry_run=dry_run)
        assert "'release' (version 3)" in report.message and "untag" in report.message
    fresh = Table.open(table.path, options={"purge.retentionCheckEnabled": False})
    with pytest.raises(IndexTablesError, match="Version 3"):
        Table.open(table.path, version="release")
    (finding,) = fresh.verify().findings
    assert (finding.check, finding.severity) == ("tag", "warning")
    assert "Version 3" in finding.message and "untag('release')" in finding.message
    with pytest.raises(RefusedError, match="release"):
        fresh.purge(older_than_hours=0)
    fresh.untag("release")
    fresh.purge(older_than_hours=0)
    assert (fresh.verify().findings, len(ids(fresh))) == ((), 31)


def test_what_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    with pytest.raises(InvalidInputError, match="Nothing says where"):
        Table.repair(table.path, from_replica=True)
    with pytest.raises(InvalidInputError, match="not both"):
        Table.repair(table.path, from_replica=str(tmp_path / "r"), at=str(tmp_path / "x"))
    with pytest.raises(InvalidInputError, match="would be lost with it"):
        Table.open(table.path, options={SETTING: f"{table.path}/replica"})
    with pytest.raises(InvalidInputError):
        table.update_metadata(options={SETTING: str(tmp_path / "r")})


def test_the_setting_in_a_tables_metadata_is_not_followed(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    old = table.metadata
    crafted = msgspec.structs.replace(
        old, configuration={**(old.configuration or {}), SETTING: str(tmp_path / "r")}
    )
    (tmp_path / "t" / version_path(2)).write_bytes(version_file.encode([crafted]))
    fresh = Table.open(table.path)
    fresh.append(rows([5]))
    fresh.checkpoint()
    assert not (tmp_path / "r").exists()


def test_the_command_line_takes_the_place(tmp_path: Path) -> None:
    table = replicated(tmp_path / "t", tmp_path / "r")
    before = ids(table)
    damage(table, "states gone")
    ran = CliRunner().invoke(
        app, ["repair", table.path, "--from-replica", str(tmp_path / "r"), "--json"]
    )
    assert ran.exit_code == 0, ran.output
    assert ids(Table.open(table.path)) == before


def test_an_id_that_is_no_name_leads_nowhere_else() -> None:
    assert (
        folder_of("123e4567-e89b-12d3-a456-426614174000") == "123e4567-e89b-12d3-a456-426614174000"
    )
    for hostile in ("../../etc", "a/b", "", "..", "x" * 300):
        assert "/" not in folder_of(hostile)
        assert len(folder_of(hostile)) == 64
