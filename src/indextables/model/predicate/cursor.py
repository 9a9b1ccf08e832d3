"""A walk over the words of a predicate: what comes next, what must come next, and errors that show the place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NoReturn, TypeVar

from indextables import errors
from indextables.errors import InvalidInputError, QuerySyntaxError
from indextables.model.predicate.tokens import Token, syntax_error
from indextables.model.predicate.tree import KEYWORDS

MAX_DEPTH = 60
T = TypeVar("T")


class Cursor:
    """A place among the words of a text."""

    subject: ClassVar[str] = "Predicate"
    keywords: ClassVar[tuple[str, ...]] = KEYWORDS
    """The words that a misspelt one may stand for."""

    def __init__(self, text: str, tokens: Sequence[Token], index: int = 0) -> None:
        self.text = text
        self.tokens = tokens
        self.index = index
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
            self.refuse(token, error.message.rstrip("."), hint=error.hint)

    def deeper(self, part: Callable[[], T]) -> T:
        """A part one level further in; a depth that would exhaust Python's stack is refused as a syntax error."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise syntax_error(self.text, self.token.start, f"more than {MAX_DEPTH} conditions inside one another")
        found = part()
        self.depth -= 1
        return found

    def fail(self, expected: str, *, hint: str | None = None) -> NoReturn:
        """Refuse the word that comes next, saying what was expected instead."""
        token = self.token
        found = "the end" if token.kind == "end" else errors.shown(self.text[token.start : token.end])
        near = nearest(str(token.value), self.keywords) if hint is None and token.kind == "name" else hint
        self.refuse(token, f"expected {expected}, found {found}", hint=near, expected=expected)

    def refuse(self, token: Token, problem: str, *, hint: str | None = None, **context: str) -> NoReturn:
        """Refuse a word, saying what is wrong with it."""
        raise syntax_error(self.text, token.start, problem, subject=self.subject, hint=hint, **context) from None


def nearest(word: str, known: Sequence[str]) -> str | None:
    """A hint that names the known word closest to a misspelt one."""
    by_lower = {k.lower(): k for k in known}
    near = errors.nearest(word.lower(), by_lower)
    return f"Did you mean {by_lower[near[0]]}?" if near and near[0] != word.lower() else None
