"""Markup as values: every text and attribute that goes into a page passes through here and is escaped on the way."""

from __future__ import annotations

import re
from html import escape
from typing import NewType

Markup = NewType("Markup", str)
"""Text that is markup already. Nothing but this module makes it out of other texts."""

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML or HTML document may hold; a name in a table can."""

LETTER = 7.4
"""Width of a letter of a label, in the units of a drawing; labels are cut by it before they run into each other."""


def text(value: object) -> Markup:
    """A value as text of a page."""
    return Markup(escape(_FORBIDDEN.sub("\ufffd", str(value))))


def joined(*parts: Markup) -> Markup:
    """Pieces of markup, one after the other."""
    return Markup("".join(parts))


def element(name: str, /, *children: Markup, **attributes: object) -> Markup:
    """An element. `_` in the name of an attribute is `-`, a trailing one is dropped (`class_`); None leaves it out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(_plain(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{given}>{''.join(children)}</{name}>" if children else f"<{name}{given}/>")


def label(x: float, y: float, value: object, *, room: float | None = None, **attributes: object) -> Markup:
    """A text in a drawing, cut to its room; the whole of it shows when pointed at."""
    whole = str(value)
    shown = whole if room is None else cut(whole, room)
    title = [element("title", text(whole))] if shown != whole else []
    return element("text", *title, text(shown), x=x, y=y, **attributes)


def cut(value: str, room: float) -> str:
    """A text that fits into so many units of a drawing; an ellipsis stands for what is left out."""
    letters = max(1, int(room / LETTER))
    return value if len(value) <= letters else value[: letters - 1] + "…"


def rect(x: float, y: float, width: float, height: float, *, title: str | None = None, **attributes: object) -> Markup:
    """A rectangle; its title shows when it is pointed at."""
    children = () if title is None else (element("title", text(title)),)
    return element("rect", *children, x=x, y=y, width=max(0.0, width), height=max(0.0, height), **attributes)


def drawing(width: float, height: float, *children: Markup, title: str) -> Markup:
    """A drawing with a name for those who cannot see it; it scales with the page down to a readable size."""
    return element(
        "svg",
        element("title", text(title)),
        *children,
        viewBox=f"0 0 {_plain(width)} {_plain(height)}",
        role="img",
        xmlns="http://www.w3.org/2000/svg",
    )


def _plain(value: object) -> object:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
