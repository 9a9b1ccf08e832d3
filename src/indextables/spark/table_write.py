"""A write from Spark, whichever way it came: planned on the driver, run by tasks, finished by one commit.

A table that does not exist yet is created by the commit, not by the plan: a job that fails leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables import config
from indextables.errors import InvalidInputError, TableExistsError, TableNotFoundError
from indextables.model.actions import AddAction, MetadataAction
from indextables.model.arguments import transaction_id
from indextables.model.conflicts import Operation
from indextables.model.schema import check_partition_columns, check_schema, normalize, schema_from_json, schema_to_json
from indextables.storage.spec import StoreSpec, open_store
from indextables.table import Table
from indextables.write.plan import plan_write
from indextables.write.row_write import RowWrite

NOT_CREATED = -1


class WriteRequest(Struct, frozen=True):
    """What somebody wants to be written. The settings may hold credentials: they stay out of the repr."""

    path: str
    overwrite: bool = False
    partition_by: tuple[str, ...] | None = None
    replace_where: str | None = None
    dynamic_partitions: bool = False
    merge_schema: bool = False
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

    @property
    def creates(self) -> bool:
        """Whether the table did not exist when the write was planned."""
        return self.rows.read_version == NOT_CREATED

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
        table = self._created() if self.creates else Table.open(request.path, options=request.settings)
        rows = replace(self.rows, read_version=table.version) if self.creates else self.rows
        return table.finish_write(
            rows, added, parameters=parameters, txn=txn or request.txn, user_metadata=request.user_metadata
        )

    def abandon(self, added: Sequence[AddAction]) -> bool:
        """Delete what tasks wrote, unless it may be committed; returns whether it was deleted."""
        try:
            table = Table.open(self.request.path, options=self.request.settings)
        except TableNotFoundError:
            open_store(self.rows.plan.task.spec).delete([action.path for action in added])
            return True
        return table.abandon_write(self.rows, added)

    def _created(self) -> Table:
        task = self.rows.plan.task
        schema = schema_from_json(task.schema_json)
        try:
            return Table.create(
                self.request.path,
                schema=schema,
                partition_columns=list(task.partition_columns),
                options=self.request.settings,
            )
        except TableExistsError:
            table = Table.open(self.request.path, options=self.request.settings)
            # Another writer was first: its table must be the one that these splits were made for.
            again = _planned_rows(table, self.request, schema)
            if again.plan.task != task:
                raise
            return table


def plan_table_write(request: WriteRequest, data: pa.Schema) -> PlannedWrite:
    """Check a request against the table, or against what the table will be."""
    try:
        table = Table.open(request.path, options=request.settings)
    except TableNotFoundError:
        return PlannedWrite(request, _first_rows(request, data))
    return PlannedWrite(request, _planned_rows(table, request, data))


def _planned_rows(table: Table, request: WriteRequest, data: pa.Schema) -> RowWrite:
    if request.partition_by is not None:
        wanted = check_partition_columns(table.schema, request.partition_by)
        if list(wanted) != table.partition_columns:
            raise InvalidInputError(
                f"{request.path} is partitioned by {_listed(table.partition_columns)}, not by {_listed(wanted)}.",
                hint="Leave the partition columns out to write to a table that exists.",
                path=request.path,
            )
    return table.plan_write(
        data,
        operation=request.operation,
        where=request.replace_where,
        dynamic_partitions=request.dynamic_partitions,
        merge_schema=request.merge_schema,
    )


def _first_rows(request: WriteRequest, data: pa.Schema) -> RowWrite:
    schema = normalize(data)
    check_schema(schema)
    metadata = MetadataAction(
        id="not created",
        schema_string=schema_to_json(schema),
        partition_columns=check_partition_columns(schema, request.partition_by or ()),
    )
    settings = config.resolve(options=request.settings)
    spec = StoreSpec.from_url(request.path, settings)
    # There is nothing yet that could be replaced.
    return RowWrite(
        plan_write(spec, metadata, schema, recorded=settings, settings=settings), NOT_CREATED, Operation.APPEND
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
