"""Companions of folders of Parquet files: what a search returns is what the folder holds now."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from indextables import Table
from indextables.errors import (
    BadFileError,
    InvalidInputError,
    RefusedError,
    SchemaMismatchError,
    SourceChangedError,
    UnsupportedError,
)

NOW = {"companion.settleTime": 0}


def write(folder: Path, name: str, ids: Sequence[int], word: str, **more: Any) -> Path:
    """A file with a row for each id."""
    path = folder / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    words = [f"{word} n{n}" for n in ids]
    table = pa.table({"id": list(ids), "message": words, **more})
    pq.write_table(table, path, row_group_size=4)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    source = tmp_path / "events"
    write(source, "a", range(10), "alpha")
    write(source, "b", range(10, 20), "beta")
    return source


def make(tmp_path: Path, folder: Path, **options: Any) -> Table:
    given = {"text": ["message"], "options": NOW, **options}
    return Table.companion(str(tmp_path / "index"), source=str(folder), **given)


def ids(table: Table, query: str, **options: Any) -> list[int]:
    found = table.search(query, columns=["id"], **options)
    return sorted(found.column("id").to_pylist())


def test_a_new_companion_finds_rows_before_anything_is_indexed(
    tmp_path: Path, folder: Path
) -> None:
    made = make(tmp_path, folder)
    assert ids(made, "alpha") == list(range(10))
    assert made.source_status().files_unindexed == 2
    report = made.sync()
    assert (report.files_indexed, report.rows_indexed, report.splits_created) == (2, 20, 1)
    assert ids(made, "alpha") == list(range(10))
    assert made.source_status().rows_unindexed == 0
    assert made.sync().status == "no_action"
    assert {s.answered_by for s in made.explain(query="alpha").splits} == {"index"}


def test_the_split_holds_the_index_and_no_row(tmp_path: Path, folder: Path) -> None:
    made = make(tmp_path, folder)
    made.sync()
    (path,) = (tmp_path / "index").rglob("*.split")
    assert pq.read_table(path).num_rows == 0
    assert "companionIndex" in (made.protocol.reader_features or ())


def test_new_replaced_and_removed_files_are_seen_at_once(tmp_path: Path, folder: Path) -> None:
    made = make(tmp_path, folder)
    made.sync()
    write(folder, "c", range(20, 25), "alpha")
    write(folder, "b", range(10, 20), "alpha")
    (folder / "a.parquet").unlink()
    assert ids(made.refresh(), "alpha") == list(range(10, 25))
    assert ids(made.refresh(), "beta") == []
    made = made.refresh()
    made.sync()
    assert ids(made, "alpha") == list(range(10, 25))
    assert (
        made.source_status().rows_masked == 0
    )  # the split of a and b is gone, both left the folder


def test_a_file_replaced_by_one_of_the_same_size_and_time_is_seen(
    tmp_path: Path, folder: Path
) -> None:
    made = make(tmp_path, folder)
    made.sync()
    path = folder / "b.parquet"
    before = path.stat()
    write(folder, "b", range(10, 20), "zeta")
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert ids(Table.open(made.path), "zeta") == list(range(10, 20))


def test_a_file_that_is_replaced_during_a_search_is_an_error_that_names_it(
    tmp_path: Path, folder: Path
) -> None:
    made = make(tmp_path, folder)
    made.sync()
    write(folder, "b", range(100, 110), "beta")
    with pytest.raises(SourceChangedError, match=r"b\.parquet"):
        made.search("beta", columns=["id"])
    (folder / "b.parquet").unlink()
    with pytest.raises(SourceChangedError, match=r"b\.parquet"):
        made.search("beta", columns=["id"])


def test_young_files_are_scanned_and_not_indexed(tmp_path: Path, folder: Path) -> None:
    for path in folder.iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
    write(folder, "c", range(20, 25), "alpha")
    made = make(tmp_path, folder, options={"companion.settleTime": 3600})
    report = made.sync()
    assert (report.files_indexed, report.files_waiting) == (2, 1)
    assert ids(made, "alpha") == [*range(10), *range(20, 25)]


def test_more_rows_than_may_be_scanned_are_an_error_that_names_sync(
    tmp_path: Path, folder: Path
) -> None:
    made = make(tmp_path, folder, options={**NOW, "companion.maxScanRows": 15})
    with pytest.raises(RefusedError, match=r"20 rows .* sync\(\)"):
        made.search("alpha")
    with pytest.raises(RefusedError, match=r"companion\.maxScanRows"):
        made.count(query="alpha")
    assert made.count() == 20
    made.sync()
    assert made.count(query="alpha") == 10


def test_the_synced_version_scans_nothing_and_fails_when_a_file_is_gone(
    tmp_path: Path, folder: Path
) -> None:
    made = make(tmp_path, folder)
    made.sync()
    write(folder, "c", range(20, 25), "alpha")
    assert Table.open(made.path, at="synced").count(query="alpha") == 10
    assert Table.open(made.path).count(query="alpha") == 15
    (folder / "a.parquet").unlink()
    with pytest.raises(SourceChangedError, match=r"a\.parquet"):
        Table.open(made.path, at="synced")
    with pytest.raises(UnsupportedError, match="no version 3"):
        Table.open(made.path, at=3)


def test_columns_of_new_files_and_wider_types_are_read(tmp_path: Path, folder: Path) -> None:
    made = make(tmp_path, folder)
    made.sync()
    more = {"score": pa.array([1.5] * 3), "tag": pa.array(["x"] * 3, pa.large_string())}
    write(folder, "c", range(20, 23), "alpha", **more)
    made = made.refresh()
    assert made.schema.names == ["id", "message", "score", "tag"]
    assert ids(made, "tag:x") == [20, 21, 22]
    assert ids(made, "alpha", where="score > 1") == [20, 21, 22]
    made.sync()
    assert ids(made, "tag:x AND alpha") == [20, 21, 22]
    assert ids(made, "alpha", where="score IS NULL") == list(range(10))


def test_types_that_do_not_fit_are_an_error_that_names_the_file(
    tmp_path: Path, folder: Path
) -> None:
    made = make(tmp_path, folder)
    pq.write_table(pa.table({"id": ["one"], "message": ["alpha"]}), folder / "c.parquet")
    with pytest.raises(SchemaMismatchError, match=r"c\.parquet"):
        made.refresh()


def test_half_written_files_are_errors_and_hidden_ones_are_left_out(
    tmp_path: Path, folder: Path
) -> None:
    made = make(tmp_path, folder)
    write(folder, "_temporary/x", [1], "alpha")
    write(folder, ".hidden", [1], "alpha")
    assert made.refresh().count() == 20
    (folder / "c.parquet").write_bytes(b"PAR1 half")
    with pytest.raises(BadFileError, match=r"c\.parquet"):
        made.refresh()


def test_partitions_are_columns_and_prune(tmp_path: Path) -> None:
    source = tmp_path / "events"
    for day, word in (("2026-01-01", "alpha"), ("2026-01-02", "beta")):
        write(source, f"day={day}/part", range(4), word)
    write(source, "day=__HIVE_DEFAULT_PARTITION__/part", range(4, 6), "alpha")
    made = make(tmp_path, source)
    made.sync()
    assert made.partition_columns == ["day"]
    assert str(made.schema.field("day").type) == "date32[day]"
    assert made.count(query="alpha", where="day = '2026-01-01'") == 4
    assert made.count(where="day IS NULL") == 2
    report = made.explain(query="alpha", where="day = '2026-01-02'")
    assert report.splits_pruned_by_partition == 2
    only = Table.companion(
        str(tmp_path / "one"), source=str(source), text=["message"], where="day = '2026-01-01'"
    )
    assert only.count() == 4


def test_scores_pages_orders_and_snippets_work_over_index_and_scan(
    tmp_path: Path, folder: Path
) -> None:
    made = make(tmp_path, folder)
    made.sync()
    write(folder, "c", range(20, 40), "alpha")
    made = made.refresh()
    page = made.search_page("alpha", order_by="-id", limit=7, columns=["id"])
    found = list(page.rows.column("id").to_pylist())
    while page.next is not None:
        page = made.search_page(
            "alpha", order_by="-id", limit=7, columns=["id"], search_after=page.next
        )
        found += page.rows.column("id").to_pylist()
    assert found == [*range(39, 19, -1), *range(9, -1, -1)]
    best = made.search("alpha n3", limit=3, snippet="message")
    assert best.column("id").to_pylist()[0] == 3
    assert "<" in best.column("_snippet")[0].as_py() or best.column("_snippet")[0].as_py()
    write(folder, "d", [99], "alpha")
    with pytest.raises(SourceChangedError, match="search_after"):
        first = made.search_page("alpha", limit=2)
        made.refresh().search_page("alpha", limit=2, search_after=first.next)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda t: t.append(pa.table({"id": [1]})), id="append"),
        pytest.param(lambda t: t.overwrite(pa.table({"id": [1]})), id="overwrite"),
        pytest.param(lambda t: t.delete(where="id = 1"), id="delete"),
        pytest.param(lambda t: t.update(set={"id": 1}), id="update"),
        pytest.param(lambda t: t.upsert(pa.table({"id": [1]}), on=["id"]), id="upsert"),
        pytest.param(lambda t: t.restore(version=0), id="restore"),
        pytest.param(lambda t: t.drop_partitions("id = 1"), id="drop_partitions"),
        pytest.param(lambda t: t.erase(where="id = 1"), id="erase"),
        pytest.param(lambda t: t.update_metadata(name="x"), id="update_metadata"),
        pytest.param(lambda t: t.alter.add_column("x", "bigint"), id="alter"),
    ],
)
def test_rows_belong_to_the_source(change: Any, tmp_path: Path, folder: Path) -> None:
    made = make(tmp_path, folder)
    made.sync()
    before = made.version
    with pytest.raises(RefusedError, match=r"rows of the source.*sync\(\)"):
        change(made)
    assert Table.open(made.path).version == before


def test_what_a_companion_cannot_be_is_refused(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(InvalidInputError, match="not a column"):
        make(tmp_path, folder, text=["mesage"])
    with pytest.raises(InvalidInputError, match="lie in one another"):
        Table.companion(str(folder / "index"), source=str(folder))
    with pytest.raises(InvalidInputError, match="not a format"):
        make(tmp_path, folder, format="orc")
    with pytest.raises(InvalidInputError, match="No column"):
        make(tmp_path, folder, text=[], include=["id"])
    assert not (tmp_path / "index").exists()
    made = make(tmp_path, folder)
    with pytest.raises(InvalidInputError, match="exclude"):
        make(tmp_path, folder, exclude=["id"])
    assert make(tmp_path, folder).version == made.version
    own = Table.create(str(tmp_path / "own"), schema=pa.schema([("id", pa.int64())]))
    with pytest.raises(RefusedError, match="rows of its own"):
        own.sync()
    with pytest.raises(InvalidInputError, match="not a companion"):
        Table.open(own.path, at="synced")


def test_left_out_columns_are_answered_from_the_rows(tmp_path: Path) -> None:
    source = tmp_path / "events"
    write(source, "a", range(6), "alpha", level=pa.array(["INFO", "ERROR"] * 3))
    made = make(tmp_path, source, exclude=["level"])
    made.sync()
    assert made.count(query="alpha", where="level = 'ERROR'") == 3
    assert made.aggregate({"l": {"terms": {"field": "level"}}}, query="alpha").num_rows == 2


def test_a_companion_is_verified_and_checkpointed(tmp_path: Path, folder: Path) -> None:
    made = make(tmp_path, folder)
    made.sync()
    assert made.verify(full=True).healthy
    made.checkpoint()
    write(folder, "c", range(20, 25), "alpha")
    made = made.refresh()
    made.sync()
    assert ids(made, "alpha") == [*range(10), *range(20, 25)]
    (split, *_) = (tmp_path / "index").rglob("*.split")
    data = bytearray(split.read_bytes())
    data[100] ^= 0xFF
    split.write_bytes(data)
    assert not made.verify(full=True).healthy


def test_a_file_that_is_replaced_while_it_is_indexed_is_an_error_and_changes_nothing(
    tmp_path: Path, folder: Path
) -> None:
    made = make(tmp_path, folder)

    def replace_first(tasks: Sequence[Any]) -> Iterator[Any]:
        write(folder, "a", range(50, 60), "omega")
        for task in tasks:
            yield task.run()

    with pytest.raises(SourceChangedError, match=r"a\.parquet"):
        made.sync(execute=replace_first)
    assert Table.open(made.path).version == made.version
    assert ids(Table.open(made.path), "omega") == list(range(50, 60))
    assert list((tmp_path / "index").rglob("*.split")) == []


def test_files_with_times_in_the_future_are_indexed_and_followed(
    tmp_path: Path, folder: Path
) -> None:
    for path in folder.iterdir():
        os.utime(path, (4_000_000_000, 4_000_000_000))
    made = make(tmp_path, folder, options={"companion.settleTime": 60})
    assert made.sync().files_indexed == 2
    write(folder, "a", range(50, 60), "omega")
    os.utime(folder / "a.parquet", (4_000_000_000, 4_000_000_000))
    assert ids(Table.open(made.path), "omega") == list(range(50, 60))


def test_reports_are_of_the_splits_that_the_log_names(tmp_path: Path, folder: Path) -> None:
    made = make(tmp_path, folder)
    made.sync()
    write(folder, "c", range(20, 25), "alpha")
    made = made.refresh()
    assert made.files().num_rows == 1
    assert made.component_sizes().num_rows > 5
    assert made.history().column("operation").to_pylist() == ["SYNC", "CREATE"]
