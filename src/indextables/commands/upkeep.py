"""Statements that change a table: each calls one operation and returns its report as a row.

The message of a dry run lists everything that the real run would change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar, Self

import pyarrow as pa

from indextables.commands.statement import (
    DRY_RUN,
    WHERE,
    Clauses,
    Session,
    StatementCursor,
    TableCommand,
    TableName,
    clause,
    flag,
    quote_text,
    row_schema,
)
from indextables.model.arguments import to_epoch_ms
from indextables.model.predicate import Predicate
from indextables.model.report import Report, text_table
from indextables.operations.jobs import NO_ACTION, SUCCESS
from indextables.table import Table


@dataclass(frozen=True)
class MergeSplits(TableCommand):
    """Merge small splits into larger ones."""

    where: Predicate | None = None
    target_size_bytes: int | None = None
    max_dest_splits: int | None = None
    max_source_splits: int | None = None
    dry_run: bool = False
    order_by: tuple[str, ...] | None = None
    rewrite: bool = False
    """Whether only splits of another engine are rewritten."""

    leads: ClassVar = {"MERGE SPLITS": {}}
    clauses: ClassVar[Clauses] = {
        **WHERE,
        "TARGET SIZE": ("target_size_bytes", StatementCursor.size),
        "MAX DEST SPLITS": ("max_dest_splits", StatementCursor.count),
        "MAX GROUPS": ("max_dest_splits", StatementCursor.count),
        "MAX SOURCE SPLITS PER MERGE": ("max_source_splits", StatementCursor.count),
        "ORDER BY": ("order_by", StatementCursor.sort_columns),
        "REWRITE": ("rewrite", StatementCursor.presence),
        **DRY_RUN,
    }
    refused: ClassVar[Mapping[str, tuple[str, str]]] = {
        "PRECOMMIT": (
            "splits are merged after they are committed, never before",
            "Set mergeOnWrite.enabled, which merges right after a write.",
        )
    }
    columns: ClassVar[pa.Schema] = row_schema(
        "table_path s, status s, merged_files l, merge_groups l, original_size_bytes l, merged_size_bytes l,"
        "skipped_files l, version l, message s"
    )

    def words(self) -> Iterator[str | None]:
        yield f"MERGE SPLITS {self.table}"
        yield clause("WHERE", self.where)
        yield clause("TARGET SIZE", self.target_size_bytes)
        yield clause("MAX DEST SPLITS", self.max_dest_splits)
        yield clause("MAX SOURCE SPLITS PER MERGE", self.max_source_splits)
        yield (
            None
            if self.order_by is None
            else f"ORDER BY ({', '.join(column_name(column) for column in self.order_by)})"
        )
        yield flag("REWRITE", self.rewrite)
        yield flag("DRY RUN", self.dry_run)

    def run(self, session: Session) -> pa.Table:
        """Merge. The message names unreadable splits, and groups that another writer changed."""
        report = session.merge(
            self.table,
            target_size=self.target_size_bytes,
            where=self.where,
            max_dest_splits=self.max_dest_splits,
            max_source_splits=self.max_source_splits,
            order_by=self.order_by,
            rewrite=self.rewrite,
            dry_run=self.dry_run,
        )
        return self.report_row(report, message=with_details(report.message, report))


@dataclass(frozen=True)
class Purge(TableCommand):
    """Delete files that no retained version needs."""

    older_than_hours: int | None = None
    log_retention_hours: int | None = None
    dry_run: bool = False

    leads: ClassVar = {"PURGE INDEXTABLE": {}}
    clauses: ClassVar[Clauses] = {
        "OLDER THAN": ("older_than_hours", StatementCursor.hours),
        "TRANSACTION LOG RETENTION": ("log_retention_hours", StatementCursor.hours),
        **DRY_RUN,
    }
    columns: ClassVar[pa.Schema] = row_schema(
        "table_path s, status s, orphaned_files_found l, orphaned_files_deleted l, size_bytes_deleted l,"
        "retention_hours l, tx_log_files_deleted l, expired_states_found l, expired_states_deleted l,"
        "manifests_deleted l, dry_run b, duration_ms l, message s, splits_with_deleted_rows l, masked_rows l"
    )

    def words(self) -> Iterator[str | None]:
        yield f"PURGE INDEXTABLE {self.table}"
        yield clause("OLDER THAN", self.older_than_hours, "HOURS")
        yield clause("TRANSACTION LOG RETENTION", self.log_retention_hours, "HOURS")
        yield flag("DRY RUN", self.dry_run)

    def run(self, session: Session) -> pa.Table:
        """Purge. A fractional retention in hours is rounded up in the row."""
        report = session.purge(
            self.table,
            older_than_hours=self.older_than_hours,
            log_retention_hours=self.log_retention_hours,
            dry_run=self.dry_run,
        )
        if self.dry_run:
            message = with_details(report.message, report)
        else:
            message = report.message
        return self.report_row(
            report, message=message, retention_hours=ceil(report.retention_hours)
        )


@dataclass(frozen=True)
class EraseRows(TableCommand):
    """Erase rows permanently, and prove it by reading every remaining file."""

    where: Predicate
    retention_hours: int | None = None
    dry_run: bool = False

    leads: ClassVar = {"ERASE FROM": {}}
    clauses: ClassVar[Clauses] = {"RETAIN": ("retention_hours", StatementCursor.hours), **DRY_RUN}
    columns: ClassVar[pa.Schema] = row_schema(
        "table_path s, status s, proved b, erased_rows l, erased_masked_rows l, splits_rewritten l, splits_removed l,"
        "files_deleted l, size_bytes_deleted l, retention_hours d, log_retention_hours d, dry_run b, version l, message s"
    )

    @classmethod
    def usage(cls) -> str:
        return "'path' WHERE condition [RETAIN n DAYS|HOURS] [DRY RUN]"

    @classmethod
    def read(cls, cursor: StatementCursor, fields: Mapping[str, Any]) -> Self:
        table = cursor.table(before=WHERE)
        cursor.choose(WHERE)
        where = cursor.predicate()
        return cls(table=table, where=where, **fields, **cursor.clauses(cls.clauses))

    def words(self) -> Iterator[str | None]:
        yield f"ERASE FROM {self.table} WHERE {self.where}"
        yield clause("RETAIN", self.retention_hours, "HOURS")
        yield flag("DRY RUN", self.dry_run)

    def run(self, session: Session) -> pa.Table:
        """Erase. The message lists every file that still holds the rows, until when, and how to
        lift that.
        """
        report = session.open(self.table).erase(
            where=self.where, retention_hours=self.retention_hours, dry_run=self.dry_run
        )
        return self.report_row(report, message=with_details(report.message, report))


@dataclass(frozen=True)
class ExpireRows(TableCommand):
    """Delete expired rows by the table's own retention."""

    dry_run: bool = False

    leads: ClassVar = {"EXPIRE INDEXTABLES": {}}
    clauses: ClassVar[Clauses] = DRY_RUN
    columns: ClassVar[pa.Schema] = row_schema(
        "table_path s, status s, deleted_rows l, splits_rewritten l, splits_removed l, version l, message s"
    )

    def words(self) -> Iterator[str | None]:
        yield f"EXPIRE INDEXTABLES {self.table}"
        yield flag("DRY RUN", self.dry_run)

    def run(self, session: Session) -> pa.Table:
        return self.report_row(session.open(self.table).expire(dry_run=self.dry_run))


@dataclass(frozen=True)
class TagVersion(TableCommand):
    """Tag a version, which protects it from clean-up."""

    tag: str
    version: int | None = None

    leads: ClassVar = {"TAG INDEXTABLES": {}}
    columns: ClassVar[pa.Schema] = row_schema("table_path s, tag s, tagged_version l, version l")

    @classmethod
    def usage(cls) -> str:
        return "'path' [VERSION n] AS 'tag'"

    @classmethod
    def read(cls, cursor: StatementCursor, fields: Mapping[str, Any]) -> Self:
        forms = ("VERSION", "AS")
        table = cursor.table(before=forms)
        version = None
        if cursor.choose(forms) == "VERSION":
            version = cursor.whole_number()
            cursor.choose(("AS",))
        return cls(
            table=table, tag=str(cursor.string("a tag in quotes").value), version=version, **fields
        )

    def words(self) -> Iterator[str | None]:
        yield f"TAG INDEXTABLES {self.table}"
        yield clause("VERSION", self.version)
        yield f"AS {quote_text(self.tag)}"

    def run(self, session: Session) -> pa.Table:
        table = session.open(self.table)
        meant = table.version if self.version is None else self.version
        return self.shape(
            pa.table(
                {
                    "table_path": [table.path],
                    "tag": [self.tag],
                    "tagged_version": [meant],
                    "version": [table.tag(self.tag, version=meant)],
                }
            )
        )


@dataclass(frozen=True)
class UntagVersion(TableCommand):
    """Remove the tag of a version."""

    tag: str

    leads: ClassVar = {"UNTAG INDEXTABLES": {}}
    columns: ClassVar[pa.Schema] = row_schema("table_path s, tag s, version l")

    @classmethod
    def usage(cls) -> str:
        return "'path' 'tag'"

    @classmethod
    def read(cls, cursor: StatementCursor, fields: Mapping[str, Any]) -> Self:
        table = cursor.table()
        return cls(table=table, tag=str(cursor.string("a tag in quotes").value), **fields)

    def words(self) -> Iterator[str | None]:
        yield f"UNTAG INDEXTABLES {self.table}"
        yield quote_text(self.tag)

    def run(self, session: Session) -> pa.Table:
        table = session.open(self.table)
        return self.shape(
            pa.table(
                {"table_path": [table.path], "tag": [self.tag], "version": [table.untag(self.tag)]}
            )
        )


@dataclass(frozen=True)
class DropPartitions(TableCommand):
    """Remove the splits of whole partitions."""

    where: Predicate

    leads: ClassVar = {"DROP INDEXTABLES PARTITIONS FROM": {}}
    columns: ClassVar[pa.Schema] = row_schema(
        "table_path s, status s, partitions_dropped l, splits_removed l, total_size_bytes l, version l, message s"
    )

    @classmethod
    def usage(cls) -> str:
        return "'path' WHERE condition"

    @classmethod
    def read(cls, cursor: StatementCursor, fields: Mapping[str, Any]) -> Self:
        table = cursor.table(before=WHERE)
        cursor.choose(WHERE)
        where = cursor.predicate()
        if not cursor.ends():
            cursor.choose((), or_else=("AND", "OR", "the end"))
        return cls(table=table, where=where, **fields)

    def words(self) -> Iterator[str | None]:
        yield f"DROP INDEXTABLES PARTITIONS FROM {self.table} WHERE {self.where}"

    def run(self, session: Session) -> pa.Table:
        return self.report_row(session.open(self.table).drop_partitions(self.where))


@dataclass(frozen=True)
class Checkpoint(TableCommand):
    """Write the state of the newest version; `compact` rewrites all of it."""

    compact: bool = False

    leads: ClassVar = {
        "CHECKPOINT INDEXTABLES": {"compact": False},
        "COMPACT INDEXTABLES": {"compact": True},
    }
    columns: ClassVar[pa.Schema] = row_schema(
        "table_path s, status s, checkpoint_version l, num_actions l, num_files l, protocol_version l,"
        "is_multi_part b, num_manifests l"
    )

    @classmethod
    def read(cls, cursor: StatementCursor, fields: Mapping[str, Any]) -> Self:
        if cursor.follows("TRANSACTION LOG"):
            hint = "Leave these words out: what is written is the state of the table's transaction log."
            cursor.refuse(
                cursor.token,
                "expected a path in quotes or the name of a table, found TRANSACTION LOG",
                hint=hint,
            )
        return super().read(cursor, fields)

    def words(self) -> Iterator[str | None]:
        yield f"{'COMPACT' if self.compact else 'CHECKPOINT'} INDEXTABLES {self.table}"

    def run(self, session: Session) -> pa.Table:
        table = session.open(self.table)
        report = table.compact() if self.compact else table.checkpoint()
        status = SUCCESS if report.written else NO_ACTION
        return self.report_row(
            report, table_path=table.path, status=status, checkpoint_version=report.version
        )


@dataclass(frozen=True)
class TruncateTimeTravel(TableCommand):
    """Keep the current state only."""

    dry_run: bool = False

    leads: ClassVar = {"TRUNCATE INDEXTABLES TIME TRAVEL": {}}
    clauses: ClassVar[Clauses] = DRY_RUN
    columns: ClassVar[pa.Schema] = row_schema(
        "table_path s, status s, checkpoint_version l, versions_deleted l, checkpoints_deleted l, files_preserved l,"
        "message s"
    )

    def words(self) -> Iterator[str | None]:
        yield f"TRUNCATE INDEXTABLES TIME TRAVEL {self.table}"
        yield flag("DRY RUN", self.dry_run)

    def run(self, session: Session) -> pa.Table:
        report = session.open(self.table).truncate_time_travel(dry_run=self.dry_run)
        if self.dry_run:
            message = with_details(report.message, report)
        else:
            message = report.message
        return self.report_row(report, message=message)


@dataclass(frozen=True)
class RepairLog(TableCommand):
    """Mend a damaged log, rebuild a lost one from the splits, or write a clean copy of a log to
    another place.
    """

    at_location: str | None = None

    leads: ClassVar = {
        "REPAIR INDEXFILES TRANSACTION LOG": {},
        "REPAIR INDEX FILES TRANSACTION LOG": {},
    }
    clauses: ClassVar[Clauses] = {"AT LOCATION": ("at_location", StatementCursor.path)}
    columns: ClassVar[pa.Schema] = row_schema(
        "source_path s, target_path s, source_version l, total_splits i, valid_splits i, missing_splits i, status s,"
        "message s"
    )

    def words(self) -> Iterator[str | None]:
        yield f"REPAIR INDEXFILES TRANSACTION LOG {self.table}"
        yield None if self.at_location is None else f"AT LOCATION {quote_text(self.at_location)}"

    def run(self, session: Session) -> pa.Table:
        """In place, or as a clean copy elsewhere; the message, the last column, names what is lost
        and what to do.
        """
        path = session.path(self.table)
        return self.report_row(Table.repair(path, at=self.at_location, options=session.options))


@dataclass(frozen=True)
class Restore(TableCommand):
    """Bring an older version back as a new one; exactly one of `version` and `timestamp` is given."""

    version: int | None = None
    timestamp: str | None = None

    leads: ClassVar = {"RESTORE INDEXTABLES": {}}
    to_version: ClassVar[str] = "TO VERSION"
    to_timestamp: ClassVar[str] = "TO TIMESTAMP"
    columns: ClassVar[pa.Schema] = row_schema(
        "table_path s, version l, restored_version l, files_added l, files_removed l"
    )

    @classmethod
    def usage(cls) -> str:
        return f"'path' {cls.to_version} n|{cls.to_timestamp} 't'"

    @classmethod
    def read(cls, cursor: StatementCursor, fields: Mapping[str, Any]) -> Self:
        forms = (cls.to_version, cls.to_timestamp)
        table = cursor.table(before=forms)
        if cursor.choose(forms) == cls.to_version:
            return cls(table=table, version=cursor.whole_number(), **fields)
        moment = cursor.string("a timestamp in quotes, such as '2026-01-31T12:00:00Z'")
        cursor.build_at(moment, lambda: to_epoch_ms(moment.value))
        return cls(table=table, timestamp=str(moment.value), **fields)

    def words(self) -> Iterator[str | None]:
        yield f"RESTORE INDEXTABLES {self.table}"
        yield clause("TO VERSION", self.version)
        yield None if self.timestamp is None else f"TO TIMESTAMP {quote_text(self.timestamp)}"

    def run(self, session: Session) -> pa.Table:
        return self.report_row(
            session.open(self.table).restore(version=self.version, timestamp=self.timestamp)
        )


@dataclass(frozen=True)
class Verify(TableCommand):
    """Look for damage; `full` reads every split."""

    full: bool = False

    leads: ClassVar = {"VERIFY INDEXTABLES": {}}
    clauses: ClassVar[Clauses] = {"FULL": ("full", StatementCursor.presence)}
    columns: ClassVar[pa.Schema] = row_schema("check s, severity s, path s, message s")

    def words(self) -> Iterator[str | None]:
        yield f"VERIFY INDEXTABLES {self.table}"
        yield flag("FULL", self.full)

    def run(self, session: Session) -> pa.Table:
        """A row for each finding. A table that cannot be opened is verified all the same."""
        report = session.verify(self.table, full=self.full)
        return self.rows(report.details()["findings"])


def column_name(name: str) -> str:
    """A column as a statement names it."""
    return str(TableName((name,)))


def with_details(message: str, report: Report) -> str:
    """A message, and below it everything that the report lists."""
    tables = [f"{name}:\n{text_table(rows)}" for name, rows in report.details().items() if rows]
    return "\n".join([message, *tables])
