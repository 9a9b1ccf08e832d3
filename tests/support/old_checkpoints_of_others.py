"""Checkpoints as other writers leave them."""

from __future__ import annotations

from indextables.model.actions import (
    LogAction,
    MetadataAction,
    ProtocolAction,
    SkipAction,
    TxnAction,
    UnknownAction,
)

METADATA = MetadataAction(
    id="t", schema_string="{}", partition_columns=("day",), configuration={"a": "b"}
)

OTHERS: tuple[LogAction, ...] = (
    ProtocolAction(min_reader_version=2, min_writer_version=2),
    METADATA,
    TxnAction(app_id="a", version=3),
    SkipAction(path="x", skip_timestamp=1, reason="r", operation="merge"),
    UnknownAction(key="cdc", value={"path": "y"}),
)
