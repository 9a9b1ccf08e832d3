"""Where a command runs: settings, and how the name of a table becomes its path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from indextables.commands.cursor import TableName, TablePath, TableReference
from indextables.errors import InvalidInputError
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

    def merge(self, table: TableReference, **asked: Any) -> MergeReport:
        """Merge the splits of a table; what is asked for is as in `Table.merge`."""
        return self.open(table).merge(**asked)

    def purge(self, table: TableReference, **asked: Any) -> PurgeReport:
        """Purge a table, as `Table.purge` does."""
        return self.open(table).purge(**asked)

    def verify(self, table: TableReference, *, full: bool) -> VerifyReport:
        """Verify a table, even one that cannot be opened."""
        return verify_table(self.path(table), full=full, options=self.options)
