"""What one search costs: how many splits are left after each kind of pruning, and how little of those is read."""

from __future__ import annotations

from indextables.scan.explain import ScanReport
from indextables.web.numbers import number, plural, size
from indextables.web.svg import Markup, drawing, joined, label, rect

_WIDTH = 880.0
_LEFT, _ROOM, _LINE = 236.0, 470.0, 28.0


def cost_chart(report: ScanReport) -> Markup:
    """Two groups of bars: splits, and bytes of the splits that were opened."""
    all_splits = report.splits_considered
    in_partitions = all_splits - report.splits_pruned_by_partition
    groups: list[tuple[str, int, int, str, str]] = [
        ("splits in the table", all_splits, all_splits, number(all_splits), "empty"),
        ("left by partition values", in_partitions, all_splits, number(in_partitions), "write"),
        (
            "left by column bounds",
            in_partitions - report.splits_skipped_by_statistics,
            all_splits,
            number(in_partitions - report.splits_skipped_by_statistics),
            "write",
        ),
        (
            "bytes in opened splits",
            report.bytes_in_opened_splits,
            report.bytes_in_opened_splits,
            f"{size(report.bytes_in_opened_splits)} in {plural(report.splits_opened, 'split')}",
            "empty",
        ),
        (
            "bytes read",
            report.bytes_read,
            report.bytes_in_opened_splits,
            f"{size(report.bytes_read)} in {plural(report.requests, 'request')}",
            "merge",
        ),
    ]
    lines = [_line(8 + _LINE * index + (10 if index > 2 else 0), *group) for index, group in enumerate(groups)]
    return drawing(_WIDTH, 24 + _LINE * len(groups), *lines, title="Cost of a search")


def _line(y: float, name: str, value: int, whole: int, told: str, kind: str) -> Markup:
    width = _ROOM * min(1.0, value / whole) if whole else 0.0
    return joined(
        label(_LEFT - 10, y + 15, name, text_anchor="end"),
        rect(_LEFT, y + 3, max(width, 2.0 if value else 0.0), _LINE - 12, class_=kind, rx=1.5),
        label(_LEFT + width + 8, y + 15, told),
    )
