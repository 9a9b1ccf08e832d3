"""The words of a predicate: identifiers, strings, numbers and signs, each with its place in the text.

Spark's rules: backquotes make identifiers, single and double quotes make strings, a backslash escapes inside a string,
a doubled quote stands for itself, comments are `--` to the end of the line and `/* */`, which nest.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from indextables.errors import QuerySyntaxError

SIGNS = ("<=>", "<>", "!=", "==", "<=", ">=", "=", "<", ">", "(", ")", ",", ".", "-", "+", "!")
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
MAX_DIGITS = 1000
_SUFFIXES = ("BD", "D", "F", "L", "S", "Y")


@dataclass(frozen=True)
class Token:
    """One word: its kind (name, quoted, string, bytes, number, sign, end), its value and where it stands."""

    kind: str
    value: Any
    start: int
    end: int

    def is_sign(self, *signs: str) -> bool:
        """Whether it is one of these signs."""
        return self.kind == "sign" and self.value in signs

    def is_word(self, *words: str) -> bool:
        """Whether it is one of these keywords, in any case."""
        return self.kind == "name" and self.value.upper() in words


def syntax_error(
    text: str, position: int, problem: str, *, hint: str | None = None, **context: Any
) -> QuerySyntaxError:
    """The error that shows the line, the place in it and what is wrong there."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : len(text) if end < 0 else end]
    row, column = text.count("\n", 0, position) + 1, position - start + 1
    pointer = "".join("\t" if c == "\t" else " " for c in line[: column - 1]) + "^"
    message = f"Predicate, line {row}, column {column}: {problem}.\n  {line}\n  {pointer}\n"
    return QuerySyntaxError(message, hint=hint, position=position, line=row, column=column, **context)


def tokenize(text: str) -> list[Token]:
    """All words of a text, closed by one of kind `end`."""
    reader = _Reader(text)
    tokens = []
    while True:
        token = reader.next()
        tokens.append(token)
        if token.kind == "end":
            return tokens


class _Reader:
    """Walks over the text once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def next(self) -> Token:
        self._skip_blanks()
        start = self.at
        if start >= len(self.text):
            return Token("end", "", start, start)
        letter = self.text[start]
        if letter in "'\"":
            return Token("string", self._string(letter, raw=False), start, self.at)
        if letter == "`":
            return Token("quoted", self._identifier(), start, self.at)
        if letter.isascii() and (letter.isdigit() or (letter == "." and self._peek(1).isdigit())):
            return Token("number", self._number(), start, self.at)
        if letter == "_" or letter.isalpha():
            return self._word()
        for sign in SIGNS:
            if self.text.startswith(sign, start):
                self.at += len(sign)
                return Token("sign", sign, start, self.at)
        raise syntax_error(self.text, start, f"the character {letter!r} has no meaning here")

    def _peek(self, ahead: int) -> str:
        return self.text[self.at + ahead : self.at + ahead + 1]

    def _skip_blanks(self) -> None:
        while self.at < len(self.text):
            if self.text[self.at].isspace():
                self.at += 1
            elif self.text.startswith("--", self.at):
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif self.text.startswith("/*", self.at):
                self._skip_comment()
            else:
                return

    def _skip_comment(self) -> None:
        start, depth = self.at, 0
        while True:
            if self.text.startswith("/*", self.at):
                depth, self.at = depth + 1, self.at + 2
            elif self.text.startswith("*/", self.at):
                depth, self.at = depth - 1, self.at + 2
                if depth == 0:
                    return
            elif self.at >= len(self.text):
                raise syntax_error(self.text, start, "the comment that begins here does not end")
            else:
                self.at += 1

    def _word(self) -> Token:
        start = self.at
        while self.at < len(self.text) and (self.text[self.at] == "_" or self.text[self.at].isalnum()):
            self.at += 1
        word = self.text[start : self.at]
        quote = self._peek(0)
        if quote and quote in "'\"":
            if word.upper() == "X":
                return Token("bytes", self._hex(start, quote), start, self.at)
            if word.upper() == "R":
                return Token("string", self._string(quote, raw=True), start, self.at)
        return Token("name", word, start, self.at)

    def _hex(self, start: int, quote: str) -> bytes:
        digits = self._string(quote, raw=True)
        try:
            return bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)
        except ValueError:
            raise syntax_error(self.text, start, f"X'{digits}' is not hexadecimal") from None

    def _identifier(self) -> str:
        start = self.at
        self.at += 1
        parts: list[str] = []
        while self.at < len(self.text):
            letter = self.text[self.at]
            if letter == "`" and self._peek(1) != "`":
                self.at += 1
                if not parts:
                    raise syntax_error(self.text, start, "an identifier cannot be empty")
                return "".join(parts)
            parts.append(letter)
            self.at += 2 if letter == "`" else 1
        raise syntax_error(self.text, start, "the backquote that opens here is not closed")

    def _string(self, quote: str, *, raw: bool) -> str:
        start = self.at
        self.at += 1
        parts: list[str] = []
        while self.at < len(self.text):
            letter = self.text[self.at]
            if letter == quote:
                if self._peek(1) != quote or raw:
                    self.at += 1
                    return "".join(parts)
                self.at += 2
                parts.append(quote)
            elif letter == "\\" and not raw:
                parts.append(self._escape())
            else:
                parts.append(letter)
                self.at += 1
        raise syntax_error(self.text, start, "the string that begins here does not end")

    def _escape(self) -> str:
        """What a backslash and the letters after it stand for."""
        start = self.at
        letter = self._peek(1)
        if not letter:
            self.at += 1
            return "\\"
        for mark, digits in (("u", 4), ("U", 8)):
            code = self.text[start + 2 : start + 2 + digits]
            if letter == mark and len(code) == digits and all(c in "0123456789abcdefABCDEF" for c in code):
                self.at += 2 + digits
                if int(code, 16) > 0x10FFFF or 0xD800 <= int(code, 16) <= 0xDFFF:
                    raise syntax_error(self.text, start, f"\\{mark}{code} is not a character")
                return chr(int(code, 16))
        self.at += 2
        return _ESCAPES.get(letter, letter)

    def _number(self) -> int | float | Decimal:
        start = self.at
        self._digits()
        whole = True
        if self._peek(0) == "." and (self._peek(1).isdigit() or not (self._peek(1).isalpha() or self._peek(1) == "_")):
            whole = False
            self.at += 1
            self._digits()
        sign = 2 if self._peek(1) in ("+", "-") else 1
        if self._peek(0) in ("e", "E") and self._peek(sign).isdigit():
            whole = False
            self.at += sign
            self._digits()
        digits = self.text[start : self.at]
        suffix = next((s for s in _SUFFIXES if self.text[self.at : self.at + len(s)].upper() == s), "")
        self.at += len(suffix)
        following = self._peek(0)
        if following == "_" or following.isalnum():
            raise syntax_error(self.text, start, "a name cannot begin with a digit", hint="Put the name in backquotes.")
        if len(digits) > MAX_DIGITS:
            raise syntax_error(self.text, start, f"the number has more than {MAX_DIGITS} digits")
        if suffix in ("D", "F"):
            return float(digits)
        return int(digits) if whole and suffix != "BD" else Decimal(digits)

    def _digits(self) -> None:
        while self._peek(0).isascii() and self._peek(0).isdigit():
            self.at += 1
