"""Translate queries to tantivy: a leaf or a whole tree, exactly or as a superset that rows then
confirm.

What the index cannot answer (numbers, dates, ranges of text, missing values, words longer than it
holds) translates to None and is answered from the rows. Nothing is approximated silently. A tree is
one tantivy query if all its leaves are answered exactly. The translation also reports the index
data that the query needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import tantivy
from msgspec import Struct, field

from indextables.splits.index.mapping import (
    EXACT_VALUE,
    WHOLE_TOKENIZERS,
    ColumnMapping,
    DocMapping,
)
from indextables.splits.index.values import (
    ROOT,
    TEXT_MARK,
    IncompleteValues,
    field_path,
    normal_leaf,
    searchable_text,
    whole_term,
)
from indextables.splits.query import terms
from indextables.splits.query.terms import FULL_MASK, Gap, Pattern, Word, json_number
from indextables.splits.query.tree import (
    Addresses,
    AllRows,
    Bool,
    Boost,
    Equals,
    Fuzzy,
    Leaf,
    OneOf,
    Query,
    Range,
    Regex,
    Target,
    Wildcard,
    Words,
    leaves,
)

_REGEX_SPECIAL = frozenset(r".+*?()|[]{}^$\#&-~")
_PATH_END, _PATH_JOIN, _TEXT_TYPE = "\x00", "\x01", "s"


class IndexAnswer(Struct, frozen=True):
    """The index's answer to a leaf. If it is not exact it is a superset, and the rows decide."""

    query: tantivy.Query
    exact: bool = True
    term: tuple[str, str] | None = None
    """Field and text if the leaf is one term: the dictionary then has the number of matching rows.
    """


class TermKey(Struct, frozen=True):
    """A term whose document frequency determines a score, in a form that is the same for all
    splits.
    """

    target: Target
    text: str


class Translator(Struct, frozen=True):
    """Translates leaves for one split."""

    schema: tantivy.Schema
    incomplete: Mapping[str, IncompleteValues] = field(default_factory=dict)
    inverse_document_frequencies: Mapping[TermKey, tuple[float, float]] = field(
        default_factory=dict
    )
    """For each term its inverse document frequency in the table and in this split."""

    def answer(self, leaf: Leaf, column: ColumnMapping) -> IndexAnswer | None:
        """Return the tantivy query of a leaf, or None where only the rows can answer it.

        The query covers every row except those of `IncompleteValues.rows`, if
        `may_match_long_terms(leaf, column)`.
        """
        if not has_index_for(leaf, column) or self._lacks_rows(leaf, column):
            return None
        if isinstance(leaf, Words):
            return self._words(leaf, column)
        if isinstance(leaf, Wildcard):
            return self._wildcard(leaf, column)
        if isinstance(leaf, Regex):
            return self._expression(leaf, column)
        if isinstance(leaf, Fuzzy):
            return self._fuzzy(leaf, column)
        if isinstance(leaf, Addresses):
            return self._addresses(leaf, column)
        if isinstance(leaf, OneOf):
            return self._one_of(leaf, column)
        if isinstance(leaf, Equals):
            return self._equals(column, [leaf.value])
        if isinstance(leaf, Range):
            return IndexAnswer(self._address_range(column.field, leaf))
        return None

    def _lacks_rows(self, leaf: Leaf, column: ColumnMapping) -> bool:
        """Return whether a leaf can match values that the split counts without their row numbers."""
        values = self.incomplete.get(column.name)
        return values is not None and values.rows is None and may_match_long_terms(leaf, column)

    def _equals(self, column: ColumnMapping, values: Sequence[str]) -> IndexAnswer | None:
        """Return rows with one of some whole values. For hashes, the rows confirm the value."""
        whole = column.whole
        if whole is None:
            known = []
        else:
            known = [whole_term(value, whole) for value in values]
        if whole is None or None in known:
            return None
        query = tantivy.Query.term_set_query(self.schema, whole.field, known)
        return IndexAnswer(query, exact=column.exact == EXACT_VALUE)

    def _words(self, leaf: Words, column: ColumnMapping) -> IndexAnswer | None:
        if column.tokenizer == "ngram":
            return self._grams(column, (terms.lowered(leaf.text),), exact=True)
        if leaf.prefix:
            return self._phrase_prefix(leaf, column)
        if leaf.target.anywhere:
            return self._anywhere(leaf, column)
        words = _index_words(column, leaf.text)
        name = field_name(column, leaf.target)
        if leaf.quoted or column.kind != "json":
            number = None
        else:
            number = json_number(leaf.text)
        answer = IndexAnswer(tantivy.Query.empty_query())
        if words and not terms.has_long_word(column, leaf.text):
            answer = self._phrase(leaf.target, words, column, leaf.slop)
        if number is None or (value := normal_leaf(number)) is None:
            return answer
        # The index keeps no frequencies of numbers: asked for them, tantivy reads on into what
        # follows.
        same = tantivy.Query.const_score_query(
            tantivy.Query.term_query(self.schema, name, value, "basic"), 1.0
        )
        return IndexAnswer(_any([answer.query, same]), answer.exact)

    def _anywhere(self, leaf: Words, column: ColumnMapping) -> IndexAnswer | None:
        """Search words at any path of a JSON column. Numbers have no text in the dictionary, so the
        rows decide.
        """
        words = _index_words(column, leaf.text)
        is_number = not leaf.quoted and json_number(leaf.text) is not None
        if not words or is_number:
            return None
        patterns = [
            self._regex(leaf.target, column, (text,)) for text in sorted({w.text for w in words})
        ]
        found = [p for p in patterns if p is not None]
        if len(found) == len(patterns):
            return IndexAnswer(_all(found), exact=len(words) == 1)
        return None

    def _expression(self, leaf: Regex, column: ColumnMapping) -> IndexAnswer | None:
        expression = terms.term_expression(column, leaf)
        if column.tokenizer == "ngram":
            # In lower case a character may be another than in any case: only plain letters are
            # looked up.
            runs = [
                run
                for text in expression.literals()
                for run in re.split(r"[^\x00-\x7f]|[sSkKiI]", text)
            ]
            return self._grams(column, map(terms.lowered, runs), exact=False)
        found = self._body(leaf.target, column, expression.automaton())
        if found is None:
            return None
        return IndexAnswer(found)

    def _phrase(
        self, target: Target, words: tuple[Word, ...], column: ColumnMapping, slop: int
    ) -> IndexAnswer:
        name = field_name(column, target)
        if len(words) == 1:
            term = self._term(name, words[0].text, column)
            weights = self.inverse_document_frequencies.get(TermKey(target, words[0].text))
            if column.kind == "string" and weights is not None:
                # Every value is one term long: its idf is the whole score, whatever the split's
                # average.
                return IndexAnswer(
                    tantivy.Query.const_score_query(term, weights[0]), term=(name, words[0].text)
                )
            return IndexAnswer(self._scale_weight(term, target, words), term=(name, words[0].text))
        texts = {w.text for w in words}
        if column.record == "position" and (not slop or len(words) == 2 == len(texts)):
            pairs = [(w.offset, w.text) for w in words]
            phrase = tantivy.Query.phrase_query(self.schema, name, pairs, slop)
            return IndexAnswer(self._scale_weight(phrase, target, words))
        return IndexAnswer(
            _all([self._phrase(target, (Word(0, t),), column, 0).query for t in sorted(texts)]),
            exact=False,
        )

    def _phrase_prefix(self, leaf: Words, column: ColumnMapping) -> IndexAnswer | None:
        before, last = terms.prefix_words(column, leaf.text)
        if last is None:
            return IndexAnswer(tantivy.Query.empty_query())
        start = self._regex(leaf.target, column, (last.text, Gap.ANY))
        if not before:
            if start is None:
                return None
            return IndexAnswer(start)
        if leaf.target.anywhere:
            words = [self._regex(leaf.target, column, (word.text,)) for word in before]
        else:
            words = [self._phrase(leaf.target, before, column, 0).query]
        known = [query for query in (*words, start) if query is not None]
        if known:
            return IndexAnswer(_all(known), exact=False)
        return None

    def _wildcard(self, leaf: Wildcard, column: ColumnMapping) -> IndexAnswer | None:
        patterns = terms.term_patterns(column, leaf.pattern)
        if column.tokenizer == "ngram":
            return self._grams(column, [p for p in patterns[0] if isinstance(p, str)], exact=False)
        closed = [p for p in patterns if not terms.is_open(p)] or patterns[:1]
        regexes = [r for p in closed if (r := self._regex(leaf.target, column, p)) is not None]
        if regexes:
            return IndexAnswer(_all(regexes), exact=len(patterns) == 1)
        return None

    def _fuzzy(self, leaf: Fuzzy, column: ColumnMapping) -> IndexAnswer | None:
        word = terms.plain_word(column, leaf.text)
        if leaf.target.anywhere:
            return None
        marked = column.kind == "json" and column.tokenizer in WHOLE_TOKENIZERS
        if word is None or marked:
            return None
        name = field_name(column, leaf.target)
        return IndexAnswer(
            tantivy.Query.fuzzy_term_query(self.schema, name, word, distance=leaf.distance)
        )

    def _one_of(self, leaf: OneOf, column: ColumnMapping) -> IndexAnswer | None:
        if column.kind == "string":
            short = [
                i
                for i in leaf.items
                if isinstance(i, Words) and not terms.has_long_word(column, i.text)
            ]
            texts = [terms.words_of(column, i.text)[0].text for i in short]
            return IndexAnswer(tantivy.Query.term_set_query(self.schema, column.field, texts))
        values = [item.value for item in leaf.items if isinstance(item, Equals)]
        if len(values) == len(leaf.items):
            return self._equals(column, values)
        answers = [self.answer(item, column) for item in leaf.items]
        usable = [a for a in answers if a is not None]
        if len(usable) < len(answers):
            return None
        return IndexAnswer(
            tantivy.Query.const_score_query(_any([a.query for a in usable]), 1.0),
            all(a.exact for a in usable),
        )

    def _addresses(self, leaf: Addresses, column: ColumnMapping) -> IndexAnswer:
        if leaf.mask == FULL_MASK:
            return IndexAnswer(
                tantivy.Query.term_query(self.schema, column.field, _address(leaf.value))
            )
        free = FULL_MASK ^ leaf.mask
        span = Range(leaf.target, leaf.value, leaf.value | free)
        return IndexAnswer(self._address_range(column.field, span), exact=free & (free + 1) == 0)

    def _address_range(self, name: str, span: Range) -> tantivy.Query:
        if span.lower is None:
            lower = 0
        else:
            lower = int(span.lower) + (not span.include_lower)
        if span.upper is None:
            upper = FULL_MASK
        else:
            upper = int(span.upper) - (not span.include_upper)
        if lower > upper:
            return tantivy.Query.empty_query()
        kind = tantivy.FieldType.IpAddr
        return tantivy.Query.range_query(
            self.schema, name, kind, _address(lower), _address(upper), use_inverted_index=True
        )

    def _grams(
        self, column: ColumnMapping, literals: Iterable[str], *, exact: bool
    ) -> IndexAnswer | None:
        """Return rows that hold every pair of adjacent characters. A text of at most two characters
        is exact.
        """
        literals = [text for text in literals if text]
        if not literals:
            return None
        grams = {t[i : i + 2] for t in literals for i in range(max(len(t) - 1, 1))}
        query = _all([self._term(column.field, gram, column) for gram in sorted(grams)])
        return IndexAnswer(query, exact and max(map(len, literals)) <= 2)

    def _term(self, name: str, text: str, column: ColumnMapping) -> tantivy.Query:
        if column.record in ("freq", "position"):
            option = "freq"
        else:
            option = "basic"
        return tantivy.Query.term_query(self.schema, name, text, option)

    def _regex(
        self, target: Target, column: ColumnMapping, pattern: Pattern
    ) -> tantivy.Query | None:
        """Return the terms that match a pattern, or None for a pattern that is too large for
        tantivy's automaton.
        """
        return self._body(
            target, column, "".join(_GAPS[p] if isinstance(p, Gap) else _quote(p) for p in pattern)
        )

    def _body(self, target: Target, column: ColumnMapping, body: str) -> tantivy.Query | None:
        if column.kind == "json":
            # A term of a json field is path, type, text.
            path = _quote(_PATH_JOIN.join((ROOT, *target.path)))
            if target.anywhere:
                below = f"({_PATH_JOIN}[^{_PATH_END}]*)?"
            else:
                below = ""
            body = f"{path}{below}{_PATH_END}{_TEXT_TYPE}({TEXT_MARK})?{body}"
        try:
            return tantivy.Query.regex_query(self.schema, column.field, f"(?s){body}")
        except ValueError:
            return None

    def _scale_weight(
        self, query: tantivy.Query, target: Target, words: tuple[Word, ...]
    ) -> tantivy.Query:
        """Scale a query's score to the table-wide document frequencies: a score is linear in the
        idf of its terms.
        """
        keys = (TermKey(target, word.text) for word in words)
        weights = [
            self.inverse_document_frequencies[key]
            for key in keys
            if key in self.inverse_document_frequencies
        ]
        if not weights:
            return query
        return tantivy.Query.boost_query(
            query, sum(table for table, _ in weights) / sum(split for _, split in weights)
        )


_GAPS = {Gap.ANY: ".*", Gap.ONE: "."}


def has_index_for(leaf: Leaf, column: ColumnMapping) -> bool:
    """Return whether a column's index has the kind that a leaf needs. Splits of other engines may
    differ.
    """
    if column.is_unindexed_here:
        return False
    if isinstance(leaf, OneOf):
        return all(has_index_for(item, column) for item in leaf.items)
    if isinstance(leaf, Words | Wildcard | Regex | Fuzzy):
        return column.kind == "json" or (column.kind in ("string", "text") and not leaf.target.path)
    if isinstance(leaf, Equals):
        return column.whole is not None and isinstance(leaf.value, str) and not leaf.target.path
    return isinstance(leaf, Addresses | Range) and column.kind == "ip"


def may_match_long_terms(leaf: Leaf, column: ColumnMapping) -> bool:
    """Return whether a leaf can match a value only by a term that is too long for the index."""
    if not has_index_for(leaf, column) or column.tokenizer == "ngram":
        return False
    if isinstance(leaf, OneOf):
        return any(may_match_long_terms(item, column) for item in leaf.items)
    if isinstance(leaf, Words):
        return leaf.prefix or terms.has_long_word(column, leaf.text)
    if isinstance(leaf, Fuzzy):
        return _MAX_CHARACTER_BYTES * (len(leaf.text) + leaf.distance) > column.max_token_length
    if isinstance(leaf, Wildcard):
        patterns = terms.term_patterns(column, leaf.pattern)
        return any(_reaches_long_terms(pattern, column) for pattern in patterns)
    return isinstance(leaf, Regex)


_MAX_CHARACTER_BYTES = 4


def _reaches_long_terms(pattern: Pattern, column: ColumnMapping) -> bool:
    if Gap.ANY in pattern:
        return True
    characters = sum(1 if isinstance(piece, Gap) else len(piece) for piece in pattern)
    return _MAX_CHARACTER_BYTES * characters > column.max_token_length


def scored_terms(leaf: Leaf, column: ColumnMapping) -> tuple[TermKey, ...]:
    """Return the terms whose inverse document frequencies score a leaf; empty for constant scores."""
    if (
        not isinstance(leaf, Words)
        or leaf.prefix
        or leaf.target.anywhere
        or not has_index_for(leaf, column)
    ):
        return ()
    if column.tokenizer == "ngram" or terms.has_long_word(column, leaf.text):
        return ()
    return tuple(TermKey(leaf.target, word.text) for word in _index_words(column, leaf.text))


def dictionary_term(query: Query, mapping: DocMapping) -> tuple[str, str] | None:
    """Return field and text of the term whose rows are exactly the matches, for queries of a single
    word.
    """
    while isinstance(query, Boost):
        query = query.query
    if not isinstance(query, Words):
        return None
    column = mapping.find(query.target.column)
    if column is None or column.kind not in ("text", "string"):
        return None
    keys = scored_terms(query, column)
    if len(keys) == 1:
        return (column.field, keys[0].text)
    return None


def field_name(column: ColumnMapping, target: Target) -> str:
    """Return the tantivy name of a column or a path in it."""
    if column.kind == "json":
        return field_path(column.field, target.path)
    return column.field


def _index_words(column: ColumnMapping, text: str) -> tuple[Word, ...]:
    return terms.words_of(column, searchable_text(text) if column.kind == "json" else text)


def _all(queries: list[tantivy.Query]) -> tantivy.Query:
    if len(queries) == 1:
        return queries[0]
    return tantivy.Query.boolean_query([(tantivy.Occur.Must, q) for q in queries])


def _any(queries: list[tantivy.Query]) -> tantivy.Query:
    if len(queries) == 1:
        return queries[0]
    return tantivy.Query.boolean_query([(tantivy.Occur.Should, q) for q in queries])


def _quote(text: str) -> str:
    return "".join(f"\\{c}" if c in _REGEX_SPECIAL else c for c in text)


def _address(number: int) -> str:
    groups = [f"{number >> shift & 0xFFFF:x}" for shift in range(112, -1, -16)]
    return ":".join(groups)


Ask = Callable[[Leaf], IndexAnswer | None]


def index_query(query: Query, ask: Ask) -> tantivy.Query | None:
    """Return the tantivy query of a tree, or None if a leaf needs the rows."""
    if isinstance(query, AllRows):
        return tantivy.Query.all_query()
    if isinstance(query, Boost):
        below = index_query(query.query, ask)
        if below is None:
            return None
        return tantivy.Query.boost_query(below, query.factor)
    if isinstance(query, Bool):
        return _bool_query(query, ask)
    answer = ask(query)
    if answer is not None and answer.exact:
        return answer.query
    return None


def _bool_query(query: Bool, ask: Ask) -> tantivy.Query | None:
    clauses: list[tuple[tantivy.Occur, tantivy.Query]] = []
    if not query.must and not query.should:
        # Tantivy finds nothing for negations alone. Every row is the start, and adds nothing to a
        # score.
        everything = tantivy.Query.const_score_query(tantivy.Query.all_query(), 0.0)
        clauses.append((tantivy.Occur.Must, everything))
    parts = (
        (tantivy.Occur.Must, query.must),
        (tantivy.Occur.Should, query.should),
        (tantivy.Occur.MustNot, query.must_not),
    )
    for occur, queries in parts:
        for below in queries:
            clause = index_query(below, ask)
            if clause is None:
                return None
            clauses.append((occur, clause))
    if query.minimum:
        return tantivy.Query.boolean_query(clauses, minimum_number_should_match=query.minimum)
    return tantivy.Query.boolean_query(clauses)


def index_needs(query: Query, mapping: DocMapping) -> tuple[tuple[str, ...], bool]:
    """Return the tantivy fields of a query, and whether it needs term positions."""
    fields: list[str] = []
    positions = False
    for leaf in leaves(query):
        column = mapping.find(leaf.target.column)
        if column is not None and has_index_for(leaf, column):
            about_whole = isinstance(leaf.items[0] if isinstance(leaf, OneOf) else leaf, Equals)
            fields.append(
                column.whole.field if about_whole and column.whole is not None else column.field
            )
            positions |= _needs_positions(leaf, column)
    return tuple(dict.fromkeys(fields)), positions


def needs_norms(query: Query, mapping: DocMapping) -> bool:
    """Return whether text lengths affect a query's scores. Whole values are always one term."""
    columns = [
        mapping.find(leaf.target.column) for leaf in leaves(query) if isinstance(leaf, Words)
    ]
    return any(column is not None and column.kind in ("text", "json") for column in columns)


def _needs_positions(leaf: Leaf, column: ColumnMapping) -> bool:
    if isinstance(leaf, OneOf):
        return any(_needs_positions(item, column) for item in leaf.items)
    return (
        isinstance(leaf, Words)
        and column.record == "position"
        and len(terms.words_of(column, leaf.text)) > 1
    )
