"""IndexTables for the JVM and this package on one table: either the other engine is kept out, or
what it did is found.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from indextables import Table
from indextables.errors import CorruptTableError
from indextables.log import log_files
from indextables.model.actions import AddAction, ProtocolAction
from indextables.wire import version_file
from tests.golden.golden_tables import GoldenTable, for_each_jvm_table, for_each_table, jvm_table
from tests.support.jvm_copies import copied
from tests.support.two_engines import (
    appended_by_an_earlier_release,
    fresh,
    one_row,
    other_engine_commits,
    state_of,
    states,
)

LATER_MS = 10_000


@for_each_jvm_table
def test_the_first_write_keeps_the_other_engine_out(
    table: GoldenTable, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copy = copied(table, tmp_path)
    root, before = Path(copy.path), copy.count()
    with caplog.at_level(logging.WARNING):
        version = copy.append(one_row(copy))
    assert version is not None
    said = [r.getMessage() for r in caplog.records if "another engine" in r.getMessage()]
    assert len(said) == 1
    assert "refused" in said[0]
    written = version_file.decode((root / log_files.version_path(version)).read_bytes(), path="v")
    (protocol,) = [a for a in written if isinstance(a, ProtocolAction)]
    assert "parquetSplits" in (protocol.reader_features or ())
    assert "parquetSplits" in (protocol.writer_features or ())
    assert states(root)[-1] == version
    assert state_of(root, version).protocol_version == 5
    with pytest.raises(AssertionError, match="refuses"):
        other_engine_commits(root)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        copy.append(one_row(copy))
    assert not caplog.records
    again = fresh(copy)
    assert again.count() == before + 2
    assert again.protocol.min_reader_version == 4
    assert again.verify(full=True).findings == ()


@for_each_table
def test_every_golden_table_is_taken_over_by_its_first_write(
    table: GoldenTable, tmp_path: Path
) -> None:
    shutil.copytree(table.path, tmp_path / "t")
    copy = Table.open(
        str(tmp_path / "t"), options={"checkpoint.enabled": False, "state.format": "json"}
    )
    copy.update_metadata(description="ours")
    state = state_of(tmp_path / "t", copy.version)
    assert state.protocol_version == 5
    assert state.num_files == table.expected["live_files"]


@pytest.mark.parametrize("commits", [1, 3])
@pytest.mark.parametrize("name", ["t03_partitioned", "t07_merged", "t13_checkpointed"])
def test_a_state_beside_our_version_is_found_and_both_are_named(
    name: str, commits: int, tmp_path: Path
) -> None:
    table = appended_by_an_earlier_release(copied(jvm_table(name), tmp_path))
    root, ours = Path(table.path), table.version
    for _ in range(commits):
        other_engine_commits(root)
    looks: list[Callable[[], Table]] = [
        lambda: fresh(table),
        lambda: Table.open(table.path),
        table.refresh,
    ]
    for look in looks:
        with pytest.raises(CorruptTableError) as raised:
            look()
        assert log_files.version_path(ours) in raised.value.message
        assert log_files.state_path(ours) in raised.value.message
    with pytest.raises(CorruptTableError, match="does not descend"):
        table.append(one_row(table))
    for verb in (table.checkpoint, table.merge):
        with pytest.raises(CorruptTableError, match="does not descend"):
            verb()
    assert any("does not descend" in finding.message for finding in table.verify().findings)
    assert Table.open(table.path, version=ours - 1).count() == len(jvm_table(name).expected["rows"])


def test_a_version_on_top_of_their_state_does_not_hide_it(tmp_path: Path) -> None:
    """The other engine's state of a number between two of our versions."""
    table = appended_by_an_earlier_release(copied(jvm_table("t13_checkpointed"), tmp_path))
    root = Path(table.path)
    later = root / log_files.version_path(table.version + 1)
    later.write_bytes((root / log_files.version_path(table.version)).read_bytes())
    other_engine_commits(root)
    with pytest.raises(CorruptTableError, match="does not descend"):
        fresh(table)


def test_verify_finds_what_an_earlier_release_covered_up(tmp_path: Path) -> None:
    """An earlier release read the other engine's state, went on, and wrote a state of its own over
    the loss.
    """
    table = appended_by_an_earlier_release(copied(jvm_table("t13_checkpointed"), tmp_path))
    root, lost = Path(table.path), table.version
    theirs = other_engine_commits(root)
    hidden = tmp_path / "hidden"
    (root / log_files.version_path(lost)).rename(hidden)
    again = fresh(table)
    again.append(one_row(again))
    hidden.rename(root / log_files.version_path(lost))
    assert fresh(table).version == again.version
    (finding,) = [f for f in fresh(table).verify().findings if "does not descend" in f.message]
    assert log_files.version_path(lost) in finding.message
    assert log_files.state_path(theirs) in finding.message


def test_the_way_out_leads_to_the_rows_of_both(tmp_path: Path) -> None:
    golden = jvm_table("t13_checkpointed")
    table = appended_by_an_earlier_release(copied(golden, tmp_path))
    root = Path(table.path)
    other_engine_commits(root)
    with pytest.raises(CorruptTableError) as raised:
        fresh(table)
    version = root / raised.value.context["version_file"]
    actions = version_file.decode(version.read_bytes(), path="v")
    version.rename(tmp_path / version.name)
    again = fresh(table)
    assert again.count() == len(golden.expected["rows"])
    for action in actions:
        if isinstance(action, AddAction):
            again.append(pq.read_table(root / action.path))
    assert fresh(table).count() == len(golden.expected["rows"]) + 1
    assert fresh(table).count(where="id = 77000") == 1


def test_a_state_of_ours_from_another_history_is_found(tmp_path: Path) -> None:
    """Two copies of a table went different ways, and a state of the one got into the other."""
    schema = pa.schema([("id", pa.int64())])
    rows = pa.table({"id": [1]}, schema=schema)
    Table.create(str(tmp_path / "a"), schema=schema)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    for side in ("a", "b"):
        Table.open(str(tmp_path / side)).append(rows)
    Table.open(str(tmp_path / "b")).checkpoint()
    for folder in ("state-v00000000000000000001", "manifests"):
        shutil.copytree(
            tmp_path / "b/_transaction_log" / folder, tmp_path / "a/_transaction_log" / folder
        )
    with pytest.raises(CorruptTableError, match="does not descend"):
        Table.open(str(tmp_path / "a"))


def test_a_version_file_that_cannot_be_read_is_no_reason_not_to_open(tmp_path: Path) -> None:
    """What a state covers is not needed; only `verify` minds."""
    schema = pa.schema([("id", pa.int64())])
    table = Table.create(str(tmp_path / "t"), schema=schema)
    table.append(pa.table({"id": [1]}, schema=schema))
    table.checkpoint()
    (tmp_path / "t" / log_files.version_path(table.version)).write_bytes(b"\x00garbled")
    assert fresh(table).count() == 1
