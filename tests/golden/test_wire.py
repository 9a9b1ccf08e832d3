"""Real tables of another implementation, read file by file: what the bytes say is what is expected
of the table.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from indextables.model.actions import MetadataAction, ProtocolAction
from indextables.model.schema_registry import schema_hash
from indextables.model.state import StateManifest
from indextables.wire import version_file
from indextables.wire.manifest import decode_file_entries
from indextables.wire.state import AVRO_STATE, LastCheckpoint, decode_pointer, decode_state
from tests.golden.golden_tables import GoldenTable, for_each_table


def read_state(table: GoldenTable) -> StateManifest:
    path = table.newest_state / "_manifest.avro"
    return decode_state(path.read_bytes(), path=str(path))


def read_files(table: GoldenTable, state: StateManifest) -> pa.Table:
    parts = []
    for manifest in state.manifests:
        data = (table.log / manifest.path).read_bytes()
        parts.append(
            decode_file_entries(data, path=manifest.path, expected_rows=manifest.num_entries)
        )
    files = pa.concat_tables(parts)
    gone = pa.array([tombstone.path for tombstone in state.tombstones], pa.string())
    return files.filter(pc.invert(pc.is_in(files.column("path"), value_set=gone)))


@for_each_table
def test_live_files(table: GoldenTable) -> None:
    state = read_state(table)
    files = read_files(table, state)
    assert sorted(files.column("path").to_pylist()) == table.expected["paths"]
    assert files.num_rows == table.expected["live_files"] == state.num_files
    assert pc.sum(files.column("num_records")).as_py() == table.expected["live_records"]
    assert (
        pc.sum(files.column("size")).as_py() == table.expected["total_bytes"] == state.total_bytes
    )


@for_each_table
def test_pointer_names_the_newest_state(table: GoldenTable) -> None:
    pointer = decode_pointer((table.log / "_last_checkpoint").read_bytes())
    assert isinstance(pointer, LastCheckpoint)
    assert pointer.version == table.expected["latest_version"] == read_state(table).state_version
    assert (pointer.format, pointer.state_dir) == (AVRO_STATE, table.newest_state.name)
    assert pointer.num_files == table.expected["live_files"]


@for_each_table
def test_schema_hashes(table: GoldenTable) -> None:
    state = read_state(table)
    in_use = sorted(set(read_files(table, state).column("doc_mapping_ref").to_pylist()))
    assert in_use == table.expected["doc_mapping_refs"]
    for name, text in state.schema_registry.items():
        assert schema_hash(text) == name


@for_each_table
def test_version_zero(table: GoldenTable) -> None:
    path = table.log / f"{0:020d}.json"
    actions = version_file.decode(path.read_bytes(), path=str(path))
    protocol = next(a for a in actions if isinstance(a, ProtocolAction))
    metadata = next(a for a in actions if isinstance(a, MetadataAction))
    assert [protocol.min_reader_version, protocol.min_writer_version] == table.expected["protocol"]
    assert list(metadata.partition_columns or ()) == table.expected["partition_columns"]
    assert [
        field["name"] for field in json.loads(metadata.schema_string)["fields"]
    ] == table.expected["columns"]


@for_each_table
def test_partition_bounds_hold_every_value(table: GoldenTable) -> None:
    for manifest in read_state(table).manifests:
        data = (table.log / manifest.path).read_bytes()
        rows = decode_file_entries(data, path=manifest.path, columns=["partition_values"])
        for column, (low, high) in (manifest.partition_bounds or {}).items():
            values = [dict(row)[column] for row in rows.column("partition_values").to_pylist()]
            assert (min(values), max(values)) == (low, high)
