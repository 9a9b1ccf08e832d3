"""`Table.checkpoint` and `Table.compact`: write the state of a table, so that opening it does not
replay its log.
"""

from __future__ import annotations

from indextables.config.log import CheckpointSettings, StateWriteSettings
from indextables.handle import TableHandle
from indextables.log.checkpoint.checkpointer import CheckpointReport, checkpoint_preview
from indextables.log.checkpoint.state_writer import Compact


def write_checkpoint(table: TableHandle, compact: Compact, *, dry_run: bool) -> CheckpointReport:
    """Write the state of the newest version, or report what would be written."""
    table.check_maintainable(
        "; only the newest version is checkpointed", hint="Open it without a version."
    )
    if not dry_run:
        return table.show_newest_after(table.log.checkpoint(compact=compact))
    snapshot = table.log.newest_writable()
    return checkpoint_preview(
        snapshot,
        version=table.log.checkpoint_version(snapshot),
        compact=compact is Compact.ALL,
        checkpoint=table.settings.group(CheckpointSettings),
        writing=table.settings.group(StateWriteSettings),
    )
