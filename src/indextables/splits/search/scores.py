"""Score a query's rows: BM25 for words and phrases, one for other parts that the index answers,
zero for the rest.

Parts answered from the rows (numbers, dates, ranges, missing values) filter and add nothing. An
optional part adds its score only to rows that match it. Scores of different splits are comparable
by document frequencies of the whole table (`inverse_document_frequency`): each split counts the
documents with each scored word, and the sums weight the words. Tantivy knows only its own split,
and its score is linear in a word's weight, so one factor per word makes it table-wide. The average
text length of BM25 is that of the split. Rows found by scanning have BM25 with average text length.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tantivy
from msgspec import Struct, field

from indextables.model.predicate import Predicate
from indextables.splits.index.analyzers import terms_of
from indextables.splits.index.mapping import ColumnMapping, DocMapping
from indextables.splits.index.tantivy_files import TantivyErrors
from indextables.splits.index.values import documents, plain_texts, text_list
from indextables.splits.index.values import leaves as json_leaves
from indextables.splits.query.on_rows import leaf_mask, scan_mask
from indextables.splits.query.to_tantivy import TermKey, has_index_for, scored_terms
from indextables.splits.query.tree import AllRows, Bool, Boost, Leaf, Query, Words, columns
from indextables.splits.read.searchable import Mask, Rows, Searchable
from indextables.splits.search.hits import Scores
from indextables.splits.search.match import OpenQuery, open_needs
from indextables.splits.search.prepared import prepare_query


class TermStatistics(Struct, frozen=True):
    """Document count, and document frequency of each scored word. Picklable; statistics of splits
    add up.
    """

    num_docs: int = 0
    doc_freqs: Mapping[TermKey, int] = field(default_factory=dict)

    def __add__(self, other: TermStatistics) -> TermStatistics:
        keys = dict.fromkeys([*self.doc_freqs, *other.doc_freqs])
        freqs = {key: self.doc_freqs.get(key, 0) + other.doc_freqs.get(key, 0) for key in keys}
        return TermStatistics(self.num_docs + other.num_docs, freqs)


def total(parts: Iterable[TermStatistics]) -> TermStatistics:
    """Add the statistics of several splits."""
    num_docs, doc_freqs = 0, dict[TermKey, int]()
    for part in parts:
        num_docs += part.num_docs
        for key, count in part.doc_freqs.items():
            doc_freqs[key] = doc_freqs.get(key, 0) + count
    return TermStatistics(num_docs, doc_freqs)


def term_statistics(split: Searchable, query: Query, *, ahead: bool = False) -> TermStatistics:
    """Return one split's statistics for a query, from the term dictionary, or from the rows without
    an index.

    `ahead` also fetches the remaining data of a scored search, so that it waits for the store once.
    """
    prepared = prepare_query(query, split.mapping)
    keys = prepared.keys
    if not keys or not split.num_rows:
        return TermStatistics(split.num_rows, dict.fromkeys(keys, 0))
    if not split.indexed:
        return TermStatistics(split.num_rows, _count_words(split, keys))
    if ahead:
        opening = open_needs(split, query, norms=True)
    else:
        opening = split.open_index(prepared.scored_columns)
    with TantivyErrors(split.path, "Reading the term dictionary"), opening as view:
        assert view is not None  # a scored word is one that the index knows
        searcher = view.index.searcher()
        # Deleted rows count, as they do in tantivy's own weights, until a merge drops them.
        counts = {key: int(searcher.doc_freq(name, key.text)) for key, name in prepared.fields}
        return TermStatistics(split.stored_rows, counts)


def inverse_document_frequency(
    table: TermStatistics, split: TermStatistics
) -> dict[TermKey, tuple[float, float]]:
    """Return the weight of each word in the table and in one split."""
    return {
        key: (
            weight(table.doc_freqs.get(key, count), table.num_docs),
            weight(count, split.num_docs),
        )
        for key, count in split.doc_freqs.items()
    }


def weight(doc_freq: int, num_docs: int) -> float:
    """Return BM25's inverse document frequency."""
    return math.log(1 + (num_docs - doc_freq + 0.5) / (doc_freq + 0.5))


def weighs_values(split: Searchable, query: Query) -> bool:
    """Return whether a score depends on the split's own statistics: whole values are weighted by
    their rarity.

    Words have the same weight with and without them: tantivy's own, times one.
    """
    if not split.indexed:
        return True
    columns = (
        split.mapping.find(key.target.column) for key in prepare_query(query, split.mapping).keys
    )
    return any(column is not None and column.kind == "string" for column in columns)


def can_match(
    query: Query, split: Searchable, own: TermStatistics, whole: Query | None = None
) -> bool:
    """Whether a split can hold a match, by which of the words it holds at all; yes where that is
    not known.

    `whole` is the query that `query` is a part of.
    """
    whole = whole or query
    if isinstance(query, Boost):
        return can_match(query.query, split, own, whole)
    if isinstance(query, Bool):
        some = sum(can_match(below, split, own, whole) for below in query.should) >= query.needed
        return some and all(can_match(below, split, own, whole) for below in query.must)
    if not isinstance(query, Words) or not split.indexed:
        return True
    keys = prepare_query(whole, split.mapping).leaf_keys.get(query, ())
    return all(own.doc_freqs.get(key, 1) for key in keys)


def _count_words(split: Searchable, keys: Sequence[TermKey]) -> dict[TermKey, int]:
    """Count the rows with each word by another engine's terms or by scanning."""
    counts = dict.fromkeys(keys, 0)
    for key in keys:
        name = key.target.column
        if key.target.path:
            holding = None
        else:
            holding = split.rows_with(name, [key.text])
        if holding is not None:
            counts[key] = int(np.count_nonzero(holding))
            continue
        for batch in split.iter_rows(columns=[name]):
            table = pa.Table.from_batches([batch])
            counts[key] += int(
                np.count_nonzero(leaf_mask(Words(key.target, key.text, True), table, split.mapping))
            )
    return counts


_K1 = 1.2


def scan_scores(
    query: Query, table: pa.Table, mapping: DocMapping, idf: Mapping[TermKey, tuple[float, float]]
) -> Scores:
    """Return the score of each row of a table; 0 for rows that do not match."""
    if isinstance(query, AllRows):
        return np.ones(table.num_rows, np.float32)
    if isinstance(query, Boost):
        return scan_scores(query.query, table, mapping, idf) * np.float32(query.factor)
    if isinstance(query, Bool):
        parts = [scan_scores(below, table, mapping, idf) for below in (*query.must, *query.should)]
        if parts:
            total = np.sum(parts, axis=0, dtype=np.float32)
        else:
            total = np.zeros(table.num_rows, np.float32)
        return np.where(scan_mask(query, table, mapping), total, np.float32(0))
    return _leaf_scores(query, table, mapping, idf)


def _leaf_scores(
    leaf: Leaf, table: pa.Table, mapping: DocMapping, idf: Mapping[TermKey, tuple[float, float]]
) -> Scores:
    column = mapping.find(leaf.target.column)
    if column is None or not has_index_for(leaf, column):
        return np.zeros(table.num_rows, np.float32)
    matched = leaf_mask(leaf, table, mapping).astype(np.float32)
    keys = scored_terms(leaf, column)
    if not keys:
        return matched
    weight = sum(idf.get(key, (1.0, 1.0))[0] for key in keys)
    # Of a phrase, the rarest word says how often the phrase can occur at most.
    counts = np.min([_term_counts(key, table, column) for key in keys], axis=0)
    frequency = np.maximum(counts, 1)
    found: Scores = matched * (weight * frequency * (1 + _K1) / (frequency + _K1)).astype(
        np.float32
    )
    return found


def _term_counts(key: TermKey, table: pa.Table, column: ColumnMapping) -> npt.NDArray[np.int64]:
    """Return how often a term occurs in each row."""
    array = table.column(column.name)
    if column.kind == "json":
        texts = [
            [v for path, v in json_leaves(d) if path == key.target.path and isinstance(v, str)]
            for d in documents(array)
        ]
    else:
        texts = [[] if text is None else [text] for text in text_list(plain_texts(array))]
    return np.array(
        [sum(terms_of(t, column.tokenizer).count(key.text) for t in row) for row in texts], np.int64
    )


_FIRST_LIMIT, _GROWTH = 1_000, 8


class Hits(Struct, frozen=True):
    """Rows of one split with their scores, in the requested order."""

    rows: Rows
    scores: Scores
    keys: pa.Table | None = None
    """Their sort keys, if they are not ordered by score."""

    def at(self, places: npt.NDArray[np.int64]) -> Hits:
        """Return a selection by position."""
        return Hits(self.rows[places], self.scores[places])

    def of(self, rows: Rows) -> Hits:
        """Return those of some rows, which ascend here."""
        return self.at(np.searchsorted(self.rows, rows).astype(np.int64, copy=False))

    def score_column(self) -> pa.Array:
        """Return the scores without copying: `pa.array` would import a part of numpy first."""
        scores = np.ascontiguousarray(self.scores, np.float32)
        return pa.Array.from_buffers(pa.float32(), len(scores), [None, pa.py_buffer(scores)])

    def score_table(self) -> pa.Table:
        """Return the scores as sort keys."""
        return pa.table({"0.0": self.score_column()})


class _NotOneQueryError(Exception):
    """The scores of a query need more than one tantivy query."""


def best_hits(opened: OpenQuery, limit: int, where: Predicate | None = None) -> Hits:
    """Return the rows with the highest scores, best first; equal scores in row order."""
    whole = opened.whole()
    if whole is not None and where is None and opened.hits is not None:
        name = opened.name and (opened.name, frozenset(opened.idf.items()))
        unknown = opened.rows_with_long_terms(opened.query)
        if not len(unknown):
            return Hits(*opened.hits.named_scored(name, whole, limit))
        listed = min(limit + len(unknown), opened.split.num_rows)
        best = Hits(*opened.hits.named_scored(name, whole, listed))
        key = name and ("scores with long terms", name)
        scanned = Hits(*opened.hits.remember_arrays(key, lambda: _scan_rows(opened, unknown)))
        indexed = best.at(np.flatnonzero(~np.isin(best.rows, unknown)))
        rows = np.concatenate([indexed.rows, scanned.rows])
        return _best(rows, np.concatenate([indexed.scores, scanned.scores]), limit)
    if whole is not None and where is not None and opened.hits is not None:
        filtered = opened.filter_query(where)
        if filtered is not None and not len(opened.rows_with_long_terms(opened.query)):
            same_score = tantivy.Query.const_score_query(filtered[1], 0.0)
            both = tantivy.Query.boolean_query(
                [(tantivy.Occur.Must, whole), (tantivy.Occur.Must, same_score)]
            )
            both_names = (
                opened.name
                and filtered[0]
                and (opened.name, frozenset(opened.idf.items()), filtered[0])
            )
            return Hits(*opened.hits.named_scored(both_names, both, limit))
    rows = opened.rows(where)
    if not opened.split.indexed:
        return _best(rows, scored_rows(opened, rows), limit)
    try:
        scoring = _scoring(opened, opened.query)
    except _NotOneQueryError:
        return _best(rows, scored_rows(opened, rows), limit)
    if scoring is None or opened.hits is None or not len(rows):
        return Hits(rows[:limit], np.zeros(len(rows[:limit]), np.float32))
    wanted = np.zeros(opened.split.num_rows, np.bool_)
    wanted[rows] = True
    available, ask = opened.hits.count(scoring), max(_FIRST_LIMIT, limit)
    while True:
        found, scores = opened.hits.scored(scoring, ask)
        kept = wanted[found]
        if np.count_nonzero(kept) >= limit or ask >= available:
            break
        ask *= _GROWTH
    unscored = rows[~np.isin(rows, found[kept])]
    joined = np.concatenate([found[kept], unscored])
    return _best(joined, np.concatenate([scores[kept], np.zeros(len(unscored), np.float32)]), limit)


def _scan_rows(opened: OpenQuery, rows: Rows) -> tuple[Rows, Scores]:
    """Return which rows match the query, and their scores, from the rows alone."""
    matching = rows[opened.scan(opened.query, rows)]
    return matching, _scan(opened, matching)


def scored_rows(opened: OpenQuery, rows: Rows) -> Scores:
    """Return the scores of rows that match the query."""
    if not opened.split.indexed:
        return _scan(opened, rows)
    _, scores = _dense(opened, opened.query, np.ones(opened.split.num_rows, np.bool_))
    found: Scores = scores[rows]
    return found


def _scan(opened: OpenQuery, rows: Rows, part: Query | None = None) -> Scores:
    """Return the scores of rows for the query or a part of it, from the rows themselves."""
    split, query = opened.split, part or opened.query
    names = [name for name in columns(query) if name in split.schema.names]
    if not names or not len(rows):
        return np.zeros(len(rows), np.float32)
    idf = opened.idf
    if split.indexed and not idf and prepare_query(query, split.mapping).keys:
        own = term_statistics(split, query)
        idf = inverse_document_frequency(own, own)
    parts = [np.empty(0, np.float32)]
    for batch in split.iter_rows(rows, columns=names):
        parts.append(scan_scores(query, pa.Table.from_batches([batch]), split.mapping, idf))
    return np.concatenate(parts)


def _best(rows: Rows, scores: Scores, limit: int) -> Hits:
    order = np.lexsort((rows, -scores))[:limit]
    return Hits(rows[order], scores[order])


def _scoring(opened: OpenQuery, query: Query) -> tantivy.Query | None:
    """Return one tantivy query with the score of every matching row, or None if nothing scores."""
    if len(opened.rows_with_long_terms(query)):
        raise _NotOneQueryError
    whole = opened.whole(query)
    if whole is not None:
        return whole
    if isinstance(query, Boost):
        below = _scoring(opened, query.query)
        if below is None:
            return None
        return tantivy.Query.boost_query(below, query.factor)
    if not isinstance(query, Bool):
        if isinstance(query, AllRows):
            answer = None
        else:
            answer = opened.ask(query)
        if answer is None:
            return None
        return answer.query
    parts = [_scoring(opened, below) for below in query.must]
    for below in query.should:
        part = opened.whole(below)
        if part is None and _scoring(opened, below) is not None:
            raise _NotOneQueryError
        parts.append(part)
    scored = [part for part in parts if part is not None]
    if scored:
        return tantivy.Query.boolean_query([(tantivy.Occur.Should, part) for part in scored])
    return None


def _dense(opened: OpenQuery, query: Query, within: Mask) -> tuple[Mask, Scores]:
    """Return which rows match a part of the query, and its score for each row of the split."""
    whole = opened.whole(query)
    if whole is not None:
        found, scores = opened.matches(query, within), _all_scores(opened, whole)
        unknown = opened.rows_with_long_terms(query)
        unknown = unknown[found[unknown]]
        scores[unknown] = _scan(opened, unknown, query)
        return found, scores
    if isinstance(query, Boost):
        found, scores = _dense(opened, query.query, within)
        return found, scores * np.float32(query.factor)
    if isinstance(query, Bool):
        return _dense_bool(opened, query, within)
    found = opened.matches(query, within)
    answer = None if isinstance(query, AllRows) else opened.ask(query)
    if answer is None:
        return found, np.zeros(len(within), np.float32)
    scores = _all_scores(opened, answer.query)
    unknown = opened.rows_with_long_terms(query)
    unknown = unknown[found[unknown]]
    scores[unknown] = _scan(opened, unknown, query)
    return found, np.where(found, scores, np.float32(0))


def _dense_bool(opened: OpenQuery, query: Bool, within: Mask) -> tuple[Mask, Scores]:
    found = opened.matches(query, within)
    scores = np.zeros(len(within), np.float32)
    for below in (*query.must, *query.should):
        matched, part = _dense(opened, below, found)
        scores += np.where(matched, part, np.float32(0))
    return found, scores


def _all_scores(opened: OpenQuery, query: tantivy.Query) -> Scores:
    scores = np.zeros(opened.split.num_rows, np.float32)
    if opened.hits is not None:
        rows, found = opened.hits.scored(query, opened.split.num_rows)
        scores[rows] = found
    return scores
