"""What a repair made of what there was."""

from __future__ import annotations

from msgspec import Struct

from indextables.model.report import Report


class LeftOut(Struct, frozen=True):
    """A split that is not in the new log, and why."""

    path: str
    reason: str


class RepairReport(Report, frozen=True):
    """The figures of a repair. `source_version` is None where there was no log to read."""

    source_path: str
    target_path: str
    source_version: int | None
    total_splits: int
    valid_splits: int
    missing_splits: int
    status: str
    message: str = ""
    left_out: tuple[LeftOut, ...] = ()
