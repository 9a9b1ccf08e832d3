"""The verbs of the state: writing it down, writing it anew, and what it says of itself."""

from __future__ import annotations

from indextables.config.state import CheckpointSettings, CompactionSettings, StateWriteSettings
from indextables.errors import RefusedError
from indextables.log.checkpoint.checkpointer import CheckpointReport, StateReport, state_report
from indextables.log.checkpoint.state_writer import Compact
from indextables.table.handle import TableHandle
from indextables.upkeep.checkpoint_preview import preview


class StateVerbs(TableHandle):
    """Checkpoint, compact, and the report on the state."""

    def checkpoint(self, *, dry_run: bool = False) -> CheckpointReport:
        """Write down the table's state, so that opening it need not replay its log. Older tables are upgraded by it."""
        return self._write_state(Compact.AS_NEEDED, dry_run=dry_run)

    def compact(self, *, dry_run: bool = False) -> CheckpointReport:
        """Rewrite the table's state: no removed entries, full manifests, sorted by partition."""
        return self._write_state(Compact.ALL, dry_run=dry_run)

    def state(self) -> StateReport:
        """What the newest state or checkpoint holds, whoever wrote it, and whether it should be compacted.

        Of a table that was opened at an older version, the one that the version is read from.
        """
        compaction, writing = self.settings.group(CompactionSettings), self.settings.group(StateWriteSettings)
        snapshot = self._snapshot if self._pinned else self._log.reload()
        return state_report(snapshot, path=self.path, compaction=compaction, writing=writing)

    def _write_state(self, compact: Compact, *, dry_run: bool) -> CheckpointReport:
        if self._pinned:
            raise RefusedError(
                f"{self.path} was opened at version {self.version}; only the newest version is checkpointed.",
                hint="Open it without a version.",
                path=self.path,
                version=self.version,
            )
        if dry_run:
            return preview(
                self._log,
                compact=compact is Compact.ALL,
                checkpoint=self.settings.group(CheckpointSettings),
                writing=self.settings.group(StateWriteSettings),
            )
        report = self._log.checkpoint(compact=compact)
        self._show(self._log.fresh())
        return report
