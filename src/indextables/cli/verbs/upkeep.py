"""The verbs that keep a table in order and take nothing away: merge, checkpoint, compact, verify, repair."""

from __future__ import annotations

from typing import Annotated

import typer

from indextables.cli import options
from indextables.cli.output import CORRUPT
from indextables.cli.verb import open_table, run_verb, verb
from indextables.log.checkpoint.checkpointer import CheckpointReport
from indextables.model.report import Progress
from indextables.table import Table, verify_table
from indextables.table.lifecycle import ReindexReport
from indextables.upkeep.merge import MergeReport
from indextables.upkeep.repair import RepairReport
from indextables.upkeep.verify import VerifyReport

app = typer.Typer()
_UPKEEP = "Upkeep"


@verb(
    app,
    "merge",
    panel=_UPKEEP,
    example="merge logs --dry-run\nmerge logs --target-size 1G --where \"day = '2026-11-01'\"\nmerge logs --order-by ts",
)
def merge(
    path: options.PathArgument,
    target_size: Annotated[str | None, typer.Option(metavar="SIZE", help="Size of merged splits: 100M, 4G.")] = None,
    where: Annotated[
        str | None, typer.Option("--where", "-w", metavar="CONDITION", help="Only partitions that match.")
    ] = None,
    max_dest_splits: Annotated[int | None, typer.Option(metavar="N", min=1, help="At most so many new splits.")] = None,
    max_source_splits: Annotated[
        int | None, typer.Option(metavar="N", min=2, help="At most so many splits become one.")
    ] = None,
    order_by: Annotated[
        list[str] | None, typer.Option("--order-by", metavar="COLUMN", help="Sort the rows by it; may be repeated.")
    ] = None,
    rewrite: Annotated[
        bool, typer.Option("--rewrite", help="Only splits of another engine, which become ours.")
    ] = False,
    dry_run: options.DryRun = False,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Merge small splits of the same partition into larger ones. No row changes."""
    table = open_table(path, option)

    def act(*, dry_run: bool, progress: Progress) -> MergeReport:
        return table.merge(
            target_size=target_size,
            where=where,
            max_dest_splits=max_dest_splits,
            max_source_splits=max_source_splits,
            order_by=order_by or None,
            rewrite=rewrite,
            dry_run=dry_run,
            progress=progress,
        )

    run_verb("Merging", act, dry_run=dry_run, as_json=json)


@verb(app, "reindex", panel=_UPKEEP, example="reindex logs message=text\nreindex logs message=text --tokenizer en_stem")
def reindex(
    path: options.PathArgument,
    columns: Annotated[list[str], typer.Argument(metavar="COLUMN=KIND", help="text, string, json, ip or none.")],
    tokenizer: Annotated[str | None, typer.Option(metavar="NAME", help="How texts are cut into terms.")] = None,
    where: Annotated[
        str | None, typer.Option("--where", "-w", metavar="CONDITION", help="Only partitions that match, for now.")
    ] = None,
    dry_run: options.DryRun = False,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Index columns in another way, rows that are there included. What is interrupted goes on with the same call."""
    table = open_table(path, option)
    kinds = dict(column.partition("=")[::2] for column in columns)

    def act(*, dry_run: bool, progress: Progress) -> ReindexReport:
        given = kinds if any(kinds.values()) else list(kinds)
        return table.reindex(given, tokenizer=tokenizer, where=where, dry_run=dry_run, progress=progress)

    run_verb("Reindexing", act, dry_run=dry_run, as_json=json)


@verb(app, "checkpoint", panel=_UPKEEP, example="checkpoint logs")
def checkpoint(
    path: options.PathArgument,
    dry_run: options.DryRun = False,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Write down the table's state, so that opening it need not replay its log."""
    table = open_table(path, option)

    def act(*, dry_run: bool, progress: Progress) -> CheckpointReport:  # noqa: ARG001
        return table.checkpoint(dry_run=dry_run)

    run_verb("Checkpointing", act, dry_run=dry_run, as_json=json)


@verb(app, "compact", panel=_UPKEEP, example="compact logs")
def compact(
    path: options.PathArgument,
    dry_run: options.DryRun = False,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Rewrite the table's state: no removed entries, full manifests, sorted by partition."""
    table = open_table(path, option)

    def act(*, dry_run: bool, progress: Progress) -> CheckpointReport:  # noqa: ARG001
        return table.compact(dry_run=dry_run)

    run_verb("Compacting", act, dry_run=dry_run, as_json=json)


@verb(app, "verify", panel=_UPKEEP, example="verify logs\nverify logs --full --json")
def verify(
    path: options.PathArgument,
    full: Annotated[bool, typer.Option("--full", help="Read every byte of every split.")] = False,
    dry_run: options.DryRun = False,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Look for damage in the log and in the splits. Nothing is changed. Ends with exit code 8 if there is any."""

    def act(*, dry_run: bool, progress: Progress) -> VerifyReport:
        return verify_table(path, full=full, options=options.settings_of(option), dry_run=dry_run, progress=progress)

    if not run_verb("Verifying", act, dry_run=dry_run, as_json=json).healthy:
        raise typer.Exit(CORRUPT)


@verb(app, "repair", panel=_UPKEEP, example="repair broken --at mended\nrepair logs --dry-run")
def repair(
    path: options.PathArgument,
    at: Annotated[str | None, typer.Option(metavar="PATH", help="Write a clean copy of the damaged log there.")] = None,
    dry_run: options.DryRun = False,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Make a new log for a table that cannot be opened. No file that is there is changed.

    Without --at a lost log is rebuilt in place from the splits alone.
    """

    def act(*, dry_run: bool, progress: Progress) -> RepairReport:
        return Table.repair(path, at=at, options=options.settings_of(option), dry_run=dry_run, progress=progress)

    run_verb("Repairing", act, dry_run=dry_run, as_json=json)
