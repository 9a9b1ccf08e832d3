"""Rows that a deletion vector names are gone for every reader, and nothing else is; splits keep
their files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from indextables import Table
from indextables.errors import BadFileError, ConflictError, IndexTablesError, UnsupportedError
from indextables.model import protocol as protocols
from indextables.model.actions import AddAction
from indextables.model.deletion_vector import vector_path, vectors_of
from indextables.operations.row_removal import DeleteOutcome, DeleteTask, VectorTask
from indextables.splits.read.cache import SplitCache
from indextables.storage import vector_files
from tests.support.rows import ids, rows, table_of
from tests.support.stores import splits_on_disk

VECTOR: dict[str, object] = {"delete.mode": "vector"}


def vectored(path: Path, *, appends: int = 3, each: int = 50, **given: Any) -> Table:
    return table_of(path, appends=appends, each=each, options=VECTOR, **given)


def forget_vectors() -> None:
    """What a process remembers of vectors and opened splits, as another process would not."""
    vector_files._known.clear()
    SplitCache.default().opened.clear()


def answers(table: Table) -> dict[str, object]:
    """What a user can ask a table, in one comparable value."""
    spec = {
        "levels": {"terms": {"field": "level"}},
        "low": {"min": {"field": "id"}},
        "high": {"max": {"field": "id"}},
    }
    hits = table.search("message:disk", limit=1000, columns=["id"])
    return {
        "scan": ids(table),
        "some": ids(table, where="id >= 17 AND id < 90"),
        "count": table.count(),
        "where": table.count(where="level = 'INFO'"),
        "term": table.count(query="message:timeout"),
        "level": table.count(query="level:INFO"),
        "both": table.count(query="message:(timeout OR disk) AND NOT level:INFO", where="id > 3"),
        "phrase": table.count(query='message:"disk disk"'),
        "best": sorted(hits.column("id").to_pylist()),
        "first": table.search("message:disk", limit=3, order_by="id", columns=["id"])
        .column("id")
        .to_pylist(),
        "last": table.search("level:INFO", limit=3, order_by="id desc", columns=["id"])
        .column("id")
        .to_pylist(),
        "all": sorted(
            table.search("message:(disk OR full)", columns=["id"]).column("id").to_pylist()
        ),
        "aggregate": {key: table.aggregate({key: part}).to_pylist() for key, part in spec.items()},
        "searched": table.aggregate(
            {"n": {"value_count": {"field": "id"}}}, query="message:disk"
        ).to_pylist(),
        "explained": table.explain(query="message:disk").rows_matched,
        "files": sum(table.files().column("num_records").to_pylist()),
    }


def plain(path: Path, expected: list[int]) -> dict[str, object]:
    """The same answers of a table that never had any other rows."""
    table = table_of(path)
    if expected:
        table.append(rows(expected))
    return answers(table)


@pytest.mark.parametrize("partitioned", [False, True], ids=["flat", "partitioned"])
def test_every_answer_is_that_of_a_table_without_the_rows(
    tmp_path: Path, partitioned: bool
) -> None:
    table = vectored(tmp_path / "t", partitioned=partitioned)
    before = splits_on_disk(table.path)
    expected = list(range(150))
    asks: list[dict[str, Any]] = [
        {"where": "id = 8"},
        {"query": "message:disk", "where": "id < 70"},
        {"where": "id >= 140 OR id = 3"},
    ]
    for n, asked in enumerate(asks):
        gone = ids(table, where=asked["where"])
        if "query" in asked:
            gone = [i for i in gone if i % 8 == 0 or i // 8 % 8 == 0]
        report = table.delete(**asked)
        expected = [i for i in expected if i not in gone]
        assert report.deleted_rows == len(gone)
        assert report.splits_rewritten == 0
        for seen in (table, Table.open(table.path)):
            assert answers(seen) == plain(tmp_path / f"plain{n}{seen is table}", expected)
    assert splits_on_disk(table.path) == before, "no split was written anew"
    assert table.verify(full=True).findings == ()


def test_a_vector_that_is_too_large_for_the_log_lies_in_a_file(tmp_path: Path) -> None:
    table = vectored(tmp_path / "t", appends=2, each=3000)
    scattered = [i for i in range(6000) if i * 7919 % 5 == 0]
    table.delete(where=f"id IN ({', '.join(map(str, scattered))})")
    files = table.files()
    paths = {vector_path(text) for text in files.column("deletion_vector").to_pylist()}
    assert len(paths) == 1
    assert None not in paths, "one file holds the vectors of the commit"
    assert files.column("deleted_records").to_pylist() == [600, 600]
    assert ids(table) == [i for i in range(6000) if i not in set(scattered)]
    assert table.verify(full=True).findings == ()
    (vector,) = Path(table.path.removeprefix("file://")).glob("vectors/*.vec")
    whole = vector.read_bytes()
    vector.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    forget_vectors()
    damaged = Table.open(table.path)
    assert [finding.check for finding in damaged.verify().findings] in (
        ["vector"],
        ["vector", "vector"],
    )
    with pytest.raises(BadFileError, match="checksum"):
        damaged.scan().read_all()
    vector.unlink()
    forget_vectors()
    with pytest.raises(BadFileError, match="says which rows are deleted, is gone"):
        damaged.count(query="message:disk")
    report = damaged.merge()
    assert (report.merged_files, len(report.skipped)) == (0, 1), (
        "a split whose vector is gone stays as it is"
    )


@pytest.mark.parametrize("form", ["avro", "json", "parquet"])
def test_every_form_of_the_log_carries_vectors(tmp_path: Path, form: str) -> None:
    table = table_of(tmp_path / "t", appends=2, each=40, options={**VECTOR, "state.format": form})
    table.delete(where="id IN (1, 41)")
    table.checkpoint()
    table.truncate_time_travel()
    table.invalidate_cache()
    seen = Table.open(table.path)
    assert ids(seen) == [i for i in range(80) if i not in (1, 41)]
    assert seen.count(query="message:n1") == 0
    assert seen.verify(full=True).findings == ()


def test_who_does_not_know_vectors_refuses_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = vectored(tmp_path / "t", appends=1)
    assert "deletionVectors" not in (table.protocol.reader_features or ())
    table.delete(where="id = 7")
    assert "deletionVectors" in (table.protocol.reader_features or ())
    assert "deletionVectors" in (table.protocol.writer_features or ())
    known = protocols._KNOWN_FEATURES - {protocols.DELETION_VECTORS}
    monkeypatch.setattr(protocols, "_KNOWN_FEATURES", known)
    table.invalidate_cache()
    with pytest.raises(UnsupportedError, match="deletionVectors"):
        Table.open(table.path)


def test_auto_never_rewrites_a_split_before_the_next_merge(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1, each=100)
    many = table.delete(where="id < 90")
    assert (many.splits_masked, many.splits_rewritten) == (1, 0)
    table.update(set={"level": "'WARN'"}, where="id >= 95")
    assert sorted(table.files().column("deleted_records").to_pylist(), key=str) == [95, None]
    assert table.merge().merged_files == 2
    assert ids(table) == list(range(90, 100))
    assert table.files().column("deletion_vector").to_pylist() == [None]


def test_auto_rewrites_at_once_above_the_share_that_is_set(tmp_path: Path) -> None:
    share: dict[str, object] = {"delete.maxVectorShare": 0.2}
    table = table_of(tmp_path / "t", appends=1, each=100, options=share)
    few = table.delete(where="id < 20")
    assert (few.splits_masked, few.splits_rewritten) == (1, 0)
    more = table.delete(where="id = 50")
    assert (more.splits_masked, more.splits_rewritten) == (0, 1), "21 of 100 are above the share"
    assert ids(table) == [i for i in range(20, 100) if i != 50]
    assert table.files().column("deletion_vector").to_pylist() == [None]


def test_the_last_rows_of_a_split_take_it_along(tmp_path: Path) -> None:
    table = vectored(tmp_path / "t", appends=2, each=10)
    table.delete(where="id IN (0, 1, 2, 3, 4)")
    table.delete(where="id < 10")
    assert (table.files().num_rows, ids(table)) == (1, list(range(10, 20)))


def test_a_merge_drops_deleted_rows(tmp_path: Path) -> None:
    table = vectored(tmp_path / "t", appends=3)
    table.delete(query="message:disk")
    expected = ids(table)
    table.merge()
    files = table.files()
    assert files.num_rows == 1
    assert files.column("deletion_vector").to_pylist() == [None]
    assert answers(table) == plain(tmp_path / "p", expected)
    assert table.verify(full=True).findings == ()


def test_a_merge_writes_a_worn_split_anew_though_it_stands_alone(tmp_path: Path) -> None:
    table = vectored(tmp_path / "t", appends=1, each=100)
    table.delete(where="id < 20")
    assert table.merge().status == "no_action", "20 % are not above the share"
    table.delete(where="id = 20")
    assert table.merge().merged_files == 1
    assert (table.files().column("deleted_records").to_pylist(), ids(table)) == (
        [None],
        list(range(21, 100)),
    )


def test_versions_restore_and_purge(tmp_path: Path) -> None:
    table = vectored(tmp_path / "t", appends=1, each=4000)
    scattered = [i for i in range(4000) if i * 7919 % 7 == 0]
    table.delete(where=f"id IN ({', '.join(map(str, scattered))})")
    table.delete(where="id = 1")
    for version, count in ((1, 4000), (2, 4000 - len(scattered)), (3, 3999 - len(scattered))):
        assert Table.open(table.path, version=version).count(query="message:(n1 OR n2 OR n0)") == (
            3 - (version > 1) - (version > 2)
        )
        assert len(ids(Table.open(table.path, version=version))) == count
    table.restore(version=2)
    assert len(ids(table)) == 4000 - len(scattered)
    assert table.count(query="message:n1") == 1
    table.restore(version=1)
    assert ids(table) == list(range(4000))
    table.restore(version=3)
    assert table.count() == 3999 - len(scattered)
    sudden = Table.open(table.path, options={"purge.retentionCheckEnabled": False})
    kept = {vector_path(text) for text in table.files().column("deletion_vector").to_pylist()}
    sudden.purge(older_than_hours=0, log_retention_hours=0)
    on_disk = {
        f"vectors/{p.name}" for p in Path(table.path.removeprefix("file://")).glob("vectors/*.vec")
    }
    assert on_disk == kept
    assert table.refresh().count() == 3999 - len(scattered)
    assert table.verify(full=True).findings == ()


def test_a_stale_merge_does_not_bring_deleted_rows_back(tmp_path: Path) -> None:
    table = vectored(tmp_path / "t", appends=2)
    other = Table.open(table.path)

    def late(work: Any) -> Any:
        outcomes = [task.run() for task in work]
        other.delete(where="id = 3")
        yield from outcomes

    report = table.merge(execute=late)
    assert (report.merged_files, len(report.dropped)) == (0, 1)
    assert 3 not in ids(table.refresh())
    assert len(ids(table.refresh())) == 99


def test_two_deletions_of_one_split(tmp_path: Path) -> None:
    table = vectored(tmp_path / "t", appends=1)
    other = Table.open(table.path)

    def late(where: str) -> Any:
        def execute(work: Any) -> Any:
            outcomes = [task.run() for task in work]
            other.delete(where=where)
            yield from outcomes

        return execute

    table.delete(where="id IN (1, 2)", execute=late("id = 3"))
    assert ids(table.refresh()) == [0, *range(4, 50)]
    with pytest.raises(ConflictError, match="one of these rows"):
        table.delete(where="id IN (10, 11)", execute=late("id = 11"))
    assert ids(table.refresh()) == [0, *range(4, 11), *range(12, 50)]


def test_a_vector_that_does_not_fit_its_split_is_an_error(tmp_path: Path) -> None:
    table = vectored(tmp_path / "t", appends=1)
    table.delete(where="id = 3")
    add = next(a for a in table.handle.log.since(1, 2)[0].actions if isinstance(a, AddAction))
    (text,), _ = vectors_of([np.array([70])], "x")
    with table.transaction() as tx:
        tx.remove(add.path)
        tx.add(replace(add, deletion_vector=text))
    with pytest.raises(BadFileError, match="names row 70 of a split of 50 rows"):
        table.scan().read_all()
    assert [finding.check for finding in table.verify().findings] == ["vector"]


def test_a_null_count_is_of_all_rows_of_the_file(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.int64())])
    table = Table.create(str(tmp_path / "t"), schema=schema, options=VECTOR)
    table.append(pa.table({"id": [0, 1, 2, 3], "v": [None, None, 5, 6]}, schema=schema))
    table.delete(where="id IN (0, 2)")
    assert ids(table, where="v IS NULL") == [1]
    assert ids(table, where="v IS NOT NULL") == [3]
    assert ids(table, where="v = 6") == [3]


def on_workers(tasks: Sequence[DeleteTask]) -> Iterator[DeleteOutcome]:
    """Run tasks as workers do that write the vectors themselves."""
    for task in tasks:
        yield from VectorTask((task,)).run()


def vector_files_of(path: Path) -> set[str]:
    return {f"vectors/{file.name}" for file in (path / "vectors").glob("*")}


def named_vectors(table: Table) -> set[str]:
    texts = table.refresh().files()["deletion_vector"].to_pylist()
    return {path for path in map(vector_path, texts) if path is not None}


def test_a_worker_writes_the_vectors_of_its_splits(tmp_path: Path) -> None:
    table = vectored(tmp_path / "t", appends=2, each=3000)
    table.delete(where="id = 5")
    report = table.delete(query="message:disk", execute=on_workers)
    expected = vectored(tmp_path / "same", appends=2, each=3000)
    expected.delete(where="id = 5")
    assert report.deleted_rows == expected.delete(query="message:disk").deleted_rows
    assert ids(table.refresh()) == ids(expected.refresh())
    assert vector_files_of(tmp_path / "t") == named_vectors(table) != set()


@pytest.mark.parametrize(("theirs", "conflicts"), [("id = 1", False), ("id = 0 OR id = 1", True)])
def test_rows_that_another_writer_deletes_after_the_worker_has_read(
    tmp_path: Path, theirs: str, conflicts: bool
) -> None:
    """Both sets of rows go, unless one row is in both; a vector that no version names does not
    stay.
    """
    table = vectored(tmp_path / "t", appends=1, each=6000)
    living = ids(table)

    def meet(tasks: Sequence[DeleteTask]) -> Iterator[DeleteOutcome]:
        outcomes = list(on_workers(tasks))
        Table.open(table.path).delete(where=theirs)
        yield from outcomes

    mine = "id IN (" + ", ".join(map(str, range(0, 6000, 5))) + ")"
    if conflicts:
        with pytest.raises(ConflictError, match="one of these rows was deleted"):
            table.delete(where=mine, execute=meet)
        expected = set(living) - {0, 1}
    else:
        table.delete(where=mine, execute=meet)
        expected = set(living) - set(range(0, 6000, 5)) - {1}
    assert set(ids(table.refresh())) == expected
    assert vector_files_of(tmp_path / "t") == named_vectors(table)


def test_a_worker_that_fails_deletes_what_it_has_written(tmp_path: Path) -> None:
    table = vectored(tmp_path / "t", appends=2, each=3000)
    before = splits_on_disk(tmp_path / "t")
    (tmp_path / "t" / "vectors").write_text("not a folder")

    def together(tasks: Sequence[DeleteTask]) -> Iterator[DeleteOutcome]:
        # The first split is rewritten before the vector of the second one cannot be stored.
        yield from VectorTask((replace(tasks[0], vector_share=0.0), *tasks[1:])).run()

    with pytest.raises(IndexTablesError):
        table.delete(query="message:disk", execute=together)
    assert splits_on_disk(tmp_path / "t") == before
