"""Regular expressions with one meaning wherever they are matched: in Tantivy's term dictionary, in
Arrow, in Spark.

Each of those has a syntax of its own, and the same sign may mean another thing there (`\\d`, `.`,
`$`). So an expression is read here, what all of them can do is kept as a tree, and the tree is
written out for each without any sign whose meaning differs. What cannot be written out
(look-around, back references) is refused with its place.

    a . [a-z] [^,] \\d \\w \\s \\. \\t \\x41 \\u00e9      one character ab  a|b  (ab)  (?:ab)  a*
    a+  a?  a{2,5}         sequences, choices, groups, repetitions ^ $ \\b
    places in a value, where an expression is looked for inside it (?i)
    at the start: upper and lower case are the same

Java's meaning throughout, which is Spark's: `\\d`, `\\w` and `\\s` are ASCII; `.` is no line end
where a value is searched.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

MAX_REPEAT = 1_000
MAX_LENGTH = 10_000
_MAX_DEPTH = 50
_LAST = 0x10FFFF
_CASES, _MANY = 4, 1_000
_LINE_ENDS = ((0x0A, 0x0A), (0x0D, 0x0D), (0x85, 0x85), (0x2028, 0x2029))
_DIGITS = ((0x30, 0x39),)
_WORD = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE = ((0x09, 0x0D), (0x20, 0x20))
_CLASSES = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_END_OF_VALUE = r"(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])?\z"
_PLACES = {
    "^": r"\A",
    "$": _END_OF_VALUE,
    "A": r"\A",
    "z": r"\z",
    "Z": _END_OF_VALUE,
    "b": r"\b",
    "B": r"\B",
}

Span = tuple[int, int]


class RegexFaultError(ValueError):
    """A fault in an expression and its position."""

    def __init__(self, problem: str, at: int) -> None:
        super().__init__(problem)
        self.at = at


class RegexCharacter(Struct, frozen=True):
    """One character out of ranges of code points."""

    spans: tuple[Span, ...]

    @property
    def only(self) -> str | None:
        """Return the character if there is just one; in lower case if both cases match."""
        if sum(high - low for low, high in self.spans) or len(self.spans) > _CASES:
            return None
        letters = [chr(low) for low, _ in self.spans]
        cases = {letter.lower() for letter in letters}
        if len(letters) == 1:
            return letters[0]
        if len(cases) == 1:
            return cases.pop()
        return None


class RegexPlace(Struct, frozen=True):
    """A position in a value: start, end, or word boundary."""

    sign: str


class RegexSequence(Struct, frozen=True):
    """Consecutive parts."""

    parts: tuple[RegexNode, ...]


class RegexChoice(Struct, frozen=True):
    """Alternatives."""

    options: tuple[RegexNode, ...]


class RegexRepeat(Struct, frozen=True):
    """A repeated part; None is unbounded."""

    part: RegexNode
    least: int
    most: int | None


RegexNode: TypeAlias = RegexCharacter | RegexPlace | RegexSequence | RegexChoice | RegexRepeat


class RegularExpression(Struct, frozen=True):
    """A parsed expression. `whole`: for a complete term; otherwise it is searched in a value."""

    text: str
    tree: RegexNode
    ignore_case: bool
    whole: bool

    def arrow(self) -> str:
        """Return the expression for Arrow's kernels (RE2)."""
        if self.whole:
            return rf"\A(?:{_write(self.tree)})\z"
        return _write(self.tree)

    def automaton(self) -> str:
        """Return the expression for Tantivy's term dictionary, which always matches whole terms."""
        return f"(?:{_write(self.tree)})"

    def matching(self, texts: pa.Array) -> pa.Array:
        """Return which texts match."""
        return pc.match_substring_regex(texts, self.arrow())

    def literals(self) -> tuple[str, ...]:
        """Return texts that every match contains in any case, longest runs only."""
        return tuple(dict.fromkeys(run for run in _runs(self.tree) if run))


@lru_cache(maxsize=1_000)
def regular_expression(
    text: str, *, ignore_case: bool = False, whole: bool = False
) -> RegularExpression:
    """Parse an expression. Raises RegexFaultError with the position."""
    start = 4 if text.startswith("(?i)") else 0
    if len(text) > MAX_LENGTH:
        raise RegexFaultError(f"The expression has more than {MAX_LENGTH} characters", 0)
    reader = _RegexReader(text, start, whole=whole, ignore_case=ignore_case or start > 0)
    tree = reader.choice(0)
    if reader.at < len(text):
        raise RegexFaultError("A closing parenthesis without an opening one", reader.at)
    found = RegularExpression(text, tree, ignore_case or start > 0, whole)
    try:
        found.matching(pa.array([""], pa.string()))
    except pa.ArrowInvalid as e:
        raise RegexFaultError(f"The expression is too large ({e})", 0) from None
    return found


class _RegexReader:
    """Recursive descent over the characters of an expression."""

    def __init__(self, text: str, at: int, *, whole: bool, ignore_case: bool) -> None:
        self.text = text
        self.at = at
        self.whole = whole
        self.ignore_case = ignore_case

    def peek(self) -> str:
        if self.at < len(self.text):
            return self.text[self.at]
        return ""

    def fail(self, problem: str, at: int | None = None) -> RegexFaultError:
        return RegexFaultError(problem, self.at if at is None else at)

    def choice(self, depth: int) -> RegexNode:
        if depth > _MAX_DEPTH:
            raise self.fail(f"Groups are nested deeper than {_MAX_DEPTH} levels")
        options = [self.sequence(depth)]
        while self.peek() == "|":
            self.at += 1
            options.append(self.sequence(depth))
        if len(options) == 1:
            return options[0]
        return RegexChoice(tuple(options))

    def sequence(self, depth: int) -> RegexNode:
        parts: list[RegexNode] = []
        while self.peek() not in ("", "|", ")"):
            part = self.repeat(self.part(depth))
            if part is not None:
                parts.append(part)
        if len(parts) == 1:
            return parts[0]
        return RegexSequence(tuple(parts))

    def part(self, depth: int) -> RegexNode | None:
        at, c = self.at, self.peek()
        self.at += 1
        if c == "(":
            return self.group(depth, at)
        if c == "[":
            return self.character_class(at)
        if c == "\\":
            return self.escape(at)
        if c == ".":
            return RegexCharacter(((0, _LAST),) if self.whole else _without(_LINE_ENDS))
        if c in "^$":
            return self.place(c, at)
        if c in "*+?{":
            raise self.fail(f"{c} has nothing before it to repeat", at)
        return RegexCharacter(self.fold_case(_span(ord(c))))

    def fold_case(self, spans: tuple[Span, ...]) -> tuple[Span, ...]:
        """Return the characters in both cases if case is ignored: ASCII in values, as in Java."""
        if self.ignore_case:
            return _fold_case(spans, ascii_only=not self.whole)
        return spans

    def group(self, depth: int, at: int) -> RegexNode:
        if self.peek() == "?":
            if not self.text.startswith("?:", self.at):
                raise self.fail("Only (?: ) groups and a leading (?i) are known after (?", at)
            self.at += 2
        inner = self.choice(depth + 1)
        if self.peek() != ")":
            raise self.fail("The group is not closed", at)
        self.at += 1
        return inner

    def place(self, sign: str, at: int) -> RegexNode | None:
        """Parse an anchor. At the ends of an expression for whole terms it has no effect."""
        if not self.whole:
            return RegexPlace(sign)
        if (sign in "^A" and at == 0) or (sign in "$zZ" and self.at == len(self.text)):
            return None
        raise self.fail(
            f"{sign if sign in '^$' else chr(92) + sign} means a place, and whole terms are compared here",
            at,
        )

    def escape(self, at: int) -> RegexNode | None:
        c = self.peek()
        if c and c in "AzZbB":
            self.at += 1
            return self.place(c, at)
        return RegexCharacter(self.fold_case(self.escaped_spans(at)))

    def escaped_spans(self, at: int) -> tuple[Span, ...]:
        """Return what an escape matches; the cursor is after the backslash."""
        c = self.peek()
        self.at += 1
        if c and c.lower() in _CLASSES:
            spans = _CLASSES[c.lower()]
            if c.islower():
                return spans
            return _without(spans)
        if c in ("x", "u"):
            return _span(self.code_point(c, at))
        if c and c in _CONTROLS:
            return _span(ord(_CONTROLS[c]))
        if not c or (c.isascii() and c.isalnum()):
            raise self.fail(
                f"\\{c} has no meaning here" if c else "A backslash at the end escapes nothing", at
            )
        return _span(ord(c))

    def code_point(self, kind: str, at: int) -> int:
        if kind == "x" and self.peek() == "{":
            end = self.text.find("}", self.at)
            digits, self.at = self.text[self.at + 1 : max(end, self.at)], max(end, self.at) + 1
        else:
            size = 2 if kind == "x" else 4
            digits, self.at = self.text[self.at : self.at + size], self.at + size
            digits = digits if len(digits) == size else ""
        try:
            number = int(digits, 16) if digits.isalnum() else -1
        except ValueError:
            number = -1
        if not 0 <= number <= _LAST or 0xD800 <= number <= 0xDFFF:
            raise self.fail(f"\\{kind} needs the number of a character, as in \\x41 or \\u00e9", at)
        return number

    def character_class(self, at: int) -> RegexNode:
        negated = self.peek() == "^"
        self.at += negated
        spans: list[Span] = []
        first = True
        while self.peek() != "]" or first:
            spans += self.class_member(at)
            first = False
        self.at += 1
        joined = self.fold_case(_join_spans(spans))
        found = _without(joined) if negated else joined
        if not found:
            raise self.fail("The class holds no character", at)
        return RegexCharacter(found)

    def class_member(self, opening: int) -> tuple[Span, ...]:
        low = self.class_character(opening)
        if self.peek() != "-" or self.text[self.at + 1 : self.at + 2] in ("]", ""):
            return low
        at = self.at
        self.at += 1
        high = self.class_character(opening)
        if (
            len(low) > 1
            or len(high) > 1
            or low[0][0] != low[0][1]
            or high[0][0] != high[0][1]
            or low > high
        ):
            raise self.fail("A range in a class goes from one character to a later one", at)
        return ((low[0][0], high[0][0]),)

    def class_character(self, opening: int) -> tuple[Span, ...]:
        at, c = self.at, self.peek()
        self.at += 1
        if not c:
            raise self.fail("The class is not closed", opening)
        if c == "\\":
            return self.escaped_spans(at)
        if c == "[" or self.text.startswith("&&", at):
            raise self.fail(f"{c} in a class is written \\{c}", at)
        return _span(ord(c))

    def repeat(self, part: RegexNode | None) -> RegexNode | None:
        at, c = self.at, self.peek()
        if not c or c not in "*+?{":
            return part
        self.at += 1
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(c) or self.bounds(at)
        if part is None or isinstance(part, RegexPlace):
            raise self.fail(f"{c} has nothing before it to repeat", at)
        if self.peek() == "?":
            self.at += 1  # as few as possible finds the same rows
        if self.peek() and self.peek() in "*+{":
            raise self.fail("A repetition is not repeated again", self.at)
        return RegexRepeat(part, least, most)

    def bounds(self, at: int) -> tuple[int, int | None]:
        end = self.text.find("}", self.at)
        low, comma, high = self.text[self.at : max(end, self.at)].partition(",")
        self.at = end + 1
        digits = (
            low.isdecimal()
            and low.isascii()
            and (high == "" or (high.isdecimal() and high.isascii()))
        )
        least = int(low) if digits and len(low) < 6 else MAX_REPEAT + 1
        if not comma:
            most = least
        elif digits and high:
            most = int(high[:6])
        else:
            most = None
        if end < 0 or least > MAX_REPEAT or (most is not None and not least <= most <= MAX_REPEAT):
            raise self.fail(f"{{ needs numbers up to {MAX_REPEAT}, as in a{{2,5}}", at)
        return least, most


def _span(code: int) -> tuple[Span, ...]:
    return ((code, code),)


def _fold_case(spans: tuple[Span, ...], *, ascii_only: bool) -> tuple[Span, ...]:
    """Return the characters in both cases. A large range beyond ASCII is assumed to contain both."""
    found = list(spans)
    for low, high in spans:
        if ascii_only or high - low > _MANY:
            last = min(high, 0x7F)
        else:
            last = high
        for code in range(low, last + 1):
            found += [
                (ord(c), ord(c)) for c in (chr(code).lower(), chr(code).upper()) if len(c) == 1
            ]
    if ascii_only:
        found = [(low, high) for low, high in found if (low, high) in spans or high < 0x80]
    return _join_spans(found)


def _join_spans(spans: list[Span]) -> tuple[Span, ...]:
    """Return spans in order, with adjacent ones joined."""
    joined: list[Span] = []
    for low, high in sorted(spans):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return tuple(joined)


def _without(spans: tuple[Span, ...]) -> tuple[Span, ...]:
    """Return the complement of the characters."""
    found, start = [], 0
    for low, high in spans:
        if low > start:
            found.append((start, low - 1))
        start = high + 1
    return tuple([*found, (start, _LAST)] if start <= _LAST else found)


def _write(node: RegexNode) -> str:
    if isinstance(node, RegexCharacter):
        spans = "".join(f"{_code(a)}-{_code(b)}" if a < b else _code(a) for a, b in node.spans)
        if len(node.spans) == 1 and node.spans[0][0] == node.spans[0][1]:
            return spans
        return f"[{spans}]"
    if isinstance(node, RegexPlace):
        return _PLACES[node.sign]
    if isinstance(node, RegexSequence):
        return "".join(_write(part) for part in node.parts)
    if isinstance(node, RegexChoice):
        return f"(?:{'|'.join(_write(option) for option in node.options)})"
    signs = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    most = "" if node.most is None else node.most
    times = signs.get((node.least, node.most)) or f"{{{node.least},{most}}}"
    return f"(?:{_write(node.part)}){times}"


def _code(code: int) -> str:
    c = chr(code)
    if c.isascii() and c.isalnum():
        return c
    return f"\\x{{{code:x}}}"


def _runs(node: RegexNode) -> Iterator[str]:
    """Return runs of characters that every match contains."""
    if isinstance(node, RegexCharacter):
        yield node.only or ""
    elif isinstance(node, RegexRepeat) and node.least:
        yield from _runs(node.part)
    elif isinstance(node, RegexSequence):
        run = ""
        for part in node.parts:
            if isinstance(part, RegexCharacter) and part.only is not None:
                run += part.only
            elif not isinstance(part, RegexPlace):
                yield run
                run = ""
                yield from _runs(part)
        yield run
