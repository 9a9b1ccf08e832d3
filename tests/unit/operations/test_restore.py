"""An older version comes back as a new one, with everything that belongs to it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import (
    InvalidInputError,
    MissingSplitError,
    RefusedError,
    VersionNotFoundError,
)
from tests.support.rows import ids, rows, table_of


def test_rows_come_back_and_history_tells(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2)
    table.overwrite(rows(range(100, 103)))
    report = table.restore(version=2)
    assert report.to_dict() == {
        "table_path": table.path, "status": "success", "version": 4, "restored_version": 2, "files_added": 2,
        "files_removed": 1, "message": "Version 2 was brought back as a new version.",
    }  # fmt: skip
    assert ids(table) == ids(Table.open(table.path)) == list(range(20))
    last = table.history(limit=1).to_pylist()[0]
    assert (last["operation"], last["operation_parameters"]) == ("RESTORE", '{"version":2}')
    assert table.count(query="message:timeout") == sum(
        1 for i in range(20) if i % 8 == 2 or i // 8 % 8 == 2
    )


def test_the_same_in_a_table_that_was_checkpointed(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=12, options={"checkpoint.interval": 5})
    table.overwrite(rows([500]))
    for n in range(10):
        table.append(rows([1000 + n]))
    table.restore(version=7)
    assert ids(Table.open(table.path)) == list(range(70))
    mappings = Table.open(table.path).files().column("doc_mapping_ref").to_pylist()
    assert set(mappings) <= set(table.handle.snapshot.schema_registry) | {
        action.doc_mapping_ref for action in table.handle.snapshot.delta.added.values()
    }


def test_schema_and_configuration_come_back_but_the_protocol_does_not(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    table.append(rows([50]).append_column("extra", pa.array(["x"])), merge_schema=True)
    table.update_metadata(name="renamed", options={"checkpoint.interval": 3})
    table.upgrade_protocol(min_reader_version=4, min_writer_version=4, features=("avroState",))
    high, before = table.protocol, table.version
    table.restore(version=1)
    assert table.schema.names == ["id", "day", "level", "message"]
    assert table.metadata.name is None
    assert "checkpoint.interval" not in (table.metadata.configuration or {})
    assert table.protocol == high
    table.restore(version=before)
    assert Table.open(table.path).metadata.name == "renamed"
    assert table.count(where="extra = 'x'") == 1


def test_restoring_what_is_there_commits_nothing(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2)
    report = table.restore(version=2)
    assert (report.version, report.files_added, report.files_removed, table.version) == (2, 0, 0, 2)
    for told in (report, table.restore(version=2, dry_run=True)):
        assert (told.status, told.version, told.message) == (
            "no_action",
            2,
            "The table is as it was then.",
        )


def test_by_a_moment(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3)
    moments = dict(
        zip(*(table.history().column(c).to_pylist() for c in ("version", "timestamp")), strict=True)
    )
    assert table.restore(timestamp=moments[1]).restored_version == 1
    assert ids(table) == list(range(10))
    assert table.restore(timestamp=moments[3].isoformat()).restored_version == 3
    assert ids(table) == list(range(30))


def test_a_dry_run_commits_nothing(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2)
    planned = table.restore(version=1, dry_run=True)
    assert (planned.files_added, planned.files_removed, Table.open(table.path).version) == (0, 1, 2)
    assert (planned.status, planned.version) == ("dry_run", None), "nothing says that it was done"
    assert planned.message == "Version 1 would be brought back as a new version."
    assert "files_removed" in str(planned)
    assert "<td>files_removed</td><td>1</td>" in planned._repr_html_()


def test_a_split_that_is_gone_refuses_before_anything_is_committed(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2)
    gone = table.files().column("path").to_pylist()[0]
    table.overwrite(rows([7]))
    (Path(table.path) / gone).unlink()
    with pytest.raises(MissingSplitError, match="1 of the 2 splits of version 2") as caught:
        table.restore(version=2)
    assert caught.value.context["missing"] == [gone]
    assert Table.open(table.path).version == 3


def test_many_splits_are_found_in_one_listing(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=40, each=1)
    table.overwrite(rows([7]))
    table.restore(version=40)
    assert ids(table) == list(range(40))


def test_requests_that_make_no_sense(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    with pytest.raises(InvalidInputError, match="version or a timestamp"):
        table.restore()
    with pytest.raises(InvalidInputError, match="version or a timestamp"):
        table.restore(version=0, timestamp=0)
    with pytest.raises(VersionNotFoundError):
        table.restore(version=9)
    with pytest.raises(RefusedError):
        Table.open(table.path, version=0).restore(version=0)


def test_whoever_was_first_the_outcome_is_the_old_content(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2)
    late = Table.open(table.path)
    table.append(rows([99]))
    late.restore(version=1)
    assert ids(Table.open(table.path)) == list(range(10))
