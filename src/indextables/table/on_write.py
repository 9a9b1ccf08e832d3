"""What a table does by itself after a write: merging small splits and purging, if its settings say so.

The write has been committed by then. Nothing that goes wrong here is raised: it is logged, counted, and shown by the
table of merge jobs; the next write tries again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from indextables.config.upkeep import MergeOnWriteSettings, MergeSettings, PurgeOnWriteSettings
from indextables.log.log_files import list_log
from indextables.model.conflicts import Operation
from indextables.table.handle import open_log
from indextables.table.upkeep_verbs import UpkeepVerbs
from indextables.upkeep import merge
from indextables.upkeep.jobs import JOBS
from indextables.upkeep.merge import MergeBounds
from indextables.upkeep.operation import Progress

_WRITES = (Operation.APPEND, Operation.OVERWRITE, Operation.REPLACE_WHERE)
logger = logging.getLogger(__name__)


class OnWrite(UpkeepVerbs):
    """Upkeep that follows writes."""

    def _after_write(self, version: int) -> None:
        merging = self.settings.group(MergeOnWriteSettings)
        purging = self.settings.group(PurgeOnWriteSettings)
        if merging.enabled:
            self._reported("merging", lambda: self._merge_after_write(merging, purging))
        if purging.enabled:
            follows_merges = merging.enabled and purging.after_merge
            every = purging.after_writes or (0 if follows_merges else 1)
            if every:
                self._reported("purging", lambda: self._purge_after_write(version, purging, every))

    def _merge_after_write(self, merging: MergeOnWriteSettings, purging: PurgeOnWriteSettings) -> None:
        bounds = MergeBounds.of(self.settings.group(MergeSettings), target_bytes=merging.target_bytes)
        snapshot = self._log.fresh()
        if snapshot.files(columns=["path"]).num_rows < merging.min_splits:
            return
        planned = merge.plan(snapshot, url=self.path, bounds=bounds, now_ms=self._log.now_ms())
        if sum(len(group.sources) for group in planned.groups) < merging.min_splits:
            return

        def work(progress: Progress) -> str | None:
            log = open_log(self.path, self._options)
            table = type(self)(log, log.fresh(), self._options)
            report = table.merge(target_size=merging.target_bytes, progress=progress)
            if purging.enabled and purging.after_merge and report.version is not None:
                return table._reported("purging", lambda: table._purge_by_itself(purging))
            return None

        if merging.asynchronous:
            timeout_s = merging.shutdown_timeout_ms / 1000
            JOBS.start(self.path, work, groups=len(planned.groups), shutdown_timeout_s=timeout_s)
            return
        job = JOBS.run(self.path, work, groups=len(planned.groups))
        if job is not None and job.error_message is not None:
            self._count_failure(job.error_message)
        self._show(self._log.fresh())

    def _purge_after_write(self, version: int, purging: PurgeOnWriteSettings, every: int) -> None:
        """Purge at the first write at or after each multiple of so many versions, whoever made the others."""
        due = version - version % every
        listing = list_log(self._log.store, first_version=due)
        between = [(v, info) for v, info in listing.versions.items() if due <= v < version]
        if not any(earlier.info.operation in _WRITES for earlier in self._log.reader.read(between)):
            self._purge_by_itself(purging)

    def _purge_by_itself(self, purging: PurgeOnWriteSettings) -> None:
        self.purge(older_than_hours=purging.split_hours, log_retention_hours=purging.log_hours)

    def _reported(self, what: str, act: Callable[[], None]) -> str | None:
        """Do something that must not fail the write; returns what went wrong."""
        try:
            act()
        except Exception as failure:
            logger.warning("%s was written, but %s it afterwards failed: %s", self.path, what, failure, exc_info=True)
            self._count_failure(str(failure))
            return f"{what.capitalize()} failed: {failure}"
        return None

    def _count_failure(self, message: str) -> None:
        self._log.upkeep.failures += 1
        self._log.upkeep.last_failure = message
