"""Companions of Delta tables: every version of the source, its deleted rows, and its columns."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from indextables import Table
from indextables.errors import (
    BadFileError,
    RefusedError,
    SourceChangedError,
    TableNotFoundError,
    VersionNotFoundError,
)
from tests.support.delta_tables import HandDelta, read_rows


def rows(word: str, *ids: int) -> list[dict[str, Any]]:
    return [{"id": n, "message": f"{word} n{n}", "level": "AB"[n % 2]} for n in ids]


COLUMNS = (("id", "long"), ("message", "string"), ("level", "string"))


@pytest.fixture
def delta(tmp_path: Path) -> HandDelta:
    made = HandDelta.create(tmp_path / "events", COLUMNS, maps_columns=True)
    made.append(rows("alpha", *range(10)))
    made.append(rows("beta", *range(10, 20)))
    return made


def companion(tmp_path: Path, source: Path, **options: Any) -> Table:
    return Table.companion(
        str(tmp_path / "index"), source=str(source), **{"text": ["message"], **options}
    )


def ids(table: Table, query: str) -> list[int]:
    return sorted(table.search(query, columns=["id"]).column("id").to_pylist())


def test_versions_of_the_source_are_read_in_both_directions(
    tmp_path: Path, delta: HandDelta
) -> None:
    made = companion(tmp_path, delta.root)
    made.sync()
    delta.delete_by_vector(next(iter(delta.live)), [1, 2])
    delta.append(rows("alpha", 20))
    path = made.path
    assert ids(Table.open(path), "alpha") == [0, *range(3, 10), 20]
    assert ids(Table.open(path, at=2), "alpha") == list(range(10))
    assert ids(Table.open(path, at=1), "beta") == []
    assert ids(Table.open(path, at="synced"), "alpha") == list(range(10))
    with pytest.raises(VersionNotFoundError, match="9"):
        Table.open(path, at=9)


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_commit_that_deletes_by_vector_costs_no_indexing(
    tmp_path: Path, delta: HandDelta, on_disk: bool
) -> None:
    made = companion(tmp_path, delta.root)
    made.sync()
    first = next(iter(delta.live))
    delta.delete_by_vector(first, [0, 5], on_disk=on_disk)
    report = made.sync()
    assert (report.files_indexed, report.splits_created) == (0, 0)
    assert made.count(query="alpha") == 8
    assert made.source_status().rows_masked == 2
    delta.delete_by_vector(first, range(10), on_disk=on_disk)
    assert made.refresh().count(query="alpha") == 0


def test_restore_finds_its_index_again(tmp_path: Path, delta: HandDelta) -> None:
    made = companion(tmp_path, delta.root)
    made.sync()
    delta.rewrite(list(delta.live), rows("gamma", 1, 2))
    made.sync()
    assert ids(made, "gamma OR alpha") == [1, 2]
    delta.restore(2)
    made = made.refresh()
    assert made.source_status().rows_unindexed == 0
    assert ids(made, "alpha") == list(range(10))


def test_columns_follow_their_physical_names(tmp_path: Path, delta: HandDelta) -> None:
    made = companion(tmp_path, delta.root)
    made.sync()
    delta.rename_column("message", "note")
    made = made.refresh()
    assert ids(made, "note:alpha") == list(range(10))
    assert made.search("note:n3", columns=["note"]).to_pylist()[0]["note"] == "alpha n3"
    delta.drop_column("note")
    delta.add_column("message", "string")
    made = made.refresh()
    assert made.count(query="message:alpha") == 0
    delta.append(rows("alpha", 30))
    made = made.refresh()
    assert ids(made, "message:alpha") == [30]
    made.sync()
    assert ids(made, "message:alpha") == [30]
    assert ids(made, "message:n30") == [30], "it is text, as the name says"


def test_deleted_rows_do_not_enter_aggregations_orders_and_pages(
    tmp_path: Path, delta: HandDelta
) -> None:
    made = companion(tmp_path, delta.root)
    made.sync()
    delta.delete_by_vector(next(iter(delta.live)), [9, 8])
    made = made.refresh()
    best = made.search("alpha", order_by="-id", limit=2, columns=["id"])
    assert best.column("id").to_pylist() == [7, 6]
    found = made.aggregate({"l": {"terms": {"field": "level"}}}, query="alpha").to_pylist()
    assert {row["l"]: row["count"] for row in found} == {"A": 4, "B": 4}
    assert len(made.search("alpha NOT n7", limit=100)) == 7


def test_tables_written_by_delta_rs(tmp_path: Path) -> None:
    source = str(tmp_path / "events")
    data = pa.table({"id": [1, 2, 3], "message": ["a b", "b", "c"], "day": ["x", "y", "x z%"]})
    write_deltalake(source, data, partition_by=["day"])
    made = companion(tmp_path, Path(source))
    made.sync()
    more = pa.table({"id": [4], "message": ["b new"], "day": ["y"], "extra": [1.5]})
    write_deltalake(source, more, mode="append", schema_mode="merge")
    DeltaTable(source).delete("id = 2")
    made = made.refresh()
    assert ids(made, "b") == [1, 4]
    assert made.count(query="b", where="day = 'y'") == 1
    made.sync()
    DeltaTable(source).optimize.compact()
    made = made.refresh()
    assert ids(made, "b") == [1, 4]
    shown = made.scan(columns=["id", "day", "extra"]).read_all().sort_by("id").to_pylist()
    assert shown == [
        {k: row[k] for k in ("id", "day", "extra")}
        for row in sorted(read_rows(source), key=lambda r: r["id"])
    ]
    moment = dt.datetime.fromtimestamp(DeltaTable(source).history()[1]["timestamp"] / 1000, dt.UTC)
    own = DeltaTable(source)
    own.load_as_version(moment)
    assert Table.open(made.path, at=moment).count() == len(read_rows(source, own.version()))


def test_vacuumed_files_are_errors_and_the_newest_version_is_not_affected(
    tmp_path: Path, delta: HandDelta
) -> None:
    made = companion(tmp_path, delta.root)
    made.sync()
    delta.rewrite(list(delta.live), rows("gamma", 1, 2))
    delta.vacuum()
    assert ids(Table.open(made.path), "gamma") == [1, 2]
    with pytest.raises(SourceChangedError, match=r"part .*\.parquet is not there any more"):
        ids(Table.open(made.path, at=2), "alpha")


def test_a_source_that_was_dropped_and_made_again_is_refused(
    tmp_path: Path, delta: HandDelta
) -> None:
    made = companion(tmp_path, delta.root)
    made.sync()
    delta.root.rename(tmp_path / "away")
    with pytest.raises(TableNotFoundError, match="no Delta table"):
        Table.open(made.path)
    other = HandDelta.create(delta.root, COLUMNS)
    other.append(rows("alpha", 1))
    with pytest.raises(RefusedError, match="another table"):
        Table.open(made.path)


def test_a_version_that_names_a_file_twice_is_refused(tmp_path: Path, delta: HandDelta) -> None:
    made = companion(tmp_path, delta.root)
    file = next(iter(delta.live.values()))
    masked = HandDelta.create(tmp_path / "other", COLUMNS)._vector(frozenset([1]))
    add = delta._add(file)
    add["add"]["deletionVector"] = masked
    delta.commit([add])
    with pytest.raises(BadFileError, match="twice"):
        made.refresh()


def test_a_file_of_another_row_count_is_an_error(tmp_path: Path, delta: HandDelta) -> None:
    made = companion(tmp_path, delta.root)
    made.sync()
    path = delta.root / next(iter(delta.live))
    other = delta.write_file(rows("alpha", 1, 2))
    path.write_bytes((delta.root / other.path).read_bytes())
    with pytest.raises(SourceChangedError, match="bytes and was listed"):
        Table.open(made.path).search("alpha")


def test_text_is_found_as_before_where_a_split_indexed_it_in_another_way(tmp_path: Path) -> None:
    delta = HandDelta.create(tmp_path / "events", COLUMNS)
    delta.append(rows("alpha", 1, 2))
    made = companion(tmp_path, delta.root)
    made.sync()
    delta.overwrite(
        (("id", "long"), ("message", "long"), ("level", "string")), [{"id": 7, "message": 5}]
    )
    made = made.refresh()
    assert made.count(where="message = 5") == 1
    made.sync()
    assert made.count(where="message = 5") == 1
    assert ids(Table.open(made.path, at=1), "alpha") == [1, 2]


def test_a_merge_stacks_indexes_and_keeps_every_version(tmp_path: Path, delta: HandDelta) -> None:
    options = {"companion.targetInputSize": 1}
    made = companion(tmp_path, delta.root, options=options)
    made.sync()
    delta.delete_by_vector(next(iter(delta.live)), [1, 2])
    delta.append(rows("alpha", *range(20, 30)))
    made.sync()
    assert len(made.files()) == 3
    assert made.merge(dry_run=True).merged_files == 3
    report = made.merge()
    assert (report.merged_files, report.merge_groups) == (3, 1)
    assert len(made.files()) == 1
    assert ids(made, "alpha") == [0, *range(3, 10), *range(20, 30)]
    assert made.source_status().rows_unindexed == 0
    assert ids(Table.open(made.path, at=2), "alpha") == list(range(10))
    assert made.verify(full=True).healthy
    assert made.explain(query="alpha", where="id > 100").splits_opened == 0, "its bounds are kept"


def test_a_purge_drops_splits_whose_files_are_gone(tmp_path: Path, delta: HandDelta) -> None:
    options = {"companion.targetInputSize": 1, "purge.retentionCheckEnabled": False}
    made = companion(tmp_path, delta.root, options=options)
    made.sync()
    delta.rewrite(list(delta.live), rows("gamma", 1, 2))
    made.sync()
    made.purge(older_than_hours=0)
    assert made.source_status().splits == 3, "older versions of the source can be read"
    delta.vacuum()
    made.purge(older_than_hours=0)
    assert made.source_status().splits == 1
    made.purge(older_than_hours=0)
    assert len(list((tmp_path / "index").rglob("*.split"))) == 1
    assert ids(Table.open(made.path), "gamma") == [1, 2]


def test_a_split_that_is_mostly_gone_is_built_again(tmp_path: Path, delta: HandDelta) -> None:
    delta.append(rows("alpha", *range(20, 22)))
    made = companion(tmp_path, delta.root)
    made.sync()
    first, second, _ = delta.live
    delta.delete_by_vector(first, range(10))
    delta.delete_by_vector(second, range(9))
    report = made.sync()
    assert (report.splits_removed, report.splits_created) == (1, 1)
    assert ids(made, "alpha OR beta") == [19, 20, 21]
    assert ids(Table.open(made.path, at=2), "alpha") == list(range(10))
