"""Statements of Delta Lake (VACUUM, OPTIMIZE, RESTORE TABLE, DESCRIBE HISTORY and DETAIL), and
refused statements.

Each is another form of one of our statements and returns its rows; DETAIL shows
`table.inspect.detail()`. Spark and other packages have statements with the same first words about
tables by name: ours have a path in quotes.

Known statements of IndexTables for the JVM that are not supported are refused with the reason and
the alternative. Otherwise they would reach Spark's parser, which only reports a syntax error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import msgspec
import pyarrow as pa

from indextables.commands.describe import DescribeHistory
from indextables.commands.statement import (
    DRY_RUN,
    WHERE,
    Clauses,
    Command,
    Session,
    StatementCursor,
    TableCommand,
    clause,
    flag,
    quote_text,
    row_schema,
)
from indextables.commands.upkeep import MergeSplits, Purge, Restore
from indextables.errors import UnsupportedError


@dataclass(frozen=True)
class Vacuum(Purge):
    """Alias of PURGE INDEXTABLE: delete files that no retained version needs."""

    leads: ClassVar = {"VACUUM": {}}
    path_only: ClassVar[bool] = True
    clauses: ClassVar[Clauses] = {"RETAIN": ("older_than_hours", StatementCursor.hours), **DRY_RUN}

    def words(self) -> Iterator[str | None]:
        yield f"VACUUM {self.table}"
        yield clause("RETAIN", self.older_than_hours, "HOURS")
        yield flag("DRY RUN", self.dry_run)


@dataclass(frozen=True)
class Optimize(MergeSplits):
    """Alias of MERGE SPLITS: merge small splits into larger ones."""

    leads: ClassVar = {"OPTIMIZE": {}}
    path_only: ClassVar[bool] = True
    clauses: ClassVar[Clauses] = WHERE

    def words(self) -> Iterator[str | None]:
        yield f"OPTIMIZE {self.table}"
        yield clause("WHERE", self.where)


@dataclass(frozen=True)
class RestoreTable(Restore):
    """Alias of RESTORE INDEXTABLES: restore an older version as a new one."""

    leads: ClassVar = {"RESTORE TABLE": {}}
    path_only: ClassVar[bool] = True
    to_version: ClassVar[str] = "TO VERSION AS OF"
    to_timestamp: ClassVar[str] = "TO TIMESTAMP AS OF"

    def words(self) -> Iterator[str | None]:
        yield f"RESTORE TABLE {self.table}"
        yield clause(self.to_version, self.version)
        yield (
            None if self.timestamp is None else f"{self.to_timestamp} {quote_text(self.timestamp)}"
        )


@dataclass(frozen=True)
class DescribeTableHistory(DescribeHistory):
    """Alias of DESCRIBE INDEXTABLES HISTORY: list the commits, newest first."""

    leads: ClassVar = {"DESCRIBE HISTORY": {}}
    path_only: ClassVar[bool] = True

    def words(self) -> Iterator[str | None]:
        yield f"DESCRIBE HISTORY {self.table}"
        yield clause("LIMIT", self.limit)


@dataclass(frozen=True)
class DescribeDetail(TableCommand):
    """Describe a table in one row: identity, location, partitioning, size, properties and protocol."""

    leads: ClassVar = {"DESCRIBE DETAIL": {}}
    path_only: ClassVar[bool] = True
    columns: ClassVar[pa.Schema] = row_schema(
        "format s, id s, name s, description s, location s, created_at ts, last_modified ts, partition_columns s,"
        "num_files l, num_records l, size_in_bytes l, properties s, min_reader_version i, min_writer_version i,"
        "table_features s, version l"
    )

    def words(self) -> Iterator[str | None]:
        yield f"DESCRIBE DETAIL {self.table}"

    def run(self, session: Session) -> pa.Table:
        detail = session.open(self.table).inspect.detail()
        figures = {name: getattr(detail, name) for name in self.columns.names}
        lists = ("partition_columns", "properties", "table_features")
        return self.rows(
            [{**figures, **{name: msgspec.json.encode(figures[name]).decode() for name in lists}}]
        )


_COMPANION = (
    "no statement makes a companion",
    "Use Table.companion(path, source=...) in Python, or `indextables companion`.",
)
_ROOTS = (
    "a companion has one source, at the path or URL that its metadata names",
    "Make another companion with Table.companion(path, source=...).",
)


@dataclass(frozen=True)
class NotOffered(Command):
    """A statement of IndexTables for the JVM that is not supported."""

    lead: str
    reason: str
    way_out: str

    leads: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        lead: {"lead": lead, "reason": reason, "way_out": way_out}
        for lead, (reason, way_out) in {
            "BUILD INDEXTABLES COMPANION": _COMPANION,
            "SET INDEXTABLES TABLE ROOT": _ROOTS,
            "UNSET INDEXTABLES TABLE ROOT": _ROOTS,
            "DESCRIBE INDEXTABLES TABLE ROOTS": _ROOTS,
        }.items()
    }
    columns: ClassVar[pa.Schema] = row_schema("message s")
    offered: ClassVar[bool] = False

    @classmethod
    def read(cls, cursor: StatementCursor, fields: Mapping[str, Any]) -> Self:
        """Accept the statement in any form: only its first words are parsed."""
        while not cursor.ends():
            cursor.advance()
        return cls(**fields)

    def words(self) -> Iterator[str | None]:
        yield self.lead

    def run(self, session: Session) -> pa.Table:  # noqa: ARG002 (it is never run)
        """Raise the refusal."""
        raise UnsupportedError(f"{self.lead} is not offered: {self.reason}.", hint=self.way_out)
