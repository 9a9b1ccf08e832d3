"""Parse one clause of a query (the part after a column's colon, or a bare word) as a leaf of the
column's kind.

The parser reads character by character, so an error names its position.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from indextables.errors import QuerySyntaxError
from indextables.model.regular_expression import RegexFaultError, regular_expression
from indextables.model.relative_times import is_relative
from indextables.model.values import timestamp_of
from indextables.splits.index.mapping import ColumnMapping, is_text
from indextables.splits.query import terms
from indextables.splits.query.fields import QueryFields
from indextables.splits.query.terms import FULL_MASK, address_mask, json_number, typed_value
from indextables.splits.query.tree import (
    Addresses,
    AllRows,
    Boost,
    Equals,
    Exists,
    Fuzzy,
    OneOf,
    Query,
    Range,
    Regex,
    Target,
    Wildcard,
    Words,
    any_of,
)

_WINDOW = 60
_REGEX = re.compile(r"/((?:[^\\/]|\\.)+)/i?(?=[\s)^]|\Z)", re.DOTALL)
BREAKS = '"()^'
"""Characters that end a bare word unless escaped."""


class Characters(Struct):
    """A cursor over a query's text."""

    text: str
    fields: tuple[str, ...] = ()
    at: int = 0

    def peek(self, ahead: int = 0) -> str:
        """Return the next character, or an empty text at the end."""
        place = self.at + ahead
        if place < len(self.text):
            return self.text[place]
        return ""

    def take(self, expected: str) -> bool:
        """Consume a text if it comes next."""
        if self.text.startswith(expected, self.at):
            self.at += len(expected)
            return True
        return False

    def take_keyword(self, word: str) -> bool:
        """Consume a whole word such as AND, but not the start of ANDROID."""
        after = self.peek(len(word))
        if self.text.startswith(word, self.at) and (
            not after or after.isspace() or after in '()"+-[{'
        ):
            self.at += len(word)
            return True
        return False

    def skip_space(self) -> None:
        """Skip white space."""
        while self.peek().isspace():
            self.at += 1

    def fail(
        self, problem: str, *, at: int | None = None, hint: str | None = None, **context: object
    ) -> QuerySyntaxError:
        """Return the error for a position in the text (by default the cursor's), with a caret under
        it.
        """
        place = self.at if at is None else at
        start = max(0, place - _WINDOW)
        shown = "".join(c if c.isprintable() else " " for c in self.text[start : place + _WINDOW])
        message = f"{problem} at position {place}:\n  {shown}\n  {' ' * (place - start)}^\n"
        context = {"query": self.text, "position": place, "fields": list(self.fields), **context}
        return QuerySyntaxError(message, hint=hint, **context)

    def regex_end(self) -> int | None:
        """Return the end of the regular expression that starts at the cursor, or None for words
        such as `/var/log`.

        An unclosed expression, or one with a bare slash inside, is an error if it contains
        characters of regular expressions.
        """
        if self.peek() != "/":
            return None
        found = _REGEX.match(self.text, self.at)
        if found is not None:
            return found.end(1)
        word = re.compile(r"\S*").match(self.text, self.at)
        if word is not None and re.search(r"[|\[\]{}$+]|\.[*?]|\\[dwsDWS]", word[0]):
            hint = "End it with /, write a slash inside as \\/, and quote what is no expression."
            raise self.fail("The regular expression is not closed", hint=hint)
        return None

    def quoted(self) -> str:
        """Read a quoted string; the cursor is on its opening quotation mark."""
        opening, mark = self.at, self.peek()
        self.at += 1
        characters = []
        while (c := self.peek()) != mark:
            if c == "\\":
                self.at += 1
                c = self.peek()
            if not c:
                raise self.fail(
                    f"The quote {mark} is not closed", at=opening, hint=f"Add a closing {mark}."
                )
            characters.append(c)
            self.at += 1
        self.at += 1
        return "".join(characters)

    def number(self, mark: str, highest: int, what: str) -> int | None:
        """Read the number after a mark, or return None if the mark does not come next."""
        at = self.at
        if not self.take(mark):
            return None
        digits = ""
        while self.peek().isdecimal() and self.peek().isascii():
            digits += self.peek()
            self.at += 1
        if not digits or len(digits) > 6 or int(digits) > highest:
            raise self.fail(f"{mark} needs {what}, at most {highest}", at=at)
        return int(digits)

    def bare(self, stops: str = BREAKS) -> BareWord:
        """Read a word without quotes, up to white space or a delimiter. Escaped characters are
        marked.
        """
        word = BareWord(self.at)
        while (c := self.peek()) and not c.isspace() and c not in stops:
            escaped = c == "\\"
            if escaped:
                self.at += 1
                c = self.peek()
                if not c:
                    raise self.fail("A backslash at the end escapes nothing", at=self.at - 1)
            word.add(c, escaped, self.at)
            self.at += 1
        return word


class BareWord(Struct):
    """The characters of a bare word, each with its position and whether it was escaped."""

    start: int
    characters: list[tuple[str, bool, int]] = field(default_factory=list)

    def add(self, c: str, escaped: bool, at: int) -> None:
        """Append a character."""
        self.characters.append((c, escaped, at))

    @property
    def text(self) -> str:
        """The word with escapes resolved."""
        return "".join(c for c, _, _ in self.characters)

    @property
    def has_wildcard(self) -> bool:
        """Whether it contains an unescaped star or question mark."""
        return any(c in "*?" and not escaped for c, escaped, _ in self.characters)

    @property
    def pattern(self) -> str:
        """The word as a wildcard pattern, with literal special characters escaped."""
        return "".join(
            f"\\{c}" if c == "\\" or (escaped and c in "*?") else c
            for c, escaped, _ in self.characters
        )

    def find(self, character: str) -> int:
        """Return the index of the first unescaped occurrence of a character, or -1."""
        return next(
            (
                i
                for i, (c, escaped, _) in enumerate(self.characters)
                if c == character and not escaped
            ),
            -1,
        )

    def split(self, index: int) -> tuple[BareWord, BareWord]:
        """Return the parts before and after a character."""
        before, after = self.characters[:index], self.characters[index + 1 :]
        return BareWord(self.start, before), BareWord(self.characters[index][2] + 1, after)

    def parts(self, separator: str) -> tuple[str, ...]:
        """Split the word at every unescaped separator."""
        parts: list[list[str]] = [[]]
        for c, escaped, _ in self.characters:
            if c == separator and not escaped:
                parts.append([])
            else:
                parts[-1].append(c)
        return tuple("".join(letters) for letters in parts)


MAX_SLOP = 1000
MAX_DISTANCE = 2
Targets = tuple[Target, ...] | None
"""The columns of a clause; None for the default fields."""


class QueryLiteral(Struct, frozen=True):
    """A value as written: its text, and whether it was quoted."""

    text: str
    quoted: bool
    at: int


class Clauses:
    """Parses clauses."""

    def __init__(self, source: Characters, fields: QueryFields, now_ms: int | None = None) -> None:
        self.source = source
        self.fields = fields
        self._now = None if now_ms is None else timestamp_of(now_ms * 1_000, zone=True)

    def about(self, targets: Targets) -> Targets:
        """Columns given before the clause: in the query, or outside of it as in `n indexquery
        '>=3'`.
        """
        if targets is None and self.fields.named:
            return self.fields.default_targets()
        return targets

    def clause(self, targets: Targets) -> Query:
        """Parse the clause at the cursor."""
        source, start = self.source, self.source.at
        c = source.peek()
        if c and c in "\"'":
            return self._parse_quoted(targets)
        if (end := source.regex_end()) is not None:
            return self._regex(targets, end)
        named = self.about(targets)
        if named is not None and source.take_keyword("IN"):
            source.skip_space()
            if source.peek() == "[":
                return self._set(named)
            source.at = start
        if c and c in "[{<>":
            if named is None:
                raise source.fail(
                    "A range needs a column", hint="Write column:[1 TO 5] or column:>=3."
                )
            return self._range(named)
        word = source.bare()
        if not word.characters:
            raise source.fail(
                f"{c or 'The end'} was not expected here", hint="Escape it with a backslash."
            )
        if word.text == "*" and word.has_wildcard:
            if targets is None:
                return AllRows()
            return any_of(tuple(Exists(t) for t in targets))
        return self._bare(targets, word)

    def value(self, target: Target, literal: QueryLiteral) -> Words | Equals | Addresses:
        """Convert a literal to a leaf of its column's kind. A ValueError states what the column
        expects.
        """
        column = self.fields.column(target.column)
        if column.kind == "ip":
            number, mask = address_mask(literal.text)
            return Addresses(target, number, mask, literal.text)
        if column.kind == "none":
            return Equals(
                target,
                typed_value(literal.text, self.fields.schema.field(target.column).type, self._now),
            )
        if column.kind == "string":
            return Words(target, literal.text)
        number_too = (
            column.kind == "json" and not literal.quoted and json_number(literal.text) is not None
        )
        if not terms.words_of(column, literal.text) and not number_too:
            raise ValueError(
                f"{literal.text!r} has no word that the tokenizer {column.tokenizer!r} keeps"
            )
        return Words(target, literal.text, literal.quoted)

    def _each(
        self, targets: Targets, at: int, build: Callable[[Target, ColumnMapping], Query]
    ) -> Query:
        """Build the clause for each column. Default fields that cannot hold it are left out."""
        if targets is None:
            try:
                targets = self.fields.default_targets()
            except QuerySyntaxError as e:
                raise self.source.fail(e.message.rstrip("."), at=at, hint=e.hint) from None
            weights = self.fields.weights
        else:
            weights = {}
        queries, faults = [], []
        for target in targets:
            try:
                query, weight = (
                    build(target, self.fields.column(target.column)),
                    weights.get(target.column, 1.0),
                )
                queries.append(query if weight == 1 else Boost(query, weight))
            except ValueError as e:
                faults.append(f"Column {str(target)!r}: {e}")
        if not queries:
            raise self.source.fail(faults[0], at=at)
        return any_of(tuple(queries))

    def _parse_quoted(self, targets: Targets) -> Query:
        source, at = self.source, self.source.at
        literal = QueryLiteral(source.quoted(), True, at)
        prefix = source.take("*")
        slop = source.number("~", MAX_SLOP, 'a distance in words, as in "a b"~2')

        def build(target: Target, column: ColumnMapping) -> Query:
            if slop is not None and (
                column.kind not in ("text", "json") or column.tokenizer == "ngram" or prefix
            ):
                raise ValueError(
                    f"~{slop} needs words with positions, not a {column.terms} column or a prefix"
                )
            if prefix:
                return self._prefix(target, column, literal.text)
            query = self.value(target, literal)
            if slop and isinstance(query, Words):
                return Words(query.target, query.text, True, slop)
            return query

        return self._each(targets, at, build)

    def _prefix(self, target: Target, column: ColumnMapping, text: str) -> Query:
        if column.kind not in ("text", "json") or column.tokenizer == "ngram":
            return self._wildcard(
                target, column, "".join(f"\\{c}" if c in "*?\\" else c for c in text) + "*"
            )
        if not terms.words_of(column, text):
            raise ValueError(f"{text!r} has no word that the tokenizer {column.tokenizer!r} keeps")
        return Words(target, text, True, 0, True)

    def _bare(self, targets: Targets, word: BareWord) -> Query:
        tilde = word.find("~")
        if tilde > 0:
            return self._fuzzy(targets, *word.split(tilde))
        if not word.has_wildcard:
            literal = QueryLiteral(word.text, False, word.start)
            return self._each(targets, word.start, lambda target, _: self.value(target, literal))
        if word.text.strip("*") == "" and "\\" not in word.pattern:
            raise self.source.fail(
                "Several stars mean the same as one", at=word.start, hint="Write a single *."
            )
        return self._each(
            targets, word.start, lambda t, column: self._wildcard(t, column, word.pattern)
        )

    def _wildcard(self, target: Target, column: ColumnMapping, pattern: str) -> Query:
        if column.kind == "ip":
            number, mask = address_mask(pattern)
            return Addresses(target, number, mask, pattern)
        self._check_has_words(column, "A wildcard")
        if not terms.term_patterns(column, pattern):
            raise ValueError(
                f"{pattern!r} has no word that the tokenizer {column.tokenizer!r} keeps"
            )
        return Wildcard(target, pattern)

    def _regex(self, targets: Targets, end: int) -> Query:
        """Parse a regular expression between slashes; the cursor is on the first, `end` is the
        second.
        """
        source, at = self.source, self.source.at
        pattern = source.text[at + 1 : end].replace("\\/", "/")
        source.at = end + 1
        ignore_case = source.take("i")

        def build(target: Target, column: ColumnMapping) -> Query:
            self._check_has_words(column, "A regular expression")
            query = Regex(target, pattern, ignore_case)
            if column.tokenizer != "ngram":
                terms.check_automaton(terms.term_expression(column, query))
            return query

        try:
            regular_expression(pattern, ignore_case=ignore_case, whole=True)
            return self._each(targets, at, build)
        except RegexFaultError as e:
            hint = "Write it as in column:/time(out|r).*/; a word that starts with / is quoted."
            raise source.fail(str(e), at=at + 1 + e.at, hint=hint) from None

    def _fuzzy(self, targets: Targets, word: BareWord, distance: BareWord) -> Query:
        hint = "Write word~1 or word~2; escape ~ with a backslash to search for it."
        if distance.text not in ("0", "1", "2"):
            raise self.source.fail(
                "~ needs a number of edits from 0 to 2", at=distance.start - 1, hint=hint
            )
        if word.has_wildcard:
            raise self.source.fail(
                "A word is fuzzy or has wildcards, not both", at=word.start, hint=hint
            )

        def build(target: Target, column: ColumnMapping) -> Query:
            self._check_has_words(column, "A fuzzy word")
            if column.tokenizer == "ngram" or terms.plain_word(column, word.text) is None:
                raise ValueError(f"{word.text!r} is not one word there, so it cannot be fuzzy")
            return Fuzzy(target, word.text, int(distance.text))

        return self._each(targets, word.start, build)

    def _check_has_words(self, column: ColumnMapping, what: str) -> None:
        if column.kind == "none" and not is_text(self.fields.schema.field(column.name).type):
            raise ValueError(
                f"{what} needs a column of text, not {self.fields.schema.field(column.name).type}"
            )
        if column.kind == "ip":
            raise ValueError(f"{what} needs a column of text, not addresses")

    def _set(self, targets: Targets) -> Query:
        source, opening = self.source, self.source.at
        source.at += 1
        literals = []
        while True:
            source.skip_space()
            if source.take("]"):
                break
            if not source.peek():
                raise source.fail(
                    "The list is not closed", at=opening, hint="Write column:IN [a b c]."
                )
            literals.append(self._literal("]"))
        if not literals:
            raise source.fail("The list is empty", at=opening, hint="Write column:IN [a b c].")
        return self._each(
            targets,
            opening,
            lambda t, _: OneOf(t, tuple(self.value(t, literal) for literal in literals)),
        )

    def _range(self, targets: Targets) -> Query:
        source, opening = self.source, self.source.at
        sign = next((sign for sign in (">=", "<=", ">", "<") if source.take(sign)), "")
        if sign:
            source.skip_space()
            bound, inclusive = self._literal(")"), sign.endswith("=")
            low, high = (bound, None) if sign[0] == ">" else (None, bound)
            return self._each(
                targets, opening, lambda t, c: self._span(t, c, low, high, inclusive, inclusive)
            )
        include_lower = source.peek() == "["
        source.at += 1
        source.skip_space()
        lower = self._parse_bound()
        source.skip_space()
        if not source.take_keyword("TO"):
            raise source.fail("A range needs TO between its bounds", hint="Write column:[1 TO 5].")
        source.skip_space()
        upper = self._parse_bound()
        source.skip_space()
        closing = source.peek()
        if closing not in ("]", "}"):
            raise source.fail("The range is not closed", at=opening, hint="End it with ] or }.")
        source.at += 1
        return self._each(
            targets,
            opening,
            lambda t, c: self._span(t, c, lower, upper, include_lower, closing == "]"),
        )

    def _span(
        self,
        target: Target,
        column: ColumnMapping,
        lower: QueryLiteral | None,
        upper: QueryLiteral | None,
        low: bool,
        high: bool,
    ) -> Query:
        """Parse a range with bounds of the column's type."""
        if lower is None and upper is None:
            return Exists(target)
        if column.kind == "text" and not column.exact:
            name = target.column
            raise ValueError(
                f"it is {column.terms}, which has words and no order of values. Compare whole values with "
                f"where=\"{name} >= 'a'\", or index it with indexing.typemap.{name} = string or text_and_string"
            )
        bounds = [b for b in (lower, upper) if b is not None]
        if column.kind == "json" and any(not b.quoted and is_relative(b.text) for b in bounds):
            raise ValueError(
                "a time relative to now needs a column of dates or timestamps, not a value in json"
            )
        numbers = all(not b.quoted and isinstance(json_number(b.text), int | float) for b in bounds)

        def typed(bound: QueryLiteral | None) -> Any:
            if bound is None:
                return None
            if column.kind == "none":
                return typed_value(
                    bound.text, self.fields.schema.field(target.column).type, self._now
                )
            if column.kind == "ip":
                return _single_address(bound.text)
            if column.kind == "json" and numbers:
                return json_number(bound.text)
            return bound.text

        return Range(
            target, typed(lower), typed(upper), low or lower is None, high or upper is None
        )

    def _parse_bound(self) -> QueryLiteral | None:
        if self.source.peek() == "*" and (
            self.source.peek(1).isspace() or self.source.peek(1) in ("]", "}")
        ):
            self.source.at += 1
            return None
        return self._literal("]}")

    def _literal(self, stops: str) -> QueryLiteral:
        """Read a quoted or bare value. Bare values end at white space or a delimiter."""
        source, at = self.source, self.source.at
        if source.peek() and source.peek() in "\"'":
            return QueryLiteral(source.quoted(), True, at)
        word = source.bare(stops)
        if not word.characters:
            raise source.fail(
                "A value is missing", hint="Write a value, quoted if it holds spaces."
            )
        return QueryLiteral(word.text, False, at)


def _single_address(text: str) -> ipaddress.IPv6Address:
    number, mask = address_mask(text)
    if mask != FULL_MASK:
        raise ValueError(f"{text!r} is not a single IP address")
    return ipaddress.IPv6Address(number)
