"""The statements that change a table: each calls one verb of upkeep and shows its report as a row.

Of a dry run the message lists, line by line, everything that the real run would touch.
"""

from __future__ import annotations

from math import ceil

import pyarrow as pa

from indextables.commands.results import reported, rows
from indextables.commands.session import Session
from indextables.commands.values import (
    Checkpoint,
    DropPartitions,
    MergeSplits,
    Purge,
    RepairLog,
    Restore,
    TruncateTimeTravel,
    Verify,
)
from indextables.model.report import Report, text_table
from indextables.table import Table
from indextables.upkeep.status import NO_ACTION, SUCCESS


def merge_splits(command: MergeSplits, session: Session) -> pa.Table:
    """MERGE SPLITS. Splits that could not be read, and groups that another writer changed, are named in the message."""
    report = session.merge(
        command.table,
        target_size=command.target_size_bytes,
        where=command.where,
        max_dest_splits=command.max_dest_splits,
        max_source_splits=command.max_source_splits,
        dry_run=command.dry_run,
    )
    return reported(command, report, message=with_details(report.message, report))


def purge(command: Purge, session: Session) -> pa.Table:
    """PURGE INDEXTABLE. A retention of a fraction of an hour is shown as the next whole hour."""
    report = session.purge(
        command.table,
        older_than_hours=command.older_than_hours,
        log_retention_hours=command.log_retention_hours,
        dry_run=command.dry_run,
    )
    message = with_details(report.message, report) if command.dry_run else report.message
    return reported(command, report, message=message, retention_hours=ceil(report.retention_hours))


def drop_partitions(command: DropPartitions, session: Session) -> pa.Table:
    """DROP INDEXTABLES PARTITIONS."""
    return reported(command, session.open(command.table).drop_partitions(command.where))


def checkpoint(command: Checkpoint, session: Session) -> pa.Table:
    """CHECKPOINT INDEXTABLES and COMPACT INDEXTABLES."""
    table = session.open(command.table)
    report = table.compact() if command.compact else table.checkpoint()
    status = SUCCESS if report.written else NO_ACTION
    return reported(command, report, table_path=table.path, status=status, checkpoint_version=report.version)


def truncate_time_travel(command: TruncateTimeTravel, session: Session) -> pa.Table:
    """TRUNCATE INDEXTABLES TIME TRAVEL."""
    report = session.open(command.table).truncate_time_travel(dry_run=command.dry_run)
    message = with_details(report.message, report) if command.dry_run else report.message
    return reported(command, report, message=message)


def repair_log(command: RepairLog, session: Session) -> pa.Table:
    """REPAIR INDEXFILES TRANSACTION LOG: in place from the splits, or as a clean copy elsewhere."""
    path = session.path(command.table)
    return reported(command, Table.repair(path, at=command.at_location, options=session.options))


def restore(command: Restore, session: Session) -> pa.Table:
    """RESTORE INDEXTABLES."""
    return reported(command, session.open(command.table).restore(version=command.version, timestamp=command.timestamp))


def verify(command: Verify, session: Session) -> pa.Table:
    """VERIFY INDEXTABLES: a row for each finding. A table that cannot be opened is verified all the same."""
    report = session.verify(command.table, full=command.full)
    return rows(command, report.details()["findings"])


def with_details(message: str, report: Report) -> str:
    """A message, and below it everything that the report lists."""
    tables = [f"{name}:\n{text_table(rows)}" for name, rows in report.details().items() if rows]
    return "\n".join([message, *tables])
