"""The statements: how each begins, how it goes on, and the function that reads the rest of it into its command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from indextables.commands.cursor import StatementCursor
from indextables.commands.values import (
    Checkpoint,
    Command,
    DescribeComponentSizes,
    DescribeDiskCache,
    DescribeEnvironment,
    DescribeHistory,
    DescribeMergeJobs,
    DescribeSkippedFiles,
    DescribeState,
    DescribeTransactionLog,
    DropPartitions,
    FlushDiskCache,
    InvalidateCache,
    MergeSplits,
    PrewarmCache,
    Purge,
    RepairLog,
    Restore,
    TruncateTimeTravel,
    Verify,
)
from indextables.table.moments import to_epoch_ms

Clauses = Mapping[str, tuple[str, Callable[[StatementCursor], Any]]]
"""By the words that begin a clause: the field of the command it fills, and how its value is read."""

_WHERE: Clauses = {"WHERE": ("where", StatementCursor.predicate)}
_DRY_RUN: Clauses = {"DRY RUN": ("dry_run", StatementCursor.given)}
_MERGE: Clauses = {
    **_WHERE,
    "TARGET SIZE": ("target_size_bytes", StatementCursor.size),
    "MAX DEST SPLITS": ("max_dest_splits", StatementCursor.count),
    "MAX SOURCE SPLITS PER MERGE": ("max_source_splits", StatementCursor.count),
    **_DRY_RUN,
}
_PURGE: Clauses = {
    "OLDER THAN": ("older_than_hours", StatementCursor.hours),
    "TRANSACTION LOG RETENTION": ("log_retention_hours", StatementCursor.hours),
    **_DRY_RUN,
}
_PREWARM: Clauses = {"ON FIELDS": ("fields", StatementCursor.names), **_WHERE}


@dataclass(frozen=True)
class Statement:
    """One statement: the words after its lead, for people, and how they are read."""

    rest: str
    read: Callable[[StatementCursor], Command]


def _about_a_table(command: Callable[..., Command], clauses: Clauses | None = None, **fixed: Any) -> Statement:
    """A statement that names a table and goes on with clauses."""
    known = clauses or {}

    def read(cursor: StatementCursor) -> Command:
        table = cursor.table(before=known)
        return command(table=table, **fixed, **cursor.clauses(known))

    shown = ["'path'", *(f"[{phrase}{_VALUES.get(read, '')}]" for phrase, (_, read) in known.items())]
    return Statement(" ".join(shown), read)


_VALUES: Mapping[Callable[[StatementCursor], Any], str] = {
    StatementCursor.predicate: " condition",
    StatementCursor.size: " 100M|1G|n",
    StatementCursor.count: " n",
    StatementCursor.whole_number: " n",
    StatementCursor.hours: " n DAYS|HOURS",
    StatementCursor.names: " (a, b)",
    StatementCursor.path: " 'path'",
}
"""How the value of a clause is written, by the function that reads it."""


def _about_nothing(command: Callable[[], Command]) -> Statement:
    """A statement that is complete as it begins."""
    return Statement("", lambda _cursor: command())


def _drop_partitions(cursor: StatementCursor) -> Command:
    table = cursor.table(before=_WHERE)
    cursor.choose(_WHERE)
    where = cursor.predicate()
    if not cursor.ends():
        cursor.choose((), or_else=("AND", "OR", "the end"))
    return DropPartitions(table, where)


def _restore(cursor: StatementCursor) -> Command:
    forms = ("TO VERSION", "TO TIMESTAMP")
    table = cursor.table(before=forms)
    if cursor.choose(forms) == "TO VERSION":
        return Restore(table, version=cursor.whole_number())
    moment = cursor.string("a moment in quotes, such as '2026-01-31T12:00:00Z'")
    cursor.placed(moment, lambda: to_epoch_ms(moment.value))
    return Restore(table, timestamp=str(moment.value))


def _invalidate(cursor: StatementCursor) -> Command:
    return InvalidateCache(**cursor.clauses({"FOR": ("table", StatementCursor.table)}))


STATEMENTS: Mapping[str, Statement] = {
    "MERGE SPLITS": _about_a_table(MergeSplits, _MERGE),
    "PURGE INDEXTABLE": _about_a_table(Purge, _PURGE),
    "DROP INDEXTABLES PARTITIONS FROM": Statement("'path' WHERE condition", _drop_partitions),
    "CHECKPOINT INDEXTABLES": _about_a_table(Checkpoint, compact=False),
    "COMPACT INDEXTABLES": _about_a_table(Checkpoint, compact=True),
    "TRUNCATE INDEXTABLES TIME TRAVEL": _about_a_table(TruncateTimeTravel, _DRY_RUN),
    "REPAIR INDEXFILES TRANSACTION LOG": _about_a_table(
        RepairLog, {"AT LOCATION": ("at_location", StatementCursor.path)}
    ),
    "RESTORE INDEXTABLES": Statement("'path' TO VERSION n|TO TIMESTAMP 't'", _restore),
    "VERIFY INDEXTABLES": _about_a_table(Verify, {"FULL": ("full", StatementCursor.given)}),
    "DESCRIBE INDEXTABLES STATE": _about_a_table(DescribeState),
    "DESCRIBE INDEXTABLES TRANSACTION LOG": _about_a_table(
        DescribeTransactionLog, {"INCLUDE ALL": ("include_all", StatementCursor.given)}
    ),
    "DESCRIBE INDEXTABLES HISTORY": _about_a_table(DescribeHistory, {"LIMIT": ("limit", StatementCursor.whole_number)}),
    "DESCRIBE INDEXTABLES SKIPPED FILES": _about_a_table(DescribeSkippedFiles),
    "DESCRIBE INDEXTABLES COMPONENT SIZES": _about_a_table(DescribeComponentSizes, _WHERE),
    "DESCRIBE INDEXTABLES MERGE JOBS": _about_nothing(DescribeMergeJobs),
    "DESCRIBE INDEXTABLES ENVIRONMENT": _about_nothing(DescribeEnvironment),
    "DESCRIBE INDEXTABLES DISK CACHE": _about_nothing(DescribeDiskCache),
    "FLUSH INDEXTABLES DISK CACHE": _about_nothing(FlushDiskCache),
    "PREWARM INDEXTABLES CACHE": _about_a_table(PrewarmCache, _PREWARM),
    "INVALIDATE INDEXTABLES TRANSACTION LOG CACHE": Statement("[FOR 'path']", _invalidate),
}
"""By the words each begins with. The name of a table may stand wherever the table's path does."""


def form(lead: str) -> str:
    """How a statement is written."""
    return f"{lead} {STATEMENTS[lead].rest}".rstrip()


def forms() -> list[str]:
    """How every statement is written."""
    return [form(lead) for lead in STATEMENTS]
