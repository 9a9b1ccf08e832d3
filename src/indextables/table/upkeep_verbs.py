"""The verbs of upkeep. Each plans first and then acts; with `dry_run=True` it only says what it would do."""

from __future__ import annotations

from indextables.errors import InvalidInputError
from indextables.log.history import version_at
from indextables.table.handle import ENGINE_INFO, TableHandle
from indextables.table.moments import Moment, to_epoch_ms
from indextables.table.predicates import Where, partition_predicate
from indextables.upkeep import drop_partitions, restore
from indextables.upkeep.drop_partitions import DropReport
from indextables.upkeep.restore import RestorePlan, RestoreReport


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
        self._snapshot = self._log.newest()
        return report

    def restore(
        self, *, version: int | None = None, timestamp: Moment | None = None, dry_run: bool = False
    ) -> RestoreReport | RestorePlan:
        """Bring an older version back, by its number or as it was at a moment, as a new version of the table.

        Schema and configuration come back too; the protocol is never lowered. All splits of it must still be there.
        """
        self._refuse_if_pinned()
        if (version is None) == (timestamp is None):
            raise InvalidInputError("Give a version or a timestamp to restore.", version=version)
        at = version if timestamp is None else version_at(self._log, to_epoch_ms(timestamp))
        planned = restore.plan(self._log, version=int(at or 0))
        if dry_run:
            return planned
        report = restore.run(planned, self._log, engine_info=ENGINE_INFO)
        self._snapshot = self._log.newest()
        return report
