"""The query tree: frozen, picklable values that any worker can evaluate on any split.

Columns are identified by name; the meaning of a leaf depends on the column's kind in the split's
mapping. Values of numeric, date and similar columns are typed. Words keep their text, because each
column has its own analyzer.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace


class Target(Struct, frozen=True):
    """A column, and the path inside a JSON column."""

    column: str
    path: tuple[str, ...] = ()
    anywhere: bool = False
    """Whether any path of a JSON column is meant, as in a query that names only the column."""
    max_terms: int = 0
    """Maximum number of terms of a split that a pattern may match; 0 for no limit."""

    def __str__(self) -> str:
        return ".".join(_escape(key, dots=bool(self.path)) for key in (self.column, *self.path))


class AllRows(Struct, frozen=True):
    """Every row."""

    def __str__(self) -> str:
        return "*"


class Words(Struct, frozen=True):
    """A word or phrase: analyzed words in a text column, the whole value in a string column."""

    target: Target
    text: str
    quoted: bool = False
    slop: int = 0
    prefix: bool = False

    def __str__(self) -> str:
        if self.quoted or self.prefix or not self.text:
            shown = _quote(self.text)
        else:
            shown = _escape(self.text)
        return f"{self.target}:{shown}{'*' if self.prefix else ''}{f'~{self.slop}' if self.slop else ''}"


class Wildcard(Struct, frozen=True):
    """A pattern of literal text, `*` (any text) and `?` (any character); a backslash escapes."""

    target: Target
    pattern: str

    def __str__(self) -> str:
        return f"{self.target}:{_escaped_pattern(self.pattern)}"


class Regex(Struct, frozen=True):
    """Terms that match a regular expression completely; case-insensitive if the column's terms are."""

    target: Target
    pattern: str
    ignore_case: bool = False

    def __str__(self) -> str:
        return f"{self.target}:/{_with_escaped_slashes(self.pattern)}/{'i' if self.ignore_case else ''}"


class Fuzzy(Struct, frozen=True):
    """A word within some edits: insert, delete, replace, swap neighbours."""

    target: Target
    text: str
    distance: int

    def __str__(self) -> str:
        return f"{self.target}:{_escape(self.text)}~{self.distance}"


class Equals(Struct, frozen=True):
    """A typed value of a column that has no index."""

    target: Target
    value: Any

    def __str__(self) -> str:
        return f"{self.target}:{_show(self.value)}"


class Range(Struct, frozen=True):
    """Values between two bounds; None is open."""

    target: Target
    lower: Any = None
    upper: Any = None
    include_lower: bool = True
    include_upper: bool = True

    def __str__(self) -> str:
        opening, closing = "[" if self.include_lower else "{", "]" if self.include_upper else "}"
        low, high = ("*" if v is None else _show(v) for v in (self.lower, self.upper))
        return f"{self.target}:{opening}{low} TO {high}{closing}"


class Addresses(Struct, frozen=True):
    """Addresses whose masked bits equal the value (128 bits; IPv4 in mapped form)."""

    target: Target
    value: int
    mask: int
    text: str

    def __str__(self) -> str:
        return f"{self.target}:{self.text}"


class OneOf(Struct, frozen=True):
    """Any of several values of one column."""

    target: Target
    items: tuple[Words | Equals | Addresses, ...]

    def __str__(self) -> str:
        skip = len(str(self.target)) + 1
        return f"{self.target}:IN [{' '.join(str(item)[skip:] for item in self.items)}]"


class Exists(Struct, frozen=True):
    """Rows where the column (or the path in it) has a value."""

    target: Target

    def __str__(self) -> str:
        return f"{self.target}:*"


class Bool(Struct, frozen=True):
    """All of `must`, none of `must_not`, and without a `must` at least one of `should`. With
    `minimum`, that many of `should`.
    """

    must: tuple[Query, ...] = ()
    should: tuple[Query, ...] = ()
    must_not: tuple[Query, ...] = ()
    minimum: int = 0

    @property
    def needed(self) -> int:
        """Number of `should` queries that a row must match."""
        return self.minimum or int(bool(self.should) and not self.must)

    def __str__(self) -> str:
        parts = [f"+{_group(q)}" for q in self.must] + [_group(q) for q in self.should]
        shown = " ".join(parts + [f"-{_group(q)}" for q in self.must_not])
        if self.minimum:
            return f"({shown})~{self.minimum}"
        return shown


class Boost(Struct, frozen=True):
    """A query whose score is multiplied."""

    query: Query
    factor: float

    def __str__(self) -> str:
        if isinstance(self.query, Boost):
            inner = f"({self.query})"
        else:
            inner = _group(self.query)
        return f"{inner}^{self.factor:g}"


Leaf: TypeAlias = Words | Wildcard | Regex | Fuzzy | Equals | Range | Addresses | OneOf | Exists
Query: TypeAlias = AllRows | Leaf | Bool | Boost


def leaves(query: Query) -> Iterator[Leaf]:
    """Return the leaves of a tree from left to right."""
    if isinstance(query, Bool):
        for below in (*query.must, *query.should, *query.must_not):
            yield from leaves(below)
    elif isinstance(query, Boost):
        yield from leaves(query.query)
    elif not isinstance(query, AllRows):
        yield query


def with_targets(query: Query, change: Callable[[Target], Target]) -> Query:
    """Return the same query about other columns."""
    if isinstance(query, AllRows):
        return query
    if isinstance(query, Bool):
        must, should, must_not = (
            tuple(with_targets(q, change) for q in group)
            for group in (query.must, query.should, query.must_not)
        )
        return replace(query, must=must, should=should, must_not=must_not)
    if isinstance(query, Boost):
        return replace(query, query=with_targets(query.query, change))
    target = change(query.target)
    if isinstance(query, OneOf):
        return OneOf(target, tuple(replace(item, target=target) for item in query.items))
    return replace(query, target=target)


def columns(query: Query) -> tuple[str, ...]:
    """Return the columns of a query, each once."""
    return tuple(dict.fromkeys(leaf.target.column for leaf in leaves(query)))


def any_of(queries: tuple[Query, ...]) -> Query:
    """Return the disjunction of queries."""
    if len(queries) == 1:
        return queries[0]
    return Bool(should=queries)


def all_of(queries: tuple[Query, ...]) -> Query:
    """Return the conjunction of queries."""
    if len(queries) == 1:
        return queries[0]
    return Bool(must=queries)


def _group(query: Query) -> str:
    if isinstance(query, Bool) and not query.minimum:
        return f"({query})"
    return str(query)


def _show(value: Any) -> str:
    if isinstance(value, str):
        return _quote(value)
    return str(value.isoformat() if isinstance(value, datetime.date) else value)


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _escape(text: str, *, dots: bool = False) -> str:
    special = "\\:\"'()[]{}^~*?+-!<>=/" + ("." if dots else "")
    shown = "".join(f"\\{c}" if c in special or c.isspace() else c for c in text)
    if shown in ("AND", "OR", "NOT", "IN", "TO"):
        return f"\\{shown}"
    return shown


def _with_escaped_slashes(pattern: str) -> str:
    shown, escaped = "", False
    for c in pattern:
        shown += "\\/" if c == "/" and not escaped else c
        escaped = c == "\\" and not escaped
    return shown


def _escaped_pattern(pattern: str) -> str:
    """Escape stars and question marks in a pattern."""
    shown = ""
    characters = iter(pattern)
    for c in characters:
        shown += c if c in "*?" else _escape(next(characters, "\\") if c == "\\" else c)
    return shown
