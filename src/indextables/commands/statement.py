"""A statement: one class says how it is written, which columns its rows have, and how it is run.

A statement that was read is a frozen value; `str()` is SQL that parses back to an equal value. Adding a statement is adding
a class to `upkeep`, `describe`, `caches` or `delta`: the parser knows every class with words that it begins with. It is run
in a `Session`: settings, and how the name of a table becomes its path.

A class reads itself with a `StatementCursor`: keywords, tables, numbers, sizes, clauses, and errors that show the place.
The words are those of a predicate, with `;`, and with names and sizes that begin with a digit (`100M`). A table is named by
a path in quotes (`TablePath`) or by a name (`TableName`) that whoever runs the statement resolves.
"""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn, Self

import pyarrow as pa

from indextables.config.values import parse_size
from indextables.errors import InvalidInputError, QuerySyntaxError
from indextables.model.predicate import Literal, Predicate, parse_among
from indextables.model.predicate.tokens import SIGNS, Cursor, Reader, Token, word_end
from indextables.model.report import Report
from indextables.operations.merge import MergeReport
from indextables.operations.purge import PurgeReport
from indextables.operations.verify import VerifyReport
from indextables.table import Table, verify_table

INDEX_WORDS = ("INDEXTABLES", "INDEXTABLE", "TANTIVY4SPARK")
"""Spellings of one keyword; the last is what IndexTables for the JVM was called before."""
DESCRIBE_WORDS = ("DESCRIBE", "DESC")
"""Spellings of one keyword, as Spark has them."""
MAX_NUMBER = (1 << 63) - 1
_LIKENESS = 0.65
_LISTED = 25
"""Of more alternatives an error names the nearest alone: the list of all statements would stand before what is wrong."""


@dataclass(frozen=True)
class TablePath:
    """A table by where it is."""

    path: str

    def __str__(self) -> str:
        return quoted(self.path)


@dataclass(frozen=True)
class TableName:
    """A table or view by its name in a session."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join("`" + part.replace("`", "``") + "`" for part in self.parts)


TableReference = TablePath | TableName


def quoted(text: str) -> str:
    """A text as a string of SQL."""
    return str(Literal(text))


class StatementTokens(Reader):
    """Walks over a statement once."""

    signs: ClassVar[tuple[str, ...]] = (*SIGNS, ";")
    subject: ClassVar[str] = "Statement"
    names_begin_with_digits: ClassVar[bool] = True


def leading_words(text: str, count: int) -> list[Token]:
    """The first words of a text that may be anybody's SQL; fewer where it ends or goes on in a way we cannot read."""
    reader = StatementTokens(text)
    words: list[Token] = []
    while len(words) < count:
        before = reader.at
        try:
            token = reader.next()
        except QuerySyntaxError:
            digit = text[reader.at : reader.at + 1]
            if digit.isnumeric() and not digit.isascii():  # a word of no language of ours, which the parser refuses
                end = word_end(text, reader.at)
                words.append(Token("name", text[reader.at : end], reader.at, end))
                reader.at = end
                continue
            # A string that ends and holds what no string can is a string, and its mistake is told by who reads it.
            if reader.at > before and text[reader.at - 1] in "'\"":
                words.append(Token("string", "", before, reader.at))
            break
        if token.kind == "end":
            break
        words.append(token)
    return words


def says(token: Token, word: str) -> bool:
    """Whether a token is a keyword, in any case and in any spelling of INDEXTABLES and DESCRIBE."""
    if word in INDEX_WORDS:
        return token.is_word(*INDEX_WORDS)
    return token.is_word(*DESCRIBE_WORDS) if word in DESCRIBE_WORDS else token.is_word(word)


class StatementCursor(Cursor):
    """A place among the words of a statement."""

    subject: ClassVar[str] = "Statement"
    keywords: ClassVar[tuple[str, ...]] = ()

    def __init__(self, text: str) -> None:
        super().__init__(text, StatementTokens(text).all())
        self.form = ""
        """How the statement is written, once it is known which one it is."""

    # -- keywords

    def choose(self, phrases: Iterable[str], *, or_else: tuple[str, ...] = ()) -> str:
        """Go past the one of these phrases that must come next. `or_else` is what else the error says could stand here."""
        candidates = {phrase: phrase.split() for phrase in phrases}
        depth = 0
        while True:
            fitting = {p: words for p, words in candidates.items() if says(self.token, words[depth])}
            if not fitting:
                alternatives_here = or_else if depth == 0 else ()
                expected = [" ".join(words[depth:]) for words in candidates.values()]
                like = self.similar([*candidates, *alternatives_here], depth)
                if like and len(expected) > _LISTED:
                    expected = [like]
                hint = f"Did you mean {like}?" if like else ""
                self.fail(alternatives([*expected, *alternatives_here]), hint=hint)
            self.advance()
            depth += 1
            complete = [p for p, words in fitting.items() if len(words) == depth]
            longer = {p: words for p, words in fitting.items() if len(words) > depth}
            if complete and not any(says(self.token, words[depth]) for words in longer.values()):
                return complete[0]
            candidates = longer

    def follows(self, phrase: str) -> bool:
        """Whether the words of a phrase come next."""
        ahead = self.tokens[self.index : self.index + len(phrase.split())]
        words = phrase.split()
        return len(ahead) == len(words) and all(says(t, w) for t, w in zip(ahead, words, strict=True))

    def clauses(
        self,
        clauses: Mapping[str, tuple[str, Callable[[StatementCursor], Any]]],
        refused: Mapping[str, tuple[str, str]] = MappingProxyType({}),
    ) -> dict[str, Any]:
        """The clauses up to the end of the statement, in any order, each once: the field of each and its value.

        `refused` are clauses of IndexTables for the JVM that there are not, each with the reason and the way out.
        """
        remaining = dict(clauses)
        fields: dict[str, Any] = {}
        joints: tuple[str, ...] = ()
        while not self.ends():
            for phrase, (reason, way_out) in refused.items():
                if self.follows(phrase):
                    self.refuse(self.token, reason, hint=way_out)
            phrase = self.choose(remaining, or_else=(*joints, "the end"))
            field, read = remaining.pop(phrase)
            fields[field] = read(self)
            joints = ("AND", "OR") if phrase == "WHERE" else ()
        return fields

    # -- the end

    def ends(self) -> bool:
        """Whether nothing but a semicolon comes next."""
        return self.token.kind == "end" or self.token.is_sign(";")

    def finish(self) -> None:
        """The statement must end here."""
        if not self.ends():
            self.fail("the end")
        while self.token.is_sign(";"):
            self.advance()
        if self.token.kind != "end":
            self.fail("the end: one statement at a time")

    # -- values

    def table(self, *, before: Iterable[str] = ()) -> TableReference:
        """The table a statement is about. `before` are the clauses that come after it, which no bare name may be."""
        what = "a path in quotes or the name of a table"
        if self.token.kind == "string":
            return TablePath(self.path(what))
        if self.token.kind not in ("name", "quoted") or any(self.follows(phrase) for phrase in before):
            self.fail(what)
        return TableName(self.dotted())

    def path(self, what: str = "a path in quotes") -> str:
        """A path in quotes."""
        token = self.string(what)
        if not token.value.strip():
            self.refuse(token, "the path is empty")
        return str(token.value)

    def dotted(self) -> tuple[str, ...]:
        """A name in parts: `a.b.c`."""
        parts = [self.name("a name")]
        while self.token.is_sign("."):
            self.advance()
            parts.append(self.name("the rest of the name"))
        return tuple(parts)

    def name(self, what: str) -> str:
        """One name, in backquotes or bare."""
        if self.token.kind not in ("name", "quoted"):
            self.fail(what)
        return str(self.advance().value)

    def names(self) -> tuple[str, ...]:
        """Names in parentheses."""
        self.expect("(")
        names = [".".join(self.dotted())]
        while self.token.is_sign(","):
            self.advance()
            names.append(".".join(self.dotted()))
        self.expect(")", "',' or ')'")
        return tuple(names)

    def sort_columns(self) -> tuple[str, ...]:
        """Names to sort by, in parentheses or without."""
        if self.token.is_sign("("):
            return self.names()
        columns = [".".join(self.dotted())]
        while self.token.is_sign(","):
            self.advance()
            columns.append(".".join(self.dotted()))
        return tuple(columns)

    def whole_number(self, *, at_least: int = 0) -> int:
        """A whole number of 64 bits."""
        token = self.token
        number = int(token.value) if token.kind == "string" and str(token.value).isdecimal() else token.value
        if token.kind not in ("number", "string") or not isinstance(number, int):
            self.fail("a whole number")
        self.advance()
        return self.bounded(token, number, at_least)

    def count(self) -> int:
        """A number of things, at least one."""
        return self.whole_number(at_least=1)

    def size(self) -> int:
        """A number of bytes: 104857600, 100M or 1G, also in quotes."""
        token = self.token
        if token.kind in ("name", "string"):
            try:
                number = parse_size(token.value)
            except ValueError:
                self.fail("a size such as 100M, 1G or a number of bytes")
            self.advance()
            return self.bounded(token, number, 1)
        if token.kind != "number":
            self.fail("a size such as 100M, 1G or a number of bytes")
        return self.count()

    def bounded(self, token: Token, number: int, at_least: int) -> int:
        """A number within what 64 bits hold, or an error at its place."""
        if number < at_least:
            self.refuse(token, f"the number must be at least {at_least}")
        if number > MAX_NUMBER:
            self.refuse(token, f"the number is greater than {MAX_NUMBER}")
        return number

    def hours(self) -> int:
        """A length of time: n DAYS or n HOURS."""
        token = self.token
        number = self.whole_number()
        unit = self.token
        if not unit.is_word("DAY", "DAYS", "HOUR", "HOURS"):
            like = self.similar(["DAYS", "HOURS"])
            self.fail("DAYS or HOURS", hint=f"Did you mean {like}?" if like else "")
        self.advance()
        return self.bounded(token, number * (24 if unit.is_word("DAY", "DAYS") else 1), 0)

    def predicate(self) -> Predicate:
        """A condition, as far as it goes."""
        tree, self.index = parse_among(self.text, self.tokens, self.index)
        return tree

    def presence(self) -> bool:
        """The value of a clause that has none: it is there."""
        return True

    # -- errors

    def similar(self, phrases: Iterable[str], depth: int = 0) -> str:
        """The phrase meant by words that fit up to a depth and are misspelt there; nothing if none is near.

        It has the likest word at that place; where several do (`DESCRIBE INDEXTABEL STATE`), the words after it decide.
        """
        choices = list(phrases)
        if len(choices) == 1 and depth:
            return choices[0]
        if self.token.kind != "name":
            return ""
        ahead = [str(t.value).upper() for t in self.tokens[self.index :] if t.kind == "name"]

        def score(phrase: str) -> tuple[float, float]:
            rest = phrase.split()[depth:]
            return likeness(ahead[0], rest[0]), likeness(" ".join(ahead[: len(rest)]), " ".join(rest))

        best = max(choices, key=score)
        return best if max(score(best)) >= _LIKENESS else ""

    def refuse(self, token: Token, problem: str, *, hint: str | None = None, **context: str) -> NoReturn:
        """Refuse a word; the hint ends with how the statement is written."""
        usage = f"Write: {self.form}" if self.form else ""
        super().refuse(token, problem, hint=f"{hint or ''} {usage}".strip(), **context)


def likeness(words: str, phrase: str) -> float:
    """How much two phrases look alike, from 0 to 1."""
    return difflib.SequenceMatcher(None, words, phrase, autojunk=False).ratio()


def alternatives(choices: Iterable[str]) -> str:
    """Choices as a person lists them: a, b or c."""
    distinct = list(dict.fromkeys(choices))
    return distinct[0] if len(distinct) == 1 else f"{', '.join(distinct[:-1])} or {distinct[-1]}"


def no_names(name: TableName) -> str:
    """The resolver outside of Spark: there are no names."""
    raise InvalidInputError(
        f"There is no session in which {name} could be looked up.",
        hint="Give the table's path in quotes.",
        name=".".join(name.parts),
    )


@dataclass(frozen=True)
class Session:
    """The settings in force, and the resolver of names."""

    options: Mapping[str, object] = field(default_factory=dict)
    resolve: Callable[[TableName], str] = no_names

    def path(self, table: TableReference) -> str:
        """Where a table is."""
        return table.path if isinstance(table, TablePath) else self.resolve(table)

    def open(self, table: TableReference) -> Table:
        """The table at its newest version."""
        return Table.open(self.path(table), options=self.options)

    # The verbs that can take long: a session with workers at hand lets these do the work.

    def merge(
        self,
        table: TableReference,
        *,
        target_size: int | None = None,
        where: Predicate | None = None,
        max_dest_splits: int | None = None,
        max_source_splits: int | None = None,
        order_by: Sequence[str] | None = None,
        rewrite: bool = False,
        dry_run: bool = False,
    ) -> MergeReport:
        """Merge the splits of a table, as `Table.merge` does."""
        return self.open(table).merge(
            target_size=target_size,
            where=where,
            max_dest_splits=max_dest_splits,
            max_source_splits=max_source_splits,
            order_by=order_by,
            rewrite=rewrite,
            dry_run=dry_run,
        )

    def purge(
        self,
        table: TableReference,
        *,
        older_than_hours: int | None = None,
        log_retention_hours: int | None = None,
        dry_run: bool = False,
    ) -> PurgeReport:
        """Purge a table, as `Table.purge` does."""
        return self.open(table).purge(
            older_than_hours=older_than_hours, log_retention_hours=log_retention_hours, dry_run=dry_run
        )

    def verify(self, table: TableReference, *, full: bool) -> VerifyReport:
        """Verify a table, even one that cannot be opened."""
        return verify_table(self.path(table), full=full, options=self.options)


Clauses = Mapping[str, tuple[str, Callable[[StatementCursor], Any]]]
"""By the words that begin a clause: the field of the statement it fills, and how its value is read."""

WHERE: Clauses = {"WHERE": ("where", StatementCursor.predicate)}
DRY_RUN: Clauses = {"DRY RUN": ("dry_run", StatementCursor.presence)}

_TYPES = {
    "s": pa.string(),
    "l": pa.int64(),
    "i": pa.int32(),
    "d": pa.float64(),
    "b": pa.bool_(),
    "ts": pa.timestamp("us", tz="UTC"),
}
_VALUES: Mapping[Callable[[StatementCursor], Any], str] = {
    StatementCursor.predicate: " condition",
    StatementCursor.size: " 100M|1G|n",
    StatementCursor.count: " n",
    StatementCursor.whole_number: " n",
    StatementCursor.hours: " n DAYS|HOURS",
    StatementCursor.names: " (a, b)",
    StatementCursor.sort_columns: " a, b",
    StatementCursor.path: " 'path'",
}
"""How the value of a clause is written, by the function that reads it."""


def row_schema(text: str) -> pa.Schema:
    """A schema from `name type, name type, ...` with the short type names of the command reference."""
    pairs = [part.split() for part in text.split(",")]
    return pa.schema([pa.field(name, _TYPES[kind]) for name, kind in pairs])


@dataclass(frozen=True)
class Command(ABC):
    """Root of the statements."""

    leads: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """The words it begins with, and the fields that these words fill by themselves. Empty for a base class."""
    clauses: ClassVar[Clauses] = {}
    """What may come after the beginning, in any order."""
    refused: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """Clauses that are known and not offered: the reason of each, and the way out."""
    path_only: ClassVar[bool] = False
    """Whether it is ours only with a path in quotes after the first words, which others use for tables by name."""
    offered: ClassVar[bool] = True
    """Whether it can be run; some are known only to be refused with the way out."""
    columns: ClassVar[pa.Schema]
    """The columns of its rows. Maps, lists and parameters are JSON text."""

    @classmethod
    def usage(cls) -> str:
        """What comes after the words it begins with, for people."""
        return " ".join(f"[{phrase}{_VALUES.get(read, '')}]" for phrase, (_, read) in cls.clauses.items())

    @classmethod
    def read(cls, cursor: StatementCursor, fields: Mapping[str, Any]) -> Self:
        """Read the rest of the statement; `fields` are those that its first words fill."""
        return cls(**fields, **cursor.clauses(cls.clauses))

    @abstractmethod
    def words(self) -> Iterator[str | None]:
        """The statement in parts; None is a clause that is missing."""

    @abstractmethod
    def run(self, session: Session) -> pa.Table:
        """Carry it out; the rows have exactly its columns."""

    def __str__(self) -> str:
        return " ".join(part for part in self.words() if part is not None)

    # -- rows

    def rows(self, values: Iterable[Mapping[str, Any]]) -> pa.Table:
        """Rows given as mappings, as the documented table; each must have exactly its columns."""
        rows = [dict(row) for row in values]
        for row in rows:
            if row.keys() != set(self.columns.names):
                raise ValueError(f"columns {sorted(row)} instead of {sorted(self.columns.names)}")
        return pa.Table.from_pylist(rows, schema=self.columns)

    def report_row(self, report: Report, **others: Any) -> pa.Table:
        """The figures of a report as one row; `others` are columns that it does not have, or names otherwise."""
        figures = {**report.to_dict(), **others}
        return self.rows([{name: figures[name] for name in self.columns.names}])

    def shape(self, table: pa.Table) -> pa.Table:
        """An Arrow table that has the documented columns by name, in the documented order and types."""
        return table.select(self.columns.names).cast(self.columns)


@dataclass(frozen=True)
class TableCommand(Command):
    """A statement that names a table and goes on with clauses."""

    table: TableReference

    @classmethod
    def usage(cls) -> str:
        return f"'path' {super().usage()}".rstrip()

    @classmethod
    def read(cls, cursor: StatementCursor, fields: Mapping[str, Any]) -> Self:
        table = cursor.table(before=(*cls.clauses, *cls.refused))
        return cls(table=table, **fields, **cursor.clauses(cls.clauses, cls.refused))


def clause(words: str, value: object, unit: str = "") -> str | None:
    """A clause with its value, if there is one."""
    return None if value is None else f"{words} {value} {unit}".rstrip()


def flag(words: str, present: bool) -> str | None:
    """A clause without a value, if it is there."""
    return words if present else None
