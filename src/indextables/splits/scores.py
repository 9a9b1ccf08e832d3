"""Scores of a query's rows: BM25 for words and phrases, one for other parts the index answers, nothing for the rest.

What is answered from the rows (numbers, dates, ranges, missing values) filters and adds nothing. A part that is not
required adds its score only to rows that really match it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import tantivy
from msgspec import Struct

from indextables.model.predicate import Predicate
from indextables.splits.hits import Scores
from indextables.splits.query.scan_score import scan_scores
from indextables.splits.query.tree import AllRows, Bool, Boost, Query, columns
from indextables.splits.rows import OpenQuery
from indextables.splits.searchable import Mask, Rows

_FIRST_LIMIT, _GROWTH = 1_000, 8


class Hits(Struct, frozen=True):
    """Rows of one split with their scores, in the order that was asked for."""

    rows: Rows
    scores: Scores

    def score_column(self) -> pa.Array:
        """The scores, as they are in memory: `pa.array` of them would load a part of numpy first."""
        scores = np.ascontiguousarray(self.scores, np.float32)
        return pa.Array.from_buffers(pa.float32(), len(scores), [None, pa.py_buffer(scores)])


class _NotOneQueryError(Exception):
    """The scores of a query cannot be had from a single tantivy query."""


def best_hits(opened: OpenQuery, limit: int, where: Predicate | None = None) -> Hits:
    """The rows with the highest scores, best first; equal scores in row order."""
    whole = opened.whole()
    if whole is not None and where is None and opened.hits is not None:
        return Hits(*opened.hits.scored(whole, limit))
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


def scored_rows(opened: OpenQuery, rows: Rows) -> Scores:
    """The scores of rows that match the query."""
    if not opened.split.indexed:
        return _scanned(opened, rows)
    _, scores = _dense(opened, opened.query, np.ones(opened.split.num_rows, np.bool_))
    found: Scores = scores[rows]
    return found


def _scanned(opened: OpenQuery, rows: Rows) -> Scores:
    """The scores of rows of a split without an index, from the rows themselves."""
    split = opened.split
    names = [name for name in columns(opened.query) if name in split.schema.names]
    if not names:
        return np.zeros(len(rows), np.float32)
    parts = [np.empty(0, np.float32)]
    for batch in split.iter_rows(rows, columns=names):
        parts.append(scan_scores(opened.query, pa.Table.from_batches([batch]), split.mapping, opened.rarity))
    return np.concatenate(parts)


def _best(rows: Rows, scores: Scores, limit: int) -> Hits:
    order = np.lexsort((rows, -scores))[:limit]
    return Hits(rows[order], scores[order])


def _scoring(opened: OpenQuery, query: Query) -> tantivy.Query | None:
    """One tantivy query with the score of every row that is known to match; None if nothing scores."""
    whole = opened.whole(query)
    if whole is not None:
        return whole
    if isinstance(query, Boost):
        below = _scoring(opened, query.query)
        return None if below is None else tantivy.Query.boost_query(below, query.factor)
    if not isinstance(query, Bool):
        answer = None if isinstance(query, AllRows) else opened.ask(query)  # type: ignore[arg-type]
        return None if answer is None else answer.query
    parts = [_scoring(opened, below) for below in query.must]
    for below in query.should:
        part = opened.whole(below)
        if part is None and _scoring(opened, below) is not None:
            raise _NotOneQueryError
        parts.append(part)
    scored = [part for part in parts if part is not None]
    return tantivy.Query.boolean_query([(tantivy.Occur.Should, part) for part in scored]) if scored else None


def _dense(opened: OpenQuery, query: Query, within: Mask) -> tuple[Mask, Scores]:
    """Which rows match a part of the query, and its score for each row of the split."""
    whole = opened.whole(query)
    if whole is not None:
        scores = _all_scores(opened, whole)
        return opened.matches(query, within), scores
    if isinstance(query, Boost):
        found, scores = _dense(opened, query.query, within)
        return found, scores * np.float32(query.factor)
    if isinstance(query, Bool):
        return _dense_bool(opened, query, within)
    found = opened.matches(query, within)
    answer = None if isinstance(query, AllRows) else opened.ask(query)  # type: ignore[arg-type]
    scores = np.zeros(len(within), np.float32) if answer is None else _all_scores(opened, answer.query)
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
