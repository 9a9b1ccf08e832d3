"""A source at one version, as plain values: its files, which of their rows are deleted, its columns.

An adapter for each format makes them. Everything that a query of a companion does uses one snapshot
of the source, so that the list of files, the deleted rows and the columns belong together.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from indextables.errors import InvalidInputError, UnsupportedError
from indextables.model.column_names import ColumnNames, column_names
from indextables.model.deletion_vector import RowSet
from indextables.model.source_file import SourceFile

LATEST = "latest"
SYNCED = "synced"
At = str | int | dt.datetime
"""Which version of a source: `latest`, `synced`, a number, or a timestamp."""
FileKey = tuple[str, int, str]
"""Path, size and stamp of a file."""


class ListedFile(Struct, frozen=True):
    """A file of a source at one version."""

    path: str
    size: int
    stamp: str
    rows: int
    """Number of rows in the file, including deleted ones."""
    partition_values: Mapping[str, str | None] = {}
    """Values of the partition columns, by physical names."""
    deleted: RowSet | None = None
    """The rows that this version of the source has deleted, ascending."""
    is_settled: bool = True
    """Whether the file is old enough to be indexed."""

    @property
    def key(self) -> FileKey:
        """What identifies the file."""
        return self.path, self.size, self.stamp

    @property
    def living(self) -> int:
        """Number of rows that are part of the source."""
        if self.deleted is None:
            return self.rows
        return self.rows - len(self.deleted)

    def to_source_file(self) -> SourceFile:
        """Return the file as a split records it."""
        return SourceFile(self.path, self.size, self.rows, self.stamp)


class SourceSnapshot(Struct, frozen=True):
    """A source at one version."""

    version: str
    """Number of the version; a digest of the files of a folder."""
    source_id: str
    schema_json: str
    """The columns with physical names, as the log of a table writes them."""
    partition_columns: tuple[str, ...]
    files: tuple[ListedFile, ...]

    @property
    def names(self) -> ColumnNames:
        """Logical and physical column names."""
        return column_names(self.schema_json)

    @property
    def number(self) -> int | None:
        """The version as a number, if the format counts versions."""
        if not self.version.isdecimal():
            return None
        return int(self.version)


class SourceAdapter(Protocol):
    """Reads a source of one format."""

    def read(self, at: At, *, known: Mapping[FileKey, int]) -> SourceSnapshot:
        """Return the source at a version. `known` has the row counts of files that were indexed."""
        ...


class NotCounted(Struct, frozen=True):
    """Refuses versions of a source that does not keep any."""

    source: str

    def refuse(self, at: object) -> UnsupportedError:
        """Return the error for a version of a folder."""
        return UnsupportedError(
            f"{self.source} is a folder of Parquet files, which has no version {at!r}.",
            hint=f"Open the companion with at={LATEST!r} or at={SYNCED!r}.",
        )


def parse_version(at: object) -> At:
    """Return which version is meant. Raise InvalidInputError for anything else."""
    if isinstance(at, bool) or not isinstance(at, str | int | dt.datetime):
        raise _not_a_version(at)
    if isinstance(at, int):
        if at < 0:
            raise _not_a_version(at)
        return at
    if isinstance(at, dt.datetime):
        if at.tzinfo is None:
            return at.replace(tzinfo=dt.UTC)
        return at
    if at in (LATEST, SYNCED):
        return at
    if at.isdecimal():
        return int(at)
    try:
        moment = dt.datetime.fromisoformat(at)
    except ValueError as error:
        raise _not_a_version(at) from error
    return parse_version(moment)


def _not_a_version(at: object) -> InvalidInputError:
    return InvalidInputError(
        f"at={at!r} is not a version of a source.",
        hint=f"Give {LATEST!r}, {SYNCED!r}, a version number, or a timestamp.",
        at=at,
    )


def row_counts(files: Sequence[SourceFile]) -> dict[FileKey, int]:
    """Return the row counts of files that were indexed."""
    return {(file.path, file.size, file.stamp): file.rows for file in files}
