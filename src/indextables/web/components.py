"""What the bytes of splits are spent on, column by column."""

from __future__ import annotations

from collections.abc import Sequence

from indextables.table.figures import ComponentFigure
from indextables.web.numbers import size
from indextables.web.svg import LETTER, Markup, drawing, joined, label, rect

_WIDTH = 880.0
_LEFT, _RIGHT = 170.0, 84.0
_LINE = 26.0
KINDS = {
    "rows": "rows (Parquet)",
    "term": "terms",
    "idx": "postings",
    "pos": "positions",
    "fieldnorm": "lengths",
    "hot": "hot section",
    "footer": "footer",
}
_SHARED = "(all columns)"


def components_chart(components: Sequence[ComponentFigure]) -> Markup:
    """A bar for each column, the largest first, and one for what belongs to no column."""
    bars: dict[str, dict[str, int]] = {}
    for figure in components:
        own = bars.setdefault(figure.field if figure.field is not None else _SHARED, {})
        kind = figure.component if figure.component in KINDS else "footer"
        own[kind] = own.get(kind, 0) + figure.size_bytes
    order = sorted(bars, key=lambda name: (name == _SHARED, -sum(bars[name].values())))
    highest = max((sum(own.values()) for own in bars.values()), default=1) or 1
    lines = [_line(name, bars[name], highest, 16 + _LINE * index) for index, name in enumerate(order)]
    bottom = 16 + _LINE * len(order)
    return drawing(_WIDTH, bottom + 36, *lines, _legend(bottom + 22), title="Bytes by column and component")


def _line(name: str, own: dict[str, int], highest: int, y: float) -> Markup:
    parts, x = [label(_LEFT - 8, y + 13, name, room=_LEFT - 12, text_anchor="end")], _LEFT
    for kind in KINDS:
        width = (_WIDTH - _LEFT - _RIGHT) * own.get(kind, 0) / highest
        if width:
            title = f"{name}, {KINDS[kind]}: {size(own[kind])}"
            parts.append(rect(x, y, width, _LINE - 8, class_=f"part-{kind}", title=title))
            x += width
    return joined(*parts, label(x + 6, y + 13, size(sum(own.values()))))


def _legend(y: float) -> Markup:
    parts, x = [], 8.0
    for kind, name in KINDS.items():
        parts += [rect(x, y - 9, 10, 10, class_=f"part-{kind}"), label(x + 15, y, name)]
        x += 32 + len(name) * LETTER
    return joined(*parts)
