"""The statements that change a table: each calls one verb of upkeep and shows its report as a row."""

from __future__ import annotations

import pyarrow as pa

from indextables.commands.results import reported
from indextables.commands.session import Session
from indextables.commands.values import Checkpoint


def checkpoint(command: Checkpoint, session: Session) -> pa.Table:
    """CHECKPOINT INDEXTABLES and COMPACT INDEXTABLES."""
    table = session.open(command.table)
    report = table.compact() if command.compact else table.checkpoint()
    status = "success" if report.written else "no_action"
    return reported(command, report, table_path=table.path, status=status, checkpoint_version=report.version)
