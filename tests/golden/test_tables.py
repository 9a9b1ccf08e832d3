"""Real tables of another implementation, through the log: what they hold, and that we can go on
where it stopped.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from indextables.log.checkpoint.state_files import StateFiles
from indextables.log.checkpoint.state_writer import Compact
from indextables.log.transaction import Changes
from indextables.model.actions import AddAction
from indextables.model.snapshot import Snapshot
from tests.golden.golden_tables import GoldenTable, for_each_table
from tests.support.golden_tables import copy_of, open_log


def shown(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot in the words of the expected content."""
    files = snapshot.all_files
    protocol = snapshot.header.protocol
    return {
        "columns": [
            field["name"] for field in json.loads(snapshot.metadata.schema_string)["fields"]
        ],
        "doc_mapping_refs": sorted(snapshot.schema_registry),
        "latest_version": snapshot.version,
        "live_files": files.num_rows,
        "live_records": pc.sum(files.column("num_records")).as_py(),
        "partition_columns": list(snapshot.metadata.partition_columns or ()),
        "paths": sorted(files.column("path").to_pylist()),
        "protocol": [protocol.min_reader_version, protocol.min_writer_version],
        "total_bytes": pc.sum(files.column("size")).as_py(),
    }


def expected_of(table: GoldenTable) -> dict[str, Any]:
    return {key: value for key, value in table.expected.items() if key != "splits_on_disk"}


@for_each_table
def test_the_newest_version(table: GoldenTable) -> None:
    assert shown(open_log(table.path).newest()) == expected_of(table)


@for_each_table
def test_every_older_version_can_be_read(table: GoldenTable) -> None:
    log = open_log(table.path)
    for version in range(1, table.expected["latest_version"] + 1):
        source = log.at_version(version).base.source
        assert isinstance(source, StateFiles)
        assert source.files().num_rows == source.state.num_files


@for_each_table
def test_appending_goes_on_at_the_right_version(table: GoldenTable, tmp_path: Path) -> None:
    path = copy_of(table, tmp_path)
    log = open_log(path)
    values: dict[str, str | None] = dict.fromkeys(table.expected["partition_columns"], "x")
    committed = log.commit(
        log.newest(),
        Changes("WRITE", adds=[AddAction(path="new", size=7, partition_values=values)]),
    )
    assert committed.version == table.expected["latest_version"] + 1
    after = shown(open_log(path).newest())
    assert after["paths"] == sorted([*table.expected["paths"], "new"])
    assert after["total_bytes"] == table.expected["total_bytes"] + 7
    assert after["protocol"] == table.expected["protocol"]


@for_each_table
def test_a_checkpoint_brings_it_into_the_current_form(table: GoldenTable, tmp_path: Path) -> None:
    path = copy_of(table, tmp_path)
    log = open_log(path)
    values: dict[str, str | None] = dict.fromkeys(table.expected["partition_columns"], "x")
    log.commit(
        log.newest(),
        Changes("WRITE", adds=[AddAction(path="new", size=7, partition_values=values)]),
    )
    log.checkpoint(compact=Compact.ALL)
    snapshot = open_log(path).newest()
    source = snapshot.base.source
    assert isinstance(source, StateFiles)
    assert source.state.metadata is not None
    assert source.state.tombstones == ()
    assert all(manifest.size_bytes for manifest in source.state.manifests)
    after = shown(snapshot)
    assert after["paths"] == sorted([*table.expected["paths"], "new"])
    assert after["doc_mapping_refs"] == table.expected["doc_mapping_refs"]
    assert snapshot.delta.touched == frozenset()
