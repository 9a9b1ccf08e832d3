"""Statements of the JVM engine that are known and not offered: each is refused with the reason and the way out.

Without them such a statement would reach Spark's parser, which can only say that it does not understand the word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import pyarrow as pa

from indextables.commands.cursor import StatementCursor
from indextables.commands.statement import Command, Session, row_schema
from indextables.errors import UnsupportedError

_COMPANION = ("a split holds its rows beside its index", "Write the rows with df.write.format('indextables').")


@dataclass(frozen=True)
class NotOffered(Command):
    """A statement of the JVM engine that this one does not have."""

    lead: str
    reason: str
    way_out: str

    leads: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        lead: {"lead": lead, "reason": reason, "way_out": way_out}
        for lead, (reason, way_out) in {
            "BUILD INDEXTABLES COMPANION": _COMPANION,
            "SET INDEXTABLES TABLE ROOT": _COMPANION,
            "UNSET INDEXTABLES TABLE ROOT": _COMPANION,
            "DESCRIBE INDEXTABLES TABLE ROOTS": _COMPANION,
        }.items()
    }
    columns: ClassVar[pa.Schema] = row_schema("message s")
    offered: ClassVar[bool] = False

    @classmethod
    def read(cls, cursor: StatementCursor, fields: Mapping[str, Any]) -> Self:
        """Whatever comes after its first words is not read: the statement is refused in any form."""
        while not cursor.ends():
            cursor.advance()
        return cls(**fields)

    def words(self) -> Iterator[str | None]:
        yield self.lead

    def run(self, session: Session) -> pa.Table:  # noqa: ARG002 (it is never run)
        """Refuse it."""
        raise UnsupportedError(f"{self.lead} is not offered: {self.reason}.", hint=self.way_out)
