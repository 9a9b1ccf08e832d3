"""When a state is rewritten instead of continued, and how much of it. Pure decisions over counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import ceil

from msgspec import Struct

from indextables.config.state import CompactionSettings
from indextables.model.state import ManifestInfo, StateManifest

_UNIQUE_NAME = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class StateCounts(Struct, frozen=True):
    """What a state would hold. `removed` is how many files went since the state before it."""

    live: int
    tombstones: int
    manifests: int
    removed: int = 0

    @property
    def tombstone_ratio(self) -> float:
        """Share of the entries that are removed."""
        return self.tombstones / (self.live + self.tombstones) if self.tombstones else 0.0


def compaction_reason(counts: StateCounts, settings: CompactionSettings, *, entries_per_manifest: int) -> str | None:
    """Why a state should be compacted, or None."""
    if counts.tombstone_ratio > settings.tombstone_threshold:
        return f"{counts.tombstones} of {counts.live + counts.tombstones} entries are removed"
    # A table of more files than so many manifests can list would otherwise be compacted every time.
    if counts.manifests > max(settings.max_manifests, 2 * ceil(counts.live / entries_per_manifest)):
        return f"there are {counts.manifests} manifests"
    if counts.removed > settings.large_remove_threshold:
        return f"{counts.removed} files were removed at once"
    return None


def is_compact(state: StateManifest, *, entries_per_manifest: int) -> bool:
    """Whether compaction would find nothing to do."""
    ours = all(manifest.size_bytes is not None for manifest in state.manifests)
    needed = ceil(state.num_files / entries_per_manifest)
    return ours and not state.tombstones and len(state.manifests) <= needed


def worth_rewriting(
    manifests: Sequence[ManifestInfo], settings: CompactionSettings, *, entries_per_manifest: int
) -> list[ManifestInfo]:
    """The manifests that are small, or hold more removed entries than they should."""
    return [
        manifest
        for manifest in manifests
        if manifest.tombstone_count > settings.tombstone_threshold / 2 * manifest.num_entries
        or manifest.live_entry_count < entries_per_manifest // 2
    ]


def is_most_of(chosen: Iterable[ManifestInfo], manifests: Iterable[ManifestInfo]) -> bool:
    """Whether rewriting the chosen manifests is more than half the work of rewriting all."""
    return 2 * sum(m.num_entries for m in chosen) > sum(m.num_entries for m in manifests)


def is_new_name(path: str) -> bool:
    """Whether a path carries a random name, so that no earlier file of the table can have the same one."""
    return _UNIQUE_NAME.search(path.rpartition("/")[2]) is not None
