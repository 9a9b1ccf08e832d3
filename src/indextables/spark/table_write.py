"""A write from Spark, whichever way it came: planned on the driver, run by tasks, finished by one commit.

A table that does not exist yet is created by the commit, not by the plan: a job that fails leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables.errors import InvalidInputError
from indextables.model.actions import AddAction
from indextables.model.arguments import transaction_id
from indextables.model.conflicts import Operation
from indextables.table.first_rows import abandon_rows, finish_rows, plan_rows
from indextables.table.handle import open_log
from indextables.write.row_write import RowWrite

OVERWRITE_MODE = "partitionOverwriteMode"
SESSION_OVERWRITE_MODE = f"spark.sql.sources.{OVERWRITE_MODE}"


def is_dynamic(mode: str | None, *, key: str) -> bool | None:
    """What a partition overwrite mode says, in any case as Spark reads it; None if it is not given."""
    if not mode:
        return None
    if mode.lower() not in ("static", "dynamic"):
        message = f"{key} cannot be {mode!r}."
        raise InvalidInputError(message, hint="Allowed: static, dynamic. Nothing was written.", key=key)
    return mode.lower() == "dynamic"


class WriteRequest(Struct, frozen=True):
    """What somebody wants to be written. The settings may hold credentials: they stay out of the repr."""

    path: str
    overwrite: bool = False
    partition_by: tuple[str, ...] | None = None
    replace_where: str | None = None
    dynamic_partitions: bool | None = None
    """Whether an overwrite replaces the partitions of the data only; None leaves that to the session."""
    merge_schema: bool = False
    first: bool = False
    """Whether a table that exists is an error."""
    user_metadata: str | None = None
    txn: tuple[str, int] | None = None
    settings: Mapping[str, Any] = {}

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name != "settings")
        return f"WriteRequest({', '.join(shown)})"

    def __post_init__(self) -> None:
        transaction_id(self.txn)
        if self.replace_where is not None and not self.overwrite:
            raise InvalidInputError("replaceWhere needs the mode overwrite.")
        if self.dynamic_partitions and not self.overwrite:
            raise InvalidInputError("Dynamic partition overwrite needs the mode overwrite.")
        if self.dynamic_partitions and self.replace_where is not None:
            raise InvalidInputError("Give replaceWhere or dynamic partition overwrite, not both.")

    def under_session(self, mode: str | None) -> WriteRequest:
        """The request with the session's partition overwrite mode, where the request itself leaves it open."""
        if not self.overwrite or self.dynamic_partitions is not None or self.replace_where is not None:
            return self
        return replace(self, dynamic_partitions=is_dynamic(mode, key=SESSION_OVERWRITE_MODE))

    @property
    def operation(self) -> Operation:
        """The operation as the log names it."""
        if not self.overwrite:
            return Operation.APPEND
        partly = self.replace_where is not None or self.dynamic_partitions
        return Operation.REPLACE_WHERE if partly else Operation.OVERWRITE


class PlannedWrite(Struct, frozen=True):
    """A request that was checked against the table. It travels by pickle."""

    request: WriteRequest
    rows: RowWrite

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns that the table is, or will be, partitioned by."""
        return self.rows.plan.task.partition_columns

    def under_session(self, mode: str | None) -> PlannedWrite:
        """The write under the session's partition overwrite mode, which its planner may not have been told."""
        request = self.request.under_session(mode)
        if not request.dynamic_partitions or self.request.dynamic_partitions or not self.partition_columns:
            return self
        if self.rows.plan.metadata is not None:
            raise InvalidInputError(
                f"{SESSION_OVERWRITE_MODE} of the session did not reach the writer in time: it was about to change the "
                "columns or the index of the whole table.",
                hint=f"Pass {OVERWRITE_MODE} as an option of the write, or write with indextables.spark.write().",
                key=SESSION_OVERWRITE_MODE,
            )
        return PlannedWrite(request, replace(self.rows, operation=request.operation, dynamic_partitions=True))

    def run(self, batches: Iterable[pa.RecordBatch]) -> list[AddAction]:
        """One task's rows as splits."""
        return self.rows.run(batches)

    def finish(
        self,
        added: Sequence[AddAction],
        *,
        parameters: Mapping[str, Any] | None = None,
        txn: tuple[str, int] | None = None,
    ) -> int | None:
        """Commit what the tasks wrote; returns the version, None if there was nothing to do or it was done before."""
        request = self.request
        _, version = finish_rows(
            open_log(request.path, request.settings),
            self.rows,
            added,
            options=request.settings,
            parameters=parameters,
            txn=txn or request.txn,
            user_metadata=request.user_metadata,
        )
        return version

    def abandon(self, added: Sequence[AddAction]) -> bool:
        """Delete what tasks wrote, unless it may be committed; returns whether it was deleted."""
        settings = self.request.settings
        return abandon_rows(open_log(self.request.path, settings), self.rows, added)


def plan_table_write(request: WriteRequest, data: pa.Schema) -> PlannedWrite:
    """Check a request against the table, or against what the table will be."""
    write = plan_rows(
        open_log(request.path, request.settings),
        data,
        options=request.settings,
        partition_columns=request.partition_by,
        operation=request.operation,
        where=request.replace_where,
        dynamic_partitions=bool(request.dynamic_partitions),
        merge_schema=request.merge_schema,
        first=request.first,
    )
    return PlannedWrite(request, write)
