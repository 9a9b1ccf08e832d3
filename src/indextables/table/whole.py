"""Table, with every verb."""

from __future__ import annotations

from indextables.table.log_verbs import LogVerbs
from indextables.table.on_write import OnWrite
from indextables.table.picture_verbs import PictureVerbs
from indextables.table.split_verbs import SplitVerbs
from indextables.table.state_verbs import StateVerbs


class Table(LogVerbs, PictureVerbs, StateVerbs, SplitVerbs, OnWrite):
    """A table of full-text search indexes. Open one with `Table.open(path)`, make one with `Table.create(path, ...)`."""
