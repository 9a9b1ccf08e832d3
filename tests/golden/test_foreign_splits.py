"""Splits that the JVM implementation wrote: every row is read, and merging makes them ours."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from indextables.config.splits import SplitWriterSettings
from indextables.errors import BadFileError, UnsupportedError
from indextables.splits.format.source import LocalSource
from indextables.splits.read.foreign import ForeignReader
from indextables.splits.read.table_split import open_split
from indextables.splits.write.merge import MergeSource, merge_splits
from tests.golden.golden_tables import GOLDEN, GoldenTable, for_each_table, golden_tables
from tests.support.splits import mapping_of, open_file, term_rows, write_file

TYPES = {"id": pa.int64(), "text": pa.string(), "score": pa.float64(), "date": pa.string()}


def schema_of(table: GoldenTable) -> pa.Schema:
    partitioned = table.expected["partition_columns"]
    return pa.schema(
        [(name, TYPES[name]) for name in table.expected["columns"] if name not in partitioned]
    )


def readers_of(table: GoldenTable) -> list[ForeignReader]:
    found = []
    for path in table.expected["paths"]:
        reader = open_split(LocalSource(table.path / path, path), schema_of(table))
        assert isinstance(reader, ForeignReader)
        found.append(reader)
    return found


@for_each_table
def test_every_row_is_read(table: GoldenTable) -> None:
    readers = readers_of(table)
    rows = pa.concat_tables([r.read_rows() for r in readers])
    assert rows.num_rows == sum(r.num_rows for r in readers) == table.expected["live_records"]
    assert rows.schema.equals(schema_of(table))
    assert rows["id"].null_count == rows["text"].null_count == 0
    assert sum(r.stats.bytes for r in readers) > 0


@for_each_table
def test_merging_makes_them_ours(table: GoldenTable, tmp_path: Path) -> None:
    schema = schema_of(table)
    readers = readers_of(table)
    expected = pa.concat_tables([r.read_rows() for r in readers])
    sources = [MergeSource(reader) for reader in readers]
    with merge_splits(
        sources, schema, mapping_of(schema, {}), settings=SplitWriterSettings()
    ) as info:
        assert info is not None
        shutil.copyfile(info.path, tmp_path / "ours.split")
    ours = open_file(tmp_path / "ours.split")
    assert ours.read_rows().combine_chunks().equals(expected.combine_chunks())
    last = expected["text"][-1].as_py()
    assert expected.num_rows - 1 in term_rows(ours, "text", last)


needs_golden = pytest.mark.skipif(not GOLDEN.exists(), reason="the golden tables are not here")


@needs_golden
def test_known_content() -> None:
    rows = pa.concat_tables([r.read_rows() for r in readers_of(golden_tables()[0])]).sort_by("id")
    assert rows.to_pylist() == [
        {"id": 1, "text": "hello", "score": 100.0},
        {"id": 2, "text": "world", "score": 200.0},
        {"id": 3, "text": "test", "score": 300.0},
    ]


@needs_golden
def test_rows_by_number_mask_and_column() -> None:
    table = next(t for t in golden_tables() if t.path.name == "10_large_batch")
    reader = max(readers_of(table), key=lambda r: r.num_rows)
    every = reader.read_rows()
    rows = np.array([3, 1, 1])
    assert reader.read_rows(rows, columns=["text"]).equals(
        every.select(["text"]).take(pa.array(rows))
    )
    mask = np.arange(reader.num_rows) % 7 == 0
    streamed = pa.Table.from_batches(reader.iter_rows(mask), every.schema)
    assert streamed.combine_chunks().equals(every.filter(pa.array(mask)).combine_chunks())
    assert reader.mapping.columns[1].kind == "string"
    assert not reader.indexed
    with pytest.raises(UnsupportedError, match="MERGE SPLITS"):
        reader.open_index(["c1"])


@needs_golden
def test_a_column_the_split_does_not_have_is_left_to_the_table() -> None:
    table = golden_tables()[0]
    path = table.path / table.expected["paths"][0]
    reader = open_split(LocalSource(path), pa.schema([("id", pa.int64()), ("added", pa.string())]))
    assert reader.schema.names == ["id"]


@needs_golden
def test_the_unpacked_files_go_with_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (reader, *_) = readers_of(golden_tables()[0])
    reader.read_rows()
    assert reader._folder.exists()
    reader.close()
    del _
    assert not (tmp_path / reader._folder.name).exists()


@needs_golden
def test_damage_in_the_documents_or_the_directory_is_noticed(tmp_path: Path) -> None:
    table = golden_tables()[0]
    data = (table.path / table.expected["paths"][0]).read_bytes()
    schema = schema_of(table)
    whole = open_split(LocalSource(table.path / table.expected["paths"][0]), schema).read_rows()
    path = tmp_path / "x.split"
    noticed = 0
    for place in range(0, len(data), 13):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x41]) + data[place + 1 :])
        try:
            reader = open_split(LocalSource(path), schema, num_records=whole.num_rows)
            assert reader.read_rows().equals(whole), place
        except (BadFileError, UnsupportedError):
            noticed += 1
    assert noticed > 20


@needs_golden
@pytest.mark.parametrize("keep", [0, 4, 100, 2_000, 5_000])
def test_a_bundle_that_is_cut_short_is_a_bad_file(tmp_path: Path, keep: int) -> None:
    table = golden_tables()[0]
    data = (table.path / table.expected["paths"][0]).read_bytes()
    (tmp_path / "x.split").write_bytes(data[:keep])
    with pytest.raises(BadFileError, match=r"x\.split"):
        open_split(LocalSource(tmp_path / "x.split"), schema_of(table))


def test_a_number_of_records_that_differs_from_the_log(tmp_path: Path) -> None:
    table = pa.table({"a": ["x", "y"]})
    path = write_file(table, tmp_path / "a.split", typemap={})
    assert open_split(LocalSource(path), table.schema, num_records=2).num_rows == 2
    with pytest.raises(BadFileError, match="has 2 rows; the log says 3"):
        open_split(LocalSource(path), table.schema, num_records=3)
