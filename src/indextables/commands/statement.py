"""A statement: one class says how it is written, which columns its rows have, and how it is run.

A statement that was read is a frozen value; `str()` is SQL that parses back to an equal value.
Adding a statement is adding a class to `upkeep`, `describe`, `caches` or `delta`: the parser knows
every class with words that it begins with. It is run in a `Session`: settings, and how the name of
a table becomes its path.

A class reads itself with a `StatementCursor`: keywords, tables, numbers, sizes, clauses, and errors
that show the place. The words are those of a predicate, with `;`, and with names and sizes that
begin with a digit (`100M`). A table is named by a path in quotes (`TablePath`) or by a name
(`TableName`) that the session resolves.
"""

from __future__ import annotations

import difflib
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn, Self, TypeVar

import pyarrow as pa

from indextables.config.values import parse_size
from indextables.errors import InvalidInputError, QuerySyntaxError
from indextables.metrics import METRICS, Sample
from indextables.model.predicate import Literal, Predicate, parse_among
from indextables.model.predicate.tokens import SIGNS, Cursor, Reader, Token, word_end
from indextables.model.report import Report
from indextables.operations.merge import MergeReport
from indextables.operations.purge import PurgeReport
from indextables.operations.verify import VerifyReport
from indextables.table import Table, verify_table

INDEX_WORDS = ("INDEXTABLES", "INDEXTABLE", "TANTIVY4SPARK")
"""Spellings of one keyword; the last is an older name of IndexTables for the JVM."""
DESCRIBE_WORDS = ("DESCRIBE", "DESC")
"""Spellings of one keyword, as in Spark."""
MAX_NUMBER = (1 << 63) - 1
R = TypeVar("R")
_LIKENESS = 0.65
_LISTED = 25
"""Above this number of alternatives an error names only the nearest."""


@dataclass(frozen=True)
class TablePath:
    """A table by its location."""

    path: str

    def __str__(self) -> str:
        return quote_text(self.path)


@dataclass(frozen=True)
class TableName:
    """A table or view by its name in a session."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join("`" + part.replace("`", "``") + "`" for part in self.parts)


TableReference = TablePath | TableName


def quote_text(text: str) -> str:
    """Quote a text as a SQL string."""
    return str(Literal(text))


class StatementTokens(Reader):
    """Tokens of a statement."""

    signs: ClassVar[tuple[str, ...]] = (*SIGNS, ";")
    subject: ClassVar[str] = "Statement"
    names_begin_with_digits: ClassVar[bool] = True


def leading_words(text: str, count: int) -> list[Token]:
    """Return the first words of a text in any SQL dialect; fewer if it ends or has unknown tokens."""
    reader = StatementTokens(text)
    words: list[Token] = []
    while len(words) < count:
        before = reader.at
        try:
            token = reader.next()
        except QuerySyntaxError:
            digit = text[reader.at : reader.at + 1]
            if (
                digit.isnumeric() and not digit.isascii()
            ):  # a word of no language of ours, which the parser refuses
                end = word_end(text, reader.at)
                words.append(Token("name", text[reader.at : end], reader.at, end))
                reader.at = end
                continue
            # A closed string with invalid content is a string; its reader reports the error.
            if reader.at > before and text[reader.at - 1] in "'\"":
                words.append(Token("string", "", before, reader.at))
            break
        if token.kind == "end":
            break
        words.append(token)
    return words


def says(token: Token, word: str) -> bool:
    """Return whether a token is a keyword, in any case and in any spelling of INDEXTABLES and
    DESCRIBE.
    """
    if word in INDEX_WORDS:
        return token.is_word(*INDEX_WORDS)
    if word in DESCRIBE_WORDS:
        return token.is_word(*DESCRIBE_WORDS)
    return token.is_word(word)


class StatementCursor(Cursor):
    """A position among the tokens of a statement."""

    subject: ClassVar[str] = "Statement"
    keywords: ClassVar[tuple[str, ...]] = ()

    def __init__(self, text: str) -> None:
        super().__init__(text, StatementTokens(text).all())
        self.form = ""
        """The syntax of the statement, once it is known."""

    # -- keywords

    def choose(self, phrases: Iterable[str], *, or_else: tuple[str, ...] = ()) -> str:
        """Consume one of these phrases. `or_else` lists what else the error names."""
        candidates = {phrase: phrase.split() for phrase in phrases}
        depth = 0
        while True:
            fitting = {
                p: words for p, words in candidates.items() if says(self.token, words[depth])
            }
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
        """Return whether the words of a phrase come next."""
        ahead = self.tokens[self.index : self.index + len(phrase.split())]
        words = phrase.split()
        return len(ahead) == len(words) and all(
            says(t, w) for t, w in zip(ahead, words, strict=True)
        )

    def clauses(
        self,
        clauses: Mapping[str, tuple[str, Callable[[StatementCursor], Any]]],
        refused: Mapping[str, tuple[str, str]] = MappingProxyType({}),
    ) -> dict[str, Any]:
        """Parse the clauses up to the end of the statement, in any order, each once: field and
        value.

        `refused` are unsupported clauses of IndexTables for the JVM, each with the reason and the
        alternative.
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
        """Return whether nothing but a semicolon comes next."""
        return self.token.kind == "end" or self.token.is_sign(";")

    def finish(self) -> None:
        """Require the end of the statement."""
        if not self.ends():
            self.fail("the end")
        while self.token.is_sign(";"):
            self.advance()
        if self.token.kind != "end":
            self.fail("the end: one statement at a time")

    # -- values

    def table(self, *, before: Iterable[str] = ()) -> TableReference:
        """Parse the table of a statement. `before` are the clauses after it, which a bare name must
        not equal.
        """
        what = "a path in quotes or the name of a table"
        if self.token.kind == "string":
            return TablePath(self.path(what))
        if self.token.kind not in ("name", "quoted") or any(
            self.follows(phrase) for phrase in before
        ):
            self.fail(what)
        return TableName(self.parse_dotted_name())

    def path(self, what: str = "a path in quotes") -> str:
        """Parse a path in quotes."""
        token = self.string(what)
        if not token.value.strip():
            self.refuse(token, "the path is empty")
        return str(token.value)

    def parse_dotted_name(self) -> tuple[str, ...]:
        """Parse a name in parts: `a.b.c`."""
        parts = [self.name("a name")]
        while self.token.is_sign("."):
            self.advance()
            parts.append(self.name("the rest of the name"))
        return tuple(parts)

    def name(self, what: str) -> str:
        """Parse one name, in backquotes or bare."""
        if self.token.kind not in ("name", "quoted"):
            self.fail(what)
        return str(self.advance().value)

    def names(self) -> tuple[str, ...]:
        """Parse names in parentheses."""
        self.expect("(")
        names = [".".join(self.parse_dotted_name())]
        while self.token.is_sign(","):
            self.advance()
            names.append(".".join(self.parse_dotted_name()))
        self.expect(")", "',' or ')'")
        return tuple(names)

    def sort_columns(self) -> tuple[str, ...]:
        """Parse sort columns, with or without parentheses."""
        if self.token.is_sign("("):
            return self.names()
        columns = [".".join(self.parse_dotted_name())]
        while self.token.is_sign(","):
            self.advance()
            columns.append(".".join(self.parse_dotted_name()))
        return tuple(columns)

    def whole_number(self, *, at_least: int = 0) -> int:
        """Parse a 64-bit integer."""
        token = self.token
        if token.kind == "string" and str(token.value).isdecimal():
            number = int(token.value)
        else:
            number = token.value
        if token.kind not in ("number", "string") or not isinstance(number, int):
            self.fail("a whole number")
        self.advance()
        return self.check_number(token, number, at_least)

    def count(self) -> int:
        """Parse a count of at least one."""
        return self.whole_number(at_least=1)

    def size(self) -> int:
        """Parse a number of bytes: 104857600, 100M or 1G, also in quotes."""
        token = self.token
        if token.kind in ("name", "string"):
            try:
                number = parse_size(token.value)
            except ValueError:
                self.fail("a size such as 100M, 1G or a number of bytes")
            self.advance()
            return self.check_number(token, number, 1)
        if token.kind != "number":
            self.fail("a size such as 100M, 1G or a number of bytes")
        return self.count()

    def check_number(self, token: Token, number: int, at_least: int) -> int:
        """Return a number within 64 bits, or raise an error at its position."""
        if number < at_least:
            self.refuse(token, f"the number must be at least {at_least}")
        if number > MAX_NUMBER:
            self.refuse(token, f"the number is greater than {MAX_NUMBER}")
        return number

    def hours(self) -> int:
        """Parse a duration: n DAYS or n HOURS."""
        token = self.token
        number = self.whole_number()
        unit = self.token
        if not unit.is_word("DAY", "DAYS", "HOUR", "HOURS"):
            like = self.similar(["DAYS", "HOURS"])
            self.fail("DAYS or HOURS", hint=f"Did you mean {like}?" if like else "")
        self.advance()
        return self.check_number(token, number * (24 if unit.is_word("DAY", "DAYS") else 1), 0)

    def predicate(self) -> Predicate:
        """Parse a condition up to its end."""
        tree, self.index = parse_among(self.text, self.tokens, self.index)
        return tree

    def presence(self) -> bool:
        """Return True for a clause without a value."""
        return True

    # -- errors

    def similar(self, phrases: Iterable[str], depth: int = 0) -> str:
        """Return the phrase meant by words that match up to a depth and are misspelt there, or an
        empty text.

        It has the most similar word at that position; among several (`DESCRIBE INDEXTABEL STATE`)
        the following words decide.
        """
        choices = list(phrases)
        if len(choices) == 1 and depth:
            return choices[0]
        if self.token.kind != "name":
            return ""
        ahead = [str(t.value).upper() for t in self.tokens[self.index :] if t.kind == "name"]

        def score(phrase: str) -> tuple[float, float]:
            rest = phrase.split()[depth:]
            return likeness(ahead[0], rest[0]), likeness(
                " ".join(ahead[: len(rest)]), " ".join(rest)
            )

        best = max(choices, key=score)
        if max(score(best)) >= _LIKENESS:
            return best
        return ""

    def refuse(
        self, token: Token, problem: str, *, hint: str | None = None, **context: str
    ) -> NoReturn:
        """Raise the error for a word; the hint ends with the syntax of the statement."""
        usage = f"Write: {self.form}" if self.form else ""
        super().refuse(token, problem, hint=f"{hint or ''} {usage}".strip(), **context)


def likeness(words: str, phrase: str) -> float:
    """Return the similarity of two phrases, from 0 to 1."""
    return difflib.SequenceMatcher(None, words, phrase, autojunk=False).ratio()


def alternatives(choices: Iterable[str]) -> str:
    """Return choices as a list in a sentence: a, b or c."""
    distinct = list(dict.fromkeys(choices))
    if len(distinct) == 1:
        return distinct[0]
    return f"{', '.join(distinct[:-1])} or {distinct[-1]}"


def no_names(name: TableName) -> str:
    """Resolve names outside of Spark: there are none."""
    raise InvalidInputError(
        f"There is no session in which {name} could be looked up.",
        hint="Give the table's path in quotes.",
        name=".".join(name.parts),
    )


@dataclass(frozen=True)
class Session:
    """The settings in effect, and the resolver of names."""

    options: Mapping[str, object] = field(default_factory=dict)
    resolve: Callable[[TableName], str] = no_names

    def path(self, table: TableReference) -> str:
        """Return the location of a table."""
        if isinstance(table, TablePath):
            return table.path
        return self.resolve(table)

    def open(self, table: TableReference) -> Table:
        """Open the table at its newest version."""
        return Table.open(self.path(table), options=self.options)

    def on_every_executor(self, work: Callable[[list[Sample]], R]) -> list[tuple[str, str, R]]:
        """Run work in this process and on every executor, each time with the metrics there.

        Results come with the executor and its host. Outside of a cluster there is the driver only.
        """
        return [("driver", socket.gethostname(), work(METRICS.samples()))]

    def capabilities(self) -> Mapping[str, str]:
        """Return what depends on the version of the engine: yes, or the version that it needs."""
        return {}

    def engine_versions(self) -> Mapping[str, str]:
        """Return the versions of the engine and of what it runs on."""
        return {}

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
            older_than_hours=older_than_hours,
            log_retention_hours=log_retention_hours,
            dry_run=dry_run,
        )

    def verify(self, table: TableReference, *, full: bool) -> VerifyReport:
        """Verify a table, even one that cannot be opened."""
        return verify_table(self.path(table), full=full, options=self.options)


Clauses = Mapping[str, tuple[str, Callable[[StatementCursor], Any]]]
"""Clauses by their first words: the field of the statement, and the parser of its value."""

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
"""Syntax of a clause's value by its parser."""


def row_schema(text: str) -> pa.Schema:
    """A schema from `name type, name type, ...` with the short type names of the command reference."""
    pairs = [part.split() for part in text.split(",")]
    return pa.schema([pa.field(name, _TYPES[kind]) for name, kind in pairs])


@dataclass(frozen=True)
class Command(ABC):
    """Base of the statements."""

    leads: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Its first words, and the fields that they set. Empty for a base class."""
    clauses: ClassVar[Clauses] = {}
    """The clauses after the beginning, in any order."""
    refused: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """Known but unsupported clauses with the reason and the alternative."""
    path_only: ClassVar[bool] = False
    """Whether it is ours only with a path in quotes after the first words, which Spark uses for
    tables by name.
    """
    offered: ClassVar[bool] = True
    """Whether it can be run; some are known only to be refused with the alternative."""
    columns: ClassVar[pa.Schema]
    """Columns of its rows. Maps, lists and parameters are JSON text."""

    @classmethod
    def usage(cls) -> str:
        """Return the syntax after its first words."""
        return " ".join(
            f"[{phrase}{_VALUES.get(read, '')}]" for phrase, (_, read) in cls.clauses.items()
        )

    @classmethod
    def read(cls, cursor: StatementCursor, fields: Mapping[str, Any]) -> Self:
        """Parse the rest of the statement; `fields` are set by its first words."""
        return cls(**fields, **cursor.clauses(cls.clauses))

    @abstractmethod
    def words(self) -> Iterator[str | None]:
        """Return the statement in parts; None is a missing clause."""

    @abstractmethod
    def run(self, session: Session) -> pa.Table:
        """Run the statement. The rows have exactly its columns."""

    def __str__(self) -> str:
        return " ".join(part for part in self.words() if part is not None)

    # -- rows

    def rows(self, values: Iterable[Mapping[str, Any]]) -> pa.Table:
        """Build the documented table from mappings; each must have exactly its columns."""
        rows = [dict(row) for row in values]
        for row in rows:
            if row.keys() != set(self.columns.names):
                raise ValueError(f"columns {sorted(row)} instead of {sorted(self.columns.names)}")
        return pa.Table.from_pylist(rows, schema=self.columns)

    def report_row(self, report: Report, **others: Any) -> pa.Table:
        """Return the figures of a report as one row; `others` are additional or renamed columns."""
        figures = {**report.to_dict(), **others}
        return self.rows([{name: figures[name] for name in self.columns.names}])

    def shape(self, table: pa.Table) -> pa.Table:
        """Return an Arrow table with the documented columns in the documented order and types."""
        return table.select(self.columns.names).cast(self.columns)


@dataclass(frozen=True)
class TableCommand(Command):
    """A statement that names a table, followed by clauses."""

    table: TableReference

    @classmethod
    def usage(cls) -> str:
        return f"'path' {super().usage()}".rstrip()

    @classmethod
    def read(cls, cursor: StatementCursor, fields: Mapping[str, Any]) -> Self:
        table = cursor.table(before=(*cls.clauses, *cls.refused))
        return cls(table=table, **fields, **cursor.clauses(cls.clauses, cls.refused))


def clause(words: str, value: object, unit: str = "") -> str | None:
    """Return a clause with its value, if there is one."""
    if value is None:
        return None
    return f"{words} {value} {unit}".rstrip()


def flag(words: str, present: bool) -> str | None:
    """Return a clause without a value, if it is set."""
    if present:
        return words
    return None
