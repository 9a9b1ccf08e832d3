"""The files of another table that a companion split indexes, as the log and the split record them.

A companion split has no rows: its documents are the rows of some Parquet files of a source, one
file after the other. A file is identified by its path, its size, its row count, and a stamp where
the source has no rule that a path never gets other content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from indextables.errors import BadFileError
from indextables.model.actions import AddAction

IDENTITIES_TAG = "companionSourceIdentities"
"""Tag of an add action with size, rows and stamp of each file in `companionSourceFiles`."""
TYPES_TAG = "companionColumnTypes"
"""Tag of an add action with the types of the columns whose bounds it records."""


class SourceFile(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One Parquet file of a source."""

    path: str
    """Relative to the root of the source, as its folder spells it."""
    size: int
    rows: int
    """Number of rows in the file, including those that the source has deleted."""
    stamp: str = ""
    """Differs when a file was replaced under its name; empty if the format never reuses a name."""


_IDENTITIES = msgspec.json.Decoder(list[tuple[int, int, str]])
_TYPES = msgspec.json.Decoder(dict[str, str])


def encode_identities(files: Sequence[SourceFile]) -> str:
    """Return size, rows and stamp of each file as the value of a tag."""
    return msgspec.json.encode([(file.size, file.rows, file.stamp) for file in files]).decode()


def encode_types(types: Mapping[str, str]) -> str:
    """Return the types of columns as the value of a tag."""
    return msgspec.json.encode(dict(types)).decode()


def source_files(action: AddAction) -> tuple[SourceFile, ...]:
    """Return the files that a companion split indexes, in the order of its documents."""
    paths, tags = action.companion_source_files or (), action.tags or {}
    try:
        identities = _IDENTITIES.decode(tags.get(IDENTITIES_TAG, "[]"))
        if len(identities) != len(paths) or not paths:
            raise ValueError(f"{len(paths)} files and {len(identities)} identities")
    except ValueError as error:  # msgspec's errors are ValueErrors
        message = f"The log does not say which files {action.path} indexes: {error}."
        raise BadFileError(message, path=action.path) from error
    return tuple(
        SourceFile(path, *identity) for path, identity in zip(paths, identities, strict=True)
    )


def bounded_types(action: AddAction) -> dict[str, str]:
    """Return the types of the columns whose bounds a companion split records."""
    try:
        return _TYPES.decode((action.tags or {}).get(TYPES_TAG, "{}"))
    except ValueError as error:
        message = f"The log does not say of which types the bounds of {action.path} are: {error}."
        raise BadFileError(message, path=action.path) from error
