"""A state: the table at one version as a list of manifests and tombstones for removed entries.

Manifests are shared between states and never modified: an incremental state names the manifests of
its predecessor plus one. A tombstone hides the entries of its path that were added up to the
version it came from. When, and how much of, a state is rewritten instead of continued is a pure
decision over counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, field

from indextables.model.actions import MetadataAction, ProtocolAction, SkipAction, TxnAction

FORMAT_VERSION = 1
UNKNOWN_COUNT = -1
Bounds = tuple[str | None, str | None]
"""Minimum and maximum of a column as text; None if unknown."""


class ManifestInfo(Struct, frozen=True):
    """One manifest as described by its state. `column_bounds` and `size_bytes` are known only for
    manifests of this library.
    """

    path: str
    num_entries: int
    min_added_at_version: int = 0
    max_added_at_version: int = 0
    partition_bounds: Mapping[str, Bounds] | None = None
    tombstone_count: int = 0
    live_entry_count: int = UNKNOWN_COUNT
    column_bounds: Mapping[str, Bounds] | None = None
    size_bytes: int | None = None


class Tombstone(Struct, frozen=True):
    """A removed path. Without the version that removed it, every entry is hidden."""

    path: str
    version: int | None = None


class StateManifest(Struct, frozen=True):
    """A whole state except for the entries in its manifests."""

    state_version: int
    num_files: int
    total_bytes: int
    manifests: tuple[ManifestInfo, ...]
    created_at: int = 0
    format_version: int = FORMAT_VERSION
    tombstones: tuple[Tombstone, ...] = ()
    schema_registry: Mapping[str, str] = field(default_factory=dict)
    protocol_version: int = 4
    metadata: MetadataAction | None = None
    protocol: ProtocolAction | None = None
    commit_timestamp: int | None = None
    skips: tuple[SkipAction, ...] = ()
    txns: tuple[TxnAction, ...] = ()
    txn_ids: tuple[str, ...] = ()
    table_id: str | None = None
    """The id of the table; None in a state of an older release or of another engine."""
    txn_id: str | None = None
    """The transaction of the version; None also if the version file has none."""

    @property
    def num_entries(self) -> int:
        """Number of entries in all manifests, live or not."""
        return sum(manifest.num_entries for manifest in self.manifests)


_UNIQUE_NAME = re.compile(
    r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE
)


class StateCounts(Struct, frozen=True):
    """Counts of a state. `removed` is the number of files removed since the previous state."""

    live: int
    tombstones: int
    manifests: int
    removed: int = 0

    @property
    def tombstone_ratio(self) -> float:
        """Share of removed entries."""
        if self.tombstones:
            return self.tombstones / (self.live + self.tombstones)
        return 0.0


def is_new_name(path: str) -> bool:
    """Return whether a path has a random name, so that no earlier file of the table can have the
    same one.
    """
    return _UNIQUE_NAME.search(path.rpartition("/")[2]) is not None
