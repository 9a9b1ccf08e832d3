"""The verbs of upkeep. Each plans first and then acts; with `dry_run=True` it only says what it would do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from indextables import config
from indextables.config.splits import ReadSettings
from indextables.config.state import RetentionSettings
from indextables.config.upkeep import MergeSettings, PurgeSettings
from indextables.config.values import parse_size
from indextables.errors import CorruptTableError, InvalidInputError, TableNotFoundError
from indextables.log.history import version_at
from indextables.log.log_files import LOG
from indextables.log.transaction_log import TransactionLog
from indextables.model.arguments import whole_number
from indextables.storage.spec import StoreSpec
from indextables.table.handle import ENGINE_INFO, TableHandle, log_settings, open_log
from indextables.table.moments import Moment, to_epoch_ms
from indextables.table.predicates import Where, partition_predicate
from indextables.upkeep import drop_partitions, merge, purge, repair, restore, truncate, verify
from indextables.upkeep.drop_partitions import DropReport
from indextables.upkeep.merge import MergeBounds, MergeOutcome, MergeReport, MergeTask
from indextables.upkeep.operation import Execute, Progress, silent
from indextables.upkeep.purge import PurgeReport, Retention
from indextables.upkeep.repair import RepairReport
from indextables.upkeep.restore import RestoreReport
from indextables.upkeep.truncate import TruncateReport
from indextables.upkeep.verify import Finding, VerifyReport, VerifyTask


class UpkeepVerbs(TableHandle):
    """Keeping a table in order."""

    def drop_partitions(self, where: Where, *, dry_run: bool = False) -> DropReport:
        """Remove every split of the partitions that match a condition over partition columns, in one version."""
        self._refuse_if_pinned()
        bound = partition_predicate(where, self.schema, self.partition_columns)
        planned = drop_partitions.plan(self._log, bound)
        if dry_run:
            return planned.preview()
        report = drop_partitions.run(planned, self._log, engine_info=ENGINE_INFO)
        self._show(self._log.fresh())
        return report

    def merge(
        self,
        *,
        target_size: int | str | None = None,
        where: Where | None = None,
        max_dest_splits: int | None = None,
        max_source_splits: int | None = None,
        dry_run: bool = False,
        progress: Progress = silent,
        execute: Execute[MergeTask, MergeOutcome] | None = None,
    ) -> MergeReport:
        """Merge small splits of the same partition into larger ones; no row changes.

        `where` chooses partitions; the oldest splits come first. A split that cannot be read is skipped for a while and
        stays in the table. `execute` runs the groups elsewhere than in threads of this process.
        """
        self._refuse_if_pinned()
        snapshot = self._log.fresh()
        bounds = MergeBounds.of(
            self.settings.group(MergeSettings),
            target_bytes=None if target_size is None else parsed_size(target_size),
            max_source_splits=max_source_splits,
            max_dest_splits=max_dest_splits,
        )
        bound = None if where is None else partition_predicate(where, self.schema, self.partition_columns)
        planned = merge.plan(snapshot, url=self.path, bounds=bounds, now_ms=self._log.now_ms(), where=bound)
        if dry_run or not planned.groups:
            return planned.preview()
        report = merge.run(
            planned,
            self._log,
            spec=self._spec,
            settings=self.settings,
            execute=execute,
            progress=progress,
            engine_info=ENGINE_INFO,
        )
        self._show(self._log.fresh())
        return report

    def purge(
        self,
        *,
        older_than_hours: float | None = None,
        log_retention_hours: float | None = None,
        dry_run: bool = False,
        progress: Progress = silent,
        delete: Callable[[Sequence[str]], None] | None = None,
    ) -> PurgeReport:
        """Delete splits that no version of the retention period has, expired files of the log, and leftovers.

        By default splits are kept for 168 hours after they were removed, and version files for 720. Less than 24 hours
        is refused unless the setting `purge.retentionCheckEnabled` is false. `delete` deletes files elsewhere.
        """
        self._refuse_if_pinned()
        settings = self.settings.group(PurgeSettings)
        retention = Retention.checked(settings, split_hours=older_than_hours, log_hours=log_retention_hours)
        planned = purge.plan(self._log, retention=retention, settings=self.settings.group(RetentionSettings))
        if dry_run:
            return purge.preview(planned, self._log)
        report = purge.run(
            planned,
            self._log,
            retries=settings.delete_retries,
            delete=delete,
            progress=progress,
            engine_info=ENGINE_INFO,
        )
        self._show(self._log.fresh())
        return report

    def truncate_time_travel(self, *, dry_run: bool = False, progress: Progress = silent) -> TruncateReport:
        """Forget every version but the newest. No split is deleted; those that nobody needs any more wait for a purge."""
        self._refuse_if_pinned()
        planned = truncate.plan(self._log, settings=self.settings.group(RetentionSettings))
        if dry_run:
            return planned.preview()
        report = truncate.run(planned, self._log, progress=progress)
        self._show(self._log.fresh())
        return report

    def restore(
        self, *, version: int | None = None, timestamp: Moment | None = None, dry_run: bool = False
    ) -> RestoreReport:
        """Bring an older version back, by its number or as it was at a moment, as a new version of the table.

        Schema and configuration come back too; the protocol is never lowered. All splits of it must still be there.
        """
        self._refuse_if_pinned()
        if (version is None) == (timestamp is None):
            raise InvalidInputError("Give a version or a timestamp to restore.", version=version)
        if timestamp is None:
            at = whole_number("version", version, low=None)
        else:
            at = version_at(self._log, to_epoch_ms(timestamp))
        planned = restore.plan(self._log, version=at)
        if dry_run:
            return planned.preview()
        report = restore.run(planned, self._log, engine_info=ENGINE_INFO)
        self._show(self._log.fresh())
        return report

    def verify(
        self,
        *,
        full: bool = False,
        dry_run: bool = False,
        progress: Progress = silent,
        execute: Execute[VerifyTask, Sequence[Finding]] | None = None,
    ) -> VerifyReport:
        """Look for anything that is not as it should be: in the log, and in every live split. Nothing is changed.

        `full` reads every byte of every split. A table that cannot be opened is verified by `verify_table(path)`.
        `execute` looks at the splits elsewhere than in threads of this process.
        """
        planned = verify.plan(self._log, full=full)
        if dry_run:
            return planned.preview()
        return verify.run(
            planned,
            self._log,
            spec=self._spec,
            parallelism=self.settings.group(ReadSettings).parallelism,
            execute=execute,
            progress=progress,
        )

    @classmethod
    def repair(
        cls,
        path: str,
        *,
        at: str | None = None,
        options: Mapping[str, object] | None = None,
        dry_run: bool = False,
        progress: Progress = silent,
    ) -> RepairReport:
        """Make a table whole again. No file that is there is changed.

        Without `at` a lost log is rebuilt in place from the splits alone, and of a log that can be read the newest state
        or checkpoint is written anew if it is damaged. With it, a clean copy of the damaged log is written to another
        place: its newest version that can be read, without splits that are missing.
        """
        source = open_log(_without_log_folder(path), options)
        if at is None:
            readable = _opened(source, options)
            if readable is not None:
                return repair.heal(readable, dry_run=dry_run)
            parallelism = config.resolve(options=options).group(ReadSettings).parallelism
            planned = repair.plan_rebuild(source, parallelism=parallelism, progress=progress)
            return planned.preview() if dry_run else repair.rebuild(planned, source, engine_info=ENGINE_INFO)
        target = open_log(_without_log_folder(at), options)
        copied = repair.plan_copy(source, target)
        return copied.preview() if dry_run else repair.copy_log(copied, target, engine_info=ENGINE_INFO)


def _opened(log: TransactionLog, options: Mapping[str, object] | None) -> TransactionLog | None:
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
    bare = path.rstrip("/")
    return bare.removesuffix(f"/{LOG}") if bare.endswith(f"/{LOG}") else path


def verify_table(
    path: str,
    *,
    full: bool = False,
    options: Mapping[str, object] | None = None,
    dry_run: bool = False,
    progress: Progress = silent,
    execute: Execute[VerifyTask, Sequence[Finding]] | None = None,
) -> VerifyReport:
    """Verify the table at a path, whether it can be opened or not."""
    settings = config.resolve(options=options)
    log = open_log(path, options)
    planned = verify.plan(log, full=full)
    if dry_run:
        return planned.preview()
    spec, parallelism = StoreSpec.from_url(path, settings), settings.group(ReadSettings).parallelism
    return verify.run(planned, log, spec=spec, parallelism=parallelism, execute=execute, progress=progress)


def parsed_size(size: int | str) -> int:
    """A size as people write it, in bytes."""
    try:
        return parse_size(size)
    except ValueError:
        message = f"{size!r} is not a size."
        raise InvalidInputError(message, hint="Give bytes, or a text such as 100M or 4G.", size=str(size)) from None
