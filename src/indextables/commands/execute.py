"""Commands to verbs: each command has one small function that calls the verb of `Table` and shapes its report as rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from indextables.commands.environment import environment
from indextables.commands.results import rows, shaped
from indextables.commands.values import (
    Command,
    DescribeEnvironment,
    DescribeHistory,
    DescribeSkippedFiles,
    DescribeTransactionLog,
    InvalidateCache,
    TableName,
    TablePath,
    TableReference,
)
from indextables.errors import InvalidInputError, UnsupportedError
from indextables.log.cache import CacheStats
from indextables.log.transaction_log import PROCESS_CACHE
from indextables.table import Table
from indextables.table.handle import open_log


def no_names(name: TableName) -> str:
    """The resolver outside of a session: there are no names."""
    raise InvalidInputError(
        f"There is no session in which {name} could be looked up.",
        hint="Give the table's path in quotes.",
        name=".".join(name.parts),
    )


@dataclass(frozen=True)
class Session:
    """Where a command runs: the settings in force, and how the name of a table becomes its path."""

    options: Mapping[str, object] = field(default_factory=dict)
    resolve: Callable[[TableName], str] = no_names

    def path(self, table: TableReference) -> str:
        """Where a table is."""
        return table.path if isinstance(table, TablePath) else self.resolve(table)

    def open(self, table: TableReference) -> Table:
        """The table at its newest version."""
        return Table.open(self.path(table), options=self.options)


def execute(command: Command, *, session: Session | None = None) -> pa.Table:
    """Run a command; its rows have exactly the columns of `results.schema_of(command)`."""
    run = EXECUTIONS.get(type(command))
    if run is None:
        raise UnsupportedError(f"This release does not run {command}.")
    return run(command, session or Session())


def _history(command: DescribeHistory, session: Session) -> pa.Table:
    return shaped(command, session.open(command.table).history(limit=command.limit))


def _skipped_files(command: DescribeSkippedFiles, session: Session) -> pa.Table:
    return shaped(command, session.open(command.table).skipped_files())


def _transaction_log(command: DescribeTransactionLog, session: Session) -> pa.Table:
    return shaped(command, session.open(command.table).log_actions(include_all=command.include_all))


def _environment(command: DescribeEnvironment, session: Session) -> pa.Table:
    return rows(command, environment(session.options))


def _invalidate(command: InvalidateCache, session: Session) -> pa.Table:
    """Asks nothing of the store: a table that cannot be opened can still be forgotten."""
    if command.table is None:
        before, gone, shown = PROCESS_CACHE.stats(), PROCESS_CACHE.invalidate(), "all tables"
    else:
        log = open_log(session.path(command.table), session.options)
        before, gone, shown = log.cache_stats(), log.invalidate_cache(), log.store.url
    return rows(command, [{"table_path": shown, "result": f"{gone} entries forgotten", **_figures(before)}])


def _figures(before: CacheStats) -> dict[str, Any]:
    hits, misses = sum(before.hits.values()), sum(before.misses.values())
    rate = 100 * hits / (hits + misses) if hits + misses else 0.0
    return {"cache_hits_before": hits, "cache_misses_before": misses, "hit_rate_before": f"{rate:.1f} %"}


EXECUTIONS: Mapping[type[Command], Callable[[Any, Session], pa.Table]] = {
    DescribeHistory: _history,
    DescribeSkippedFiles: _skipped_files,
    DescribeTransactionLog: _transaction_log,
    DescribeEnvironment: _environment,
    InvalidateCache: _invalidate,
}
"""What runs each command."""
