"""Encode and decode states and the pointer `_last_checkpoint`.

A state's own file, `_manifest.avro`, is one record (its JSON form is only read). Fields after
`metadata`, and after `liveEntryCount` in a manifest's item, are ours: optional, with defaults, and
last, so that an older reader still resolves the record. The pointer is a hint that is always
checked.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import fastavro
import msgspec

from indextables.errors import BadFileError, UnsupportedError
from indextables.model.actions import (
    Action,
    Long,
    MetadataAction,
    ProtocolAction,
    SkipAction,
    TxnAction,
)
from indextables.model.schema_registry import bare_registry
from indextables.model.state import FORMAT_VERSION, Bounds, ManifestInfo, StateManifest, Tombstone
from indextables.wire.avro import assemble, block_codec, read_container, read_records
from indextables.wire.version_file import action_from_fields, check_untyped, encode_action, inflate

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
        {"name": "tableId", **_MAYBE_TEXT},
        {"name": "txnId", **_MAYBE_TEXT},
    ],
}
PARSED_SCHEMA = fastavro.parse_schema(SCHEMA)
SCHEMA_JSON = json.dumps(SCHEMA, separators=(",", ":"))


class BoundsItem(msgspec.Struct):
    """Minimum and maximum of a column."""

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
    """One state. Actions are JSON text, or objects if the file itself is JSON."""

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
    table_id: str | None = None
    txn_id: str | None = None


# Looked into once, at import: msgspec crashes if two threads are the first to look into a type.
msgspec.json.Decoder(StateRecord)


A = TypeVar("A", bound=Action)


def encode_state(state: StateManifest, *, compression: str = "zstd", level: int = 3) -> bytes:
    """Return the bytes of `_manifest.avro`; the same state gives the same bytes."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, PARSED_SCHEMA, _record(state))
    codec = block_codec(compression, level=level)
    return assemble(SCHEMA_JSON, codec.name, [(1, codec.pack(out.getbuffer()))])


def decode_state(data: bytes, *, path: str) -> StateManifest:
    """Decode the state in `_manifest.avro` or `_manifest.json`, by the name. Raises BadFileError."""
    if path.endswith(".json"):
        plain = inflate(data, path=path)
        check_untyped(len(plain), len(data), path=path)
        fields = _json_object(plain, path)
    else:
        fields = _one_record(data, path)
    return _state(fields, path)


def _one_record(data: bytes, path: str) -> dict[str, Any]:
    container = read_container(data, path=path)
    if container.rows != 1:
        raise BadFileError(
            f"{path} holds {container.rows} records where a state is one.", path=path
        )
    return read_records(data, container, path=path)[0]


def _json_object(data: bytes | str, path: str) -> dict[str, Any]:
    try:
        content = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as failure:
        raise BadFileError(f"{path} holds garbled JSON: {failure}.", path=path) from failure
    if not isinstance(content, dict):
        raise BadFileError(f"{path} holds no JSON object where one is expected.", path=path)
    return content


def _record(state: StateManifest) -> dict[str, Any]:
    return {
        "formatVersion": state.format_version,
        "stateVersion": state.state_version,
        "createdAt": state.created_at,
        "numFiles": state.num_files,
        "totalBytes": state.total_bytes,
        "manifests": [_item_record(manifest) for manifest in state.manifests],
        "tombstones": [tombstone.path for tombstone in state.tombstones],
        "schemaRegistry": dict(state.schema_registry),
        "protocolVersion": state.protocol_version,
        "metadata": _line(state.metadata),
        "protocol": _line(state.protocol),
        "commitTimestamp": state.commit_timestamp,
        "tombstoneVersions": [
            state.state_version if t.version is None else t.version for t in state.tombstones
        ],
        "skips": [_line(skip) for skip in state.skips],
        "txns": [_line(txn) for txn in state.txns],
        "txnIds": list(state.txn_ids),
        "tableId": state.table_id,
        "txnId": state.txn_id,
    }


def _item_record(manifest: ManifestInfo) -> dict[str, Any]:
    return {
        "path": manifest.path,
        "numEntries": manifest.num_entries,
        "minAddedAtVersion": manifest.min_added_at_version,
        "maxAddedAtVersion": manifest.max_added_at_version,
        "partitionBounds": _bounds_record(manifest.partition_bounds),
        "tombstoneCount": manifest.tombstone_count,
        "liveEntryCount": manifest.live_entry_count,
        "columnBounds": _bounds_record(manifest.column_bounds),
        "sizeBytes": manifest.size_bytes,
    }


def _bounds_record(bounds: Mapping[str, Bounds] | None) -> dict[str, Any] | None:
    if bounds is None:
        return None
    return {name: {"min": low, "max": high} for name, (low, high) in bounds.items()}


def _line(action: Action | None) -> str | None:
    if action is None:
        return None
    return encode_action(action).decode()


def _state(fields: dict[str, Any], path: str) -> StateManifest:
    try:
        record = msgspec.convert(fields, StateRecord)
    except (msgspec.ValidationError, RecursionError) as failure:
        raise BadFileError(f"{path} is not a state: {failure}.", path=path) from failure
    if record.format_version > FORMAT_VERSION:
        message = f"{path} has state format {record.format_version}; this release reads up to {FORMAT_VERSION}."
        raise UnsupportedError(
            message, path=path, needed=record.format_version, supported=FORMAT_VERSION
        )
    return StateManifest(
        state_version=record.state_version,
        num_files=record.num_files,
        total_bytes=record.total_bytes,
        manifests=tuple(_manifest(item) for item in record.manifests),
        created_at=record.created_at,
        format_version=record.format_version,
        tombstones=_tombstones(record, path),
        schema_registry=bare_registry(record.schema_registry or {}),
        protocol_version=record.protocol_version,
        metadata=_action(record.metadata, "metaData", MetadataAction, path),
        protocol=_action(record.protocol, "protocol", ProtocolAction, path),
        commit_timestamp=record.commit_timestamp,
        skips=tuple(_actions(record.skips or (), "mergeskip", SkipAction, path)),
        txns=tuple(_actions(record.txns or (), "txn", TxnAction, path)),
        txn_ids=tuple(record.txn_ids or ()),
        table_id=record.table_id,
        txn_id=record.txn_id,
    )


def _tombstones(record: StateRecord, path: str) -> tuple[Tombstone, ...]:
    paths, versions = record.tombstones or [], record.tombstone_versions or []
    if versions and len(versions) != len(paths):
        raise BadFileError(
            f"{path} gives {len(versions)} versions for {len(paths)} tombstones.", path=path
        )
    return tuple(
        Tombstone(gone, versions[at] if versions else None) for at, gone in enumerate(paths)
    )


def _manifest(item: ManifestItem) -> ManifestInfo:
    return ManifestInfo(
        path=item.path,
        num_entries=item.num_entries,
        min_added_at_version=item.min_added_at_version,
        max_added_at_version=item.max_added_at_version,
        partition_bounds=_bounds_value(item.partition_bounds),
        tombstone_count=item.tombstone_count,
        live_entry_count=item.live_entry_count,
        column_bounds=_bounds_value(item.column_bounds),
        size_bytes=item.size_bytes,
    )


def _bounds_value(bounds: dict[str, BoundsItem] | None) -> dict[str, Bounds] | None:
    if bounds is None:
        return None
    return {name: (item.min, item.max) for name, item in bounds.items()}


def _actions(lines: Iterable[Any], key: str, kind: type[A], path: str) -> Iterable[A]:
    return (
        action
        for action in (_action(line, key, kind, path) for line in lines)
        if action is not None
    )


def _action(text: Any, key: str, kind: type[A], path: str) -> A | None:
    """Decode an action stored as JSON: wrapped in its key, bare, or null; as text, or as an object
    in the JSON form.
    """
    if text is None or text == "":
        return None
    if isinstance(text, dict):
        fields = text
    else:
        fields = _json_object(str(text), path)
    fields = fields.get(key, fields) if key in fields else fields
    if fields is None:
        return None
    try:
        action = action_from_fields(key, fields)
    except (msgspec.ValidationError, AttributeError, RecursionError) as failure:
        raise BadFileError(
            f"{path} holds an unreadable {key!r} action: {failure}.", path=path
        ) from failure
    if isinstance(action, kind):
        return action
    return None


JSON = "json"
JSON_MULTI_PART = "json-multipart"
AVRO_STATE = "avro-state"
PARQUET = "parquet"


class LastCheckpoint(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """The content of the pointer. The first releases wrote only the version."""

    version: Long
    size: Long | None = None
    size_in_bytes: Long | None = None
    num_files: Long | None = None
    created_time: Long | None = None
    parts: Long | None = None
    checkpoint_id: str | None = None
    format: str | None = None
    state_dir: str | None = None
    table_id: str | None = None
    txn_id: str | None = None


# Looked into once, at import: msgspec crashes if two threads are the first to look into a type.
_POINTER = msgspec.json.Decoder(LastCheckpoint)


class UnusablePointer(msgspec.Struct, frozen=True):
    """A pointer without usable content, and why."""

    reason: str


def decode_pointer(data: bytes) -> LastCheckpoint | UnusablePointer:
    """Decode the pointer, or return why it cannot be used. Never raises: a table opens without its
    pointer.
    """
    if not data.strip():
        return UnusablePointer("it is empty")
    try:
        pointer = _POINTER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as failure:
        return UnusablePointer(f"it cannot be read ({failure})")
    if pointer.version < 0:
        return UnusablePointer(f"it names version {pointer.version}")
    return pointer


def encode_pointer(pointer: LastCheckpoint) -> bytes:
    """Return the bytes of the pointer; missing values are null, as other writers do."""
    return msgspec.json.encode(pointer)
