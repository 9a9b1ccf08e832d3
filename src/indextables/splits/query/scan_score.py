"""Scores without an index, for rows that were found by scanning: BM25 with every text taken as of average length."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.splits.analyzers import terms_of
from indextables.splits.index_values import documents, plain_texts
from indextables.splits.json_values import leaves as json_leaves
from indextables.splits.mapping import ColumnMapping, DocMapping
from indextables.splits.query.scan import leaf_mask, scan_mask
from indextables.splits.query.translate import TermKey, is_indexed_as_asked, scored_terms
from indextables.splits.query.tree import AllRows, Bool, Boost, Leaf, Query

Scores = npt.NDArray[np.float32]
_K1 = 1.2


def scan_scores(
    query: Query, table: pa.Table, mapping: DocMapping, rarity: Mapping[TermKey, tuple[float, float]]
) -> Scores:
    """The score of each row of a table; 0 for rows that do not match."""
    if isinstance(query, AllRows):
        return np.ones(table.num_rows, np.float32)
    if isinstance(query, Boost):
        return scan_scores(query.query, table, mapping, rarity) * np.float32(query.factor)
    if isinstance(query, Bool):
        parts = [scan_scores(below, table, mapping, rarity) for below in (*query.must, *query.should)]
        total = np.sum(parts, axis=0, dtype=np.float32) if parts else np.zeros(table.num_rows, np.float32)
        return np.where(scan_mask(query, table, mapping), total, np.float32(0))
    return _leaf_scores(query, table, mapping, rarity)  # type: ignore[arg-type]


def _leaf_scores(
    leaf: Leaf, table: pa.Table, mapping: DocMapping, rarity: Mapping[TermKey, tuple[float, float]]
) -> Scores:
    column = mapping.find(leaf.target.column)
    if column is None or not is_indexed_as_asked(leaf, column):
        return np.zeros(table.num_rows, np.float32)
    matched = leaf_mask(leaf, table, mapping).astype(np.float32)
    keys = scored_terms(leaf, column)
    if not keys:
        return matched
    weight = sum(rarity.get(key, (1.0, 1.0))[0] for key in keys)
    # Of a phrase, the rarest word says how often the phrase can occur at most.
    counts = np.min([_term_counts(key, table, column) for key in keys], axis=0)
    frequency = np.maximum(counts, 1)
    found: Scores = matched * (weight * frequency * (1 + _K1) / (frequency + _K1)).astype(np.float32)
    return found


def _term_counts(key: TermKey, table: pa.Table, column: ColumnMapping) -> npt.NDArray[np.int64]:
    """How often a term is in each row."""
    array = table.column(column.name)
    if column.kind == "json":
        texts = [
            [v for path, v in json_leaves(d) if path == key.target.path and isinstance(v, str)]
            for d in documents(array)
        ]
    else:
        texts = [[] if text is None else [text] for text in plain_texts(array).to_pylist()]
    return np.array([sum(terms_of(t, column.tokenizer).count(key.text) for t in row) for row in texts], np.int64)
