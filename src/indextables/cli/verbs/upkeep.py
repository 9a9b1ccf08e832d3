"""Maintenance verbs (merge, verify, repair ...) and destructive ones (purge, restore ...), which
show a plan and ask first.
"""

from __future__ import annotations

from typing import Annotated

import pyarrow as pa
import typer

from indextables.cli import output
from indextables.cli.output import CORRUPT, NOT_PROVED
from indextables.cli.verb import (
    DryRun,
    Json,
    PathArgument,
    Settings,
    Yes,
    confirm_and_run,
    open_table,
    run_verb,
    settings_of,
    verb,
    version_of,
)
from indextables.errors import InvalidInputError
from indextables.log.checkpoint.checkpointer import CheckpointReport
from indextables.model.arguments import byte_size
from indextables.model.report import Progress
from indextables.operations.delete import DeleteReport
from indextables.operations.drop_partitions import DropReport
from indextables.operations.drop_table import DropTableReport
from indextables.operations.erase import EraseReport
from indextables.operations.merge import MergeReport
from indextables.operations.purge import PurgeReport
from indextables.operations.rebuild import RepairReport
from indextables.operations.reindex import ReindexReport
from indextables.operations.restore import RestoreReport
from indextables.operations.truncate import TruncateReport
from indextables.operations.verify import VerifyReport
from indextables.table import Table, verify_table

app = typer.Typer()
_UPKEEP = "Upkeep"


@verb(
    app,
    "merge",
    panel=_UPKEEP,
    example="merge logs --target-size 1G",
)
def merge(
    path: PathArgument,
    target_size: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Size of merged splits: 100M, 4G.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", "-w", metavar="CONDITION", help="Only partitions that match."),
    ] = None,
    max_dest_splits: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Maximum number of new splits.")
    ] = None,
    max_source_splits: Annotated[
        int | None,
        typer.Option(metavar="N", min=2, help="Maximum number of splits merged into one."),
    ] = None,
    order_by: Annotated[
        list[str] | None,
        typer.Option("--order-by", metavar="COLUMN", help="Sort the rows by it; may be repeated."),
    ] = None,
    rewrite: Annotated[
        bool, typer.Option("--rewrite", help="Only splits of another engine, which become ours.")
    ] = False,
    dry_run: DryRun = False,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Merge small splits of the same partition into larger ones. Rows do not change."""
    table = open_table(path, option)

    def act(*, dry_run: bool, progress: Progress) -> MergeReport:
        return table.merge(
            target_size=None if target_size is None else byte_size("--target-size", target_size),
            where=where,
            max_dest_splits=max_dest_splits,
            max_source_splits=max_source_splits,
            order_by=order_by or None,
            rewrite=rewrite,
            dry_run=dry_run,
            progress=progress,
        )

    run_verb("Merging", act, dry_run=dry_run, as_json=json)


@verb(app, "reindex", panel=_UPKEEP, example="reindex logs message=text")
def reindex(
    path: PathArgument,
    columns: Annotated[
        list[str], typer.Argument(metavar="COLUMN=KIND", help="text, string, json, ip or none.")
    ],
    tokenizer: Annotated[
        str | None, typer.Option(metavar="NAME", help="How texts are cut into terms.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where", "-w", metavar="CONDITION", help="Only partitions that match, for now."
        ),
    ] = None,
    dry_run: DryRun = False,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Change the index of columns, existing rows included. An interrupted run continues with the
    same call.
    """
    table = open_table(path, option)
    kinds = dict(column.partition("=")[::2] for column in columns)

    def act(*, dry_run: bool, progress: Progress) -> ReindexReport:
        given = kinds if any(kinds.values()) else list(kinds)
        return table.reindex(
            given, tokenizer=tokenizer, where=where, dry_run=dry_run, progress=progress
        )

    run_verb("Reindexing", act, dry_run=dry_run, as_json=json)


@verb(app, "checkpoint", panel=_UPKEEP, example="checkpoint logs")
def checkpoint(
    path: PathArgument,
    dry_run: DryRun = False,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Write a checkpoint of the table's state, so that opening it does not replay the log."""
    table = open_table(path, option)

    def act(*, dry_run: bool, progress: Progress) -> CheckpointReport:  # noqa: ARG001
        return table.checkpoint(dry_run=dry_run)

    run_verb("Checkpointing", act, dry_run=dry_run, as_json=json)


@verb(app, "compact", panel=_UPKEEP, example="compact logs")
def compact(
    path: PathArgument,
    dry_run: DryRun = False,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Rewrite the table's state: no removed entries, full manifests, sorted by partition."""
    table = open_table(path, option)

    def act(*, dry_run: bool, progress: Progress) -> CheckpointReport:  # noqa: ARG001
        return table.compact(dry_run=dry_run)

    run_verb("Compacting", act, dry_run=dry_run, as_json=json)


@verb(app, "verify", panel=_UPKEEP, example="verify logs")
def verify(
    path: PathArgument,
    full: Annotated[bool, typer.Option("--full", help="Read every byte of every split.")] = False,
    dry_run: DryRun = False,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Check the log and the splits for damage. Changes nothing. Exits with code 8 if there is any."""

    def act(*, dry_run: bool, progress: Progress) -> VerifyReport:
        return verify_table(
            path, full=full, options=settings_of(option), dry_run=dry_run, progress=progress
        )

    if not run_verb("Verifying", act, dry_run=dry_run, as_json=json).healthy:
        raise typer.Exit(CORRUPT)


@verb(
    app,
    "repair",
    panel=_UPKEEP,
    example="repair broken --at mended",
)
def repair(
    path: PathArgument,
    at: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Write a clean copy of the damaged log there."),
    ] = None,
    from_replica: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE", help="Take the state from the replica there, if it is proven."
        ),
    ] = None,
    dry_run: DryRun = False,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Repair the log of a table that cannot be opened. Existing files are not changed.

    Without --at a damaged log is repaired in place and every readable version is kept. If the whole
    log is lost, it is rebuilt from the splits.
    """

    def act(*, dry_run: bool, progress: Progress) -> RepairReport:
        return Table.repair(
            path,
            at=at,
            from_replica=False if from_replica is None else from_replica,
            options=settings_of(option),
            dry_run=dry_run,
            progress=progress,
        )

    run_verb("Repairing", act, dry_run=dry_run, as_json=json)


@verb(
    app,
    "tag",
    panel=_UPKEEP,
    example="tag logs release-7",
)
def tag(
    path: PathArgument,
    name: Annotated[
        str | None, typer.Argument(metavar="TAG", help="The name; without it, tags are listed.")
    ] = None,
    version: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="The version; the newest by default.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take the name away.")] = False,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Name a version, which protects it from clean-up, or list the names."""
    table = open_table(path, option)
    if name is None and (remove or version is not None):
        raise InvalidInputError("Nothing says which tag.", hint="Write: tag PATH TAG.")
    if name is not None and remove:
        table.untag(name)
    elif name is not None:
        table.tag(name, version=version)
    tags = table.tags()
    output.rows(
        pa.table({"tag": [*tags], "version": pa.array(tags.values(), pa.int64())}), as_json=json
    )


_CLEANING = "Cleaning (shows a plan and asks)"


@verb(app, "purge", panel=_CLEANING, example="purge logs --dry-run")
def purge(
    path: PathArgument,
    older_than_hours: Annotated[
        float | None,
        typer.Option(
            min=0, help="Keep splits for so long after they were removed; 168 by default."
        ),
    ] = None,
    log_retention_hours: Annotated[
        float | None, typer.Option(min=0, help="Keep files of the log for so long; 720 by default.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Delete splits outside the retention period, expired log files, and leftovers."""
    table = open_table(path, option)

    def act(*, dry_run: bool, progress: Progress) -> PurgeReport:
        return table.purge(
            older_than_hours=older_than_hours,
            log_retention_hours=log_retention_hours,
            dry_run=dry_run,
            progress=progress,
        )

    confirm_and_run(f"Purge {table.path}", act, dry_run=dry_run, yes=yes, as_json=json)


@verb(
    app,
    "erase",
    panel=_CLEANING,
    example="erase people --where \"email = 'ada@example.org'\" --dry-run",
)
def erase(
    path: PathArgument,
    where: Annotated[
        str,
        typer.Option("--where", "-w", metavar="CONDITION", help="Which rows, as a SQL condition."),
    ],
    retention_hours: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Keep removed splits and files of the log for so long; as the table says by default.",
        ),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Erase matching rows permanently, deleted ones included, and prove it by reading every file.

    Exits with code 13 if a file that retention or a tag protects still contains the rows.
    """
    table = open_table(path, option)

    def act(*, dry_run: bool, progress: Progress) -> EraseReport:
        return table.erase(
            where=where, retention_hours=retention_hours, dry_run=dry_run, progress=progress
        )

    report = confirm_and_run(
        f"Erase these rows of {table.path}", act, dry_run=dry_run, yes=yes, as_json=json
    )
    if not report.proved and not dry_run:
        raise typer.Exit(NOT_PROVED)


@verb(app, "expire", panel=_CLEANING, example="expire logs --dry-run")
def expire(
    path: PathArgument,
    dry_run: DryRun = False,
    yes: Yes = False,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Delete expired rows, by the table's settings retention.column and retention.period."""
    table = open_table(path, option)

    def act(*, dry_run: bool, progress: Progress) -> DeleteReport:
        return table.expire(dry_run=dry_run, progress=progress)

    confirm_and_run(f"Expire rows of {table.path}", act, dry_run=dry_run, yes=yes, as_json=json)


@verb(app, "truncate", panel=_CLEANING, example="truncate logs --dry-run")
def truncate(
    path: PathArgument,
    dry_run: DryRun = False,
    yes: Yes = False,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Remove every version but the newest from the history. No split is deleted."""
    table = open_table(path, option)

    def act(*, dry_run: bool, progress: Progress) -> TruncateReport:
        return table.truncate_time_travel(dry_run=dry_run, progress=progress)

    confirm_and_run(
        f"Truncate the history of {table.path}", act, dry_run=dry_run, yes=yes, as_json=json
    )


@verb(
    app, "drop-partitions", panel=_CLEANING, example="drop-partitions logs \"day < '2026-10-01'\""
)
def drop_partitions(
    path: PathArgument,
    where: Annotated[
        str, typer.Argument(metavar="CONDITION", help="SQL condition over partition columns.")
    ],
    dry_run: DryRun = False,
    yes: Yes = False,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Remove every row of the matching partitions. Older versions keep them until a purge."""
    table = open_table(path, option)

    def act(*, dry_run: bool, progress: Progress) -> DropReport:  # noqa: ARG001
        return table.drop_partitions(where, dry_run=dry_run)

    confirm_and_run(
        f"Drop these partitions of {table.path}", act, dry_run=dry_run, yes=yes, as_json=json
    )


@verb(app, "drop", panel=_CLEANING, example="drop logs")
def drop(
    path: PathArgument,
    dry_run: DryRun = False,
    yes: Yes = False,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Delete a table: its log and all its splits, in every version. This cannot be undone."""

    def act(*, dry_run: bool, progress: Progress) -> DropTableReport:
        return Table.drop(path, options=settings_of(option), dry_run=dry_run, progress=progress)

    confirm_and_run(f"Drop the table {path}", act, dry_run=dry_run, yes=yes, as_json=json)


@verb(app, "restore", panel=_CLEANING, example="restore logs --version 3")
def restore(
    path: PathArgument,
    version: Annotated[
        str | None, typer.Option(metavar="N", help="The version to bring back, or its tag.")
    ] = None,
    timestamp: Annotated[
        str | None, typer.Option(metavar="TIME", help="The moment to bring back.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Restore an older version as a new version. Later versions stay in the history."""
    if (version is None) == (timestamp is None):
        raise InvalidInputError(
            "Nothing says what to restore.",
            hint="Give --version N or --timestamp TIME, one of them.",
        )
    table = open_table(path, option)

    def act(*, dry_run: bool, progress: Progress) -> RestoreReport:  # noqa: ARG001
        return table.restore(version=version_of(version), timestamp=timestamp, dry_run=dry_run)

    confirm_and_run(f"Restore {table.path}", act, dry_run=dry_run, yes=yes, as_json=json)
