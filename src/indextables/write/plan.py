"""What a write does before and after its rows are written: checks the schema and the settings, then makes one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Struct

from indextables.config import Settings
from indextables.config.indexing import IndexingSettings
from indextables.config.splits import SplitWriterSettings
from indextables.config.stats import StatsSettings
from indextables.log.transaction import Changes, LiveSelection
from indextables.model.actions import AddAction, MetadataAction
from indextables.model.conflicts import Operation
from indextables.model.schema import schema_from_json, schema_to_json
from indextables.splits.mapping import DocMapping, check_compatible
from indextables.splits.mapping_settings import recorded_as
from indextables.storage.spec import StoreSpec
from indextables.write.incoming import widened
from indextables.write.task import WriteTask


class WritePlan(Struct, frozen=True):
    """A write that was checked: the task for its workers, and the metadata it changes, if it does."""

    task: WriteTask
    metadata: MetadataAction | None


def plan_write(
    spec: StoreSpec,
    metadata: MetadataAction,
    data: pa.Schema,
    *,
    recorded: Settings,
    settings: Settings,
    merge_schema: bool = False,
    new_layout: bool = False,
) -> WritePlan:
    """Check the data's schema and the indexing settings against the table.

    `recorded` are the table's own settings, `settings` those of this write. Columns keep the kind of index they have,
    unless everything is overwritten (`new_layout`); how new ones are indexed becomes part of the table.
    """
    table = schema_from_json(metadata.schema_string)
    schema = widened(table, data, merge_schema=merge_schema)
    partition_columns = tuple(metadata.partition_columns or ())
    body = pa.schema([f for f in schema if f.name not in partition_columns])
    mapping = DocMapping.from_settings(body, settings.group(IndexingSettings))
    new = [f.name for f in body if new_layout or f.name not in table.names]
    if len(new) < len(body):
        known = pa.schema([f for f in body if f.name not in new])
        check_compatible(DocMapping.from_settings(known, recorded.group(IndexingSettings)), mapping)
    changed = msgspec.structs.replace(
        metadata,
        schema_string=metadata.schema_string if schema.equals(table) else schema_to_json(schema),
        configuration=recorded_as(mapping, body, new, metadata.configuration or {}) if new else metadata.configuration,
    )
    task = WriteTask(
        spec=spec,
        schema_json=schema_to_json(schema),
        partition_columns=partition_columns,
        mapping=mapping,
        splits=settings.group(SplitWriterSettings),
        stats=settings.group(StatsSettings),
    )
    return WritePlan(task, None if changed == metadata else changed)


def write_changes(
    plan: WritePlan,
    added: Sequence[AddAction],
    *,
    operation: Operation = Operation.APPEND,
    replaced: LiveSelection | None = None,
    parameters: Mapping[str, Any] | None = None,
    txn: tuple[str, int] | None = None,
    user_metadata: str | None = None,
    engine_info: str | None = None,
) -> Changes:
    """The one commit of a write."""
    return Changes(
        operation,
        adds=tuple(added),
        selected=replaced,
        metadata=plan.metadata,
        parameters=parameters or {},
        txn=txn,
        user_metadata=user_metadata,
        engine_info=engine_info,
    )
