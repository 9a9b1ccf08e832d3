"""What we write in tantivy's formats, tantivy reads; what is garbled, we refuse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tantivy

from indextables.errors import BadFileError
from indextables.splits.index.tantivy_files import (
    alive_bitset,
    composite_spans,
    empty_store,
    row_column,
    with_footer,
)


def index_of(folder: Path, rows: int) -> str:
    """An index with this many documents; returns the stem of its files."""
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("_row", fast=True)
    builder.add_text_field("t", stored=True)
    index = tantivy.Index(builder.build(), path=str(folder))
    writer = index.writer(15_000_000, 1)
    for row in range(rows):
        writer.add_json(f'{{"_row":7,"t":"word w{row}"}}')
    writer.commit()
    writer.wait_merging_threads()
    (term,) = folder.glob("*.term")
    return term.stem


def replace(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


@pytest.mark.parametrize("rows", [1, 2, 63, 64, 65, 1000])
@pytest.mark.parametrize("base", [0, 5, 127, 128, 1 << 32, 7 << 40])
def test_a_row_column_counts_up_from_its_base(tmp_path: Path, rows: int, base: int) -> None:
    stem = index_of(tmp_path, rows)
    replace(tmp_path / f"{stem}.fast", row_column(rows, base))
    searcher = tantivy.Index.open(str(tmp_path)).searcher()
    values = searcher.fast_field_values("_row", [tantivy.DocAddress(0, n) for n in range(rows)])
    assert values == list(range(base, base + rows))


@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_an_empty_store_has_every_document_without_fields(tmp_path: Path, rows: int) -> None:
    stem = index_of(tmp_path, rows)
    replace(tmp_path / f"{stem}.store", b"".join(empty_store(rows)))
    searcher = tantivy.Index.open(str(tmp_path)).searcher()
    for row in (0, rows - 1):
        assert searcher.doc(tantivy.DocAddress(0, row)).to_dict() == {}


def test_a_bitset_hides_documents(tmp_path: Path) -> None:
    stem = index_of(tmp_path, 100)
    alive = np.arange(100) % 3 == 0
    (tmp_path / f"{stem}.9.del").write_bytes(alive_bitset(alive))
    meta = tmp_path / "meta.json"
    deletes = f'"deletes": {{"num_deleted_docs": {100 - alive.sum()}, "opstamp": 9}}'
    meta.write_text(meta.read_text().replace('"deletes": null', deletes))
    index = tantivy.Index.open(str(tmp_path))
    hits = index.searcher().search(index.parse_query("word", ["t"]), limit=100).hits
    assert sorted(place.doc for _, place in hits) == [n for n in range(100) if n % 3 == 0]


def test_spans_cover_a_composite_file(tmp_path: Path) -> None:
    stem = index_of(tmp_path, 10)
    data = (tmp_path / f"{stem}.idx").read_bytes()
    start, spans = composite_spans(data, len(data), "x.idx")
    assert spans[0].start == 0
    assert spans[-1].end == start
    assert composite_spans(data[start:], len(data), "x.idx") == (start, spans)


@pytest.mark.parametrize(
    "data", [b"", b"abc", bytes(100), with_footer(b""), with_footer(b"\xff" * 40), b"x" * 4096]
)
def test_a_garbled_composite_file_is_refused(data: bytes) -> None:
    with pytest.raises(BadFileError, match=r"x\.idx"):
        composite_spans(data, len(data), "x.idx")
