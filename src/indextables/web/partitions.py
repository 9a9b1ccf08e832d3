"""The partitions of a table as a heat map: the more rows, the stronger the colour."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from indextables.inspect.figures import PartitionFigure
from indextables.inspect.inspection import in_order
from indextables.web.numbers import number, plural, short, size
from indextables.web.svg import LETTER, Markup, drawing, joined, label, rect

_WIDTH = 880.0
_CELL = 26.0
_ACROSS, _DOWN = 30, 40
"""Most values that are drawn across and down; the page says how many are left out."""


_NULL = "null"


class _Cell(Struct, frozen=True):
    rows: int = 0
    splits: int = 0
    size_bytes: int = 0

    def with_figure(self, figure: PartitionFigure) -> _Cell:
        return _Cell(self.rows + figure.rows, self.splits + figure.splits, self.size_bytes + figure.size_bytes)


class HeatMap(Struct, frozen=True):
    """A heat map and what it leaves out."""

    chart: Markup
    left_out: int


def heat_map(partitions: Sequence[PartitionFigure], columns: Sequence[str]) -> HeatMap:
    """The first partition column runs down, the second across; further ones are summed. One column fills lines."""
    cells: dict[tuple[str, str], _Cell] = {}
    for figure in partitions:
        key = _named(figure.values[0]), _named(figure.values[1]) if len(columns) > 1 else ""
        cells[key] = cells.get(key, _Cell()).with_figure(figure)
    if len(columns) == 1:
        return _one_column(cells, columns[0])
    return _two_columns(cells, columns)


def _named(value: str | None) -> str:
    return _NULL if value is None else value or "''"


def _one_column(cells: dict[tuple[str, str], _Cell], column: str) -> HeatMap:
    """Values in reading order, a line of cells after the other."""
    names = [down for down, _ in cells]
    drawn = names[-_ACROSS * _DOWN :]
    widest = max(len(name) for name in drawn)
    cell = min(150.0, max(64.0, widest * LETTER + 14))
    across = int((_WIDTH - 8) // cell)
    highest = max(found.rows for found in cells.values())
    parts = []
    for index, name in enumerate(drawn):
        x, y = 4 + cell * (index % across), 22 + (_CELL + 22) * (index // across)
        parts += [_cell(x, y, cell - 4, cells[name, ""], highest, f"{column} = {name}")]
        parts += [label(x + (cell - 4) / 2, y + _CELL + 13, name, room=cell - 6, text_anchor="middle")]
    height = 22 + (_CELL + 22) * -(-len(drawn) // across) + 4
    head = label(4, 13, column, class_="name")
    return HeatMap(drawing(_WIDTH, height, head, *parts, title=f"Rows by {column}"), len(names) - len(drawn))


def _two_columns(cells: dict[tuple[str, str], _Cell], columns: Sequence[str]) -> HeatMap:
    all_down = list(dict.fromkeys(down for down, _ in cells))
    all_across = sorted({across for _, across in cells}, key=lambda name: in_order([None if name == _NULL else name]))
    down, across = all_down[-_DOWN:], all_across[-_ACROSS:]
    left = min(190.0, 20 + max(len(name) for name in [*down, columns[0]]) * LETTER)
    cell = min(90.0, (_WIDTH - left - 4) / len(across))
    highest = max(found.rows for found in cells.values())
    parts = [label(left, 13, columns[1], class_="name"), label(4, 32, columns[0], room=left - 8, class_="name")]
    every = max(1, -(-int(max(len(name) for name in across) * LETTER + 6) // int(cell)))
    for j, name in enumerate(across):
        if j % every == 0:
            room = cell * every - 4
            parts.append(label(left + cell * j + 2, 32, name, room=room))
    for i, name in enumerate(down):
        y = 40 + _CELL * i
        parts.append(label(left - 8, y + 17, name, room=left - 12, text_anchor="end"))
        for j, other in enumerate(across):
            told = f"{columns[0]} = {name}, {columns[1]} = {other}"
            parts.append(_cell(left + cell * j, y, cell - 2, cells.get((name, other), _Cell()), highest, told))
    left_out = len(cells) - sum((a, b) in cells for a in down for b in across)
    chart = drawing(_WIDTH, 44 + _CELL * len(down), *parts, title=f"Rows by {columns[0]} and {columns[1]}")
    return HeatMap(chart, left_out)


def _cell(x: float, y: float, width: float, found: _Cell, highest: int, told: str) -> Markup:
    """One cell, with its rows written into it where they fit."""
    if not found.splits:
        return rect(x, y, width, _CELL - 2, class_="empty", rx=2, title=f"{told}: nothing")
    part = found.rows / highest if highest else 0.0
    title = f"{told}: {plural(found.rows, 'row')}, {plural(found.splits, 'split')}, {size(found.size_bytes)}"
    box = rect(x, y, width, _CELL - 2, class_="heat", rx=2, title=title, fill_opacity=0.12 + 0.88 * part)
    shown = number(found.rows) if len(number(found.rows)) * LETTER < width - 6 else short(found.rows)
    if len(shown) * LETTER > width - 2:
        return box
    tone = "on strong" if part > 0.5 else "on"
    return joined(box, label(x + width / 2, y + 16, shown, text_anchor="middle", class_=tone))
