"""Parse a text to a statement by its first words.

Only the first words decide whether a statement is ours, so that everything else reaches Spark
unchanged, even if its tokens are unknown here.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import dropwhile, takewhile

from indextables.commands import caches, delta, describe, upkeep
from indextables.commands.statement import (
    DESCRIBE_WORDS,
    INDEX_WORDS,
    Command,
    StatementCursor,
    leading_words,
    likeness,
    says,
)
from indextables.model.predicate.tokens import Token

_NEAR = 0.8


def _statements() -> Mapping[str, type[Command]]:
    classes = [
        kind
        for module in (upkeep, describe, caches, delta)
        for kind in vars(module).values()
        if isinstance(kind, type)
    ]
    return {lead: kind for kind in classes if issubclass(kind, Command) for lead in kind.leads}


STATEMENTS = _statements()
"""Statements by their first words. A table name is accepted wherever its path is."""
_WITH_A_PATH = [tuple(lead.split()) for lead, kind in STATEMENTS.items() if kind.path_only]
_BEGINNINGS = {tuple(lead.split()[:2]) for lead, kind in STATEMENTS.items() if not kind.path_only}
_SHARED = (*DESCRIBE_WORDS, "SET", "UNSET", "RESET")
"""First words that Spark's statements have too."""
_THIRD = {
    (words[0], words[2])
    for lead in STATEMENTS
    if (words := lead.split())[0] in _SHARED and len(words) > 2
}
_DESCRIBED = {
    "".join(lead.split()[2:]) for lead in STATEMENTS if lead.startswith("DESCRIBE INDEXTABLES ")
}
"""Objects that can be described, with their words joined."""


def parse(text: str) -> Command | None:
    """Parse a statement. Returns None if it is not ours; raises `QuerySyntaxError` if it is ours
    and wrong.
    """
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
    """Return the syntax of a statement."""
    return f"{lead} {STATEMENTS[lead].usage()}".rstrip()


def forms() -> list[str]:
    """Return the syntax of every statement."""
    return [form(lead) for lead, kind in STATEMENTS.items() if kind.offered]


def is_ours(text: str) -> bool:
    """Return whether a text begins like one of our statements, or is probably a misspelt one.

    `DESCRIBE INDEXTABLES ...` could be about a table of that name. There the third word must be
    ours, or all following words nearly ours, or a path in quotes must follow, which no DESCRIBE of
    Spark has. `VACUUM`, `OPTIMIZE` and similar are ours with a path in quotes.
    """
    words = leading_words(text, 8)
    if any(_leads_to_a_path(words, lead) for lead in _WITH_A_PATH):
        return True
    if len(words) < 2 or words[0].kind != "name" or words[1].kind != "name":
        return False
    if any(says(words[0], first) and says(words[1], second) for first, second in _BEGINNINGS):
        return not words[0].is_word(*_SHARED) or _goes_on(words)
    near = any(
        _near(words[0], first) and _near(words[1], second, *INDEX_WORDS)
        for first, second in _BEGINNINGS
    )
    return near and (not _near(words[0], *_SHARED) or _names_a_path(words))


def _nearly_describes(words: list[Token]) -> bool:
    """Return whether the next words are, or nearly are, an object that we describe: `DISC CACHE`,
    `TRANSACTIONLOG`.
    """
    names = list(takewhile(lambda word: word.kind == "name", words[2:]))
    ends = len(words) == 2 + len(names) or words[2 + len(names)].is_sign(";")
    together = "".join(str(name.value).upper() for name in names)
    return bool(names) and ends and any(likeness(together, known) >= _NEAR for known in _DESCRIBED)


def _leads_to_a_path(words: list[Token], lead: tuple[str, ...]) -> bool:
    """Return whether the words are, or nearly are, the first words of a statement followed by a
    path in quotes.
    """
    if len(words) <= len(lead) or words[len(lead)].kind != "string":
        return False
    return all(
        token.kind == "name" and _near(token, word)
        for token, word in zip(words, lead, strict=False)
    )


def _goes_on(words: list[Token]) -> bool:
    if len(words) > 2 and any(
        says(words[0], first) and words[2].is_word(third) for first, third in _THIRD
    ):
        return True
    return words[0].is_word(*DESCRIBE_WORDS) and (_names_a_path(words) or _nearly_describes(words))


def _names_a_path(words: list[Token]) -> bool:
    """Return whether a string comes next, directly or after bare words: in `PARTITION (day = 'x')`
    it is a value.
    """
    after_words = list(dropwhile(lambda word: word.kind == "name", words[2:]))[:1]
    return any(word.kind == "string" for word in (*words[2:4], *after_words))


def _near(token: Token, *words: str) -> bool:
    return any(says(token, word) or likeness(token.value.upper(), word) >= _NEAR for word in words)
