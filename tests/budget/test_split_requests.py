"""What searching and reading one cold split costs on a real S3 server."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from indextables import Table
from indextables.splits.format.source import LocalSource, open_source
from indextables.splits.read.cache import SplitCache
from indextables.splits.read.reader import SplitReader
from indextables.splits.read.split_description import describe_split
from tests.support.faulty_store import CountingStore
from tests.support.places import StorePlace
from tests.support.splits import log_rows, rows_with, term_rows, write_file


def test_one_term_of_a_cold_split(s3_place: StorePlace, tmp_path: Path) -> None:
    table = log_rows(60_000)
    local = write_file(table, tmp_path / "a.split")
    info = describe_split(LocalSource(local)).info
    assert info is not None
    store = CountingStore(s3_place.open())
    store.put_file("splits/a.split", local)
    store.reset()

    source = open_source(store, "splits/a.split", size=info.size)
    cache = SplitCache(tmp_path / "c", 1 << 30)
    reader = SplitReader.open(source, footer_start=info.footer_start_offset, cache=cache)
    assert term_rows(reader, "level", "ERROR") == rows_with(table["level"].to_pylist(), "ERROR")
    assert store.costs.requests == {"get_ranges": 2}
    assert reader.stats.requests <= 3
    assert store.costs.bytes_read < info.size * 0.05

    store.reset()
    rows = np.array([5, 30_000, 59_999])
    assert reader.read_rows(rows, columns=["message"]).equals(
        table.select(["message"]).take(pa.array(rows))
    )
    assert store.costs.requests == {"get_ranges": 1}
    assert store.costs.bytes_read < info.size * 0.2

    store.reset()
    again = SplitReader.open(
        open_source(store, "splits/a.split", size=info.size),
        footer_start=info.footer_start_offset,
        cache=cache,
    )
    assert term_rows(again, "level", "WARN") == rows_with(table["level"].to_pylist(), "WARN")
    assert store.costs.requests == {}


def test_parts_of_texts_and_regular_expressions_of_a_cold_table(
    s3_place: StorePlace, tmp_path: Path
) -> None:
    """Only the dictionary and postings of the field that answers are read, and of the rows those
    that may match.
    """
    rows = log_rows(60_000)
    options = {
        "indexing.typemap.message": "text",
        "indexing.substring.message": "true",
        **s3_place.options,
    }
    options |= {"cache.directoryPath": str(tmp_path / "cache")}
    table = Table.create(s3_place.url, schema=rows.schema, options=options)
    table.append(rows)
    size = table.files().column("size").to_pylist()[0]
    literal = rows["message"].to_pylist()[41_234]
    part = Table.open(s3_place.url, options=options).explain(
        where=f"contains(message, '{literal}')", columns=[]
    )
    assert (part.rows_matched, part.splits[0].answered_by) == (1, "3-grams, confirmed by rows")
    assert part.requests <= 4
    assert (
        part.bytes_read < size * 0.4
    )  # the field of three neighbouring characters, and one row group of messages
    elsewhere = {**options, "cache.directoryPath": str(tmp_path / "other")}
    word = Table.open(s3_place.url, options=elsewhere).explain(
        query=f"message:/{literal.split()[0]}/", columns=[]
    )
    assert word.splits[0].answered_by == "index"
    assert word.requests <= 2
    assert word.bytes_read < size * 0.2  # the dictionary and the postings of the words
