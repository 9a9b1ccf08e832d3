"""Evaluate a query tree on one split: exact row numbers from a combination of index and rows.

A tree that the index answers completely is one tantivy query. Otherwise its parts are evaluated
separately: index parts first, which narrow the rows, and only those rows are read for the rest.

The index also narrows conditions on parts of texts. A column with `indexing.substring` has a second
field with the lower-case trigrams of its texts, which finds a superset of the rows for `LIKE`,
`contains` and similar; the rows decide. Literals of fewer than three characters, negations, and
columns without the field are answered from the rows, as is everything that a setting
`filter.string*.pushdown` disables. A column of kind `text_and_string` or `exact_only` has a field
with whole values or hashes for equality and IN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property

import numpy as np
import pyarrow as pa
import tantivy

from indextables.errors import InvalidInputError
from indextables.metrics import PROFILER
from indextables.model.predicate import (
    And,
    Column,
    Comparison,
    In,
    Like,
    Or,
    Predicate,
    RLike,
    TextMatch,
    bind,
    columns_of,
)
from indextables.model.predicate.tree import pattern_parts
from indextables.model.regular_expression import regular_expression
from indextables.splits.index.analyzers import GRAM_SIZE, terms_of
from indextables.splits.index.mapping import GRAM_TOKENIZER, ColumnMapping, DocMapping, is_text
from indextables.splits.index.tantivy_files import TantivyErrors
from indextables.splits.index.values import whole_term
from indextables.splits.query import terms
from indextables.splits.query.on_rows import leaf_mask, scan_mask
from indextables.splits.query.to_predicate import predicate_mask, to_predicate, without_columns
from indextables.splits.query.to_tantivy import (
    IndexAnswer,
    TermKey,
    Translator,
    has_index_for,
    index_query,
    may_match_long_terms,
)
from indextables.splits.query.tree import (
    AllRows,
    Bool,
    Boost,
    Exists,
    Leaf,
    OneOf,
    Query,
    Words,
    all_of,
    columns,
    leaves,
)
from indextables.splits.read.searchable import Mask, Rows, Searchable, SearcherView
from indextables.splits.search.hits import IndexHits
from indextables.splits.search.prepared import prepare_condition, prepare_query

MAX_GRAMS = 64
"""Maximum number of trigrams used per literal; the rarest are chosen."""
LOOKED_UP = 5
Grams = tuple[str, frozenset[str | int]]
"""A field, and the terms that a row must hold in it: trigrams, or a whole value."""


def gram_fields(where: Predicate, mapping: DocMapping) -> tuple[str, ...]:
    """Return the fields that narrow a condition."""
    return tuple(
        sorted({field for group in _alternatives(where, mapping) or () for field, _ in group})
    )


def gram_rows(where: Predicate, mapping: DocMapping, hits: IndexHits) -> Rows | None:
    """Return a superset of the rows for which a condition can be true, or None if the index cannot
    narrow it.
    """
    groups = _alternatives(where, mapping)
    if groups is None:
        return None
    terms = [next(iter(group)) for group in groups if len(group) == 1]
    fields = {field for field, some in terms if len(some) == 1}
    if (
        1 < len(groups) == len(terms)
        and len(fields) == 1
        and all(len(some) == 1 for _, some in terms)
    ):
        # A list of whole values is one look at the dictionary, not one for each of them.
        values = [term for _, some in terms for term in some]
        return hits.rows(tantivy.Query.term_set_query(hits.schema, fields.pop(), values))
    return np.unique(np.concatenate([_rows_of_group(group, hits) for group in groups]))


def _rows_of_group(group: frozenset[Grams], hits: IndexHits) -> Rows:
    """Return the rows that hold the rarest trigrams of a group. More trigrams would exclude hardly
    any row.
    """
    terms = {(field, gram) for field, grams in group for gram in grams}
    counted = sorted(
        (hits.term_bound(field, gram), field, gram) for field, gram in terms
    )  # a field's terms are alike
    rarest = counted[:LOOKED_UP]
    queries = [
        tantivy.Query.term_query(hits.schema, field, gram, "basic") for _, field, gram in rarest
    ]
    if len(queries) == 1:
        both = queries[0]
    else:
        both = tantivy.Query.boolean_query([(tantivy.Occur.Must, q) for q in queries])
    return hits.rows_among(both, rarest[0][0])


def _alternatives(where: Predicate, mapping: DocMapping) -> tuple[frozenset[Grams], ...] | None:
    """Return the alternatives of a condition: a row must hold all terms of one group. None if any
    row is possible.
    """
    if isinstance(where, And):
        known = [
            groups
            for child in where.children
            if (groups := _alternatives(child, mapping)) is not None
        ]
        if not known:
            return None
        single = [groups[0] for groups in known if len(groups) == 1]
        # One of several alternatives stays as it is; what is certain comes to each.
        several = min(
            (groups for groups in known if len(groups) > 1), key=len, default=(frozenset[Grams](),)
        )
        return tuple(group.union(*single) for group in several)
    if isinstance(where, Or):
        below = [_alternatives(child, mapping) for child in where.children]
        either = tuple(
            group for alternatives in below if alternatives is not None for group in alternatives
        )
        if any(alternatives is None for alternatives in below):
            return None
        return either
    if isinstance(where, In):
        each = [_of_value(where.column, v.value, mapping) for v in where.literals]
        if any(group is None for group in each):
            return None
        return tuple(group for group in each if group is not None)
    group = _of_leaf(where, mapping)
    if group is None:
        return None
    return (group,)


def _of_leaf(where: Predicate, mapping: DocMapping) -> frozenset[Grams] | None:
    if isinstance(where, TextMatch | Like | RLike) and not where.indexed:
        return None
    if isinstance(where, TextMatch):
        return _of_literals(where.column, [where.text], mapping)
    if isinstance(where, Like):
        return _of_literals(
            where.column, [p for p in pattern_parts(where.pattern) if isinstance(p, str)], mapping
        )
    if isinstance(where, RLike):
        return _of_literals(where.column, regular_expression(where.pattern).literals(), mapping)
    if isinstance(where, Comparison) and where.operator == "=":
        return _of_value(where.column, where.literal.value, mapping)
    return None


def _of_value(column: Column, value: object, mapping: DocMapping) -> frozenset[Grams] | None:
    """Return what a row with exactly this value must hold: its whole-value term, or its trigrams."""
    if len(column.path) == 1:
        indexed = mapping.find(column.name)
    else:
        indexed = None
    whole = None if indexed is None else indexed.whole
    if whole is not None and isinstance(value, str):
        term = whole_term(value, whole)
    else:
        term = None
    if whole is not None and term is not None:
        return frozenset([(whole.field, frozenset([term]))])
    return _of_literals(column, [value], mapping)


def _of_literals(
    column: Column, literals: Iterable[object], mapping: DocMapping
) -> frozenset[Grams] | None:
    if len(column.path) == 1:
        indexed = mapping.find(column.name)
    else:
        indexed = None
    if indexed is None or not indexed.substring:
        return None
    texts = [text for text in literals if isinstance(text, str) and len(text) >= GRAM_SIZE]
    grams = sorted({gram for text in texts for gram in terms_of(text, GRAM_TOKENIZER)})
    step = -(-len(grams) // MAX_GRAMS) or 1
    if grams:
        return frozenset([(indexed.grams.field, frozenset[str | int](grams[::step]))])
    return None


_NO_ROWS: Rows = np.empty(0, np.int64)
Test = Callable[[pa.Table], Mask]
TermWeights = Mapping[TermKey, tuple[float, float]]
_MAX_KEPT_ROWS = 1_024
_MAX_KEPT_BYTES = 4 << 20
_MANY = 20
"""If more than one in this many rows is needed, every row group is affected anyway."""


def find_rows(split: Searchable, query: Query, *, where: Predicate | None = None) -> Rows:
    """Return the rows that match a query and for which a bound predicate is true, ascending."""
    with open_query(split, query, where=where) as opened:
        return opened.rows(where)


def count_rows(split: Searchable, query: Query, *, where: Predicate | None = None) -> int:
    """Return the number of rows of `find_rows`, without reading rows if the index alone can answer."""
    with open_query(split, query, where=where) as opened:
        return opened.count(where)


@contextmanager
def open_query(
    split: Searchable,
    query: Query,
    *,
    where: Predicate | None = None,
    norms: bool = False,
    idf: TermWeights | None = None,
) -> Iterator[OpenQuery]:
    """Open a query against a split, with the index data that it and a condition need."""
    with open_needs(split, query, where=where, norms=norms) as view:
        if view is None:
            yield OpenQuery(split, query, None, None, idf)
            return
        translator = Translator(view.index.schema, split.incomplete, idf or {})
        yield OpenQuery(split, query, IndexHits(view, split.path), translator, idf)


def open_needs(
    split: Searchable, query: Query, *, where: Predicate | None = None, norms: bool
) -> AbstractContextManager[SearcherView | None]:
    """Open the index of a split with the data that a query needs (`norms` for scores), or return
    None without an index.
    """
    if not split.indexed or not split.num_rows:
        return nullcontext()
    prepared = prepare_query(query, split.mapping)
    fields, positions = prepared.needs
    if where is not None:
        condition = prepare_condition(where, split.mapping, split.schema)
        fields = tuple(
            dict.fromkeys((*fields, *condition.fields, *gram_fields(where, split.mapping)))
        )
        positions |= condition.positions
    if not fields:
        return nullcontext()
    with PROFILER.section("open_index"):
        return split.open_index(fields, positions=positions, norms=norms and prepared.needs_norms)


class OpenQuery:
    """A query against one split while its index is open."""

    def __init__(
        self,
        split: Searchable,
        query: Query,
        hits: IndexHits | None,
        translator: Translator | None,
        idf: TermWeights | None = None,
    ) -> None:
        self.split = split
        self.query = query
        self.hits = hits
        self.idf = idf or {}
        self.rows_read = 0
        self.narrowed: tuple[str, ...] = ()
        """The fields of the index that narrowed a condition."""
        self._translator = translator
        self._answers: dict[Leaf, IndexAnswer | None] = {}
        self._known_count: int | None = None

    @cached_property
    def name(self) -> str | None:
        """The name under which answers to the query are remembered; None for a very long query."""
        return prepare_query(self.query, self.split.mapping).name

    def whole(self, query: Query | None = None) -> tantivy.Query | None:
        """Return the query (or a part of it) as one tantivy query if the index alone can answer it."""
        if self.hits is None:
            return None
        return index_query(self.query if query is None else query, self.ask)

    def ask(self, leaf: Leaf) -> IndexAnswer | None:
        """Return the index's answer to a leaf."""
        if self._translator is None:
            return None
        if leaf not in self._answers:
            if leaf.target.max_terms and self.hits is not None:
                self._check_terms(leaf, self.hits)
            with TantivyErrors(self.split.path, "A search"):
                self._answers[leaf] = self._translator.answer(leaf, self.column(leaf))
        return self._answers[leaf]

    def _check_terms(self, leaf: Leaf, hits: IndexHits) -> None:
        """Refuse a pattern that matches more terms of the split than allowed. Terms of a JSON
        column cannot be listed.
        """
        column, most = self.column(leaf), leaf.target.max_terms
        if (
            column.kind not in ("text", "string")
            or column.tokenizer == "ngram"
            or not has_index_for(leaf, column)
        ):
            return
        for start, count in terms.pattern_counts(leaf, column):
            fitting = count(hits.terms(column.field, start))
            if fitting > most:
                raise InvalidInputError(
                    f"{leaf} fits {fitting} terms of {self.split.path}; query.maxMatchedTerms allows {most}.",
                    hint="Give more of the word's beginning, or raise query.maxMatchedTerms.",
                    query=str(leaf),
                    terms=fitting,
                )

    def column(self, leaf: Leaf) -> ColumnMapping:
        """Return how the column of a leaf is indexed in this split."""
        name = leaf.target.column
        return self.split.mapping.find(name) or ColumnMapping(name, "", "none")

    def rows(self, where: Predicate | None = None) -> Rows:
        """Return the numbers of the matching rows, ascending."""
        if where is not None:
            joined, rest = self.join_condition(where)
            if joined is not self.query:
                found = self._find_matches(joined)
                if rest is None:
                    return found
                return self._where(found, rest)
        if isinstance(self.query, AllRows):
            if where is None:
                return self._everything()
            return self._where(None, where)
        found = self._find_matches(self.query)
        if where is None:
            return found
        return self._where(found, where)

    def join_condition(self, where: Predicate) -> tuple[Query, Predicate | None]:
        """Return the query with what the index answers of a condition, and the rest of the
        condition.
        """
        if self.hits is None:
            return self.query, where
        condition = prepare_condition(where, self.split.mapping, self.split.schema)
        query = condition.parts.query
        if query is None or self.whole(query) is None:
            return self.query, where
        self.narrowed = condition.fields
        if isinstance(self.query, AllRows):
            return query, condition.parts.rest
        return condition.join(self.query, query), condition.parts.rest

    def filter_query(self, where: Predicate) -> tuple[str | None, tantivy.Query] | None:
        """Return a condition as an index query with its name; None if the index alone does not
        answer it.
        """
        condition = prepare_condition(where, self.split.mapping, self.split.schema).parts
        if condition.query is None or condition.rest is not None:
            whole = None
        else:
            whole = self.whole(condition.query)
        if whole is None or condition.query is None:
            return None
        return prepare_query(condition.query, self.split.mapping).name, whole

    def _find_matches(self, query: Query) -> Rows:
        """Return the rows that match a query."""
        whole = self.whole(query)
        if whole is None or self.hits is None:
            return np.flatnonzero(
                self.matches(query, np.ones(self.split.num_rows, np.bool_))
            ).astype(np.int64)
        count = self._known_count if query is self.query else None
        name = prepare_query(query, self.split.mapping).name
        found = self.hits.named_rows(
            name, whole, self._term_count(query) if count is None else count
        )
        return self._with_long_terms(query, found, self.hits)

    def has_more_than(self, count: int) -> bool:
        """Return whether more rows than this are known to match without reading rows."""
        if isinstance(self.query, AllRows) or self.hits is None or self.whole() is None:
            return False
        if len(self.rows_with_long_terms(self.query)):
            return False
        self._known_count = self.count()
        return self._known_count > count

    def end_rows(self, some: int, *, last: bool) -> Rows | None:
        """Return the first or the last of the matching rows. There must be that many."""
        whole, hits = self.whole(), self.hits
        if whole is None or hits is None or len(self.rows_with_long_terms(self.query)):
            return None
        return hits.end_rows(self.name, whole, self.count(), some, last=last)

    def count(self, where: Predicate | None = None) -> int:
        """Return how many rows match."""
        if where is None and self._known_count is not None:
            return self._known_count
        query, rest = (self.query, None) if where is None else self.join_condition(where)
        if rest is None and self.hits is not None:
            # Where no document is deleted, a term is in as many rows as its dictionary says.
            of_term = self._term_count(query)
            if of_term is not None:
                return of_term
            whole = self.whole(query)
            if whole is not None and not len(self.rows_with_long_terms(query)):
                return self.hits.count(whole, prepare_query(query, self.split.mapping).name)
        return len(self.rows(where))

    def _term_count(self, query: Query) -> int | None:
        """Return how many rows match if a query is a single term."""
        while isinstance(query, Boost):
            query = query.query
        if isinstance(query, AllRows | Bool):
            answer = None
        else:
            answer = self.ask(query)
        if answer is None or answer.term is None or self.hits is None:
            return None
        return self.hits.term_count(*answer.term)

    def matches(self, query: Query, within: Mask) -> Mask:
        """Return which rows of a mask match a part of the query."""
        if not within.any() or isinstance(query, AllRows):
            return within
        whole = self.whole(query)
        if whole is not None:
            found = self._hits(whole)
            unknown = self.rows_with_long_terms(query)
            if len(unknown):
                unknown = unknown[within[unknown]]
                found[unknown] = self.scan(query, unknown)
            return found & within
        if isinstance(query, Boost):
            return self.matches(query.query, within)
        if isinstance(query, Bool):
            return self._combine(query, within)
        return self._leaf(query, within)

    def rows_with_long_terms(self, query: Query) -> Rows:
        """Return the rows for which the index alone cannot decide a query that it answers for all
        other rows.
        """
        incomplete = self.split.incomplete
        if not incomplete or self.hits is None:
            return _NO_ROWS
        parts = [
            values.rows
            for leaf in leaves(query)
            if (values := incomplete.get(leaf.target.column)) is not None
            and values.rows is not None
            and may_match_long_terms(leaf, self.column(leaf))
        ]
        if len(parts) <= 1:
            if parts:
                return parts[0]
            return _NO_ROWS
        return np.unique(np.concatenate(parts))

    def _with_long_terms(self, query: Query, found: Rows, hits: IndexHits) -> Rows:
        """Return the rows that the index found for a query, corrected for the rows that it cannot
        decide.
        """
        unknown = self.rows_with_long_terms(query)
        if not len(unknown):
            return found
        name = prepare_query(query, self.split.mapping).name
        key = name and ("rows with long terms", name)
        (matching,) = hits.remember_arrays(key, lambda: (unknown[self.scan(query, unknown)],))
        decided = found[~np.isin(found, unknown, assume_unique=True)]
        return np.sort(np.concatenate([decided, matching]))

    def scan(self, query: Query, rows: Rows) -> Mask:
        """Return for each of some rows whether it matches a query, from the rows alone."""
        names = tuple(name for name in columns(query) if name in self.split.schema.names)
        if self.hits is not None and 0 < len(rows) <= _MAX_KEPT_ROWS:
            values = self._keep_values(self.hits, rows, names)
            return scan_mask(query, values, self.split.mapping)
        within = np.zeros(self.split.num_rows, np.bool_)
        within[rows] = True
        return self._confirm(
            within, names, lambda table: scan_mask(query, table, self.split.mapping)
        )[rows]

    def _keep_values(self, hits: IndexHits, rows: Rows, names: tuple[str, ...]) -> pa.Table:
        """Return some columns of a few rows, which every pattern query needs again."""
        key = ("values", names, rows.tobytes())
        known = hits.recall(key)
        if known is None:
            known = self.split.read_rows(rows, columns=names)
            self.rows_read += len(rows)
            if known.nbytes <= _MAX_KEPT_BYTES:
                hits.remember(key, known, known.nbytes)
        values: pa.Table = known
        return values

    def _combine(self, query: Bool, within: Mask) -> Mask:
        """Return the rows of a combination: the index first, then rows, each step only on undecided
        rows.
        """
        known = tuple(q for q in query.must if self.whole(q) is not None)
        if known:
            within = self.matches(all_of(known), within)
        for below in query.must:
            if below not in known:
                within = self.matches(below, within)
        if query.minimum:
            matched = np.zeros(len(within), np.int32)
            for below in query.should:
                matched += self.matches(below, within)
            within = within & (matched >= query.minimum)
        elif query.needed:
            found = np.zeros(len(within), np.bool_)
            for below in sorted(query.should, key=self._cost):
                found |= self.matches(below, within & ~found)
            within = found
        for below in sorted(query.must_not, key=self._cost):
            within = within & ~self.matches(below, within)
        return within

    def _leaf(self, leaf: Leaf, within: Mask) -> Mask:
        """Evaluate a leaf on the rows that the index leaves possible."""
        answer = self.ask(leaf)
        if answer is not None:
            possible_rows = self._hits(answer.query)
            possible_rows[self.rows_with_long_terms(leaf)] = True
            within = within & possible_rows
        if leaf.target.column not in self.split.schema.names:
            return np.zeros(len(within), np.bool_)
        if not self.split.indexed:
            possible, decided = self._by_terms(leaf)
            within = within if possible is None else within & possible
            if decided or not within.any():
                return within
        mapping, names = self.split.mapping, [leaf.target.column]
        bound = self._as_predicate(leaf)
        if bound is not None:
            return self._confirm_quickly(
                within, names, lambda table: leaf_mask(leaf, table, mapping), bound
            )
        return self._confirm(within, names, lambda table: leaf_mask(leaf, table, mapping))

    def _by_terms(self, leaf: Leaf) -> tuple[Mask | None, bool]:
        """Return rows of another engine's split that can match a leaf by its terms, and whether
        they are exact.
        """
        column = self.column(leaf)
        if isinstance(leaf, OneOf):
            answers = [self._by_terms(item) for item in leaf.items]
            masks = [mask for mask, _ in answers if mask is not None]
            if not masks or len(masks) < len(answers):
                return None, False
            return np.logical_or.reduce(masks), all(decided for _, decided in answers)
        if (
            not isinstance(leaf, Words)
            or column.kind not in ("text", "string")
            or not has_index_for(leaf, column)
        ):
            return None, False
        if leaf.prefix:
            words: Sequence[terms.Word] = terms.prefix_words(column, leaf.text)[0]
        else:
            words = terms.words_of(column, leaf.text)
        if not words:
            return None, False
        possible = self.split.rows_with(column.name, sorted({word.text for word in words}))
        return possible, possible is not None and len(words) == 1 and not leaf.prefix

    def _cost(self, query: Query) -> int:
        """Return the cost of a part: 0 for index only, 1 for reading rows."""
        return int(self.whole(query) is None)

    def _hits(self, query: tantivy.Query) -> Mask:
        found = np.zeros(self.split.num_rows, np.bool_)
        if self.hits is not None:
            found[self.hits.rows(query)] = True
        return found

    def _everything(self) -> Rows:
        return np.arange(self.split.num_rows, dtype=np.int64)

    def _where(self, rows: Rows | None, where: Predicate) -> Rows:
        """Return those of some rows (None: all) for which a condition is true."""
        known = without_columns(where, self.split.schema.names)
        names = columns_of(known)
        if self.hits is None:
            possible = None
        else:
            possible = gram_rows(known, self.split.mapping, self.hits)
        if possible is not None:
            if rows is None:
                rows = possible
            else:
                rows = possible[np.isin(possible, rows, assume_unique=True)]
            self.narrowed = tuple(
                dict.fromkeys((*self.narrowed, *gram_fields(known, self.split.mapping)))
            )
        if not names:
            rows = self._everything() if rows is None else rows
            if predicate_mask(known, pa.table({"": [0]}))[0]:
                return rows
            return rows[:0]
        within = np.full(self.split.num_rows, rows is None)
        within[slice(0) if rows is None else rows] = True
        found = self._confirm_quickly(
            within, names, lambda table: predicate_mask(known, table), known
        )
        return np.flatnonzero(found).astype(np.int64)

    def _as_predicate(self, leaf: Leaf) -> Predicate | None:
        """Return a leaf about whole values as a bound predicate if predicates support its type."""
        kind = self.split.schema.field(leaf.target.column).type
        other_text = is_text(kind) and not pa.types.is_string(kind)
        if other_text or (
            self.column(leaf).kind in ("json", "ip") and not isinstance(leaf, Exists)
        ):
            return None
        predicate = to_predicate(leaf)
        if predicate is None:
            return None
        return bind(predicate, self.split.schema)

    def _confirm_quickly(
        self, within: Mask, names: Sequence[str], test: Test, bound: Predicate
    ) -> Mask:
        """Run `_confirm` where statistics exclude rows and testing a row is cheaper than selecting
        it from its row group.
        """
        possible = self.split.may_match(bound) if within.any() else None
        if possible is not None and self.split.decides(bound):
            return within & possible
        if possible is None:
            possible = np.ones(len(within), np.bool_)
        within = within & possible
        many = np.count_nonzero(within) * _MANY > np.count_nonzero(possible)
        if many:
            return self._confirm(possible, names, test) & within
        return self._confirm(within, names, test)

    def _confirm(self, within: Mask, names: Sequence[str], test: Test) -> Mask:
        """Return the rows of a mask that pass a test of some columns. Reads only these rows in
        small batches.
        """
        with PROFILER.section("test_rows"):
            return self._confirm_rows(within, names, test)

    def _confirm_rows(self, within: Mask, names: Sequence[str], test: Test) -> Mask:
        found = np.zeros(len(within), np.bool_)
        rows = np.flatnonzero(within)
        at = 0
        for batch in self.split.iter_rows(
            None if len(rows) == len(within) else rows, columns=names
        ):
            here = rows[at : at + batch.num_rows]
            found[here] = test(pa.Table.from_batches([batch]))
            at += batch.num_rows
        self.rows_read += at
        return found
