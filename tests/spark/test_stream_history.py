"""A stream reads one history: not that of another table at the same path, and no row twice that a
version merely kept.

The reader is asked as Spark asks it, with offsets that went through JSON and tasks that went
through pickle.
"""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import ConflictError, NotFoundError, RefusedError
from indextables.spark.compat import ReadAllAvailable, ReadLimit, ReadMaxFiles
from indextables.spark.schemas import readable
from indextables.spark.source import stream_reader
from indextables.spark.source.options import SourceOptions
from indextables.spark.source.stream_reader import TableStreamReader

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


def rows(start: int, count: int = 10) -> pa.Table:
    ids = list(range(start, start + count))
    return pa.table({"id": ids, "text": [f"word{i}" for i in ids]})


class Follower:
    """Plays Spark: keeps the offset of the last batch, and can be started again from it."""

    def __init__(self, path: str, **options: Any) -> None:
        self.path = path
        self.options = {key: str(value).lower() for key, value in options.items()}
        self.offset: str | None = None
        self.start()

    def start(self) -> None:
        """Begin, or begin again as after a restart."""
        table = Table.open(self.path)
        options = SourceOptions.parse({"path": self.path, **self.options})
        self.reader = TableStreamReader(options, readable(table.metadata.schema_string))
        if self.offset is None:
            self.offset = json.dumps(self.reader.initialOffset())

    def batch(self, limit: ReadLimit | None = None) -> list[int]:
        """The ids of the next batch."""
        assert self.offset is not None
        start = json.loads(self.offset)
        end = self.reader.latestOffset(start, limit or ReadAllAvailable())
        tasks = pickle.loads(pickle.dumps(self.reader.partitions(start, end)))
        self.offset = json.dumps(end)
        return sorted(
            n for task in tasks for b in self.reader.read(task) for n in b.column("id").to_pylist()
        )


@pytest.fixture
def source(tmp_path: Path) -> Table:
    table = Table.create(str(tmp_path / "source"), schema=SCHEMA)
    for n in range(3):
        table.append(rows(n * 10))
    return table


def anew(table: Table, *starts: int) -> Table:
    """The folder removed, and another table of the same columns created in it."""
    shutil.rmtree(table.path)
    made = Table.create(table.path, schema=SCHEMA)
    for start in starts:
        made.append(rows(start))
    return made


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("commits", [0, 1, 3, 8])
def test_a_table_that_was_created_anew_is_an_error(
    source: Table, commits: int, restart: bool
) -> None:
    stream = Follower(source.path)
    assert stream.batch() == list(range(30))
    anew(source, *range(100, 100 + 10 * commits, 10))
    if restart:
        stream.start()
    for _ in range(2):
        with pytest.raises(
            ConflictError,
            match=r"another table than the one .* read up to version 3: it was created anew",
        ):
            stream.batch()


@pytest.mark.parametrize("commits", [0, 1, 3, 5])
def test_an_older_copy_of_the_table_is_an_error(
    source: Table, tmp_path: Path, commits: int
) -> None:
    shutil.copytree(source.path, tmp_path / "backup")
    stream = Follower(source.path)
    stream.batch()
    for n in range(3, 6):
        source.append(rows(n * 10))
        assert stream.batch() == list(range(n * 10, n * 10 + 10))
    shutil.rmtree(source.path)
    shutil.copytree(tmp_path / "backup", source.path)
    for n in range(commits):
        Table.open(source.path).append(rows(100 + 10 * n))
    stream.start()
    with pytest.raises(ConflictError, match=r"another table than the one .* read up to version 6"):
        stream.batch()


def without_marks(offset: str | None) -> str:
    """An offset as earlier releases kept it."""
    return json.dumps(
        {key: json.loads(offset or "")[key] for key in ("version", "files", "snapshot")}
    )


def test_an_offset_of_an_earlier_release_goes_on_and_learns_the_table(source: Table) -> None:
    stream = Follower(source.path)
    stream.batch()
    stream.offset = without_marks(stream.offset)
    stream.start()
    assert stream.batch() == []
    source.append(rows(30))
    assert stream.batch() == list(range(30, 40))
    anew(source, *range(100, 180, 10))
    with pytest.raises(ConflictError, match="created anew"):
        stream.batch()


def test_an_offset_of_an_earlier_release_beyond_the_table_is_an_error(source: Table) -> None:
    stream = Follower(source.path)
    stream.batch()
    stream.offset = without_marks(stream.offset)
    anew(source, 100)
    with pytest.raises(ConflictError, match="the newest is 1"):
        stream.batch()


def test_an_offset_of_an_earlier_release_within_a_restoration_counts_as_it_did(
    source: Table,
) -> None:
    source.overwrite(rows(700, 2))
    source.restore(version=3)
    stream = Follower(source.path, startingVersion=5, ignoreChanges=True)
    stream.offset = json.dumps({"version": 5, "files": 1, "snapshot": False})
    assert len(stream.batch()) == 20
    source.append(rows(30))
    assert stream.batch() == list(range(30, 40))


def test_a_version_whose_file_is_gone_can_still_be_followed(source: Table) -> None:
    stream = Follower(source.path)
    stream.batch()
    source.append(rows(30))
    assert stream.batch() == list(range(30, 40))
    source.checkpoint()
    newest = Table.open(source.path).version
    for version in range(newest):
        (Path(source.path) / "_transaction_log" / f"{version:020d}.json").unlink(missing_ok=True)
    Table.open(source.path).append(rows(40))
    stream.start()
    assert stream.batch() == list(range(40, 50))


def test_rows_that_a_replacement_or_deletion_keeps_are_not_sent_again(source: Table) -> None:
    stream = Follower(source.path, ignoreChanges=True)
    assert stream.batch() == list(range(30))
    source.refresh().overwrite(rows(5, 3), where="id >= 5 and id < 8")
    assert stream.batch() == [5, 6, 7]
    source.refresh().delete(where="id = 20")
    assert stream.batch() == []
    source.refresh().overwrite(rows(700, 2))
    assert stream.batch() == [700, 701]


def test_such_changes_still_end_a_stream_that_does_not_ignore_them(source: Table) -> None:
    stream = Follower(source.path)
    stream.batch()
    source.delete(where="id = 20")
    with pytest.raises(RefusedError, match="takes rows away"):
        stream.batch()


def test_of_a_restoration_only_the_rows_that_come_back_are_sent(source: Table) -> None:
    stream = Follower(source.path, ignoreChanges=True)
    stream.batch()
    source.merge()
    source.refresh().restore(version=3)
    assert stream.batch() == []
    source.refresh().delete(where="id in (3, 14)")
    source.refresh().append(rows(30, 5))
    assert stream.batch() == list(range(30, 35))
    source.refresh().restore(version=3)
    assert stream.batch() == [3, 14]
    source.refresh().overwrite(rows(700, 2))
    assert stream.batch() == [700, 701]
    source.refresh().restore(version=3)
    assert stream.batch() == list(range(30))


def test_of_a_restoration_equal_rows_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("part", pa.string()),
            ("x", pa.float64()),
            ("tags", pa.list_(pa.string())),
        ]
    )
    table = Table.create(str(tmp_path / "partitioned"), schema=schema, partition_columns=["part"])

    def some(*ids: int) -> pa.Table:
        made = [
            {"id": i, "part": "ab"[i % 2], "x": float("nan") if i % 3 else None, "tags": [str(i)]}
            for i in ids
        ]
        return pa.Table.from_pylist(made, schema=schema)

    table.append(some(1, 1, 1, 2, 2))
    table.append(some(3, 4))
    stream = Follower(table.path, ignoreChanges=True)
    stream.batch()
    table.refresh().overwrite(some(1, 2), where="id in (1, 2)")
    assert stream.batch() == [1, 2]
    table.refresh().merge()
    table.refresh().restore(version=2)
    monkeypatch.setattr(stream_reader, "ROWS_PER_PART", 2)
    assert stream.batch() == [1, 1, 2]


def test_a_restoration_is_sent_batch_by_batch_and_filtered(source: Table) -> None:
    source.delete(where="id in (0, 4, 12, 29)")
    source.refresh().restore(version=3)
    stream = Follower(
        source.path, startingVersion=4, ignoreChanges=True, where="id < 25", query="text:word*"
    )
    assert [stream.batch(ReadMaxFiles(1)) for _ in range(3)] == [[0, 4, 12], [], []]


def test_a_restoration_whose_old_splits_were_purged_is_an_error(source: Table) -> None:
    stream = Follower(source.path, ignoreChanges=True)
    stream.batch()
    Table.open(source.path, options={"delete.mode": "rewrite"}).delete(where="id = 3")
    source.refresh().restore(version=3)
    Table.open(source.path, options={"purge.retentionCheckEnabled": False}).purge(
        older_than_hours=0
    )
    with pytest.raises(NotFoundError, match=r"was removed from .* and purged"):
        stream.batch()
