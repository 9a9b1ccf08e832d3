"""Words and patterns of a query as terms of a column, for translation and scanning.

A wildcard or fuzzy word is compared with terms after splitting and lower-casing but before
stemming, because a part of a word has no stem. Phrases and pattern sequences are matched exactly
against token lists. A phrase with slop matches if each word can be assigned its own position such
that, after subtracting its offset in the phrase, the positions differ by at most the slop: `"a
b"~1` finds `a x b`, `"a b"~2` also `b a`.

The text of a value in a query becomes a value of its column's type. A ValueError states what is
expected.
"""

from __future__ import annotations

import datetime
import decimal
import ipaddress
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa
import tantivy
from msgspec import Struct
from msgspec.structs import replace

from indextables.config.indexing import CHAIN
from indextables.errors import InvalidInputError, show_value
from indextables.model.regular_expression import (
    RegexFaultError,
    RegularExpression,
    regular_expression,
)
from indextables.model.relative_times import is_relative, parse_moment
from indextables.splits.index.analyzers import analyze, terms_of
from indextables.splits.index.mapping import (
    CODE_PARTS,
    WHOLE_TOKENIZERS,
    ColumnMapping,
    before_stems,
    is_text,
    keeps_case,
    query_tokenizer,
)
from indextables.splits.index.values import has_long_term, parse_address
from indextables.splits.query.tree import Leaf, Regex, Wildcard, Words


class Gap(Enum):
    """A wildcard in a pattern: any text, or one character."""

    ANY = "*"
    ONE = "?"


Piece = str | Gap
"""A run of literal text, or a wildcard."""
Pattern = tuple[Piece, ...]


class Word(Struct, frozen=True):
    """A term and its offset from the first term of a phrase."""

    offset: int
    text: str


@lru_cache(maxsize=1024)
def words_of(column: ColumnMapping, text: str) -> tuple[Word, ...]:
    """Return the terms of a text in a column whatever their length. Empty if the tokenizer keeps
    nothing.
    """
    tokens = analyze(text, query_tokenizer(column.tokenizer or "raw"))
    return tuple(Word(t.position - tokens[0].position, t.text) for t in tokens)


def has_long_word(column: ColumnMapping, text: str) -> bool:
    """Return whether a term of a text in a query is one that the column's index leaves out."""
    return has_long_term(text, replace(column, tokenizer=query_tokenizer(column.tokenizer)))


def lowered(text: str) -> str:
    """Return a text in lower case exactly as the analyzers do."""
    return terms_of(text, "lowercase_raw")[0]


def plain_word(column: ColumnMapping, text: str) -> str | None:
    """Return the single term of a fuzzy word before stemming, or None if the text is not one term."""
    words = terms_of(text, _without_stemmer(column))
    if len(words) == 1:
        return words[0]
    return None


def prefix_words(column: ColumnMapping, text: str) -> tuple[tuple[Word, ...], Word | None]:
    """Return the terms of a text whose last term is a prefix (without stem), and that last term."""
    before, last = words_of(column, text)[:-1], analyze(text, _without_stemmer(column))[-1:]
    first = analyze(text, _without_stemmer(column))[:1]
    return before, Word(last[0].position - first[0].position, last[0].text) if last else None


MAX_PIECES = 1_000
"""Maximum number of pieces of a pattern. Words are never that long; longer patterns only cost time
and memory.
"""


def parse_pattern(pattern: str) -> Pattern:
    """Parse a wildcard pattern. A backslash escapes the next character."""
    pieces: list[Piece] = []
    literal = ""
    characters = iter(pattern)
    for c in characters:
        if c in "*?":
            if c == "*" and not literal and pieces and pieces[-1] is Gap.ANY:
                continue  # `**` says no more than `*`
            pieces += [literal, Gap(c)] if literal else [Gap(c)]
            literal = ""
            if len(pieces) > MAX_PIECES:
                raise InvalidInputError(
                    f"The pattern {show_value(pattern)} has more than {MAX_PIECES} parts.",
                    hint="Use fewer `*` and `?`.",
                )
        else:
            literal += next(characters, "\\") if c == "\\" else c
    return tuple([*pieces, literal] if literal else pieces)


def term_patterns(column: ColumnMapping, pattern: str) -> tuple[Pattern, ...]:
    """Return the patterns of adjacent terms: `foo-ba*` is the term foo followed by a term that
    starts with ba.
    """
    tokenizer = _without_stemmer(column)
    pieces = parse_pattern(pattern)
    if tokenizer in (*WHOLE_TOKENIZERS, "ngram"):
        return (
            tuple(p if isinstance(p, Gap) or tokenizer == "raw" else lowered(p) for p in pieces),
        )
    if tokenizer.startswith((f"entities{CHAIN}", f"code{CHAIN}", f"{CODE_PARTS}{CHAIN}")):
        # What separates terms depends on more than one character: a pattern is compared with whole
        # terms.
        return (tuple(p if isinstance(p, Gap) else _fold(p, tokenizer) for p in pieces),)
    patterns: list[list[Piece]] = [[]]
    for piece in pieces:
        if isinstance(piece, Gap):
            patterns[-1].append(piece)
            continue
        for run, inside in _runs(piece, tokenizer):
            if inside:
                patterns[-1].extend(terms_of(run, tokenizer))
            elif patterns[-1]:
                patterns.append([])
    return tuple(tuple(p) for p in patterns if p)


def term_expression(column: ColumnMapping, leaf: Regex) -> RegularExpression:
    """Return the expression for a column's terms, ignoring case if its terms are in lower case."""
    tokenizer = column.tokenizer or "raw"
    ignore_case = leaf.ignore_case or not keeps_case(tokenizer)
    return regular_expression(leaf.pattern, ignore_case=ignore_case, whole=tokenizer != "ngram")


def fitting(expression: RegularExpression, terms: Iterable[str]) -> set[str]:
    """Return the terms that match an expression."""
    distinct = pa.array(list(set(terms)), pa.string())
    found: list[str] = distinct.filter(expression.matching(distinct)).to_pylist()
    return set(found)


def expression_test(expression: RegularExpression) -> Test:
    """Return whether a single term matches an expression. For many terms `fitting` is faster."""
    return lru_cache(maxsize=4096)(lambda text: bool(fitting(expression, [text])))


def pattern_counts(
    leaf: Leaf, column: ColumnMapping
) -> Iterator[tuple[str, Callable[[list[str]], int]]]:
    """Return for each pattern of a leaf its prefixes and the number of given terms that it matches."""
    if isinstance(leaf, Regex):
        expression = term_expression(column, leaf)
        yield "", lambda found: len(fitting(expression, found))
    elif isinstance(leaf, Words) and leaf.prefix:
        last = prefix_words(column, leaf.text)[1]
        if last is not None:
            yield last.text, len
    elif isinstance(leaf, Wildcard):
        for pattern in term_patterns(column, leaf.pattern):
            if pattern and isinstance(pattern[0], str):
                start = pattern[0]
            else:
                start = ""
            if len(pattern) > 1 or not start:
                yield start, partial(_count, pattern_test(pattern))


def _count(test: Test, found: list[str]) -> int:
    return sum(map(test, found))


def check_automaton(expression: RegularExpression) -> None:
    """Refuse an expression with more states than the term dictionary search allows."""
    try:
        tantivy.Query.regex_query(_ANY_SCHEMA, "t", expression.automaton())
    except ValueError as e:
        raise RegexFaultError(f"The regular expression is too large: {e}", 0) from None


_ANY_SCHEMA = tantivy.SchemaBuilder().add_text_field("t").build()


def is_open(pattern: Pattern) -> bool:
    """Return whether a pattern matches every term."""
    return bool(pattern) and all(piece is Gap.ANY for piece in pattern)


def _without_stemmer(column: ColumnMapping) -> str:
    return before_stems(query_tokenizer(column.tokenizer or "raw"))


def _fold(text: str, tokenizer: str) -> str:
    """Apply only the filters of a chain to a part of a term."""
    filters = tokenizer.split(CHAIN)[1:]
    if text.strip() and filters != [""]:
        return terms_of(text, CHAIN.join(["whitespace", *filters]))[0]
    return text


def _runs(text: str, tokenizer: str) -> list[tuple[str, bool]]:
    """Split a text into runs inside terms and runs that separate terms."""
    runs: list[tuple[str, bool]] = []
    for c in text:
        inside = _is_term_character(c, tokenizer)
        if runs and runs[-1][1] == inside:
            runs[-1] = (runs[-1][0] + c, inside)
        else:
            runs.append((c, inside))
    return runs


@lru_cache(maxsize=4096)
def _is_term_character(c: str, tokenizer: str) -> bool:
    return bool(terms_of(c, tokenizer))


Token = tuple[int, str]
"""Position and term."""
Test = Callable[[str], bool]


def has_phrase(tokens: Sequence[Token], words: Sequence[Word], slop: int = 0) -> bool:
    """Return whether the words occur as a phrase, or within the slop."""
    if slop:
        places = [sorted(at - w.offset for at, text in tokens if text == w.text) for w in words]
        return all(places) and any(
            _fits(words, places, low, low + slop) for low in sorted(set().union(*places))
        )
    return has_row(tokens, [(w.offset, w.text.__eq__) for w in words])


def has_row(tokens: Sequence[Token], tests: Sequence[tuple[int, Test]]) -> bool:
    """Return whether at some position a term passes its test at every offset."""
    candidates: set[int] | None = None
    for offset, test in tests:
        starts = {at - offset for at, text in tokens if test(text)}
        if candidates is None:
            candidates = starts
        else:
            candidates = candidates & starts
        if not candidates:
            return False
    return candidates is not None


def _fits(words: Sequence[Word], places: Sequence[Sequence[int]], low: int, high: int) -> bool:
    """Return whether every word can have its own position between the bounds; equal words must not
    share one.

    The positions open to equal words shift with their offsets, so assigning the first free one is
    optimal.
    """
    last: dict[str, int] = {}
    for word, positions in sorted(zip(words, places, strict=True), key=lambda pair: pair[0].offset):
        free = (
            p + word.offset
            for p in positions
            if low <= p <= high and p + word.offset > last.get(word.text, -1)
        )
        chosen = next(free, None)
        if chosen is None:
            return False
        last[word.text] = chosen
    return True


def pattern_test(pattern: Pattern, *, anywhere: bool = False) -> Test:
    """Return a test whether a term (or, if anywhere, a part of a text) matches a wildcard pattern."""
    compiled = _compile(pattern, anchored=not anywhere)
    return lambda text: bool(compiled.search(text) if anywhere else compiled.fullmatch(text))


def pattern_search(pattern: Pattern) -> Callable[[str], list[tuple[int, int]]]:
    """Return a search for a wildcard pattern in a text."""
    compiled = _compile(pattern, anchored=False)
    return lambda text: [match.span() for match in compiled.finditer(text)]


def _compile(pattern: Pattern, *, anchored: bool) -> re.Pattern[str]:
    """Compile a pattern to an expression that never tries a star twice: the first match of the
    following text is taken.

    Only the text after the last star of a whole match must be at the end, wherever it occurred
    before.
    """
    runs = [""]
    for piece in pattern:
        if piece is Gap.ANY:
            runs.append("")
        else:
            runs[-1] += "." if isinstance(piece, Gap) else re.escape(piece)
    first, *rest = runs
    ending = f".*{rest.pop()}" if anchored and rest else ""
    return re.compile(first + "".join(f"(?>.*?{run})" for run in rest) + ending, re.DOTALL)


def fuzzy_test(word: str, distance: int) -> Test:
    """Return a test whether a term is within some edits: insert, delete, replace, swap neighbours."""
    return lambda text: abs(len(text) - len(word)) <= distance and edits(word, text) <= distance


def edits(one: str, other: str) -> int:
    """Return the edit distance of two words, without editing a part twice."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, b in enumerate(other, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                best = min(best, last[j - 2] + 1)
            row.append(best)
    return row[-1]


def joined(values: Iterable[Sequence[Token]]) -> list[Token]:
    """Return the tokens of several values of one path with tantivy's positions: a gap of one
    between values.
    """
    numbered: list[Token] = []
    base = 0
    for tokens in values:
        numbered += [(base + at, text) for at, text in tokens]
        base = max((base + at + 1 for at, _ in tokens), default=0) + 1
    return numbered


FULL_MASK = (1 << 128) - 1
_IPV4_BITS = (1 << 32) - 1


def typed_value(text: str, kind: pa.DataType, now: datetime.datetime | None = None) -> Any:
    """Convert a literal to a value of a column without an index. Times without an offset are UTC;
    `now` is the clock.
    """
    if pa.types.is_dictionary(kind):
        return typed_value(text, kind.value_type, now)
    if is_text(kind):
        return text
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _moment(text, kind, now)
    for check, parse, expected in _PARSERS:
        if check(kind):
            try:
                return parse(text)
            except (ValueError, ArithmeticError):
                raise ValueError(f"{text!r} is not {expected}") from None
    raise ValueError(f"a column of type {kind} cannot be compared in a query")


def address_mask(text: str) -> tuple[int, int]:
    """Parse an address, a network (`10.0.0.0/8`, `fe80::/10`) or octets (`10.0.*.*`, `10.0.*`) as
    value and mask.
    """
    if "*" in text:
        return _octets(text)
    if "/" in text:
        return _network(text)
    address = parse_address(text)
    if address is None:
        raise ValueError(
            f"{text!r} is no IP address, network (10.0.0.0/8) or octet wildcard (10.0.*.*)"
        )
    return int(address), FULL_MASK


def json_number(text: str) -> bool | int | float | None:
    """Return the number or boolean that a bare word can also mean in a JSON column."""
    if text in ("true", "false"):
        return text == "true"
    if (
        not text
        or not (text[0].isdecimal() or text[0] in "+-.")
        or not text.isascii()
        or "_" in text
    ):
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        return None
    if math.isfinite(value):
        return value
    return None


def _octets(text: str) -> tuple[int, int]:
    parts = text.split(".")
    while len(parts) < 4 and parts[-1] == "*":
        parts.append("*")
    value = mask = 0
    for part in parts:
        if part == "*":
            number = 0
        elif part.isascii() and part.isdecimal():
            number = int(part)
        else:
            number = 256
        if number > 255 or len(parts) != 4:
            raise ValueError(f"{text!r} is no octet wildcard such as 10.0.*.*")
        value, mask = value << 8 | number, mask << 8 | (0 if part == "*" else 255)
    return 0xFFFF << 32 | value, FULL_MASK ^ _IPV4_BITS | mask


def _network(text: str) -> tuple[int, int]:
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"{text!r} is no network such as 10.0.0.0/8") from None
    value, mask = int(network.network_address), int(network.netmask)
    if network.version == 4:
        return 0xFFFF << 32 | value, FULL_MASK ^ _IPV4_BITS | mask
    return value, mask


def _number(text: str) -> int | decimal.Decimal:
    value = decimal.Decimal(text)
    if not value.is_finite() or "_" in text or abs(value.adjusted()) > _MAX_DIGITS:
        raise ValueError(text)
    if value == value.to_integral_value():
        return int(value)
    return value


def _float(text: str) -> float:
    value = float(text)
    if "_" in text or math.isnan(value):
        raise ValueError(text)
    return value


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _moment(text: str, kind: pa.DataType, now: datetime.datetime | None) -> datetime.date:
    try:
        value = parse_moment(text, now)
    except ValueError:
        if pa.types.is_date(kind):
            expected = "2024-01-31"
        else:
            expected = "2024-01-31T12:00:00Z"
        if is_relative(text) and now is None:
            raise
        message = f"{text!r} is not a date or time such as {expected}, 1706702400 (seconds since 1970) or now-15m"
        raise ValueError(message) from None
    whole_day = value.time() == datetime.time() and value.tzinfo is None
    if whole_day and pa.types.is_date(kind):
        return value.date()
    return value


_MAX_DIGITS = 400
_PARSERS = (
    (pa.types.is_boolean, _boolean, "true or false"),
    (pa.types.is_integer, _number, "a number"),
    (pa.types.is_floating, _float, "a number"),
    (pa.types.is_decimal, _number, "a number"),
)
