"""The words of a statement: those of a predicate, with `;`, and with names and sizes that begin with a digit (`100M`)."""

from __future__ import annotations

from typing import ClassVar

from indextables.errors import QuerySyntaxError
from indextables.model.predicate.tokens import SIGNS, Reader, Token

INDEX_WORDS = ("INDEXTABLES", "INDEXTABLE")
"""Two spellings of one keyword."""


class StatementReader(Reader):
    """Walks over a statement once."""

    signs: ClassVar[tuple[str, ...]] = (*SIGNS, ";")
    subject: ClassVar[str] = "Statement"
    names_begin_with_digits: ClassVar[bool] = True


def leading_words(text: str, count: int) -> list[Token]:
    """The first words of a text that may be anybody's SQL; fewer where it ends or goes on in a way we cannot read."""
    reader = StatementReader(text)
    found: list[Token] = []
    while len(found) < count:
        try:
            token = reader.next()
        except QuerySyntaxError:
            break
        if token.kind == "end":
            break
        found.append(token)
    return found


def says(token: Token, word: str) -> bool:
    """Whether a token is a keyword, in any case and in either spelling of INDEXTABLES."""
    return token.is_word(*INDEX_WORDS) if word in INDEX_WORDS else token.is_word(word)
