"""What a query's words and patterns mean in a column's terms. Translation and scanning both start from here.

A wildcard or fuzzy word is compared with terms after splitting and lower-casing but before stemming: a part of a word
has no stem.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

from msgspec import Struct

from indextables.splits.analyzers import analyze, terms_of
from indextables.splits.mapping import STEMMERS, WHOLE_TOKENIZERS, ColumnMapping


class Gap(Enum):
    """A wildcard in a pattern: any text, or any one character."""

    ANY = "*"
    ONE = "?"


Piece = str | Gap
"""A run of literal text, or a wildcard."""
Pattern = tuple[Piece, ...]


class Word(Struct, frozen=True):
    """A term and its place relative to the first term of a phrase."""

    offset: int
    text: str


def words_of(column: ColumnMapping, text: str) -> tuple[Word, ...]:
    """The terms of a text in a column, whatever their length; empty if the tokenizer keeps nothing of it."""
    found = analyze(text, column.tokenizer or "raw")
    return tuple(Word(t.position - found[0].position, t.text) for t in found)


def lowered(text: str) -> str:
    """A text in lower case exactly as the analyzers do it."""
    return terms_of(text, "lowercase_raw")[0]


def plain_word(column: ColumnMapping, text: str) -> str | None:
    """The one term of a fuzzy word, before stemming; None if the text is not one term."""
    found = terms_of(text, _unstemmed(column))
    return found[0] if len(found) == 1 else None


def prefix_words(column: ColumnMapping, text: str) -> tuple[tuple[Word, ...], Word | None]:
    """The terms of a text whose last term is only the start of one (and so has no stem), and that last term."""
    before, last = words_of(column, text)[:-1], analyze(text, _unstemmed(column))[-1:]
    first = analyze(text, _unstemmed(column))[:1]
    return before, Word(last[0].position - first[0].position, last[0].text) if last else None


def parse_pattern(pattern: str) -> Pattern:
    """A wildcard pattern as pieces; a backslash takes the next character as it is."""
    pieces: list[Piece] = []
    literal = ""
    characters = iter(pattern)
    for c in characters:
        if c in "*?":
            pieces += [literal, Gap(c)] if literal else [Gap(c)]
            literal = ""
        else:
            literal += next(characters, "\\") if c == "\\" else c
    return tuple([*pieces, literal] if literal else pieces)


def term_patterns(column: ColumnMapping, pattern: str) -> tuple[Pattern, ...]:
    """The patterns that neighbouring terms must match: `foo-ba*` means the term foo, then one that starts with ba."""
    tokenizer = _unstemmed(column)
    pieces = parse_pattern(pattern)
    if tokenizer in (*WHOLE_TOKENIZERS, "ngram"):
        return (tuple(p if isinstance(p, Gap) or tokenizer == "raw" else lowered(p) for p in pieces),)
    found: list[list[Piece]] = [[]]
    for piece in pieces:
        if isinstance(piece, Gap):
            found[-1].append(piece)
            continue
        for run, inside in _runs(piece, tokenizer):
            if inside:
                found[-1].extend(terms_of(run, tokenizer))
            elif found[-1]:
                found.append([])
    return tuple(tuple(p) for p in found if p)


def is_open(pattern: Pattern) -> bool:
    """Whether any term matches a pattern."""
    return bool(pattern) and all(piece is Gap.ANY for piece in pattern)


def _unstemmed(column: ColumnMapping) -> str:
    return "default" if column.tokenizer in STEMMERS else column.tokenizer or "raw"


def _runs(text: str, tokenizer: str) -> list[tuple[str, bool]]:
    """Stretches of a text that are inside a term, and those that separate terms."""
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
