"""`_last_checkpoint`, the pointer to the newest checkpoint. It is a hint: what it says is checked, never trusted."""

from __future__ import annotations

import msgspec

from indextables.model.actions import Long

JSON = "json"
JSON_MULTI_PART = "json-multipart"
AVRO_STATE = "avro-state"
PARQUET = "parquet"


class LastCheckpoint(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """What the pointer says. The first releases wrote nothing but the version."""

    version: Long
    size: Long | None = None
    size_in_bytes: Long | None = None
    num_files: Long | None = None
    created_time: Long | None = None
    parts: Long | None = None
    checkpoint_id: str | None = None
    format: str | None = None
    state_dir: str | None = None


# Looked into once, at import: msgspec crashes if two threads are the first to look into a type.
_POINTER = msgspec.json.Decoder(LastCheckpoint)


class UnusablePointer(msgspec.Struct, frozen=True):
    """A pointer that says nothing that can be used, and why."""

    reason: str


def decode_pointer(data: bytes) -> LastCheckpoint | UnusablePointer:
    """The pointer, or why it cannot be used. Never an error: a table opens without its pointer."""
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
    """The bytes of the pointer; fields without a value are written as null, as other writers do."""
    return msgspec.json.encode(pointer)
