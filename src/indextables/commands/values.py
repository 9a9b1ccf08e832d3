"""The commands: one frozen value per statement. `str()` is SQL that parses back to an equal value.

A table is named by a path in quotes (`TablePath`) or by a name (`TableName`) that whoever runs the command resolves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from indextables.model.predicate import Literal, Predicate


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


class Command(ABC):
    """Root of the commands."""

    @abstractmethod
    def words(self) -> Iterator[str | None]:
        """The statement in parts; None stands for a clause that is not there."""

    def __str__(self) -> str:
        return " ".join(part for part in self.words() if part is not None)


@dataclass(frozen=True)
class MergeSplits(Command):
    """Write small splits together into larger ones."""

    table: TableReference
    where: Predicate | None = None
    target_size_bytes: int | None = None
    max_dest_splits: int | None = None
    max_source_splits: int | None = None
    dry_run: bool = False

    def words(self) -> Iterator[str | None]:
        yield f"MERGE SPLITS {self.table}"
        yield clause("WHERE", self.where)
        yield clause("TARGET SIZE", self.target_size_bytes)
        yield clause("MAX DEST SPLITS", self.max_dest_splits)
        yield clause("MAX SOURCE SPLITS PER MERGE", self.max_source_splits)
        yield flag("DRY RUN", self.dry_run)


@dataclass(frozen=True)
class Purge(Command):
    """Delete files that no retained version needs."""

    table: TableReference
    older_than_hours: int | None = None
    log_retention_hours: int | None = None
    dry_run: bool = False

    def words(self) -> Iterator[str | None]:
        yield f"PURGE INDEXTABLE {self.table}"
        yield clause("OLDER THAN", self.older_than_hours, "HOURS")
        yield clause("TRANSACTION LOG RETENTION", self.log_retention_hours, "HOURS")
        yield flag("DRY RUN", self.dry_run)


@dataclass(frozen=True)
class DropPartitions(Command):
    """Remove the splits of whole partitions."""

    table: TableReference
    where: Predicate

    def words(self) -> Iterator[str | None]:
        yield f"DROP INDEXTABLES PARTITIONS FROM {self.table} WHERE {self.where}"


@dataclass(frozen=True)
class Checkpoint(Command):
    """Write the state of the newest version; `compact` rewrites all of it."""

    table: TableReference
    compact: bool = False

    def words(self) -> Iterator[str | None]:
        yield f"{'COMPACT' if self.compact else 'CHECKPOINT'} INDEXTABLES {self.table}"


@dataclass(frozen=True)
class TruncateTimeTravel(Command):
    """Keep the current state only."""

    table: TableReference
    dry_run: bool = False

    def words(self) -> Iterator[str | None]:
        yield f"TRUNCATE INDEXTABLES TIME TRAVEL {self.table}"
        yield flag("DRY RUN", self.dry_run)


@dataclass(frozen=True)
class RepairLog(Command):
    """Rebuild a lost log from the splits, or write a clean copy of a log to another place."""

    table: TableReference
    at_location: str | None = None

    def words(self) -> Iterator[str | None]:
        yield f"REPAIR INDEXFILES TRANSACTION LOG {self.table}"
        yield None if self.at_location is None else f"AT LOCATION {quoted(self.at_location)}"


@dataclass(frozen=True)
class Restore(Command):
    """Bring an older version back as a new one; exactly one of `version` and `timestamp` is given."""

    table: TableReference
    version: int | None = None
    timestamp: str | None = None

    def words(self) -> Iterator[str | None]:
        yield f"RESTORE INDEXTABLES {self.table}"
        yield clause("TO VERSION", self.version)
        yield None if self.timestamp is None else f"TO TIMESTAMP {quoted(self.timestamp)}"


@dataclass(frozen=True)
class Verify(Command):
    """Look for damage; `full` reads every split."""

    table: TableReference
    full: bool = False

    def words(self) -> Iterator[str | None]:
        yield f"VERIFY INDEXTABLES {self.table}"
        yield flag("FULL", self.full)


@dataclass(frozen=True)
class DescribeState(Command):
    """The state the newest version is read from."""

    table: TableReference

    def words(self) -> Iterator[str | None]:
        yield f"DESCRIBE INDEXTABLES STATE {self.table}"


@dataclass(frozen=True)
class DescribeTransactionLog(Command):
    """The actions of the log: since the last checkpoint, or all that are left."""

    table: TableReference
    include_all: bool = False

    def words(self) -> Iterator[str | None]:
        yield f"DESCRIBE INDEXTABLES TRANSACTION LOG {self.table}"
        yield flag("INCLUDE ALL", self.include_all)


@dataclass(frozen=True)
class DescribeHistory(Command):
    """What was committed, newest first."""

    table: TableReference
    limit: int | None = None

    def words(self) -> Iterator[str | None]:
        yield f"DESCRIBE INDEXTABLES HISTORY {self.table}"
        yield clause("LIMIT", self.limit)


@dataclass(frozen=True)
class DescribeSkippedFiles(Command):
    """Splits that an operation could not process."""

    table: TableReference

    def words(self) -> Iterator[str | None]:
        yield f"DESCRIBE INDEXTABLES SKIPPED FILES {self.table}"


@dataclass(frozen=True)
class DescribeComponentSizes(Command):
    """How many bytes each part of each split takes."""

    table: TableReference
    where: Predicate | None = None

    def words(self) -> Iterator[str | None]:
        yield f"DESCRIBE INDEXTABLES COMPONENT SIZES {self.table}"
        yield clause("WHERE", self.where)


@dataclass(frozen=True)
class DescribeMergeJobs(Command):
    """The merges that run in the background of this process, and those that ran."""

    def words(self) -> Iterator[str | None]:
        yield "DESCRIBE INDEXTABLES MERGE JOBS"


@dataclass(frozen=True)
class DescribeEnvironment(Command):
    """Settings and versions of the driver and its workers."""

    def words(self) -> Iterator[str | None]:
        yield "DESCRIBE INDEXTABLES ENVIRONMENT"


@dataclass(frozen=True)
class DescribeDiskCache(Command):
    """What the local cache of splits holds."""

    def words(self) -> Iterator[str | None]:
        yield "DESCRIBE INDEXTABLES DISK CACHE"


@dataclass(frozen=True)
class FlushDiskCache(Command):
    """Empty the local cache of splits."""

    def words(self) -> Iterator[str | None]:
        yield "FLUSH INDEXTABLES DISK CACHE"


@dataclass(frozen=True)
class PrewarmCache(Command):
    """Fetch splits, or some of their columns, into the local cache."""

    table: TableReference
    fields: tuple[str, ...] = ()
    where: Predicate | None = None

    def words(self) -> Iterator[str | None]:
        yield f"PREWARM INDEXTABLES CACHE {self.table}"
        yield f"ON FIELDS ({', '.join(str(TableName((f,))) for f in self.fields)})" if self.fields else None
        yield clause("WHERE", self.where)


@dataclass(frozen=True)
class InvalidateCache(Command):
    """Forget what the process remembers of one table's log, or of all."""

    table: TableReference | None = None

    def words(self) -> Iterator[str | None]:
        yield "INVALIDATE INDEXTABLES TRANSACTION LOG CACHE"
        yield clause("FOR", self.table)


def quoted(text: str) -> str:
    """A text as a string of SQL."""
    return str(Literal(text))


def clause(words: str, value: object, unit: str = "") -> str | None:
    """A clause with its value, if there is one."""
    return None if value is None else f"{words} {value} {unit}".rstrip()


def flag(words: str, given: bool) -> str | None:
    """A clause without a value, if it was given."""
    return words if given else None
