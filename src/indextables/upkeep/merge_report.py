"""What a merge did."""

from __future__ import annotations

from typing import Any

from indextables.model.report import Report


class MergeReport(Report, frozen=True):
    """The figures of a merge. `version` is the last version it committed; its groups may have become several."""

    table_path: str
    status: str
    merged_files: int
    merge_groups: int
    original_size_bytes: int
    merged_size_bytes: int
    skipped_files: int
    version: int | None
    message: str
    sources: tuple[dict[str, Any], ...] = ()
    """Of a dry run: the splits that would be merged."""
    skipped: tuple[dict[str, Any], ...] = ()
    """Splits that could not be read, and why; they stay in the table and are left alone for a while."""
    dropped: tuple[dict[str, Any], ...] = ()
    """Groups given up because another writer had changed or removed their splits."""
