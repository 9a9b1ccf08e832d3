"""Tables that may not open: looking for what is damaged, and making it whole again. The path is all that is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from indextables import config
from indextables.config.splits import ReadSettings
from indextables.errors import CorruptTableError, TableNotFoundError
from indextables.log.log_files import LOG
from indextables.log.transaction_log import TransactionLog
from indextables.model.report import Progress, silent
from indextables.storage.spec import StoreSpec
from indextables.table.handle import ENGINE_INFO, log_settings, open_log
from indextables.upkeep import repair, verify

if TYPE_CHECKING:
    from indextables.upkeep.operation import Execute
    from indextables.upkeep.repair import RepairReport
    from indextables.upkeep.verify import Finding, VerifyReport, VerifyTask


def verify_table(
    path: str,
    *,
    full: bool = False,
    options: Mapping[str, object] | None = None,
    dry_run: bool = False,
    progress: Progress = silent,
    execute: Execute[VerifyTask, Sequence[Finding]] | None = None,
) -> VerifyReport:
    """Verify the table at `path`, whether it can be opened or not.

    `options` are settings; `full`, `dry_run`, `progress` and `execute` are as for `Table.verify`.
    """
    settings = config.resolve(options=options)
    log = open_log(path, options)
    plan = verify.plan(log, full=full)
    if dry_run:
        return plan.preview()
    spec, parallelism = StoreSpec.from_url(path, settings), settings.group(ReadSettings).parallelism
    return verify.run(plan, log, spec=spec, parallelism=parallelism, execute=execute, progress=progress)


def repair_table(
    path: str, *, at: str | None, options: Mapping[str, object] | None, dry_run: bool, progress: Progress
) -> RepairReport:
    """Repair the table at a path in place, or with `at` by a clean copy of its log; as `Table.repair` says."""
    source = open_log(_without_log_folder(path), options)
    if at is not None:
        target = open_log(_without_log_folder(at), options)
        copied = repair.plan_copy(source, target)
        return copied.preview() if dry_run else repair.copy_log(copied, target, engine_info=ENGINE_INFO)
    readable = _readable(source, options)
    if readable is not None:
        return repair.heal(readable, dry_run=dry_run)
    parallelism = config.resolve(options=options).group(ReadSettings).parallelism
    plan = repair.plan_rebuild(source, parallelism=parallelism, progress=progress)
    return plan.preview() if dry_run else repair.rebuild(plan, source, engine_info=ENGINE_INFO)


def _readable(log: TransactionLog, options: Mapping[str, object] | None) -> TransactionLog | None:
    """The log with the settings of its table, if the table can be opened."""
    try:
        snapshot = log.reload()
        snapshot.files(columns=["path"])
    except (CorruptTableError, TableNotFoundError):
        return None
    log.settings = log_settings(config.resolve(options=options, table=snapshot.metadata.configuration))
    return log


def _without_log_folder(path: str) -> str:
    """The place of the table, where the place of its log was given."""
    folder = path.rstrip("/")
    return folder.removesuffix(f"/{LOG}") if folder.endswith(f"/{LOG}") else path
