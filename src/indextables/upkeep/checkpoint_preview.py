"""What a checkpoint would be of, without writing it."""

from __future__ import annotations

from math import ceil

from indextables.config.state import CheckpointSettings, StateWriteSettings
from indextables.log.checkpoint.checkpointer import CheckpointReport
from indextables.log.checkpoint.legacy import checkpoint_header
from indextables.log.checkpoint.state_files import StateFiles
from indextables.log.transaction_log import TransactionLog
from indextables.model.protocol import SUPPORTED_VERSION
from indextables.model.state import is_compact
from indextables.wire.last_checkpoint import AVRO_STATE


def preview(
    log: TransactionLog, *, compact: bool, checkpoint: CheckpointSettings, writing: StateWriteSettings
) -> CheckpointReport:
    """The checkpoint that would be written; of a version that has one already, that one. Nothing is changed."""
    snapshot = log.fresh()
    per_manifest = writing.entries_per_manifest
    source = snapshot.base.source
    version, files = log.checkpoint_version(snapshot), snapshot.files(columns=["path"]).num_rows
    manifests = ceil(files / per_manifest)
    if checkpoint.format == "avro" and isinstance(source, StateFiles):
        done = snapshot.base.header.version == version
        if compact and done and not is_compact(source.state, entries_per_manifest=per_manifest):
            version += 1
        elif not compact or done:
            manifests = len(source.state.manifests) + ceil(len(snapshot.delta.added) / per_manifest)
    header, avro = snapshot.header, checkpoint.format == "avro"
    others = 2 + len(header.txns) + len(header.skips) if avro else len(checkpoint_header(header))
    return CheckpointReport(
        version=version,
        format=AVRO_STATE if avro else checkpoint.format,
        num_files=files,
        num_actions=files + others,
        protocol_version=max(header.protocol.min_reader_version, SUPPORTED_VERSION if avro else 0),
        num_manifests=manifests if avro else 0,
        written=False,
    )
