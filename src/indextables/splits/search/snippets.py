"""Snippets: the passage of a text that best shows why a row matched, with the words marked.

Highlights are the same as data: several passages of several columns, with the positions of the
words. Words are found with the column's analyzer, so stems and case are marked as they matched.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct

from indextables.errors import InvalidInputError
from indextables.model.arguments import names_list, whole_number
from indextables.splits.index.analyzers import TextToken, analyze, terms_of, tokens_of
from indextables.splits.index.mapping import ColumnMapping, DocMapping, is_text
from indextables.splits.index.values import plain_texts, text_list
from indextables.splits.query import terms
from indextables.splits.query.tree import (
    Bool,
    Boost,
    Equals,
    Fuzzy,
    Leaf,
    OneOf,
    Query,
    Regex,
    Wildcard,
    Words,
)

Span = tuple[int, int]
"""Start and end of a marked passage in characters."""
NumberedSpan = tuple[int, int, int]
"""A passage and the number of the word that it matched."""
Finder = Callable[[str], list[Span]]


class Snippet(Struct, frozen=True):
    """The column to show, the length, and the marks. The text is escaped for HTML."""

    column: str
    max_chars: int = 150
    before: str = "<b>"
    after: str = "</b>"

    def check(self, schema: pa.Schema) -> None:
        """Check that a snippet has a text column and a positive length."""
        if self.column not in schema.names or not is_text(schema.field(self.column).type):
            known = ", ".join(f.name for f in schema if is_text(f.type))
            message = f"There is no text column {self.column!r} to take a snippet from."
            raise InvalidInputError(message, hint=f"Columns of text: {known}.", column=self.column)
        if self.max_chars < 1:
            raise InvalidInputError(
                f"A snippet of {self.max_chars} characters makes no sense.", hint="Give 1 or more."
            )


MAX_FRAGMENTS, MAX_LENGTH = 100, 100_000
_MARK = pa.struct([("start", pa.int64()), ("end", pa.int64())])
_FRAGMENT = pa.struct([("start", pa.int64()), ("text", pa.string()), ("marks", pa.list_(_MARK))])


class Highlight(Struct, frozen=True):
    """The columns to show fragments of, the number of fragments, and their approximate length in
    characters.
    """

    columns: tuple[str, ...]
    fragments: int = 3
    length: int = 120
    labels: tuple[str, ...] = ()
    """Logical names of the columns, where the splits have physical ones."""

    @classmethod
    def parse(cls, given: Any) -> Highlight:
        """Parse `"message"`, `["message", "title"]` or `{"columns": [...], "fragments": 3,
        "length": 120}`.
        """
        if isinstance(given, Mapping):
            options = given
        else:
            options = {"columns": given}
        unknown = sorted(set(options) - {"columns", "fragments", "length"})
        if unknown or "columns" not in options:
            message = f"highlight knows columns, fragments and length, not {', '.join(map(repr, unknown)) or 'nothing'}."
            raise InvalidInputError(
                message, hint='Write ["message"], or {"columns": ["message"], "fragments": 2}.'
            )
        names = (
            (options["columns"],)
            if isinstance(options["columns"], str)
            else names_list("highlight", options["columns"])
        )
        fragments = whole_number("fragments", options.get("fragments", 3), low=1)
        length = whole_number("length", options.get("length", 120), low=1)
        if not names or fragments > MAX_FRAGMENTS or length > MAX_LENGTH:
            message = f"highlight takes columns, 1 to {MAX_FRAGMENTS} fragments and a length of 1 to {MAX_LENGTH}."
            raise InvalidInputError(
                message, hint='Write {"columns": ["message"], "fragments": 2, "length": 80}.'
            )
        return cls(tuple(dict.fromkeys(names)), fragments, length)

    @property
    def type(self) -> pa.DataType:
        """The type of a row's highlights: for each column its fragments."""
        return pa.struct([(name, pa.list_(_FRAGMENT)) for name in self.labels or self.columns])

    def check(self, schema: pa.Schema) -> None:
        """Check that highlights are of text columns."""
        for name, label in zip(self.columns, self.labels or self.columns, strict=True):
            if name not in schema.names or not is_text(schema.field(name).type):
                known = ", ".join(f.name for f in schema if is_text(f.type))
                message = f"There is no text column {label!r} to highlight."
                raise InvalidInputError(message, hint=f"Columns of text: {known}.", column=label)


def highlights(
    texts: Mapping[str, pa.Array | pa.ChunkedArray],
    query: Query,
    mapping: DocMapping,
    request: Highlight,
) -> pa.Array:
    """Return the highlights of every row: for each column the marked fragments in order; none for a
    null.
    """
    columns = []
    for name in request.columns:
        column = mapping.find(name) or ColumnMapping(name, "", "none")
        find = _marker(query, name, column)
        found = [
            [] if text is None else _fragments(text, find(text), request)
            for text in text_list(plain_texts(texts[name]))
        ]
        columns.append(pa.array(found, pa.list_(_FRAGMENT)))
    return pa.StructArray.from_arrays(columns, fields=list(request.type))


def _fragments(
    text: str, found: Sequence[NumberedSpan], request: Highlight
) -> list[dict[str, Any]]:
    """Return the passages with the most distinct words, then the most words, in the order of the
    text.
    """
    marked = sorted((start, end, number) for start, end, number in found if end > start)
    joined = _join([(start, end) for start, end, _ in marked])
    chosen: list[Span] = []
    while marked and len(chosen) < request.fragments:
        low, high = _best_window(marked, request.length)
        chosen.append((low, high))
        marked = [
            (start, end, number) for start, end, number in marked if end <= low or start >= high
        ]
    chosen.sort()
    shown: list[dict[str, Any]] = []
    before = 0
    for place, (low, high) in enumerate(chosen):
        if place + 1 < len(chosen):
            after = chosen[place + 1][0]
        else:
            after = len(text)
        start, before = _widen(text, low, high, request.length, before, after)
        marks = [
            {"start": first, "end": last}
            for first, last in joined
            if first >= start and last <= before
        ]
        shown.append({"start": start, "text": text[start:before], "marks": marks})
    return shown


def _best_window(marked: Sequence[tuple[int, int, int]], width: int) -> Span:
    """Return start and end of the passage with the most distinct words. One that exceeds the length
    is taken alone.
    """
    best, window = (0, 0), (marked[0][0], marked[0][1])
    inside: dict[int, int] = {}
    last = 0
    for low, high, number in marked:
        while last < len(marked) and marked[last][1] <= max(low + width, high):
            inside[marked[last][2]] = inside.get(marked[last][2], 0) + 1
            last += 1
        size = (len(inside), sum(inside.values()))
        if size > best:
            best, window = size, (low, max(end for _, end, _ in marked[:last] if end > low))
        inside[number] = inside.get(number, 0) - 1
        if inside[number] <= 0:
            del inside[number]
    return window


def _widen(text: str, low: int, high: int, length: int, before: int, after: int) -> Span:
    """Extend a passage up to a length, at blanks if possible, and not into its neighbours."""
    spare = max(0, length - (high - low))
    start = max(before, low - spare // 2)
    if start + (high - low) + spare > high:
        end = min(after, start + (high - low) + spare)
    else:
        end = high
    if start > before and not text[start - 1].isspace():
        blank = next((n for n in range(start, low) if text[n].isspace()), None)
        start = low if blank is None else blank + 1
    if end < after and not text[end].isspace():
        blank = next((n for n in range(end - 1, high - 1, -1) if text[n].isspace()), None)
        end = high if blank is None else max(high, blank)
    while start < low and text[start].isspace():
        start += 1
    while end > high and text[end - 1].isspace():
        end -= 1
    return start, end


def snippets(
    texts: pa.Array | pa.ChunkedArray, query: Query, column: ColumnMapping, request: Snippet
) -> pa.Array:
    """Return the snippet of every text: null for null, the start of the text if none of the words
    occurs.
    """
    find = _marker(query, request.column, column)
    return pa.array(
        [
            None if t is None else _snippet(t, find(t), request)
            for t in text_list(plain_texts(texts))
        ],
        pa.string(),
    )


def spans(
    texts: Sequence[str | None], query: Query, name: str, column: ColumnMapping
) -> list[list[Span]]:
    """Return the matching passages of each text in order; overlapping ones are joined."""
    find = _marker(query, name, column)
    return [[] if t is None else _join([(low, high) for low, high, _ in find(t)]) for t in texts]


def _marker(query: Query, name: str, column: ColumnMapping) -> Callable[[str], list[NumberedSpan]]:
    """Return a function that finds all words of a query in a text with one analysis."""
    exact: dict[str, list[int]] = {}
    tests: list[tuple[int, terms.Test]] = []
    finders: list[tuple[int, Finder]] = []
    for number, word in enumerate(
        w for leaf in _shown_leaves(query, name) for w in _words(leaf, column)
    ):
        if isinstance(word, str):
            exact.setdefault(word, []).append(number)
        elif isinstance(word, TermTest):
            tests.append((number, word.test))
        else:
            finders.append((number, word))
    tokenizer = column.tokenizer or "raw"
    quick = not tests and _are_plain(exact, tokenizer)

    def find(text: str) -> list[NumberedSpan]:
        spans = [(low, high, number) for number, finder in finders for low, high in finder(text)]
        if quick and text.isascii():
            lowered = text.lower()
            return spans + [
                (*s, n)
                for word, numbers in exact.items()
                for s in _words_in(lowered, word)
                for n in numbers
            ]
        for token in tokens_of(text, tokenizer) if exact or tests else ():
            word = token.text
            numbers = [*exact.get(word, ()), *(number for number, test in tests if test(word))]
            spans += [(token.char_offset_from, token.char_offset_to, number) for number in numbers]
        return spans

    return find


def _are_plain(words: Iterable[str], tokenizer: str) -> bool:
    """Return whether words can be found in ASCII texts without an analysis, as runs of letters and
    digits.
    """
    return (
        tokenizer == "default"
        and bool(words)
        and all(w.isascii() and w.isalnum() and w == w.lower() for w in words)
    )


def _words_in(lowered: str, word: str) -> Iterator[Span]:
    """Return where a lower-case ASCII text has a word that is not part of another."""
    at = lowered.find(word)
    while at >= 0:
        end = at + len(word)
        if not (lowered[at - 1 : at].isalnum() or lowered[end : end + 1].isalnum()):
            yield at, end
        at = lowered.find(word, end)


def _shown_leaves(query: Query, name: str) -> Iterator[Leaf]:
    """Return the leaves by which a row can match in a column, without negated ones."""
    if isinstance(query, Bool):
        for below in (*query.must, *query.should):
            yield from _shown_leaves(below, name)
    elif isinstance(query, Boost):
        yield from _shown_leaves(query.query, name)
    elif isinstance(query, OneOf):
        yield from (item for item in query.items if item.target.column == name)
    elif (
        isinstance(query, Words | Wildcard | Regex | Fuzzy | Equals) and query.target.column == name
    ):
        yield query


class TermTest(Struct, frozen=True):
    """A test of a text's terms for leaves that match more than one word."""

    test: terms.Test


def _words(leaf: Leaf, column: ColumnMapping) -> Iterator[str | TermTest | Finder]:
    """Return how each word of a leaf is found in a text: as a term, by a test of terms, or in the
    whole text.
    """
    if column.tokenizer == "ngram":
        yield _substring_finder(leaf, column)
    elif isinstance(leaf, Equals):
        yield lambda text: [(0, len(text))] if text == leaf.value else []
    elif isinstance(leaf, Words) and leaf.prefix:
        before, last = terms.prefix_words(column, leaf.text)
        if last is not None and before:
            row = [
                *((word.offset, word.text.__eq__) for word in before),
                (last.offset, _starts_with(last.text)),
            ]
            yield from _row_finders(column, row)
        elif last is not None:
            yield TermTest(_starts_with(last.text))
    elif isinstance(leaf, Words):
        words = terms.words_of(column, leaf.text)
        if len(words) > 1 and not leaf.slop:
            yield from _row_finders(column, [(word.offset, word.text.__eq__) for word in words])
        else:
            yield from (word.text for word in words)
    elif isinstance(leaf, Wildcard):
        for pattern in terms.term_patterns(column, leaf.pattern):
            yield TermTest(terms.pattern_test(pattern))
    elif isinstance(leaf, Regex):
        yield TermTest(terms.expression_test(terms.term_expression(column, leaf)))
    elif isinstance(leaf, Fuzzy) and (near := terms.plain_word(column, leaf.text)) is not None:
        yield TermTest(terms.fuzzy_test(near, leaf.distance))


def _starts_with(prefix: str) -> terms.Test:
    return lambda text: text.startswith(prefix)


def _row_finders(
    column: ColumnMapping, tests: Sequence[tuple[int, terms.Test]]
) -> Iterator[Finder]:
    """Return how each word of a phrase is found: only where the other words are adjacent."""
    tokenizer = column.tokenizer or "raw"
    for wanted, _ in tests:

        def find(text: str, wanted: int = wanted) -> list[Span]:
            by_place: dict[int, list[TextToken]] = {}
            for token in analyze(text, tokenizer):
                by_place.setdefault(token.position, []).append(token)

            def fits(start: int) -> bool:
                return all(
                    any(test(t.text) for t in by_place.get(start + offset, ()))
                    for offset, test in tests
                )

            own = dict(tests)[wanted]
            return [
                (token.start, token.end)
                for place, tokens in by_place.items()
                for token in tokens
                if own(token.text) and fits(place - wanted)
            ]

        yield find


def _substring_finder(leaf: Leaf, column: ColumnMapping) -> Finder:
    if isinstance(leaf, Wildcard):
        pattern = terms.term_patterns(column, leaf.pattern)[0]
    else:
        pattern = None
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
    for low, high in _join([(low, high) for low, high, _ in marked]):
        if low < start or high > end:
            continue
        shown += (
            html.escape(text[at:low]) + request.before + html.escape(text[low:high]) + request.after
        )
        at = high
    return shown + html.escape(text[at:end])


def _best_start(marked: Sequence[tuple[int, int, int]], width: int) -> int:
    """Return the start of the passage with the most distinct words, then the most words, then the
    first.
    """
    best, start = (0, 0), 0
    for first, (low, _, _) in enumerate(marked):
        inside = [number for _, high, number in marked[first:] if high <= low + width]
        if (len(set(inside)), len(inside)) > best:
            best, start = (len(set(inside)), len(inside)), low
    return start


def _join(spans: Sequence[Span]) -> list[Span]:
    """Join overlapping passages, in order."""
    if len(spans) < 2:
        return [*spans]
    joined: list[Span] = []
    for low, high in sorted(spans):
        if joined and low < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return joined
