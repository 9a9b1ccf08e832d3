"""Merging: the same rows in the same order, by stacking segments or by indexing again."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from indextables.config.splits import SplitWriterSettings
from indextables.errors import BadFileError, InvalidInputError, SchemaMismatchError
from indextables.splits.index.tantivy_files import row_column
from indextables.splits.read.reader import SplitReader
from indextables.splits.write.merge import MergeSource, can_merge_segment, merge_splits
from tests.support.splits import (
    SCRATCH,
    TEXT,
    log_rows,
    mapping_of,
    open_file,
    rows_with,
    term_rows,
    write_file,
)


def sources_of(
    tables: Sequence[pa.Table], folder: Path, *, typemap: dict[str, str] = TEXT
) -> list[SplitReader]:
    folder.mkdir(exist_ok=True)
    return [
        open_file(write_file(t, folder / f"{n}.split", typemap=typemap))
        for n, t in enumerate(tables)
    ]


def merged(
    sources: Sequence[MergeSource],
    schema: pa.Schema,
    target: Path,
    *,
    reuse_index: bool = True,
    typemap: dict[str, str] = TEXT,
) -> SplitReader:
    with merge_splits(
        sources, schema, mapping_of(schema, typemap), settings=SCRATCH, reuse_index=reuse_index
    ) as info:
        assert info is not None
        shutil.copyfile(info.path, target)
    assert not info.path.exists()
    return open_file(target)


@pytest.mark.parametrize("reuse_index", [True, False], ids=["segments merged", "indexed again"])
@pytest.mark.parametrize("count", [1, 2, 9])
def test_rows_follow_one_another(tmp_path: Path, reuse_index: bool, count: int) -> None:
    tables = [log_rows(100 + 3_000 * (n % 2), seed=n) for n in range(count)]
    readers = sources_of(tables, tmp_path / "sources")
    found = merged(
        [MergeSource(r) for r in readers],
        tables[0].schema,
        tmp_path / "m.split",
        reuse_index=reuse_index,
    )
    expected = pa.concat_tables(tables)
    assert found.read_rows().combine_chunks().equals(expected.combine_chunks())
    for column, word in (("message", "timeout"), ("level", "WARN"), ("host", "host-11")):
        assert term_rows(found, column, word) == rows_with(expected[column].to_pylist(), word)


@pytest.mark.parametrize("reuse_index", [True, False], ids=["segments merged", "indexed again"])
def test_deleted_rows_are_left_out(tmp_path: Path, reuse_index: bool) -> None:
    tables = [log_rows(n, seed=n) for n in (1, 500, 64, 65, 9_000)]
    rng = np.random.default_rng(0)
    masks = [
        None,
        rng.random(500) < 0.5,
        np.zeros(64, np.bool_),
        np.ones(65, np.bool_),
        rng.random(9_000) < 0.9,
    ]
    readers = sources_of(tables, tmp_path / "sources")
    sources = [MergeSource(r, m) for r, m in zip(readers, masks, strict=True)]
    found = merged(sources, tables[0].schema, tmp_path / "m.split", reuse_index=reuse_index)
    kept = [t if m is None else t.filter(pa.array(m)) for t, m in zip(tables, masks, strict=True)]
    expected = pa.concat_tables(kept)
    assert found.read_rows().combine_chunks().equals(expected.combine_chunks())
    assert term_rows(found, "message", "cache") == rows_with(
        expected["message"].to_pylist(), "cache"
    )
    for row in (0, 1, expected.num_rows - 1):
        unique = expected["message"][row].as_py().split()[-1]
        assert row in term_rows(found, "message", unique)


def test_stacking_gives_the_index_that_indexing_gives(tmp_path: Path) -> None:
    tables = [log_rows(2_000, seed=n) for n in range(3)]
    sources = [MergeSource(r) for r in sources_of(tables, tmp_path / "sources")]
    one = merged(sources, tables[0].schema, tmp_path / "one.split")
    two = merged(sources, tables[0].schema, tmp_path / "two.split", reuse_index=False)
    for a, b in zip(one.table.components, two.table.components, strict=True):
        assert (a.name, a.length, [(r.field, r.length) for r in a.ranges]) == (
            (b.name, b.length, [(r.field, r.length) for r in b.ranges])
        )
    assert one.table.statistics == two.table.statistics


def test_nothing_left_is_no_split(tmp_path: Path) -> None:
    table = log_rows(10)
    (reader,) = sources_of([table], tmp_path / "sources")
    source = MergeSource(reader, np.zeros(10, np.bool_))
    with merge_splits([source], table.schema, mapping_of(table.schema), settings=SCRATCH) as info:
        assert info is None


@pytest.mark.parametrize("kind", ["string", "text", "json", "ip"])
def test_a_column_that_was_added_later_is_null_before(tmp_path: Path, kind: str) -> None:
    old, new = log_rows(300, seed=1), log_rows(200, seed=2)
    new = new.append_column("extra", pa.array(["10.0.0.1" if kind == "ip" else "word"] * 200))
    typemap = {**TEXT, "extra": kind}
    readers = sources_of([old, new, old], tmp_path / "sources", typemap=typemap)
    assert can_merge_segment(readers[0], mapping_of(new.schema, typemap)) == (kind != "text")
    found = merged(
        [MergeSource(r) for r in readers], new.schema, tmp_path / "m.split", typemap=typemap
    )
    expected = pa.concat_tables([old, new, old], promote_options="default")
    assert found.read_rows().combine_chunks().equals(expected.combine_chunks())
    if kind in ("string", "text"):
        assert term_rows(found, "extra", "word") == list(range(300, 500))
    assert term_rows(found, "message", "disk") == rows_with(expected["message"].to_pylist(), "disk")


def test_types_are_widened_but_not_broken(tmp_path: Path) -> None:
    narrow, wide = (
        pa.table({"a": pa.array([1, 2], pa.int32())}),
        pa.table({"a": pa.array([1 << 40], pa.int64())}),
    )
    readers = sources_of([narrow, wide], tmp_path / "sources", typemap={})
    found = merged([MergeSource(r) for r in readers], wide.schema, tmp_path / "m.split", typemap={})
    assert found.read_rows()["a"].to_pylist() == [1, 2, 1 << 40]
    with pytest.raises(
        SchemaMismatchError, match=r"Column 'a' of the split .*1\.split does not fit"
    ):
        merged([MergeSource(r) for r in readers], narrow.schema, tmp_path / "n.split", typemap={})


def test_a_damaged_index_is_healed_from_the_rows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = log_rows(500)
    path = write_file(table, tmp_path / "a.split")
    data = bytearray(path.read_bytes())
    damaged = open_file(path).table.component("idx").ranges[0]
    data[damaged.offset + 3] ^= 0x10
    path.write_bytes(data)
    with pytest.raises(BadFileError, match=f"Bytes {damaged.offset} to"):
        term_rows(open_file(path), "level", "INFO")
    found = merged([MergeSource(open_file(path))], table.schema, tmp_path / "m.split")
    assert "indexed again" in caplog.text
    assert term_rows(found, "level", "INFO") == rows_with(table["level"].to_pylist(), "INFO")


def test_a_merge_that_fails_its_check_indexes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise BadFileError("moved a row")

    monkeypatch.setattr("indextables.splits.index.segments._check", refuse)
    tables = [log_rows(50, seed=n) for n in range(2)]
    sources = [MergeSource(r) for r in sources_of(tables, tmp_path / "sources")]
    found = merged(sources, tables[0].schema, tmp_path / "m.split")
    assert found.read_rows().combine_chunks().equals(pa.concat_tables(tables).combine_chunks())


@pytest.mark.parametrize(
    ("sizes", "masked"),
    [
        ([40] * 3, False),
        ([40] * 9, True),
        ([10_400, 40, 30], False),
        ([10_400, 40], True),
        ([10_300] * 8, False),
    ],
    ids=[
        "small",
        "small with deletions",
        "large and small",
        "large with deletions",
        "many large ones",
    ],
)
def test_segments_of_any_size_are_stacked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, sizes: list[int], masked: bool
) -> None:
    tables = [log_rows(size, seed=n) for n, size in enumerate(sizes)]
    masks = [np.arange(size) % 7 != 3 if masked else None for size in sizes]
    sources = [
        MergeSource(r, m)
        for r, m in zip(sources_of(tables, tmp_path / "sources"), masks, strict=True)
    ]
    found = merged(sources, tables[0].schema, tmp_path / "m.split")
    assert "indexed again" not in caplog.text
    left = pa.concat_tables(
        t if m is None else t.filter(pa.array(m)) for t, m in zip(tables, masks, strict=True)
    )
    assert found.read_rows().combine_chunks().equals(left.combine_chunks())
    assert term_rows(found, "level", "WARN") == rows_with(left["level"].to_pylist(), "WARN")


@pytest.mark.parametrize("shift", [1, -1], ids=["behind", "before"])
def test_a_merge_that_moves_a_row_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, shift: int
) -> None:
    tables = [log_rows(50, seed=n) for n in range(9)]
    sources = [MergeSource(r) for r in sources_of(tables, tmp_path / "sources")]

    def misplaced(rows: int, base: int) -> bytes:
        return row_column(rows, base + 75 * shift if base == 200 else base)

    monkeypatch.setattr("indextables.splits.index.segments.row_column", misplaced)
    found = merged(sources, tables[0].schema, tmp_path / "m.split")
    assert "Merging segments moved row" in caplog.text
    assert found.read_rows().combine_chunks().equals(pa.concat_tables(tables).combine_chunks())
    levels = pa.concat_tables(tables)["level"].to_pylist()
    assert term_rows(found, "level", "INFO") == rows_with(levels, "INFO")


def test_the_folder_is_gone_after_a_failure(tmp_path: Path) -> None:
    table = log_rows(300)
    path = write_file(table, tmp_path / "a.split")
    reader = open_file(path)
    data = bytearray(path.read_bytes())
    data[10] ^= 1
    path.write_bytes(data)
    (tmp_path / "temp").mkdir()
    settings = SplitWriterSettings(temp_directory=str(tmp_path / "temp"))
    mapping = mapping_of(table.schema)
    with (
        pytest.raises(BadFileError, match="are damaged"),
        merge_splits([MergeSource(reader)], table.schema, mapping, settings=settings),
    ):
        pass
    assert list((tmp_path / "temp").iterdir()) == []


def test_a_mask_must_fit(tmp_path: Path) -> None:
    (reader,) = sources_of([log_rows(10)], tmp_path / "sources")
    with pytest.raises(InvalidInputError, match="mask of 3 rows for the 10 rows"):
        MergeSource(reader, np.ones(3, np.bool_))


def test_rows_of_incomplete_values_move_with_a_merge(tmp_path: Path) -> None:
    table = pa.table({"k": ["x" * 300, "y", "z" * 300, "a" * 300]})
    first, second = sources_of([table, table], tmp_path / "sources", typemap={})
    alive = np.array([False, True, True, True])
    sources = [MergeSource(first, alive), MergeSource(second)]
    values = merged(sources, table.schema, tmp_path / "m.split").incomplete["k"]
    assert values.rows is not None
    assert values.rows.tolist() == [1, 2, 3, 5, 6]
    assert values.count == 5
