"""The first write into a table of an older protocol raises the protocol in the same version (rule
V11).
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace

from indextables import Table
from indextables.errors import UnsupportedError
from indextables.log.log_files import state_path, version_path
from indextables.model.actions import AddAction, MetadataAction, ProtocolAction
from indextables.model.schema import schema_to_json
from indextables.model.schema_registry import schema_hash
from indextables.wire import version_file
from indextables.wire.state import decode_state
from tests.support.rows import ROWS, ids, rows, table_of

OLD = (1, 2, 3)


def old_table(path: Path, protocol: int) -> Table:
    """An empty table as an older engine made it."""
    log = path / "_transaction_log"
    log.mkdir(parents=True)
    metadata = MetadataAction(
        id="old", schema_string=schema_to_json(ROWS), partition_columns=(), created_time=0
    )
    actions = [ProtocolAction(min_reader_version=protocol, min_writer_version=protocol), metadata]
    (path / version_path(0)).write_bytes(version_file.encode(actions))
    return Table.open(str(path))


def actions_of(path: Path, version: int) -> list[object]:
    return [*version_file.decode((path / version_path(version)).read_bytes(), path="v")]


@pytest.mark.parametrize("protocol", OLD)
def test_the_first_append_raises_the_protocol_and_writes_a_state(
    tmp_path: Path, protocol: int
) -> None:
    table = old_table(tmp_path / "t", protocol)
    assert table.append(rows(range(5))) == 1
    raised = [a for a in actions_of(tmp_path / "t", 1) if isinstance(a, ProtocolAction)]
    assert [(a.min_reader_version, a.min_writer_version) for a in raised] == [(4, 4)]
    assert "parquetSplits" in (raised[0].reader_features or ())
    assert "parquetSplits" in (raised[0].writer_features or ())
    state = decode_state((tmp_path / "t" / state_path(1)).read_bytes(), path="state")
    assert (state.state_version, state.protocol_version) == (1, 5)
    again = Table.open(table.path)
    assert (ids(again), again.protocol.min_reader_version) == (list(range(5)), 4)
    assert again.settings["query.defaultOperator"] == "and"


@pytest.mark.parametrize("protocol", OLD)
def test_a_change_of_settings_raises_it_too(tmp_path: Path, protocol: int) -> None:
    table = old_table(tmp_path / "t", protocol)
    table.update_metadata(description="ours")
    assert (table.version, Table.open(table.path).protocol.min_writer_version) == (1, 4)


def test_a_table_that_was_downgraded_stays_readable_for_older_engines(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    table.admin.downgrade_protocol(to=2, log_only=True)
    version = table.append(rows(range(10, 15)))
    assert version is not None
    assert Table.open(table.path).protocol.min_reader_version == 2
    (added,) = [a for a in actions_of(tmp_path / "t", version) if isinstance(a, AddAction)]
    assert added.doc_mapping_json is not None
    assert added.doc_mapping_ref == schema_hash(added.doc_mapping_json)


def test_the_same_mapping_in_another_order_has_the_same_name_in_every_protocol(
    tmp_path: Path,
) -> None:
    table = table_of(tmp_path / "t", appends=1)
    table.admin.downgrade_protocol(to=2, log_only=True)
    version = table.append(rows([7]))
    assert version is not None
    (added,) = [a for a in actions_of(tmp_path / "t", version) if isinstance(a, AddAction)]
    reordered = json.dumps(json.loads(added.doc_mapping_json or ""), sort_keys=True, indent=2)
    copy = replace(added, doc_mapping_json=reordered, doc_mapping_ref="not-the-hash")
    with table.transaction() as tx:
        tx.remove(added.path)
        tx.add(replace(copy, added_at_version=None, added_at_timestamp=None))
    assert tx.version is not None
    (named,) = [a for a in actions_of(tmp_path / "t", tx.version) if isinstance(a, AddAction)]
    assert named.doc_mapping_ref == added.doc_mapping_ref


def test_an_empty_append_leaves_an_old_table_as_it_is(tmp_path: Path) -> None:
    table = old_table(tmp_path / "t", 2)
    assert table.append(pa.table({name: [] for name in ROWS.names}, schema=ROWS)) is None
    assert (table.version, table.protocol.min_reader_version) == (0, 2)


def test_an_old_engine_that_checks_protocols_refuses_the_table_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = old_table(tmp_path / "t", 3)
    table.append(rows([1]))
    monkeypatch.setattr("indextables.model.protocol.SUPPORTED_VERSION", 3)
    table.invalidate_cache()
    with pytest.raises(UnsupportedError, match="reader version 4"):
        Table.open(table.path)
