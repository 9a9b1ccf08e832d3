"""Text to a command: recursive descent over the words of a statement.

Whether a statement is ours is decided by its first words alone, so that whatever else Spark understands goes to Spark
unchanged, even if we could not so much as tell its words apart.
"""

from __future__ import annotations

from indextables.commands.cursor import StatementCursor, likeness
from indextables.commands.grammar import STATEMENTS, form
from indextables.commands.tokens import INDEX_WORDS, leading_words, says
from indextables.commands.values import Command
from indextables.model.predicate.tokens import Token

_NEAR = 0.8
_BEGINNINGS = {tuple(lead.split()[:2]) for lead in STATEMENTS}
_DESCRIBED = {lead.split()[2] for lead in STATEMENTS if lead.startswith("DESCRIBE ")}


def parse(text: str) -> Command | None:
    """The command that a statement says; None if it is not ours; `QuerySyntaxError` if it is ours and wrong."""
    if not is_ours(text):
        return None
    cursor = StatementCursor(text)
    lead = cursor.choose(STATEMENTS)
    cursor.form = form(lead)
    command = STATEMENTS[lead].read(cursor)
    cursor.finish()
    return command


def is_ours(text: str) -> bool:
    """Whether a text begins as one of our statements does, or so nearly that it can only be a slip of the pen.

    `DESCRIBE INDEXTABLES ...` could be about a table of that name, so there the third word must be ours, or a path in
    quotes must follow, which no DESCRIBE of Spark has.
    """
    words = leading_words(text, 4)
    if len(words) < 2 or words[0].kind != "name" or words[1].kind != "name":
        return False
    if any(says(words[0], first) and says(words[1], second) for first, second in _BEGINNINGS):
        return not words[0].is_word("DESCRIBE") or _describes(words)
    near = any(_near(words[0], first) and _near(words[1], second, *INDEX_WORDS) for first, second in _BEGINNINGS)
    return near and (not _near(words[0], "DESCRIBE") or _names_a_path(words))


def _describes(words: list[Token]) -> bool:
    return (len(words) > 2 and words[2].is_word(*_DESCRIBED)) or _names_a_path(words)


def _names_a_path(words: list[Token]) -> bool:
    return any(word.kind == "string" for word in words[2:])


def _near(token: Token, *words: str) -> bool:
    return any(likeness(token.value.upper(), word) >= _NEAR for word in words)
