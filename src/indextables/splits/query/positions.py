"""Words in places: whether a phrase or a row of patterns occurs in a list of tokens. Plain and exact.

A phrase with slop matches where each word can be given a place of its own such that, after taking away each word's
place in the phrase, the places lie within the slop of each other: `"a b"~1` finds `a x b`, `"a b"~2` also `b a`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from indextables.splits.query.terms import Gap, Pattern, Word

Token = tuple[int, str]
"""Position and term."""
Test = Callable[[str], bool]


def has_phrase(tokens: Sequence[Token], words: Sequence[Word], slop: int = 0) -> bool:
    """Whether the words occur side by side, or within the slop."""
    if slop:
        places = [sorted(at - w.offset for at, text in tokens if text == w.text) for w in words]
        return all(places) and any(_fits(words, places, low, low + slop) for low in sorted(set().union(*places)))
    return has_row(tokens, [(w.offset, w.text.__eq__) for w in words])


def has_row(tokens: Sequence[Token], tests: Sequence[tuple[int, Test]]) -> bool:
    """Whether some place has, at every offset, a term that passes its test."""
    found: set[int] | None = None
    for offset, test in tests:
        starts = {at - offset for at, text in tokens if test(text)}
        found = starts if found is None else found & starts
        if not found:
            return False
    return found is not None


def _fits(words: Sequence[Word], places: Sequence[Sequence[int]], low: int, high: int) -> bool:
    """Whether every word has a place of its own between the bounds (equal words must not share one).

    The places open to equal words shift with the words' offsets, so giving each the first that is left is best.
    """
    last: dict[str, int] = {}
    for word, found in sorted(zip(words, places, strict=True), key=lambda pair: pair[0].offset):
        free = (p + word.offset for p in found if low <= p <= high and p + word.offset > last.get(word.text, -1))
        chosen = next(free, None)
        if chosen is None:
            return False
        last[word.text] = chosen
    return True


def pattern_test(pattern: Pattern, *, anywhere: bool = False) -> Test:
    """Whether a term (or, anywhere, a part of a text) is what a wildcard pattern says."""
    compiled = _compiled(pattern, whole=not anywhere)
    return lambda text: bool(compiled.search(text) if anywhere else compiled.fullmatch(text))


def pattern_search(pattern: Pattern) -> Callable[[str], list[tuple[int, int]]]:
    """Where in a text a wildcard pattern fits."""
    compiled = _compiled(pattern, whole=False)
    return lambda text: [found.span() for found in compiled.finditer(text)]


def _compiled(pattern: Pattern, *, whole: bool) -> re.Pattern[str]:
    """A pattern as an expression that never tries a star twice: the first place where what follows fits is taken.

    Only the text after the last star of a whole match must be at the end, wherever it was seen before.
    """
    runs = [""]
    for piece in pattern:
        if piece is Gap.ANY:
            runs.append("")
        else:
            runs[-1] += "." if isinstance(piece, Gap) else re.escape(piece)
    first, *rest = runs
    ending = f".*{rest.pop()}" if whole and rest else ""
    return re.compile(first + "".join(f"(?>.*?{run})" for run in rest) + ending, re.DOTALL)


def fuzzy_test(word: str, distance: int) -> Test:
    """Whether a term is within some edits: insert, delete, replace, swap of neighbours."""
    return lambda text: abs(len(text) - len(word)) <= distance and edits(word, text) <= distance


def edits(one: str, other: str) -> int:
    """The number of edits between two words, no part being edited twice."""
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
    """The tokens of several values of one path as tantivy numbers them: a gap of one between values."""
    found: list[Token] = []
    base = 0
    for tokens in values:
        found += [(base + at, text) for at, text in tokens]
        base = max((base + at + 1 for at, _ in tokens), default=0) + 1
    return found
