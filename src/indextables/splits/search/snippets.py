"""Snippets: the stretch of a text that shows best why a row was found, with the words marked.

The words are found with the column's own analyzer, so that stems and folded case are marked as they were matched.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from msgspec import Struct

from indextables.errors import InvalidInputError
from indextables.splits.index.analyzers import terms_of, tokens_of
from indextables.splits.index.mapping import ColumnMapping, is_text
from indextables.splits.index.values import plain_texts
from indextables.splits.query import terms
from indextables.splits.query.tree import Bool, Boost, Equals, Fuzzy, Leaf, OneOf, Query, Regex, Wildcard, Words

Span = tuple[int, int]
"""Start and end of a marked stretch, in characters."""
NumberedSpan = tuple[int, int, int]
"""A stretch, and the number of the word that it was found for."""
Finder = Callable[[str], list[Span]]


class Snippet(Struct, frozen=True):
    """Which column to show, how much of it, and how words are marked. The text is escaped for HTML."""

    column: str
    max_chars: int = 150
    before: str = "<b>"
    after: str = "</b>"

    def check(self, schema: pa.Schema) -> None:
        """A snippet needs a text column, and room."""
        if self.column not in schema.names or not is_text(schema.field(self.column).type):
            known = ", ".join(f.name for f in schema if is_text(f.type))
            message = f"There is no text column {self.column!r} to take a snippet from."
            raise InvalidInputError(message, hint=f"Columns of text: {known}.", column=self.column)
        if self.max_chars < 1:
            raise InvalidInputError(f"A snippet of {self.max_chars} characters makes no sense.", hint="Give 1 or more.")


def snippets(texts: pa.Array | pa.ChunkedArray, query: Query, column: ColumnMapping, request: Snippet) -> pa.Array:
    """The snippet of every text; null for null, the text's start where none of the query's words is in it."""
    find = _marker(query, request.column, column)
    return pa.array(
        [None if t is None else _snippet(t, find(t), request) for t in plain_texts(texts).to_pylist()], pa.string()
    )


def spans(texts: Sequence[str | None], query: Query, name: str, column: ColumnMapping) -> list[list[Span]]:
    """Where each text of a column holds what a query looks for, in order; overlapping stretches are one."""
    find = _marker(query, name, column)
    return [[] if t is None else _joined([(low, high) for low, high, _ in find(t)]) for t in texts]


def _marker(query: Query, name: str, column: ColumnMapping) -> Callable[[str], list[NumberedSpan]]:
    """How all words of a query are found in a text: those that are held against its terms by one analysis of it."""
    exact: dict[str, list[int]] = {}
    tests: list[tuple[int, terms.Test]] = []
    finders: list[tuple[int, Finder]] = []
    for number, word in enumerate(w for leaf in _shown_leaves(query, name) for w in _words(leaf, column)):
        if isinstance(word, str):
            exact.setdefault(word, []).append(number)
        elif isinstance(word, TermTest):
            tests.append((number, word.test))
        else:
            finders.append((number, word))
    tokenizer = column.tokenizer or "raw"
    quick = None if tests else _plain_words(exact, tokenizer)

    def find(text: str) -> list[NumberedSpan]:
        spans = [(low, high, number) for number, finder in finders for low, high in finder(text)]
        if quick is not None and text.isascii():
            return spans + [(*m.span(), number) for m in quick.finditer(text) for number in exact[m[0].lower()]]
        for token in tokens_of(text, tokenizer) if exact or tests else ():
            word = token.text
            numbers = [*exact.get(word, ()), *(number for number, test in tests if test(word))]
            spans += [(token.char_offset_from, token.char_offset_to, number) for number in numbers]
        return spans

    return find


def _plain_words(words: Iterable[str], tokenizer: str) -> re.Pattern[str] | None:
    """Words as an expression for texts of ASCII alone, whose terms are runs of letters and digits in lower case."""
    if tokenizer != "default" or not words or not all(w.isascii() and w.isalnum() for w in words):
        return None
    return re.compile(rf"(?<![a-z0-9])(?:{'|'.join(words)})(?![a-z0-9])", re.IGNORECASE | re.ASCII)


def _shown_leaves(query: Query, name: str) -> Iterator[Leaf]:
    """The leaves by which a row can have been found in a column: not those that must not match."""
    if isinstance(query, Bool):
        for below in (*query.must, *query.should):
            yield from _shown_leaves(below, name)
    elif isinstance(query, Boost):
        yield from _shown_leaves(query.query, name)
    elif isinstance(query, OneOf):
        yield from (item for item in query.items if item.target.column == name)
    elif isinstance(query, Words | Wildcard | Regex | Fuzzy | Equals) and query.target.column == name:
        yield query


class TermTest(Struct, frozen=True):
    """What the terms of a text are held against that a query finds by more than one word."""

    test: terms.Test


def _words(leaf: Leaf, column: ColumnMapping) -> Iterator[str | TermTest | Finder]:
    """How each word of a leaf is found in a text: as a term, by a test of terms, or by a look at the whole."""
    if column.tokenizer == "ngram":
        yield _substring_finder(leaf, column)
    elif isinstance(leaf, Equals):
        yield lambda text: [(0, len(text))] if text == leaf.value else []
    elif isinstance(leaf, Words) and leaf.prefix:
        before, last = terms.prefix_words(column, leaf.text)
        for word in before:
            yield word.text
        if last is not None:
            yield TermTest(lambda text: text.startswith(last.text))
    elif isinstance(leaf, Words):
        for word in terms.words_of(column, leaf.text):
            yield word.text
    elif isinstance(leaf, Wildcard):
        for pattern in terms.term_patterns(column, leaf.pattern):
            yield TermTest(terms.pattern_test(pattern))
    elif isinstance(leaf, Regex):
        yield TermTest(terms.expression_test(terms.term_expression(column, leaf)))
    elif isinstance(leaf, Fuzzy) and (near := terms.plain_word(column, leaf.text)) is not None:
        yield TermTest(terms.fuzzy_test(near, leaf.distance))


def _substring_finder(leaf: Leaf, column: ColumnMapping) -> Finder:
    pattern = terms.term_patterns(column, leaf.pattern)[0] if isinstance(leaf, Wildcard) else None
    wanted = pattern or ((terms.lowered(leaf.text),) if isinstance(leaf, Words) else ())
    find = terms.pattern_search(wanted)

    def spans(text: str) -> list[Span]:
        # One character may become several in lower case: remember where each came from.
        low = [terms_of(c, "lowercase_raw")[0] for c in text]
        origin = [i for i, c in enumerate(low) for _ in c]
        return [(origin[a], origin[b - 1] + 1) for a, b in find("".join(low)) if b > a]

    return spans


def _snippet(text: str, marked: Sequence[NumberedSpan], request: Snippet) -> str:
    start = _best_start(sorted(marked), request.max_chars)
    end = min(len(text), start + request.max_chars)
    if end == len(text):
        start = max(0, end - request.max_chars)
    shown, at = "", start
    for low, high in _joined([(low, high) for low, high, _ in marked]):
        if low < start or high > end:
            continue
        shown += html.escape(text[at:low]) + request.before + html.escape(text[low:high]) + request.after
        at = high
    return shown + html.escape(text[at:end])


def _best_start(marked: Sequence[tuple[int, int, int]], room: int) -> int:
    """Where the stretch with the most different words starts (then the most words, then the first)."""
    best, start = (0, 0), 0
    for first, (low, _, _) in enumerate(marked):
        inside = [number for _, high, number in marked[first:] if high <= low + room]
        if (len(set(inside)), len(inside)) > best:
            best, start = (len(set(inside)), len(inside)), low
    return start


def _joined(spans: Sequence[Span]) -> list[Span]:
    """Overlapping stretches as one, in order."""
    joined: list[Span] = []
    for low, high in sorted(spans):
        if joined and low < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return joined
