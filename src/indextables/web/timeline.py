"""The versions of a table in a row: what each did, how many bytes and splits the table had then; and what merges did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log10

from indextables.inspect.figures import MergeFigure, VersionFigure
from indextables.model.conflicts import Operation
from indextables.web.numbers import decades, number, plural, round_top, short, size
from indextables.web.svg import LETTER, Markup, drawing, element, joined, label, rect

WIDTH = 880.0
_LEFT, _RIGHT = 76.0, 12.0
_KINDS = {
    Operation.APPEND: "write",
    Operation.MERGE: "merge",
    Operation.OVERWRITE: "replace",
    Operation.REPLACE_WHERE: "replace",
    Operation.RESTORE: "replace",
    Operation.DELETE: "remove",
    Operation.DROP: "remove",
    Operation.PURGE: "remove",
}
_LEGEND = {
    "write": "write",
    "merge": "merge",
    "replace": "overwrite, restore",
    "remove": "delete, drop, purge",
    "other": "other",
}


def timeline_chart(versions: Sequence[VersionFigure]) -> Markup:
    """Bytes and splits of each version, in the colour of what it did."""
    plots = [
        _bars(versions, [v.size_bytes for v in versions], top=34, height=130, shown=size),
        _bars(versions, [v.splits for v in versions], top=206, height=84, shown=short),
    ]
    names = [
        label(_LEFT, 24, "bytes in the table", class_="name"),
        label(_LEFT, 196, "splits in the table", class_="name"),
    ]
    return drawing(WIDTH, 350, *names, *plots, _version_axis(versions, 292), _legend(330), title="Timeline of versions")


def _kind(figure: VersionFigure) -> str:
    return _KINDS.get(Operation(figure.operation), "other") if figure.operation in set(Operation) else "other"


def _place(index: int, count: int) -> tuple[float, float]:
    """Where the bar of a version starts, and its width."""
    pitch = min(36.0, (WIDTH - _LEFT - _RIGHT) / max(1, count))
    return _LEFT + index * pitch, pitch * 0.78


def _bars(
    versions: Sequence[VersionFigure],
    values: Sequence[int | None],
    *,
    top: float,
    height: float,
    shown: Callable[[float], str],
) -> Markup:
    highest = round_top(max((v for v in values if v is not None), default=0))
    parts = (0.0, 0.5, 1.0) if highest % 2 == 0 else (0.0, 1.0)
    lines = [_gridline(top + height * (1 - part), shown(highest * part)) for part in parts]
    bars = []
    for index, (figure, value) in enumerate(zip(versions, values, strict=True)):
        x, width = _place(index, len(versions))
        if value is None:
            bars.append(rect(x, top + height - 6, width, 6, title=f"{_told(figure)}: no longer known", class_="gone"))
            continue
        tall = max(1.0, height * value / highest) if value else 0.0
        bars.append(rect(x, top + height - tall, width, tall, title=_told(figure), class_=_kind(figure), rx=1.5))
    return joined(*lines, *bars)


def _gridline(y: float, value: str) -> Markup:
    line = element("line", x1=_LEFT, y1=y, x2=WIDTH - _RIGHT, y2=y, class_="grid")
    return joined(line, label(_LEFT - 8, y + 4, value, text_anchor="end"))


def _told(figure: VersionFigure) -> str:
    held = "" if figure.splits is None else f"; {plural(figure.splits, 'split')}, {size(figure.size_bytes or 0)}"
    when = "" if figure.at is None else f", {figure.at:%Y-%m-%d %H:%M:%S}"
    return f"version {figure.version}{when}: {figure.operation}{held}"


def _version_axis(versions: Sequence[VersionFigure], y: float) -> Markup:
    """The numbers of the versions, as many as fit."""
    widest = len(str(versions[-1].version)) if versions else 1
    _, width = _place(0, len(versions))
    every = max(1, round((widest + 1) * 7 / (width / 0.78) + 0.49))
    return joined(
        *(
            label(sum(_place(i, len(versions))) - width / 2, y + 12, figure.version, text_anchor="middle")
            for i, figure in enumerate(versions)
            if i % every == 0
        )
    )


def _legend(y: float) -> Markup:
    parts, x = [], _LEFT
    for kind, name in _LEGEND.items():
        parts += [rect(x, y - 9, 10, 10, class_=kind, rx=1.5), label(x + 15, y, name)]
        x += 34 + len(name) * LETTER
    return joined(*parts)


def merges_chart(merges: Sequence[MergeFigure]) -> Markup:
    """Every split that went into a merge and every one that came out, by its size."""
    sizes = [max(1, s) for merge in merges for s in (*merge.before, *merge.after)]
    low, high = decades(min(sizes), max(sizes))
    left, right, pitch = 300.0, WIDTH - 30, 54.0

    def x(value: int) -> float:
        return left + (right - left) * (log10(max(1, value)) - low) / (high - low)

    bottom = 20 + pitch * len(merges)
    parts = []
    for power in range(low, high + 1):
        parts.append(element("line", x1=x(10**power), y1=10, x2=x(10**power), y2=bottom, class_="grid"))
        parts.append(label(x(10**power), bottom + 16, size(10**power), text_anchor="middle"))
    for index, merge in enumerate(merges):
        y = 26 + pitch * index
        for offset, what, found, kind in ((0, "before", merge.before, "write"), (20, "after", merge.after, "merge")):
            told = f"{plural(len(found), 'split')}, {size(sum(found))}"
            parts.append(label(118, y + offset + 4, what, text_anchor="end", class_="name" if offset else None))
            parts.append(label(126, y + offset + 4, told, room=left - 134))
            parts += [element("circle", cx=x(s), cy=y + offset, r=4.5, class_=f"{kind} dot") for s in found]
        parts.append(label(8, y + 14, f"v{number(merge.version)}", class_="strong"))
    return drawing(WIDTH, bottom + 26, *parts, title="Sizes of splits before and after each merge")
