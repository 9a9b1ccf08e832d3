"""`table.admin`: skips that an operator records, and the way back to an older protocol."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from indextables import Table
from indextables.errors import InvalidInputError, RefusedError
from indextables.model.actions import SkipAction
from tests.support.oldest_reader import OldestReader
from tests.support.rows import ids, rows, table_of
from tests.support.stores import contents


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return table_of(tmp_path / "table", appends=3, partitioned=True)


def skips_of(table: Table) -> dict[str, SkipAction]:
    return dict(table.refresh().handle.snapshot.header.skips)


def test_a_skip_says_where_the_split_is_and_how_large(table: Table) -> None:
    row = table.files().to_pylist()[0]
    version = table.admin.record_skipped_file(
        row["path"], "the footer cannot be read", cooldown_hours=2
    )
    skip = skips_of(table)[row["path"]]
    assert version == 4 and (skip.partition_values, skip.size) == (
        dict(row["partition_values"]),
        row["size"],
    )
    assert (skip.reason, skip.operation, skip.skip_count) == (
        "the footer cannot be read",
        "merge",
        1,
    )
    assert skip.retry_after == skip.skip_timestamp + 2 * 3_600_000
    table.admin.record_skipped_file(
        row["path"], "again", "read", partition_values={"day": "9"}, size=7
    )
    skip = skips_of(table)[row["path"]]
    assert (skip.skip_count, skip.operation, skip.partition_values, skip.size) == (
        2,
        "read",
        {"day": "9"},
        7,
    )
    assert ids(table.refresh()) == list(range(30))
    with pytest.raises(InvalidInputError, match="no split of"):
        table.admin.record_skipped_file("splits/none.split", "gone")


def test_merges_leave_a_recorded_split_alone(table: Table) -> None:
    path = table.files().to_pylist()[0]["path"]
    table.admin.record_skipped_file(path, "broken")
    table.merge(target_size="100M")
    assert path in table.refresh().files().column("path").to_pylist()


def test_a_table_that_was_downgraded_opens_in_a_reader_of_protocol_2(table: Table) -> None:
    report = table.admin.downgrade_protocol(to=2, log_only=True)
    assert (report.from_protocol, report.to_protocol, report.num_files) == ("4/4", 2, 9)
    assert "avroState" in report.features_dropped and "parquetSplits" in report.features_dropped
    old = OldestReader(Path(table.path))
    assert old.files.keys() == set(table.files().column("path").to_pylist())
    assert old.columns == table.schema.names and old.metadata["partitionColumns"] == ["day"]
    assert all(
        json.loads(add["docMappingJson"]) and add.get("docMappingRef") is None
        for add in old.files.values()
    )
    for n in range(12):  # more than a checkpoint apart: nothing of a newer form comes back
        table.append(rows([100 + n], day=1))
    table.delete(where="id = 100")
    again = OldestReader(Path(table.path))
    assert again.files.keys() == set(table.refresh().files().column("path").to_pylist())
    assert all(add.get("docMappingJson") for add in again.files.values())
    assert table.refresh().protocol.min_reader_version == 2 and ids(table.refresh()) == [
        *range(30),
        *range(101, 112),
    ]
    assert table.refresh().verify(full=True).healthy


def test_protocol_3_keeps_what_it_knows_and_the_way_back_is_open(table: Table) -> None:
    report = table.admin.downgrade_protocol(to=3, log_only=True)
    assert (
        report.checkpoint_format == "json" and "schemaDeduplication" not in report.features_dropped
    )
    table.append(rows([100], day=1))
    table.update_metadata(unset=("state.format",))
    table.upgrade_protocol(
        min_reader_version=4, min_writer_version=4, features=("avroState", "parquetSplits")
    )
    table.checkpoint()
    assert table.refresh().state().format == "avro-state" and ids(Table.open(table.path)) == [
        *range(30),
        100,
    ]


def test_what_an_older_engine_could_not_handle_is_listed_and_nothing_changes(table: Table) -> None:
    before = contents(table.path)
    with pytest.raises(RefusedError, match="parquetSplits") as caught:
        table.admin.downgrade_protocol(to=2)
    assert caught.value.context["features"] == ["parquetSplits"]
    for wrong in (1, 4, "2"):
        with pytest.raises(InvalidInputError):
            table.admin.downgrade_protocol(to=wrong, log_only=True)  # type: ignore[arg-type]
    assert contents(table.path) == before
