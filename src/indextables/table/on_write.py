"""What a table does by itself after a write: merging small splits and purging, if its settings say so.

The write has been committed by then. Nothing that goes wrong here is raised: it is logged, counted, and shown by the
table of merge jobs; the next write tries again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from indextables.config.upkeep import MergeOnWriteSettings, MergeSettings, PurgeOnWriteSettings
from indextables.table.handle import open_log
from indextables.table.upkeep_verbs import UpkeepVerbs
from indextables.upkeep import merge_plan
from indextables.upkeep.jobs import FAILED, JOBS
from indextables.upkeep.merge_plan import MergeBounds
from indextables.upkeep.progress import Progress

logger = logging.getLogger(__name__)


class OnWrite(UpkeepVerbs):
    """Upkeep that follows writes."""

    def _after_write(self, version: int) -> None:
        merging = self.settings.group(MergeOnWriteSettings)
        purging = self.settings.group(PurgeOnWriteSettings)
        if merging.enabled:
            self._reported("merging", lambda: self._merge_after_write(merging, purging))
        if purging.enabled and purging.after_writes and version % purging.after_writes == 0:
            self._reported("purging", lambda: self._purge_by_itself(purging))

    def _merge_after_write(self, merging: MergeOnWriteSettings, purging: PurgeOnWriteSettings) -> None:
        bounds = MergeBounds.of(self.settings.group(MergeSettings), target_bytes=merging.target_bytes)
        snapshot = self._log.fresh()
        planned = merge_plan.plan(snapshot, url=self.path, bounds=bounds, now_ms=self._log.now_ms())
        if sum(len(group.sources) for group in planned.groups) < merging.min_splits:
            return

        def work(progress: Progress) -> None:
            log = open_log(self.path, self._options)
            table = type(self)(log, log.fresh(), self._options)
            report = table.merge(target_size=merging.target_bytes, progress=progress)
            if purging.enabled and purging.after_merge and report.version is not None:
                table._reported("purging", lambda: table._purge_by_itself(purging))

        if merging.asynchronous:
            timeout_s = merging.shutdown_timeout_ms / 1000
            JOBS.start(self.path, work, groups=len(planned.groups), shutdown_timeout_s=timeout_s)
            return
        job = JOBS.run(self.path, work, groups=len(planned.groups))
        if job is not None and job.status == FAILED:
            self._count_failure(str(job.error_message))
        self._snapshot = self._log.fresh()

    def _purge_by_itself(self, purging: PurgeOnWriteSettings) -> None:
        self.purge(older_than_hours=purging.split_hours, log_retention_hours=purging.log_hours)

    def _reported(self, what: str, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as failure:
            logger.warning("%s was written, but %s it afterwards failed: %s", self.path, what, failure, exc_info=True)
            self._count_failure(str(failure))

    def _count_failure(self, message: str) -> None:
        self._log.upkeep.failures += 1
        self._log.upkeep.last_failure = message
