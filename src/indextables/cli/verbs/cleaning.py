"""The verbs that take something away: purge, truncate, drop-partitions, restore. Each shows its plan and asks."""

from __future__ import annotations

from typing import Annotated

import typer

from indextables.cli import options
from indextables.cli.verb import confirm_and_run, open_table, verb
from indextables.errors import InvalidInputError
from indextables.model.report import Progress
from indextables.upkeep.delete import DeleteReport
from indextables.upkeep.drop_partitions import DropReport
from indextables.upkeep.purge import PurgeReport
from indextables.upkeep.restore import RestoreReport
from indextables.upkeep.truncate import TruncateReport

app = typer.Typer()
_CLEANING = "Cleaning (shows a plan and asks)"


@verb(app, "purge", panel=_CLEANING, example="purge logs --dry-run\npurge logs --older-than-hours 48 --yes")
def purge(
    path: options.PathArgument,
    older_than_hours: Annotated[
        float | None, typer.Option(min=0, help="Keep splits for so long after they were removed; 168 by default.")
    ] = None,
    log_retention_hours: Annotated[
        float | None, typer.Option(min=0, help="Keep files of the log for so long; 720 by default.")
    ] = None,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Delete splits that no version of the retention period has, expired files of the log, and leftovers."""
    table = open_table(path, option)

    def act(*, dry_run: bool, progress: Progress) -> PurgeReport:
        return table.purge(
            older_than_hours=older_than_hours,
            log_retention_hours=log_retention_hours,
            dry_run=dry_run,
            progress=progress,
        )

    confirm_and_run(f"Purge {table.path}", act, dry_run=dry_run, yes=yes, as_json=json)


@verb(app, "expire", panel=_CLEANING, example="expire logs --dry-run\nexpire logs --yes")
def expire(
    path: options.PathArgument,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Delete rows whose time is over, by the table's settings retention.column and retention.period."""
    table = open_table(path, option)

    def act(*, dry_run: bool, progress: Progress) -> DeleteReport:
        return table.expire(dry_run=dry_run, progress=progress)

    confirm_and_run(f"Expire rows of {table.path}", act, dry_run=dry_run, yes=yes, as_json=json)


@verb(app, "truncate", panel=_CLEANING, example="truncate logs --dry-run")
def truncate(
    path: options.PathArgument,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Forget every version but the newest: time travel ends there. No split is deleted."""
    table = open_table(path, option)

    def act(*, dry_run: bool, progress: Progress) -> TruncateReport:
        return table.truncate_time_travel(dry_run=dry_run, progress=progress)

    confirm_and_run(f"Truncate the history of {table.path}", act, dry_run=dry_run, yes=yes, as_json=json)


@verb(app, "drop-partitions", panel=_CLEANING, example="drop-partitions logs \"day < '2026-10-01'\"")
def drop_partitions(
    path: options.PathArgument,
    where: Annotated[str, typer.Argument(metavar="CONDITION", help="SQL condition over partition columns.")],
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Remove every row of the partitions that match. They stay readable in older versions until a purge."""
    table = open_table(path, option)

    def act(*, dry_run: bool, progress: Progress) -> DropReport:  # noqa: ARG001
        return table.drop_partitions(where, dry_run=dry_run)

    confirm_and_run(f"Drop these partitions of {table.path}", act, dry_run=dry_run, yes=yes, as_json=json)


@verb(
    app, "restore", panel=_CLEANING, example="restore logs --version 3\nrestore logs --timestamp 2026-11-15T12:00:00Z"
)
def restore(
    path: options.PathArgument,
    version: Annotated[str | None, typer.Option(metavar="N", help="The version to bring back, or its tag.")] = None,
    timestamp: Annotated[str | None, typer.Option(metavar="TIME", help="The moment to bring back.")] = None,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Bring an older version back, as a new version. What was written since stays in the history."""
    if (version is None) == (timestamp is None):
        raise InvalidInputError(
            "Nothing says what to restore.", hint="Give --version N or --timestamp TIME, one of them."
        )
    table = open_table(path, option)

    def act(*, dry_run: bool, progress: Progress) -> RestoreReport:  # noqa: ARG001
        return table.restore(version=options.version_of(version), timestamp=timestamp, dry_run=dry_run)

    confirm_and_run(f"Restore {table.path}", act, dry_run=dry_run, yes=yes, as_json=json)
