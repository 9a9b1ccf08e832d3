"""Random rows through writing, merging and deleting, against plain lists."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.splits.read.reader import SplitReader
from indextables.splits.write.merge import MergeSource, merge_splits
from tests.support.splits import SCRATCH, mapping_of, open_file, term_rows, write_file

SCHEMA = pa.schema(
    {"k": pa.string(), "t": pa.string(), "n": pa.float64(), "l": pa.list_(pa.string())}
)
TYPEMAP = {"t": "text"}
words = st.sampled_from(["red", "green", "blue", "RED", "éclair", ""])
rows = st.fixed_dictionaries(
    {
        "k": st.none() | words,
        "t": st.none() | st.lists(words, max_size=4).map(" ".join),
        "n": st.none() | st.floats(allow_nan=False),
        "l": st.none() | st.lists(st.none() | words, max_size=3),
    }
)
tables = st.lists(rows, min_size=1, max_size=20).map(lambda r: pa.Table.from_pylist(r, SCHEMA))


def check(reader: SplitReader, expected: pa.Table) -> None:
    assert reader.read_rows().combine_chunks().equals(expected.combine_chunks())
    keys, texts = expected["k"].to_pylist(), expected["t"].to_pylist()
    for word in ("red", "RED", "éclair"):
        assert term_rows(reader, "k", word) == [n for n, key in enumerate(keys) if key == word]
        assert term_rows(reader, "t", word.lower()) == [
            n for n, text in enumerate(texts) if word.lower() in (text or "").lower().split()
        ]


@settings(max_examples=12, deadline=None)
@given(st.lists(tables, min_size=1, max_size=4), st.data())
def test_merging_with_deletions_twice(parts: list[pa.Table], data: st.DataObject) -> None:
    mapping = mapping_of(SCHEMA, TYPEMAP)
    with tempfile.TemporaryDirectory(
        ignore_cleanup_errors=True
    ) as made:  # tantivy may still hold a lock file in it
        folder = Path(made)
        readers = [
            open_file(write_file(t, folder / f"{n}.split", typemap=TYPEMAP))
            for n, t in enumerate(parts)
        ]
        for turn in range(2):
            for reader, part in zip(readers, parts, strict=True):
                check(reader, part)
            masks = [
                np.array(
                    data.draw(st.lists(st.booleans(), min_size=p.num_rows, max_size=p.num_rows))
                )
                for p in parts
            ]
            sources = [MergeSource(r, m) for r, m in zip(readers, masks, strict=True)]
            expected = pa.concat_tables(
                [p.filter(pa.array(m)) for p, m in zip(parts, masks, strict=True)]
            )
            reuse_index = data.draw(st.booleans())
            with merge_splits(
                sources, SCHEMA, mapping, settings=SCRATCH, reuse_index=reuse_index
            ) as info:
                if info is None:
                    assert expected.num_rows == 0
                    return
                shutil.copyfile(info.path, folder / f"merged-{turn}.split")
            readers, parts = [open_file(folder / f"merged-{turn}.split")], [expected]
            check(readers[0], expected)
