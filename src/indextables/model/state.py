"""A state: what a table is at one version, told by a list of manifests and of the entries in them that are gone.

Manifests are shared between states and never rewritten in place: an incremental state names the manifests of the state
before it and one more. A tombstone hides the entries of its path that were added at or before the version it came from.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from indextables.model.actions import MetadataAction, ProtocolAction, SkipAction, TxnAction

FORMAT_VERSION = 1
UNKNOWN_COUNT = -1
Bounds = tuple[str | None, str | None]
"""Least and greatest value of a column, as text; None where it is not known."""


class ManifestInfo(Struct, frozen=True):
    """One manifest, as the state that names it describes it.

    `column_bounds` and `size_bytes` are only known of manifests that this package wrote.
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
    """A path that is gone. The version that removed it is None where the state does not say: then every entry is hidden."""

    path: str
    version: int | None = None


class StateManifest(Struct, frozen=True):
    """A whole state but for the entries in its manifests."""

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

    @property
    def num_entries(self) -> int:
        """Entries in all manifests, live or not."""
        return sum(manifest.num_entries for manifest in self.manifests)
