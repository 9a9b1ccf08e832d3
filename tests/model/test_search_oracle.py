"""A thousand random queries over random rows, against a slow and obvious evaluator: no difference
is allowed.
"""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from indextables.config.indexing import IndexingSettings
from indextables.config.splits import SplitWriterSettings
from indextables.model.predicate import bind
from indextables.splits.index.mapping import DocMapping
from indextables.splits.query.fields import QueryFields
from indextables.splits.query.on_rows import scan_mask
from indextables.splits.query.parser import parse
from indextables.splits.query.to_predicate import implied_predicate, predicate_mask
from indextables.splits.read.reader import SplitReader
from indextables.splits.read.searchable import Searchable
from indextables.splits.search.hits import IndexHits
from indextables.splits.search.match import count_rows, find_rows, open_query
from indextables.splits.write.writer import write_splits
from tests.model import search_oracle as oracle
from tests.support.splits import old_splits, open_file, small_pages
from tests.unit.splits.plain_split import make_split

SETTINGS = IndexingSettings(
    typemap=oracle.TYPEMAP,
    tokenizer=oracle.TOKENIZER,
    record_option=oracle.RECORD,
    nonindexed=("plain",),
    max_token_length=oracle.MAX_TOKEN_LENGTH,
)
ROWS, QUERIES = 250, 100
NOW_MS = int(oracle.NOW.timestamp() * 1000)


def written(table: pa.Table, mapping: DocMapping, path: Path) -> SplitReader:
    """The same rows as a real split."""
    (made,) = (
        s.path.read_bytes()
        for s in write_splits(
            table.to_batches(), table.schema, mapping, settings=SplitWriterSettings()
        )
    )
    path.write_bytes(made)
    return open_file(path)


@pytest.mark.parametrize("seed", range(10))
def test_every_query_finds_exactly_its_rows(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    rows = oracle.make_rows(rng, ROWS)
    table = pa.Table.from_pylist(rows, schema=oracle.SCHEMA)
    split: Searchable = make_split(table, SETTINGS, tmp_path / "index")
    if seed % 2:
        with old_splits() if seed % 4 == 1 else small_pages(7, group_rows=100):
            split = written(table, split.mapping, tmp_path / "a.split")
    fields = QueryFields(table.schema, split.mapping, ("message", "bare"))
    implications = 0
    for _ in range(QUERIES):
        text, meaning = oracle.make_query(rng)
        expected = [i for i, row in enumerate(rows) if meaning(row)]
        query = parse(text, fields, now_ms=NOW_MS)
        shown = f"{text}\n  understood as {query}"
        assert find_rows(split, query).tolist() == expected, shown
        assert count_rows(split, query) == len(expected), shown
        assert np.flatnonzero(scan_mask(query, table, split.mapping)).tolist() == expected, (
            f"scan of {shown}"
        )
        implied = implied_predicate(query, split.mapping)
        if implied is not None:
            assert predicate_mask(bind(implied, table.schema), table)[expected].all(), (
                f"{implied} of {shown}"
            )
            implications += 1
        assert parse(str(query), fields) == query == pickle.loads(pickle.dumps(query)), shown
    assert implications


@pytest.mark.parametrize("seed", range(2))
def test_rows_read_from_the_bitset_are_the_rows_of_the_hits(seed: int, tmp_path: Path) -> None:
    rng = random.Random(1000 + seed)
    table = pa.Table.from_pylist(oracle.make_rows(rng, ROWS), schema=oracle.SCHEMA)
    split = make_split(table, SETTINGS, tmp_path / "index")
    fields = QueryFields(table.schema, split.mapping, ("message", "bare"))
    compared = 0
    while compared < 50:
        query = parse(oracle.make_query(rng, depth=1)[0], fields, now_ms=NOW_MS)
        with open_query(split, query) as opened:
            whole = opened.whole()
            if whole is not None and opened.hits is not None:
                view = split.open_index([])
                listed, marked = (
                    IndexHits(view, split.path, max_listed=most).rows(whole) for most in (ROWS, 0)
                )
                assert marked.tolist() == listed.tolist(), str(query)
                compared += 1
