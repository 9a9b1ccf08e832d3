"""A statement: one class says how it is written, which columns its rows have, and how it is run.

A statement that was read is a frozen value; `str()` is SQL that parses back to an equal value. Adding a statement is adding
a class to `upkeep`, `describe`, `caches` or `delta`: the parser knows every class with words that it begins with.

Where a command runs: settings, and how the name of a table becomes its path.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import pyarrow as pa

from indextables.commands.cursor import StatementCursor, TableName, TablePath, TableReference
from indextables.errors import InvalidInputError
from indextables.model.predicate import Predicate
from indextables.model.report import Report
from indextables.table import Table, verify_table
from indextables.upkeep.merge import MergeReport
from indextables.upkeep.purge import PurgeReport
from indextables.upkeep.verify import VerifyReport


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
        """The statement in parts; None stands for a clause that is not there."""

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
        table = cursor.table(before=cls.clauses)
        return cls(table=table, **fields, **cursor.clauses(cls.clauses))


def clause(words: str, value: object, unit: str = "") -> str | None:
    """A clause with its value, if there is one."""
    return None if value is None else f"{words} {value} {unit}".rstrip()


def flag(words: str, present: bool) -> str | None:
    """A clause without a value, if it is there."""
    return words if present else None
