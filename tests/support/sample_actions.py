"""One action of each kind."""

from __future__ import annotations

from indextables.model.actions import (
    AddAction,
    CommitInfo,
    LogAction,
    MetadataAction,
    ProtocolAction,
    RemoveAction,
    SkipAction,
    TxnAction,
)

ACTIONS: list[LogAction] = [
    CommitInfo(txn_id="t", timestamp=5, operation="WRITE", operation_parameters={"mode": "append"}),
    ProtocolAction(min_reader_version=4, min_writer_version=4, reader_features=("avroState",)),
    MetadataAction(
        id="m", schema_string="{}", partition_columns=("day",), configuration={"a": "b"}
    ),
    TxnAction(app_id="q", version=3, last_updated=9),
    AddAction(
        path="p ü%=.split",
        partition_values={"day": None},
        size=3,
        min_values={"a": "1"},
        split_tags=("x",),
    ),
    RemoveAction(path="old.split", deletion_timestamp=4, partition_values={"day": "1"}, size=2),
    SkipAction(
        path="bad.split",
        skip_timestamp=1,
        reason="broken",
        operation="merge",
        retry_after=2,
        skip_count=3,
    ),
]
