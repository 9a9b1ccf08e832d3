"""Numbers as people read them."""

from __future__ import annotations

from math import ceil, floor, log10

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def size(count: float) -> str:
    """Bytes with a unit: 1.2 MB."""
    value, unit = float(count), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.0f} {_UNITS[unit]}" if unit == 0 or value >= 99.5 else f"{value:.1f} {_UNITS[unit]}"


def number(count: int) -> str:
    """A whole number with thousands set apart."""
    return f"{count:,}"


def short(count: float) -> str:
    """A number in a few letters: 1.2M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= limit:
            return f"{count / limit:.1f}".removesuffix(".0") + unit
    return f"{count:g}"


def plural(count: int, what: str) -> str:
    """So many of something."""
    return f"{number(count)} {what}{'' if count == 1 else 's'}"


def round_top(highest: float) -> float:
    """The end of an axis: the next round number."""
    if highest <= 0:
        return 1.0
    step: float = 10.0 ** floor(log10(highest))
    return next((m * step for m in (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0) if m * step >= highest), 10.0 * step)


def decades(lowest: float, highest: float) -> tuple[int, int]:
    """The powers of ten that an axis of logarithms runs between."""
    low = floor(log10(max(1.0, lowest)))
    return low, max(low + 1, ceil(log10(max(1.0, highest))))
