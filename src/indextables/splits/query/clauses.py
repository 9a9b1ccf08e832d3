"""One clause of a query: what follows a column's colon, or a bare word, as a leaf of the column's kind."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from indextables.errors import QuerySyntaxError
from indextables.splits.mapping import ColumnMapping, is_text
from indextables.splits.query import terms
from indextables.splits.query.characters import BareWord, Characters
from indextables.splits.query.fields import QueryFields
from indextables.splits.query.literals import FULL_MASK, address_mask, json_number, typed_value
from indextables.splits.query.tree import (
    Addresses,
    AllRows,
    Equals,
    Exists,
    Fuzzy,
    OneOf,
    Query,
    Range,
    Target,
    Wildcard,
    Words,
    any_of,
)

MAX_SLOP = 1000
MAX_DISTANCE = 2
Targets = tuple[Target, ...] | None
"""The columns a clause is about; None where it names none, and the default fields are meant."""


class Literal(Struct, frozen=True):
    """A value as written: its text, and whether it was quoted."""

    text: str
    quoted: bool
    at: int


class Clauses:
    """Reads clauses from the characters."""

    def __init__(self, source: Characters, fields: QueryFields) -> None:
        self.source = source
        self.fields = fields

    def clause(self, targets: Targets) -> Query:
        """The clause at the cursor, for the columns it is about."""
        source, start = self.source, self.source.at
        c = source.peek()
        if c and c in "\"'":
            return self._quoted(targets)
        if targets is not None and source.take_keyword("IN"):
            source.skip_space()
            if source.peek() == "[":
                return self._set(targets)
            source.at = start
        if c and c in "[{<>":
            if targets is None:
                raise source.fail("A range needs a column", hint="Write column:[1 TO 5] or column:>=3.")
            return self._range(targets)
        word = source.bare()
        if not word.characters:
            raise source.fail(f"{c or 'The end'} was not expected here", hint="Escape it with a backslash.")
        if word.text == "*" and word.has_wildcard:
            return AllRows() if targets is None else any_of(tuple(Exists(t) for t in targets))
        return self._bare(targets, word)

    def value(self, target: Target, literal: Literal) -> Words | Equals | Addresses:
        """A literal as a leaf of its column's kind; ValueError says what the column expects."""
        column = self.fields.column(target.column)
        if column.kind == "ip":
            number, mask = address_mask(literal.text)
            return Addresses(target, number, mask, literal.text)
        if column.kind == "none":
            return Equals(target, typed_value(literal.text, self.fields.schema.field(target.column).type))
        if column.kind == "string":
            return Words(target, literal.text)
        number_too = column.kind == "json" and not literal.quoted and json_number(literal.text) is not None
        if not terms.words_of(column, literal.text) and not number_too:
            raise ValueError(f"{literal.text!r} has no word that the tokenizer {column.tokenizer!r} keeps")
        return Words(target, literal.text, literal.quoted)

    def _each(self, targets: Targets, at: int, build: Callable[[Target, ColumnMapping], Query]) -> Query:
        """The clause for every column it is about. Of the default fields, those that cannot hold it are left out."""
        if targets is None:
            try:
                targets = self.fields.default_targets()
            except QuerySyntaxError as e:
                raise self.source.fail(e.message.rstrip("."), at=at, hint=e.hint) from None
        made, faults = [], []
        for target in targets:
            try:
                made.append(build(target, self.fields.column(target.column)))
            except ValueError as e:
                faults.append(f"Column {str(target)!r}: {e}")
        if not made:
            raise self.source.fail(faults[0], at=at)
        return any_of(tuple(made))

    def _quoted(self, targets: Targets) -> Query:
        source, at = self.source, self.source.at
        literal = Literal(source.quoted(), True, at)
        prefix = source.take("*")
        slop = self._number("~", MAX_SLOP, 'a distance in words, as in "a b"~2')

        def build(target: Target, column: ColumnMapping) -> Query:
            if slop is not None and (column.kind not in ("text", "json") or column.tokenizer == "ngram" or prefix):
                raise ValueError(f"~{slop} needs words with positions, not a {column.terms} column or a prefix")
            if prefix:
                return self._prefix(target, column, literal.text)
            made = self.value(target, literal)
            return Words(made.target, made.text, True, slop) if slop and isinstance(made, Words) else made

        return self._each(targets, at, build)

    def _prefix(self, target: Target, column: ColumnMapping, text: str) -> Query:
        if column.kind not in ("text", "json") or column.tokenizer == "ngram":
            return self._wildcard(target, column, "".join(f"\\{c}" if c in "*?\\" else c for c in text) + "*")
        if not terms.words_of(column, text):
            raise ValueError(f"{text!r} has no word that the tokenizer {column.tokenizer!r} keeps")
        return Words(target, text, True, 0, True)

    def _bare(self, targets: Targets, word: BareWord) -> Query:
        tilde = word.find("~")
        if tilde > 0:
            return self._fuzzy(targets, *word.split(tilde))
        if not word.has_wildcard:
            literal = Literal(word.text, False, word.start)
            return self._each(targets, word.start, lambda target, _: self.value(target, literal))
        if word.text.strip("*") == "" and "\\" not in word.pattern:
            raise self.source.fail("Several stars mean the same as one", at=word.start, hint="Write a single *.")
        return self._each(targets, word.start, lambda t, column: self._wildcard(t, column, word.pattern))

    def _wildcard(self, target: Target, column: ColumnMapping, pattern: str) -> Query:
        if column.kind == "ip":
            number, mask = address_mask(pattern)
            return Addresses(target, number, mask, pattern)
        self._check_has_words(column, "A wildcard")
        if not terms.term_patterns(column, pattern):
            raise ValueError(f"{pattern!r} has no word that the tokenizer {column.tokenizer!r} keeps")
        return Wildcard(target, pattern)

    def _fuzzy(self, targets: Targets, word: BareWord, distance: BareWord) -> Query:
        hint = "Write word~1 or word~2; escape ~ with a backslash to search for it."
        if distance.text not in ("0", "1", "2"):
            raise self.source.fail("~ needs a number of edits from 0 to 2", at=distance.start - 1, hint=hint)
        if word.has_wildcard:
            raise self.source.fail("A word is fuzzy or has wildcards, not both", at=word.start, hint=hint)

        def build(target: Target, column: ColumnMapping) -> Query:
            self._check_has_words(column, "A fuzzy word")
            if column.tokenizer == "ngram" or terms.plain_word(column, word.text) is None:
                raise ValueError(f"{word.text!r} is not one word there, so it cannot be fuzzy")
            return Fuzzy(target, word.text, int(distance.text))

        return self._each(targets, word.start, build)

    def _check_has_words(self, column: ColumnMapping, what: str) -> None:
        if column.kind == "none" and not is_text(self.fields.schema.field(column.name).type):
            raise ValueError(f"{what} needs a column of text, not {self.fields.schema.field(column.name).type}")
        if column.kind == "ip":
            raise ValueError(f"{what} needs a column of text, not addresses")

    def _set(self, targets: Targets) -> Query:
        source, opening = self.source, self.source.at
        source.at += 1
        found = []
        while True:
            source.skip_space()
            if source.take("]"):
                break
            if not source.peek():
                raise source.fail("The list is not closed", at=opening, hint="Write column:IN [a b c].")
            found.append(self._literal("]"))
        if not found:
            raise source.fail("The list is empty", at=opening, hint="Write column:IN [a b c].")
        return self._each(targets, opening, lambda t, _: OneOf(t, tuple(self.value(t, literal) for literal in found)))

    def _range(self, targets: Targets) -> Query:
        source, opening = self.source, self.source.at
        sign = next((sign for sign in (">=", "<=", ">", "<") if source.take(sign)), "")
        if sign:
            source.skip_space()
            bound, inclusive = self._literal(")"), sign.endswith("=")
            low, high = (bound, None) if sign[0] == ">" else (None, bound)
            return self._each(targets, opening, lambda t, c: self._span(t, c, low, high, inclusive, inclusive))
        include_lower = source.peek() == "["
        source.at += 1
        source.skip_space()
        lower = self._bound()
        source.skip_space()
        if not source.take_keyword("TO"):
            raise source.fail("A range needs TO between its bounds", hint="Write column:[1 TO 5].")
        source.skip_space()
        upper = self._bound()
        source.skip_space()
        closing = source.peek()
        if closing not in ("]", "}"):
            raise source.fail("The range is not closed", at=opening, hint="End it with ] or }.")
        source.at += 1
        return self._each(targets, opening, lambda t, c: self._span(t, c, lower, upper, include_lower, closing == "]"))

    def _span(
        self, target: Target, column: ColumnMapping, lower: Literal | None, upper: Literal | None, low: bool, high: bool
    ) -> Query:
        """A range with its bounds in the column's type."""
        if lower is None and upper is None:
            return Exists(target)
        bounds = [b for b in (lower, upper) if b is not None]
        numbers = all(not b.quoted and isinstance(json_number(b.text), int | float) for b in bounds)

        def typed(bound: Literal | None) -> Any:
            if bound is None:
                return None
            if column.kind == "none":
                return typed_value(bound.text, self.fields.schema.field(target.column).type)
            if column.kind == "ip":
                return _single_address(bound.text)
            return json_number(bound.text) if column.kind == "json" and numbers else bound.text

        return Range(target, typed(lower), typed(upper), low or lower is None, high or upper is None)

    def _bound(self) -> Literal | None:
        if self.source.peek() == "*" and (self.source.peek(1).isspace() or self.source.peek(1) in ("]", "}")):
            self.source.at += 1
            return None
        return self._literal("]}")

    def _literal(self, stops: str) -> Literal:
        """A quoted or bare value; bare ones end at white space or a stop."""
        source, at = self.source, self.source.at
        if source.peek() and source.peek() in "\"'":
            return Literal(source.quoted(), True, at)
        word = source.bare(stops)
        if not word.characters:
            raise source.fail("A value is missing", hint="Write a value, quoted if it holds spaces.")
        return Literal(word.text, False, at)

    def _number(self, mark: str, highest: int, what: str) -> int | None:
        source, at = self.source, self.source.at
        if not source.take(mark):
            return None
        digits = ""
        while source.peek().isdecimal() and source.peek().isascii():
            digits += source.peek()
            source.at += 1
        if not digits or len(digits) > 6 or int(digits) > highest:
            raise source.fail(f"{mark} needs {what}, at most {highest}", at=at)
        return int(digits)


def _single_address(text: str) -> ipaddress.IPv6Address:
    number, mask = address_mask(text)
    if mask != FULL_MASK:
        raise ValueError(f"{text!r} is not a single IP address")
    return ipaddress.IPv6Address(number)
