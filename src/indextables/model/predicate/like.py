"""LIKE patterns: reading them, and the simpler predicate that many of them are."""

from __future__ import annotations

from enum import Enum

from indextables.errors import InvalidInputError
from indextables.model.predicate.tree import Column, Comparison, Like, Literal, Predicate, TextMatch

_ESCAPE = "\\"


class Wild(Enum):
    """What stands for unknown text in a pattern."""

    ANY = "%"
    ONE = "_"


def like(column: Column, pattern: str, escape: str = _ESCAPE) -> Predicate:
    """`column LIKE pattern` in its simplest form: equality, a text match, or a `Like` in canonical spelling."""
    parts = pattern_parts(pattern, escape)
    match parts:
        case []:
            return Comparison("=", column, Literal(""))
        case [str(text)]:
            return Comparison("=", column, Literal(text))
        case [Wild.ANY]:
            return TextMatch("starts_with", column, "")
        case [str(text), Wild.ANY]:
            return TextMatch("starts_with", column, text)
        case [Wild.ANY, str(text)]:
            return TextMatch("ends_with", column, text)
        case [Wild.ANY, str(text), Wild.ANY]:
            return TextMatch("contains", column, text)
    return Like(column, "".join(p.value if isinstance(p, Wild) else _escaped(p) for p in parts))


def pattern_parts(pattern: str, escape: str = _ESCAPE) -> list[str | Wild]:
    """A pattern as literal texts and wildcards; runs of `%` are one."""
    parts: list[str | Wild] = []
    letters = iter(pattern)
    for letter in letters:
        if letter == escape:
            following = next(letters, "")
            if following not in ("%", "_", escape) or not following:
                raise InvalidInputError(
                    f"In the LIKE pattern {pattern!r} the escape {escape!r} stands before {following or 'the end'!r}.",
                    hint=f"Escape only %, _ and {escape} itself.",
                    pattern=pattern,
                )
            _add_text(parts, following)
        elif letter == "%":
            if not parts or parts[-1] is not Wild.ANY:
                parts.append(Wild.ANY)
        elif letter == "_":
            parts.append(Wild.ONE)
        else:
            _add_text(parts, letter)
    return parts


def literal_prefix(pattern: str) -> str:
    """The text that everything fitting the pattern starts with."""
    first = next(iter(pattern_parts(pattern)), "")
    return first if isinstance(first, str) else ""


def like_expression(pattern: str) -> str:
    """The pattern in RE2's language, for the whole of a value."""
    words = {Wild.ANY: ".*", Wild.ONE: "."}
    body = "".join(words[p] if isinstance(p, Wild) else _quoted(p) for p in pattern_parts(pattern))
    return rf"(?s)\A{body}\z"


def _add_text(parts: list[str | Wild], letter: str) -> None:
    if parts and isinstance(parts[-1], str):
        parts[-1] += letter
    else:
        parts.append(letter)


def _escaped(text: str) -> str:
    return "".join(_ESCAPE + letter if letter in ("%", "_", _ESCAPE) else letter for letter in text)


def _quoted(text: str) -> str:
    return "".join("\\" + c if c.isascii() and c.isprintable() and not (c.isalnum() or c == " ") else c for c in text)
