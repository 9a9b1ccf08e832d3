"""Which files of a version bring rows that were not in the table before."""

from __future__ import annotations

from indextables.model.actions import AddAction
from indextables.model.conflicts import Operation
from indextables.model.snapshot import CommittedVersion


def files_of_new_rows(version: CommittedVersion) -> list[AddAction]:
    """The files whose rows are new. What a deletion adds are the rows that it keeps; what a merge adds was there too."""
    if version.info.operation == Operation.DELETE:
        return []
    return [a for a in version.actions if isinstance(a, AddAction) and a.data_change]
