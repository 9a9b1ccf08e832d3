"""Doc mappings stand once in the log: splits name them, the metadata records them, and nothing else
looks changed.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from indextables import AddAction, Table
from indextables.errors import ConflictError, RefusedError
from indextables.log.log_files import version_path
from indextables.model.actions import CommitInfo, MetadataAction, ProtocolAction
from indextables.model.schema_registry import KEY_PREFIX, schema_hash
from indextables.model.snapshot import CommittedVersion
from indextables.operations.table_write import plan_write
from indextables.operations.write_request import WriteRequest
from indextables.storage.local import LocalStore
from indextables.wire import version_file
from indextables.wire.version_file import inflate
from tests.support.rows import ids, rows, table_of


def version(root: Path, number: int) -> list[object]:
    path = version_path(number)
    return list(version_file.decode(LocalStore(root).get(path), path=path))


def adds(root: Path, number: int) -> list[AddAction]:
    return [a for a in version(root, number) if isinstance(a, AddAction)]


def metadata(root: Path, number: int) -> list[MetadataAction]:
    return [a for a in version(root, number) if isinstance(a, MetadataAction)]


def resolved(table: Table) -> list[bool]:
    """Whether each live split's mapping is known."""
    files, registry = table.files(), table.handle.snapshot.schema_registry
    refs, inline = (files.column(f"doc_mapping_{name}").to_pylist() for name in ("ref", "json"))
    return [
        text is not None or schema_hash(registry[ref]) == ref
        for ref, text in zip(refs, inline, strict=True)
    ]


def test_a_mapping_is_recorded_once_and_named_by_its_hash(tmp_path: Path) -> None:
    table = table_of(tmp_path, appends=3)
    (first,) = adds(tmp_path, 1)
    assert first.doc_mapping_json is None
    (recorded,) = metadata(tmp_path, 1)
    assert (
        schema_hash((recorded.configuration or {})[f"{KEY_PREFIX}{first.doc_mapping_ref}"])
        == first.doc_mapping_ref
    )
    for number in (2, 3):
        assert metadata(tmp_path, number) == []
        assert [a.doc_mapping_ref for a in adds(tmp_path, number)] == [first.doc_mapping_ref]
    assert all(resolved(table))
    assert all(resolved(Table.open(str(tmp_path))))


def test_forty_splits_of_four_hundred_columns_are_a_small_version(tmp_path: Path) -> None:
    schema = pa.schema([(f"c{n:03}", pa.float64()) for n in range(400)])
    table = Table.create(str(tmp_path), schema=schema)
    planned = plan_write(table.handle, schema, WriteRequest())
    (one,) = planned.run(
        pa.table({name: [1.5] for name in schema.names}, schema=schema).to_batches()
    )
    with table.transaction(check_splits=False) as tx:
        for n in range(40):
            tx.add(msgspec.structs.replace(one, path=f"splits/{n}.split"))
    data = LocalStore(tmp_path).get(version_path(1))
    inline = [
        msgspec.structs.replace(a, doc_mapping_json=one.doc_mapping_json) for a in adds(tmp_path, 1)
    ]
    before, after = len(version_file.encode(inline, compress=False)), len(inflate(data, path=""))
    print(f"{before:,} bytes before, {after:,} after, {len(data):,} compressed")
    assert len(data) < after < 150_000
    assert before > 1_500_000


def test_what_people_see_of_the_metadata_does_not_change(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    before = table.metadata
    table.append(rows(range(10)))
    assert table.metadata == before
    assert Table.open(str(tmp_path)).metadata == before
    assert table.history().column("operation").to_pylist()[0] == "WRITE"


def test_two_appends_of_the_same_new_mapping_both_land(tmp_path: Path) -> None:
    table_of(tmp_path)
    one, two = Table.open(str(tmp_path)), Table.open(str(tmp_path))
    one.append(rows([1]))
    two.append(rows([2]))
    found = Table.open(str(tmp_path))
    assert ids(found) == [1, 2]
    assert len(metadata(tmp_path, 1)) == 1
    assert metadata(tmp_path, 2) == []
    assert all(resolved(found))


def test_a_change_of_metadata_stands_beside_a_first_append_and_keeps_its_mapping(
    tmp_path: Path,
) -> None:
    table_of(tmp_path)
    appending, naming, other = (Table.open(str(tmp_path)) for _ in range(3))
    appending.append(rows([1]))
    assert naming.update_metadata(name="n") == 2
    found = Table.open(str(tmp_path))
    assert found.metadata.name == "n"
    assert all(resolved(found))
    with pytest.raises(ConflictError, match="metadata was changed too"):
        other.update_metadata(name="o")


def test_a_first_append_stands_beside_a_change_of_metadata(tmp_path: Path) -> None:
    table_of(tmp_path)
    appending, naming = Table.open(str(tmp_path)), Table.open(str(tmp_path))
    naming.update_metadata(name="n")
    assert appending.append(rows([1])) == 2
    found = Table.open(str(tmp_path))
    assert found.metadata.name == "n"
    assert all(resolved(found))


def test_what_is_recorded_cannot_be_unset(tmp_path: Path) -> None:
    table = table_of(tmp_path, appends=1)
    keys = [KEY_PREFIX + ref for ref in table.handle.snapshot.schema_registry]
    assert table.update_metadata(unset=tuple(keys)) is None
    table.update_metadata(name="n", unset=tuple(keys))
    assert all(resolved(Table.open(str(tmp_path))))


def test_mappings_are_known_in_every_version_and_after_upkeep(tmp_path: Path) -> None:
    table = table_of(tmp_path, appends=2)
    wider = rows([50]).append_column("more", pa.array(["x"]))
    table.append(wider, merge_schema=True)
    for number in range(1, 4):
        assert all(resolved(Table.open(str(tmp_path), version=number)))
    table.checkpoint()
    assert all(resolved(Table.open(str(tmp_path))))
    table.restore(version=1)
    assert ids(Table.open(str(tmp_path))) == list(range(10))
    table = Table.open(str(tmp_path))
    table.append(rows([60]))
    table.merge()
    table.truncate_time_travel()
    found = Table.open(str(tmp_path))
    assert all(resolved(found))
    assert ids(found) == [*range(10), 60]
    assert found.verify(full=True).status == "healthy"


def test_versions_with_mappings_in_every_split_are_read(tmp_path: Path) -> None:
    """As older releases wrote them."""
    table = table_of(tmp_path)
    planned = plan_write(table.handle, rows([1]).schema, WriteRequest())
    for number in (1, 2):
        added = planned.run(rows([number]).to_batches())
        body = version_file.encode(
            [CommitInfo(txn_id=f"{number}", timestamp=2_000_000_000_000 + number), *added]
        )
        LocalStore(tmp_path).put(version_path(number), body)
    old = Table.open(str(tmp_path))
    assert ids(old) == [1, 2]
    assert all(resolved(old))
    old.append(rows([3]))
    old.checkpoint()
    old.merge()
    found = Table.open(str(tmp_path))
    assert ids(found) == [1, 2, 3]
    assert all(resolved(found))


def test_readers_of_an_older_protocol_find_mappings_where_they_look(tmp_path: Path) -> None:
    table = table_of(tmp_path, appends=0)
    body = version_file.encode(
        [
            CommitInfo(txn_id="0", timestamp=1),
            ProtocolAction(min_reader_version=2, min_writer_version=2),
            table.metadata,
        ]
    )
    LocalStore(tmp_path).put(version_path(0), body)
    Table.open(str(tmp_path), options={"state.format": "json"}).append(
        rows([1])
    )  # it is kept readable for them
    assert all(a.doc_mapping_json is not None for a in adds(tmp_path, 1))
    assert metadata(tmp_path, 1) == []


def test_a_repaired_log_records_them_too(tmp_path: Path) -> None:
    table_of(tmp_path / "t", appends=2)
    Table.repair(str(tmp_path / "t"), at=str(tmp_path / "copy"))
    assert all(a.doc_mapping_json is None for a in adds(tmp_path / "copy", 0))
    assert all(resolved(Table.open(str(tmp_path / "copy"))))


def test_a_version_that_no_reader_would_accept_is_refused_before_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(tmp_path, appends=12)
    table.overwrite(rows([99]))
    before = sorted(p.name for p in (tmp_path / "_transaction_log").iterdir())
    monkeypatch.setattr(version_file, "INFLATION_CAP_BYTES", 8_000)
    with pytest.raises(RefusedError, match="the most that readers accept") as caught:
        table.restore(version=12)
    assert sorted(p.name for p in (tmp_path / "_transaction_log").iterdir()) == before
    assert "t.overwrite(Table.open(path, version=N).scan())" in caught.value.hint
    table.overwrite(Table.open(str(tmp_path), version=12).scan())
    assert ids(Table.open(str(tmp_path))) == list(range(120))


def test_splits_of_a_version_that_is_refused_are_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(tmp_path, appends=1)
    monkeypatch.setattr(version_file, "INFLATION_CAP_BYTES", 100)
    with pytest.raises(RefusedError):
        table.append(rows([99]))
    assert len(list(tmp_path.glob("splits/*.split"))) == 1
    assert isinstance(table.handle.log.since(0, 1)[0], CommittedVersion)
