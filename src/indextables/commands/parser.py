"""Text to a statement: the classes by the words they begin with, and the walk that reads one of them.

Whether a statement is ours is decided by its first words alone, so that whatever else Spark understands goes to Spark
unchanged, even if we could not so much as tell its words apart.
"""

from __future__ import annotations

from collections.abc import Mapping

from indextables.commands import caches, describe, upkeep
from indextables.commands.cursor import INDEX_WORDS, StatementCursor, leading_words, likeness, says
from indextables.commands.statement import Command
from indextables.model.predicate.tokens import Token

_NEAR = 0.8


def _statements() -> Mapping[str, type[Command]]:
    classes = [kind for room in (upkeep, describe, caches) for kind in vars(room).values() if isinstance(kind, type)]
    return {lead: kind for kind in classes if issubclass(kind, Command) for lead in kind.leads}


STATEMENTS = _statements()
"""By the words each begins with. The name of a table may stand wherever the table's path does."""
_BEGINNINGS = {tuple(lead.split()[:2]) for lead in STATEMENTS}
_DESCRIBED = {lead.split()[2] for lead in STATEMENTS if lead.startswith("DESCRIBE ")}


def parse(text: str) -> Command | None:
    """The statement that a text says; None if it is not ours; `QuerySyntaxError` if it is ours and wrong."""
    if not is_ours(text):
        return None
    cursor = StatementCursor(text)
    lead = cursor.choose(STATEMENTS)
    cursor.form = form(lead)
    kind = STATEMENTS[lead]
    command = kind.read(cursor, kind.leads[lead])
    cursor.finish()
    return command


def form(lead: str) -> str:
    """How a statement is written."""
    return f"{lead} {STATEMENTS[lead].usage()}".rstrip()


def forms() -> list[str]:
    """How every statement is written."""
    return [form(lead) for lead in STATEMENTS]


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
