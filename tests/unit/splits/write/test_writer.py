"""Rows in, splits out: order, rolling, bounded parts, cleaning up, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from indextables.config.splits import SplitWriterSettings
from indextables.errors import InvalidInputError, SchemaMismatchError
from indextables.splits.index import builder
from indextables.splits.index.builder import IndexBuilder
from indextables.splits.index.mapping import DocMapping
from indextables.splits.index.segments import open_folder
from indextables.splits.write.writer import SplitWriter, write_splits
from tests.support.splits import log_rows, mapping_of, open_file, rows_with, term_rows, write_file


def test_rows_come_back_exactly_and_the_index_knows_their_numbers(tmp_path: Path) -> None:
    table = log_rows(20_000)
    reader = open_file(write_file(table, tmp_path / "a.split"))
    assert reader.schema.equals(table.schema)
    assert reader.read_rows().equals(table)
    assert term_rows(reader, "message", "timeout") == rows_with(
        table["message"].to_pylist(), "timeout"
    )
    assert term_rows(reader, "host", "host-07") == rows_with(table["host"].to_pylist(), "host-07")


def test_batches_of_any_size_give_the_same_rows(tmp_path: Path) -> None:
    table = log_rows(9_000)
    sizes = [1, 8_191, 0, 2, 500, 306]
    batches = [
        table.slice(sum(sizes[:i]), n).combine_chunks().to_batches() for i, n in enumerate(sizes)
    ]
    with SplitWriter(
        table.schema, mapping_of(table.schema), settings=SplitWriterSettings()
    ) as writer:
        for batch in (b for few in batches for b in few):
            assert writer.write(batch) == []
        (split,) = writer.finish()
        assert writer.finish() == []
        assert open_file(split.path).read_rows().equals(table)
    assert not split.path.exists()


def test_a_full_heap_makes_segments_that_are_merged_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder, "_MAX_SEGMENTS", 3)
    table = log_rows(30_000)
    mapping = mapping_of(table.schema)
    # Equal parts: segments of one size must not be mistaken for one another.
    made = IndexBuilder(tmp_path / "index", mapping, 1, commit_bytes=200_000)
    for batch in table.combine_chunks().to_batches(1_000):
        made.add(batch)
    segment = made.finish()
    assert len(made._done) > 6
    assert len(made._parts) > 2
    assert segment.rows == 30_000
    searcher = open_folder(segment.folder, mapping).searcher()
    assert [searcher.doc_freq("c3", f"n{row}") for row in (0, 12_345, 29_999)] == [1, 1, 1]
    index = open_folder(segment.folder, mapping)
    for row in range(0, 30_000, 1_001):
        hits = index.searcher().search(index.parse_query(f"n{row}", ["c3"]), limit=2).hits
        assert [place.doc for _, place in hits] == [row]


def test_a_new_split_begins_at_the_row_limit() -> None:
    table = log_rows(2_500)
    settings = SplitWriterSettings(max_rows=1_000)
    found = []
    for split in write_splits(
        table.to_batches(), table.schema, mapping_of(table.schema), settings=settings
    ):
        assert split.path.exists()
        found.append(open_file(split.path).read_rows())
    assert [t.num_rows for t in found] == [1_000, 1_000, 500]
    assert pa.concat_tables(found).combine_chunks().equals(table.combine_chunks())


def test_a_new_split_begins_at_the_target_size() -> None:
    table = pa.concat_tables([log_rows(8_192, seed=n) for n in range(12)])
    settings = SplitWriterSettings(target_bytes=1 << 20)
    splits = write_splits(
        table.to_batches(), table.schema, mapping_of(table.schema), settings=settings
    )
    sizes = [(split.size, split.num_records) for split in splits]
    assert sum(rows for _, rows in sizes) == table.num_rows
    assert len(sizes) > 2
    assert all(0.4 * (1 << 20) < size < 2 * (1 << 20) for size, _ in sizes[:-1])


def test_very_large_rows_make_smaller_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indextables.splits.format.parquet.ROW_GROUP_BYTES", 1 << 20)
    table = pa.table({"a": [str(n) * 100_000 for n in range(30)], "n": list(range(30))})
    path = write_file(table, tmp_path / "a.split", typemap={})
    assert pq.read_metadata(path).num_row_groups > 2
    reader = open_file(path)
    assert reader.read_rows().equals(table)
    rows = np.array([29, 0, 15])
    assert reader.read_rows(rows, columns=["n"])["n"].to_pylist() == rows.tolist()


def test_nothing_in_nothing_out(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.string())])
    settings = SplitWriterSettings(temp_directory=str(tmp_path))
    empty = pa.RecordBatch.from_arrays([pa.array([], pa.string())], schema=schema)
    assert list(write_splits([empty], schema, mapping_of(schema), settings=settings)) == []
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_gone_however_writing_ends(tmp_path: Path) -> None:
    table = log_rows(3_000)
    settings = SplitWriterSettings(temp_directory=str(tmp_path), max_rows=1_000)
    with (
        pytest.raises(ZeroDivisionError),
        SplitWriter(table.schema, mapping_of(table.schema), settings=settings) as w,
    ):
        w.write(table.to_batches()[0])
        assert list(tmp_path.iterdir())
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    stream = write_splits(
        table.to_batches(), table.schema, mapping_of(table.schema), settings=settings
    )
    next(stream)
    stream.close()
    assert list(tmp_path.iterdir()) == []


def test_data_of_another_shape_is_refused(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.int64())])
    settings = SplitWriterSettings(temp_directory=str(tmp_path))
    with SplitWriter(schema, mapping_of(schema), settings=settings) as writer:
        with pytest.raises(SchemaMismatchError, match="no column 'b'"):
            writer.write(pa.record_batch({"a": ["x"]}))
        with pytest.raises(
            SchemaMismatchError, match="'b' is int64 in the table and string in the data"
        ):
            writer.write(pa.record_batch({"a": ["x"], "b": ["y"]}))
        broken = pa.Array.from_buffers(
            pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xff")]
        )
        with pytest.raises(InvalidInputError, match="not valid Arrow"):
            writer.write(pa.record_batch({"a": broken, "b": pa.array([1])}))
        assert writer.write(pa.record_batch({"b": pa.array([2]), "a": ["x"], "more": [1.0]})) == []
        (split,) = writer.finish()
        assert open_file(split.path).read_rows().to_pylist() == [{"a": "x", "b": 2}]


def test_lines_and_nulls_and_quotes_stay_what_they_are(tmp_path: Path) -> None:
    texts = [
        "a\nb",
        "a\u2028b",
        "a\x85b",
        "a\rb",
        '"c0":null',
        '\\"c0\\":null',
        "",
        None,
        "null",
        "[]",
        "{}",
        "\0",
        "é😀",
    ]
    table = pa.table({"t": pa.array(texts, pa.string())})
    reader = open_file(write_file(table, tmp_path / "a.split", typemap={}))
    assert reader.read_rows().equals(table)
    for row, text in enumerate(texts):
        if text:
            assert term_rows(reader, "t", text) == [row], repr(text)


def test_json_columns_and_rows_without_any_term(tmp_path: Path) -> None:
    table = pa.table(
        {
            "s": pa.array([{"x": 1, "y": "one"}, None, {"x": None, "y": None}]),
            "j": pa.array(['{"k": "v"}', None, "not json"]),
        }
    )
    reader = open_file(write_file(table, tmp_path / "a.split", typemap={"j": "json"}))
    assert reader.read_rows().equals(table)
    with reader.open_index(["c0", "c1"]) as view:
        searcher, index = view.index.searcher(), view.index
        for query, rows in (
            ("c0.r.y:one", [0]),
            ("c1.r.k:v", [0]),
            ("c1.r:json", [2]),
            ("*", [0, 1, 2]),
        ):
            hits = searcher.search(index.parse_query(query, []), limit=9).hits
            assert sorted(place.doc for _, place in hits) == rows, query


def test_values_that_the_index_cannot_hold_are_counted(tmp_path: Path) -> None:
    table = pa.table({"k": ["short", "x" * 300, "y" * 300], "ip": ["1.2.3.4", "no address", None]})
    reader = open_file(write_file(table, tmp_path / "a.split", typemap={"ip": "ip"}))
    recorded = {
        name: None if v.rows is None else v.rows.tolist() for name, v in reader.incomplete.items()
    }
    assert recorded == {"k": [1, 2], "ip": [1]}
    assert {name: v.count for name, v in reader.incomplete.items()} == {"k": 2, "ip": 1}


def test_a_split_without_any_indexed_column(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2, 3], "f": [1.0, float("nan"), None]})
    reader = open_file(write_file(table, tmp_path / "a.split", typemap={}))
    assert not reader.indexed
    assert reader.read_rows().schema == table.schema
    assert reader.read_rows()["a"].to_pylist() == [1, 2, 3]
    with pytest.raises(InvalidInputError, match="no indexed column"):
        reader.open_index([])


def test_floating_point_and_text_columns_have_no_footer_bounds(tmp_path: Path) -> None:
    table = log_rows(100).append_column("f", pa.array(np.full(100, np.nan), pa.float32()))
    metadata = pq.read_metadata(write_file(table, tmp_path / "a.split"))
    bounded = {
        chunk.path_in_schema: chunk.is_stats_set and chunk.statistics.has_min_max
        for chunk in (metadata.row_group(0).column(i) for i in range(metadata.num_columns))
    }
    assert bounded == {
        "ts": True,
        "level": True,
        "host": True,
        "message": False,
        "latency": False,
        "f": False,
    }


def test_the_log_entry_says_where_things_are(tmp_path: Path) -> None:
    table = log_rows(1_000)
    settings = SplitWriterSettings(timestamp_column="ts")
    mapping = mapping_of(table.schema)
    (split,) = (
        (info, info.path.read_bytes())
        for info in write_splits(
            table.to_batches(), table.schema, mapping, settings=settings, tags=["t1"]
        )
    )
    info, data = split
    add = info.add_action("splits/x.split", partition_values={"d": "1"}, modification_time=7)
    assert add.size == add.footer_end_offset == len(data)
    assert add.hotcache_start_offset == add.footer_start_offset
    assert add.footer_start_offset is not None and add.hotcache_length is not None
    assert add.footer_start_offset + add.hotcache_length < len(data)
    assert (add.has_footer_offsets, add.num_records, add.split_tags) == (True, 1_000, ("t1",))
    assert add.min_values is not None and add.max_values is not None
    assert (add.min_values["level"], add.max_values["level"]) == ("ERROR", "WARN")
    assert json.loads(add.stats or "")["nullCount"]["host"] == table["host"].null_count > 0
    assert add.time_range_start == "2023-11-14T22:13:20Z"
    assert add.time_range_end == "2023-11-14T22:29:59.002997Z"
    assert DocMapping.from_json(add.doc_mapping_json or "") == mapping
    assert add.doc_mapping_ref == mapping.ref
    assert json.loads(add.doc_mapping_json or "")["columns"][3]["kind"] == "text"


def test_a_time_column_that_is_none_is_named() -> None:
    schema = pa.schema([("a", pa.string()), ("at", pa.timestamp("us"))])
    settings = SplitWriterSettings(timestamp_column="a")
    with SplitWriter(schema, mapping_of(schema), settings=settings) as writer:
        batch = pa.record_batch([pa.array(["x"]), pa.array([0], pa.timestamp("us"))], schema=schema)
        with pytest.raises(
            InvalidInputError, match=r"'a', which is no timestamp column. Timestamp columns: at"
        ):
            writer.write(batch)
            writer.finish()
