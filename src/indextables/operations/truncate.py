"""Truncate the history: the log keeps only the newest version. Unneeded splits are deleted by the
next purge.

If the newest version has no valid checkpoint, one is written first, because it depends on the older
versions.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace

from indextables.config.log import CleanupSettings, RetentionSettings
from indextables.handle import TableHandle
from indextables.log.cleaning import policy_of
from indextables.log.transaction_log import TransactionLog
from indextables.model.report import Progress, Report, pluralize, silent, was
from indextables.model.retention import (
    CheckpointFiles,
    ExpiredFile,
    LogInventory,
    RetentionPolicy,
    find_expired,
)
from indextables.operations.jobs import DRY_RUN, NO_ACTION, SUCCESS


class TruncateReport(Report, frozen=True):
    """What was, or would be, deleted of the log."""

    table_path: str
    status: str
    checkpoint_version: int
    versions_deleted: int
    checkpoints_deleted: int
    files_preserved: int
    message: str
    files: tuple[ExpiredFile, ...] = ()


class TruncatePlan(Report, frozen=True):
    """The deleted part of the log, and whether the newest version must be checkpointed first."""

    table_path: str
    checkpoint_version: int
    needs_checkpoint: bool
    files_preserved: int
    files: tuple[ExpiredFile, ...]
    policy: RetentionPolicy
    damage: str | None = None
    """What is wrong with the newest checkpoint, which is then rewritten."""
    hidden: ClassVar[tuple[str, ...]] = ("policy", "damage")

    def preview(self) -> TruncateReport:
        """Return the report of a dry run."""
        return _report(self, self.files, status=DRY_RUN if self.files else NO_ACTION)


def plan(log: TransactionLog, *, settings: RetentionSettings) -> TruncatePlan:
    """Find what truncating would delete. Changes nothing."""
    newest = log.newest_writable()
    version = log.checkpoint_version(newest)
    damage = log.damage()
    inventory = replace(log.cleaner().inventory(), tagged=frozenset(newest.header.tags.values()))
    if damage is not None:
        last = max({*inventory.states, *inventory.legacy_checkpoints})
        inventory, version = inventory.without([last]), max(version, last + 1)
    states, checkpoints = inventory.usable()
    needed = version not in {*states, *checkpoints}
    policy = replace(
        policy_of(settings), log_ms=0, state_ms=0, checkpoint_ms=0, versions=0, state_versions=1
    )
    if needed:
        expected = _with_checkpoint(inventory, version)
    else:
        expected = inventory
    expiry = find_expired(expected, policy, now_ms=log.now_ms())
    return TruncatePlan(
        table_path=log.store.url,
        checkpoint_version=version,
        needs_checkpoint=needed,
        files_preserved=newest.files(columns=["path"]).num_rows,
        files=expiry.expired,
        policy=policy,
        damage=damage.message if damage is not None else None,
    )


def run(
    planned: TruncatePlan, log: TransactionLog, *, progress: Progress = silent
) -> TruncateReport:
    """Write a checkpoint if necessary, then delete what the plan found and is still not needed."""
    if not planned.files and planned.damage is None:
        return _report(planned, (), status=NO_ACTION)
    if planned.needs_checkpoint:
        planned = replace(planned, checkpoint_version=log.checkpoint().version)
    done = log.cleaner().clean(
        planned.policy,
        only={file.path for file in planned.files},
        settings=CleanupSettings(failure_policy="fail"),
        on_batch=lambda count: progress(count, len(planned.files), "files"),
    )
    log.reload()
    done.check_finished(log.store.url)
    return _report(planned, done.deleted, status=SUCCESS)


def _with_checkpoint(inventory: LogInventory, version: int) -> LogInventory:
    """Return the log as it will be after the checkpoint, whose state continues the manifests of the
    last one.
    """
    last = max(inventory.states, default=None)
    if last is not None:
        names = inventory.states[last].names
    else:
        names = frozenset()
    manifests = frozenset(name for name in names or () if name in inventory.manifests)
    return replace(inventory, states={**inventory.states, version: CheckpointFiles((), manifests)})


def _report(
    planned: TruncatePlan, files: tuple[ExpiredFile, ...], *, status: str
) -> TruncateReport:
    if status == DRY_RUN:
        verb = "would be deleted"
    else:
        verb = f"{was(len(files))} deleted"
    if files:
        message = f"{pluralize(len(files), 'file')} of the log {verb}."
    else:
        message = "There is no older version."
    if planned.damage is not None:
        if status == DRY_RUN:
            rewrite_note = "is rewritten first"
        else:
            rewrite_note = f"was rewritten at {planned.checkpoint_version}"
        message = f"{planned.damage} The checkpoint {rewrite_note}. {message}"
    return TruncateReport(
        table_path=planned.table_path,
        status=status,
        checkpoint_version=planned.checkpoint_version,
        versions_deleted=sum(1 for file in files if file.kind == "version"),
        checkpoints_deleted=sum(1 for file in files if file.kind in ("state", "checkpoint")),
        files_preserved=planned.files_preserved,
        message=message,
        files=files,
    )


def truncate_time_travel(
    table: TableHandle, *, dry_run: bool, progress: Progress
) -> TruncateReport:
    """Delete every version but the newest from the log. See `Table.truncate_time_travel`."""
    table.check_maintainable()
    planned = plan(table.log, settings=table.settings.group(RetentionSettings))
    if dry_run:
        return planned.preview()
    return table.show_newest_after(run(planned, table.log, progress=progress))
