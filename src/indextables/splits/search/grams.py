"""Conditions over parts of texts, narrowed by the index: rows that hold every three neighbouring characters of a literal.

A column with `indexing.substring` has a second field, with all its texts' grams in lower case. What it finds is a superset
of the rows for which `LIKE`, `contains` and the like are true; the rows decide. A literal of fewer than three characters,
a negation, or a column without the field says nothing: then the rows alone are asked.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import tantivy

from indextables.model.predicate import And, Column, Comparison, In, Like, Or, Predicate, RLike, TextMatch
from indextables.model.predicate.like import pattern_parts
from indextables.model.regular_expression import regular_expression
from indextables.splits.index.analyzers import GRAM_SIZE, terms_of
from indextables.splits.index.mapping import GRAM_TOKENIZER, DocMapping
from indextables.splits.read.searchable import Rows
from indextables.splits.search.hits import IndexHits

MAX_GRAMS = 64
"""Of so many grams of a literal the rarest are chosen."""
LOOKED_UP = 5
Grams = tuple[str, frozenset[str]]
"""A field, and the grams that a row must hold in it."""


def gram_fields(where: Predicate, mapping: DocMapping) -> tuple[str, ...]:
    """The fields that say something of a condition."""
    return tuple(sorted({field for group in _alternatives(where, mapping) or () for field, _ in group}))


def gram_rows(where: Predicate, mapping: DocMapping, hits: IndexHits) -> Rows | None:
    """Every row that a condition can be true for, and some more; None where the index says nothing of it."""
    groups = _alternatives(where, mapping)
    if groups is None:
        return None
    return np.unique(np.concatenate([_rows_of_group(group, hits) for group in groups]))


def _rows_of_group(group: frozenset[Grams], hits: IndexHits) -> Rows:
    """The rows that hold the rarest grams of a group: the others hardly leave out another row."""
    terms = {(field, gram) for field, grams in group for gram in grams}
    counted = sorted((hits.term_bound(field, gram), field, gram) for field, gram in terms)
    rarest = counted[:LOOKED_UP]
    queries = [tantivy.Query.term_query(hits.schema, field, gram, "basic") for _, field, gram in rarest]
    both = queries[0] if len(queries) == 1 else tantivy.Query.boolean_query([(tantivy.Occur.Must, q) for q in queries])
    return hits.rows_among(both, rarest[0][0])


def _alternatives(where: Predicate, mapping: DocMapping) -> tuple[frozenset[Grams], ...] | None:
    """What a row must hold: all grams of any one group; None if any row may do."""
    if isinstance(where, And):
        known = [groups for child in where.children if (groups := _alternatives(child, mapping)) is not None]
        if not known:
            return None
        single = [groups[0] for groups in known if len(groups) == 1]
        # One of several alternatives stays as it is; what is certain comes to each.
        several = min((groups for groups in known if len(groups) > 1), key=len, default=(frozenset[Grams](),))
        return tuple(group.union(*single) for group in several)
    if isinstance(where, Or):
        below = [_alternatives(child, mapping) for child in where.children]
        either = tuple(group for alternatives in below if alternatives is not None for group in alternatives)
        return None if any(alternatives is None for alternatives in below) else either
    if isinstance(where, In):
        each = [_of_literals(where.column, [v.value], mapping) for v in where.literals]
        return None if any(group is None for group in each) else tuple(group for group in each if group is not None)
    group = _of_leaf(where, mapping)
    return None if group is None else (group,)


def _of_leaf(where: Predicate, mapping: DocMapping) -> frozenset[Grams] | None:
    if isinstance(where, TextMatch):
        return _of_literals(where.column, [where.text], mapping)
    if isinstance(where, Like):
        return _of_literals(where.column, [p for p in pattern_parts(where.pattern) if isinstance(p, str)], mapping)
    if isinstance(where, RLike):
        return _of_literals(where.column, regular_expression(where.pattern).literals(), mapping)
    if isinstance(where, Comparison) and where.operator == "=":
        return _of_literals(where.column, [where.literal.value], mapping)
    return None


def _of_literals(column: Column, literals: Iterable[object], mapping: DocMapping) -> frozenset[Grams] | None:
    indexed = mapping.find(column.name) if len(column.path) == 1 else None
    if indexed is None or not indexed.substring:
        return None
    texts = [text for text in literals if isinstance(text, str) and len(text) >= GRAM_SIZE]
    grams = sorted({gram for text in texts for gram in terms_of(text, GRAM_TOKENIZER)})
    step = -(-len(grams) // MAX_GRAMS) or 1
    return frozenset([(indexed.grams.field, frozenset(grams[::step]))]) if grams else None
