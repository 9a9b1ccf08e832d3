"""The predicate tree: frozen, picklable values that say which rows are meant.

A tree comes from SQL text, from an Arrow expression or from these constructors. `bind` gives it the
types of a schema; only a bound tree can be evaluated. `str()` is SQL in Spark's dialect and parses
back to an equal tree.

    Predicate
    ├─ And, Or, Not            SQL's three-valued logic
    ├─ Constant                TRUE, FALSE or NULL
    ├─ Comparison              column = <=> != < <= > >= literal
    ├─ In                      column IN (literals)
    ├─ IsNull, IsNotNull
    ├─ TextMatch               starts_with, ends_with, contains
    ├─ Like                    any other LIKE pattern
    └─ RLike                   a regular expression that fits somewhere in a text

A LIKE pattern becomes the simpler predicate that many of them are (`like`).
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Collection, Iterable, Iterator
from enum import Enum
from typing import Any, get_args

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import force_setattr, replace

from indextables.errors import InvalidInputError, show_value
from indextables.model.regular_expression import RegexFaultError, regular_expression

OPERATORS = ("=", "<=>", "!=", "<", "<=", ">", ">=")
TEXT_MATCHES = {"starts_with": "startswith", "ends_with": "endswith", "contains": "contains"}
KEYWORDS = ("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS", "NULL", "TRUE", "FALSE", "ESCAPE")
RESERVED = frozenset([*KEYWORDS, "ILIKE", "RLIKE", "REGEXP", "CAST"])


class Column(Struct, frozen=True):
    """A column, or a field inside a struct column; `type` is set by binding."""

    path: tuple[str, ...]
    type: pa.DataType | None = None

    @property
    def name(self) -> str:
        """The name of the top-level column."""
        return self.path[0]

    @property
    def dotted_path(self) -> str:
        """The path in dot notation."""
        return ".".join(self.path)

    def __str__(self) -> str:
        return ".".join(_identifier(name) for name in self.path)


class Literal(Struct, frozen=True, eq=False):
    """A constant: None, bool, int, float, Decimal, str, bytes, date or datetime (in UTC unless
    naive).
    """

    value: Any

    def __post_init__(self) -> None:
        force_setattr(self, "value", _plain(self.value))

    def _key(self) -> tuple[type, Any]:
        nan = isinstance(self.value, float) and math.isnan(self.value)
        return type(self.value), "NaN" if nan else self.value

    def __eq__(self, other: object) -> bool:
        """Equal in kind and value; NaN equals NaN, and TRUE is not 1."""
        return isinstance(other, Literal) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        return _literal(self.value)


class Predicate(Struct, frozen=True):
    """Base of the tree. Predicates combine with `&`, `|` and `~`."""

    def __and__(self, other: Predicate) -> Predicate:
        return And((self, other))

    def __or__(self, other: Predicate) -> Predicate:
        return Or((self, other))

    def __invert__(self) -> Predicate:
        return Not(self)


class Constant(Predicate, frozen=True):
    """TRUE, FALSE or NULL for every row."""

    value: bool | None

    def __str__(self) -> str:
        return _literal(self.value)


class Comparison(Predicate, frozen=True):
    """A column compared with a literal."""

    operator: str
    column: Column
    literal: Literal

    def __post_init__(self) -> None:
        _check(
            self.operator in OPERATORS,
            f"There is no comparison {self.operator!r}.",
            f"Use {' '.join(OPERATORS)}.",
        )

    def __str__(self) -> str:
        return f"{self.column} {self.operator} {self.literal}"


class In(Predicate, frozen=True):
    """A column that equals one of several literals. With a NULL among them, 'no' is unknown."""

    column: Column
    literals: tuple[Literal, ...]

    def __post_init__(self) -> None:
        _check(
            len(self.literals) > 0,
            f"IN over column {self.column.dotted_path!r} has no values.",
            "Give at least one.",
        )

    def __str__(self) -> str:
        return f"{self.column} IN ({', '.join(str(v) for v in self.literals)})"


class IsNull(Predicate, frozen=True):
    """A column that holds NULL."""

    column: Column

    def __str__(self) -> str:
        return f"{self.column} IS NULL"


class IsNotNull(Predicate, frozen=True):
    """A column that holds a value."""

    column: Column

    def __str__(self) -> str:
        return f"{self.column} IS NOT NULL"


class TextMatch(Predicate, frozen=True):
    """A text column that starts with, ends with or contains a text."""

    kind: str
    column: Column
    text: str
    indexed: bool = True
    """Whether an index may preselect rows; if not, every row is evaluated."""

    def __post_init__(self) -> None:
        _check(
            self.kind in TEXT_MATCHES,
            f"There is no text match {self.kind!r}.",
            f"Use {', '.join(TEXT_MATCHES)}.",
        )

    def __str__(self) -> str:
        return f"{TEXT_MATCHES[self.kind]}({self.column}, {_literal(self.text)})"


class Like(Predicate, frozen=True):
    """A text column that matches a LIKE pattern: `%` any text, `_` any one character, `\\` escapes.
    Created by `like()`.
    """

    column: Column
    pattern: str
    indexed: bool = True
    """See `TextMatch.indexed`."""

    def __str__(self) -> str:
        return f"{self.column} LIKE {_literal(self.pattern)}"


class RLike(Predicate, frozen=True):
    """A text column in which a regular expression matches somewhere."""

    column: Column
    pattern: str
    indexed: bool = True
    """See `TextMatch.indexed`."""

    def __post_init__(self) -> None:
        try:
            regular_expression(self.pattern)
        except RegexFaultError as e:
            message = f"The regular expression {show_value(self.pattern)} cannot be read: {e}, at character {e.at}."
            hint = "It may have characters, classes, groups, | and repetitions; in SQL text a backslash is written twice."
            raise InvalidInputError(message, hint=hint, pattern=self.pattern) from None

    def __str__(self) -> str:
        return f"{self.column} RLIKE {_literal(self.pattern)}"


class And(Predicate, frozen=True):
    """All of two or more predicates."""

    children: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        _check(
            len(self.children) > 1,
            "AND needs at least two predicates.",
            "Use all_of() for any number.",
        )

    def __str__(self) -> str:
        return " AND ".join(f"({c})" if isinstance(c, (And, Or)) else str(c) for c in self.children)


class Or(Predicate, frozen=True):
    """Any of two or more predicates."""

    children: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        _check(
            len(self.children) > 1,
            "OR needs at least two predicates.",
            "Use any_of() for any number.",
        )

    def __str__(self) -> str:
        return " OR ".join(f"({c})" if isinstance(c, (And, Or)) else str(c) for c in self.children)


class Not(Predicate, frozen=True):
    """The negation; NULL stays NULL."""

    child: Predicate

    def __str__(self) -> str:
        return f"NOT ({self.child})"


ColumnTest = Comparison | In | IsNull | IsNotNull | TextMatch | Like | RLike
"""The predicates that test one column."""
_COLUMN_TESTS = get_args(ColumnTest)


def all_of(predicates: Iterable[Predicate]) -> Predicate:
    """Return the conjunction of any number of predicates; TRUE for none."""
    return _join(And, tuple(predicates), True)


def any_of(predicates: Iterable[Predicate]) -> Predicate:
    """Return the disjunction of any number of predicates; FALSE for none."""
    return _join(Or, tuple(predicates), False)


def leaves(tree: Predicate) -> Iterator[Predicate]:
    """Return the predicates of a tree that are not AND, OR or NOT, from left to right."""
    if isinstance(tree, (And, Or)):
        for child in tree.children:
            yield from leaves(child)
    elif isinstance(tree, Not):
        yield from leaves(tree.child)
    else:
        yield tree


def without_index(tree: Predicate, kinds: Collection[str]) -> Predicate:
    """Return the tree with some kinds of text matches, or other patterns (`pattern`), evaluated on
    rows only.
    """
    if isinstance(tree, (And, Or)):
        return type(tree)(tuple(without_index(child, kinds) for child in tree.children))
    if isinstance(tree, Not):
        return Not(without_index(tree.child, kinds))
    if isinstance(tree, TextMatch):
        return replace(tree, indexed=tree.indexed and tree.kind not in kinds)
    if isinstance(tree, (Like, RLike)):
        return replace(tree, indexed=tree.indexed and "pattern" not in kinds)
    return tree


def columns_of(tree: Predicate) -> tuple[str, ...]:
    """Return the top-level columns of a tree, each once, in order of appearance."""
    return tuple(
        dict.fromkeys(leaf.column.name for leaf in leaves(tree) if isinstance(leaf, _COLUMN_TESTS))
    )


def _join(kind: type[And] | type[Or], parts: tuple[Predicate, ...], empty: bool) -> Predicate:
    if len(parts) > 1:
        return kind(parts)
    if parts:
        return parts[0]
    return Constant(empty)


def _check(holds: bool, message: str, hint: str) -> None:
    if not holds:
        raise InvalidInputError(message, hint=hint)


def _plain(value: Any) -> Any:
    """Return a value as exactly one literal kind; subclasses and numpy numbers become plain ones."""
    if isinstance(value, np.bool_ | np.number):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, dt.datetime):
        plain = dt.datetime.combine(value.date(), value.timetz())
        if plain.tzinfo is None:
            return plain
        return plain.astimezone(dt.UTC)
    if isinstance(value, dt.date):
        return dt.date(value.year, value.month, value.day)
    kinds: tuple[type[Any], ...] = (int, float, str, bytes)
    for kind in kinds:
        if isinstance(value, kind):
            if type(value) is kind:
                return value
            return kind(value)
    if isinstance(value, decimal.Decimal) and value.is_finite():
        return value
    raise InvalidInputError(
        f"A predicate cannot hold the value {value!r} of type {type(value).__name__}.",
        hint="Use None, bool, int, float, Decimal, str, bytes, date or datetime.",
    )


def _identifier(name: str) -> str:
    plain = name.isascii() and name.isidentifier() and name.upper() not in RESERVED
    if plain:
        return name
    return "`" + name.replace("`", "``") + "`"


def _literal(value: Any) -> str:
    """Return a value as SQL that parses back to the same kind of value."""
    if value is None or isinstance(value, bool):
        if value is None:
            return "NULL"
        return str(value).upper()
    if isinstance(value, float):
        if math.isfinite(value):
            return f"{value!r}D"
        return (
            f"double('{'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'}')"
        )
    if isinstance(value, decimal.Decimal):
        text = str(value)
        if "." in text:
            return text
        return f"{text}BD"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, dt.datetime):
        kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP"
        return f"{kind} '{value.isoformat(sep=' ').replace('+00:00', 'Z')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    return str(value)


_ESCAPE = "\\"


class Wild(Enum):
    """A wildcard in a pattern."""

    ANY = "%"
    ONE = "_"


def like(column: Column, pattern: str, escape: str = _ESCAPE) -> Predicate:
    """Return `column LIKE pattern` in its simplest form: equality, a text match, or a canonical
    `Like`.
    """
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
    return Like(column, "".join(p.value if isinstance(p, Wild) else _escape(p) for p in parts))


def pattern_parts(pattern: str, escape: str = _ESCAPE) -> list[str | Wild]:
    """Return a pattern as literal texts and wildcards; a run of `%` is one."""
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
    """Return the text that every match of the pattern starts with."""
    first = next(iter(pattern_parts(pattern)), "")
    if isinstance(first, str):
        return first
    return ""


def like_expression(pattern: str) -> str:
    """Return the pattern as an RE2 expression for the whole value."""
    words = {Wild.ANY: ".*", Wild.ONE: "."}
    body = "".join(words[p] if isinstance(p, Wild) else _quote(p) for p in pattern_parts(pattern))
    return rf"(?s)\A{body}\z"


def _add_text(parts: list[str | Wild], letter: str) -> None:
    if parts and isinstance(parts[-1], str):
        parts[-1] += letter
    else:
        parts.append(letter)


def _escape(text: str) -> str:
    return "".join(_ESCAPE + letter if letter in ("%", "_", _ESCAPE) else letter for letter in text)


def _quote(text: str) -> str:
    return "".join(
        "\\" + c if c.isascii() and c.isprintable() and not (c.isalnum() or c == " ") else c
        for c in text
    )
