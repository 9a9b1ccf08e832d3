"""Search operators in anybody's SQL, rewritten as function calls, which every SQL parser understands.

    message TEXTSEARCH 'a AND b'    textsearch(message , 'a AND b')
    level FIELDMATCH 'ERROR'        fieldmatch(level , 'ERROR')
    message indexquery 'a AND b'    indexquery(message , 'a AND b')
    * TEXTSEARCH 'a'                indexqueryall(  'a')
    * FIELDMATCH 'a'                indexqueryall(  'a')
    _indexall indexquery 'a'        indexqueryall(  'a')

This is a lexer's work, never a regular expression's: whatever stands in a string, a comment, a hint or backquotes is left
as it is, and so is every character outside of a rewritten operator, comments and line ends between its parts included.

An operator is a bare word (in any case) with a column before it and a text after it. A column is a name in parts
(`t.a`, `` `a b`.c ``) that is not itself the end of something longer (`x:a`, `x::a`, `f(x).a`) and no keyword; `*` counts
where an expression begins, not between two factors. A text is one or more strings, or a parameter (`:name`, `?`). All
else is left to whoever parses the SQL, which then says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from indextables.model.predicate.tokens import (
    block_comment_end,
    dollar_string_end,
    identifier_end,
    line_comment_end,
    string_end,
    word_end,
)

OPERATORS = {"TEXTSEARCH": "textsearch", "FIELDMATCH": "fieldmatch", "INDEXQUERY": "indexquery"}
"""The operators and the functions they become."""
ALL_COLUMNS = "indexqueryall"
_EVERY_COLUMN = "_INDEXALL"
_BEFORE_AN_EXPRESSION = frozenset(
    """ALL AND ANY AS BETWEEN BY CASE DISTINCT ELSE EXISTS FILTER FROM HAVING IN IS JOIN LIKE NOT ON OR QUALIFY SELECT
    SET SOME THEN UNION USING VALUES WHEN WHERE WITH""".split()  # noqa: SIM905
)
"""Keywords after which an expression may begin; none of them is a column."""
_JOINS_TO_THE_LEFT = frozenset(".:@$")


@dataclass(frozen=True)
class _Word:
    """A piece of SQL that means something: a word, a quoted name, a string, or any other character."""

    kind: str
    start: int
    end: int
    text: str

    @property
    def upper(self) -> str:
        return self.text.upper() if self.kind == "word" and self.text.isascii() else ""

    def is_sign(self, signs: str | frozenset[str]) -> bool:
        return self.kind == "sign" and self.text in signs


_Edit = tuple[int, int, str]
"""A place in the text and what stands there instead."""


def rewrite_operators(sql: str) -> str:
    """The same SQL with search operators as calls; the very same text if there is none, or if its quotes do not close."""
    upper = sql.upper()
    if not any(operator in upper for operator in OPERATORS):
        return sql
    words = _words(sql)
    parts: list[str] = []
    at = 0
    for start, end, text in _edits(words or []):
        parts += [sql[at:start], text]
        at = end
    return "".join([*parts, sql[at:]])


def _edits(words: list[_Word]) -> Iterator[_Edit]:
    """What changes, from left to right."""
    for index, operator in enumerate(words):
        function = OPERATORS.get(operator.upper)
        end = _text_end(words, index + 1) if function and index else None
        if end is None:
            continue
        last = words[index - 1]
        first = _column_start(words, index - 1)
        if _is_every_column(words, index - 1):
            yield last.start, last.end, f"{ALL_COLUMNS}("
            yield operator.start, operator.end, ""
        elif first is not None:
            yield words[first].start, words[first].start, f"{function}("
            yield operator.start, operator.end, ","
        else:
            continue
        yield end, end, ")"


def _text_end(words: list[_Word], index: int) -> int | None:
    """Where the text after an operator ends; None if there is none."""
    last = index
    while last < len(words) and words[last].kind == "string":
        last += 1
    if last > index:
        return words[last - 1].end
    if index < len(words) and words[index].is_sign("?"):
        return words[index].end
    named = index + 1 < len(words) and words[index].is_sign(":") and words[index + 1].kind == "word"
    return words[index + 1].end if named else None


def _column_start(words: list[_Word], last: int) -> int | None:
    """The index of the first word of the column that ends at a word; None if no column does."""
    first = last
    if not _is_name(words[first]):
        return None
    while first >= 2 and words[first - 1].is_sign(".") and _is_name(words[first - 2]):
        first -= 2
    if first > 0 and words[first - 1].is_sign(_JOINS_TO_THE_LEFT):
        return None
    return None if first == last and words[first].upper in _BEFORE_AN_EXPRESSION else first


def _is_name(word: _Word) -> bool:
    return word.kind == "quoted" or (word.kind == "word" and not word.text[0].isdigit())


def _is_every_column(words: list[_Word], index: int) -> bool:
    before = words[index - 1] if index > 0 else None
    begins = before is None or before.is_sign("(,") or before.upper in _BEFORE_AN_EXPRESSION
    return begins and (words[index].is_sign("*") or words[index].upper == _EVERY_COLUMN)


def _words(sql: str) -> list[_Word] | None:
    """The pieces that mean something, in order; None if a string, a comment or a quoted name does not end."""
    words: list[_Word] = []
    at = 0
    while at < len(sql):
        kind, end = _piece(sql, at)
        if end is None:
            return None
        if kind:
            words.append(_Word(kind, at, end, sql[at:end]))
        at = end
    return words


def _piece(sql: str, at: int) -> tuple[str, int | None]:
    """The kind of what begins at a place, empty if it means nothing, and where it ends."""
    letter = sql[at]
    if letter.isspace():
        return "", at + 1
    if sql.startswith("--", at):
        return "", line_comment_end(sql, at)
    if sql.startswith("/*", at):
        return "", block_comment_end(sql, at)
    if letter in "'\"":
        return "string", string_end(sql, at, raw=False)
    if letter == "`":
        return "quoted", identifier_end(sql, at)
    if letter == "$":
        end = dollar_string_end(sql, at)
        return ("sign", at + 1) if end == at else ("string", end)
    end = word_end(sql, at)
    if end == at:
        return "sign", at + 1
    if sql[at:end].upper() == "R" and sql[end : end + 1] in ("'", '"'):
        return "string", string_end(sql, end, raw=True)
    return "word", end
