"""JSON checkpoints: one file of actions, or a manifest that names part files.

One file comes in two forms: JSON lines like a version file, or a single object with `protocol`, `metaData` and a list
under `add`. Either may be gzipped. We write lines, and a last one that says what they are the checkpoint of.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from indextables.errors import BadFileError, shown
from indextables.model.actions import ACTION_KEYS, LogAction, UnknownAction
from indextables.wire import version_file
from indextables.wire.checkpoint_origin import CheckpointOrigin, with_origin, without_origin
from indextables.wire.compression import check_untyped, deflate, inflate

ACTIONS_PER_PART = 100_000
_PART_NAME = re.compile(r"[^/\\\x00-\x1f]{1,200}")
_KEYS = frozenset(ACTION_KEYS.values())


class MultiPartManifest(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """The file that makes a multi-part checkpoint whole: it is written last and names every part."""

    version: int
    checkpoint_id: str
    parts: tuple[str, ...]
    created_time: int = 0
    format: str = "json"
    table_id: str | None = None
    checksums: tuple[str, ...] | None = None
    """The SHA-256 of each part's file, in the order of the parts."""


# Looked into once, at import: msgspec crashes if two threads are the first to look into a type.
msgspec.json.Decoder(MultiPartManifest)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


def decode_checkpoint(data: bytes, *, path: str, version: int | None = None) -> list[LogAction] | MultiPartManifest:
    """The actions of a checkpoint file, or the manifest of a multi-part one. BadFileError if it is neither.

    If it says what it is of, then it must be the whole checkpoint of this version, if one is given.
    """
    plain = inflate(data, path=path)
    if _is_lines(plain):
        actions, origin = _lines(data, plain, path)
        if origin is not None and version is not None:
            origin.check(version=version, path=path, actions=len(actions))
        return actions
    check_untyped(len(plain), len(data), path=path)
    try:
        content = msgspec.json.decode(plain)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decode_part(data, path=path)  # several lines, or garbled: the reader of lines tells which
    if not isinstance(content, dict):
        raise BadFileError(f"{path} holds no JSON object.", path=path)
    if "checkpointId" in content:
        return _manifest(content, path, version)
    if len(content) == 1 and not isinstance(next(iter(content.values())), list):
        return decode_part(data, path=path)
    return _object_form(content, path)


def _is_lines(plain: bytes) -> bool:
    """Whether the first of several lines is an object by itself."""
    first, _, rest = plain.lstrip().partition(b"\n")
    try:
        return bool(rest.strip()) and bool(_OBJECT.decode(first))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def decode_part(data: bytes, *, path: str) -> list[LogAction]:
    """The actions of a file of JSON lines: a checkpoint of one file, or one part of several."""
    return _lines(data, inflate(data, path=path), path)[0]


def _lines(data: bytes, plain: bytes, path: str) -> tuple[list[LogAction], CheckpointOrigin | None]:
    lines, origin = without_origin(plain, path=path)
    return version_file.decode_lines(lines, path=path, packed_bytes=len(data)), origin


def encode_part(actions: Sequence[LogAction], origin: CheckpointOrigin | None = None) -> bytes:
    """The bytes of a checkpoint of one file, or of one part of several, and of what it says that it is."""
    lines = version_file.encode(actions, compress=False)
    return deflate(lines if origin is None else with_origin(lines, origin))


def encode_multi_part_manifest(manifest: MultiPartManifest) -> bytes:
    """The bytes of a multi-part checkpoint's manifest: plain, so that its first line tells what it is."""
    return msgspec.json.encode(manifest)


def split_into_parts(actions: Sequence[LogAction]) -> list[Sequence[LogAction]]:
    """The actions in parts of at most 100,000."""
    return [actions[at : at + ACTIONS_PER_PART] for at in range(0, len(actions), ACTIONS_PER_PART)]


def _manifest(content: dict[str, Any], path: str, version: int | None) -> MultiPartManifest:
    try:
        manifest = msgspec.convert(content, MultiPartManifest)
    except msgspec.ValidationError as failure:
        raise BadFileError(f"{path} is not a checkpoint manifest: {failure}.", path=path) from failure
    for part in manifest.parts:
        if not _PART_NAME.fullmatch(part) or part in (".", "..", path.rpartition("/")[2]):
            raise BadFileError(f"{path} names a part that is none: {shown(part)}.", path=path)
    if len(set(manifest.parts)) < len(manifest.parts):
        raise BadFileError(f"{path} names a part twice.", path=path)
    if manifest.format != "json" or not manifest.parts:
        raise BadFileError(f"{path} names no JSON parts (format {manifest.format!r}).", path=path)
    if manifest.checksums is not None and len(manifest.checksums) != len(manifest.parts):
        raise BadFileError(
            f"{path} has {len(manifest.checksums)} checksums for {len(manifest.parts)} parts.", path=path
        )
    if version is not None and manifest.version != version:
        raise BadFileError(f"{path} says that it is the checkpoint of version {manifest.version}.", path=path)
    return manifest


def _object_form(content: dict[str, Any], path: str) -> list[LogAction]:
    actions: list[LogAction] = []
    for key, value in content.items():
        for fields in value if isinstance(value, list) else [value]:
            if fields is None:
                continue
            if key not in _KEYS:
                actions.append(UnknownAction(key=key, value=fields))
                continue
            try:
                actions.append(version_file.as_meant(version_file.action_from_fields(key, fields)))
            except (msgspec.ValidationError, AttributeError, RecursionError) as failure:
                raise BadFileError(f"{path} holds an unreadable {key!r} action: {failure}.", path=path) from failure
    if not any(not isinstance(action, UnknownAction) for action in actions):
        raise BadFileError(f"{path} holds no actions.", path=path)
    return actions
