"""Upkeep changes nothing of a table that needs a newer writer: neither rows, nor the log, nor
history.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from indextables import Table
from indextables.errors import UnsupportedError
from indextables.log.cleaning import policy_of
from indextables.log.log_files import version_path
from indextables.model.actions import ProtocolAction
from indextables.wire import version_file
from tests.support.rows import ids, rows, table_of
from tests.support.stores import age, contents

OPTIONS: dict[str, object] = {"purge.retentionCheckEnabled": False}
NEWER = {
    "writer version 5": lambda protocol: replace(protocol, min_writer_version=5),
    "an unknown writer feature": lambda p: replace(
        p, writer_features=(*(p.writer_features or ()), "someday")
    ),
}
CHANGES: dict[str, Callable[[Table], object]] = {
    "truncate": lambda t: t.truncate_time_travel(),
    "truncate, dry run": lambda t: t.truncate_time_travel(dry_run=True),
    "checkpoint": lambda t: t.checkpoint(),
    "checkpoint, dry run": lambda t: t.checkpoint(dry_run=True),
    "compact": lambda t: t.compact(),
    "purge": lambda t: t.purge(older_than_hours=0, log_retention_hours=0),
    "merge": lambda t: t.merge(),
    "restore": lambda t: t.restore(version=1),
    "tag": lambda t: t.tag("a"),
    "append": lambda t: t.append(rows([99])),
}


def commit_protocol(
    path: str, version: int, change: Callable[[ProtocolAction], ProtocolAction]
) -> None:
    """What a newer release does: it commits a version that raises the protocol."""
    protocol = change(Table.open(path).protocol)
    Path(path, version_path(version)).write_bytes(version_file.encode([protocol]))


@pytest.mark.parametrize("is_held", [True, False], ids=["open before", "opened after"])
@pytest.mark.parametrize("newer", NEWER)
@pytest.mark.parametrize("name", CHANGES)
def test_a_table_of_a_newer_writer_is_left_as_it_is(
    tmp_path: Path, name: str, newer: str, is_held: bool
) -> None:
    path = str(tmp_path / "t")
    held = table_of(path, appends=12, options=OPTIONS)
    held.delete(where="id < 10")
    commit_protocol(path, 14, NEWER[newer])
    age(path, hours=1000)
    before = contents(path)
    table = held if is_held else Table.open(path, options=OPTIONS)
    with pytest.raises(UnsupportedError, match="writer"):
        CHANGES[name](table)
    assert contents(path) == before
    assert ids(Table.open(path)) == list(range(10, 120))


def test_a_checkpoint_that_is_due_is_not_written_once_the_protocol_is_newer(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = table_of(path, appends=2, options={"checkpoint.enabled": False})
    snapshot = table.handle.snapshot
    commit_protocol(path, 3, NEWER["writer version 5"])
    before = contents(path)
    with pytest.raises(UnsupportedError):
        table.handle.log.snapshots.read_as_listed(snapshot)
    assert contents(path) == before


def test_the_clean_up_of_a_log_ends_when_the_protocol_is_raised(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = table_of(
        path, appends=12, options={"checkpoint.retention": 0, "logRetention.duration": "1 hour"}
    )
    age(path, hours=10_000)
    assert table.handle.log.cleaner().plan(policy_of(table.handle.log.settings.retention)).expired
    commit_protocol(path, 13, NEWER["an unknown writer feature"])
    before = contents(path)
    table.handle.log.maintenance.clean_up(13)
    assert contents(path) == before


def test_a_repair_does_not_copy_a_log_that_it_must_not_write(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table_of(path, appends=2)
    commit_protocol(path, 3, NEWER["writer version 5"])
    with pytest.raises(UnsupportedError, match="writer version 5"):
        Table.repair(path, at=str(tmp_path / "copy"))
    assert not (tmp_path / "copy").exists()
