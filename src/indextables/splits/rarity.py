"""How rare words are in the whole table, so that scores of different splits can be compared.

Each split counts the documents that hold each scored word; the sums give every word its weight in the table. Tantivy
knows only its own split, and its score is linear in a word's weight: a factor per word makes it table-wide. The average
length of a text, which BM25 also looks at, stays the split's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from indextables.splits.panics import tantivy_errors
from indextables.splits.query.scan import leaf_mask
from indextables.splits.query.translate import TermKey, field_name, scored_terms
from indextables.splits.query.tree import Query, Words, leaves
from indextables.splits.searchable import Searchable


class TermStatistics(Struct, frozen=True):
    """Documents, and how many of them hold each scored word. Picklable; statistics of splits add up."""

    num_docs: int = 0
    doc_freqs: Mapping[TermKey, int] = field(default_factory=dict)

    def __add__(self, other: TermStatistics) -> TermStatistics:
        keys = dict.fromkeys([*self.doc_freqs, *other.doc_freqs])
        freqs = {key: self.doc_freqs.get(key, 0) + other.doc_freqs.get(key, 0) for key in keys}
        return TermStatistics(self.num_docs + other.num_docs, freqs)


def total(parts: Iterable[TermStatistics]) -> TermStatistics:
    """The statistics of several splits together."""
    found = TermStatistics()
    for part in parts:
        found = found + part
    return found


def term_statistics(split: Searchable, query: Query) -> TermStatistics:
    """What one split knows of the words of a query. Reads the term dictionary only; without an index, the rows."""
    keys = _scored(split, query)
    if not keys or not split.num_rows:
        return TermStatistics(split.num_rows, dict.fromkeys(keys, 0))
    if not split.indexed:
        return TermStatistics(split.num_rows, _counted(split, keys))
    columns = {key: split.mapping.find(key.target.column) for key in keys}
    names = {key: field_name(column, key.target) for key, column in columns.items() if column is not None}
    fields = dict.fromkeys(column.field for column in columns.values() if column is not None)
    with tantivy_errors(split.path, "A look at the term dictionary"), split.open_index(fields) as view:
        searcher = view.index.searcher()
        return TermStatistics(split.num_rows, {k: int(searcher.doc_freq(n, k.text)) for k, n in names.items()})


def rarity(table: TermStatistics, split: TermStatistics) -> dict[TermKey, tuple[float, float]]:
    """The weight of each word in the table, and in one split alone."""
    return {
        key: (weight(table.doc_freqs.get(key, count), table.num_docs), weight(count, split.num_docs))
        for key, count in split.doc_freqs.items()
    }


def weight(doc_freq: int, num_docs: int) -> float:
    """BM25's inverse document frequency."""
    return math.log(1 + (num_docs - doc_freq + 0.5) / (doc_freq + 0.5))


def _scored(split: Searchable, query: Query) -> list[TermKey]:
    found: list[TermKey] = []
    for leaf in leaves(query):
        column = split.mapping.find(leaf.target.column)
        if column is not None:
            found += scored_terms(leaf, column)
    return list(dict.fromkeys(found))


def _counted(split: Searchable, keys: list[TermKey]) -> dict[TermKey, int]:
    """How many rows hold each word, by looking at all of them."""
    counts = dict.fromkeys(keys, 0)
    names = list(dict.fromkeys(key.target.column for key in keys))
    for batch in split.iter_rows(columns=names):
        table = pa.Table.from_batches([batch])
        for key in keys:
            counts[key] += int(np.count_nonzero(leaf_mask(Words(key.target, key.text, True), table, split.mapping)))
    return counts
