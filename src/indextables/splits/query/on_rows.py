"""Evaluate queries on rows with the same analyzers as the index: slow, exact, and for any split.

Used for splits of other engines, for leaves that the index cannot answer, and for rows of which the
index knows only a superset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.splits.index.analyzers import analyze, terms_of
from indextables.splits.index.mapping import ColumnMapping, DocMapping
from indextables.splits.index.values import Leaf as JsonLeaf
from indextables.splits.index.values import (
    documents,
    normal_key,
    normal_leaf,
    parse_address,
    plain_texts,
    text_list,
)
from indextables.splits.index.values import leaves as json_leaves
from indextables.splits.query import terms
from indextables.splits.query.terms import json_number
from indextables.splits.query.to_predicate import typed_mask
from indextables.splits.query.tree import (
    Addresses,
    AllRows,
    Bool,
    Boost,
    Equals,
    Exists,
    Fuzzy,
    Leaf,
    OneOf,
    Query,
    Range,
    Regex,
    Wildcard,
    Words,
)
from indextables.splits.read.searchable import Mask


def scan_mask(query: Query, table: pa.Table, mapping: DocMapping) -> Mask:
    """Return which rows of a table match a query. A missing column holds only nulls."""
    return combine(query, table.num_rows, lambda leaf: leaf_mask(leaf, table, mapping))


def combine(query: Query, num_rows: int, answer: Callable[[Leaf], Mask]) -> Mask:
    """Combine the row masks of leaves to the mask of a tree."""
    if isinstance(query, AllRows):
        return np.ones(num_rows, np.bool_)
    if isinstance(query, Boost):
        return combine(query.query, num_rows, answer)
    if not isinstance(query, Bool):
        return answer(query)
    mask = np.ones(num_rows, np.bool_)
    for below in query.must:
        mask &= combine(below, num_rows, answer)
    if query.needed:
        matched = np.zeros(num_rows, np.int32)
        for below in query.should:
            matched += combine(below, num_rows, answer)
        mask &= matched >= query.needed
    for below in query.must_not:
        mask &= ~combine(below, num_rows, answer)
    return mask


def leaf_mask(leaf: Leaf, table: pa.Table, mapping: DocMapping) -> Mask:
    """Return which rows of a table match one leaf."""
    name = leaf.target.column
    if name not in table.column_names:
        return np.zeros(table.num_rows, np.bool_)
    column = mapping.find(name) or ColumnMapping(name, "", "none")
    array = table.column(name)
    if isinstance(leaf, OneOf) and column.kind == "string":
        values = {
            term
            for item in leaf.items
            if isinstance(item, Words)
            for term in terms_of(item.text, column.tokenizer)
        }
        return _by_value(
            plain_texts(array), lambda text: terms_of(text, column.tokenizer)[0] in values
        )
    if isinstance(leaf, OneOf) and column.kind != "none":
        return combine(
            Bool(should=leaf.items), table.num_rows, lambda item: leaf_mask(item, table, mapping)
        )
    if isinstance(leaf, Exists) and not leaf.target.path:
        return np.asarray(pc.is_valid(array), np.bool_)
    if column.kind == "json" or leaf.target.path:
        if isinstance(leaf, Regex):
            return _json_regex(leaf, column, array)
        return _mask(_json_test(leaf, column), documents(array))
    if isinstance(leaf, Regex):
        return _regex_mask(leaf, column, plain_texts(array))
    if column.kind == "ip" or isinstance(leaf, Addresses):
        return _by_value(plain_texts(array), _address_test(leaf))
    if isinstance(leaf, Range | Equals | OneOf):
        return typed_mask(leaf, table)
    return _by_value(plain_texts(array), text_test(leaf, column))


def text_test(leaf: Leaf, column: ColumnMapping) -> Callable[[str], bool]:
    """Return a test whether a text of a column matches a leaf of words."""
    if column.tokenizer == "ngram":
        return _substring_test(leaf, column)
    test = _tokens_test(leaf, column)
    needed = _needed_term(leaf, column)
    tokenizer = column.tokenizer or "raw"
    if needed is not None and not _has_places(leaf, column):
        return lambda text: needed in terms_of(text, tokenizer)

    def with_places(text: str) -> bool:
        # Tokens with their places cost more than terms alone: most texts are settled by the terms.
        if needed is not None and needed not in terms_of(text, tokenizer):
            return False
        return test([(t.position, t.text) for t in analyze(text, tokenizer)])

    return with_places


def _needed_term(leaf: Leaf, column: ColumnMapping) -> str | None:
    if not isinstance(leaf, Words):
        return None
    if leaf.prefix:
        words = terms.prefix_words(column, leaf.text)[0]
    else:
        words = terms.words_of(column, leaf.text)
    if words:
        return words[0].text
    return None


def _has_places(leaf: Leaf, column: ColumnMapping) -> bool:
    return not isinstance(leaf, Words) or leaf.prefix or len(terms.words_of(column, leaf.text)) > 1


def _tokens_test(leaf: Leaf, column: ColumnMapping) -> Callable[[list[terms.Token]], bool]:
    """Return a test whether a list of tokens matches a leaf of words."""
    if isinstance(leaf, Words) and leaf.prefix:
        before, last = terms.prefix_words(column, leaf.text)
        if last is None:
            return lambda _: False
        start = last.text
        row = [(w.offset, w.text.__eq__) for w in before]
        return lambda tokens: terms.has_row(
            tokens, [*row, (last.offset, lambda text: text.startswith(start))]
        )
    if isinstance(leaf, Words):
        words = terms.words_of(column, leaf.text)
        return lambda tokens: bool(words) and terms.has_phrase(tokens, words, leaf.slop)
    if isinstance(leaf, Wildcard):
        tests = [terms.pattern_test(p) for p in terms.term_patterns(column, leaf.pattern)]
        return lambda tokens: terms.has_row(tokens, list(enumerate(tests)))
    if isinstance(leaf, Fuzzy):
        word = terms.plain_word(column, leaf.text)
        near = terms.fuzzy_test(word or "", leaf.distance)
        return lambda tokens: word is not None and any(near(text) for _, text in tokens)
    raise TypeError(f"{type(leaf).__name__} is not about words")


def _substring_test(leaf: Leaf, column: ColumnMapping) -> Callable[[str], bool]:
    """Return a test for a word or pattern anywhere in the text of an ngram column, ignoring case."""
    if isinstance(leaf, Wildcard):
        inside = terms.pattern_test(terms.term_patterns(column, leaf.pattern)[0], anywhere=True)
        return lambda text: inside(terms.lowered(text))
    word = terms.lowered(leaf.text) if isinstance(leaf, Words) else ""
    return lambda text: bool(word) and word in terms.lowered(text)


def _json_test(leaf: Leaf, column: ColumnMapping) -> Callable[[Any], bool]:
    path = leaf.target.path
    if isinstance(leaf, Exists):
        return lambda document: _has_value(document, path)
    test = _json_values_test(leaf, column)
    if not leaf.target.anywhere:
        return lambda document: test([value for p, value in json_leaves(document) if p == path])

    def somewhere(document: Any) -> bool:
        # A phrase is in the values of one path, never across two.
        by_path: dict[tuple[str, ...], list[JsonLeaf]] = {}
        for found, value in json_leaves(document):
            by_path.setdefault(found, []).append(value)
        return any(test(values) for values in by_path.values())

    return somewhere


def _has_value(value: Any, path: tuple[str, ...]) -> bool:
    """Return which rows hold anything but null at a path. Empty objects and lists count."""
    if not path:
        return value is not None
    if isinstance(value, list | tuple):
        return any(_has_value(below, path) for below in value)
    if not isinstance(value, dict):
        return False
    return any(
        normal_key(key) == path[0] and _has_value(below, path[1:]) for key, below in value.items()
    )


def _regex_mask(leaf: Regex, column: ColumnMapping, texts: pa.Array) -> Mask:
    """Return rows with a matching term. All distinct terms are compared at once."""
    tokenizer, expression = column.tokenizer or "raw", terms.term_expression(column, leaf)
    if tokenizer in ("raw", "ngram"):
        # The whole value is the term, or the expression is looked for anywhere in it.
        return np.asarray(expression.matching(texts).fill_null(False), np.bool_)
    cut = {
        text: set(terms_of(text, tokenizer))
        for text in text_list(texts.unique())
        if text is not None
    }
    fits = terms.fitting(expression, set().union(*cut.values()))
    return _by_value(texts, lambda text: not fits.isdisjoint(cut[text]))


def _json_regex(leaf: Regex, column: ColumnMapping, array: pa.ChunkedArray) -> Mask:
    tokenizer, target = column.tokenizer or "raw", leaf.target
    rows = [
        {
            term
            for path, value in (() if document is None else json_leaves(document))
            if isinstance(value, str) and (target.anywhere or path == target.path)
            for term in terms_of(value, tokenizer)
        }
        for document in documents(array)
    ]
    fits = terms.fitting(terms.term_expression(column, leaf), set().union(*rows))
    return np.array([not fits.isdisjoint(row) for row in rows], np.bool_)


def _json_values_test(leaf: Leaf, column: ColumnMapping) -> Callable[[list[JsonLeaf]], bool]:
    if isinstance(leaf, Range):
        span = leaf
        return lambda values: any(_json_within(span, value) for value in values)
    tokenizer = column.tokenizer or "raw"
    test = _tokens_test(leaf, column)
    if isinstance(leaf, Words) and not leaf.quoted and not leaf.prefix:
        literal = json_number(leaf.text)
    else:
        literal = None
    number = None if literal is None else normal_leaf(literal)

    def check(values: list[JsonLeaf]) -> bool:
        if number is not None and any(type(v) is type(number) and v == number for v in values):
            return True
        texts = [v for v in values if isinstance(v, str)]
        return test(
            terms.joined([[(t.position, t.text) for t in analyze(v, tokenizer)] for v in texts])
        )

    return check


def _json_within(span: Range, value: JsonLeaf) -> bool:
    """Return whether a JSON value is in a range. Numbers compare with numbers, texts with texts (by
    bytes).
    """
    texts = isinstance(span.upper if span.lower is None else span.lower, str)
    if isinstance(value, bool) or isinstance(value, str) != texts:
        return False
    low, high = _bytes(span.lower), _bytes(span.upper)
    return _within(
        Range(span.target, low, high, span.include_lower, span.include_upper), _bytes(value)
    )


def _bytes(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    return value


def _within(span: Range, value: Any) -> bool:
    low, high = span.lower, span.upper
    above = low is None or (value >= low if span.include_lower else value > low)
    return bool(above and (high is None or (value <= high if span.include_upper else value < high)))


def _address_test(leaf: Leaf) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        address = parse_address(text)
        if address is None:
            return False
        if isinstance(leaf, Addresses):
            return int(address) & leaf.mask == leaf.value & leaf.mask
        return isinstance(leaf, Range) and _within(leaf, address)

    return check


def _by_value(texts: pa.Array, test: Callable[[str], bool]) -> Mask:
    """Run a test of texts once per distinct text."""
    encoded = texts.dictionary_encode()
    outcomes = np.fromiter(
        (text is not None and test(text) for text in text_list(encoded.dictionary)),
        np.bool_,
        len(encoded.dictionary),
    )
    places = encoded.indices.fill_null(len(outcomes)).to_numpy(zero_copy_only=False)
    mask: Mask = np.append(outcomes, False)[places]
    return mask


def _mask(test: Callable[[Any], bool], values: Any) -> Mask:
    return np.array([value is not None and test(value) for value in values], np.bool_)
