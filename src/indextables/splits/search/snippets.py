"""Snippets: the stretch of a text that shows best why a row was found, with the words marked.

The words are found with the column's own analyzer, so that stems and folded case are marked as they were matched.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from msgspec import Struct

from indextables.errors import InvalidInputError
from indextables.splits.index.analyzers import analyze, terms_of
from indextables.splits.index.mapping import ColumnMapping, is_text
from indextables.splits.index.values import plain_texts
from indextables.splits.query import terms
from indextables.splits.query.tree import Bool, Boost, Equals, Fuzzy, Leaf, OneOf, Query, Regex, Wildcard, Words

Span = tuple[int, int]
"""Start and end of a marked stretch, in characters."""
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
    finders = [finder for leaf in _shown_leaves(query, request.column) for finder in _finders(leaf, column)]
    return pa.array(
        [None if t is None else _snippet(t, finders, request) for t in plain_texts(texts).to_pylist()], pa.string()
    )


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


def _finders(leaf: Leaf, column: ColumnMapping) -> Iterator[Finder]:
    """How each word of a leaf is found in a text."""
    if column.tokenizer == "ngram":
        yield _substring_finder(leaf, column)
    elif isinstance(leaf, Equals):
        yield lambda text: [(0, len(text))] if text == leaf.value else []
    elif isinstance(leaf, Words) and leaf.prefix:
        before, last = terms.prefix_words(column, leaf.text)
        for word in before:
            yield _token_finder(column, word.text.__eq__)
        if last is not None:
            yield _token_finder(column, lambda text: text.startswith(last.text))
    elif isinstance(leaf, Words):
        for word in terms.words_of(column, leaf.text):
            yield _token_finder(column, word.text.__eq__)
    elif isinstance(leaf, Wildcard):
        for pattern in terms.term_patterns(column, leaf.pattern):
            yield _token_finder(column, terms.pattern_test(pattern))
    elif isinstance(leaf, Regex):
        yield _token_finder(column, terms.expression_test(terms.term_expression(column, leaf)))
    elif isinstance(leaf, Fuzzy) and (near := terms.plain_word(column, leaf.text)) is not None:
        yield _token_finder(column, terms.fuzzy_test(near, leaf.distance))


def _token_finder(column: ColumnMapping, test: terms.Test) -> Finder:
    tokenizer = column.tokenizer or "raw"
    return lambda text: [(t.start, t.end) for t in analyze(text, tokenizer) if test(t.text)]


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


def _snippet(text: str, finders: Sequence[Finder], request: Snippet) -> str:
    marked = [(start, end, number) for number, find in enumerate(finders) for start, end in find(text)]
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
