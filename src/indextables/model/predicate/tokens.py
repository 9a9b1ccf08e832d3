"""Tokens of SQL text: identifiers, strings, numbers and signs with their positions, in Spark's
dialect.

Backquotes make identifiers, single and double quotes make strings, a backslash escapes inside a
string, a doubled quote is one quote, comments are `--` to the end of the line and `/* */`, which
nest. The functions `*_end` take the position where a comment, string or quoted name begins and
return the position after it, or None if it does not end. `Cursor` walks over the tokens with errors
that show the position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar, NoReturn, TypeVar

from msgspec import Struct

from indextables import errors
from indextables.errors import InvalidInputError, QuerySyntaxError
from indextables.model.predicate.tree import KEYWORDS


def line_comment_end(text: str, start: int) -> int:
    """Return the end of a `--` comment: its line end. A backslash before the line end continues it."""
    at = start
    while at < len(text) and text[at] not in "\r\n":
        at += 2 if text.startswith("\\\n", at) else 1
    return at


def block_comment_end(text: str, start: int) -> int | None:
    """Return the end of a `/* */` comment; comments nest."""
    depth, at = 0, start
    while at < len(text):
        if text.startswith("/*", at):
            depth, at = depth + 1, at + 2
        elif text.startswith("*/", at):
            depth, at = depth - 1, at + 2
            if depth == 0:
                return at
        else:
            at += 1
    return None


def string_end(text: str, start: int, *, raw: bool) -> int | None:
    """Return the end of a string in single or double quotes. Unless raw, a doubled quote and a
    backslash do not end it.
    """
    quote, at = text[start], start + 1
    while at < len(text):
        if text[at] == "\\" and not raw:
            at += 2
        elif text[at] != quote:
            at += 1
        elif raw or not text.startswith(quote, at + 1):
            return at + 1
        else:
            at += 2
    return None


def identifier_end(text: str, start: int) -> int | None:
    """Return the end of a name in backquotes; a doubled backquote does not end it."""
    at = start + 1
    while at < len(text):
        if text[at] != "`":
            at += 1
        elif text.startswith("`", at + 1):
            at += 2
        else:
            return at + 1
    return None


def word_end(text: str, start: int) -> int:
    """Return the end of a run of letters, digits and underscores."""
    at = start
    while at < len(text) and (text[at] == "_" or text[at].isalnum()):
        at += 1
    return at


def dollar_string_end(text: str, start: int) -> int | None:
    """Return the end of a string between equal tags, `$$ ... $$` or `$body$ ... $body$`; its start
    without a tag.
    """
    at = start + 1
    while at < len(text) and text[at].isascii() and text[at].isalpha():
        at += 1
    if not text.startswith("$", at):
        return start
    tag = text[start : at + 1]
    end = text.find(tag, at + 1)
    if end < 0:
        return None
    return end + len(tag)


SIGNS = ("<=>", "<>", "!=", "==", "<=", ">=", "=", "<", ">", "(", ")", ",", ".", "-", "+", "!")
_ESCAPES = {
    "0": "\0",
    "b": "\b",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "Z": "\x1a",
    "%": "\\%",
    "_": "\\_",
}
MAX_DIGITS = 1000
_SUFFIXES = ("BD", "D", "F", "L", "S", "Y")


class Token(Struct, frozen=True):
    """One token: kind (name, quoted, string, bytes, number, sign, end), value and position."""

    kind: str
    value: Any
    start: int
    end: int

    def is_sign(self, *signs: str) -> bool:
        """Return whether it is one of these signs."""
        return self.kind == "sign" and self.value in signs

    def is_word(self, *words: str) -> bool:
        """Return whether it is one of these keywords, in any case."""
        return self.kind == "name" and self.value.upper() in words


_WINDOW = 500


def syntax_error(
    text: str,
    position: int,
    problem: str,
    *,
    subject: str = "Predicate",
    hint: str | None = None,
    **context: Any,
) -> QuerySyntaxError:
    """Return the error that shows the line, the position in it and the fault."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    row, column = text.count("\n", 0, position) + 1, position - start + 1
    # Of a very long line the part around the place says enough.
    first, last = (
        max(start, position - _WINDOW),
        min(len(text) if end < 0 else end, position + _WINDOW),
    )
    line = text[first:last]
    pointer = "".join("\t" if c == "\t" else " " for c in text[first:position]) + "^"
    message = f"{subject}, line {row}, column {column}: {problem}.\n  {line}\n  {pointer}\n"
    return QuerySyntaxError(
        message, hint=hint, position=position, line=row, column=column, **context
    )


def tokenize(text: str) -> list[Token]:
    """Return all tokens of a text, followed by one of kind `end`."""
    return Reader(text).all()


class Reader:
    """Reads the tokens of a text."""

    signs: ClassVar[tuple[str, ...]] = SIGNS
    subject: ClassVar[str] = "Predicate"
    names_begin_with_digits: ClassVar[bool] = False

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def all(self) -> list[Token]:
        """Return the tokens from the current position, followed by one of kind `end`."""
        tokens = [self.next()]
        while tokens[-1].kind != "end":
            tokens.append(self.next())
        return tokens

    def next(self) -> Token:
        """Return the next token."""
        self._skip_blanks()
        start = self.at
        if start >= len(self.text):
            return Token("end", "", start, start)
        letter = self.text[start]
        if letter in "'\"":
            return Token("string", self._string(raw=False), start, self.at)
        if letter == "`":
            return Token("quoted", self._identifier(), start, self.at)
        if letter.isascii() and (letter.isdigit() or (letter == "." and self._digit(1))):
            return self._number_or_name()
        if letter == "_" or letter.isalpha():
            return self._word()
        for sign in self.signs:
            if self.text.startswith(sign, start):
                self.at += len(sign)
                return Token("sign", sign, start, self.at)
        raise self._error(start, f"the character {letter!r} has no meaning here")

    def _error(self, position: int, problem: str, *, hint: str | None = None) -> QuerySyntaxError:
        return syntax_error(self.text, position, problem, subject=self.subject, hint=hint)

    def _peek(self, ahead: int) -> str:
        return self.text[self.at + ahead : self.at + ahead + 1]

    def _digit(self, ahead: int) -> bool:
        return self._peek(ahead).isascii() and self._peek(ahead).isdigit()

    def _skip_blanks(self) -> None:
        while self.at < len(self.text):
            if self.text[self.at].isspace():
                self.at += 1
            elif self.text.startswith("--", self.at):
                self.at = line_comment_end(self.text, self.at)
            elif self.text.startswith("/*", self.at):
                self.at = self._end_literal(
                    block_comment_end(self.text, self.at),
                    "the comment that begins here does not end",
                )
            else:
                return

    def _end_literal(self, end: int | None, problem: str) -> int:
        if end is None:
            raise self._error(self.at, problem)
        return end

    def _word(self) -> Token:
        start = self.at
        self.at = word_end(self.text, start)
        word = self.text[start : self.at]
        if self._peek(0) in ("'", '"'):
            if word.upper() == "X":
                return Token("bytes", self._hex(start), start, self.at)
            if word.upper() == "R":
                return Token("string", self._string(raw=True), start, self.at)
        return Token("name", word, start, self.at)

    def _hex(self, start: int) -> bytes:
        digits = self._string(raw=True)
        try:
            return bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)
        except ValueError:
            raise self._error(start, f"X'{digits}' is not hexadecimal") from None

    def _identifier(self) -> str:
        start = self.at
        self.at = self._end_literal(
            identifier_end(self.text, start), "the backquote that opens here is not closed"
        )
        if self.at == start + 2:
            raise self._error(start, "an identifier cannot be empty")
        return self.text[start + 1 : self.at - 1].replace("``", "`")

    def _string(self, *, raw: bool) -> str:
        start = self.at
        self.at = self._end_literal(
            string_end(self.text, start, raw=raw), "the string that begins here does not end"
        )
        body = self.text[start + 1 : self.at - 1]
        if raw:
            return body
        return self._unescape(body, self.text[start], start + 1)

    def _unescape(self, body: str, quote: str, offset: int) -> str:
        """Return a string's text with doubled quotes and escapes resolved as in Spark."""
        parts: list[str] = []
        at = 0
        while at < len(body):
            if body[at] == "\\":
                character, length = self._escape(body, at, offset)
                parts.append(character)
                at += length
            else:
                parts.append(body[at])
                at += 2 if body[at] == quote else 1
        return "".join(parts)

    def _escape(self, body: str, at: int, offset: int) -> tuple[str, int]:
        """Resolve the escape at a backslash; returns its text and length."""
        letter = body[at + 1]
        for mark, digits in (("u", 4), ("U", 8)):
            code = body[at + 2 : at + 2 + digits]
            if (
                letter == mark
                and len(code) == digits
                and all(c in "0123456789abcdefABCDEF" for c in code)
            ):
                if int(code, 16) > 0x10FFFF or 0xD800 <= int(code, 16) <= 0xDFFF:
                    raise self._error(offset + at, f"\\{mark}{code} is not a character")
                return chr(int(code, 16)), 2 + digits
        return _ESCAPES.get(letter, letter), 2

    def _number_or_name(self) -> Token:
        start, end = self.at, word_end(self.text, self.at)
        digits, suffix = self._number()
        if self.names_begin_with_digits and self.at < end:
            self.at = end
            return Token("name", self.text[start:end], start, end)
        following = self._peek(0)
        if following == "_" or following.isalnum():
            if not digits.isdigit():
                raise self._error(
                    start, f"{self.text[start : word_end(self.text, self.at)]} is not a number"
                )
            raise self._error(
                start, "a name cannot begin with a digit", hint="Put the name in backquotes."
            )
        if len(digits) > MAX_DIGITS:
            raise self._error(start, f"the number has more than {MAX_DIGITS} digits")
        try:
            return Token("number", _number_value(digits, suffix), start, self.at)
        except InvalidOperation:
            raise self._error(start, "the number's exponent is too large") from None

    def _number(self) -> tuple[str, str]:
        """Consume a number; returns its digits and its suffix."""
        start = self.at
        self._digits()
        if self._peek(0) == "." and (
            self._digit(1) or not (self._peek(1).isalpha() or self._peek(1) == "_")
        ):
            self.at += 1
            self._digits()
        sign = 2 if self._peek(1) in ("+", "-") else 1
        if self._peek(0) in ("e", "E") and self._digit(sign):
            self.at += sign
            self._digits()
        digits = self.text[start : self.at]
        suffix = next(
            (s for s in _SUFFIXES if self.text[self.at : self.at + len(s)].upper() == s), ""
        )
        self.at += len(suffix)
        return digits, suffix

    def _digits(self) -> None:
        while self._digit(0):
            self.at += 1


def _number_value(digits: str, suffix: str) -> int | float | Decimal:
    if suffix in ("D", "F"):
        return float(digits)
    if digits.isdigit() and suffix != "BD":
        return int(digits)
    return Decimal(digits)


MAX_DEPTH = 60
T = TypeVar("T")


class Cursor:
    """A position among the tokens of a text."""

    subject: ClassVar[str] = "Predicate"
    keywords: ClassVar[tuple[str, ...]] = KEYWORDS
    """Keywords for suggestions."""

    def __init__(self, text: str, tokens: Sequence[Token], index: int = 0) -> None:
        self.text = text
        self.tokens = tokens
        self.index = index
        self.depth = 0

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.index]

    def advance(self) -> Token:
        """Consume and return the next token."""
        token = self.token
        self.index += 1
        return token

    def string(self, what: str) -> Token:
        """Consume a string; anything else is an error."""
        if self.token.kind != "string":
            self.fail(what)
        return self.advance()

    def expect(self, sign: str, what: str | None = None) -> None:
        """Consume a sign; anything else is an error."""
        if not self.token.is_sign(sign):
            self.fail(what or repr(sign))
        self.advance()

    def build_at(self, token: Token, build: Callable[[], T]) -> T:
        """Return the result of `build`; its errors are shown at the token."""
        try:
            return build()
        except QuerySyntaxError:
            raise
        except InvalidInputError as error:
            self.refuse(token, error.message.rstrip("."), hint=error.hint)

    def deeper(self, part: Callable[[], T]) -> T:
        """Parse a nested part. A depth that would exhaust Python's stack is a syntax error."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise syntax_error(
                self.text, self.token.start, f"more than {MAX_DEPTH} conditions inside one another"
            )
        result = part()
        self.depth -= 1
        return result

    def fail(self, expected: str, *, hint: str | None = None) -> NoReturn:
        """Return the error for the next token, with what was expected."""
        token = self.token
        if token.kind == "end":
            shown = "the end"
        else:
            shown = errors.show_value(self.text[token.start : token.end])
        if hint is None and token.kind == "name":
            near = nearest(str(token.value), self.keywords)
        else:
            near = hint
        self.refuse(token, f"expected {expected}, found {shown}", hint=near, expected=expected)

    def refuse(
        self, token: Token, problem: str, *, hint: str | None = None, **context: str
    ) -> NoReturn:
        """Return the error for a token, with its fault."""
        raise syntax_error(
            self.text, token.start, problem, subject=self.subject, hint=hint, **context
        ) from None


def nearest(word: str, names: Sequence[str]) -> str | None:
    """Return a hint with the known word closest to a misspelt one."""
    by_lower = {k.lower(): k for k in names}
    near = errors.nearest(word.lower(), by_lower)
    if near and near[0] != word.lower():
        return f"Did you mean {by_lower[near[0]]}?"
    return None
