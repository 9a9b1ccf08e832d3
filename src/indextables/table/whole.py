"""Table, with every verb."""

from __future__ import annotations

from indextables.table.log_verbs import LogVerbs
from indextables.table.on_write import OnWrite
from indextables.table.row_verbs import RowVerbs
from indextables.table.split_verbs import SplitVerbs
from indextables.table.state_verbs import StateVerbs


class Table(LogVerbs, RowVerbs, StateVerbs, SplitVerbs, OnWrite):
    """A table of full-text search indexes. Open one with `Table.open(path)`, make one with `Table.create(path, ...)`."""
