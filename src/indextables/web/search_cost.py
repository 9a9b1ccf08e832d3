"""What one search costs: how many splits are left after each kind of pruning, and how little of those is read."""

from __future__ import annotations

from indextables.scan.explain import ScanReport
from indextables.web.numbers import number, plural, size
from indextables.web.svg import Markup, drawing, joined, label, rect

_WIDTH = 880.0
_LEFT, _ROOM, _LINE = 236.0, 470.0, 28.0


def cost_chart(finding: ScanReport, reading: ScanReport) -> Markup:
    """Two groups of bars: splits, and bytes of those that were opened, to find the rows and to read them."""
    splits, whole = finding.splits_considered, finding.bytes_in_opened_splits
    in_partitions = splits - finding.splits_pruned_by_partition
    in_bounds = in_partitions - finding.splits_skipped_by_statistics
    lines = [
        _line(0, "splits in the table", splits, splits, number(splits), "empty"),
        _line(1, "left by partition values", in_partitions, splits, number(in_partitions), "write"),
        _line(2, "left by column bounds", in_bounds, splits, number(in_bounds), "write"),
        _line(3, "bytes in opened splits", whole, whole, _told(whole, finding.splits_opened, "split"), "empty"),
        _bytes(4, "read to find the rows", finding, whole),
        _bytes(5, "read for all their columns", reading, whole),
    ]
    return drawing(_WIDTH, 24 + _LINE * len(lines), *lines, title="Cost of a search")


def _bytes(place: int, name: str, report: ScanReport, whole: int) -> Markup:
    told = _told(report.bytes_read, report.requests, "request")
    return _line(place, name, report.bytes_read, whole, told, "merge")


def _told(count: int, within: int, what: str) -> str:
    return f"{size(count)} in {plural(within, what)}"


def _line(place: int, name: str, value: int, whole: int, told: str, kind: str) -> Markup:
    y = 8 + _LINE * place + (10 if place > 2 else 0)
    width = _ROOM * min(1.0, value / whole) if whole else 0.0
    return joined(
        label(_LEFT - 10, y + 15, name, text_anchor="end"),
        rect(_LEFT, y + 3, max(width, 2.0 if value else 0.0), _LINE - 12, class_=kind, rx=1.5),
        label(_LEFT + width + 8, y + 15, told),
    )
