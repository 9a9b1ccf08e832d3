"""SVG charts of the pages: heat maps of partitions, version timelines, merges; and number
formatting.

All markup is built here: every text and attribute of a page is escaped by this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from html import escape
from math import ceil, floor, log10
from typing import NewType

from msgspec import Struct

from indextables.inspect.figures import MergeFigure, PartitionFigure, VersionFigure
from indextables.inspect.inspection import in_order
from indextables.model.conflicts import Operation

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def size(count: float) -> str:
    """Format bytes with a unit: 1.2 MB."""
    value, unit = float(count), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    if unit == 0 or value >= 99.5:
        return f"{value:.0f} {_UNITS[unit]}"
    return f"{value:.1f} {_UNITS[unit]}"


def number(count: int) -> str:
    """Format a whole number with thousands separators."""
    return f"{count:,}"


def short(count: float) -> str:
    """Format a number in a few characters: 1.2M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= limit:
            return f"{count / limit:.1f}".removesuffix(".0") + unit
    return f"{count:g}"


def plural(count: int, what: str) -> str:
    """Format a count with its noun in singular or plural."""
    return f"{number(count)} {what}{'' if count == 1 else 's'}"


def round_top(highest: float) -> float:
    """Return the upper end of an axis: the next round number."""
    if highest <= 0:
        return 1.0
    step: float = 10.0 ** floor(log10(highest))
    return next(
        (m * step for m in (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0) if m * step >= highest), 10.0 * step
    )


def decades(lowest: float, highest: float) -> tuple[int, int]:
    """Return the powers of ten that bound a logarithmic axis."""
    low = floor(log10(max(1.0, lowest)))
    return low, max(low + 1, ceil(log10(max(1.0, highest))))


Markup = NewType("Markup", str)
"""Text that is already markup. Only this module creates it from other texts."""

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML and HTML documents must not contain; names in a table can."""

_HARMLESS = re.compile("[^\x00-\x08\x0b\x0c\x0e-\x1f&<>\"'\ud800-\udfff\ufffe\uffff]*")
"""Texts that need no escaping and contain no forbidden character."""

LETTER = 7.4
"""Width of a letter in units of a drawing. Labels are truncated by it so that they do not overlap.
"""


def is_harmless(value: str) -> bool:
    """Return whether a text needs no escaping."""
    return _HARMLESS.fullmatch(value) is not None


def text(value: object) -> Markup:
    """Escape a value as text of a page. One match detects the many texts that need no escaping."""
    own = value if isinstance(value, str) else str(value)
    if is_harmless(own):
        return Markup(own)
    return Markup(escape(_FORBIDDEN.sub("\ufffd", own)))


def texts(values: Sequence[str]) -> list[Markup]:
    """Escape values as texts of a page. One match covers all of them; each is checked only if
    needed.
    """
    if is_harmless("".join(values)):
        return [Markup(value) for value in values]
    return [text(value) for value in values]


def join_markup(*parts: Markup) -> Markup:
    """Concatenate markup."""
    return Markup("".join(parts))


@lru_cache(maxsize=1024)
def _attribute(key: str) -> str:
    return f' {key.rstrip("_").replace("_", "-")}="'


def element(name: str, /, *children: Markup, **attributes: object) -> Markup:
    """Render an element.

    `_` in the name of an attribute becomes `-`, and a trailing one is removed (`class_`).
    Attributes that are None are left out.
    """
    attributes_text = "".join(
        [
            f'{_attribute(key)}{text(value if isinstance(value, str) else _plain(value))}"'
            for key, value in attributes.items()
            if value is not None
        ]
    )
    return Markup(
        f"<{name}{attributes_text}>{''.join(children)}</{name}>"
        if children
        else f"<{name}{attributes_text}/>"
    )


def elements(name: str, contents: Sequence[Markup], **attributes: object) -> list[Markup]:
    """Render an element for each content, all with the same attributes."""
    opening, _, closing = element(name, Markup("\0"), **attributes).partition("\0")
    return [Markup(f"{opening}{content}{closing}") for content in contents]


def label(
    x: float, y: float, value: object, *, width: float | None = None, **attributes: object
) -> Markup:
    """Render a text in a drawing, truncated to `width`. Its tooltip shows the full text."""
    full_text = str(value)
    words = full_text if width is None else cut(full_text, width)
    if words != full_text:
        title = [element("title", text(full_text))]
    else:
        title = []
    return element("text", *title, text(words), x=x, y=y, **attributes)


def cut(value: str, width: float) -> str:
    """Truncate a text to a width in units of a drawing, with an ellipsis."""
    letters = max(1, int(width / LETTER))
    if len(value) <= letters:
        return value
    return value[: letters - 1] + "…"


def rect(
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    title: str | None = None,
    **attributes: object,
) -> Markup:
    """Render a rectangle with a tooltip."""
    children = () if title is None else (element("title", text(title)),)
    return element(
        "rect", *children, x=x, y=y, width=max(0.0, width), height=max(0.0, height), **attributes
    )


def drawing(width: float, height: float, *children: Markup, title: str) -> Markup:
    """Render a drawing with an accessible name. It scales with the page down to a readable size."""
    return element(
        "svg",
        element("title", text(title)),
        *children,
        viewBox=f"0 0 {_plain(width)} {_plain(height)}",
        role="img",
        xmlns="http://www.w3.org/2000/svg",
    )


def _plain(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return value


_WIDTH = 880.0
_CELL = 26.0
_ACROSS, _DOWN = 30, 40
"""Maximum number of values drawn across and down; the page states how many are left out."""


_NULL = "null"


class _Cell(Struct, frozen=True):
    rows: int = 0
    splits: int = 0
    size_bytes: int = 0

    def with_figure(self, figure: PartitionFigure) -> _Cell:
        return _Cell(
            self.rows + figure.rows,
            self.splits + figure.splits,
            self.size_bytes + figure.size_bytes,
        )


class HeatMap(Struct, frozen=True):
    """A heat map and the number of values that it leaves out."""

    chart: Markup
    left_out: int


def heat_map(partitions: Sequence[PartitionFigure], columns: Sequence[str]) -> HeatMap:
    """Draw a heat map: the first partition column down, the second across. Further columns are
    summed.
    """
    cells: dict[tuple[str, str], _Cell] = {}
    for figure in partitions:
        key = (
            _value_label(figure.values[0]),
            _value_label(figure.values[1]) if len(columns) > 1 else "",
        )
        cells[key] = cells.get(key, _Cell()).with_figure(figure)
    if len(columns) == 1:
        return _one_column(cells, columns[0])
    return _two_columns(cells, columns)


def _value_label(value: str | None) -> str:
    if value is None:
        return _NULL
    return value or "''"


def _one_column(cells: dict[tuple[str, str], _Cell], column: str) -> HeatMap:
    """Draw the values of one column in reading order, in lines of cells."""
    names = [down for down, _ in cells]
    last = names[-_ACROSS * _DOWN :]
    widest = max(len(name) for name in last)
    cell = min(150.0, max(64.0, widest * LETTER + 14))
    across = int((_WIDTH - 8) // cell)
    highest = max(one.rows for one in cells.values())
    parts = []
    for index, name in enumerate(last):
        x, y = 4 + cell * (index % across), 22 + (_CELL + 22) * (index // across)
        parts += [_cell(x, y, cell - 4, cells[name, ""], highest, f"{column} = {name}")]
        parts += [
            label(x + (cell - 4) / 2, y + _CELL + 13, name, width=cell - 6, text_anchor="middle")
        ]
    height = 22 + (_CELL + 22) * -(-len(last) // across) + 4
    head = label(4, 13, column, class_="name")
    return HeatMap(
        drawing(_WIDTH, height, head, *parts, title=f"Rows by {column}"), len(names) - len(last)
    )


def _two_columns(cells: dict[tuple[str, str], _Cell], columns: Sequence[str]) -> HeatMap:
    all_down = list(dict.fromkeys(down for down, _ in cells))
    all_across = sorted(
        {across for _, across in cells},
        key=lambda name: in_order([None if name == _NULL else name]),
    )
    down, across = all_down[-_DOWN:], all_across[-_ACROSS:]
    left = min(190.0, 20 + max(len(name) for name in [*down, columns[0]]) * LETTER)
    cell = min(90.0, (_WIDTH - left - 4) / len(across))
    highest = max(one.rows for one in cells.values())
    parts = [
        label(left, 13, columns[1], class_="name"),
        label(4, 32, columns[0], width=left - 8, class_="name"),
    ]
    every = max(1, -(-int(max(len(name) for name in across) * LETTER + 6) // int(cell)))
    for j, name in enumerate(across):
        if j % every == 0:
            width = cell * every - 4
            parts.append(label(left + cell * j + 2, 32, name, width=width))
    for i, name in enumerate(down):
        y = 40 + _CELL * i
        parts.append(label(left - 8, y + 17, name, width=left - 12, text_anchor="end"))
        for j, other in enumerate(across):
            tooltip = f"{columns[0]} = {name}, {columns[1]} = {other}"
            parts.append(
                _cell(
                    left + cell * j,
                    y,
                    cell - 2,
                    cells.get((name, other), _Cell()),
                    highest,
                    tooltip,
                )
            )
    left_out = len(cells) - sum((a, b) in cells for a in down for b in across)
    chart = drawing(
        _WIDTH, 44 + _CELL * len(down), *parts, title=f"Rows by {columns[0]} and {columns[1]}"
    )
    return HeatMap(chart, left_out)


def _cell(x: float, y: float, width: float, cell: _Cell, highest: int, tooltip: str) -> Markup:
    """Draw one cell, with its row count where it fits."""
    if not cell.splits:
        return rect(x, y, width, _CELL - 2, class_="empty", rx=2, title=f"{tooltip}: nothing")
    part = cell.rows / highest if highest else 0.0
    title = f"{tooltip}: {plural(cell.rows, 'row')}, {plural(cell.splits, 'split')}, {size(cell.size_bytes)}"
    box = rect(
        x, y, width, _CELL - 2, class_="heat", rx=2, title=title, fill_opacity=0.12 + 0.88 * part
    )
    if len(number(cell.rows)) * LETTER < width - 6:
        words = number(cell.rows)
    else:
        words = short(cell.rows)
    if len(words) * LETTER > width - 2:
        return box
    tone = "on strong" if part > 0.5 else "on"
    return join_markup(box, label(x + width / 2, y + 16, words, text_anchor="middle", class_=tone))


WIDTH = 880.0
_LEFT, _RIGHT = 76.0, 12.0
_KINDS = {
    Operation.APPEND: "write",
    Operation.MERGE: "merge",
    Operation.OVERWRITE: "replace",
    Operation.REPLACE_WHERE: "replace",
    Operation.RESTORE: "replace",
    Operation.DELETE: "remove",
    Operation.ERASE: "remove",
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
    """Draw bytes and splits of each version, coloured by operation."""
    plots = [
        _bars(versions, [v.size_bytes for v in versions], top=34, height=130, axis_text=size),
        _bars(versions, [v.splits for v in versions], top=206, height=84, axis_text=short),
    ]
    names = [
        label(_LEFT, 24, "bytes in the table", class_="name"),
        label(_LEFT, 196, "splits in the table", class_="name"),
    ]
    return drawing(
        WIDTH,
        350,
        *names,
        *plots,
        _version_axis(versions, 292),
        _legend(330),
        title="Timeline of versions",
    )


def _kind(figure: VersionFigure) -> str:
    if figure.operation in set(Operation):
        return _KINDS.get(Operation(figure.operation), "other")
    return "other"


def _place(index: int, count: int) -> tuple[float, float]:
    """Return the position and the width of a version's bar."""
    pitch = min(36.0, (WIDTH - _LEFT - _RIGHT) / max(1, count))
    return _LEFT + index * pitch, pitch * 0.78


def _bars(
    versions: Sequence[VersionFigure],
    values: Sequence[int | None],
    *,
    top: float,
    height: float,
    axis_text: Callable[[float], str],
) -> Markup:
    highest = round_top(max((v for v in values if v is not None), default=0))
    parts = (0.0, 0.5, 1.0) if highest % 2 == 0 else (0.0, 1.0)
    lines = [_gridline(top + height * (1 - part), axis_text(highest * part)) for part in parts]
    bars = []
    for index, (figure, value) in enumerate(zip(versions, values, strict=True)):
        x, width = _place(index, len(versions))
        if value is None:
            bars.append(
                rect(
                    x,
                    top + height - 6,
                    width,
                    6,
                    title=f"{_tooltip(figure)}: no longer known",
                    class_="gone",
                )
            )
            continue
        tall = max(1.0, height * value / highest) if value else 0.0
        bars.append(
            rect(
                x,
                top + height - tall,
                width,
                tall,
                title=_tooltip(figure),
                class_=_kind(figure),
                rx=1.5,
            )
        )
    return join_markup(*lines, *bars)


def _gridline(y: float, value: str) -> Markup:
    line = element("line", x1=_LEFT, y1=y, x2=WIDTH - _RIGHT, y2=y, class_="grid")
    return join_markup(line, label(_LEFT - 8, y + 4, value, text_anchor="end"))


def _tooltip(figure: VersionFigure) -> str:
    if figure.splits is None:
        content = ""
    else:
        content = f"; {plural(figure.splits, 'split')}, {size(figure.size_bytes or 0)}"
    if figure.at is None:
        when = ""
    else:
        when = f", {figure.at:%Y-%m-%d %H:%M:%S}"
    return f"version {figure.version}{when}: {figure.operation}{content}"


def _version_axis(versions: Sequence[VersionFigure], y: float) -> Markup:
    """Draw the version numbers that fit."""
    widest = len(str(versions[-1].version)) if versions else 1
    _, width = _place(0, len(versions))
    every = max(1, round((widest + 1) * 7 / (width / 0.78) + 0.49))
    return join_markup(
        *(
            label(
                sum(_place(i, len(versions))) - width / 2,
                y + 12,
                figure.version,
                text_anchor="middle",
            )
            for i, figure in enumerate(versions)
            if i % every == 0
        )
    )


def _legend(y: float) -> Markup:
    parts, x = [], _LEFT
    for kind, name in _LEGEND.items():
        parts += [rect(x, y - 9, 10, 10, class_=kind, rx=1.5), label(x + 15, y, name)]
        x += 34 + len(name) * LETTER
    return join_markup(*parts)


def merges_chart(merges: Sequence[MergeFigure]) -> Markup:
    """Draw the splits that entered and left each merge, by size."""
    sizes = [max(1, s) for merge in merges for s in (*merge.before, *merge.after)]
    low, high = decades(min(sizes), max(sizes))
    left, right, pitch = 300.0, WIDTH - 30, 54.0

    def x(value: int) -> float:
        return left + (right - left) * (log10(max(1, value)) - low) / (high - low)

    bottom = 20 + pitch * len(merges)
    parts = []
    for power in range(low, high + 1):
        parts.append(
            element("line", x1=x(10**power), y1=10, x2=x(10**power), y2=bottom, class_="grid")
        )
        parts.append(label(x(10**power), bottom + 16, size(10**power), text_anchor="middle"))
    for index, merge in enumerate(merges):
        y = 26 + pitch * index
        for offset, what, split_sizes, kind in (
            (0, "before", merge.before, "write"),
            (20, "after", merge.after, "merge"),
        ):
            tooltip = f"{plural(len(split_sizes), 'split')}, {size(sum(split_sizes))}"
            parts.append(
                label(
                    118, y + offset + 4, what, text_anchor="end", class_="name" if offset else None
                )
            )
            parts.append(label(126, y + offset + 4, tooltip, width=left - 134))
            parts += [
                element("circle", cx=x(s), cy=y + offset, r=4.5, class_=f"{kind} dot")
                for s in split_sizes
            ]
        parts.append(label(8, y + 14, f"v{number(merge.version)}", class_="strong"))
    return drawing(WIDTH, bottom + 26, *parts, title="Sizes of splits before and after each merge")
