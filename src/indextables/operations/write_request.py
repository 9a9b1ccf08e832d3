"""What a write replaces, how it may change the columns, and what the history records of it."""

from __future__ import annotations

from msgspec import Struct

from indextables.model.conflicts import Operation
from indextables.model.predicate import Where


class WriteRequest(Struct, frozen=True, kw_only=True):
    """The request of a write. A new option of writes is one field here and its use."""

    operation: Operation = Operation.APPEND
    where: Where | None = None
    """Which rows are replaced."""
    dynamic_partitions: bool | None = False
    """Whether only the partitions of the new rows are replaced. None is undecided and counts as
    False.
    """
    merge_schema: bool = False
    overwrite_schema: bool = False
    exist_ok: bool = True
    """Whether the table may exist; if not, these must be the first rows of a new table."""
    user_metadata: str | None = None
    txn: tuple[str, int] | None = None
    shared: tuple[tuple[str, int], ...] = ()
    """Exactly-once writes of several clients that are in the rows. If one of them is recorded
    already, nothing is written.
    """
    marks: tuple[tuple[str, int], ...] = ()
    """Recorded by the table next to `txn` and `shared`, under names of their own."""
