"""What a checkpoint says that it is of: so that another one in its place, whole in itself, is not taken for it (rule S10).

Checkpoints of other writers and of older releases do not say it, and are taken at their word.
"""

from __future__ import annotations

import hashlib

import msgspec

from indextables.errors import BadFileError

_FIELD = "checkpointOf"
_LINE = b'{"commitInfo":{"%s":' % _FIELD.encode()


class CheckpointOrigin(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """The version and the table that a checkpoint is of, and which of its parts this file is."""

    version: int
    table_id: str
    part: int = 1
    parts: int = 1
    actions: int | None = None
    """How many actions the file holds."""
    sha256: str | None = None
    """Of the lines before this one."""

    def check(self, *, version: int, path: str, actions: int) -> None:
        """BadFileError if this is not what a checkpoint of one file says that lies in the place of a version's."""
        if self.version != version:
            raise BadFileError(f"{path} says that it is the checkpoint of version {self.version}.", path=path)
        if self.parts != 1:
            raise BadFileError(f"{path} is part {self.part} of {self.parts} of a checkpoint.", path=path)
        if self.actions is not None and self.actions != actions:
            raise BadFileError(f"{path} speaks of {self.actions} actions, but there are {actions}.", path=path)


# Looked into once, at import: msgspec crashes if two threads are the first to look into a type.
_decoder = msgspec.json.Decoder(CheckpointOrigin)
_line_decoder = msgspec.json.Decoder(dict[str, dict[str, CheckpointOrigin]])


def checksum(data: bytes) -> str:
    """The SHA-256 of some bytes, as text."""
    return hashlib.sha256(data).hexdigest()


def encode_origin(origin: CheckpointOrigin) -> bytes:
    """The origin as JSON."""
    return msgspec.json.encode(origin)


def decode_origin(data: bytes, *, path: str) -> CheckpointOrigin:
    """The origin in JSON. BadFileError if it is none."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as failure:
        raise BadFileError(f"{path} does not say what it is the checkpoint of: {failure}.", path=path) from failure


def with_origin(lines: bytes, origin: CheckpointOrigin) -> bytes:
    """Lines of actions with a last one that says where they come from.

    It has the form of a `commitInfo`, which every reader takes, and whose unknown fields every reader ignores.
    """
    sealed = msgspec.structs.replace(origin, sha256=checksum(lines))
    return lines + _LINE + encode_origin(sealed) + b"}}\n"


def without_origin(plain: bytes, *, path: str) -> tuple[bytes, CheckpointOrigin | None]:
    """The lines of actions, and what the last line says of them. BadFileError if they are not what it says."""
    at = plain.rstrip(b"\n").rfind(b"\n") + 1
    if not plain.startswith(_LINE, at):
        return plain, None
    try:
        origin = _line_decoder.decode(plain[at:])["commitInfo"][_FIELD]
    except (msgspec.DecodeError, UnicodeDecodeError, LookupError) as failure:
        raise BadFileError(f"{path} does not say what it is the checkpoint of: {failure}.", path=path) from failure
    if origin.sha256 is not None and origin.sha256 != checksum(plain[:at]):
        raise BadFileError(f"{path} does not match its checksum.", path=path)
    return plain[:at], origin
