"""Skipped splits: which are left alone for now, and how often each has failed."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from indextables.model.actions import SkipAction

SKIPPED_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("reason", pa.string()),
        pa.field("operation", pa.string()),
        pa.field("skip_count", pa.int32()),
        pa.field("skipped_at", pa.timestamp("ms", tz="UTC")),
        pa.field("retry_after", pa.timestamp("ms", tz="UTC")),
        pa.field("in_cooldown", pa.bool_(), nullable=False),
    ]
)


def in_cooldown(skip: SkipAction, *, now_ms: int) -> bool:
    """Whether the split is still to be left alone."""
    return skip.retry_after is not None and skip.retry_after > now_ms


def paths_in_cooldown(skips: Mapping[str, SkipAction], *, now_ms: int) -> dict[str, int]:
    """The splits to be left alone, and until when."""
    return {p: s.retry_after for p, s in skips.items() if s.retry_after is not None and s.retry_after > now_ms}


def without_cooling(files: pa.Table, skips: Mapping[str, SkipAction], *, now_ms: int) -> pa.Table:
    """A file list without the splits in cooldown."""
    cooling = paths_in_cooldown(skips, now_ms=now_ms)
    if not cooling:
        return files
    return files.filter(pc.invert(pc.is_in(files.column("path"), value_set=pa.array(sorted(cooling), pa.string()))))


def skipped_table(skips: Mapping[str, SkipAction], *, now_ms: int) -> pa.Table:
    """Every live skip as a row, the latest first."""
    ordered = sorted(skips.values(), key=lambda s: (-s.skip_timestamp, s.path))
    rows = [
        {
            "path": s.path,
            "reason": s.reason,
            "operation": s.operation,
            "skip_count": s.skip_count,
            "skipped_at": s.skip_timestamp,
            "retry_after": s.retry_after,
            "in_cooldown": in_cooldown(s, now_ms=now_ms),
        }
        for s in ordered
    ]
    return pa.Table.from_pylist(rows, schema=SKIPPED_SCHEMA)
