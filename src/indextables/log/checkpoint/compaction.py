"""When a state is compacted, and which of its manifests are rewritten: decisions over counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

from indextables.config.log import CompactionSettings
from indextables.model.state import ManifestInfo, StateCounts, StateManifest


def compaction_reason(
    counts: StateCounts, settings: CompactionSettings, *, entries_per_manifest: int
) -> str | None:
    """Return why a state should be compacted, or None."""
    if counts.tombstone_ratio > settings.tombstone_threshold:
        return f"{counts.tombstones} of {counts.live + counts.tombstones} entries are removed"
    # A table of more files than these manifests can list would otherwise be compacted every time.
    if counts.manifests > max(settings.max_manifests, 2 * ceil(counts.live / entries_per_manifest)):
        return f"there are {counts.manifests} manifests"
    if counts.removed > settings.large_remove_threshold:
        return f"{counts.removed} files were removed at once"
    return None


def is_compact(state: StateManifest, *, entries_per_manifest: int) -> bool:
    """Return whether compaction would change nothing."""
    ours = all(manifest.size_bytes is not None for manifest in state.manifests)
    needed = ceil(state.num_files / entries_per_manifest)
    return ours and not state.tombstones and len(state.manifests) <= needed


def worth_rewriting(
    manifests: Sequence[ManifestInfo], settings: CompactionSettings, *, entries_per_manifest: int
) -> list[ManifestInfo]:
    """Return the manifests that are small or hold too many removed entries."""
    return [
        manifest
        for manifest in manifests
        if manifest.tombstone_count > settings.tombstone_threshold / 2 * manifest.num_entries
        or manifest.live_entry_count < entries_per_manifest // 2
    ]


def is_most_of(chosen: Iterable[ManifestInfo], manifests: Iterable[ManifestInfo]) -> bool:
    """Return whether rewriting the chosen manifests is more than half the work of rewriting all."""
    return 2 * sum(m.num_entries for m in chosen) > sum(m.num_entries for m in manifests)
