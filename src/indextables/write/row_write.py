"""A write of rows as a value: planned where the table is open, run by one process or many, finished by one commit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct

from indextables.log.selection import every_file, files_of_partitions, files_within
from indextables.log.transaction import Changes, LiveSelection
from indextables.model.actions import AddAction
from indextables.model.conflicts import Operation
from indextables.model.predicate import Predicate
from indextables.model.schema import schema_from_json
from indextables.storage.store import Store
from indextables.write.incoming import only
from indextables.write.plan import WritePlan, write_changes


class RowWrite(Struct, frozen=True):
    """What is written and what it replaces. It travels by pickle."""

    plan: WritePlan
    read_version: int
    """The version of the table that the write was planned on."""
    operation: Operation
    where: Predicate | None = None
    dynamic_partitions: bool = False
    table_id: str = ""
    """The table that it was planned for; empty if there was none yet."""

    def run(self, batches: Iterable[pa.RecordBatch], *, store: Store | None = None) -> list[AddAction]:
        """Write rows as splits; none of them is part of the table yet."""
        task = self.plan.task
        if self.where is not None:
            batches = only(self.where, batches, schema_from_json(task.schema_json))
        return task.run(batches, store=store)

    def changes(
        self,
        added: Sequence[AddAction],
        *,
        parameters: Mapping[str, Any] | None = None,
        txn: tuple[str, int] | None = None,
        user_metadata: str | None = None,
        engine_info: str | None = None,
        looked_into: Collection[str] = (),
    ) -> Changes:
        """The one commit that makes the splits part of the table.

        `looked_into` are live splits that may match `where` in part: what of them is replaced is the caller's to add.
        """
        told = {} if self.where is None else {"where": str(self.where)}
        return write_changes(
            self.plan,
            added,
            operation=self.operation,
            replaced=self._replaced(added, looked_into),
            parameters={**told, **(parameters or {})},
            txn=txn,
            user_metadata=user_metadata,
            engine_info=engine_info,
        )

    def _replaced(self, added: Sequence[AddAction], looked_into: Collection[str]) -> LiveSelection | None:
        if self.operation is Operation.APPEND:
            return None
        if self.dynamic_partitions:
            return files_of_partitions(a.partition_values or {} for a in added)
        if self.where is None:
            return every_file
        return files_within(self.where, self.plan.task.partition_columns, looked_into=looked_into)
