"""A walk over the words of a predicate: what comes next, what must come next, and errors that show the place."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

from indextables.errors import InvalidInputError, QuerySyntaxError
from indextables.model.predicate.tokens import Token, syntax_error, tokenize
from indextables.model.predicate.tree import KEYWORDS

MAX_DEPTH = 60
T = TypeVar("T")


class Cursor:
    """A place among the words of a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.index = 0
        self.depth = 0

    @property
    def token(self) -> Token:
        """The word that comes next."""
        return self.tokens[self.index]

    def advance(self) -> Token:
        """The word that comes next, which is then behind."""
        token = self.token
        self.index += 1
        return token

    def string(self, what: str) -> Token:
        """The string that must come next."""
        if self.token.kind != "string":
            self.fail(what)
        return self.advance()

    def expect(self, sign: str, what: str | None = None) -> None:
        """Go past the sign that must come next."""
        if not self.token.is_sign(sign):
            self.fail(what or repr(sign))
        self.advance()

    def placed(self, token: Token, build: Callable[[], T]) -> T:
        """What `build` makes; an error of it is shown at the token."""
        try:
            return build()
        except QuerySyntaxError:
            raise
        except InvalidInputError as error:
            raise syntax_error(self.text, token.start, error.message.rstrip("."), hint=error.hint) from None

    def deeper(self, part: Callable[[], T]) -> T:
        """A part one level further in; a depth that would exhaust Python's stack is refused as a syntax error."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise syntax_error(self.text, self.token.start, f"more than {MAX_DEPTH} conditions inside one another")
        found = part()
        self.depth -= 1
        return found

    def fail(self, expected: str) -> NoReturn:
        """Refuse the word that comes next, saying what was expected instead."""
        token = self.token
        found = "the end" if token.kind == "end" else repr(self.text[token.start : token.end])
        hint = nearest(str(token.value), KEYWORDS) if token.kind == "name" else None
        problem = f"expected {expected}, found {found}"
        raise syntax_error(self.text, token.start, problem, hint=hint, expected=expected)


def nearest(word: str, known: Sequence[str]) -> str | None:
    """A hint that names the known word closest to a misspelt one."""
    by_lower = {k.lower(): k for k in known}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f"Did you mean {by_lower[near[0]]}?" if near and near[0] != word.lower() else None
