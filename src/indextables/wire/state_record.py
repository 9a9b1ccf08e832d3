"""The record of a state's own file: its Avro schema, and the same record as typed fields, for either form of the file.

Fields after `metadata`, and after `liveEntryCount` in a manifest's item, are ours: optional, with defaults, and last, so
that an older reader still resolves the record.
"""

from __future__ import annotations

import json
from typing import Any

import fastavro
import msgspec

from indextables.model.actions import Long
from indextables.model.state import FORMAT_VERSION

_MAYBE_TEXT: dict[str, Any] = {"type": ["null", "string"], "default": None}
_BOUNDS = {
    "type": "record",
    "name": "PartitionBoundsItem",
    "fields": [{"name": "min", **_MAYBE_TEXT}, {"name": "max", **_MAYBE_TEXT}],
}


def _texts(name: str) -> dict[str, Any]:
    return {"name": name, "type": {"type": "array", "items": "string"}, "default": []}


def _bounds(name: str, values: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", {"type": "map", "values": values}], "default": None}


_ITEM = {
    "type": "record",
    "name": "ManifestInfoItem",
    "fields": [
        {"name": "path", "type": "string"},
        {"name": "numEntries", "type": "long"},
        {"name": "minAddedAtVersion", "type": "long"},
        {"name": "maxAddedAtVersion", "type": "long"},
        _bounds("partitionBounds", _BOUNDS),
        {"name": "tombstoneCount", "type": "long", "default": 0},
        {"name": "liveEntryCount", "type": "long", "default": -1},
        _bounds("columnBounds", "PartitionBoundsItem"),
        {"name": "sizeBytes", "type": ["null", "long"], "default": None},
    ],
}
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "StateManifest",
    "namespace": "io.indextables.state",
    "fields": [
        {"name": "formatVersion", "type": "int", "default": FORMAT_VERSION},
        {"name": "stateVersion", "type": "long"},
        {"name": "createdAt", "type": "long"},
        {"name": "numFiles", "type": "long"},
        {"name": "totalBytes", "type": "long"},
        {"name": "manifests", "type": {"type": "array", "items": _ITEM}},
        _texts("tombstones"),
        {"name": "schemaRegistry", "type": {"type": "map", "values": "string"}, "default": {}},
        {"name": "protocolVersion", "type": "int", "default": 4},
        {"name": "metadata", **_MAYBE_TEXT},
        {"name": "protocol", **_MAYBE_TEXT},
        {"name": "commitTimestamp", "type": ["null", "long"], "default": None},
        {"name": "tombstoneVersions", "type": {"type": "array", "items": "long"}, "default": []},
        _texts("skips"),
        _texts("txns"),
        _texts("txnIds"),
    ],
}
PARSED_SCHEMA = fastavro.parse_schema(SCHEMA)
SCHEMA_JSON = json.dumps(SCHEMA, separators=(",", ":"))


class BoundsItem(msgspec.Struct):
    """Least and greatest value of a column."""

    min: str | None = None
    max: str | None = None


class ManifestItem(msgspec.Struct, rename="camel"):
    """One manifest."""

    path: str
    num_entries: Long
    min_added_at_version: Long = 0
    max_added_at_version: Long = 0
    partition_bounds: dict[str, BoundsItem] | None = None
    tombstone_count: Long = 0
    live_entry_count: Long = -1
    column_bounds: dict[str, BoundsItem] | None = None
    size_bytes: Long | None = None


class StateRecord(msgspec.Struct, rename="camel"):
    """One state. Actions are JSON text, or objects where the file itself is JSON."""

    state_version: Long
    num_files: Long
    total_bytes: Long
    manifests: list[ManifestItem]
    format_version: Long = FORMAT_VERSION
    created_at: Long = 0
    tombstones: list[str] | None = None
    schema_registry: dict[str, str] | None = None
    protocol_version: Long = 4
    metadata: Any = None
    protocol: Any = None
    commit_timestamp: Long | None = None
    tombstone_versions: list[Long] | None = None
    skips: list[Any] | None = None
    txns: list[Any] | None = None
    txn_ids: list[str] | None = None


# Looked into once, at import: msgspec crashes if two threads are the first to look into a type.
msgspec.json.Decoder(StateRecord)
