"""What the newest state or checkpoint of a table holds, and how far the table has gone beyond it."""

from __future__ import annotations

from indextables.config.state import CompactionSettings, StateWriteSettings
from indextables.log.state_files import StateFiles
from indextables.model.compaction import StateCounts, compaction_reason
from indextables.model.report import Report
from indextables.model.snapshot import Snapshot
from indextables.wire.last_checkpoint import AVRO_STATE


class StateReport(Report, frozen=True):
    """One row about a table. Without a state the figures are the table's own, and `version` is the checkpoint's, if any."""

    table_path: str
    format: str
    version: int | None
    latest_version: int
    num_files: int
    num_manifests: int
    num_tombstones: int
    tombstone_ratio: float
    total_bytes: int
    needs_compaction: bool
    num_skipped: int
    protocol_version: int


def state_report(
    snapshot: Snapshot, *, path: str, compaction: CompactionSettings, writing: StateWriteSettings
) -> StateReport:
    """The report on a snapshot."""
    source, at = snapshot.base.source, snapshot.base.header.version
    if isinstance(source, StateFiles):
        state = source.state
        counts = StateCounts(state.num_files, len(state.tombstones), len(state.manifests))
        kind, total_bytes = AVRO_STATE, state.total_bytes
    else:
        sizes = snapshot.files(columns=["size"]).column("size").to_pylist()
        counts = StateCounts(len(sizes), 0, 0)
        kind, total_bytes = ("checkpoint" if at >= 0 else "none"), sum(sizes)
    reason = compaction_reason(counts, compaction, entries_per_manifest=writing.entries_per_manifest)
    return StateReport(
        table_path=path,
        format=kind,
        version=at if at >= 0 else None,
        latest_version=snapshot.version,
        num_files=counts.live,
        num_manifests=counts.manifests,
        num_tombstones=counts.tombstones,
        tombstone_ratio=counts.tombstone_ratio,
        total_bytes=total_bytes,
        needs_compaction=reason is not None,
        num_skipped=len(snapshot.header.skips),
        protocol_version=snapshot.header.protocol.min_reader_version,
    )
